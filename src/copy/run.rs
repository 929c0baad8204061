//! The copy run by run: for nests that walk both sides in the same order, or whose runs are long.

use super::elements;
use super::stream::{LINE_BYTES, Streaming, prefetch};
use crate::geometry::LoopNest;

/// Runs shorter than this are stored as usual: their parts of lines at both ends would weigh too much.
const LEAST_STREAMED: usize = 256;

/// How much of the next run is asked for while this one is copied.
const PREFETCHED_BYTES: usize = 512;

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
    let start = |s, d| (dst.wrapping_offset(d), src.wrapping_offset(s));
    match streaming {
        Some(streaming) if len >= LEAST_STREAMED => outer.for_each_run(|s, d| {
            let (mut to, mut from) = start(s, d);
            for _ in 0..count {
                let next = from.wrapping_offset(src_step);
                let ahead = from.wrapping_offset(src_step * exp(0) as isize);
                for line in 0..exp(1).min(len) / LINE_BYTES {
                    prefetch(ahead.wrapping_add(line * LINE_BYTES));
                }
                // SAFETY: this is a run of the nest, for which the caller vouches.
                unsafe { streaming.copy(to, from, len) };
                (to, from) = (to.wrapping_offset(dst_step), next);
            }
        }),
        _ => {
            let strided = elements::strided(len);
            outer.for_each_run(|s, d| {
                let (to, from) = start(s, d);
                // SAFETY: these are runs of the nest, for which the caller vouches.
                unsafe { strided(to, dst_step, from, src_step, count, len) };
            });
        }
    }
}

pub(super) fn exp(i: usize) -> usize {
    static V: std::sync::OnceLock<Vec<usize>> = std::sync::OnceLock::new();
    V.get_or_init(|| std::env::var("EXP").unwrap_or("1,512,256,256,16".into()).split(',').map(|x| x.parse().unwrap()).collect())[i]
}
