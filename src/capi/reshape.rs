//! The five core calls and the options: create, set_option, make, get_size, exec_async, destroy.

use super::boundary::{Output, call, null};
use super::comm;
use super::handle::{self, Kind, Object};
use super::status::boxwise_status_t;
use crate::error::{Error, Result};
use crate::exec::Stream;
use crate::geometry::{MAX_DIMS, MAX_ELEMENT_SIZE};
use crate::log;
use crate::plan::{Backend, OptionName, Options, Request, Side};
use crate::reshape::Reshape;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};

/// The largest number of dimensions of an array.
pub const BOXWISE_MAX_DIMS: i32 = 8;
const _: () = assert!(BOXWISE_MAX_DIMS as usize == MAX_DIMS);

/// What a reshape handle points to; its inside is private.
pub enum boxwise_reshape {}
/// One redistribution: from the boxes that the ranks hold to the boxes that they want. Made by boxwise_create,
/// ended by boxwise_destroy. One handle is used by one thread at a time; different handles by any threads.
pub type boxwise_handle_t = *mut boxwise_reshape;

/// Options of a handle, for boxwise_set_option. All ranks must give the same values.
#[repr(C)]
pub enum boxwise_option {
    /// One of boxwise_backend; default BOXWISE_BACKEND_AUTO.
    BOXWISE_OPTION_BACKEND = 0,
    /// 1: data_out may overlap data_in, which is then consumed; boxwise_get_size tells the workspace that this
    /// needs. 0 (default): an overlap is an error.
    BOXWISE_OPTION_IN_PLACE = 1,
    /// 1: input boxes may overlap and hold equal data; the nearest, least loaded holder sends. 0 (default): every
    /// element is held once.
    BOXWISE_OPTION_ALLOW_REPLICAS = 2,
    /// 1: output elements that no input holds are left untouched. 0 (default): a hole is an error.
    BOXWISE_OPTION_ALLOW_UNCOVERED = 3,
    /// 0: the caller vouches that the buffers of all ranks are ready when any rank executes. 1 (default): each
    /// execution waits until they are. Both backends wait in any case, for they learn there where they are.
    BOXWISE_OPTION_ENTRY_SYNC = 4,
    /// What is true when an execution is complete. 0: this rank's output is whole. 1 (default): and its input may
    /// be reused. 2: as 1, on every rank.
    BOXWISE_OPTION_EXIT_SYNC = 5,
    /// Host copy threads of this rank, 1 to 1024; default 1. The NVSHMEM backend does not look at it.
    BOXWISE_OPTION_THREADS = 6,
    /// Longest wait for other ranks in milliseconds, with nothing to do meanwhile. 0 (default): for ever, but a dead
    /// peer is still noticed. It must exceed the time that a peer needs for its own copies.
    BOXWISE_OPTION_TIMEOUT_MS = 7,
}

/// Where the data lives and who moves it: values of BOXWISE_OPTION_BACKEND.
#[repr(C)]
pub enum boxwise_backend {
    /// NVSHMEM if it is initialised in this process when make is called, else the host.
    BOXWISE_BACKEND_AUTO = 0,
    /// Host memory, moved by the processor.
    BOXWISE_BACKEND_HOST = 1,
    /// Device memory, moved by NVSHMEM: every buffer lies in its symmetric heap (boxwise_malloc with
    /// BOXWISE_MEMORY_DEVICE, or nvshmem_malloc). NVSHMEM is initialised here if nobody has done so. NOT_SUPPORTED by
    /// make where the library was built without it, UNAVAILABLE where the machine lacks it.
    BOXWISE_BACKEND_NVSHMEM = 2,
}

