//! Modules and launches: kernels are run by the interpreter, and what they call outside is answered by NVSHMEM's stand-in.

use crate::context::need;
use crate::error::{self, INVALID_VALUE, NO_BINARY, NOT_FOUND, SUCCESS};
use crate::memory::{self, Kind as Memory, allocate};
use crate::stream::{self, Task};
use crate::{Handle, Status, number};
use gpu_sim_interpreter::{Access, Answer, Caller, Fault, Kind, Launch, Machine, Module, Placed, Settings, run};
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A loaded module. Handles to it are never freed.
pub struct Loaded {
    placed: Placed,
}

/// One of its kernels.
pub struct Function {
    module: &'static Loaded,
    name: String,
}

/// A launch with its parameters, which have been copied.
#[derive(Clone)]
pub struct Work {
    function: &'static Function,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    parameters: Arc<Vec<u8>>,
}

impl Work {
    /// Runs it to its end; a fault sticks.
    pub fn run(&self) {
        static LAUNCHES: AtomicU64 = AtomicU64::new(0);
        if error::sticky() != SUCCESS {
            return;
        }
        let launch = Launch {
            kernel: &self.function.name,
            grid: self.grid,
            block: self.block,
            dynamic_shared_bytes: self.shared_bytes,
            parameters: &self.parameters,
        };
        let settings = Settings {
            seed: number("GPU_SIM_SEED", 1)
                .wrapping_mul(0x1_0001)
                .wrapping_add(LAUNCHES.fetch_add(1, Ordering::Relaxed)),
            step_limit: number("GPU_SIM_STEPS", 2_000_000),
            time_limit: Duration::from_secs(number("GPU_SIM_TIMEOUT", 30)),
            resident_blocks: 64,
        };
        if let Err(fault) = run(&self.function.module.placed, &launch, &Device, &settings) {
            report(&fault);
            error::stick(match fault.kind {
                Kind::Address | Kind::Uninitialised => error::ILLEGAL_ADDRESS,
                Kind::Alignment => error::MISALIGNED_ADDRESS,
                Kind::Timeout | Kind::Deadlock => error::LAUNCH_TIMEOUT,
                _ => error::LAUNCH_FAILED,
            });
        }
    }
}

fn report(fault: &Fault) {
    eprintln!("gpu-sim: {fault}");
    if let Some(file) = std::env::var_os("GPU_SIM_LOG") {
        let opened = std::fs::OpenOptions::new().create(true).append(true).open(file);
        let _ = opened.and_then(|mut file| writeln!(file, "{fault}"));
    }
}

/// The arguments of a call, as NVSHMEM's stand-in takes them.
#[repr(C)]
struct Argument {
    bytes: *const u8,
    length: usize,
}

type CallFn = unsafe extern "C" fn(*const c_char, *const Argument, usize) -> c_int;

struct Device;

impl Machine for Device {
    fn check(&self, address: u64, bytes: usize, _: Access) -> Result<(), String> {
        memory::check(address, bytes as u64)
    }

    fn is_block_wide(&self, function: &str) -> bool {
        // NVSHMEM's name of the threads of a block.
        function.contains("threadgroup_t3")
    }

