//! A communicator made from two functions of the caller's: the boot table.

use super::boundary::null;
use crate::error::{Error, Result, Status};
use crate::transport::Boot;
use std::ffi::c_void;
use std::mem;

/// What a runtime tells boxwise about its ranks, for BOXWISE_COMM_BOOT: MPI, a job manager or threads of one
/// process can all fill it. It is read during the call that it is passed to and not kept.
///
/// The functions are called by the thread that makes that call. All ranks call them in the same order. They
/// return 0, or any other number for a failure, which makes the call fail with BOXWISE_ERROR_TRANSPORT. They must
/// not throw C++ exceptions nor leave by longjmp.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct boxwise_boot_t {
    /// sizeof(boxwise_boot_t). Later versions may add members at the end.
    pub struct_size: usize,
    /// Passed to the functions as it is; may be NULL.
    pub context: *mut c_void,
    /// This process or thread, 0 to size - 1.
    pub rank: i32,
    /// The number of ranks, at least 1, the same on all.
    pub size: i32,
    /// Collective: gives all ranks what each of them has. `mine` points to `bytes` bytes; `all` has room for
    /// size * bytes, rank 0's first. `bytes` is the same on all ranks, and the two do not overlap.
    pub allgather:
        Option<unsafe extern "C" fn(context: *mut c_void, mine: *const c_void, all: *mut c_void, bytes: usize) -> i32>,
    /// Collective: returns when all ranks have called it.
    pub barrier: Option<unsafe extern "C" fn(context: *mut c_void) -> i32>,
}

/// A boot table whose members were checked.
pub struct CheckedBoot {
    context: *mut c_void,
    rank: usize,
    size: usize,
    allgather: unsafe extern "C" fn(*mut c_void, *const c_void, *mut c_void, usize) -> i32,
    barrier: unsafe extern "C" fn(*mut c_void) -> i32,
}

impl CheckedBoot {
    /// Reads and checks the table.
    ///
    /// # Safety
    /// `boot` is NULL or points to a `boxwise_boot_t` of `struct_size` bytes, whose functions do what its
    /// comments say for as long as the result lives.
    pub unsafe fn new(boot: *const boxwise_boot_t) -> Result<CheckedBoot> {
        if boot.is_null() {
            return Err(null("comm_handle", "a boxwise_boot_t"));
        }
        // SAFETY: the table has at least its first member. Unaligned, because a void pointer may be.
        let struct_size = unsafe { boot.cast::<usize>().read_unaligned() };
        let wrong = |what: String| Err(Error::invalid_argument(format!("boxwise_boot_t: {what}")));
        if struct_size < mem::size_of::<boxwise_boot_t>() {
            let least = mem::size_of::<boxwise_boot_t>();
            return wrong(format!("struct_size is {struct_size}, must be at least {least}"));
        }
        // SAFETY: struct_size says that all members are there.
        let boot = unsafe { boot.read_unaligned() };
        let (Ok(rank), Ok(size)) = (usize::try_from(boot.rank), usize::try_from(boot.size)) else {
            return wrong(format!("rank is {} of {}, neither may be negative", boot.rank, boot.size));
        };
        if rank >= size {
            return wrong(format!("rank is {rank} of {size}, must be 0 to size - 1"));
        }
        let Some(allgather) = boot.allgather else { return wrong("allgather is NULL".into()) };
        let Some(barrier) = boot.barrier else { return wrong("barrier is NULL".into()) };
        Ok(CheckedBoot { context: boot.context, rank, size, allgather, barrier })
    }

    fn outcome(&self, function: &str, returned: i32) -> Result<()> {
        match returned {
            0 => Ok(()),
            code => Err(Error::new(
                Status::Transport,
                format!("rank {}: the {function} of boxwise_boot_t returned {code}", self.rank),
            )),
        }
    }
}

impl Boot for CheckedBoot {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn allgather(&self, mine: &[u8], all: &mut [u8]) -> Result<()> {
        if all.len() != mine.len() * self.size {
            return Err(Error::new(Status::Internal, "the allgather of a boot table was given too little room"));
        }
        // SAFETY: `new`'s caller vouched for the function; the room was just checked.
        let returned =
            unsafe { (self.allgather)(self.context, mine.as_ptr().cast(), all.as_mut_ptr().cast(), mine.len()) };
        self.outcome("allgather", returned)
    }

    fn barrier(&self) -> Result<()> {
        // SAFETY: `new`'s caller vouched for the function.
        let returned = unsafe { (self.barrier)(self.context) };
        self.outcome("barrier", returned)
    }
}
