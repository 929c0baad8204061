//! Communicators and the memory their ranks share.

use super::boot::{CheckedBoot, boxwise_boot_t};
use super::boundary::{Output, call, null};
use super::handle::{self, Kind, Object};
use super::mpi;
use super::status::boxwise_status_t;
#[cfg(not(feature = "cuda"))]
use crate::error::Status;
use crate::error::{Error, Result};
use crate::log;
use crate::transport::Communicator;
use std::ffi::c_void;

/// What a communicator handle points to; its inside is private.
pub enum boxwise_comm {}
/// A group of ranks that work together. Made by boxwise_comm_create, ended by boxwise_comm_destroy.
pub type boxwise_comm_t = *mut boxwise_comm;

impl Object for Communicator {
    const KIND: Kind = Kind::Communicator;
}

/// What kind of communicator `comm_handle` stands for.
#[repr(C)]
pub enum boxwise_comm_type {
    /// comm_handle points to an MPI_Comm, an intra-communicator that this process is in. MPI is reached by a plugin
    /// that was compiled with it from mpi/boxwise_mpi.c; where none is found, BOXWISE_ERROR_UNAVAILABLE says how to
    /// make one. The communicator is duplicated by the first call with it, and later calls use the same duplicate until
    /// it is freed or MPI finalised. It may be freed right after the call; what was made with it goes on working.
    /// Below MPI_THREAD_SERIALIZED only the main thread of MPI may make boxwise calls on it.
    BOXWISE_COMM_MPI = 0,
    /// comm_handle is NULL. The implicit world: the ranks that boxwise-run started; else those of the launcher
    /// when its variables (Open MPI, PMI, Slurm) say that all ranks are on this node; else a world of one. A
    /// launcher's job over several nodes is BOXWISE_ERROR_UNAVAILABLE. Formed once per process, then reused.
    BOXWISE_COMM_NONE = 1,
    /// comm_handle points to a boxwise_boot_t.
    BOXWISE_COMM_BOOT = 16,
    /// comm_handle points to a boxwise_comm_t.
    BOXWISE_COMM_OBJECT = 17,
}

/// Kinds of memory for boxwise_malloc.
#[repr(C)]
pub enum boxwise_memory {
    /// Host memory, shared by the ranks of a node.
    BOXWISE_MEMORY_HOST = 0,
    /// Device memory of NVSHMEM's symmetric heap. This build has no device backend yet: BOXWISE_ERROR_NOT_SUPPORTED.
    BOXWISE_MEMORY_DEVICE = 1,
}

const MPI: i32 = boxwise_comm_type::BOXWISE_COMM_MPI as i32;
const NONE: i32 = boxwise_comm_type::BOXWISE_COMM_NONE as i32;
const BOOT: i32 = boxwise_comm_type::BOXWISE_COMM_BOOT as i32;
const OBJECT: i32 = boxwise_comm_type::BOXWISE_COMM_OBJECT as i32;
const HOST: i32 = boxwise_memory::BOXWISE_MEMORY_HOST as i32;
const DEVICE: i32 = boxwise_memory::BOXWISE_MEMORY_DEVICE as i32;

/// A communicator that could be told from its two arguments, and what was wrong with them all the same: with a
/// communicator the fault can be shared, so that no rank waits for this one.
pub struct Named {
    pub comm: Communicator,
    pub fault: Result<()>,
}

/// The communicator that the arguments stand for; collective when that is a new one.
///
/// # Safety
/// `comm_handle` is what the comments of `boxwise_comm_type` say for this `comm_type`.
pub unsafe fn named(comm_handle: *const c_void, comm_type: i32) -> Result<Named> {
    match comm_type {
        MPI => {
            // SAFETY: the caller says that this is NULL or points to an MPI_Comm.
            let comm = unsafe { mpi::from_handle(comm_handle, false) }?;
            Ok(Named { comm, fault: Ok(()) })
        }
        NONE => {
            let fault = match comm_handle.is_null() {
                true => Ok(()),
                false => Err(Error::invalid_argument("comm_handle must be NULL with BOXWISE_COMM_NONE")),
            };
            Ok(Named { comm: Communicator::world()?, fault })
        }
        BOOT => {
            // SAFETY: the caller says that this is NULL or points to a boot table.
            let boot = unsafe { CheckedBoot::new(comm_handle.cast::<boxwise_boot_t>()) }?;
            Ok(Named { comm: Communicator::from_boot(Box::new(boot))?, fault: Ok(()) })
        }
        OBJECT if comm_handle.is_null() => Err(null("comm_handle", "a boxwise_comm_t")),
        OBJECT if handle::is_handle(comm_handle) => Err(Error::invalid_argument(
            "comm_handle is a handle itself, must point to a boxwise_comm_t (pass &comm, not comm)",
        )),
        OBJECT => {
            // SAFETY: the caller says that this points to a handle; unaligned, because a void pointer may be.
            let comm = unsafe { comm_handle.cast::<boxwise_comm_t>().read_unaligned() };
            let comm = handle::get::<Communicator, _>("the boxwise_comm_t at comm_handle", comm)?;
            Ok(Named { comm: (*comm).clone(), fault: Ok(()) })
        }
        _ => Err(Error::invalid_argument(format!(
            "comm_type is {comm_type}, must be BOXWISE_COMM_MPI ({MPI}), _NONE ({NONE}), _BOOT ({BOOT}) or _OBJECT \
             ({OBJECT})"
        ))),
    }
}

