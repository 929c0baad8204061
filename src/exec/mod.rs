//! Runs a schedule: posts where the own buffers lie, waits for the peers it touches, and copies. On the host, or with
//! kernels on GPUs.
//!
//! Decides nothing that the plan could have decided, allocates nothing, and makes no collective call.

mod buffers;
#[cfg(feature = "cuda")]
mod device;
mod direction;
mod failure;
mod outcome;
mod peer;
mod program;
mod remote;
mod stream;
mod team;
mod thread;

pub use buffers::Buffers;
#[cfg(feature = "cuda")]
pub use device::{DeviceProgram, Draft};
pub use program::Program;
pub use stream::Stream;

/// How data moves between ranks, as callers see it: bits of a mask, and words.
pub const METHODS: [(u32, &str); 6] = [
    (DIRECT, "shared memory"),
    (RING, "rings"),
    (CROSS_MEMORY, "cross-memory attach"),
    (MESSAGE, "messages between nodes"),
    (STORE, "direct stores"),
    (PUT, "NVSHMEM puts"),
];
/// One end reads or writes the other's memory.
pub const DIRECT: u32 = 1;
/// Both copy, through a ring in shared memory.
pub const RING: u32 = 2;
/// The receiver reads through the kernel.
pub const CROSS_MEMORY: u32 = 4;
/// Between nodes.
pub const MESSAGE: u32 = 8;
/// A kernel of the sender writes the receiver's device memory.
pub const STORE: u32 = 16;
/// NVSHMEM carries packed pieces from GPU to GPU.
pub const PUT: u32 = 32;
