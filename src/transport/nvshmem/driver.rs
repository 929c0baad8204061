//! The CUDA driver, found at run time: each failure a status, and the context that was current.

use super::device::Device;
use crate::error::{Error, Result, Status};
use cudarc::driver::sys;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

/// The oldest driver whose functions are known here: that of CUDA 12.0.
const LEAST_VERSION: i32 = 12000;

const VERSION_FUNCTION: &str = "cuDriverGetVersion";

/// Every function of the driver that this backend calls.
const FUNCTIONS: [&str; 24] = [
    VERSION_FUNCTION,
    "cuCtxGetCurrent",
    "cuCtxGetDevice",
    "cuCtxPopCurrent_v2",
    "cuCtxPushCurrent_v2",
    "cuCtxSynchronize",
    "cuDeviceGetAttribute",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAlloc_v2",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemHostGetDevicePointer_v2",
    "cuMemcpyDtoH_v2",
    "cuMemcpyHtoD_v2",
    "cuMemsetD8_v2",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuPointerGetAttribute",
    "cuStreamGetCtx",
];

/// The error of a failed call.
pub fn check(function: &str, result: sys::CUresult) -> Result<()> {
    if result == sys::CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let text = |get: unsafe fn(sys::CUresult, *mut *const std::ffi::c_char) -> sys::CUresult| {
        let mut text = std::ptr::null();
        // SAFETY: the place is there to be written; what it points to is constant.
        unsafe {
            let found = get(result, &mut text) == sys::CUresult::CUDA_SUCCESS && !text.is_null();
            if found { CStr::from_ptr(text).to_string_lossy().into_owned() } else { format!("error {}", result as u32) }
        }
    };
    let status = match result {
        sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => Status::OutOfMemory,
        _ => Status::Device,
    };
    Err(Error::new(status, format!("{function}: {}: {}", text(sys::cuGetErrorName), text(sys::cuGetErrorString))))
}

/// Whether the driver is there, is new enough and has every function of [`FUNCTIONS`]: cudarc panics without.
fn check_driver() -> Result<()> {
    let unavailable = |text: String| Err(Error::new(Status::Unavailable, text));
    // SAFETY: only looks for a library.
    if !unsafe { sys::is_culib_present() } {
        return unavailable(
            "the NVSHMEM backend needs NVIDIA's driver, but libcuda.so.1 was not found, or cannot be loaded; install \
             the driver, or use BOXWISE_BACKEND_HOST"
                .into(),
        );
    }
    // SAFETY: it is there; looking for a symbol does not use it.
    let has = |name: &str| unsafe { sys::culib().get::<*const c_void>(name.as_bytes()) }.is_ok();
    let mut version = 0;
    if has(VERSION_FUNCTION) {
        // SAFETY: the driver has it, and the place is there to be written.
        check(VERSION_FUNCTION, unsafe { sys::cuDriverGetVersion(&mut version) })?;
    }
    let (major, minor) = (version / 1000, version % 1000 / 10);
    if version != 0 && version < LEAST_VERSION {
        return unavailable(format!(
            "the driver is for CUDA {major}.{minor}; CUDA 12.0 or later is needed: install a newer driver"
        ));
    }
    match FUNCTIONS.iter().find(|name| !has(name)) {
        None => Ok(()),
        Some(name) => unavailable(format!(
            "libcuda.so.1 (CUDA {major}.{minor}) has no {name}: it is not the driver of a GPU, or is broken; install \
             the driver, or use BOXWISE_BACKEND_HOST"
        )),
    }
}

/// A context that was current when NVSHMEM was joined.
#[derive(Clone, Copy, Debug)]
pub struct Context(sys::CUcontext);

// SAFETY: contexts may be used from any thread; making one current is each thread's own affair.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// The remembered context is current until this is dropped.
#[derive(Debug)]
pub struct Entered {
    pushed: bool,
}

