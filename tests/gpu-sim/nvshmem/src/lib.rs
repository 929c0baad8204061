//! A stand-in for `libnvshmem_host.so.3`: the processes of one machine as PEs, their symmetric heaps as shared memory, and a
//! network that delivers late and out of order. Names, arguments and results are those of NVSHMEM's interface; like
//! NVSHMEM it ends the process where it is called out of order.
//!
//! | variable | |
//! |---|---|
//! | `GPU_SIM_HEAP` | bytes of each symmetric heap; 64 MiB |
//! | `GPU_SIM_REACHABLE` | whose memory a PE maps: `all`, `none`, or `odd`: not of those whose number differs by an odd number |
//! | `GPU_SIM_SEED` | of the order of deliveries |
//! | `GPU_SIM_DELAY` | microseconds between two deliveries, at most; 120 |

mod heap;
mod host;
mod meeting;
mod network;
