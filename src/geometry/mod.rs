//! Boxes of the global index space, where their elements lie in memory, and strided copies in normal form.
//!
//! Pure arithmetic: no I/O, no `unsafe`, nothing else of this crate. Faults are told as plain text,
//! which the caller puts into an error of its own.

mod index_box;
mod layout;
mod loop_nest;

pub use index_box::IndexBox;
pub use layout::{Layout, Placement};
pub use loop_nest::{LoopNest, Piece};

/// The largest number of dimensions of an array.
pub const MAX_DIMS: usize = 8;

/// The largest size of one element, in bytes.
pub const MAX_ELEMENT_SIZE: usize = 65536;
