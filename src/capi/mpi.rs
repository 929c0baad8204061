//! Communicators of MPI: each has one communicator of ours, kept until MPI's ends.

use super::boot::{CheckedBoot, boxwise_boot_t};
use super::boundary::null;
use crate::error::{Error, Result, Status, catch_panic};
use crate::transport::{Boot, Cause, Communicator, with_mpi_plugin};
use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{mem, ptr};

/// The number of the interface to the plugin, as in `mpi/boxwise_mpi.c`.
const ABI: i32 = 1;

/// The function of the plugin: see `mpi/boxwise_mpi.c`.
type BootFn = unsafe extern "C" fn(
    abi: i32,
    is_fortran: i32,
    comm_handle: *const c_void,
    retired: *const c_void,
    forget: unsafe extern "C" fn(context: *mut c_void),
    boot: *mut boxwise_boot_t,
    detail: *mut c_char,
    capacity: usize,
) -> i32;

/// By the context of the plugin's boot table, of which each communicator of MPI has one.
static KEPT: Mutex<BTreeMap<usize, Communicator>> = Mutex::new(BTreeMap::new());

/// Never locked while other ranks or MPI are waited for, nor while a communicator is dropped, which calls MPI.
fn kept() -> MutexGuard<'static, BTreeMap<usize, Communicator>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a rank has kept for a communicator of MPI: the ranks tell each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    Usable,
    /// One that is out of use.
    Broken,
}

impl Communicator {
    /// The ranks of an MPI communicator. Made once for each, then the same again, until the caller frees that or ends
    /// MPI. Collective.
    ///
    /// # Safety
    /// `comm_handle` points to a valid `MPI_Comm` of the MPI in this process, or to its `MPI_COMM_NULL`.
    pub unsafe fn from_mpi(comm_handle: *const c_void) -> Result<Communicator> {
        // SAFETY: as the caller says.
        unsafe { from_handle(comm_handle, false) }
    }
}

/// The same, also for a handle of Fortran.
///
/// # Safety
/// `comm_handle` is NULL or points to a communicator: an `MPI_Comm`, or with `is_fortran` an `i32`.
pub unsafe fn from_handle(comm_handle: *const c_void, is_fortran: bool) -> Result<Communicator> {
    if comm_handle.is_null() {
        return Err(null("comm_handle", "an MPI_Comm"));
    }
    // SAFETY: as the caller says.
    let table = |retired| with_mpi_plugin(|boot| unsafe { call_plugin(boot, comm_handle, is_fortran, retired) });
    let (context, boot) = table(ptr::null())?;
    let mine = kept().get(&(context as usize)).cloned();
    let found = match &mine {
        None => Found::Nothing,
        Some(communicator) if communicator.0.broken().is_some() => Found::Broken,
        Some(_) => Found::Usable,
    };
    // One that broke is formed anew, by all ranks or none: some may not know yet that it did.
    let mut all = vec![0; boot.size()];
    boot.allgather(&[found as u8], &mut all)?;
    let all_are = |found: Found| all.iter().all(|other| *other == found as u8);
    if let Some(communicator) = &mine
        && all_are(Found::Usable)
    {
        return Ok(communicator.clone());
    }
    if all_are(Found::Nothing) {
        return form(context, boot);
    }
    if let Some(communicator) = mine {
        // On all ranks it ends as one that broke: messages of it may be on their way.
        let other = all.iter().position(|other| *other != Found::Usable as u8).unwrap_or(0);
        communicator.0.give_up(Cause::Failed, other);
    }
    retire(context);
    let (context, boot) = table(context)?;
    form(context, boot)
}

fn form(context: *const c_void, boot: CheckedBoot) -> Result<Communicator> {
    let communicator = Communicator::from_boot(Box::new(boot))?;
    let replaced = kept().insert(context as usize, communicator.clone());
    drop(replaced);
    Ok(communicator)
}

/// Calls the plugin for the context and the table of this communicator.
///
/// # Safety
/// `function` is the plugin's, the rest as for [`from_handle`].
unsafe fn call_plugin(
    function: *const c_void,
    comm_handle: *const c_void,
    is_fortran: bool,
    retired: *const c_void,
) -> Result<(*const c_void, CheckedBoot)> {
    // SAFETY: a function pointer, as the caller says; a table of zeros has no functions.
    let (function, mut table) =
        unsafe { (mem::transmute::<*const c_void, BootFn>(function), mem::zeroed::<boxwise_boot_t>()) };
    table.struct_size = size_of::<boxwise_boot_t>();
    let mut detail = [0u8; 1024];
    let (text, capacity) = (detail.as_mut_ptr().cast(), detail.len());
    // SAFETY: the plugin takes these arguments, which it checks by `ABI`; there is room for what it writes.
    let returned =
        unsafe { function(ABI, is_fortran.into(), comm_handle, retired, forget, &mut table, text, capacity) };
    match Status::from_code(returned) {
        // SAFETY: the plugin vouches for its table, which works until it is released.
        Some(Status::Success) => Ok((table.context, unsafe { CheckedBoot::new(&table) }?)),
        status => {
            let end = detail.iter().position(|&byte| byte == 0).unwrap_or(detail.len());
            let detail = String::from_utf8_lossy(&detail[..end]).into_owned();
            Err(Error::new(status.unwrap_or(Status::Internal), detail))
        }
    }
}

/// The plugin's call when a communicator of MPI ends, from whatever thread ends it.
unsafe extern "C" fn forget(context: *mut c_void) {
    let outcome = catch_panic(|| {
        retire(context);
        Ok(())
    });
    if let Err(error) = outcome {
        log::error!("an MPI communicator has ended: {}", error.detail);
    }
}

/// Keeps the communicator no longer.
fn retire(context: *const c_void) {
    let communicator = kept().remove(&(context as usize));
    drop(communicator);
}
