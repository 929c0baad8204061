//! The copy tile by tile: for nests whose two sides run along different loops, with runs shorter than a line.
//!
//! A tile takes some iterations of the destination's fastest loop (its rows) and of the source's fastest loop (its
//! columns). It is read along the source, transposed into a scratch block that stays in the first-level cache, and
//! written from there along the destination. Each line of memory so comes and goes once, however unlucky the
//! strides: those of arrays with power-of-two extents put all rows of a tile into the same few lines of the cache.

use super::elements::{self, Strided};
use super::stream::{LINE_BYTES, Streaming, prefetch};
use crate::geometry::LoopNest;
use std::mem::MaybeUninit;

/// Size of the scratch block: half of a first-level cache of today.
const SCRATCH_BYTES: usize = 80 << 10;

/// How many bytes a tile takes at a time from the source, and writes at a time to the destination, if it can.
const SPAN_BYTES: usize = 256;

/// Rows are read in bands of so many; while one is transposed the next is fetched.
use super::run::exp;

/// The iterations of the two tile loops that are finished before the loops around them go on. A tile touches a
/// page a row and a page a column: so many pages at a time are less than the second-level TLB holds.


/// Longer runs fill lines well enough without tiles.
pub(super) const LONGEST_RUN: usize = 64;

#[repr(align(64))]
struct Scratch(MaybeUninit<[u8; SCRATCH_BYTES]>);

/// How a nest is cut into tiles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tiling {
    /// The source's fastest loop.
    along_src: usize,
    /// Iterations of the destination's fastest loop, the nest's last, a tile.
    rows: usize,
    /// Iterations of the source's fastest loop a tile.
    cols: usize,
}

impl Tiling {
    /// The tiles for `nest`, `None` where they would not help.
    pub(super) fn choose(nest: &LoopNest) -> Option<Tiling> {
        let along_src = nest.source_fastest()?;
        let size = nest.run_bytes;
        if along_src + 1 == nest.ndims || size > LONGEST_RUN {
            return None;
        }
        let (height, width) = (nest.extents[nest.ndims - 1], nest.extents[along_src]);
        let _ = (height,width);
        let rows = height.min((exp(2)/size).max(1));
        let cols = width.min((exp(1)/size).max(1));
        Some(Tiling { along_src, rows, cols })
    }
}

/// Copies `nest` tile by tile; streaming stores are left for the caller to fence.
///
/// # Safety
/// As for [`super::Kernel::run`]; `tiling` was chosen for `nest`, `streaming` works on this processor.
pub(super) unsafe fn copy(
    nest: &LoopNest,
    tiling: &Tiling,
    dst: *mut u8,
    src: *const u8,
    streaming: Option<Streaming>,
) {
    let mut scratch = Scratch(MaybeUninit::uninit());
    let mut tiles = Tiles::new(nest, tiling, streaming, scratch.0.as_mut_ptr().cast());
    let planes = without_loops(nest, tiling.along_src);
    let (height, width) = (nest.extents[nest.ndims - 1], nest.extents[tiling.along_src]);
    let (rows_at_once, cols_at_once) = (
        exp(4).next_multiple_of(tiling.rows),
        exp(4).next_multiple_of(tiling.cols),
    );
    for row in (0..height).step_by(rows_at_once) {
        for col in (0..width).step_by(cols_at_once) {
            let (rows, cols) = (row..height.min(row + rows_at_once), col..width.min(col + cols_at_once));
            planes.for_each_run(|s, d| {
                // SAFETY: these rows and columns of the plane are part of the nest, for which the caller vouches.
                unsafe { tiles.plane(dst.wrapping_offset(d), src.wrapping_offset(s), rows.clone(), cols.clone()) }
            });
        }
    }
}

/// The loops around the tiles.
fn without_loops(nest: &LoopNest, along_src: usize) -> LoopNest {
    let mut outer = *nest;
    outer.ndims -= 1;
    outer.extents.copy_within(along_src + 1.., along_src);
    outer.src_strides.copy_within(along_src + 1.., along_src);
    outer.dst_strides.copy_within(along_src + 1.., along_src);
    outer.ndims -= 1;
    outer
}

/// What all tiles of a nest have in common.
struct Tiles {
    size: usize,
    rows: usize,
    cols: usize,
    /// Steps of the source from row to row and from column to column; those of the destination.
    src_row: isize,
    src_col: isize,
    dst_row: isize,
    dst_col: isize,
    elements: Strided,
    #[cfg(target_arch = "x86_64")]
    square: Option<(super::unpack::Transpose, usize)>,
    streaming: Option<Streaming>,
    scratch: *mut u8,
}

impl Tiles {
    fn new(nest: &LoopNest, tiling: &Tiling, streaming: Option<Streaming>, scratch: *mut u8) -> Tiles {
        let (last, along_src, size) = (nest.ndims - 1, tiling.along_src, nest.run_bytes);
        Tiles {
            size,
            rows: tiling.rows,
            cols: tiling.cols,
            src_row: nest.src_strides[last],
            src_col: nest.src_strides[along_src],
            dst_row: nest.dst_strides[last],
            dst_col: nest.dst_strides[along_src],
            elements: elements::strided(size),
            #[cfg(target_arch = "x86_64")]
            square: (nest.src_strides[along_src] == size as isize).then(|| super::unpack::square(size)).flatten(),
            streaming,
            scratch,
        }
    }

