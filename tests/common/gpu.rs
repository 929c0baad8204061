//! The CUDA driver as the tests use it, looked up at run time, and device memory from `boxwise_malloc`.

use libloading::os::unix::{Library, RTLD_NOW};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::OnceLock;

/// The folder of the stand-ins for the CUDA driver and NVSHMEM, or `none`: those of this machine, with its GPUs.
const STAND_INS: &str = "BOXWISE_GPU_SIM";

/// What the ranks of a test find as the CUDA driver and NVSHMEM.
#[derive(Clone)]
pub enum Gpus {
    /// The stand-ins in this folder.
    Simulated(String),
    Real,
}

impl Gpus {
    /// `None` where there is nothing to test with.
    pub fn find() -> Option<Gpus> {
        match std::env::var(STAND_INS).as_deref() {
            Ok("none") => Some(Gpus::Real),
            Ok(folder) => Some(Gpus::Simulated(folder.to_owned())),
            Err(_) => {
                println!(
                    "skipped: {STAND_INS} does not say where the stand-ins for CUDA and NVSHMEM are \
                     (tests/gpu-sim/place)"
                );
                None
            }
        }
    }

    /// What is set for the ranks: which of the simulated GPUs reach one another, and the order in which their threads run.
    pub fn variables<'a>(&'a self, reachable: &'a str, seed: &'a str) -> Vec<(&'a str, &'a str)> {
        match self {
            Gpus::Real => Vec::new(),
            Gpus::Simulated(stand_ins) => vec![
                ("LD_LIBRARY_PATH", stand_ins),
                // Which may be set for the build, to the real one.
                ("NVSHMEM_HOME", ""),
                ("GPU_SIM_REACHABLE", reachable),
                ("GPU_SIM_SEED", seed),
            ],
        }
    }
}

type Status = c_int;
pub type Handle = *mut c_void;

macro_rules! driver_functions {
    ($($name:ident($($type:ty),*);)*) => {
        /// The driver, with a context of the device of this process.
        #[allow(non_snake_case)] // the names are the driver's
        pub struct Driver {
            $($name: unsafe extern "C" fn($($type),*) -> Status,)*
            library: Library,
            context: usize,
        }

        impl Driver {
            fn load() -> Driver {
                // SAFETY: the initialisers of a driver have no conditions; the types are the driver's.
                unsafe {
                    let library = Library::open(Some("libcuda.so.1"), RTLD_NOW).expect("a CUDA driver");
                    Driver {
                        $($name: *library.get(concat!(stringify!($name), "\0").as_bytes()).expect(stringify!($name)),)*
                        library,
                        context: 0,
                    }
                }
            }
        }
    };
}

driver_functions! {
    cuInit(c_uint);
    cuDeviceGet(*mut c_int, c_int);
    cuDeviceGetCount(*mut c_int);
    cuDevicePrimaryCtxRetain(*mut Handle, c_int);
    cuCtxSetCurrent(Handle);
    cuCtxSynchronize();
    cuMemAlloc_v2(*mut u64, usize);
    cuMemFree_v2(u64);
    cuMemcpyHtoD_v2(u64, *const c_void, usize);
    cuMemcpyDtoH_v2(*mut c_void, u64, usize);
    cuStreamCreate(*mut Handle, c_uint);
    cuStreamSynchronize(Handle);
    cuStreamDestroy_v2(Handle);
    cuStreamBeginCapture_v2(Handle, c_int);
    cuStreamEndCapture(Handle, *mut Handle);
    cuGraphInstantiateWithFlags(*mut Handle, Handle, u64);
    cuGraphLaunch(Handle, Handle);
    cuGraphExecDestroy(Handle);
    cuGraphDestroy(Handle);
}

const STREAM_NON_BLOCKING: c_uint = 1;
const CAPTURE_THREAD_LOCAL: c_int = 1;

fn ok(what: &str, status: Status) {
    assert_eq!(status, 0, "{what}");
}

