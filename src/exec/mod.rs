//! Runs a schedule: posts where the own buffers lie, waits for the peers it touches, and copies.
//!
//! Decides nothing that the plan could have decided, allocates nothing, and makes no collective call.

mod direction;
mod peer;
mod program;
mod remote;
mod stream;
mod team;
mod thread;

pub use program::{Buffers, Program};
pub use stream::Stream;

/// How data moves between ranks, as callers see it: bits of a mask, and words.
pub const METHODS: [(u32, &str); 4] =
    [(1, "shared memory"), (2, "rings"), (4, "cross-memory attach"), (8, "messages between nodes")];
