//! Whether another process still runs: a `pidfd`, which also tells of a zombie, and is never another process's.

use super::socket::is_ready;
use crate::error::{Error, Result, Status};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// A watch on one process.
#[derive(Debug)]
pub struct Watch {
    pid: u32,
    pidfd: OwnedFd,
}

/// One watch for each process, however many communicators it is in.
static WATCHES: Mutex<BTreeMap<u32, Weak<Watch>>> = Mutex::new(BTreeMap::new());

impl Watch {
    /// The watch on a process that is known to run.
    pub fn on(pid: u32) -> Result<Arc<Watch>> {
        let mut watches = WATCHES.lock().unwrap_or_else(PoisonError::into_inner);
        // A watch on an earlier process of that number does not count.
        if let Some(watch) = watches.get(&pid).and_then(Weak::upgrade).filter(|watch| !watch.has_ended()) {
            return Ok(watch);
        }
        watches.retain(|_, watch| watch.strong_count() > 0);
        let watch = Arc::new(Watch::open(pid)?);
        watches.insert(pid, Arc::downgrade(&watch));
        Ok(watch)
    }

    fn open(pid: u32) -> Result<Watch> {
        // SAFETY: plain system call; the descriptor that comes back is ours alone.
        let pidfd = unsafe {
            match libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) {
                -1 => {
                    let error = io::Error::last_os_error();
                    return Err(match error.raw_os_error() {
                        Some(libc::ESRCH) => Error::new(Status::PeerLost, format!("process {pid} has ended")),
                        _ => Error::os(
                            format_args!("cannot watch process {pid} (pidfd_open, Linux 5.3 or later)"),
                            &error,
                        ),
                    });
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
        is_ready(self.pidfd.as_raw_fd(), libc::POLLIN, Duration::ZERO)
    }
}
