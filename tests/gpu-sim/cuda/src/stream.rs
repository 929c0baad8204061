//! Streams: threads that do one task after the other, or record them while a graph is captured.

use crate::context::need;
use crate::error::{CAPTURE_UNSUPPORTED, INVALID_HANDLE, INVALID_VALUE, SUCCESS, or_sticky};
use crate::event::Event;
use crate::kernel::Work;
use crate::memory::Copy;
use crate::{Handle, Status};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{c_int, c_uint};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

/// What a stream does.
#[derive(Clone)]
pub enum Task {
    Launch(Work),
    Copy(Copy),
    Record(Arc<Event>),
}

impl Task {
    fn run(self) {
        match self {
            Task::Launch(work) => work.run(),
            Task::Copy(copy) => copy.run(),
            Task::Record(event) => event.record(),
        }
    }
}

#[derive(Default)]
struct State {
    tasks: VecDeque<Task>,
    busy: bool,
    ends: bool,
    /// What is recorded instead of done.
    captured: Option<Vec<Task>>,
}

#[derive(Default)]
struct Stream {
    state: Mutex<State>,
    changed: Condvar,
}

/// By handle; the default stream is 0.
static STREAMS: LazyLock<Mutex<BTreeMap<usize, Arc<Stream>>>> =
    LazyLock::new(|| Mutex::new(BTreeMap::from([(0, Stream::start())])));

impl Stream {
    fn start() -> Arc<Stream> {
        let stream = Arc::new(Stream::default());
        let worker = Arc::clone(&stream);
        std::thread::spawn(move || worker.work());
        stream
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        loop {
            let mut state = self.state();
            let task = loop {
                if let Some(task) = state.tasks.pop_front() {
                    break task;
                }
                if state.ends {
                    return;
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            };
            state.busy = true;
            drop(state);
            task.run();
            self.state().busy = false;
            self.changed.notify_all();
        }
    }

    fn wait(&self) {
        let mut state = self.state();
        while state.busy || !state.tasks.is_empty() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn find(stream: Handle) -> Option<Arc<Stream>> {
    // The default stream has two more names.
    let key = if (stream as usize) <= 2 { 0 } else { stream as usize };
    STREAMS.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
}

fn all() -> Vec<Arc<Stream>> {
    STREAMS.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
}

/// Whether there is such a stream.
pub fn exists(stream: Handle) -> bool {
    find(stream).is_some()
}

/// Gives a stream a task, to be done or to be recorded.
pub fn push(stream: Handle, task: Task) -> Status {
    let Some(stream) = find(stream) else { return INVALID_HANDLE };
    let mut state = stream.state();
    match &mut state.captured {
        Some(captured) => captured.push(task),
        None => state.tasks.push_back(task),
    }
    drop(state);
    stream.changed.notify_all();
    SUCCESS
}

/// Waits until a stream has done all its tasks.
pub fn synchronize(stream: Handle) -> Status {
    let Some(stream) = find(stream) else { return INVALID_HANDLE };
    if stream.state().captured.is_some() {
        return CAPTURE_UNSUPPORTED;
    }
    stream.wait();
    or_sticky(SUCCESS)
}

/// Waits for all streams.
pub fn wait_for_all() {
    all().iter().for_each(|stream| stream.wait());
}

/// The same as a call, which no stream may record meanwhile.
pub fn synchronize_all() -> Status {
    if all().iter().any(|stream| stream.state().captured.is_some()) {
        return CAPTURE_UNSUPPORTED;
    }
    wait_for_all();
    or_sticky(SUCCESS)
}

/// Begins to record, or ends it and gives what was recorded.
pub fn begin_capture(stream: Handle) -> Status {
    let Some(found) = find(stream) else { return INVALID_HANDLE };
    let mut state = found.state();
    // The default stream cannot be recorded.
    if (stream as usize) <= 2 || state.captured.is_some() {
        return INVALID_VALUE;
    }
    state.captured = Some(Vec::new());
    SUCCESS
}

pub fn end_capture(stream: Handle) -> Option<Vec<Task>> {
    find(stream)?.state().captured.take()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(stream: *mut Handle, _flags: c_uint) -> Status {
    if need() != SUCCESS {
        return need();
    }
    let started = Stream::start();
    let key = Arc::as_ptr(&started) as usize;
    STREAMS.lock().unwrap_or_else(PoisonError::into_inner).insert(key, started);
    // SAFETY: as the driver's interface says.
    unsafe { stream.write(key as Handle) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize(stream: Handle) -> Status {
    synchronize(stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamDestroy_v2(stream: Handle) -> Status {
    let removed = STREAMS.lock().unwrap_or_else(PoisonError::into_inner).remove(&(stream as usize));
    let Some(removed) = removed.filter(|_| !stream.is_null()) else { return INVALID_HANDLE };
    // What is queued is still done.
    removed.state().ends = true;
    removed.changed.notify_all();
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamBeginCapture_v2(stream: Handle, _mode: c_int) -> Status {
    begin_capture(stream)
}
