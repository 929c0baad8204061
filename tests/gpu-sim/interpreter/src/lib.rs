//! Runs PTX on the processor: many threads, one instruction at a time, every access checked.
//!
//! What a GPU does at once and in no order, this does one after another in an order that a seed decides: blocks run ahead of
//! one another, and threads are switched between any two instructions. So races that a GPU shows now and then are shown by
//! some seed, and shown again. Addresses are those of this process, so other processes that map the same memory see every
//! store at once; what weak memory would allow beyond that is not shown.
//!
//! | file | idea |
//! |---|---|
//! | `token` | PTX as words and marks |
//! | `parse` | modules, functions and variables; operands |
//! | `decode` | an instruction from its name and operands |
//! | `instruction` | what instructions there are |
//! | `value` | types, and arithmetic on them |
//! | `memory` | address spaces: global, shared, local |
//! | `thread` | one thread, and what one instruction does to it |
//! | `block` | barriers, warps, and calls that a block makes together |
//! | `print` | `printf` of kernels |
//! | `run` | the scheduler |
//! | `machine` | the rest of the device, which the user gives |
//! | `fault` | why a kernel was stopped |

mod block;
mod decode;
mod fault;
mod instruction;
mod machine;
mod memory;
mod module;
mod parse;
mod print;
mod run;
mod thread;
mod token;
mod value;

pub use fault::{Fault, Kind};
pub use machine::{Access, Answer, Caller, Machine};
pub use module::{Global, Kernel, Module, Parameter, Placed};
pub use run::{Launch, Settings, Statistics, run};