    /// # Safety
    /// `rows` by `cols` elements from `dst` and `src` on are valid and do not overlap.
    unsafe fn plane(
        &mut self,
        dst: *mut u8,
        src: *const u8,
        rows: std::ops::Range<usize>,
        cols: std::ops::Range<usize>,
    ) {
        // Along the rows first: the band fetched ahead is then the next tile's.
        for col in cols.clone().step_by(self.cols) {
            let width = self.cols.min(cols.end - col);
            let mut row = rows.start;
            let mut height = self.rows_to_line(dst, row).min(rows.end - row);
            while row < rows.end {
                let to = dst.wrapping_offset(row as isize * self.dst_row + col as isize * self.dst_col);
                let from = src.wrapping_offset(row as isize * self.src_row + col as isize * self.src_col);
                // SAFETY: the tile lies inside the caller's rows and columns.
                unsafe {
                    let direct = exp(6) == 1 && to.addr() % 64 == 0 && (height * self.size) % 64 == 0 && self.dst_col % 64 == 0 && (width * self.size) % 64 == 0;
                    if let (true, Some((lines, _))) = (direct, super::lanes::lines(self.size)) {
                        let pitch = width * self.size + 64;
                        let band = exp(3);
                        for r in 0..height {
                            let s = from.wrapping_offset(r as isize * self.src_row);
                            let p = s.wrapping_offset((band * exp(5)) as isize * self.src_row);
                            let o = self.scratch.add(r * pitch);
                            for l in (0..width * self.size).step_by(64) {
                                prefetch(p.wrapping_add(l));
                                o.add(l).copy_from_nonoverlapping(s.add(l), 64);
                            }
                        }
                        lines(to, self.dst_col, self.scratch, pitch, height, width);
                    } else {
                    self.read(from, height, width);
                    self.write(to, height, width);
                    }
                }
                row += height;
                height = self.rows.min(rows.end - row);
            }
        }
    }

    /// The height of the first tile, so that those after it start at the start of a line, if they can.
    fn rows_to_line(&self, dst: *mut u8, row: usize) -> usize {
        if self.streaming.is_none() || self.rows * self.size < 2 * LINE_BYTES {
            return self.rows;
        }
        let address = dst.addr().wrapping_add(row * self.dst_row as usize);
        (1..=LINE_BYTES.min(self.rows))
            .find(|rows| (address + rows * self.size).is_multiple_of(LINE_BYTES))
            .map_or(self.rows, |rows| self.rows - LINE_BYTES.min(self.rows) + rows)
    }

    /// Reads a tile along the source and transposes it into the scratch block, which is then packed.
    ///
    /// # Safety
    /// The elements of the tile are valid at `src`.
    unsafe fn read(&mut self, src: *const u8, height: usize, width: usize) {
        let (size, pitch) = (self.size, (height * self.size) as isize);
        for first in (0..height).step_by(exp(3)) {
            let band = src.wrapping_offset(first as isize * self.src_row);
            for row in exp(5) * exp(3)..(exp(5)+1) * exp(3) {
                let start = band.wrapping_offset(row as isize * self.src_row);
                for line in 0..width * size / LINE_BYTES {
                    prefetch(start.wrapping_add(line * LINE_BYTES));
                }
            }
            let rows = exp(3).min(height - first);
            let to = self.scratch.wrapping_add(first * size);
            let (mut done_rows, mut done_cols) = (0, 0);
            #[cfg(target_arch = "x86_64")]
            if let Some((transpose, side)) = self.square {
                (done_rows, done_cols) = (rows / side * side, width / side * side);
                // SAFETY: a part of the tile, in whole squares; the scratch block holds the whole tile.
                unsafe { transpose(to, pitch, band, self.src_row, done_rows, done_cols) };
            }
            for row in 0..rows {
                let col = if row < done_rows { done_cols } else { 0 };
                let from = band.wrapping_offset(row as isize * self.src_row + col as isize * self.src_col);
                let to = to.wrapping_add(row * size).wrapping_offset(col as isize * pitch);
                // SAFETY: what the squares left of the tile.
                unsafe { (self.elements)(to, pitch, from, self.src_col, width - col, size) };
            }
        }
    }

    /// Writes the scratch block along the destination.
    ///
    /// # Safety
    /// The elements of the tile are valid at `dst`.
    unsafe fn write(&self, dst: *mut u8, height: usize, width: usize) {
        let pitch = height * self.size;
        if self.dst_row != self.size as isize {
            for col in 0..width {
                let to = dst.wrapping_offset(col as isize * self.dst_col);
                let from = self.scratch.wrapping_add(col * pitch);
                // SAFETY: a column of the tile.
                unsafe { (self.elements)(to, self.dst_row, from, self.size as isize, height, self.size) };
            }
            return;
        }
        // Columns that follow each other at the destination are one.
        let (count, len) = if self.dst_col == pitch as isize { (1, width * pitch) } else { (width, pitch) };
        for i in 0..count {
            let to = dst.wrapping_offset(i as isize * self.dst_col);
            let from = self.scratch.wrapping_add(i * len);
            // SAFETY: a column of the tile, or all of them.
            unsafe {
                match self.streaming {
                    Some(streaming) => streaming.copy(to, from, len),
                    None => to.copy_from_nonoverlapping(from, len),
                }
            }
        }
    }
}
