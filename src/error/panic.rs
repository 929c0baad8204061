//! Panics as errors: a bug of ours becomes a status with its text and place, and nobody is left waiting.

use super::{Error, Result, Status};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::Once;

thread_local! {
    /// How many guarded bodies this thread is in; a C call may call back into C code that makes further ones.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// Where the last panic inside a guarded body happened.
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The body's outcome, or its panic as an internal error.
pub fn catch_panic<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    DEPTH.set(DEPTH.get() + 1);
    let outcome = panic::catch_unwind(AssertUnwindSafe(body));
    DEPTH.set(DEPTH.get() - 1);
    outcome.unwrap_or_else(|payload| {
        let place = PLACE.take();
        Err(Error::new(Status::Internal, format!("{} (at {place}); please report it", text_of(&*payload))))
    })
}

/// From now on panics inside guarded bodies print nothing, and their place is noted; all others stay as they were.
pub fn keep_panics_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info: &PanicHookInfo| {
            if DEPTH.get() > 0 {
                PLACE.set(info.location().map_or_else(String::new, |place| place.to_string()));
            } else {
                previous(info);
            }
        }));
    });
}

fn text_of(payload: &(dyn Any + Send)) -> &str {
    let owned = payload.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("panic without a text")
}