const _: () = {
    assert!(boxwise_backend::BOXWISE_BACKEND_AUTO as i32 == Backend::Auto as i32);
    assert!(boxwise_backend::BOXWISE_BACKEND_HOST as i32 == Backend::Host as i32);
    assert!(boxwise_backend::BOXWISE_BACKEND_NVSHMEM as i32 == Backend::Nvshmem as i32);
    assert!(boxwise_option::BOXWISE_OPTION_BACKEND as i32 == OptionName::Backend as i32);
    assert!(boxwise_option::BOXWISE_OPTION_IN_PLACE as i32 == OptionName::InPlace as i32);
    assert!(boxwise_option::BOXWISE_OPTION_ALLOW_REPLICAS as i32 == OptionName::AllowReplicas as i32);
    assert!(boxwise_option::BOXWISE_OPTION_ALLOW_UNCOVERED as i32 == OptionName::AllowUncovered as i32);
    assert!(boxwise_option::BOXWISE_OPTION_ENTRY_SYNC as i32 == OptionName::EntrySync as i32);
    assert!(boxwise_option::BOXWISE_OPTION_EXIT_SYNC as i32 == OptionName::ExitSync as i32);
    assert!(boxwise_option::BOXWISE_OPTION_THREADS as i32 == OptionName::Threads as i32);
    assert!(boxwise_option::BOXWISE_OPTION_TIMEOUT_MS as i32 == OptionName::TimeoutMs as i32);
};

/// What stands behind a reshape handle: options until it is made, then the reshape as well.
#[derive(Default)]
pub struct Handle {
    /// Locked by the call that makes the reshape for as long as it takes.
    options: Mutex<Options>,
    made: OnceLock<Reshape>,
}

impl Object for Handle {
    const KIND: Kind = Kind::Reshape;
}

impl Handle {
    /// The options of a handle that is not made yet. Does not wait: ranks that are threads and share a handle by
    /// mistake would wait for one another.
    fn unmade(&self) -> Result<MutexGuard<'_, Options>> {
        let options = match self.options.try_lock() {
            Ok(options) => options,
            // The options are whole whatever panicked.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(Error::invalid_state("handle is in use by another thread; give each thread its own"));
            }
        };
        match self.made.get() {
            None => Ok(options),
            Some(_) => Err(Error::invalid_state("handle was made already; create another one")),
        }
    }

    /// The reshape, once it is made.
    pub fn made(&self) -> Result<&Reshape> {
        self.made.get().ok_or_else(|| Error::invalid_state("handle was not made; call boxwise_make first"))
    }
}

/// Makes an empty handle, to be given options by boxwise_set_option and boxes by boxwise_make.
///
/// - handle: where it goes; not NULL.
///
/// Not collective; any thread. Statuses: INVALID_ARGUMENT, OUT_OF_MEMORY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn boxwise_create(handle: *mut boxwise_handle_t) -> boxwise_status_t {
    log::start();
    call("boxwise_create", || {
        // SAFETY: the header asks for a place for the output.
        let output = unsafe { Output::new("handle", handle) }?;
        output.write(handle::insert(Handle::default())?);
        Ok(())
    })
}

/// Sets an option of a handle that is not made yet. A refused value changes nothing.
///
/// - option: one of boxwise_option.
/// - value: see there.
///
/// Not collective, but boxwise_make checks that all ranks agree. One thread at a time per handle.
/// Statuses: INVALID_ARGUMENT, INVALID_STATE (made already, or destroyed).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn boxwise_set_option(handle: boxwise_handle_t, option: i32, value: i64) -> boxwise_status_t {
    call("boxwise_set_option", || {
        let handle = handle::get::<Handle, _>("handle", handle)?;
        let name = OptionName::from_code(option).ok_or_else(|| {
            let most = OptionName::ALL.len() - 1;
            Error::invalid_argument(format!("option is {option}, must be one of boxwise_option, 0 to {most}"))
        })?;
        handle.unmade()?.set(name, value).map_err(Error::invalid_argument)
    })
}

