//! The atomics and the futex that shared memory is synchronised with. The model checker swaps this file for its own.

pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use std::time::Duration;

/// Sleeps until [`futex_wake`] on `word`, unless it no longer holds `expected`; at most `most`. May wake early.
pub fn futex_wait(word: &AtomicU32, expected: u32, most: Duration) {
    let timeout = libc::timespec { tv_sec: most.as_secs() as libc::time_t, tv_nsec: most.subsec_nanos().into() };
    // SAFETY: `word` and `timeout` outlive the call. The futex is not private: other processes map the same page.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            expected,
            &timeout as *const libc::timespec,
            std::ptr::null::<u32>(),
            0,
        );
    }
}

/// Wakes everyone who sleeps on `word`.
pub fn futex_wake(word: &AtomicU32) {
    // SAFETY: the kernel only uses the address of `word` to find its sleepers.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX);
    }
}