/// The driver of this process; the context of its device is current on this thread from now on.
pub fn driver() -> &'static Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    let driver = DRIVER.get_or_init(|| {
        let mut driver = Driver::load();
        let rank: c_int = std::env::var("BOXWISE_RANK").map_or(0, |rank| rank.parse().expect("a rank"));
        let (mut count, mut device, mut context) = (0, 0, ptr::null_mut());
        // SAFETY: the places are there to be written.
        unsafe {
            ok("cuInit", (driver.cuInit)(0));
            ok("cuDeviceGetCount", (driver.cuDeviceGetCount)(&mut count));
            ok("cuDeviceGet", (driver.cuDeviceGet)(&mut device, rank % count.max(1)));
            ok("cuDevicePrimaryCtxRetain", (driver.cuDevicePrimaryCtxRetain)(&mut context, device));
        }
        driver.context = context.expose_provenance();
        driver
    });
    // SAFETY: the context is retained for as long as the process lives.
    unsafe { ok("cuCtxSetCurrent", (driver.cuCtxSetCurrent)(ptr::with_exposed_provenance_mut(driver.context))) };
    driver
}

impl Driver {
    /// Copies to memory of the device, before it returns.
    pub fn write(&self, to: *mut u8, bytes: &[u8]) {
        let (to, from) = (to.expose_provenance() as u64, bytes.as_ptr().cast());
        // SAFETY: the caller's test owns so many bytes there.
        unsafe { ok("cuMemcpyHtoD", (self.cuMemcpyHtoD_v2)(to, from, bytes.len())) };
    }

    /// Copies from memory of the device, before it returns.
    pub fn read(&self, from: *const u8, bytes: &mut [u8]) {
        let (to, from) = (bytes.as_mut_ptr().cast(), from.expose_provenance() as u64);
        // SAFETY: the caller's test owns so many bytes there.
        unsafe { ok("cuMemcpyDtoH", (self.cuMemcpyDtoH_v2)(to, from, bytes.len())) };
    }

    /// Memory of the device that is not in the symmetric heap.
    pub fn allocate(&self, bytes: usize) -> *mut u8 {
        let mut address = 0;
        // SAFETY: the place is there to be written.
        unsafe { ok("cuMemAlloc", (self.cuMemAlloc_v2)(&mut address, bytes)) };
        ptr::with_exposed_provenance_mut(address as usize)
    }

    pub fn free(&self, pointer: *mut u8) {
        // SAFETY: the caller's test allocated it.
        unsafe { ok("cuMemFree", (self.cuMemFree_v2)(pointer.addr() as u64)) };
    }

    /// Waits for everything on the device.
    pub fn synchronize(&self) {
        // SAFETY: a context is current.
        unsafe { ok("cuCtxSynchronize", (self.cuCtxSynchronize)()) };
    }

    /// The simulated device fails: from now on every call says so.
    pub fn fail(&self) {
        const ILLEGAL_ADDRESS: Status = 700;
        // SAFETY: the stand-in's own function.
        unsafe {
            let stick =
                self.library.get::<unsafe extern "C" fn(Status)>(b"gpu_sim_stick\0").expect("a simulated device");
            stick(ILLEGAL_ADDRESS);
        }
    }

    /// A stream that does not wait for the default one.
    pub fn stream(&'static self) -> CudaStream {
        let mut stream = ptr::null_mut();
        // SAFETY: the place is there to be written.
        unsafe { ok("cuStreamCreate", (self.cuStreamCreate)(&mut stream, STREAM_NON_BLOCKING)) };
        CudaStream { driver: self, stream }
    }
}

/// A stream of the driver.
pub struct CudaStream {
    driver: &'static Driver,
    pub stream: Handle,
}

// SAFETY: the driver's streams may be used by any thread.
unsafe impl Send for CudaStream {}

impl CudaStream {
    pub fn synchronize(&self) {
        // SAFETY: the stream lives as long as this value.
        unsafe { ok("cuStreamSynchronize", (self.driver.cuStreamSynchronize)(self.stream)) };
    }

