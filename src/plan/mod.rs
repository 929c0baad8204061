//! Boxes in, schedule out: everybody's descriptions become one rank's list of strided copies.
//!
//! Pure: no I/O, no `unsafe`, no transport. The same table gives the same conclusions on every rank.

mod descriptor;
mod options;
mod report;
mod schedule;
mod validate;

pub use descriptor::{DESCRIPTOR_BYTES, Descriptor};
pub use options::{Backend, ExitSync, OptionName, Options};
pub use report::{Format, Info};
pub use schedule::{PeerTransfers, Schedule, Transfer};
pub use validate::{check_own, check_table};
