//! The copy tile by tile: for nests whose two sides run along different loops, with short runs.
//!
//! A tile takes some iterations of the destination's fastest loop (its rows) and of the source's fastest loop (its
//! columns). It is read row by row, along the source, and written column by column, along the destination, by way of
//! a scratch block that stays in the cache. Each line of memory so comes and goes once, however unlucky the strides:
//! those of arrays with power-of-two extents put all rows of a tile into the same few places of the cache.

use super::elements::{self, Strided};
use super::squares::Squares;
use super::stream::{LINE_BYTES, Streaming, prefetch};
use crate::geometry::LoopNest;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Longer runs are as quick run by run; shorter ones then wait for a page of their own each.
const LONGEST_RUN: usize = 512;

/// How much of a row a tile takes from the source, and of a column to the destination, if there is as much.
/// Short stretches restart the processor's own prefetching too often, long ones push the scratch out of the cache.
const ROW_BYTES: usize = 512;
const COLUMN_BYTES: usize = 256;

/// The most rows of a tile, if a row is as long as it should be.
const MOST_ROWS: usize = 64;

/// Room for the rows of a tile, `pitch` apart, and for its columns, packed.
const SCRATCH_ROWS_BYTES: usize = MOST_ROWS * (ROW_BYTES + 2 * LINE_BYTES);
const SCRATCH_COLUMNS_BYTES: usize = MOST_ROWS * ROW_BYTES;

/// How far ahead rows are fetched.
const AHEAD_BYTES: usize = 8 << 10;

/// The iterations of the two tile loops that are finished before the loops around them go on. A tile touches a
/// page a row and a page a column: so many at a time are fewer than the second-level TLB holds.
const TLB_PAGES: usize = 512;

/// Where a tile lives on its way: its rows as they were read, and its columns as they will be written.
#[repr(align(64))]
struct Scratch {
    rows: MaybeUninit<[u8; SCRATCH_ROWS_BYTES]>,
    cols: MaybeUninit<[u8; SCRATCH_COLUMNS_BYTES]>,
}

/// How a nest is cut into tiles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tiling {
    /// The source's fastest loop; the destination's is the nest's last.
    along_src: usize,
    /// Iterations of the destination's fastest loop a tile.
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
        let room = SCRATCH_COLUMNS_BYTES / size;
        let (rows, cols) =
            (height.min((COLUMN_BYTES / size).clamp(4, MOST_ROWS)), width.min((ROW_BYTES / size).max(4)));
        // A loop that is shorter than it should be leaves its room to the other.
        let (rows, cols) = if rows == height {
            (rows, width.min(room / rows))
        } else if cols == width {
            let most = (room / cols).min(SCRATCH_ROWS_BYTES / pitch(cols * size));
            (height.min(most - most % most.min(MOST_ROWS)), cols)
        } else {
            (rows, cols)
        };
        Some(Tiling { along_src, rows, cols })
    }
}

/// How far apart rows of `len` bytes lie in the scratch, so that they do not all start in the same set of the cache.
fn pitch(len: usize) -> usize {
    len.next_multiple_of(LINE_BYTES) + LINE_BYTES
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
    let mut scratch = Scratch { rows: MaybeUninit::uninit(), cols: MaybeUninit::uninit() };
    let tiles = Tiles::new(nest, tiling, streaming, &mut scratch);
    let planes = loops_around(nest, tiling.along_src);
    let (height, width) = (nest.extents[nest.ndims - 1], nest.extents[tiling.along_src]);
    let rows_at_once = TLB_PAGES.next_multiple_of(tiling.rows);
    let cols_at_once = TLB_PAGES.next_multiple_of(tiling.cols);
    for row in (0..height).step_by(rows_at_once) {
        for col in (0..width).step_by(cols_at_once) {
            let (rows, cols) = (row..height.min(row + rows_at_once), col..width.min(col + cols_at_once));
            planes.for_each_run(|s, d| {
                // SAFETY: these rows and columns of the plane are part of the nest, for which the caller vouches.
                unsafe { tiles.plane(dst.wrapping_offset(d), src.wrapping_offset(s), &rows, &cols) }
            });
        }
    }
}

/// The nest without the two loops of the tiles.
fn loops_around(nest: &LoopNest, along_src: usize) -> LoopNest {
    let mut outer = *nest;
    outer.extents.copy_within(along_src + 1.., along_src);
    outer.src_strides.copy_within(along_src + 1.., along_src);
    outer.dst_strides.copy_within(along_src + 1.., along_src);
    outer.ndims -= 2;
    outer
}