/// Tells which box of the global array this rank holds and which it wants, and makes the plan.
///
/// A box is half open, [lower, upper), 0-based, in one global index space that inputs and outputs share; any origin,
/// also a negative one. lower == upper in some dimension is an empty box, allowed on any rank; its strides and data
/// pointer are ignored. Element g of a box lies (sum over d of (g[d] - lower[d]) * strides[d]) elements from the data
/// pointer. Strides may come in any order, so that a reshape can also permute the order in memory; they may be
/// padded or negative, and are ignored where the extent is 1. Padding is never touched.
///
/// Together the input boxes hold every element once, and every element of an output is held by some input; output
/// boxes may overlap. BOXWISE_OPTION_ALLOW_REPLICAS and BOXWISE_OPTION_ALLOW_UNCOVERED relax the first two rules.
///
/// - element_size: bytes of one element, 1 to 65536; the same on all ranks.
/// - ndims: number of dimensions, 1 to BOXWISE_MAX_DIMS; the same on all ranks.
/// - lower_input, upper_input: ndims coordinates each of the box that this rank holds; not NULL.
/// - strides_input: ndims strides in elements, also 0. NULL: packed, the last dimension fastest.
/// - lower_output, upper_output, strides_output: the same for the box that this rank wants, except that strides must
///   give every element a place of its own.
/// - comm_handle, comm_type: the ranks that take part, see boxwise_comm_type.
///
/// No pointer is kept: arrays may be reused and a communicator destroyed afterwards. A call that failed may be
/// repeated with the same handle.
///
/// Collective: called by all ranks of the communicator. All of them return, and all return the same status with a
/// detail that names the guilty rank, whatever one of them passed in; only a rank whose comm_handle or comm_type
/// names no communicator fails alone. One thread at a time per handle and, of one rank, per communicator.
///
/// Statuses: INVALID_ARGUMENT, INVALID_STATE (made already, or destroyed), INCONSISTENT (overlap, hole, different
/// element_size, ndims or options), NOT_SUPPORTED and UNAVAILABLE (backend), OUT_OF_MEMORY, TRANSPORT, PEER_LOST,
/// TIMEOUT.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)] // the order of arguments is cuFFTMp's
pub unsafe extern "C" fn boxwise_make(
    handle: boxwise_handle_t,
    element_size: usize,
    ndims: i32,
    lower_input: *const i64,
    upper_input: *const i64,
    strides_input: *const i64,
    lower_output: *const i64,
    upper_output: *const i64,
    strides_output: *const i64,
    comm_handle: *const c_void,
    comm_type: i32,
) -> boxwise_status_t {
    call("boxwise_make", || {
        // SAFETY: what the header asks of the caller is what this asks of us.
        let named = unsafe { comm::named(comm_handle, comm_type) }?;
        // From here on this rank's own faults are shared, so that the others do not wait for it.
        let handle = handle::get::<Handle, _>("handle", handle);
        let unmade = match &handle {
            Ok(handle) => handle.unmade(),
            Err(error) => Err(error.clone()),
        };
        let request = || {
            named.fault?;
            unmade.as_ref().map_err(Error::clone)?;
            let ndims = check_sizes(element_size, ndims)?;
            // SAFETY: the header asks for arrays of ndims coordinates each.
            let (input, output) = unsafe {
                (
                    Arrays::read("input", ndims, lower_input, upper_input, strides_input)?,
                    Arrays::read("output", ndims, lower_output, upper_output, strides_output)?,
                )
            };
            Request::describe(element_size, input.as_side(), output.as_side())
        };
        let request = request();
        let options = unmade.as_ref().map_or_else(|_| Options::default(), |options| **options);
        let reshape = Reshape::make(&named.comm, request, &options)?;
        drop(unmade?);
        // Nobody else set it: the options were locked until just now, and `made` was empty.
        handle?.made.set(reshape).map_err(|_| Error::invalid_state("handle was made by another thread"))
    })
}

