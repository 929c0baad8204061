//! The copy threads of one handle: each takes its part of every large copy.

use super::thread;
use crate::copy::Kernel;
use crate::error::{Result, catch_panic};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Copies shorter than this are not worth waking anybody for.
const LEAST_BYTES: usize = 256 << 10;

/// Threads that copy together with the one that asks.
#[derive(Debug)]
pub struct Team {
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Counts the copies, so that a helper takes each one once.
    copies: u64,
    copy: Option<Copy>,
    /// Helpers that have not finished the current copy.
    busy: usize,
    /// A helper ran into a bug.
    panicked: bool,
    stop: bool,
}

#[derive(Clone, Copy, Debug)]
struct Copy {
    kernel: Kernel,
    bytes_in_all: usize,
    dst: *mut u8,
    src: *const u8,
}

// SAFETY: whoever starts a copy waits until every helper has finished with the pointers.
unsafe impl Send for Copy {}

impl Copy {
    /// # Safety
    /// As [`Kernel::run`].
    unsafe fn run_part(&self, part: usize, parts: usize) {
        if let Some(nest) = self.kernel.nest().part(part, parts) {
            // SAFETY: a part touches only bytes of the whole, and parts do not overlap.
            unsafe { Kernel::new(nest, self.bytes_in_all).run(self.dst, self.src) };
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn help(&self, part: usize, parts: usize) {
        let mut seen = 0;
        let mut state = self.lock();
        loop {
            if state.stop {
                return;
            }
            match state.copy {
                Some(copy) if state.copies != seen => {
                    seen = state.copies;
                    drop(state);
                    let copied = catch_panic(|| {
                        // SAFETY: the caller of `Team::run` vouches for the copy and waits for this part.
                        unsafe { copy.run_part(part, parts) };
                        Ok(())
                    });
                    state = self.lock();
                    state.panicked |= copied.is_err();
                    state.busy -= 1;
                    self.changed.notify_all();
                }
                _ => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl Team {
    /// A team of `threads` in all, the caller among them.
    pub fn new(threads: u32) -> Result<Team> {
        let mut team = Team { shared: Arc::new(Shared::default()), helpers: Vec::new() };
        for part in 1..threads as usize {
            let shared = Arc::clone(&team.shared);
            team.helpers.push(thread::spawn("boxwise-copy", move || shared.help(part, threads as usize))?);
        }
        Ok(team)
    }

    /// Runs a copy, by all threads when it is large.
    ///
    /// # Safety
    /// As [`Kernel::run`].
    pub unsafe fn run(&self, kernel: &Kernel, bytes_in_all: usize, dst: *mut u8, src: *const u8) {
        if self.helpers.is_empty() || kernel.nest().bytes() < LEAST_BYTES {
            // SAFETY: the caller vouches for the copy.
            return unsafe { kernel.run(dst, src) };
        }
        let copy = Copy { kernel: *kernel, bytes_in_all, dst, src };
        let mut state = self.shared.lock();
        state.copies += 1;
        state.copy = Some(copy);
        state.busy = self.helpers.len();
        drop(state);
        self.shared.changed.notify_all();
        // Whatever happens here, the helpers use the caller's memory until they have finished.
        let copied = catch_panic(|| {
            // SAFETY: the caller vouches for the copy.
            unsafe { copy.run_part(0, self.helpers.len() + 1) };
            Ok(())
        });
        let mut state = self.shared.lock();
        state.panicked |= copied.is_err();
        while state.busy > 0 {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.copy = None;
        assert!(!state.panicked, "a copy thread panicked");
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        for helper in self.helpers.drain(..) {
            // A helper that panicked has nothing more to do either.
            let _ = helper.join();
        }
    }
}
