//! A host stream: a thread that runs queued operations in order while the caller computes.

use super::buffers::Buffers;
use super::program::Program;
use super::thread;
use crate::error::{Error, Result};
use crate::transport::{Operation, mark_own_thread};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Operations that can be queued; whoever queues more waits for the oldest.
const CAPACITY: usize = 1024;

/// Operations in order, on a thread of their own.
///
/// Dropping it waits until everything queued has ended.
#[derive(Debug)]
pub struct Stream {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    queue: VecDeque<Job>,
    running: bool,
    closed: bool,
    /// The first failure since the last synchronisation.
    failure: Option<Error>,
}

/// One operation, as it was queued. An error means that its caller has been told already.
#[derive(Debug)]
pub(super) struct Job {
    pub program: Arc<Program>,
    pub operation: Operation,
    pub buffers: Result<Buffers>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        mark_own_thread();
        let mut state = self.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                state.running = true;
                drop(state);
                self.changed.notify_all();
                let told = job.buffers.as_ref().map(drop).map_err(Error::clone);
                let result = job.program.run(job.operation, job.buffers);
                drop(job.program);
                state = self.lock();
                state.running = false;
                match result {
                    Err(error) if told != Err(error.clone()) => {
                        state.failure.get_or_insert(error);
                    }
                    _ => {}
                }
                self.changed.notify_all();
            } else if state.closed {
                return;
            } else {
                state = self.wait(state);
            }
        }
    }
}

impl Stream {
    /// A stream with nothing queued.
    pub fn new() -> Result<Stream> {
        let state = State { queue: VecDeque::with_capacity(CAPACITY), running: false, closed: false, failure: None };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let worker = Arc::clone(&shared);
        let thread = thread::spawn("boxwise-stream", move || worker.work())?;
        Ok(Stream { shared, thread: Some(thread) })
    }

    /// Queues an operation; waits while the queue is full.
    pub(super) fn push(&self, job: Job) {
        let mut state = self.shared.lock();
        while state.queue.len() == CAPACITY {
            state = self.shared.wait(state);
        }
        state.queue.push_back(job);
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Waits until everything queued has ended; returns the first failure since the last call.
    pub fn synchronize(&self) -> Result<()> {
        let mut state = self.shared.lock();
        while state.running || !state.queue.is_empty() {
            state = self.shared.wait(state);
        }
        state.failure.take().map_or(Ok(()), Err)
    }

    /// Whether everything queued has ended. A failure is kept for [`Stream::synchronize`].
    pub fn is_idle(&self) -> bool {
        let state = self.shared.lock();
        !state.running && state.queue.is_empty()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has nothing more to do either.
            let _ = thread.join();
        }
    }
}
