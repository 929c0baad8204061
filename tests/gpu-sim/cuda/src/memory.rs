//! Memory that kernels may use: device memory, page-locked memory of the host, variables of modules, and NVSHMEM's heaps.

use crate::context::need;
use crate::error::{INVALID_VALUE, OUT_OF_MEMORY, SUCCESS};
use crate::stream::{self, Task};
use crate::{Handle, Status};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

const POISON: u8 = 0xd5;
const PAGE: usize = 4096;
const ATTRIBUTE_MEMORY_TYPE: c_int = 2;

/// What a piece of memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    Host = 1,
    Device = 2,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    bytes: u64,
    kind: Kind,
    /// Bytes mapped here, of what was not registered by others.
    mapped: usize,
}

static PIECES: RwLock<BTreeMap<u64, Piece>> = RwLock::new(BTreeMap::new());
/// Changes with the pieces.
static GENERATION: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// The piece that this thread used last, and when it was looked up.
    static LAST: Cell<(u64, u64, u64)> = const { Cell::new((0, 0, 0)) };
}

fn find(address: u64) -> Option<(u64, Piece)> {
    let pieces = PIECES.read().unwrap_or_else(PoisonError::into_inner);
    let (start, piece) = pieces.range(..=address).next_back()?;
    (address < start + piece.bytes).then_some((*start, *piece))
}

/// Whether these bytes lie in one piece.
pub fn check(address: u64, bytes: u64) -> Result<(), String> {
    let generation = GENERATION.load(Ordering::Acquire);
    let (start, end, then) = LAST.get();
    if then == generation && start <= address && address + bytes <= end {
        return Ok(());
    }
    match find(address) {
        Some((start, piece)) if address + bytes <= start + piece.bytes => {
            LAST.set((start, start + piece.bytes, generation));
            Ok(())
        }
        Some((start, piece)) => {
            Err(format!("{bytes} bytes at {address:#x} leave a piece of {} bytes at {start:#x}", piece.bytes))
        }
        None => Err(format!("{bytes} bytes at {address:#x} are in no memory of the device")),
    }
}

fn insert(start: u64, piece: Piece) {
    PIECES.write().unwrap_or_else(PoisonError::into_inner).insert(start, piece);
    GENERATION.fetch_add(1, Ordering::AcqRel);
}

fn remove(start: u64) -> Option<Piece> {
    let removed = PIECES.write().unwrap_or_else(PoisonError::into_inner).remove(&start);
    GENERATION.fetch_add(1, Ordering::AcqRel);
    removed
}

/// New memory, poisoned, with pages after it that nobody may touch. It ends where they begin, as far as 256 allows.
pub fn allocate(bytes: usize, kind: Kind) -> Option<u64> {
    let room = bytes.checked_next_multiple_of(256)?;
    let pages = room.checked_next_multiple_of(PAGE)?;
    // SAFETY: fresh mappings at addresses of the kernel's choice touch nothing that exists.
    let base = unsafe {
        let base = libc::mmap(
            std::ptr::null_mut(),
            pages + PAGE,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        );
        if base == libc::MAP_FAILED || libc::mprotect(base, pages, libc::PROT_READ | libc::PROT_WRITE) != 0 {
            return None;
        }
        std::ptr::write_bytes(base.cast::<u8>(), POISON, pages);
        base as u64
    };
    let start = base + (pages - room) as u64;
    insert(start, Piece { bytes: bytes as u64, kind, mapped: pages + PAGE });
    Some(start)
}

fn release(start: u64, kind: Kind) -> Status {
    if find(start).is_none_or(|(found, piece)| found != start || piece.kind != kind || piece.mapped == 0) {
        return INVALID_VALUE;
    }
    let piece = remove(start).expect("just found");
    let base = start / PAGE as u64 * PAGE as u64;
    // SAFETY: the mapping was made by `allocate` and begins on the page of the first byte.
    unsafe { libc::munmap(base as *mut c_void, piece.mapped) };
    SUCCESS
}

