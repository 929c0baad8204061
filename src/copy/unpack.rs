//! Transposition in registers: squares of 1, 2, 4 or 8-byte elements, 16 bytes wide, by interleaving.

use std::arch::x86_64::*;

/// Transposes a block: row `r` of the source starts at `src + r * src_step`, row `c` of the destination at
/// `dst + c * dst_step`, and both have their elements side by side.
///
/// # Safety
/// `rows` source rows of `cols` elements and `cols` destination rows of `rows` elements are valid and do not
/// overlap; both counts are multiples of the square's side ([`square`]).
pub(super) type Transpose =
    unsafe fn(dst: *mut u8, dst_step: isize, src: *const u8, src_step: isize, rows: usize, cols: usize);

/// The transposition for elements of this size and the side of its square, if there is one.
pub(super) fn square(element_bytes: usize) -> Option<(Transpose, usize)> {
    match element_bytes {
        1 => Some((block::<1, 16>, 16)),
        2 => Some((block::<2, 8>, 8)),
        4 => Some((block::<4, 4>, 4)),
        8 => Some((block::<8, 2>, 2)),
        _ => None,
    }
}

/// # Safety
/// As [`Transpose`], with elements of `SIZE` bytes and a square of `SIDE`.
unsafe fn block<const SIZE: usize, const SIDE: usize>(
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
                let mut lines: [__m128i; SIDE] =
                    std::array::from_fn(|i| _mm_loadu_si128(from.wrapping_offset(i as isize * src_step).cast()));
                // Interleaving the upper half of the lines with the lower half rotates the bits of an element's
                // (line, place) number by one; after as many steps as a line's number has bits, line and place
                // have changed roles.
                for _ in 0..SIDE.ilog2() {
                    lines = std::array::from_fn(|i| interleave::<SIZE>(lines[i / 2], lines[i / 2 + SIDE / 2], i % 2));
                }
                for (i, line) in lines.into_iter().enumerate() {
                    _mm_storeu_si128(to.wrapping_offset(i as isize * dst_step).cast(), line);
                }
            }
        }
    }
}

/// The elements of the low (`half` 0) or high (1) halves of `a` and `b` in turns.
#[inline(always)]
fn interleave<const SIZE: usize>(a: __m128i, b: __m128i, half: usize) -> __m128i {
    // SAFETY: SSE2 is part of x86_64.
    unsafe {
        match (SIZE, half) {
            (1, 0) => _mm_unpacklo_epi8(a, b),
            (1, _) => _mm_unpackhi_epi8(a, b),
            (2, 0) => _mm_unpacklo_epi16(a, b),
            (2, _) => _mm_unpackhi_epi16(a, b),
            (4, 0) => _mm_unpacklo_epi32(a, b),
            (4, _) => _mm_unpackhi_epi32(a, b),
            (_, 0) => _mm_unpacklo_epi64(a, b),
            (_, _) => _mm_unpackhi_epi64(a, b),
        }
    }
}
