//! Kernels that run a loop nest: how bytes get from one layout to another at the speed of memory.

mod elements;
mod run;
mod squares;
mod stream;
mod tile;

#[cfg(test)]
mod tests;

use crate::geometry::LoopNest;
use stream::Streaming;
use tile::Tiling;

/// Copies that move more than this stream: from a quarter of a usual last-level cache on, which two ranks or more
/// share, ordinary stores lose. The reader of the result finds it in memory then, which is part of the measure.
const LEAST_STREAMED_RUNS: usize = 8 << 20;

/// The same for tiles, which gain earlier: they write whole lines, where stores of parts of lines miss the cache.
const LEAST_STREAMED_TILES: usize = 2 << 20;

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
        Kernel::with(nest, |tiles| {
            let least = if tiles { LEAST_STREAMED_TILES } else { LEAST_STREAMED_RUNS };
            (bytes_in_all > least).then(Streaming::detect).flatten()
        })
    }

    /// `streaming` says how to stream, given whether the nest is copied by tiles.
    fn with(nest: LoopNest, streaming: impl FnOnce(bool) -> Option<Streaming>) -> Kernel {
        let tiling = Tiling::choose(&nest);
        Kernel { nest, tiling, streaming: streaming(tiling.is_some()) }
    }

    /// The nest.
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
