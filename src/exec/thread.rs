//! Threads of our own, on which the program's signal handlers do not run.

use crate::error::{Error, Result};
use std::mem::MaybeUninit;
use std::thread::{Builder, JoinHandle};

/// Starts a thread with all signals blocked.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the sets are filled before they are read. The new thread inherits what is blocked here.
    unsafe {
        let mut all = MaybeUninit::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let started = Builder::new().name(name.into()).spawn(body);
    // SAFETY: the call above stored what was blocked before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    started.map_err(|error| Error::os(format_args!("cannot start the thread {name}"), &error))
}
