//! NVSHMEM's host functions, and the calls of kernels that reach them through the driver's stand-in.

use crate::heap::Heap;
use crate::meeting::{MOST_PES, Meeting, unlink};
use crate::network::{self, Operation};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

const IS_INITIALIZED: c_int = 2;
/// What the real library returns when it cannot be initialised.
const FAILED: c_int = 7;
const SIGNAL_ADD: u64 = 10;
/// More than 2: not all PEs can be reached by loads and stores, so quiet and fence concern the network too.
const CONNECTED_BY_NETWORK: u32 = 3;
/// Offsets in nvshmemi_device_state_d, of the headers of 3.8.
const STATE_PES: u64 = 8;
const STATE_CONNECTIVITY: u64 = 32;
const STATE_HEAP: u64 = 40;
const STATE_HEAP_BYTES: u64 = 48;
const STATE_PEERS: u64 = 56;

struct World {
    meeting: Meeting,
    heap: Heap,
}

static WORLD: Mutex<Option<World>> = Mutex::new(None);

fn world() -> MutexGuard<'static, Option<World>> {
    WORLD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As the real library: calls before it is initialised end the process.
fn initialised<T>(function: &str, act: impl FnOnce(&mut World) -> T) -> T {
    match world().as_mut() {
        Some(world) => act(world),
        None => {
            eprintln!("{function} called before NVSHMEM is initialised");
            std::process::exit(255);
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn nvshmemx_init_status() -> c_int {
    if world().is_some() { IS_INITIALIZED } else { 0 }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvshmemx_vendor_get_version_info(major: *mut c_int, minor: *mut c_int, patch: *mut c_int) {
    // SAFETY: as NVSHMEM's interface says, here and below.
    unsafe {
        major.write(3);
        minor.write(8);
        patch.write(0);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvshmemx_get_uniqueid(id: *mut u8) -> c_int {
    let mut random = [0u8; 8];
    // SAFETY: as above: an id has 128 bytes, of which the first four are its version.
    unsafe {
        libc::getrandom(random.as_mut_ptr().cast(), random.len(), 0);
        std::ptr::copy_nonoverlapping(random.as_ptr(), id.add(4), random.len());
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvshmemx_set_attr_uniqueid_args(
    rank: c_int,
    size: c_int,
    id: *const u8,
    attributes: *mut u8,
) -> c_int {
    if rank < 0 || rank >= size || size as usize > MOST_PES {
        return FAILED;
    }
    // SAFETY: as above: nvshmemx_init_attr_t has its uid_args at 24, with id, rank and size at 8, 16 and 20.
    unsafe {
        attributes.add(32).cast::<*const u8>().write_unaligned(id);
        attributes.add(40).cast::<c_int>().write_unaligned(rank);
        attributes.add(44).cast::<c_int>().write_unaligned(size);
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvshmemx_hostlib_init_attr(flags: c_uint, attributes: *const u8) -> c_int {
    if flags != 1 << 3 || world().is_some() {
        return FAILED;
    }
    // SAFETY: as above.
    let (id, pe, pes) = unsafe {
        let id = attributes.add(32).cast::<*const u8>().read_unaligned();
        let random = std::slice::from_raw_parts(id.add(4), 8);
        let name: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let number = |at: usize| attributes.add(at).cast::<c_int>().read_unaligned() as usize;
        (name, number(40), number(44))
    };
    let joined = Meeting::join(&id, pe, pes).and_then(|meeting| Ok((Heap::new(&id, &meeting)?, meeting)));
    match joined {
        Ok((heap, meeting)) => {
            unlink(&id);
            *world() = Some(World { meeting, heap });
            0
        }
        Err(error) => {
            eprintln!("gpu-sim: {error}");
            FAILED
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn nvshmemx_hostlib_finalize() {
    network::quiet();
    initialised("nvshmemx_hostlib_finalize", |world| world.meeting.barrier());
    *world() = None;
}

#[unsafe(no_mangle)]
pub extern "C" fn nvshmem_my_pe() -> c_int {
    world().as_ref().map_or(-1, |world| world.meeting.pe as c_int)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvshmem_n_pes() -> c_int {
    world().as_ref().map_or(-1, |world| world.meeting.pes as c_int)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvshmem_malloc(bytes: usize) -> *mut c_void {
    initialised("nvshmem_malloc", |world| {
        let asked = world.meeting.gather(bytes as u64);
        if asked.iter().any(|other| *other != bytes as u64) {
            eprintln!("gpu-sim: nvshmem_malloc of different sizes: {asked:?}");
            std::process::exit(255);
        }
        let found = world.heap.allocate(bytes).filter(|_| bytes > 0);
        world.meeting.barrier();
        found.map_or(std::ptr::null_mut(), |address| address as *mut c_void)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvshmem_free(pointer: *mut c_void) {
    network::quiet();
    initialised("nvshmem_free", |world| {
        world.meeting.barrier();
        if !world.heap.free(pointer as u64) {
            eprintln!("gpu-sim: nvshmem_free of {pointer:p}, which is no symmetric memory");
            std::process::exit(255);
        }
        world.meeting.barrier();
    });
}

#[unsafe(no_mangle)]
pub extern "C" fn nvshmem_ptr(pointer: *const c_void, pe: c_int) -> *mut c_void {
    initialised("nvshmem_ptr", |world| {
        let base = world.heap.reachable_base(pe as usize);
        match world.heap.offset(pointer as u64) {
            Some(offset) if base != 0 => (base + offset as u64) as *mut c_void,
            _ => std::ptr::null_mut(),
        }
    })
}

/// Delivered like a kernel's; it blocks, so its source is read before it returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvshmem_putmem(to: *mut c_void, from: *const c_void, bytes: usize, pe: c_int) {
    if put(to as u64, from as u64, bytes, None, pe as usize, false) != 0 {
        eprintln!("gpu-sim: nvshmem_putmem to {to:p}, which is no symmetric memory of {bytes} bytes");
        std::process::exit(255);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn nvshmem_barrier_all() {
    network::quiet();
    initialised("nvshmem_barrier_all", |world| world.meeting.barrier());
}

/// Fills the state that the device code of NVSHMEM's headers reads.
#[unsafe(no_mangle)]
pub extern "C" fn nvshmemx_cumodule_init(module: *mut c_void) -> c_int {
    type VariableFn = unsafe extern "C" fn(*mut c_void, *const c_char) -> u64;
    // SAFETY: only looks for the driver's stand-in; the function is of that type.
    let state = unsafe {
        let driver = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
        let symbol = if driver.is_null() { driver } else { libc::dlsym(driver, c"gpu_sim_variable".as_ptr()) };
        if symbol.is_null() {
            return FAILED;
        }
        let variable = std::mem::transmute::<*mut c_void, VariableFn>(symbol);
        variable(module, c"nvshmemi_device_state_d".as_ptr())
    };
    if state == 0 {
        return FAILED;
    }
    initialised("nvshmemx_cumodule_init", |world| {
        let bases: Vec<u64> = (0..world.meeting.pes).map(|pe| world.heap.reachable_base(pe)).collect();
        let bases: &'static [u64] = bases.leak();
        Heap::show_driver(bases.as_ptr() as u64, size_of_val(bases) as u64);
        // SAFETY: the state has 848 bytes, and no kernel of the module runs yet.
        unsafe {
            let set = |at: u64, value: u64| ((state + at) as *mut u64).write(value);
            ((state + STATE_PES) as *mut u32).write(world.meeting.pes as u32);
            ((state + STATE_CONNECTIVITY) as *mut u32).write(CONNECTED_BY_NETWORK);
            set(STATE_HEAP, world.heap.base());
            set(STATE_HEAP_BYTES, world.heap.bytes() as u64);
            set(STATE_PEERS, bases.as_ptr() as u64);
        }
    });
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn nvshmemx_cumodule_finalize(_module: *mut c_void) -> c_int {
    0
}

/// An argument of a call.
#[repr(C)]
pub struct Argument {
    bytes: *const u8,
    length: usize,
}

/// A call of a kernel: 0 when it is done, 1 when it must be asked again, else it is not known or wrong.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpu_sim_call(name: *const c_char, arguments: *const Argument, count: usize) -> c_int {
    // SAFETY: the driver's stand-in gives what it says.
    let (name, numbers) = unsafe {
        let number = |argument: &Argument| {
            let bytes = std::slice::from_raw_parts(argument.bytes, argument.length);
            bytes.iter().rev().fold(0u64, |value, byte| value << 8 | *byte as u64)
        };
        let arguments = if count == 0 { &[] } else { std::slice::from_raw_parts(arguments, count) };
        (CStr::from_ptr(name).to_string_lossy(), arguments.iter().map(number).collect::<Vec<u64>>())
    };
    let is = |function: &str| name.contains(function);
    match (&*numbers, ()) {
        (&[to, from, bytes, signal, value, how, pe, is_nbi, ..], ()) if is("transfer_put_signal_dispatch") => {
            put(to, from, bytes as usize, Some((signal, value, how)), pe as usize, is_nbi != 0)
        }
        (&[to, from, bytes, pe, ..], ()) if is("transfer_rma_nbi") => {
            put(to, from, bytes as usize, None, pe as usize, true)
        }
        (&[to, value, pe, ..], ()) if is("transfer_rma_pIm") => change(to, value, 0, pe as usize),
        (&[to, value, pe, how, ..], ()) if is("transfer_amo_nonfetchIm") => change(to, value, how, pe as usize),
        (_, ()) if is("transfer_quiet") => !network::is_quiet() as c_int,
        (_, ()) if is("transfer_fence") => {
            network::fence();
            0
        }
        (_, ()) if is("transfer_syncapi_update_mem") => 0,
        _ => -1,
    }
}

fn change(to: u64, value: u64, how: u64, pe: usize) -> c_int {
    let Some(to) = initialised("a put", |world| world.heap.remote(to, 8, pe)) else { return -1 };
    network::send(vec![if how == SIGNAL_ADD { Operation::Add { to, value } } else { Operation::Set { to, value } }]);
    0
}

fn put(to: u64, from: u64, bytes: usize, signal: Option<(u64, u64, u64)>, pe: usize, is_nbi: bool) -> c_int {
    let remote = |address: u64, bytes: usize| initialised("a put", |world| world.heap.remote(address, bytes, pe));
    let Some(to) = remote(to, bytes) else { return -1 };
    // One that blocks has read its source when it returns.
    let from = if is_nbi {
        from
    } else {
        // SAFETY: the kernel vouches for its source.
        unsafe { std::slice::from_raw_parts(from as *const u8, bytes) }.to_vec().leak().as_ptr() as u64
    };
    let mut operations = vec![Operation::Copy { from, to, bytes }];
    if let Some((signal, value, how)) = signal {
        let Some(to) = remote(signal, 8) else { return -1 };
        operations.push(if how == SIGNAL_ADD { Operation::Add { to, value } } else { Operation::Set { to, value } });
    }
    network::send(operations);
    0
}
