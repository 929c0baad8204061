//! Boxes in, schedule out: everybody's descriptions become one rank's list of strided copies.
//!
//! Pure: no I/O, no `unsafe`, no transport. The same table gives the same conclusions on every rank. In order:
//! each rank encodes its [`Descriptor`]; from the table of all of them, [`check_table`] and [`check_own`] give
//! verdicts on which the ranks agree; then each builds its own [`Schedule`].

mod descriptor;
mod info;
mod options;
mod replicas;
mod report;
mod schedule;
mod validate;

#[cfg(test)]
mod cases;
#[cfg(test)]
mod samples;

pub use descriptor::{DESCRIPTOR_BYTES, Descriptor, Request, Side};
pub use info::Info;
pub use options::{Backend, ExitSync, OptionName, Options};
pub use report::{Format, Movement, describe};
pub use schedule::{PeerTransfers, Schedule, Transfer};
pub use validate::{check_own, check_table};
