//! NVSHMEM's host library, found at run time: its functions as a table, and the layouts of its structs. No policy: what to
//! load and when to call what is up to the user.
//!
//! NVSHMEM is one for a process: a second copy of its library would be a second, separate NVSHMEM. So ask
//! [`Library::already_loaded`] before [`Library::open`].

mod layout;

pub use layout::{InitArgs, InitAttr, UniqueId, UniqueIdArgs};

use libloading::os::unix::{Library as Object, RTLD_GLOBAL, RTLD_LAZY};
use std::ffi::{OsStr, c_int, c_uint, c_void};

/// The name of the library of version 3.
pub const SONAME: &str = "libnvshmem_host.so.3";
/// What [`Functions::init_status`] returns, or more, once NVSHMEM is initialised.
pub const IS_INITIALIZED: c_int = 2;
/// To [`Functions::hostlib_init_attr`]: initialise with a unique id.
pub const INIT_WITH_UNIQUE_ID: c_uint = 1 << 3;

const RTLD_NOLOAD: c_int = 4;

/// The library, which stays loaded as long as this lives.
#[derive(Debug)]
pub struct Library {
    functions: Functions,
    _object: Object,
}

/// Declares the table, and how it is filled.
macro_rules! functions {
    ($($(#[$meta:meta])* $field:ident = $symbol:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        /// NVSHMEM's functions. Each is unsafe: NVSHMEM ends the process where it is called out of order.
        #[derive(Clone, Copy, Debug)]
        pub struct Functions {
            $($(#[$meta])* pub $field: unsafe extern "C" fn($($argument: $type),*) $(-> $result)?,)*
        }

        /// The names of all functions, as the library exports them.
        pub const SYMBOLS: &[&str] = &[$(stringify!($symbol)),*];

        impl Functions {
            /// # Safety
            /// `object` is NVSHMEM's library.
            unsafe fn find(object: &Object) -> Result<Functions, libloading::Error> {
                // SAFETY: the caller vouches that the symbols have these types.
                unsafe { Ok(Functions { $($field: *object.get(concat!(stringify!($symbol), "\0").as_bytes())?),* }) }
            }
        }
    };
}

functions! {
    /// How far it is initialised: see [`IS_INITIALIZED`]. May always be called.
    init_status = nvshmemx_init_status() -> c_int;
    /// Makes an id that all processes are then initialised with.
    get_uniqueid = nvshmemx_get_uniqueid(id: *mut UniqueId) -> c_int;
    /// Keeps the pointer to the id in the attributes.
    set_attr_uniqueid_args =
        nvshmemx_set_attr_uniqueid_args(rank: c_int, size: c_int, id: *const UniqueId, attr: *mut InitAttr) -> c_int;
    /// Collective. Some versions return 0 although it failed: ask for the status afterwards.
    hostlib_init_attr = nvshmemx_hostlib_init_attr(flags: c_uint, attr: *mut InitAttr) -> c_int;
    /// Collective, once for every initialisation.
    hostlib_finalize = nvshmemx_hostlib_finalize();
    /// The number of this process.
    my_pe = nvshmem_my_pe() -> c_int;
    /// The number of processes.
    n_pes = nvshmem_n_pes() -> c_int;
    /// Symmetric memory, the same size on all. Collective over all processes; NULL if there is too little.
    malloc = nvshmem_malloc(bytes: usize) -> *mut c_void;
    /// Collective over all processes.
    free = nvshmem_free(pointer: *mut c_void);
    /// Where the memory of another process is mapped here, or NULL.
    ptr = nvshmem_ptr(pointer: *const c_void, pe: c_int) -> *mut c_void;
    /// Copies to symmetric memory of another process; the source may be used again when it returns.
    putmem = nvshmem_putmem(destination: *mut c_void, source: *const c_void, bytes: usize, pe: c_int);
    /// Collective over all processes; what was put before has arrived.
    barrier_all = nvshmem_barrier_all();
    /// Gives a CUmodule with NVSHMEM's device code what it needs. Synchronises the device.
    cumodule_init = nvshmemx_cumodule_init(module: *mut c_void) -> c_int;
    /// Before such a module is unloaded.
    cumodule_finalize = nvshmemx_cumodule_finalize(module: *mut c_void) -> c_int;
    /// The version of the library. May always be called.
    vendor_version = nvshmemx_vendor_get_version_info(major: *mut c_int, minor: *mut c_int, patch: *mut c_int);
}

impl Library {
    /// The one that something in this process has loaded, under its usual name.
    pub fn already_loaded() -> Option<Library> {
        // SAFETY: nothing is loaded, so no initialiser runs.
        unsafe { Library::load(OsStr::new(SONAME), RTLD_LAZY | RTLD_NOLOAD) }.ok()
    }

    /// Loads a file, or what the loader finds by that name. The text of the error says what is missing.
    pub fn open(name: impl AsRef<OsStr>) -> Result<Library, libloading::Error> {
        // SAFETY: NVSHMEM's initialisers only set up its own state.
        unsafe { Library::load(name.as_ref(), RTLD_LAZY | RTLD_GLOBAL) }
    }

    /// # Safety
    /// The object is NVSHMEM's library.
    unsafe fn load(name: &OsStr, flags: c_int) -> Result<Library, libloading::Error> {
        // SAFETY: as the caller says.
        unsafe {
            let object = Object::open(Some(name), flags)?;
            Ok(Library { functions: Functions::find(&object)?, _object: object })
        }
    }

    /// The table.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// Major, minor and patch version.
    pub fn version(&self) -> (c_int, c_int, c_int) {
        let (mut major, mut minor, mut patch) = (0, 0, 0);
        // SAFETY: may always be called, and writes three numbers.
        unsafe { (self.functions.vendor_version)(&mut major, &mut minor, &mut patch) };
        (major, minor, patch)
    }

    /// An id for a new NVSHMEM, or the number that its function returned.
    pub fn get_unique_id(&self) -> Result<UniqueId, c_int> {
        let mut id = UniqueId::empty();
        // SAFETY: may always be called, and writes the id.
        match unsafe { (self.functions.get_uniqueid)(&mut id) } {
            0 => Ok(id),
            failed => Err(failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let missing = Library::open("/nowhere/libnvshmem_host.so.3").unwrap_err().to_string();
        assert!(missing.contains("/nowhere/libnvshmem_host.so.3"), "{missing}");
        // A library, but another one.
        let other = Library::open("libc.so.6").unwrap_err().to_string();
        assert!(other.contains("nvshmemx_init_status"), "{other}");
    }

    #[test]
    #[ignore = "needs NVSHMEM_HOME"]
    fn the_real_library_has_all_functions_and_gives_an_id() {
        let home = std::env::var("NVSHMEM_HOME").expect("NVSHMEM_HOME is set");
        assert!(Library::already_loaded().is_none());
        let library = Library::open(format!("{home}/lib/{SONAME}")).expect("it loads without a GPU");
        assert_eq!(library.version().0, 3);
        // SAFETY: may always be called.
        assert!(unsafe { (library.functions().init_status)() } < IS_INITIALIZED);
        let (one, other) = (library.get_unique_id(), library.get_unique_id());
        assert_eq!(one.expect("an id").version, UniqueId::VERSION);
        assert_ne!(one, other);
        assert!(Library::already_loaded().is_some());
    }
}
