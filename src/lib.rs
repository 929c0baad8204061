//! boxwise moves distributed N-D arrays between processes: every rank says which box of the global array it
//! holds and which box it wants, and gets it.
//!
//! The rooms of the crate, from pure to impure: [`geometry`] (boxes, layouts, loop nests), [`plan`] (boxes in,
//! schedule out), `copy` (kernels that run a loop nest), `transport` (who the peers are, how their memory is
//! reached, how to wait for them), `exec` (runs a schedule), [`Reshape`] (the life of one operation) and `capi`
//! (the C interface). `docs/architecture.md` says which room may use which.

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("boxwise needs 64-bit Linux: memfd, futex and pidfd are what it waits and shares with");

pub mod geometry;
pub mod plan;

mod capi;
mod config;
mod copy;
mod error;
mod exec;
mod log;
mod reshape;
mod transport;

pub use config::{VARIABLES, Variable};
pub use error::{Error, Result, Status};
pub use exec::Stream;
pub use plan::Request;
pub use reshape::Reshape;
pub use transport::{Boot, Communicator, JobBoard, SharedBuffer};
