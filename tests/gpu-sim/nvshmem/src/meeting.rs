//! How the processes meet: a small shared segment named after the unique id, with a barrier.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

pub const MOST_PES: usize = 64;
const NAP: Duration = Duration::from_micros(100);

/// Shared by all PEs; zeroed at first.
#[repr(C)]
pub struct Board {
    arrived: AtomicU32,
    round: AtomicU32,
    /// What each PE says in a collective call.
    said: [AtomicU64; MOST_PES],
}

/// One PE's view of it.
pub struct Meeting {
    board: &'static Board,
    pub pe: usize,
    pub pes: usize,
}

/// Maps shared memory of this name, which is made by whoever comes first.
pub fn map(name: &str, bytes: usize) -> io::Result<*mut u8> {
    let name = std::ffi::CString::new(format!("/gpu-sim-{name}")).expect("no NUL in it");
    // SAFETY: plain system calls; the mapping is at an address of the kernel's choice.
    unsafe {
        let file = libc::shm_open(name.as_ptr(), libc::O_RDWR | libc::O_CREAT, 0o600);
        if file < 0 || libc::ftruncate(file, bytes as libc::off_t) != 0 {
            return Err(io::Error::last_os_error());
        }
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        let mapped = libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, file, 0);
        libc::close(file);
        if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(mapped.cast()) }
    }
}

/// Takes the name away: what is mapped stays.
pub fn unlink(name: &str) {
    let name = std::ffi::CString::new(format!("/gpu-sim-{name}")).expect("no NUL in it");
    // SAFETY: plain system call.
    unsafe { libc::shm_unlink(name.as_ptr()) };
}

impl Meeting {
    pub fn join(name: &str, pe: usize, pes: usize) -> io::Result<Meeting> {
        // SAFETY: the segment has that size, is zeroed, and is never unmapped.
        let board = unsafe { &*map(name, size_of::<Board>())?.cast::<Board>() };
        Ok(Meeting { board, pe, pes })
    }

    /// Returns when all PEs have come.
    pub fn barrier(&self) {
        let round = self.board.round.load(Ordering::SeqCst);
        if self.board.arrived.fetch_add(1, Ordering::SeqCst) + 1 == self.pes as u32 {
            self.board.arrived.store(0, Ordering::SeqCst);
            self.board.round.fetch_add(1, Ordering::SeqCst);
        }
        while self.board.round.load(Ordering::SeqCst) == round {
            std::thread::sleep(NAP);
        }
    }

    /// What all PEs say.
    pub fn gather(&self, own: u64) -> Vec<u64> {
        self.board.said[self.pe].store(own, Ordering::SeqCst);
        self.barrier();
        let all = self.board.said[..self.pes].iter().map(|word| word.load(Ordering::SeqCst)).collect();
        self.barrier();
        all
    }
}
