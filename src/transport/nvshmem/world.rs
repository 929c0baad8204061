//! The one NVSHMEM of this process: found, joined where the application has initialised it, else initialised here.
//!
//! What was initialised here is never finalised: that is collective, and a process must be able to end alone.

use super::driver::{Context, Entered};
use crate::config;
use crate::error::{Error, Result, Status};
use nvshmem_sys::{Functions, INIT_WITH_UNIQUE_ID, IS_INITIALIZED, InitAttr, Library, SONAME, UniqueId};
use once_cell::sync::OnceCell;
use std::ffi::c_void;
use std::path::PathBuf;

/// NVSHMEM, initialised.
#[derive(Debug)]
pub struct World {
    library: Library,
    pub context: Context,
    pub pe: i32,
    pub pes: i32,
}

static LIBRARY: OnceCell<Library> = OnceCell::new();
static WORLD: OnceCell<World> = OnceCell::new();

/// NVSHMEM's library, if something in this process has loaded it and initialised NVSHMEM.
pub fn is_initialised() -> bool {
    Library::already_loaded().is_some_and(|library| status(&library) >= IS_INITIALIZED)
}

fn status(library: &Library) -> i32 {
    // SAFETY: may always be called.
    unsafe { (library.functions().init_status)() }
}

/// The library, whoever loads it.
fn library() -> Result<&'static Library> {
    LIBRARY.get_or_try_init(|| {
        if let Some(loaded) = Library::already_loaded() {
            return Ok(loaded);
        }
        let files = match (config::NVSHMEM_LIB.get(), config::NVSHMEM_HOME.get()) {
            (Some(file), _) => vec![PathBuf::from(file)],
            (None, Some(home)) => vec![PathBuf::from(home).join("lib").join(SONAME), SONAME.into()],
            (None, None) => vec![SONAME.into()],
        };
        let mut tried = Vec::new();
        for file in files {
            match Library::open(&file) {
                Ok(library) => return Ok(library),
                Err(error) => tried.push(error.to_string()),
            }
        }
        Err(Error::new(
            Status::Unavailable,
            format!(
                "NVSHMEM 3 was not found; install it and set {} to its folder or {} to its {SONAME}, or use \
                 BOXWISE_BACKEND_HOST; tried: {}",
                config::NVSHMEM_HOME.name,
                config::NVSHMEM_LIB.name,
                tried.join("; ")
            ),
        ))
    })
}

/// What every rank needs before NVSHMEM can be initialised: a context and the library.
pub fn prepare() -> Result<()> {
    Context::current()?;
    library().map(drop)
}

/// A new id, as it travels.
pub fn new_id() -> Result<[u8; 128]> {
    let id = library()?.get_unique_id();
    id.map(UniqueId::to_bytes).map_err(|code| failed("nvshmemx_get_uniqueid", code))
}

fn failed(function: &str, code: i32) -> Error {
    Error::new(Status::Transport, format!("{function} returned {code}"))
}

/// Initialises NVSHMEM among all that have this id. Collective among them.
pub fn initialise(rank: usize, size: usize, id: &[u8; 128]) -> Result<()> {
    let library = library()?;
    let functions = library.functions();
    // NVSHMEM keeps pointers to both.
    let id = Box::leak(Box::new(UniqueId::from_bytes(id)));
    let attributes = Box::leak(Box::new(InitAttr::empty()));
    // SAFETY: the structs are NVSHMEM's and live for ever; a context is current.
    let codes = unsafe {
        let set = (functions.set_attr_uniqueid_args)(rank as i32, size as i32, id, attributes);
        (set, if set == 0 { (functions.hostlib_init_attr)(INIT_WITH_UNIQUE_ID, attributes) } else { 0 })
    };
    match codes {
        (0, 0) if status(library) >= IS_INITIALIZED => Ok(()),
        (0, 0) => Err(Error::new(Status::Transport, "nvshmemx_hostlib_init_attr did not initialise NVSHMEM")),
        (0, code) => Err(failed("nvshmemx_hostlib_init_attr", code)),
        (code, _) => Err(failed("nvshmemx_set_attr_uniqueid_args", code)),
    }
}

impl World {
    /// The NVSHMEM that has been initialised.
    pub fn join() -> Result<&'static World> {
        WORLD.get_or_try_init(|| {
            let context = Context::current()?;
            let library = Library::already_loaded()
                .ok_or_else(|| Error::new(Status::Unavailable, "NVSHMEM's library is not loaded any more"))?;
            let (major, minor, patch) = library.version();
            if major != 3 {
                return Err(Error::new(
                    Status::NotSupported,
                    format!("NVSHMEM {major}.{minor}.{patch} is loaded; version 3 is needed"),
                ));
            }
            // SAFETY: NVSHMEM is initialised.
            let (pe, pes) = unsafe { ((library.functions().my_pe)(), (library.functions().n_pes)()) };
            log::info!("NVSHMEM {major}.{minor}.{patch}: PE {pe} of {pes}");
            Ok(World { library, context, pe, pes })
        })
    }

    pub fn functions(&self) -> &Functions {
        self.library.functions()
    }

    /// Symmetric memory. Collective over all PEs, equal on all. `None` if there is too little.
    pub fn malloc(&self, _: &Entered, bytes: usize) -> Option<u64> {
        // SAFETY: NVSHMEM is initialised, its context current, and all PEs call.
        let pointer = unsafe { (self.functions().malloc)(bytes) };
        (!pointer.is_null()).then_some(pointer as u64)
    }

    /// Collective over all PEs.
    pub fn free(&self, _: &Entered, address: u64) {
        // SAFETY: it came from `malloc`, the context is current, and all PEs call.
        unsafe { (self.functions().free)(address as *mut c_void) };
    }

    /// Copies bytes to the same place in the memory of a PE.
    pub fn put(&self, address: u64, bytes: usize, pe: i32) {
        // SAFETY: NVSHMEM is initialised, and the caller owns so many bytes there.
        unsafe { (self.functions().putmem)(address as *mut c_void, address as *const c_void, bytes, pe) };
    }

    /// What was put before has arrived after it. Collective over all PEs.
    pub fn barrier(&self, _: &Entered) {
        // SAFETY: NVSHMEM is initialised, and its context current.
        unsafe { (self.functions().barrier_all)() };
    }

    /// Where symmetric memory of a PE is mapped here.
    pub fn mapped(&self, address: u64, pe: i32) -> Option<u64> {
        // SAFETY: NVSHMEM is initialised; it only looks the address up.
        let pointer = unsafe { (self.functions().ptr)(address as *const c_void, pe) };
        (!pointer.is_null()).then_some(pointer as u64)
    }
}