impl Context {
    /// That of this thread.
    pub fn current() -> Result<Context> {
        check_driver()?;
        let mut context = std::ptr::null_mut();
        // SAFETY: the driver has the functions; the place is there to be written.
        unsafe {
            check("cuInit", sys::cuInit(0)).map_err(|error| {
                error.context("no GPU can be used here (see nvidia-smi); BOXWISE_BACKEND_HOST needs none")
            })?;
            check("cuCtxGetCurrent", sys::cuCtxGetCurrent(&mut context))?;
        }
        match context.is_null() {
            false => Ok(Context(context)),
            true => Err(Error::new(
                Status::Device,
                "no CUDA context is current on this thread; choose a GPU first (cudaSetDevice, or cuCtxSetCurrent)",
            )),
        }
    }

    /// Makes it current on this thread for a while, if it is not.
    pub fn enter(self) -> Result<Entered> {
        let mut current = std::ptr::null_mut();
        // SAFETY: the driver is initialised, the context lives as long as the application that chose it.
        unsafe {
            check("cuCtxGetCurrent", sys::cuCtxGetCurrent(&mut current))?;
            if current == self.0 {
                return Ok(Entered { pushed: false });
            }
            check("cuCtxPushCurrent", sys::cuCtxPushCurrent_v2(self.0))?;
        }
        Ok(Entered { pushed: true })
    }

    /// Whether a stream is one of this context; streams of no context of their own are.
    pub fn check_stream(self, stream: u64) -> Result<()> {
        // The default streams: legacy and per thread.
        if stream <= 2 {
            return Ok(());
        }
        let mut of = std::ptr::null_mut();
        // SAFETY: the place is there to be written; the driver tells of a handle that it does not know where it can.
        let found = unsafe { sys::cuStreamGetCtx(stream as sys::CUstream, &mut of) };
        check("cuStreamGetCtx", found).map_err(|error| {
            Error::invalid_argument(format!("stream {stream:#x} is no CUDA stream: {}", error.detail))
        })?;
        if of != self.0 {
            return Err(Error::invalid_argument(format!(
                "stream {stream:#x} belongs to another CUDA context than the one with which NVSHMEM runs"
            )));
        }
        Ok(())
    }

    /// Waits for everything on the device.
    pub fn synchronize(self) -> Result<()> {
        let _entered = self.enter()?;
        // SAFETY: a context is current.
        check("cuCtxSynchronize", unsafe { sys::cuCtxSynchronize() })
    }

    /// An attribute of the device of this context.
    pub fn attribute(self, attribute: sys::CUdevice_attribute) -> Result<u32> {
        let _entered = self.enter()?;
        let (mut device, mut value) = (0, 0);
        // SAFETY: a context is current, the places are there to be written.
        unsafe {
            check("cuCtxGetDevice", sys::cuCtxGetDevice(&mut device))?;
            check("cuDeviceGetAttribute", sys::cuDeviceGetAttribute(&mut value, attribute, device))?;
        }
        Ok(value as u32)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.pushed {
            let mut context = std::ptr::null_mut();
            // SAFETY: what was pushed is popped.
            unsafe { sys::cuCtxPopCurrent_v2(&mut context) };
        }
    }
}

/// Sets bytes of device memory to 0.
pub fn clear(address: u64, bytes: usize) -> Result<()> {
    // SAFETY: the caller owns the memory, and a context is current.
    check("cuMemsetD8", unsafe { sys::cuMemsetD8_v2(address, 0, bytes) })?;
    // SAFETY: a context is current.
    check("cuCtxSynchronize", unsafe { sys::cuCtxSynchronize() })
}

/// Copies to device memory, before it returns.
pub fn write(address: u64, bytes: &[u8]) -> Result<()> {
    // SAFETY: the caller owns so many bytes there, and a context is current.
    check("cuMemcpyHtoD", unsafe { sys::cuMemcpyHtoD_v2(address, bytes.as_ptr().cast(), bytes.len()) })
}

