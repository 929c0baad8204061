//! What a made plan tells about itself: numbers and a text.

use super::boundary::{Output, call, null};
use super::handle;
use super::reshape::{Handle, boxwise_handle_t};
use super::status::boxwise_status_t;
use crate::error::{Error, Result};
use crate::exec::{self, METHODS};
use crate::plan::Format;
use std::ffi::c_char;
use std::{mem, ptr};

/// How an execution moved data between ranks: bits of `methods` in boxwise_info_t.
#[repr(C)]
pub enum boxwise_method {
    /// Straight from or to memory that the ranks share (boxwise_malloc, or threads of one process): one pass.
    BOXWISE_METHOD_DIRECT = 1,
    /// Through a small shared ring: two passes.
    BOXWISE_METHOD_RING = 2,
    /// By the kernel's cross-memory copy from another process's plain memory.
    BOXWISE_METHOD_CROSS_MEMORY = 4,
    /// In messages to and from ranks of other nodes.
    BOXWISE_METHOD_MESSAGE = 8,
    /// NVSHMEM backend: kernels store straight into the output of a GPU that they reach (NVLink, same node): one pass.
    BOXWISE_METHOD_STORE = 16,
    /// NVSHMEM backend: packed pieces, put by NVSHMEM into the workspace of a GPU that is out of reach otherwise.
    BOXWISE_METHOD_PUT = 32,
}

const _: () = {
    assert!(boxwise_method::BOXWISE_METHOD_DIRECT as u32 == exec::DIRECT);
    assert!(boxwise_method::BOXWISE_METHOD_RING as u32 == exec::RING);
    assert!(boxwise_method::BOXWISE_METHOD_CROSS_MEMORY as u32 == exec::CROSS_MEMORY);
    assert!(boxwise_method::BOXWISE_METHOD_MESSAGE as u32 == exec::MESSAGE);
    assert!(boxwise_method::BOXWISE_METHOD_STORE as u32 == exec::STORE);
    assert!(boxwise_method::BOXWISE_METHOD_PUT as u32 == exec::PUT);
    assert!(METHODS.len() == 6);
};

/// Forms of the text that boxwise_describe gives.
#[repr(C)]
pub enum boxwise_format {
    /// Lines for a person.
    BOXWISE_FORMAT_TEXT = 0,
    /// One JSON object.
    BOXWISE_FORMAT_JSON = 1,
}

/// Numbers about a made handle, all of this rank. Bytes are those of elements, without padding.
#[repr(C)]
pub struct boxwise_info_t {
    /// Set by the caller to sizeof(boxwise_info_t). On return, how many bytes of the struct were filled: less when
    /// the library is older than the header. Later versions may add members at the end.
    pub struct_size: usize,
    /// Where the data lives: one of boxwise_backend, never BOXWISE_BACKEND_AUTO.
    pub backend: i32,
    /// Bits of boxwise_method: how the last execution moved data between ranks. 0 before the first one, and when
    /// nothing had to move.
    pub methods: u32,
    /// This rank.
    pub rank: i32,
    /// The number of ranks.
    pub size: i32,
    /// The number of dimensions.
    pub ndims: i32,
    /// How many other ranks this one sends to.
    pub peers_sent_to: i32,
    /// How many other ranks this one receives from.
    pub peers_received_from: i32,
    /// Always 0.
    pub reserved: i32,
    /// Bytes of one element.
    pub element_size: usize,
    /// Bytes that stay on this rank, moved from its input to its output.
    pub bytes_kept: u64,
    /// Bytes that other ranks get from this one.
    pub bytes_sent: u64,
    /// Bytes that this rank gets from others.
    pub bytes_received: u64,
    /// Strided copies that this rank's plan consists of.
    pub copies: u64,
    /// Bytes of workspace, as boxwise_get_size gives.
    pub workspace_bytes: usize,
}

