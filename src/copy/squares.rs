//! Transposition in registers: squares of elements, 16 bytes wide, by interleaving.
//!
//! A square has `SIDE` lines of `SIDE` elements of `SIZE` bytes, 16 bytes a line. To interleave line `i` of its first
//! half with line `i` of its second half, for all `i`, rotates the bits of an element's (line, place) number by one.
//! After as many such steps as a line number has bits, line and place have changed roles: that is the transpose.
//! Interleaving works within 16 bytes, so a wide register does four squares at once, and if those lie below each
//! other in the source, what comes out is a whole line of the destination.

use super::stream::Streaming;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// `(dst, dst_step, src, src_step, rows, cols)`, as for [`Squares::transpose`].
type Transpose = unsafe fn(*mut u8, isize, *const u8, isize, usize, usize);

/// A transposition of blocks in whole squares, for one size of elements.
#[derive(Clone, Copy)]
pub(super) struct Squares {
    rows: usize,
    cols: usize,
    transpose: Transpose,
}

impl Squares {
    /// For elements of this size, with ordinary stores.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn stored(element_bytes: usize) -> Option<Squares> {
        let squares = |side, transpose| Some(Squares { rows: side, cols: side, transpose });
        match element_bytes {
            1 => squares(16, store::<1, 16>),
            2 => squares(8, store::<2, 8>),
            4 => squares(4, store::<4, 4>),
            8 => squares(2, store::<8, 2>),
            _ => None,
        }
    }

    /// For elements of this size, with streaming stores of whole lines: `dst` and `dst_step` must be multiples of 64.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn streamed(element_bytes: usize, streaming: Streaming) -> Option<Squares> {
        if streaming != Streaming::Avx512 {
            return None;
        }
        let squares = |side, transpose: Transpose| Some(Squares { rows: 4 * side, cols: side, transpose });
        match element_bytes {
            1 => squares(16, stream::<1, 16>),
            2 => squares(8, stream::<2, 8>),
            4 => squares(4, stream::<4, 4>),
            8 => squares(2, stream::<8, 2>),
            16 => squares(1, stream::<16, 1>),
            _ => None,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn stored(_: usize) -> Option<Squares> {
        None
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn streamed(_: usize, _: Streaming) -> Option<Squares> {
        None
    }

    /// How many of these rows and columns are whole squares.
    pub(super) fn whole(&self, rows: usize, cols: usize) -> (usize, usize) {
        (rows / self.rows * self.rows, cols / self.cols * self.cols)
    }

    /// Transposes a block: row `r` of the source starts at `src + r * src_step`, column `c` goes to
    /// `dst + c * dst_step`; in both the elements lie side by side.
    ///
    /// # Safety
    /// `rows` source rows of `cols` elements and `cols` destination columns of `rows` elements are valid and do not
    /// overlap; both counts are [`whole`](Squares::whole); the processor has what [`Squares::streamed`] was given.
    pub(super) unsafe fn transpose(
        &self,
        dst: *mut u8,
        dst_step: isize,
        src: *const u8,
        src_step: isize,
        rows: usize,
        cols: usize,
    ) {
        // SAFETY: the caller vouches for all of it.
        unsafe { (self.transpose)(dst, dst_step, src, src_step, rows, cols) }
    }
}

#[cfg(target_arch = "x86_64")]
/// The transposing steps on an array of registers, with the unpack instructions for one register width.
macro_rules! interleave {
    ($lines:ident, $size:expr, $side:expr, $low8:ident $high8:ident $low16:ident $high16:ident $low32:ident $high32:ident $low64:ident $high64:ident) => {
        for _ in 0..$side.ilog2() {
            let before = $lines;
            for i in 0..$side / 2 {
                let (a, b) = (before[i], before[i + $side / 2]);
                ($lines[2 * i], $lines[2 * i + 1]) = match $size {
                    1 => ($low8(a, b), $high8(a, b)),
                    2 => ($low16(a, b), $high16(a, b)),
                    4 => ($low32(a, b), $high32(a, b)),
                    _ => ($low64(a, b), $high64(a, b)),
                };
            }
        }
    };
}

/// # Safety
/// As [`Squares::transpose`], for elements of `SIZE` bytes, `SIDE` to a square.
#[cfg(target_arch = "x86_64")]
unsafe fn store<const SIZE: usize, const SIDE: usize>(
    dst: *mut u8,
    dst_step: isize,
    src: *const u8,
    src_step: isize,
    rows: usize,
    cols: usize,
) {
    for row in (0..rows).step_by(SIDE) {
        for col in (0..cols).step_by(SIDE) {
            let from = src.wrapping_offset(row as isize * src_step).wrapping_add(col * SIZE);
            let to = dst.wrapping_offset(col as isize * dst_step).wrapping_add(row * SIZE);
            // SAFETY: SSE2 is part of x86_64; the square lies inside the block for which the caller vouches.
            unsafe {
                let mut lines = [_mm_setzero_si128(); SIDE];
                for (i, line) in lines.iter_mut().enumerate() {
                    *line = _mm_loadu_si128(from.wrapping_offset(i as isize * src_step).cast());
                }
                interleave!(lines, SIZE, SIDE, _mm_unpacklo_epi8 _mm_unpackhi_epi8 _mm_unpacklo_epi16 _mm_unpackhi_epi16
                    _mm_unpacklo_epi32 _mm_unpackhi_epi32 _mm_unpacklo_epi64 _mm_unpackhi_epi64);
                for (i, line) in lines.into_iter().enumerate() {
                    _mm_storeu_si128(to.wrapping_offset(i as isize * dst_step).cast(), line);
                }
            }
        }
    }
}

/// # Safety
/// As [`Squares::transpose`], for elements of `SIZE` bytes, `SIDE` to a square.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn stream<const SIZE: usize, const SIDE: usize>(
    dst: *mut u8,
    dst_step: isize,
    src: *const u8,
    src_step: isize,
    rows: usize,
    cols: usize,
) {
    for col in (0..cols).step_by(SIDE) {
        for row in (0..rows).step_by(4 * SIDE) {
            let from = src.wrapping_offset(row as isize * src_step).wrapping_add(col * SIZE);
            let mut to = dst.wrapping_offset(col as isize * dst_step).wrapping_add(row * SIZE);
            // SAFETY: the four squares lie inside the block for which the caller vouches, and their destination
            // lines are aligned.
            unsafe {
                let mut lines = [_mm512_setzero_si512(); SIDE];
                let (mut at, below) = (from, SIDE as isize * src_step);
                for line in &mut lines {
                    let of_square = |square| _mm_loadu_si128(at.wrapping_offset(square * below).cast());
                    *line = _mm512_castsi128_si512(of_square(0));
                    *line = _mm512_inserti32x4::<1>(*line, of_square(1));
                    *line = _mm512_inserti32x4::<2>(*line, of_square(2));
                    *line = _mm512_inserti32x4::<3>(*line, of_square(3));
                    at = at.wrapping_offset(src_step);
                }
                interleave!(lines, SIZE, SIDE, _mm512_unpacklo_epi8 _mm512_unpackhi_epi8 _mm512_unpacklo_epi16
                    _mm512_unpackhi_epi16 _mm512_unpacklo_epi32 _mm512_unpackhi_epi32 _mm512_unpacklo_epi64
                    _mm512_unpackhi_epi64);
                for line in lines {
                    _mm512_stream_si512(to.cast(), line);
                    to = to.wrapping_offset(dst_step);
                }
            }
        }
    }
}
