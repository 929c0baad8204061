//! Runs a schedule on GPUs: kernels queued on the caller's stream signal to the peers, wait for them, and move the data.
//!
//! | file | idea |
//! |---|---|
//! | `pointer` | which addresses are a GPU's |
//! | `program` | a made plan, and one execution of it |
//! | `tables` | what the kernels read, as one image in device memory |
//! | `tiles` | transfers cut into what a thread block does at a time |
//! | `workspace` | where staged and packed data lie in the workspaces |

mod pointer;
mod program;
mod tables;
mod tiles;
mod workspace;

pub use pointer::DriverPointers;
pub use program::{DeviceProgram, Draft};