/// What all tiles of a nest have in common.
struct Tiles {
    /// Bytes of an element, which here is a run.
    size: usize,
    rows: usize,
    cols: usize,
    /// Steps from row to row and from column to column.
    src_row: isize,
    src_col: isize,
    dst_row: isize,
    dst_col: isize,
    elements: Strided,
    stored: Option<Squares>,
    /// Only where whole lines can go straight to the destination.
    streamed: Option<Squares>,
    streaming: Option<Streaming>,
    scratch_rows: *mut u8,
    scratch_cols: *mut u8,
}

/// Part of a tile: its elements as they lie now, and where they go.
struct Block {
    dst: *mut u8,
    src: *const u8,
    src_row: isize,
    height: usize,
    width: usize,
}

impl Tiles {
    fn new(nest: &LoopNest, tiling: &Tiling, streaming: Option<Streaming>, scratch: &mut Scratch) -> Tiles {
        let (last, along_src, size) = (nest.ndims - 1, tiling.along_src, nest.run_bytes);
        let rows_packed = nest.src_strides[along_src] == size as isize;
        let lines_aligned =
            nest.dst_strides[last] == size as isize && nest.dst_strides[along_src] % LINE_BYTES as isize == 0;
        Tiles {
            size,
            rows: tiling.rows,
            cols: tiling.cols,
            src_row: nest.src_strides[last],
            src_col: nest.src_strides[along_src],
            dst_row: nest.dst_strides[last],
            dst_col: nest.dst_strides[along_src],
            elements: elements::strided(size),
            stored: Squares::stored(size).filter(|_| rows_packed),
            streamed: streaming.and_then(|s| Squares::streamed(size, s)).filter(|_| rows_packed && lines_aligned),
            streaming,
            scratch_rows: scratch.rows.as_mut_ptr().cast(),
            scratch_cols: scratch.cols.as_mut_ptr().cast(),
        }
    }

    fn src_at(&self, src: *const u8, row: usize, col: usize) -> *const u8 {
        src.wrapping_offset(row as isize * self.src_row + col as isize * self.src_col)
    }

    fn dst_at(&self, dst: *mut u8, row: usize, col: usize) -> *mut u8 {
        dst.wrapping_offset(row as isize * self.dst_row + col as isize * self.dst_col)
    }

    /// # Safety
    /// These rows and columns, counted from `dst` and `src`, are valid and do not overlap.
    unsafe fn plane(&self, dst: *mut u8, src: *const u8, rows: &Range<usize>, cols: &Range<usize>) {
        for col in cols.clone().step_by(self.cols) {
            let width = self.cols.min(cols.end - col);
            let ahead = (AHEAD_BYTES / (width * self.size)).clamp(1, MOST_ROWS);
            let mut row = rows.start;
            let mut height = self.rows_to_line(self.dst_at(dst, row, col));
            while row < rows.end {
                height = height.min(rows.end - row);
                // Rows go on from tile to tile, and after the last one comes the next column of tiles.
                let fetch = |row_of_tile: usize| match row + row_of_tile + ahead {
                    next if next < rows.end => self.src_at(src, next, col),
                    next => self.src_at(src, next - rows.len(), col + width),
                };
                // SAFETY: the tile lies inside the caller's rows and columns.
                unsafe { self.tile(self.dst_at(dst, row, col), self.src_at(src, row, col), height, width, fetch) };
                row += height;
                height = self.rows;
            }
        }
    }

    /// How many rows the first tile takes so that the next starts at the start of a line, if it can.
    fn rows_to_line(&self, dst: *mut u8) -> usize {
        let at_line = |rows: &usize| dst.addr().wrapping_add(rows * self.size).is_multiple_of(LINE_BYTES);
        if self.streaming.is_none() || at_line(&0) {
            return self.rows;
        }
        (1..self.rows.min(LINE_BYTES)).find(at_line).unwrap_or(self.rows)
    }

    /// Copies one tile; `fetch` tells where to prefetch while a row is read.
    ///
    /// # Safety
    /// The elements of the tile are valid at `dst` and `src` and do not overlap.
    unsafe fn tile(
        &self,
        dst: *mut u8,
        src: *const u8,
        height: usize,
        width: usize,
        fetch: impl Fn(usize) -> *const u8,
    ) {
        let len = width * self.size;
        let pitch = pitch(len);
        let mut block = Block { dst, src, src_row: self.src_row, height, width };
        let gathers = self.stored.is_some() || self.streamed.is_some();
        debug_assert!(height * len <= SCRATCH_COLUMNS_BYTES && (!gathers || height * pitch <= SCRATCH_ROWS_BYTES));
        for row in 0..height {
            let next = fetch(row);
            for at in (0..len).step_by(LINE_BYTES) {
                prefetch(next.wrapping_add(at));
            }
            if gathers {
                // SAFETY: a row of the tile, packed at both ends; the scratch has room for `height` times `pitch`.
                unsafe { copy_row(self.scratch_rows.add(row * pitch), self.src_at(src, row, 0), len) };
            }
        }
        if gathers {
            (block.src, block.src_row) = (self.scratch_rows, pitch as isize);
        }
        // SAFETY: the parts make up the tile.
        unsafe {
            let (rows, cols) = self.write_lines(&block);
            if rows > 0 && cols < width {
                self.write_elements(&self.part(&block, 0..rows, cols..width));
            }
            if rows < height {
                self.write_elements(&self.part(&block, rows..height, 0..width));
            }
        }
    }

