//! The boundary that every C call crosses: panics become statuses, errors become this thread's last error,
//! results leave through checked pointers.

use crate::error::{Error, Result, Status, catch_panic, keep_panics_quiet};
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::ptr::NonNull;

use super::status::boxwise_status_t;

thread_local! {
    /// The detail of the last call that failed on this thread.
    static LAST_ERROR: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Runs the body of the C function of this name and turns its outcome into a status.
pub fn call(function: &str, body: impl FnOnce() -> Result<()>) -> boxwise_status_t {
    keep_panics_quiet();
    let Err(error) = catch_panic(body) else { return Status::Success as boxwise_status_t };
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
        NonNull::new(pointer).map(Output).ok_or_else(|| null(name, "where the result goes"))
    }

    /// Writes the value.
    pub fn write(self, value: T) {
        // SAFETY: `new` was given a pointer that is valid for this. It may be unaligned, C casts are free.
        unsafe { self.0.as_ptr().write_unaligned(value) }
    }
}

/// The error for an argument that must not be NULL, and what it has to point to.
pub fn null(name: &str, wanted: &str) -> Error {
    Error::invalid_argument(format!("{name} is NULL, must point to {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn last() -> String {
        // SAFETY: the text is NUL-terminated and stays until the next failure on this thread.
        unsafe { CStr::from_ptr(last_error()) }.to_str().unwrap().into()
    }

    fn fails(status: Status, detail: &str) -> boxwise_status_t {
        call("boxwise_fail", || Err(Error::new(status, detail)))
    }

    #[test]
    fn the_last_error_is_that_of_this_thread_and_outlives_successes() {
        assert_eq!(last(), "");
        assert_eq!(fails(Status::Timeout, "rank 3: late"), Status::Timeout as i32);
        assert_eq!(call("boxwise_succeed", || Ok(())), 0);
        assert_eq!(last(), "boxwise_fail: rank 3: late");
        std::thread::spawn(|| {
            assert_eq!(last(), "");
            fails(Status::Transport, "other");
        })
        .join()
        .unwrap();
        assert_eq!(last(), "boxwise_fail: rank 3: late");
        fails(Status::Transport, "foreign\0text");
        assert_eq!(last(), "boxwise_fail: foreign text");
    }

    #[test]
    fn a_panic_is_an_internal_error_with_text_and_place() {
        let number = std::hint::black_box(7);
        let calls: [&dyn Fn(); 2] = [&|| panic!("plain text"), &|| panic!("formatted {number}")];
        for (body, text) in calls.into_iter().zip(["plain text", "formatted 7"]) {
            let status = call("boxwise_panic", || {
                body();
                Ok(())
            });
            assert_eq!(status, Status::Internal as i32);
            assert!(last().starts_with(&format!("boxwise_panic: {text} (at ")), "{}", last());
            assert!(last().contains("boundary.rs:"), "{}", last());
        }
        // Also when the panic ends a call inside a call.
        let outer = call("boxwise_outer", || {
            assert_eq!(call("boxwise_inner", || panic!("inside")), Status::Internal as i32);
            Ok(())
        });
        assert_eq!(outer, 0);
    }

    #[test]
    fn an_output_is_written_where_it_points() {
        let mut place = 1u64;
        // SAFETY: there is room for one byte, wherever it lies.
        unsafe { Output::new("place", (&raw mut place).cast::<u8>()) }.map(|output| output.write(9)).unwrap();
        assert_eq!(place.to_ne_bytes()[0], 9);
        // SAFETY: NULL is allowed.
        let fault = unsafe { Output::<u8>::new("place", std::ptr::null_mut()) }.err().unwrap();
        assert_eq!(fault.detail, "place is NULL, must point to where the result goes");
    }
}