/// Gives the size of the workspace that boxwise_exec_async needs on this rank.
///
/// - workspace_bytes: where it goes, in bytes, not NULL. 0 unless BOXWISE_OPTION_IN_PLACE is set, or NVSHMEM reaches
///   a peer by puts only (another node).
///
/// Not collective; ranks may differ. One thread at a time per handle.
/// Statuses: INVALID_ARGUMENT, INVALID_STATE (not made, or destroyed).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn boxwise_get_size(handle: boxwise_handle_t, workspace_bytes: *mut usize) -> boxwise_status_t {
    call("boxwise_get_size", || {
        let handle = handle::get::<Handle, _>("handle", handle)?;
        let reshape = handle.made()?;
        // SAFETY: the header asks for a place for the output.
        unsafe { Output::new("workspace_bytes", workspace_bytes) }?.write(reshape.workspace_bytes());
        Ok(())
    })
}

/// Moves the data. May be called any number of times, with the same or other buffers. Allocates nothing.
///
/// - data_out: this rank's output, laid out as told to boxwise_make, at any alignment; may be NULL when its box is
///   empty.
/// - data_in: this rank's input, likewise. Never written, unless BOXWISE_OPTION_IN_PLACE is set.
/// - workspace: boxwise_get_size bytes that overlap neither of the two; not looked at when that is 0.
/// - stream, host backend: NULL runs the operation before returning. A boxwise_stream_t queues it after what was
///   queued before; the buffers must stay as they are until boxwise_stream_synchronize, which also returns the
///   operation's failure. NOT_SUPPORTED where ranks of other nodes take part and MPI has less than
///   MPI_THREAD_MULTIPLE.
/// - stream, NVSHMEM backend: a cudaStream_t (or CUstream) of the GPU that NVSHMEM has, NULL for the default stream. The
///   operation is queued there as a few kernels, and the call returns at once; it never waits for the device, so that
///   it can be captured in a CUDA graph and the graph be launched again and again, on all ranks alike. The buffers lie
///   in the symmetric heap and must stay as they are until the stream has got there.
///
/// It waits by itself until the buffers of the other ranks are ready; no barrier is needed before it. Complete means
/// that this rank's output is whole and its input may be reused; see BOXWISE_OPTION_EXIT_SYNC.
///
/// On the NVSHMEM backend a failure of the operation itself (a peer's bad argument, a lost peer, a timeout) is known only
/// when the stream gets there. It is returned once: by the next boxwise_exec_async with the handle, else by
/// boxwise_destroy. After a peer's bad argument that next call queues its own operation all the same and only then
/// returns the earlier failure; after a lost peer or a timeout nothing is queued any more. A fault of this call's own
/// arguments is returned first, and the earlier failure by the call after it.
///
/// Collective: called by all ranks; those of one thread or stream in the same order on all ranks. One thread at a
/// time per handle. A fault of this rank's own is told to the ranks that would wait for it.
///
/// Statuses: INVALID_ARGUMENT, INVALID_STATE (not made, or handle or stream destroyed), NOT_SUPPORTED, TRANSPORT,
/// PEER_LOST, TIMEOUT, DEVICE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn boxwise_exec_async(
    handle: boxwise_handle_t,
    data_out: *mut c_void,
    data_in: *const c_void,
    workspace: *mut c_void,
    stream: *mut c_void,
) -> boxwise_status_t {
    call("boxwise_exec_async", || {
        let handle = handle::get::<Handle, _>("handle", handle)?;
        let reshape = handle.made()?;
        let (output, input, workspace) = (data_out.cast(), data_in.cast(), workspace.cast());
        match reshape.backend() {
            #[cfg(feature = "cuda")]
            Backend::Nvshmem if handle::is_handle(stream) => Err(reshape.exec_fault(Error::invalid_argument(format!(
                "rank {}: stream is a boxwise handle, but this plan runs on NVSHMEM; pass a cudaStream_t, or set \
                 BOXWISE_OPTION_BACKEND to BOXWISE_BACKEND_HOST before make",
                reshape.info().rank
            )))),
            // SAFETY: the header asks for buffers laid out as told to make, valid until the operation is complete, and
            // for a stream of CUDA.
            #[cfg(feature = "cuda")]
            Backend::Nvshmem => unsafe { reshape.exec_on_cuda_stream(output, input, workspace, stream) },
            _ => {
                let stream = host_stream(reshape, stream)?;
                // SAFETY: as above, but for the stream.
                unsafe { reshape.exec(output, input, workspace, stream.as_deref()) }
            }
        }
    })
}

