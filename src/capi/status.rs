//! Statuses and the last error, as C sees them.

use super::boundary;
use crate::error::Status;
use std::ffi::{CString, c_char};
use std::sync::LazyLock;

/// The outcome of a call: one of the constants of boxwise_status.
pub type boxwise_status_t = i32;

/// The statuses. Their numbers never change.
#[repr(C)]
pub enum boxwise_status {
    /// The call did what it says.
    BOXWISE_SUCCESS = 0,
    /// An argument of this call, on this rank or another, is wrong; the detail names rank and argument.
    BOXWISE_ERROR_INVALID_ARGUMENT = 1,
    /// Calls out of order: exec before make, make twice, a handle that was already destroyed.
    BOXWISE_ERROR_INVALID_STATE = 2,
    /// The ranks' descriptions do not fit together: boxes overlap or leave a hole, or the number of
    /// dimensions, the element size or an option differs.
    BOXWISE_ERROR_INCONSISTENT = 3,
    /// No memory for what was asked.
    BOXWISE_ERROR_OUT_OF_MEMORY = 4,
    /// Legal, but not by this build or backend.
    BOXWISE_ERROR_NOT_SUPPORTED = 5,
    /// A part needed at run time is missing; the detail says which, and what to do.
    BOXWISE_ERROR_UNAVAILABLE = 6,
    /// The operating system or a communication library failed; its own text is in the detail.
    BOXWISE_ERROR_TRANSPORT = 7,
    /// Another rank died or aborted. What was shared with it is of no use any more.
    BOXWISE_ERROR_PEER_LOST = 8,
    /// A wait outlasted BOXWISE_OPTION_TIMEOUT_MS.
    BOXWISE_ERROR_TIMEOUT = 9,
    /// A device call failed.
    BOXWISE_ERROR_DEVICE = 10,
    /// A bug of boxwise; please report it with the detail.
    BOXWISE_ERROR_INTERNAL = 11,
}

const _: () = {
    assert!(boxwise_status::BOXWISE_SUCCESS as i32 == Status::Success as i32);
    assert!(boxwise_status::BOXWISE_ERROR_INVALID_ARGUMENT as i32 == Status::InvalidArgument as i32);
    assert!(boxwise_status::BOXWISE_ERROR_INVALID_STATE as i32 == Status::InvalidState as i32);
    assert!(boxwise_status::BOXWISE_ERROR_INCONSISTENT as i32 == Status::Inconsistent as i32);
    assert!(boxwise_status::BOXWISE_ERROR_OUT_OF_MEMORY as i32 == Status::OutOfMemory as i32);
    assert!(boxwise_status::BOXWISE_ERROR_NOT_SUPPORTED as i32 == Status::NotSupported as i32);
    assert!(boxwise_status::BOXWISE_ERROR_UNAVAILABLE as i32 == Status::Unavailable as i32);
    assert!(boxwise_status::BOXWISE_ERROR_TRANSPORT as i32 == Status::Transport as i32);
    assert!(boxwise_status::BOXWISE_ERROR_PEER_LOST as i32 == Status::PeerLost as i32);
    assert!(boxwise_status::BOXWISE_ERROR_TIMEOUT as i32 == Status::Timeout as i32);
    assert!(boxwise_status::BOXWISE_ERROR_DEVICE as i32 == Status::Device as i32);
    assert!(boxwise_status::BOXWISE_ERROR_INTERNAL as i32 == Status::Internal as i32);
};

/// One line that explains a status, e.g. "calls out of order".
///
/// - status: any number; one that is no status gives "unknown status".
/// - Returns a constant, NUL-terminated text, never NULL; do not free it.
///
/// Any thread, at any time; not collective.
#[unsafe(no_mangle)]
pub extern "C" fn boxwise_status_string(status: boxwise_status_t) -> *const c_char {
    static TEXTS: LazyLock<Vec<CString>> = LazyLock::new(|| {
        Status::ALL.into_iter().map(|status| CString::new(status.meaning()).unwrap_or_default()).collect()
    });
    let text = usize::try_from(status).ok().and_then(|number| TEXTS.get(number));
    text.map_or(c"unknown status", |text| text.as_c_str()).as_ptr()
}

/// The detail of the last call that failed on this thread: function, rank, the value seen, what is wrong
/// with it and what to do.
///
/// - Returns NUL-terminated text, never NULL, "" when no call has failed on this thread; do not free it.
///   It stays valid until the next call that fails on this thread.
/// - Each call that fails replaces it. A call that succeeds leaves it, so ask only after a failure.
/// - An operation that fails on a stream leaves its detail with the thread that calls
///   boxwise_stream_synchronize.
///
/// Any thread, at any time; not collective.
#[unsafe(no_mangle)]
pub extern "C" fn boxwise_last_error() -> *const c_char {
    boundary::last_error()
}
