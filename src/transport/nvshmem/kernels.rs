//! The embedded module: loaded once, and given what NVSHMEM's device code needs.

use super::driver::check;
use super::world::World;
use crate::error::{Error, Result, Status};
use cudarc::driver::sys;
use std::ffi::CStr;

/// What build.rs made: code for the devices, or text that the driver of the simulator takes.
static IMAGE: &[u8] = include_bytes!(env!("BOXWISE_KERNELS"));

/// The kernels, in the order in which the executor numbers them.
pub const NAMES: [&CStr; 5] =
    [c"boxwise_stage", c"boxwise_enter", c"boxwise_move", c"boxwise_unpack", c"boxwise_leave"];

/// The loaded kernels. Never unloaded: like NVSHMEM they stay as long as the process.
#[derive(Debug)]
pub struct Kernels {
    functions: [sys::CUfunction; NAMES.len()],
    multiprocessors: u32,
}

// SAFETY: functions may be launched from any thread.
unsafe impl Send for Kernels {}
// SAFETY: as above.
unsafe impl Sync for Kernels {}

impl Kernels {
    pub fn load(world: &World) -> Result<Kernels> {
        let _entered = world.context.enter()?;
        let mut module = std::ptr::null_mut();
        // SAFETY: a context is current, the image is one for the driver, the place is there to be written.
        check("cuModuleLoadData", unsafe { sys::cuModuleLoadData(&mut module, IMAGE.as_ptr().cast()) })?;
        // SAFETY: NVSHMEM is initialised, and the module is new.
        let code = unsafe { (world.functions().cumodule_init)(module.cast()) };
        if code != 0 {
            return Err(Error::new(Status::Transport, format!("nvshmemx_cumodule_init returned {code}")));
        }
        let mut functions = [std::ptr::null_mut(); NAMES.len()];
        for (function, name) in functions.iter_mut().zip(NAMES) {
            // SAFETY: the module is loaded, the place is there to be written.
            check("cuModuleGetFunction", unsafe { sys::cuModuleGetFunction(function, module, name.as_ptr()) })?;
        }
        let count = sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        Ok(Kernels { functions, multiprocessors: world.context.attribute(count)? })
    }

    pub fn function(&self, kernel: usize) -> sys::CUfunction {
        self.functions[kernel]
    }

    /// Blocks that the device runs at once.
    pub fn resident_blocks(&self, kernel: usize, threads: u32, shared_bytes: u32) -> u32 {
        let mut blocks = 0;
        // SAFETY: the function is loaded, the place is there to be written.
        let found = unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &mut blocks,
                self.functions[kernel],
                threads as i32,
                shared_bytes as usize,
            )
        };
        let each = if check("cuOccupancyMaxActiveBlocksPerMultiprocessor", found).is_ok() { blocks.max(1) } else { 1 };
        self.multiprocessors * each as u32
    }
}
