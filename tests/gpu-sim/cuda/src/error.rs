//! Errors: their numbers, names and texts, and the one that sticks once a kernel has failed.

use crate::Status;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicI32, Ordering};

pub const SUCCESS: Status = 0;
pub const INVALID_VALUE: Status = 1;
pub const OUT_OF_MEMORY: Status = 2;
pub const NO_DEVICE: Status = 100;
pub const INVALID_CONTEXT: Status = 201;
pub const NO_BINARY: Status = 209;
pub const INVALID_HANDLE: Status = 400;
pub const NOT_FOUND: Status = 500;
pub const NOT_READY: Status = 600;
pub const ILLEGAL_ADDRESS: Status = 700;
pub const LAUNCH_TIMEOUT: Status = 702;
pub const MISALIGNED_ADDRESS: Status = 716;
pub const LAUNCH_FAILED: Status = 719;
pub const CAPTURE_UNSUPPORTED: Status = 900;

const TEXTS: [(Status, &CStr, &CStr); 14] = [
    (SUCCESS, c"CUDA_SUCCESS", c"no error"),
    (INVALID_VALUE, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
    (OUT_OF_MEMORY, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
    (NO_DEVICE, c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected"),
    (INVALID_CONTEXT, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
    (NO_BINARY, c"CUDA_ERROR_NO_BINARY_FOR_GPU", c"no kernel image is available for execution on the device"),
    (INVALID_HANDLE, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle"),
    (NOT_FOUND, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
    (NOT_READY, c"CUDA_ERROR_NOT_READY", c"device not ready"),
    (ILLEGAL_ADDRESS, c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered"),
    (LAUNCH_TIMEOUT, c"CUDA_ERROR_LAUNCH_TIMEOUT", c"the launch timed out and was terminated"),
    (MISALIGNED_ADDRESS, c"CUDA_ERROR_MISALIGNED_ADDRESS", c"misaligned address"),
    (LAUNCH_FAILED, c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure"),
    (
        CAPTURE_UNSUPPORTED,
        c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        c"operation not permitted when stream is capturing",
    ),
];

static STICKY: AtomicI32 = AtomicI32::new(SUCCESS);

/// From now on every call fails so. Tests call it too.
#[unsafe(export_name = "gpu_sim_stick")]
pub extern "C" fn stick(status: Status) {
    let _ = STICKY.compare_exchange(SUCCESS, status, Ordering::SeqCst, Ordering::SeqCst);
}

/// What has failed before, if anything.
pub fn sticky() -> Status {
    STICKY.load(Ordering::SeqCst)
}

/// `status`, unless something failed before.
pub fn or_sticky(status: Status) -> Status {
    if sticky() != SUCCESS { sticky() } else { status }
}

unsafe fn give(
    status: Status,
    text: *mut *const c_char,
    pick: impl Fn(&(Status, &'static CStr, &'static CStr)) -> &'static CStr,
) -> Status {
    let Some(found) = TEXTS.iter().find(|(known, ..)| *known == status) else { return INVALID_VALUE };
    // SAFETY: the caller gives a place for the text.
    unsafe { text.write(pick(found).as_ptr()) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(status: Status, text: *mut *const c_char) -> Status {
    // SAFETY: as the driver's interface says.
    unsafe { give(status, text, |(_, name, _)| name) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(status: Status, text: *mut *const c_char) -> Status {
    // SAFETY: as the driver's interface says.
    unsafe { give(status, text, |(.., meaning)| meaning) }
}