/// Makes a communicator.
///
/// - comm_handle, comm_type: see boxwise_comm_type. With BOXWISE_COMM_OBJECT the result is a second handle to the
///   same communicator, and the call is not collective; with the same MPI communicator as before it is one too, but
///   collective. Neither the pointer nor what it points to is kept.
/// - comm: where the handle goes; not NULL.
///
/// Collective: called by all ranks of the new communicator. Any thread; two threads of one process may be two ranks.
///
/// Statuses: INVALID_ARGUMENT, INVALID_STATE (destroyed communicator; MPI not initialised, or finalised),
/// INCONSISTENT (the ranks differ in their number or user), NOT_SUPPORTED (a boot table without messages over several
/// nodes; a thread that may not call MPI), UNAVAILABLE (no MPI plugin; a launcher's job over several nodes), TRANSPORT,
/// PEER_LOST, TIMEOUT (a rank did not appear), OUT_OF_MEMORY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn boxwise_comm_create(
    comm_handle: *const c_void,
    comm_type: i32,
    comm: *mut boxwise_comm_t,
) -> boxwise_status_t {
    log::start();
    call("boxwise_comm_create", || {
        // SAFETY: what the header asks of the caller is what these ask of us.
        let named = unsafe { named(comm_handle, comm_type) }?;
        // SAFETY: as above.
        let output = unsafe { Output::new("comm", comm) }?;
        named.fault?;
        output.write(handle::insert(named.comm)?);
        Ok(())
    })
}

/// Makes a communicator from the handle that Fortran has of an MPI communicator: the integer of `use mpi`, or the
/// component MPI_VAL of type(MPI_Comm). As boxwise_comm_create with BOXWISE_COMM_MPI otherwise.
///
/// - fortran_comm: the handle, by value; in C, MPI_Comm_c2f gives it.
/// - comm: where the handle goes; not NULL.
///
/// Collective. Any thread that may call MPI. Statuses: as boxwise_comm_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn boxwise_comm_create_from_fortran(
    fortran_comm: i32,
    comm: *mut boxwise_comm_t,
) -> boxwise_status_t {
    log::start();
    call("boxwise_comm_create_from_fortran", || {
        // SAFETY: it points to a handle of Fortran.
        let made = unsafe { mpi::from_handle((&raw const fortran_comm).cast(), true) }?;
        // SAFETY: the header asks for a place for the output.
        let output = unsafe { Output::new("comm", comm) }?;
        output.write(handle::insert(made)?);
        Ok(())
    })
}

/// This rank's number in the communicator, 0 to size - 1.
///
/// - rank: where it goes; not NULL.
///
/// Not collective; any thread. Statuses: INVALID_ARGUMENT, INVALID_STATE (destroyed).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn boxwise_comm_rank(comm: boxwise_comm_t, rank: *mut i32) -> boxwise_status_t {
    call("boxwise_comm_rank", || {
        let comm = handle::get::<Communicator, _>("comm", comm)?;
        // SAFETY: the header asks for a place for the output.
        unsafe { Output::new("rank", rank) }?.write(comm.rank() as i32);
        Ok(())
    })
}

/// The number of ranks in the communicator.
///
/// - size: where it goes; not NULL.
///
/// Not collective; any thread. Statuses: INVALID_ARGUMENT, INVALID_STATE (destroyed).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn boxwise_comm_size(comm: boxwise_comm_t, size: *mut i32) -> boxwise_status_t {
    call("boxwise_comm_size", || {
        let comm = handle::get::<Communicator, _>("comm", comm)?;
        // SAFETY: the header asks for a place for the output.
        unsafe { Output::new("size", size) }?.write(comm.size() as i32);
        Ok(())
    })
}