/// The stream of ours that the pointer stands for.
fn host_stream(reshape: &Reshape, stream: *mut c_void) -> Result<Option<Arc<Stream>>> {
    if stream.is_null() {
        return Ok(None);
    }
    handle::get::<Stream, _>("stream", stream).map(Some).map_err(|fault| {
        let rank = reshape.info().rank;
        let mut fault = fault.context(format_args!("rank {rank}"));
        if cfg!(feature = "cuda") && !handle::is_handle(stream) {
            fault
                .detail
                .push_str("; for a CUDA stream set BOXWISE_OPTION_BACKEND to BOXWISE_BACKEND_NVSHMEM before make");
        }
        // The peers must not wait for a rank that cannot queue its part.
        reshape.exec_fault(fault)
    })
}

/// Ends a handle, made or not. Operations already queued on a host stream still run; what they need lives until then.
/// On the NVSHMEM backend the call waits for all work of this device, other than while a stream is captured; graphs that
/// hold operations of the handle must not be launched afterwards.
///
/// - handle: may be NULL, then nothing happens. It is gone whatever the status says.
///
/// Not collective; waits for no other rank but through operations that are queued. One thread at a time per handle.
/// Statuses: INVALID_ARGUMENT, INVALID_STATE (destroyed before); NVSHMEM backend: that of an operation whose failure no
/// call has returned yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn boxwise_destroy(handle: boxwise_handle_t) -> boxwise_status_t {
    call("boxwise_destroy", || match handle.is_null() {
        true => Ok(()),
        false => {
            let removed = handle::remove::<Handle, _>("handle", handle)?;
            removed.made.get().map_or(Ok(()), Reshape::settle)
        }
    })
}

/// The number of dimensions, when it and the element size are within bounds.
fn check_sizes(element_size: usize, ndims: i32) -> Result<usize> {
    if !(1..=MAX_ELEMENT_SIZE).contains(&element_size) {
        let fault = format!("element_size is {element_size}, must be 1 to {MAX_ELEMENT_SIZE}");
        return Err(Error::invalid_argument(fault));
    }
    match usize::try_from(ndims) {
        Ok(ndims) if (1..=MAX_DIMS).contains(&ndims) => Ok(ndims),
        _ => Err(Error::invalid_argument(format!("ndims is {ndims}, must be 1 to {MAX_DIMS}"))),
    }
}

/// The arrays that describe one side of a reshape, copied.
struct Arrays {
    ndims: usize,
    lower: [i64; MAX_DIMS],
    upper: [i64; MAX_DIMS],
    strides: Option<[i64; MAX_DIMS]>,
}

impl Arrays {
    /// # Safety
    /// Each pointer is NULL or valid for reading `ndims` numbers.
    unsafe fn read(
        name: &str,
        ndims: usize,
        lower: *const i64,
        upper: *const i64,
        strides: *const i64,
    ) -> Result<Arrays> {
        let copied = |array: *const i64| {
            let mut copy = [0; MAX_DIMS];
            for (d, place) in copy.iter_mut().enumerate().take(ndims) {
                // SAFETY: the array has ndims numbers. Unaligned, because C casts are free.
                *place = unsafe { array.add(d).read_unaligned() };
            }
            copy
        };
        let needed = |array: *const i64, what: &str| match array.is_null() {
            true => Err(null(&format!("{what}_{name}"), &format!("{ndims} numbers"))),
            false => Ok(copied(array)),
        };
        let strides = (!strides.is_null()).then(|| copied(strides));
        Ok(Arrays { ndims, lower: needed(lower, "lower")?, upper: needed(upper, "upper")?, strides })
    }

    fn as_side(&self) -> Side<'_> {
        let n = self.ndims;
        Side { lower: &self.lower[..n], upper: &self.upper[..n], strides: self.strides.as_ref().map(|s| &s[..n]) }
    }
}
