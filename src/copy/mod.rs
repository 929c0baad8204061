//! Kernels that run a loop nest: how bytes get from one layout to another at the speed of memory.

mod elements;
mod run;
mod lanes;
mod stream;
mod tile;
#[cfg(target_arch = "x86_64")]
mod unpack;

use crate::geometry::LoopNest;
use stream::Streaming;
use tile::Tiling;

/// Beyond this much, what a copy writes would only push everything else out of the cache.
const CACHE_BYTES: usize = 16 << 20;

/// A loop nest and the chosen way to run it.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    nest: LoopNest,
    tiling: Option<Tiling>,
    streaming: Option<Streaming>,
}

impl Kernel {
    /// The kernel for `nest`, part of an operation that moves `bytes_in_all` on this rank: streaming stores pay only
    /// when that exceeds the cache. Cheap enough to be made for each piece of a transfer.
    pub fn new(nest: LoopNest, bytes_in_all: usize) -> Kernel {
        let streaming = if bytes_in_all > CACHE_BYTES { Streaming::detect() } else { None };
        Kernel::with(nest, streaming)
    }

    fn with(mut nest: LoopNest, streaming: Option<Streaming>) -> Kernel {
        drop_single_iterations(&mut nest);
        Kernel { nest, tiling: Tiling::choose(&nest), streaming }
    }

    /// The nest, without loops of one iteration.
    pub fn nest(&self) -> &LoopNest {
        &self.nest
    }

    /// Copies the nest.
    ///
    /// # Safety
    /// Every byte of the nest, relative to `src` and `dst`, is valid, and the two do not overlap.
    pub unsafe fn run(&self, dst: *mut u8, src: *const u8) {
        // SAFETY: the caller vouches for the nest; `streaming` was detected.
        unsafe {
            match &self.tiling {
                Some(tiling) => tile::copy(&self.nest, tiling, dst, src, self.streaming),
                None => run::copy(&self.nest, dst, src, self.streaming),
            }
        }
        if self.streaming.is_some() {
            stream::fence();
        }
    }
}

/// Pieces of a nest may have loops of one iteration, which hide what the other loops have in common.
fn drop_single_iterations(nest: &mut LoopNest) {
    let mut kept = 0;
    for d in 0..nest.ndims {
        if nest.extents[d] != 1 {
            nest.extents[kept] = nest.extents[d];
            nest.src_strides[kept] = nest.src_strides[d];
            nest.dst_strides[kept] = nest.dst_strides[d];
            kept += 1;
        }
    }
    nest.extents[kept..].fill(1);
    nest.src_strides[kept..].fill(0);
    nest.dst_strides[kept..].fill(0);
    nest.ndims = kept;
}
