//! The other side of `shim.c`: MPI by name, from the library that the job says.

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW, Symbol};
use std::ffi::c_void;
use std::ops::Deref;

type Pointer = *mut c_void;

/// An MPI that was started.
pub struct Mpi {
    library: Library,
    /// Whether any thread may call it.
    pub any_thread: bool,
}

/// A communicator of MPI's, freed on drop.
pub struct Comm<'a> {
    mpi: &'a Mpi,
    pointer: Pointer,
}

impl Mpi {
    /// Starts MPI at the level with this name.
    pub fn start(path: &str, level: &str) -> Mpi {
        let levels = ["funneled", "serialized", "multiple"];
        let level = levels.iter().position(|name| *name == level).expect("a thread level") as i32;
        // SAFETY: loading an MPI runs nothing but its own start. Global, as in a program that is linked with it.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }.expect("the shim can be loaded");
        let mut mpi = Mpi { library, any_thread: false };
        // SAFETY: the type is that of shim.c, as in all calls below.
        mpi.any_thread = unsafe { mpi.function::<extern "C" fn(i32) -> i32>("shim_init")(level) } != 0;
        mpi
    }

    /// # Safety
    /// `F` is the type that the function has in shim.c.
    unsafe fn function<F>(&self, name: &str) -> impl Deref<Target = F> {
        // SAFETY: the caller's promise.
        let symbol: Symbol<F> = unsafe { self.library.get(name.as_bytes()) }.expect("shim.c has this function");
        symbol
    }

    pub fn world(&self) -> Comm<'_> {
        // SAFETY: as in `start`.
        Comm { mpi: self, pointer: unsafe { self.function::<extern "C" fn() -> Pointer>("shim_world")() } }
    }

    /// Collective over all ranks of the job. `by_leaving`: the process ends here, without MPI_Finalize.
    pub fn finalize(self, by_leaving: bool) {
        if by_leaving {
            self.world().barrier();
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: as in `start`.
        unsafe { self.function::<extern "C" fn()>("shim_finalize")() }
    }

    /// Ends all ranks of the job.
    pub fn abort(&self) -> ! {
        // SAFETY: as in `start`.
        unsafe { self.function::<extern "C" fn()>("shim_abort")() };
        std::process::abort()
    }
}

impl<'a> Comm<'a> {
    pub fn rank(&self) -> usize {
        // SAFETY: as in `Mpi::start`; the pointer is that of a communicator, here and below.
        unsafe { self.mpi.function::<extern "C" fn(Pointer) -> i32>("shim_rank")(self.pointer) as usize }
    }

    pub fn size(&self) -> usize {
        // SAFETY: as above.
        unsafe { self.mpi.function::<extern "C" fn(Pointer) -> i32>("shim_size")(self.pointer) as usize }
    }

    pub fn dup(&self) -> Comm<'a> {
        // SAFETY: as above.
        let pointer = unsafe { self.mpi.function::<extern "C" fn(Pointer) -> Pointer>("shim_dup")(self.pointer) };
        Comm { mpi: self.mpi, pointer }
    }

    /// The ranks of this colour, ordered by their key; `None` for a rank without colour.
    pub fn split(&self, color: Option<i32>, key: i32) -> Option<Comm<'a>> {
        type Split = extern "C" fn(Pointer, i32, i32) -> Pointer;
        // SAFETY: as above.
        let pointer = unsafe { self.mpi.function::<Split>("shim_split")(self.pointer, color.unwrap_or(-1), key) };
        if pointer.is_null() { None } else { Some(Comm { mpi: self.mpi, pointer }) }
    }

    pub fn barrier(&self) {
        // SAFETY: as above.
        unsafe { self.mpi.function::<extern "C" fn(Pointer)>("shim_barrier")(self.pointer) }
    }

    /// Everybody's values, summed.
    pub fn sum(&self, values: &mut [u64]) {
        type Sum = extern "C" fn(Pointer, *mut u64, i32);
        // SAFETY: as above; there are so many values.
        unsafe { self.mpi.function::<Sum>("shim_sum")(self.pointer, values.as_mut_ptr(), values.len() as i32) }
    }

    /// The address of the `MPI_Comm`.
    pub fn handle(&self) -> *const c_void {
        self.pointer
    }
}

impl Drop for Comm<'_> {
    fn drop(&mut self) {
        // SAFETY: as above; nobody has the pointer any more.
        unsafe { self.mpi.function::<extern "C" fn(Pointer)>("shim_free")(self.pointer) }
    }
}
