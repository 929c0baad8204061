//! boxwise moves distributed N-D arrays between processes: every rank says which box of the global array it
//! holds and which box it wants, and gets it.
//!
//! Ranks are the members of a [`Communicator`]: processes of one node, or threads of one process. Together they make
//! a [`Reshape`] from a [`Request`] each, once, and execute it as often as they like:
//!
//! ```
//! use boxwise::{Communicator, Options, Request, Reshape, Side};
//!
//! // A 4 x 6 matrix: each of two ranks, here threads, holds two rows and wants three columns.
//! let rank = |communicator: Communicator| -> boxwise::Result<Vec<u64>> {
//!     let r = communicator.rank() as i64;
//!     let rows = Side { lower: &[2 * r, 0], upper: &[2 * r + 2, 6], strides: None };
//!     let columns = Side { lower: &[0, 3 * r], upper: &[4, 3 * r + 3], strides: None };
//!     // A faulty request goes into make as well, so that the other rank is told instead of left waiting.
//!     let request = Request::describe(size_of::<u64>(), rows, columns);
//!     let reshape = Reshape::make(&communicator, request, &Options::default())?;
//!
//!     let input: Vec<u64> = (12 * r as u64..12 * r as u64 + 12).collect();
//!     let mut output = vec![0; 12];
//!     // SAFETY: both hold a whole box, and nothing else uses them.
//!     unsafe { reshape.exec(output.as_mut_ptr().cast(), input.as_ptr().cast(), std::ptr::null_mut(), None)? };
//!     Ok(output)
//! };
//! let communicators = Communicator::threads(2)?;
//! let threads: Vec<_> = communicators.into_iter().map(|c| std::thread::spawn(move || rank(c))).collect();
//! let columns: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect::<Result<_, _>>()?;
//! assert_eq!(columns[1], [3, 4, 5, 9, 10, 11, 15, 16, 17, 21, 22, 23]);
//! # Ok::<(), boxwise::Error>(())
//! ```
//!
//! Processes started by `boxwise-run`, or by another launcher on one node, form [`Communicator::world`]. Memory from
//! [`Communicator::allocate`] moves between them in one pass.
//!
//! Inside, the rooms of the crate go from pure to impure: [`geometry`] (boxes, layouts, loop nests), [`plan`] (boxes
//! in, schedule out), `copy` (kernels that run a loop nest), `transport` (who the peers are, how their memory is
//! reached, how to wait for them), `exec` (runs a schedule), [`Reshape`] and `capi` (the C interface).

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
pub use plan::{Options, Request, Side};
pub use reshape::Reshape;
#[doc(hidden)] // for boxwise-run
pub use transport::JobBoard;
pub use transport::{Boot, Communicator, Message, Messages, SharedBuffer};