/// NVSHMEM's stand-in: kernels may use this memory from now on.
#[unsafe(no_mangle)]
pub extern "C" fn gpu_sim_register(start: u64, bytes: u64) {
    insert(start, Piece { bytes, kind: Kind::Device, mapped: 0 });
}

/// And no longer.
#[unsafe(no_mangle)]
pub extern "C" fn gpu_sim_unregister(start: u64) {
    remove(start);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> Status {
    if need() != SUCCESS || bytes == 0 {
        return if bytes == 0 { INVALID_VALUE } else { need() };
    }
    let Some(start) = allocate(bytes, Kind::Device) else { return OUT_OF_MEMORY };
    // SAFETY: as the driver's interface says, here and below.
    unsafe { address.write(start) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(address: u64) -> Status {
    // As the driver: what uses it ends first.
    stream::wait_for_all();
    release(address, Kind::Device)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostAlloc(pointer: *mut Handle, bytes: usize, _flags: c_uint) -> Status {
    let Some(start) = allocate(bytes, Kind::Host) else { return OUT_OF_MEMORY };
    // SAFETY: as above.
    unsafe { pointer.write(start as Handle) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeHost(pointer: Handle) -> Status {
    release(pointer as u64, Kind::Host)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostGetDevicePointer_v2(address: *mut u64, pointer: Handle, _flags: c_uint) -> Status {
    if find(pointer as u64).is_none_or(|(_, piece)| piece.kind != Kind::Host) {
        return INVALID_VALUE;
    }
    // SAFETY: as above.
    unsafe { address.write(pointer as u64) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuPointerGetAttribute(value: Handle, attribute: c_int, address: u64) -> Status {
    match find(address) {
        Some((_, piece)) if attribute == ATTRIBUTE_MEMORY_TYPE => {
            // SAFETY: as above.
            unsafe { value.cast::<u32>().write(piece.kind as u32) };
            SUCCESS
        }
        Some(_) if attribute == 8 => {
            // SAFETY: as above.
            unsafe { value.cast::<u32>().write(0) };
            SUCCESS
        }
        _ => INVALID_VALUE,
    }
}

/// Whether it can be done, after everything on the default stream.
fn ready_to_copy(device: u64, bytes: usize) -> Status {
    match need() {
        SUCCESS if bytes > 0 && check(device, bytes as u64).is_err() => INVALID_VALUE,
        SUCCESS => stream::synchronize(std::ptr::null_mut()),
        status => status,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) -> Status {
    let status = ready_to_copy(to, bytes);
    if status == SUCCESS {
        // SAFETY: the device's side was checked, the caller vouches for the other.
        unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), to as *mut u8, bytes) };
    }
    status
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> Status {
    let status = ready_to_copy(from, bytes);
    if status == SUCCESS {
        // SAFETY: the device's side was checked, the caller vouches for the other.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to.cast::<u8>(), bytes) };
    }
    status
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD8_v2(address: u64, value: u8, bytes: usize) -> Status {
    let status = ready_to_copy(address, bytes);
    if status == SUCCESS {
        // SAFETY: it was checked.
        unsafe { std::ptr::write_bytes(address as *mut u8, value, bytes) };
    }
    status
}

/// From one piece of device memory to another.
#[derive(Clone)]
pub struct Copy {
    to: u64,
    from: u64,
    bytes: usize,
}

impl Copy {
    pub fn run(&self) {
        // SAFETY: both sides were checked.
        unsafe { std::ptr::copy(self.from as *const u8, self.to as *mut u8, self.bytes) };
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle) -> Status {
    match need() {
        SUCCESS if [to, from].iter().any(|side| check(*side, bytes as u64).is_err()) => INVALID_VALUE,
        SUCCESS => stream::push(stream, Task::Copy(Copy { to, from, bytes })),
        status => status,
    }
}