    fn part(&self, block: &Block, rows: Range<usize>, cols: Range<usize>) -> Block {
        Block {
            dst: self.dst_at(block.dst, rows.start, cols.start),
            src: block.src.wrapping_offset(rows.start as isize * block.src_row + cols.start as isize * self.src_col),
            src_row: block.src_row,
            height: rows.len(),
            width: cols.len(),
        }
    }

    /// Writes what is whole lines at the destination straight from the transposing registers; returns how many rows
    /// and columns that were.
    ///
    /// # Safety
    /// As [`Tiles::tile`].
    unsafe fn write_lines(&self, block: &Block) -> (usize, usize) {
        let Some(squares) = self.streamed.filter(|_| block.dst.addr().is_multiple_of(LINE_BYTES)) else {
            return (0, 0);
        };
        let (rows, cols) = squares.whole(block.height, block.width);
        if cols > 0 {
            // SAFETY: whole squares of the block; the destination's columns are aligned and their stores available.
            unsafe { squares.transpose(block.dst, self.dst_col, block.src, block.src_row, rows, cols) };
        }
        (if cols > 0 { rows } else { 0 }, cols)
    }

    /// Writes a block of any shape: transposed into the scratch, then from there column by column.
    ///
    /// # Safety
    /// As [`Tiles::tile`].
    unsafe fn write_elements(&self, block: &Block) {
        let (size, pitch) = (self.size, block.height * self.size);
        // SAFETY: the scratch holds any tile, packed; the columns are those of the block.
        unsafe {
            self.transpose(block);
            if self.dst_row != size as isize {
                for col in 0..block.width {
                    let (to, from) = (self.dst_at(block.dst, 0, col), self.scratch_cols.add(col * pitch));
                    (self.elements)(to, self.dst_row, from, size as isize, block.height, size);
                }
                return;
            }
            // Columns that follow each other at the destination are one.
            let contiguous = self.dst_col == pitch as isize;
            let (count, len) = if contiguous { (1, block.width * pitch) } else { (block.width, pitch) };
            for col in 0..count {
                let (to, from) = (self.dst_at(block.dst, 0, col), self.scratch_cols.add(col * len));
                match self.streaming {
                    Some(streaming) => streaming.copy(to, from, len),
                    None => to.copy_from_nonoverlapping(from, len),
                }
            }
        }
    }

    /// Transposes a block into the scratch, packed column after column.
    ///
    /// # Safety
    /// The elements of the block are valid at its source.
    unsafe fn transpose(&self, block: &Block) {
        let (size, pitch) = (self.size, (block.height * self.size) as isize);
        let (mut rows, mut cols) = (0, 0);
        if let Some(squares) = self.stored {
            (rows, cols) = squares.whole(block.height, block.width);
            // SAFETY: whole squares of the block; the scratch holds all of it.
            unsafe { squares.transpose(self.scratch_cols, pitch, block.src, block.src_row, rows, cols) };
        }
        for row in 0..block.height {
            // What the squares left.
            let col = if row < rows { cols } else { 0 };
            let rest = self.part(block, row..row + 1, col..block.width);
            let to = self.scratch_cols.wrapping_add(row * size).wrapping_offset(col as isize * pitch);
            // SAFETY: the rest of this row of the block.
            unsafe { (self.elements)(to, pitch, rest.src, self.src_col, rest.width, size) };
        }
    }
}

/// # Safety
/// `len` bytes are valid at both ends and do not overlap.
unsafe fn copy_row(dst: *mut u8, src: *const u8, len: usize) {
    let whole = len / LINE_BYTES * LINE_BYTES;
    // SAFETY: lines and rest make up the caller's bytes.
    unsafe {
        for at in (0..whole).step_by(LINE_BYTES) {
            dst.add(at).copy_from_nonoverlapping(src.add(at), LINE_BYTES);
        }
        dst.add(whole).copy_from_nonoverlapping(src.add(whole), len - whole);
    }
}
