//! Why a kernel was stopped, or a module refused.

/// What kind of mistake it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The text is not PTX as this crate knows it.
    Syntax,
    /// An instruction that is not known was reached.
    Unknown,
    /// An access outside of all memory.
    Address,
    /// An access at an address that is no multiple of its size.
    Alignment,
    /// Shared memory was read where nothing had been written.
    Uninitialised,
    /// A barrier or a call of the whole block that only part of the block can reach, or threads that all wait.
    Deadlock,
    /// The kernel used its last step and its time.
    Timeout,
    /// A trap.
    Trap,
    /// A launch that no device would take, or a kernel that does not exist.
    Launch,
    /// What the machine said about a call.
    Call,
}

/// A mistake, with where it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its kind.
    pub kind: Kind,
    /// What happened, in which kernel, block and thread, at which line of the PTX.
    pub text: String,
}

impl Fault {
    /// A mistake of this kind.
    pub fn new(kind: Kind, text: impl Into<String>) -> Fault {
        Fault { kind, text: text.into() }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.text)
    }
}

impl std::error::Error for Fault {}
