//! The boundary that every C call crosses: panics become statuses, errors become this thread's last error,
//! results leave through checked pointers.

use crate::error::{Error, Result, Status};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_char};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::ptr::NonNull;
use std::sync::Once;

use super::status::boxwise_status_t;

thread_local! {
    /// The detail of the last call that failed on this thread.
    static LAST_ERROR: RefCell<Option<CString>> = const { RefCell::new(None) };
    /// How many C calls this thread is in; a boot callback may make further ones.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// Where the last panic inside a C call happened.
    static PANIC_PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs the body of the C function of this name and turns its outcome into a status.
pub fn call(function: &str, body: impl FnOnce() -> Result<()>) -> boxwise_status_t {
    let Err(error) = caught(body) else { return Status::Success as boxwise_status_t };
    let error = error.context(function);
    ::log::error!("{}", error.detail);
    remember(&error.detail);
    error.status as boxwise_status_t
}

/// The last error of this thread; the text stays where it is until the next failure on this thread.
pub fn last_error() -> *const c_char {
    let text = |last: &RefCell<Option<CString>>| last.borrow().as_ref().map(|text| text.as_ptr());
    LAST_ERROR.try_with(text).ok().flatten().unwrap_or(c"".as_ptr())
}

/// The body's outcome, or its panic as an internal error.
fn caught(body: impl FnOnce() -> Result<()>) -> Result<()> {
    keep_panics_quiet();
    DEPTH.set(DEPTH.get() + 1);
    let outcome = panic::catch_unwind(AssertUnwindSafe(body));
    DEPTH.set(DEPTH.get() - 1);
    outcome.unwrap_or_else(|payload| {
        let place = PANIC_PLACE.take();
        Err(Error::new(Status::Internal, format!("{} (at {place}); please report it", text_of(&*payload))))
    })
}

/// Panics inside C calls are reported by status and detail, so they print nothing; all others stay as they were.
fn keep_panics_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info: &PanicHookInfo| {
            if DEPTH.get() > 0 {
                PANIC_PLACE.set(info.location().map_or_else(String::new, |place| place.to_string()));
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

fn remember(detail: &str) {
    // C sees the text up to its first NUL, which foreign texts might contain.
    let text = CString::new(detail.replace('\0', " ")).ok();
    // A thread that is ending has no place left for it; the status still tells.
    let _ = LAST_ERROR.try_with(|last| last.replace(text));
}

/// A pointer through which a call hands back one value, only when it succeeds.
pub struct Output<T>(NonNull<T>);

impl<T> Output<T> {
    /// Checks that there is a place for the output of this name.
    ///
    /// # Safety
    /// `pointer` is NULL, or valid for writing one `T` for as long as the call lasts.
    pub unsafe fn new(name: &str, pointer: *mut T) -> Result<Output<T>> {
        NonNull::new(pointer).map(Output).ok_or_else(|| null(name))
    }

    /// Writes the value.
    pub fn write(self, value: T) {
        // SAFETY: `new` was given a pointer that is valid for this. It may be unaligned, C casts are free.
        unsafe { self.0.as_ptr().write_unaligned(value) }
    }
}

/// The error for an argument that must not be NULL.
pub fn null(name: &str) -> Error {
    Error::invalid_argument(format!("{name} is NULL"))
}
