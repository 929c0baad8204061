//! The copy run by run: for nests that walk both sides in the same order, or whose runs are long.

use super::elements;
use super::stream::{LINE_BYTES, Streaming, prefetch};
use crate::geometry::LoopNest;

/// Shorter runs are stored as usual: the parts of lines at both ends weigh more than streaming saves.
const LEAST_STREAMED: usize = 384;

/// How far ahead runs are fetched. The processor's own prefetching starts anew at every jump of the source, so runs
/// up to this length gain by being asked for; longer ones, and those that follow each other, lose.
const AHEAD_BYTES: usize = 8 << 10;

/// Copies every run of `nest`; streaming stores are left for the caller to fence.
///
/// # Safety
/// As for [`super::Kernel::run`]; `streaming` works on this processor.
pub(super) unsafe fn copy(nest: &LoopNest, dst: *mut u8, src: *const u8, streaming: Option<Streaming>) {
    let len = nest.run_bytes;
    // The innermost loop is done here, those around it by `for_each_run`.
    let mut outer = *nest;
    outer.ndims = nest.ndims.saturating_sub(1);
    let (count, dst_step, src_step) = match nest.ndims {
        0 => (1, 0, 0),
        n => (nest.extents[n - 1], nest.dst_strides[n - 1], nest.src_strides[n - 1]),
    };
    let strided = elements::strided(len);
    outer.for_each_run(|s, d| {
        let (to, from) = (dst.wrapping_offset(d), src.wrapping_offset(s));
        // SAFETY: these are runs of the nest, for which the caller vouches.
        unsafe {
            match streaming {
                Some(streaming) if len >= LEAST_STREAMED => stream(streaming, to, dst_step, from, src_step, count, len),
                _ => strided(to, dst_step, from, src_step, count, len),
            }
        }
    });
}

/// Streams `count` runs of `len` bytes.
///
/// # Safety
/// All those runs are valid at both ends and do not overlap; `streaming` works on this processor.
unsafe fn stream(
    streaming: Streaming,
    mut dst: *mut u8,
    dst_step: isize,
    mut src: *const u8,
    src_step: isize,
    count: usize,
    len: usize,
) {
    let jumps = src_step != len as isize && len <= AHEAD_BYTES;
    let ahead = AHEAD_BYTES / len;
    for run in 0..count {
        if jumps && run + ahead < count {
            let start = src.wrapping_offset(src_step * ahead as isize);
            for at in (0..len).step_by(LINE_BYTES) {
                prefetch(start.wrapping_add(at));
            }
        }
        // SAFETY: the caller vouches for this run.
        unsafe { streaming.copy(dst, src, len) };
        (dst, src) = (dst.wrapping_offset(dst_step), src.wrapping_offset(src_step));
    }
}
