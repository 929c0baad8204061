//! Runs a schedule: posts where the own buffers lie, waits for the peers it touches, and copies.
//!
//! Decides nothing that the plan could have decided, allocates nothing, and makes no collective call.

mod direction;
mod outcome;
mod peer;
mod program;
mod remote;
mod stream;
mod team;
mod thread;

pub use program::{Buffers, Program};
pub use stream::Stream;

/// How data moves between ranks, as callers see it: bits of a mask, and words.
pub const METHODS: [(u32, &str); 4] = [
    (DIRECT, "shared memory"),
    (RING, "rings"),
    (CROSS_MEMORY, "cross-memory attach"),
    (MESSAGE, "messages between nodes"),
];
/// One end reads or writes the other's memory.
pub const DIRECT: u32 = 1;
/// Both copy, through a ring in shared memory.
pub const RING: u32 = 2;
/// The receiver reads through the kernel.
pub const CROSS_MEMORY: u32 = 4;
/// Between nodes.
pub const MESSAGE: u32 = 8;
