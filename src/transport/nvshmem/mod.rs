//! GPUs: NVSHMEM joined or initialised, its memory, and the kernels, loaded.
//!
//! | file | idea |
//! |---|---|
//! | `driver` | the CUDA driver, each failure a status |
//! | `world` | the one NVSHMEM of this process: found, joined or initialised |
//! | `boot` | its PEs as the ranks of a communicator |
//! | `device` | a communicator's way to its GPUs |
//! | `pool` | pieces of symmetric memory for the slots of plans |
//! | `heap` | device memory for callers |
//! | `kernels` | the embedded module |
//! | `watch` | tells kernels that a rank is lost |
//! | `nvtx` | ranges for profilers |

mod boot;
mod device;
mod driver;
mod heap;
mod kernels;
mod nvtx;
mod pool;
mod watch;
mod world;

pub use boot::NvshmemBoot;
pub use device::{Device, Wanted};
pub use driver::{DeviceMemory, HostWords};
pub use nvtx::Range;
pub use pool::Claim;
pub use world::is_initialised;
