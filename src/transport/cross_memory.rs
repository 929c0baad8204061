//! Cross-memory attach: one process reads the plain memory of another with `process_vm_readv`.

use crate::error::{Error, Result, Status};
use std::io;

/// The most runs one system call takes.
const BATCH: usize = 512;

/// Reads runs of equal length from another process, many with each system call.
pub struct Reader {
    pid: u32,
    run_bytes: usize,
    count: usize,
    local: [libc::iovec; BATCH],
    remote: [libc::iovec; BATCH],
}

impl Reader {
    /// A reader of runs of `run_bytes` bytes from the process.
    pub fn new(pid: u32, run_bytes: usize) -> Reader {
        let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        Reader { pid, run_bytes, count: 0, local: [none; BATCH], remote: [none; BATCH] }
    }

    /// Adds a run; reads when enough have come together.
    ///
    /// # Safety
    /// `dst` is valid for writes of a run until the next [`Reader::flush`] returns.
    pub unsafe fn read(&mut self, dst: *mut u8, remote_src: u64) -> Result<()> {
        self.local[self.count] = libc::iovec { iov_base: dst.cast(), iov_len: self.run_bytes };
        self.remote[self.count] = libc::iovec { iov_base: remote_src as *mut _, iov_len: self.run_bytes };
        self.count += 1;
        if self.count == BATCH { self.flush() } else { Ok(()) }
    }

    /// Reads what has been added so far.
    pub fn flush(&mut self) -> Result<()> {
        let mut first = 0;
        while first < self.count {
            let batch = self.count - first;
            // SAFETY: the caller of `read` vouched for the local runs; the kernel checks the remote ones.
            let read = unsafe {
                libc::process_vm_readv(
                    self.pid as libc::pid_t,
                    self.local[first..].as_ptr(),
                    batch as libc::c_ulong,
                    self.remote[first..].as_ptr(),
                    batch as libc::c_ulong,
                    0,
                )
            };
            if read <= 0 {
                let error = io::Error::last_os_error();
                if read < 0 && error.raw_os_error() == Some(libc::EINTR) {
                    continue;
                }
                self.count = 0;
                let what = format!("process_vm_readv from process {}", self.pid);
                return Err(match error.raw_os_error() {
                    Some(libc::ESRCH) => Error::new(Status::PeerLost, format!("{what}: {error}")),
                    _ => Error::os(what, &error),
                });
            }
            // A call moves at most 2 GiB and may stop early: go on where it stopped, also within a run.
            let mut moved = read as usize;
            while first < self.count && moved >= self.local[first].iov_len {
                moved -= self.local[first].iov_len;
                first += 1;
            }
            if moved > 0 {
                for list in [&mut self.local, &mut self.remote] {
                    list[first].iov_base = list[first].iov_base.wrapping_byte_add(moved);
                    list[first].iov_len -= moved;
                }
            }
        }
        self.count = 0;
        Ok(())
    }
}

/// What a probe must find: a word in the private memory of every process that uses the library.
static PROBE: u64 = 0x626f_7877_6973_6521;

/// The address of this process's probe word.
pub fn probe_address() -> u64 {
    &PROBE as *const u64 as u64
}

/// Whether the kernel lets this process read another's memory: tries it on that one's probe word.
pub fn probe(pid: u32, address: u64) -> bool {
    let mut word = 0u64;
    let mut reader = Reader::new(pid, size_of::<u64>());
    // SAFETY: `word` lives until after the flush.
    let read = unsafe { reader.read((&raw mut word).cast(), address) }.and_then(|()| reader.flush());
    read.is_ok() && word == PROBE
}
