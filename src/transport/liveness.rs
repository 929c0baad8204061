//! Whether another process still runs: a `pidfd`, which also tells of a zombie, and is never another process's.

use crate::error::{Error, Result};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A watch on one process.
#[derive(Debug)]
pub struct Watch {
    pid: u32,
    pidfd: OwnedFd,
}

impl Watch {
    /// Starts to watch a process that is known to run.
    pub fn new(pid: u32) -> Result<Watch> {
        // SAFETY: plain system call; the descriptor that comes back is ours alone.
        let pidfd = unsafe {
            match libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) {
                -1 => {
                    let what = format!("cannot watch process {pid} (pidfd_open, Linux 5.3 or later)");
                    return Err(Error::os(what, &io::Error::last_os_error()));
                }
                fd => OwnedFd::from_raw_fd(fd as i32),
            }
        };
        Ok(Watch { pid, pidfd })
    }

    /// The process watched.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether the process has ended.
    pub fn has_ended(&self) -> bool {
        let mut entry = libc::pollfd { fd: self.pidfd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry, and no time to wait.
        unsafe { libc::poll(&mut entry, 1, 0) > 0 }
    }
}