    fn call(&self, function: &str, arguments: &[Vec<u8>], _: usize, _: Caller) -> Result<Answer, String> {
        // SAFETY: only looks the library up, which stays once it is there; the function is of that type.
        let answer = unsafe {
            let library = libc::dlopen(c"libnvshmem_host.so.3".as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
            if library.is_null() {
                return Err("NVSHMEM is not loaded".into());
            }
            let symbol = libc::dlsym(library, c"gpu_sim_call".as_ptr());
            if symbol.is_null() {
                return Err("the NVSHMEM of this process is no stand-in".into());
            }
            let call: CallFn = std::mem::transmute::<*mut c_void, CallFn>(symbol);
            let given = |bytes: &Vec<u8>| Argument { bytes: bytes.as_ptr(), length: bytes.len() };
            let given: Vec<Argument> = arguments.iter().map(given).collect();
            let name = CString::new(function).expect("names hold no NUL");
            call(name.as_ptr(), given.as_ptr(), given.len())
        };
        match answer {
            0 => Ok(Answer::Done(Vec::new())),
            1 => Ok(Answer::Again),
            _ => Err("NVSHMEM's stand-in does not know it, or refuses its arguments".into()),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(module: *mut Handle, image: *const c_void) -> Status {
    if need() != SUCCESS {
        return need();
    }
    // SAFETY: as the driver's interface says: text ends in a NUL.
    let given = unsafe { CStr::from_ptr(image.cast()) }.to_string_lossy();
    let text = match std::env::var_os("GPU_SIM_IMAGE") {
        Some(file) => std::fs::read_to_string(file).expect("GPU_SIM_IMAGE is a file of PTX").into(),
        None => given,
    };
    if !text.contains(".version") {
        return NO_BINARY;
    }
    let parsed = Module::parse(&text).and_then(|module| {
        let unknown = module.unknown();
        if unknown.is_empty() { Ok(module) } else { Err(Fault { kind: Kind::Unknown, text: unknown.join("\n") }) }
    });
    let parsed = match parsed {
        Ok(parsed) => parsed,
        Err(fault) => {
            report(&fault);
            return NO_BINARY;
        }
    };
    let mut addresses = HashMap::new();
    for global in parsed.globals() {
        let Some(address) = allocate(global.bytes.max(1), Memory::Device) else { return error::OUT_OF_MEMORY };
        // SAFETY: so many bytes were just allocated.
        unsafe {
            std::ptr::write_bytes(address as *mut u8, 0, global.bytes);
            std::ptr::copy_nonoverlapping(global.initial.as_ptr(), address as *mut u8, global.initial.len());
        }
        addresses.insert(global.name.clone(), address);
    }
    let placed = Placed::new(Arc::new(parsed), addresses).expect("every variable was placed");
    // SAFETY: as above.
    unsafe { module.write(Box::into_raw(Box::new(Loaded { placed })).cast()) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) -> Status {
    // SAFETY: as the driver's interface says; modules are never freed.
    let (module, name) = unsafe { (&*module.cast::<Loaded>(), CStr::from_ptr(name).to_string_lossy().into_owned()) };
    if module.placed.module().kernel(&name).is_none() {
        return NOT_FOUND;
    }
    // SAFETY: as above.
    unsafe { function.write(Box::into_raw(Box::new(Function { module, name })).cast()) };
    SUCCESS
}

/// NVSHMEM's stand-in: where a variable of a module lies; 0 if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpu_sim_variable(module: Handle, name: *const c_char) -> u64 {
    // SAFETY: the handle is one of ours, the name a string.
    let (module, name) = unsafe { (&*module.cast::<Loaded>(), CStr::from_ptr(name).to_string_lossy()) };
    let found = module.placed.module().globals().iter().position(|global| global.name == name);
    found.map_or(0, |index| module.placed.address(index))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    blocks: *mut c_int,
    _function: Handle,
    threads: c_int,
    _shared_bytes: usize,
) -> Status {
    if threads <= 0 {
        return INVALID_VALUE;
    }
    // SAFETY: as the driver's interface says.
    unsafe { blocks.write(2) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernel(
    function: Handle,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared_bytes: c_uint,
    stream: Handle,
    parameters: *mut Handle,
    _extra: *mut Handle,
) -> Status {
    if need() != SUCCESS {
        return need();
    }
    // SAFETY: as the driver's interface says; functions are never freed.
    let function: &'static Function = unsafe { &*function.cast::<Function>() };
    let kernel = function.module.placed.module().kernel(&function.name).expect("it was found before");
    let mut bytes = vec![0; kernel.parameter_bytes];
    for (index, parameter) in kernel.parameters.iter().enumerate() {
        // SAFETY: the caller gives the address of each parameter.
        let given = unsafe { std::slice::from_raw_parts((*parameters.add(index)).cast::<u8>(), parameter.bytes) };
        bytes[parameter.offset..parameter.offset + parameter.bytes].copy_from_slice(given);
    }
    let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
    let threads = block.iter().map(|count| *count as u64).product::<u64>();
    if threads == 0 || threads > kernel.max_threads.unwrap_or(1024) as u64 || grid.contains(&0) {
        return INVALID_VALUE;
    }
    stream::push(stream, Task::Launch(Work { function, grid, block, shared_bytes, parameters: Arc::new(bytes) }))
}
