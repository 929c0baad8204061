//! The device and its one context, which each thread has to make current.

use crate::error::{INVALID_CONTEXT, INVALID_VALUE, NO_DEVICE, SUCCESS, or_sticky};
use crate::{Handle, Status, number};
use std::cell::RefCell;
use std::ffi::{c_int, c_uint};

static CONTEXT: u8 = 0;
const VERSION: u64 = 12_080;
const MULTIPROCESSOR_COUNT: c_int = 16;
/// Few, so that blocks have to take several tiles.
const MULTIPROCESSORS: c_int = 2;

thread_local! {
    static STACK: RefCell<Vec<bool>> = const { RefCell::new(Vec::new()) };
}

fn the_context() -> Handle {
    (&raw const CONTEXT).cast_mut().cast()
}

/// Whether this thread has a context.
pub fn is_current() -> bool {
    STACK.with_borrow(|stack| stack.last() == Some(&true))
}

/// The status of a call that needs one.
pub fn need() -> Status {
    if is_current() { or_sticky(SUCCESS) } else { INVALID_CONTEXT }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(_flags: c_uint) -> Status {
    if number("GPU_SIM_DEVICES", 1) == 0 { NO_DEVICE } else { SUCCESS }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> Status {
    // SAFETY: as the driver's interface says, here and below.
    unsafe { version.write(number("GPU_SIM_VERSION", VERSION) as c_int) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> Status {
    // SAFETY: as above.
    unsafe { count.write(1) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(device: *mut c_int, number: c_int) -> Status {
    if number != 0 {
        return INVALID_VALUE;
    }
    // SAFETY: as above.
    unsafe { device.write(0) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, _device: c_int) -> Status {
    if attribute != MULTIPROCESSOR_COUNT {
        return INVALID_VALUE;
    }
    // SAFETY: as above.
    unsafe { value.write(MULTIPROCESSORS) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut Handle, _device: c_int) -> Status {
    // SAFETY: as above.
    unsafe { context.write(the_context()) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(context: *mut Handle) -> Status {
    // SAFETY: as above.
    unsafe { context.write(if is_current() { the_context() } else { std::ptr::null_mut() }) };
    SUCCESS
}

fn is_ours(context: Handle) -> bool {
    context == the_context()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(context: Handle) -> Status {
    if !context.is_null() && !is_ours(context) {
        return INVALID_CONTEXT;
    }
    STACK.with_borrow_mut(|stack| {
        stack.pop();
        stack.push(!context.is_null());
    });
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPushCurrent_v2(context: Handle) -> Status {
    if !is_ours(context) {
        return INVALID_CONTEXT;
    }
    STACK.with_borrow_mut(|stack| stack.push(true));
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxPopCurrent_v2(context: *mut Handle) -> Status {
    if STACK.with_borrow_mut(Vec::pop).is_none() {
        return INVALID_CONTEXT;
    }
    // SAFETY: as above.
    unsafe { context.write(the_context()) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetDevice(device: *mut c_int) -> Status {
    if !is_current() {
        return INVALID_CONTEXT;
    }
    // SAFETY: as above.
    unsafe { device.write(0) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSynchronize() -> Status {
    match need() {
        SUCCESS => crate::stream::synchronize_all(),
        status => status,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetCtx(stream: Handle, context: *mut Handle) -> Status {
    if !crate::stream::exists(stream) {
        return crate::error::INVALID_HANDLE;
    }
    // SAFETY: as above.
    unsafe { context.write(the_context()) };
    SUCCESS
}
