//! Runs a schedule: posts where the own buffers lie, waits for the peers it touches, and copies.
//!
//! Decides nothing that the plan could have decided, allocates nothing, and makes no collective call.

mod peer;
mod program;
mod stream;
mod team;
mod thread;

pub use peer::METHODS;
pub use program::{Buffers, Program};
pub use stream::Stream;
