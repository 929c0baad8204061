//! What can go wrong: a status with a frozen number, and the detail text that says what to do.

mod panic;
mod verdict;

pub(crate) use panic::{catch_panic, keep_panics_quiet};
pub(crate) use verdict::{VERDICT_BYTES, agree, encode_verdict, read_fault, write_fault};

use std::fmt;

/// The outcome of a call, as C sees it. The numbers are part of the ABI.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // each variant is explained by `Status::meaning`
pub enum Status {
    Success = 0,
    InvalidArgument = 1,
    InvalidState = 2,
    Inconsistent = 3,
    OutOfMemory = 4,
    NotSupported = 5,
    Unavailable = 6,
    Transport = 7,
    PeerLost = 8,
    Timeout = 9,
    Device = 10,
    Internal = 11,
}

impl Status {
    /// Every status, in the order of its number.
    pub const ALL: [Status; 12] = [
        Status::Success,
        Status::InvalidArgument,
        Status::InvalidState,
        Status::Inconsistent,
        Status::OutOfMemory,
        Status::NotSupported,
        Status::Unavailable,
        Status::Transport,
        Status::PeerLost,
        Status::Timeout,
        Status::Device,
        Status::Internal,
    ];

    /// The status with this number, if there is one.
    pub fn from_code(code: i32) -> Option<Status> {
        Status::ALL.into_iter().find(|status| *status as i32 == code)
    }

    /// One line that explains the status.
    pub fn meaning(self) -> &'static str {
        match self {
            Status::Success => "success",
            Status::InvalidArgument => "an argument is invalid, on this rank or another",
            Status::InvalidState => "calls out of order",
            Status::Inconsistent => "the descriptions given by the ranks do not fit together",
            Status::OutOfMemory => "out of memory",
            Status::NotSupported => "not supported by this build or backend",
            Status::Unavailable => "a part needed at run time is missing",
            Status::Transport => "the operating system or a communication library failed",
            Status::PeerLost => "another rank died or aborted",
            Status::Timeout => "a wait outlasted the timeout",
            Status::Device => "a device call failed",
            Status::Internal => "internal error, a bug in boxwise",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.meaning())
    }
}

/// A status other than success, and its detail: the value seen, what is wrong with it, what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What kind of fault it is.
    pub status: Status,
    /// Lower case text for a person; foreign error texts stand verbatim at its end.
    pub detail: String,
}

/// The result of everything that can fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of this kind.
    pub fn new(status: Status, detail: impl Into<String>) -> Error {
        Error { status, detail: detail.into() }
    }

    /// An argument that cannot be right.
    pub fn invalid_argument(detail: impl Into<String>) -> Error {
        Error::new(Status::InvalidArgument, detail)
    }

    /// A call that does not fit the state of its object.
    pub fn invalid_state(detail: impl Into<String>) -> Error {
        Error::new(Status::InvalidState, detail)
    }

    /// The operating system refused `what`; its own text comes last.
    pub fn os(what: impl fmt::Display, error: &std::io::Error) -> Error {
        let status = match error.raw_os_error() {
            Some(libc::ENOMEM) => Status::OutOfMemory,
            _ => Status::Transport,
        };
        Error::new(status, format!("{what}: {error}"))
    }

    /// The same error with `prefix` before its detail.
    pub fn context(mut self, prefix: impl fmt::Display) -> Error {
        self.detail = format!("{prefix}: {}", self.detail);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status, self.detail)
    }
}

impl std::error::Error for Error {}
