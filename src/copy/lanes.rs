//! exp
use std::arch::x86_64::*;

pub(super) type Lines = unsafe fn(dst: *mut u8, dst_step: isize, src: *const u8, src_step: usize, rows: usize, cols: usize);
pub(super) fn lines(size: usize) -> Option<(Lines, usize)> {
    match size {
        1 => Some((block::<1, 16>, 16)),
        2 => Some((block::<2, 8>, 8)),
        4 => Some((block::<4, 4>, 4)),
        8 => Some((block::<8, 2>, 2)),
        16 => Some((block::<16, 1>, 1)),
        _ => None,
    }
}
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn block<const SIZE: usize, const SIDE: usize>(dst: *mut u8, dst_step: isize, src: *const u8, src_step: usize, rows: usize, cols: usize) {
    unsafe {
        for col in (0..cols).step_by(SIDE) {
            for row in (0..rows).step_by(4 * SIDE) {
                let from = src.add(row * src_step + col * SIZE);
                let to = dst.wrapping_offset(col as isize * dst_step).add(row * SIZE);
                let mut a = [_mm512_setzero_si512(); SIDE];
                for i in 0..SIDE {
                    let l = |q: usize| _mm_loadu_si128(from.add((q * SIDE + i) * src_step).cast());
                    let v = _mm512_castsi128_si512(l(0));
                    let v = _mm512_inserti32x4::<1>(v, l(1));
                    let v = _mm512_inserti32x4::<2>(v, l(2));
                    a[i] = _mm512_inserti32x4::<3>(v, l(3));
                }
                for _ in 0..SIDE.ilog2() {
                    let b = a;
                    for i in 0..SIDE / 2 {
                        let (x, y) = (b[i], b[i + SIDE / 2]);
                        match SIZE {
                            1 => { a[2 * i] = _mm512_unpacklo_epi8(x, y); a[2 * i + 1] = _mm512_unpackhi_epi8(x, y); }
                            2 => { a[2 * i] = _mm512_unpacklo_epi16(x, y); a[2 * i + 1] = _mm512_unpackhi_epi16(x, y); }
                            4 => { a[2 * i] = _mm512_unpacklo_epi32(x, y); a[2 * i + 1] = _mm512_unpackhi_epi32(x, y); }
                            _ => { a[2 * i] = _mm512_unpacklo_epi64(x, y); a[2 * i + 1] = _mm512_unpackhi_epi64(x, y); }
                        }
                    }
                }
                for i in 0..SIDE { _mm512_stream_si512(to.wrapping_offset(i as isize * dst_step).cast(), a[i]); }
            }
        }
    }
}
