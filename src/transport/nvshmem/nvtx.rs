//! Ranges for profilers, by NVTX. Its library is only looked for where a profiler has said that it is attached.

use libloading::os::unix::Library;
use once_cell::sync::OnceCell;
use std::ffi::{CStr, c_char, c_int};
use std::marker::PhantomData;

/// Set by profilers: the library by which NVTX reaches them.
const PROFILER: &str = "NVTX_INJECTION64_PATH";
/// NVTX as a library: of CUDA 13, and of those before.
const LIBRARIES: [&str; 3] = ["libnvtx3interop.so.1", "libnvtx3interop.so", "libnvToolsExt.so.1"];

struct Nvtx {
    push: unsafe extern "C" fn(*const c_char) -> c_int,
    pop: unsafe extern "C" fn() -> c_int,
}

static NVTX: OnceCell<Option<Nvtx>> = OnceCell::new();

/// What this thread does until this is dropped has a name in the profile.
#[derive(Debug)]
pub struct Range {
    /// A range begins and ends on one thread.
    _of_this_thread: PhantomData<*const ()>,
}

impl Range {
    pub fn begin(name: &'static CStr) -> Range {
        if let Some(nvtx) = nvtx() {
            // SAFETY: the name lives for ever.
            unsafe { (nvtx.push)(name.as_ptr()) };
        }
        Range { _of_this_thread: PhantomData }
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        if let Some(nvtx) = nvtx() {
            // SAFETY: one was pushed by this thread, and those pushed since have been popped.
            unsafe { (nvtx.pop)() };
        }
    }
}

fn nvtx() -> Option<&'static Nvtx> {
    let find = || {
        std::env::var_os(PROFILER)?;
        let found = LIBRARIES.iter().find_map(|name| load(name).ok());
        if found.is_none() {
            log::warn!("a profiler is attached, but none of {LIBRARIES:?} was found: it will see no ranges");
        }
        found
    };
    NVTX.get_or_init(find).as_ref()
}

fn load(name: &str) -> Result<Nvtx, libloading::Error> {
    // SAFETY: NVTX's library initialises only itself; both functions are of these types.
    unsafe {
        let library = Library::new(name)?;
        let nvtx = Nvtx { push: *library.get(b"nvtxRangePushA\0")?, pop: *library.get(b"nvtxRangePop\0")? };
        // It stays.
        std::mem::forget(library);
        Ok(nvtx)
    }
}
