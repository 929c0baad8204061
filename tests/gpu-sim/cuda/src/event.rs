//! Events: when a stream came to them.

use crate::error::{INVALID_HANDLE, NOT_READY, SUCCESS};
use crate::stream::{self, Task};
use crate::{Handle, Status};
use std::ffi::c_uint;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// When it was last recorded.
#[derive(Default)]
pub struct Event(Mutex<Option<Instant>>);

impl Event {
    pub fn record(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn when(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Another owner of the event with that handle.
fn shared(event: Handle) -> Arc<Event> {
    // SAFETY: as the driver's interface says, it is one of ours, and not destroyed.
    unsafe {
        Arc::increment_strong_count(event.cast::<Event>());
        Arc::from_raw(event.cast::<Event>())
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(event: *mut Handle, _flags: c_uint) -> Status {
    // SAFETY: as the driver's interface says, here and below.
    unsafe { event.write(Arc::into_raw(Arc::new(Event::default())).cast_mut().cast()) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventRecord(event: Handle, stream: Handle) -> Status {
    if event.is_null() {
        return INVALID_HANDLE;
    }
    stream::push(stream, Task::Record(shared(event)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime_v2(milliseconds: *mut f32, begin: Handle, end: Handle) -> Status {
    if begin.is_null() || end.is_null() {
        return INVALID_HANDLE;
    }
    let (Some(begin), Some(end)) = (shared(begin).when(), shared(end).when()) else { return NOT_READY };
    // SAFETY: as above.
    unsafe { milliseconds.write((end - begin).as_secs_f32() * 1e3) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventDestroy_v2(event: Handle) -> Status {
    if event.is_null() {
        return INVALID_HANDLE;
    }
    // SAFETY: as above: it is one of ours, and not used again.
    drop(unsafe { Arc::from_raw(event.cast::<Event>()) });
    SUCCESS
}