    /// What `record` queues on this stream, as a graph instead.
    pub fn capture(&self, record: impl FnOnce()) -> Graph {
        let (driver, mut graph, mut executable) = (self.driver, ptr::null_mut(), ptr::null_mut());
        // SAFETY: the places are there to be written; the graph is gone once its executable form exists.
        unsafe {
            ok("cuStreamBeginCapture", (driver.cuStreamBeginCapture_v2)(self.stream, CAPTURE_THREAD_LOCAL));
            record();
            ok("cuStreamEndCapture", (driver.cuStreamEndCapture)(self.stream, &mut graph));
            ok("cuGraphInstantiate", (driver.cuGraphInstantiateWithFlags)(&mut executable, graph, 0));
            ok("cuGraphDestroy", (driver.cuGraphDestroy)(graph));
        }
        Graph { driver, executable }
    }
}

impl Drop for CudaStream {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        unsafe { (self.driver.cuStreamDestroy_v2)(self.stream) };
    }
}

/// Recorded work that can be queued again and again.
pub struct Graph {
    driver: &'static Driver,
    executable: Handle,
}

impl Graph {
    pub fn launch(&self, stream: &CudaStream) {
        // SAFETY: both live.
        unsafe { ok("cuGraphLaunch", (self.driver.cuGraphLaunch)(self.executable, stream.stream)) };
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        unsafe { (self.driver.cuGraphExecDestroy)(self.executable) };
    }
}

// The C functions, which are in this program because the library is.
unsafe extern "C" {
    fn boxwise_comm_create(comm_handle: *const c_void, comm_type: i32, comm: *mut Handle) -> i32;
    fn boxwise_comm_destroy(comm: Handle) -> i32;
    fn boxwise_malloc(comm: Handle, memory: i32, bytes: usize, pointer: *mut *mut c_void) -> i32;
    fn boxwise_free(comm: Handle, pointer: *mut c_void) -> i32;
    fn boxwise_last_error() -> *const c_char;
}

const COMM_NONE: i32 = 1;
const MEMORY_DEVICE: i32 = 1;

/// The detail text of the last call of a C function that failed.
pub fn last_error() -> String {
    // SAFETY: a constant or this thread's text, terminated.
    unsafe { CStr::from_ptr(boxwise_last_error()) }.to_string_lossy().into_owned()
}

/// Symmetric memory of the ranks of the world.
pub struct DeviceBuffer {
    comm: Handle,
    pointer: *mut u8,
    bytes: usize,
}

impl DeviceBuffer {
    /// Collective over the world.
    pub fn new(bytes: usize) -> Result<DeviceBuffer, String> {
        driver();
        DeviceBuffer::in_this_context(bytes)
    }

    /// The same, in whatever context is current.
    pub fn in_this_context(bytes: usize) -> Result<DeviceBuffer, String> {
        let (mut comm, mut pointer) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the places are there to be written.
        let status = unsafe {
            match boxwise_comm_create(ptr::null(), COMM_NONE, &mut comm) {
                0 => boxwise_malloc(comm, MEMORY_DEVICE, bytes, &mut pointer),
                status => status,
            }
        };
        match status {
            0 => Ok(DeviceBuffer { comm, pointer: pointer.cast(), bytes }),
            status => Err(format!("status {status}: {}", last_error())),
        }
    }

    pub fn pointer(&self) -> *mut u8 {
        self.pointer
    }

    pub fn len(&self) -> usize {
        self.bytes
    }
}

impl DeviceBuffer {
    /// Collective over the world.
    pub fn free(self) -> Result<(), String> {
        let buffer = std::mem::ManuallyDrop::new(self);
        // SAFETY: both came from the library, once.
        unsafe {
            let freed = boxwise_free(buffer.comm, buffer.pointer.cast());
            let told = if freed == 0 { Ok(()) } else { Err(last_error()) };
            boxwise_comm_destroy(buffer.comm);
            told
        }
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        // SAFETY: both came from the library, once.
        let statuses = unsafe { [boxwise_free(self.comm, self.pointer.cast()), boxwise_comm_destroy(self.comm)] };
        debug_assert!(statuses == [0, 0] || std::thread::panicking(), "{statuses:?}: {}", last_error());
    }
}