/// Returns when all ranks of the communicator have called it.
///
/// Collective. One thread of a rank at a time. It does not wait for operations on streams.
/// Statuses: INVALID_ARGUMENT, INVALID_STATE (destroyed), PEER_LOST, TRANSPORT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn boxwise_comm_barrier(comm: boxwise_comm_t) -> boxwise_status_t {
    call("boxwise_comm_barrier", || handle::get::<Communicator, _>("comm", comm)?.barrier())
}

/// Ends this handle to the communicator. Reshapes made with the communicator go on working; memory from
/// boxwise_malloc must be freed before the last handle to its communicator is destroyed.
///
/// - comm: may be NULL, then nothing happens.
///
/// Not collective; any thread. Statuses: INVALID_ARGUMENT, INVALID_STATE (destroyed before).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn boxwise_comm_destroy(comm: boxwise_comm_t) -> boxwise_status_t {
    call("boxwise_comm_destroy", || match comm.is_null() {
        true => Ok(()),
        false => handle::remove::<Communicator, _>("comm", comm).map(drop),
    })
}

/// Allocates memory that the ranks of a node share, so that reshapes move data between such buffers in one pass.
/// Any other memory works as well, at the price of a second pass.
///
/// - comm: the communicator; not NULL.
/// - memory: one of boxwise_memory; the same on all ranks.
/// - bytes: size of this rank's piece; may differ by rank, also be 0.
/// - pointer: where its address goes; not NULL. The memory starts on a page and is zeroed; it is not NULL for 0 bytes.
///
/// Collective; all ranks return the same status, whatever one of them passed in. One thread of a rank at a time.
/// Statuses: INVALID_ARGUMENT, INVALID_STATE (destroyed communicator), NOT_SUPPORTED (device memory),
/// OUT_OF_MEMORY, TRANSPORT, PEER_LOST.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn boxwise_malloc(
    comm: boxwise_comm_t,
    memory: i32,
    bytes: usize,
    pointer: *mut *mut c_void,
) -> boxwise_status_t {
    call("boxwise_malloc", || {
        let comm = handle::get::<Communicator, _>("comm", comm)?;
        // SAFETY: the header asks for a place for the output.
        let output = unsafe { Output::new("pointer", pointer) };
        // A fault of this rank's own is shared, so that the others do not wait for it.
        let asked = match memory {
            HOST => output.as_ref().map(|_| bytes).map_err(Error::clone),
            #[cfg(feature = "cuda")]
            DEVICE => {
                let memory = comm.malloc_device(output.as_ref().map(|_| bytes).map_err(Error::clone))?;
                output?.write(memory.cast());
                return Ok(());
            }
            #[cfg(not(feature = "cuda"))]
            DEVICE => Err(Error::new(
                Status::NotSupported,
                "memory is BOXWISE_MEMORY_DEVICE, but the library was built without GPUs (cargo build --features cuda); \
                 use BOXWISE_MEMORY_HOST",
            )),
            _ => Err(Error::invalid_argument(format!(
                "memory is {memory}, must be BOXWISE_MEMORY_HOST ({HOST}) or BOXWISE_MEMORY_DEVICE ({DEVICE})"
            ))),
        };
        let memory = comm.malloc(asked)?;
        output?.write(memory.cast());
        Ok(())
    })
}

/// Frees memory from boxwise_malloc. No operation may be using it, on this rank or another.
///
/// - comm: the communicator it was allocated with, or another handle to that one; not NULL.
/// - pointer: what boxwise_malloc gave this rank; may be NULL.
///
/// Collective in that all ranks must do it for their pieces of one allocation, but no rank waits for another.
/// Any thread. Statuses: INVALID_ARGUMENT (not from boxwise_malloc, or freed before), INVALID_STATE (destroyed
/// communicator).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn boxwise_free(comm: boxwise_comm_t, pointer: *mut c_void) -> boxwise_status_t {
    call("boxwise_free", || {
        let comm = handle::get::<Communicator, _>("comm", comm)?;
        #[cfg(feature = "cuda")]
        if let Some(freed) = comm.free_device(pointer.cast()) {
            return freed;
        }
        comm.free(pointer.cast())
    })
}
