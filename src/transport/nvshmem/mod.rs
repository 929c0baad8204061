//! GPUs: NVSHMEM joined or initialised, its memory, and the kernels, loaded.
//!
//! | file | idea |
//! |---|---|
//! | `driver` | the CUDA driver, each failure a status |
//! | `world` | the one NVSHMEM of this process: found, joined or initialised |
//! | `device` | a communicator's way to its GPUs |
//! | `pool` | pieces of symmetric memory for the slots of plans |
//! | `heap` | device memory for callers |
//! | `kernels` | the embedded module |
//! | `watch` | tells kernels that a rank is lost |

mod device;
mod driver;
mod heap;
mod kernels;
mod pool;
mod watch;
mod world;

pub use device::{Device, Wanted};
pub use driver::{DeviceMemory, HostWords};
pub use pool::Claim;