/// Copies from device memory.
pub fn read(address: u64, bytes: &mut [u8]) -> Result<()> {
    // SAFETY: as above.
    check("cuMemcpyDtoH", unsafe { sys::cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), address, bytes.len()) })
}

/// Memory of the device, freed on drop.
#[derive(Debug)]
pub struct DeviceMemory {
    device: Device,
    address: u64,
}

impl DeviceMemory {
    /// So many bytes, with anything in them.
    pub fn allocate(device: &Device, bytes: usize) -> Result<DeviceMemory> {
        let _entered = device.context().enter()?;
        let mut address = 0;
        // SAFETY: a context is current, the place is there to be written.
        check("cuMemAlloc", unsafe { sys::cuMemAlloc_v2(&mut address, bytes.max(1)) })?;
        Ok(DeviceMemory { device: device.clone(), address })
    }

    /// Where it is.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Copies to it, before it returns. There must be room.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        let _entered = self.device.context().enter()?;
        write(self.address, bytes)
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if let Ok(_entered) = self.device.context().enter() {
            // SAFETY: it was allocated here, and nothing uses it any more.
            unsafe { sys::cuMemFree_v2(self.address) };
        }
    }
}

/// Words of the host that kernels see, zeroed at first.
#[derive(Debug)]
pub struct HostWords {
    context: Context,
    words: *mut AtomicU64,
    count: usize,
    device_address: u64,
}

// SAFETY: they are only used as atomics.
unsafe impl Send for HostWords {}
// SAFETY: as above.
unsafe impl Sync for HostWords {}

impl HostWords {
    /// So many words.
    pub fn new(context: Context, count: usize) -> Result<HostWords> {
        let _entered = context.enter()?;
        let (bytes, mut pointer, mut device_address) = (count * size_of::<u64>(), std::ptr::null_mut::<c_void>(), 0);
        // SAFETY: a context is current, the places are there to be written.
        unsafe {
            check("cuMemHostAlloc", sys::cuMemHostAlloc(&mut pointer, bytes, sys::CU_MEMHOSTALLOC_DEVICEMAP))?;
            std::ptr::write_bytes(pointer.cast::<u8>(), 0, bytes);
            let mapped = sys::cuMemHostGetDevicePointer_v2(&mut device_address, pointer, 0);
            if let Err(error) = check("cuMemHostGetDevicePointer", mapped) {
                sys::cuMemFreeHost(pointer);
                return Err(error);
            }
        }
        Ok(HostWords { context, words: pointer.cast(), count, device_address })
    }

    /// Where kernels see them.
    pub fn device_address(&self) -> u64 {
        self.device_address
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.count, "word {index} of {}", self.count);
        // SAFETY: so many words were allocated, and live as long as this.
        unsafe { &*self.words.add(index) }
    }

    pub fn load(&self, index: usize) -> u64 {
        self.word(index).load(Ordering::Acquire)
    }

    pub fn store(&self, index: usize, value: u64) {
        self.word(index).store(value, Ordering::Release);
    }
}

impl Drop for HostWords {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: it was allocated here, and nothing uses it any more.
            unsafe { sys::cuMemFreeHost(self.words.cast()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FUNCTIONS;
    use std::collections::BTreeSet;

    #[test]
    fn every_function_that_is_called_is_looked_for() {
        let sources = [
            include_str!("boot.rs"),
            include_str!("device.rs"),
            include_str!("driver.rs"),
            include_str!("heap.rs"),
            include_str!("kernels.rs"),
            include_str!("pool.rs"),
            include_str!("watch.rs"),
            include_str!("world.rs"),
        ];
        let call = concat!("sys::", "cu");
        let called = sources.iter().flat_map(|source| source.match_indices(call).map(|(at, _)| &source[at + 5..]));
        let named = called.map(|text| text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap());
        let called: BTreeSet<&str> = named.filter(|name| *name != "culib").collect();
        assert_eq!(called, FUNCTIONS.into_iter().collect());
    }
}
