//! The one way to wait: a rank sleeps on its own bell, and whoever has news for it rings.
//!
//! Publishing news costs no system call while nobody sleeps. The two fences make it impossible that the ringer
//! misses the sleeper while the sleeper misses the news; `tests/loom.rs` checks that for every interleaving.

use super::sync::{AtomicU32, Ordering, fence, futex_wait, futex_wake};
use std::time::Duration;

/// A place in shared memory where one rank sleeps until there is news for it.
#[repr(C, align(64))]
pub struct Bell {
    rung: AtomicU32,
    sleepers: AtomicU32,
}

impl Bell {
    /// A bell nobody sleeps on. In shared memory, zeroed bytes are one.
    #[cfg(loom)]
    pub fn new() -> Bell {
        Bell { rung: AtomicU32::new(0), sleepers: AtomicU32::new(0) }
    }

    /// Wakes the owner if it sleeps. The news must have been stored before, with any order.
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) != 0 {
            self.rung.fetch_add(1, Ordering::Release);
            futex_wake(&self.rung);
        }
    }

    /// Sleeps until the bell rings, at most `most`, unless `has_news` finds something first. May wake early.
    pub fn sleep_unless(&self, most: Duration, has_news: impl FnOnce() -> bool) {
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        let seen = self.rung.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        if !has_news() {
            futex_wait(&self.rung, seen, most);
        }
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }
}
