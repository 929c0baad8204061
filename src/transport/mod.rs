//! Who the peers are, how their memory is reached, and how to wait for them.
//!
//! | file | idea |
//! |---|---|
//! | `launch`, `board` | which job this process belongs to, which of its ranks have ended |
//! | `socket`, `star`, `boot`, `introduction` | how ranks that share nothing yet meet |
//! | `communicator`, `node`, `control`, `liveness` | members, exchanges, lost peers |
//! | `wire`, `lane`, `tally` | messages to ranks of other nodes: exchanges, data, outcomes |
//! | `mpi`, `mpi_plugin` | which MPI runs in this process, and the plugin for it |
//! | `memory`, `segments` | shared memory and the shared heap |
//! | `plan_segment`, `slot`, `ring` | what the ranks of one made plan share |
//! | `bell`, `wait`, `sync` | the waiting protocol |
//! | `cross_memory` | reading the plain memory of another process |
//! | `nvshmem` | GPUs |

mod bell;
mod board;
mod boot;
mod communicator;
mod control;
mod cross_memory;
mod introduction;
mod lane;
mod launch;
mod liveness;
mod memory;
mod mpi;
mod mpi_plugin;
mod node;
#[cfg(feature = "cuda")]
mod nvshmem;
mod plan_segment;
mod ring;
mod segments;
mod slot;
mod socket;
mod star;
mod sync;
mod tally;
mod wait;
mod wire;

pub use board::JobBoard;
pub use boot::{Boot, Message, Messages};
pub use communicator::Communicator;
pub use segments::SharedBuffer;

pub(crate) use communicator::Collective;
pub(crate) use control::{Call, Cause, EXCHANGE_BYTES};
pub(crate) use cross_memory::Reader;
pub(crate) use lane::{Arrival, Lane, piece_bytes as lane_piece_bytes};
pub(crate) use mpi_plugin::with_mpi_plugin;
#[cfg(feature = "cuda")]
pub(crate) use nvshmem::{Claim, Device, DeviceMemory, HostWords, Range, Wanted};
pub(crate) use plan_segment::PlanSegment;
pub(crate) use slot::{Operation, Post, Reach};
pub(crate) use tally::Tally;
pub(crate) use wait::{Patience, Pending, Progress, patience};
pub(crate) use wire::{PlanTags, mark_own_thread};
