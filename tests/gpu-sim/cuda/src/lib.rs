//! A stand-in for `libcuda.so.1` that runs kernels with the interpreter: one device, one context, the functions that boxwise
//! and its tests call. Names, arguments and errors are those of the driver's interface.
//!
//! Streams are threads. Device memory is memory of this process, with a gap after each piece, and poisoned at first; what
//! kernels may access is exactly what is allocated. Modules are PTX. A fault of a kernel is printed, and returned by every
//! later call, as the driver does.
//!
//! | variable | |
//! |---|---|
//! | `GPU_SIM_SEED` | of the order in which threads run; each launch takes the next |
//! | `GPU_SIM_STEPS`, `GPU_SIM_TIMEOUT` | a kernel with more instructions, and more seconds, is stopped |
//! | `GPU_SIM_LOG` | file for the texts of faults |
//! | `GPU_SIM_IMAGE` | file of PTX to load in the place of every module: how mutants of the kernels are run |
//! | `GPU_SIM_DEVICES`, `GPU_SIM_VERSION` | 0: the driver finds no device; the version it says it has |

#![allow(non_snake_case)] // the names are the driver's
#![allow(clippy::missing_safety_doc)] // so are the conditions

mod context;
mod error;
mod event;
mod graph;
mod kernel;
mod memory;
mod stream;

/// `CUresult`.
pub type Status = std::ffi::c_int;
/// Contexts, streams, modules, functions, graphs.
pub type Handle = *mut std::ffi::c_void;

/// A number from the environment.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