/// Tells what the plan of a made handle moves.
///
/// - info: its struct_size set by the caller; the members that fit are filled. Not NULL.
///
/// Not collective. One thread at a time per handle.
/// Statuses: INVALID_ARGUMENT (NULL, or struct_size too small for itself), INVALID_STATE (not made, or destroyed).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn boxwise_get_info(handle: boxwise_handle_t, info: *mut boxwise_info_t) -> boxwise_status_t {
    call("boxwise_get_info", || {
        let handle = handle::get::<Handle, _>("handle", handle)?;
        let reshape = handle.made()?;
        if info.is_null() {
            return Err(null("info", "a boxwise_info_t"));
        }
        // SAFETY: the header asks for a struct with at least its first member. Unaligned, because C casts are free.
        let theirs = unsafe { info.cast::<usize>().read_unaligned() };
        let least = mem::size_of::<usize>();
        if theirs < least {
            let fault = format!("struct_size of info is {theirs}, must be sizeof(boxwise_info_t), at least {least}");
            return Err(Error::invalid_argument(fault));
        }
        let struct_size = theirs.min(mem::size_of::<boxwise_info_t>());
        let plan = reshape.info();
        let filled = boxwise_info_t {
            struct_size,
            backend: reshape.backend() as i32,
            methods: reshape.methods(),
            rank: plan.rank as i32,
            size: plan.size as i32,
            ndims: plan.ndims as i32,
            peers_sent_to: plan.peers_sent_to as i32,
            peers_received_from: plan.peers_received_from as i32,
            reserved: 0,
            element_size: plan.element_size,
            bytes_kept: plan.bytes_kept,
            bytes_sent: plan.bytes_sent,
            bytes_received: plan.bytes_received,
            copies: plan.copies,
            workspace_bytes: reshape.workspace_bytes(),
        };
        // SAFETY: the caller's struct has struct_size bytes, ours at least as many. Ours has no padding bytes.
        unsafe { ptr::copy_nonoverlapping(ptr::from_ref(&filled).cast::<u8>(), info.cast(), struct_size) };
        Ok(())
    })
}

/// Writes a text about the plan of a made handle: boxes, peers, transfers, bytes.
///
/// - format: one of boxwise_format.
/// - buffer: receives the text and its NUL; capacity bytes. NULL with capacity 0 only asks for the size.
/// - needed: receives the bytes that the text takes, its NUL included; not NULL. Also written when
///   capacity is too small, which is INVALID_ARGUMENT and leaves the buffer as it was.
///
/// Not collective. One thread at a time per handle.
/// Statuses: INVALID_ARGUMENT, INVALID_STATE (not made, or destroyed).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn boxwise_describe(
    handle: boxwise_handle_t,
    format: i32,
    buffer: *mut c_char,
    capacity: usize,
    needed: *mut usize,
) -> boxwise_status_t {
    call("boxwise_describe", || {
        let handle = handle::get::<Handle, _>("handle", handle)?;
        let reshape = handle.made()?;
        let format = format_with_number(format)?;
        // SAFETY: the header asks for a place for the output.
        let output = unsafe { Output::new("needed", needed) }?;
        if buffer.is_null() && capacity > 0 {
            return Err(null("buffer", &format!("{capacity} bytes as capacity says")));
        }
        let text = reshape.describe(format).replace('\0', " ");
        let bytes = text.len() + 1;
        output.write(bytes);
        if buffer.is_null() {
            return Ok(());
        }
        if capacity < bytes {
            return Err(Error::invalid_argument(format!("capacity is {capacity}, the text needs {bytes} bytes")));
        }
        // SAFETY: the buffer has capacity bytes, which is enough for the text and its NUL.
        unsafe {
            ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), text.len());
            buffer.add(text.len()).write(0);
        }
        Ok(())
    })
}

fn format_with_number(format: i32) -> Result<Format> {
    const TEXT: i32 = boxwise_format::BOXWISE_FORMAT_TEXT as i32;
    const JSON: i32 = boxwise_format::BOXWISE_FORMAT_JSON as i32;
    match format {
        TEXT => Ok(Format::Text),
        JSON => Ok(Format::Json),
        _ => Err(Error::invalid_argument(format!(
            "format is {format}, must be BOXWISE_FORMAT_TEXT ({TEXT}) or BOXWISE_FORMAT_JSON ({JSON})"
        ))),
    }
}
