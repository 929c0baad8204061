//! NVSHMEM as an application uses it: initialised by a unique id, memory, and its end. Shares no code with the library.

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW, Symbol};
use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

/// `nvshmemx_uniqueid_t`.
pub type UniqueId = [u64; 16];

const ID_VERSION: i32 = (1 << 16) + 128;
const ATTRIBUTES_VERSION: i32 = (2 << 16) + 144;
const ARGUMENTS_VERSION: i32 = (2 << 16) + 128;
const ID_ARGUMENTS_VERSION: i32 = (1 << 16) + 24;
const INIT_WITH_UNIQUEID: c_uint = 1 << 3;

/// The library as the application has it.
pub struct Nvshmem(Library);

impl Nvshmem {
    pub fn load() -> Nvshmem {
        // SAFETY: its initialisers have no conditions.
        Nvshmem(unsafe { Library::open(Some("libnvshmem_host.so.3"), RTLD_NOW | RTLD_GLOBAL) }.expect("NVSHMEM"))
    }

    fn get<T>(&self, name: &str) -> Symbol<T> {
        // SAFETY: each caller below gives the function's type.
        unsafe { self.0.get(name.as_bytes()) }.unwrap_or_else(|_| panic!("{name} is in NVSHMEM"))
    }

    pub fn unique_id(&self) -> UniqueId {
        let mut id = [0; 16];
        id[0] = ID_VERSION as u64;
        let get: Symbol<unsafe extern "C" fn(*mut UniqueId) -> c_int> = self.get("nvshmemx_get_uniqueid");
        // SAFETY: the place is there to be written.
        assert_eq!(unsafe { get(&mut id) }, 0, "nvshmemx_get_uniqueid");
        id
    }

    /// Collective. The context of this PE's device is current.
    pub fn initialise(&self, rank: usize, ranks: usize, id: UniqueId) {
        // Both are kept by NVSHMEM.
        let id = Box::leak(Box::new(id));
        let attributes = Box::leak(Box::new([0u64; 18]));
        let words: &mut [i32] = bytemuck::cast_slice_mut(&mut attributes[..]);
        words[0] = ATTRIBUTES_VERSION;
        words[4] = ARGUMENTS_VERSION;
        words[6] = ID_ARGUMENTS_VERSION;
        words[12] = -1; // no device is named
        type SetArguments = unsafe extern "C" fn(c_int, c_int, *const UniqueId, *mut c_void) -> c_int;
        let set: Symbol<SetArguments> = self.get("nvshmemx_set_attr_uniqueid_args");
        let init: Symbol<unsafe extern "C" fn(c_uint, *mut c_void) -> c_int> = self.get("nvshmemx_hostlib_init_attr");
        let attributes = ptr::from_mut(attributes).cast();
        // SAFETY: the structures are those of its headers, and stay.
        unsafe {
            assert_eq!(set(rank as c_int, ranks as c_int, id, attributes), 0, "nvshmemx_set_attr_uniqueid_args");
            assert_eq!(init(INIT_WITH_UNIQUEID, attributes), 0, "nvshmemx_hostlib_init_attr");
        }
        assert!(self.is_initialised());
    }

    pub fn is_initialised(&self) -> bool {
        let status: Symbol<unsafe extern "C" fn() -> c_int> = self.get("nvshmemx_init_status");
        // SAFETY: it has no conditions.
        unsafe { status() >= 2 }
    }

    /// Collective.
    pub fn malloc(&self, bytes: usize) -> *mut u8 {
        let malloc: Symbol<unsafe extern "C" fn(usize) -> *mut c_void> = self.get("nvshmem_malloc");
        // SAFETY: it is initialised.
        let pointer = unsafe { malloc(bytes) };
        assert!(!pointer.is_null(), "nvshmem_malloc of {bytes} bytes");
        pointer.cast()
    }

    /// Collective.
    pub fn free(&self, pointer: *mut u8) {
        let free: Symbol<unsafe extern "C" fn(*mut c_void)> = self.get("nvshmem_free");
        // SAFETY: it came from `malloc`.
        unsafe { free(pointer.cast()) }
    }

    /// Collective.
    pub fn finalise(&self) {
        let finalize: Symbol<unsafe extern "C" fn()> = self.get("nvshmemx_hostlib_finalize");
        // SAFETY: it is initialised, and nothing uses it any more.
        unsafe { finalize() }
    }
}
