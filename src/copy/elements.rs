//! Strided walks over short runs: one loop, its run moved by at most two fixed-size moves instead of a call.

/// Copies `count` runs of `len` bytes, `dst_step` and `src_step` bytes apart.
///
/// # Safety
/// All those runs are valid at both ends, do not overlap, and `len` suits the function ([`strided`]).
pub(super) type Strided =
    unsafe fn(dst: *mut u8, dst_step: isize, src: *const u8, src_step: isize, count: usize, len: usize);

/// The longest run that is worth a walk of its own; beyond it the call to `memcpy` no longer shows.
pub(super) const LONGEST: usize = 128;

/// The walk for runs of `len` bytes.
pub(super) fn strided(len: usize) -> Strided {
    match len {
        1 => exact::<1>,
        2 => exact::<2>,
        3 => pair::<2>,
        4 => exact::<4>,
        5..8 => pair::<4>,
        8 => exact::<8>,
        9..16 => pair::<8>,
        16 => exact::<16>,
        17..32 => pair::<16>,
        32 => exact::<32>,
        33..64 => pair::<32>,
        64 => exact::<64>,
        65..=LONGEST => pair::<64>,
        _ => any,
    }
}

/// # Safety
/// As [`Strided`], with `len == N`.
unsafe fn exact<const N: usize>(
    mut dst: *mut u8,
    dst_step: isize,
    mut src: *const u8,
    src_step: isize,
    count: usize,
    len: usize,
) {
    debug_assert_eq!(len, N);
    for _ in 0..count {
        // SAFETY: the caller vouches for this run.
        unsafe { dst.copy_from_nonoverlapping(src, N) };
        (dst, src) = (dst.wrapping_offset(dst_step), src.wrapping_offset(src_step));
    }
}

/// Moves the first `N` and the last `N` bytes of each run; where they overlap, a byte is written twice.
///
/// # Safety
/// As [`Strided`], with `N <= len <= 2 * N`.
unsafe fn pair<const N: usize>(
    mut dst: *mut u8,
    dst_step: isize,
    mut src: *const u8,
    src_step: isize,
    count: usize,
    len: usize,
) {
    debug_assert!((N..=2 * N).contains(&len));
    for _ in 0..count {
        // SAFETY: both halves lie inside the run, which the caller vouches for.
        unsafe {
            dst.copy_from_nonoverlapping(src, N);
            dst.add(len - N).copy_from_nonoverlapping(src.add(len - N), N);
        }
        (dst, src) = (dst.wrapping_offset(dst_step), src.wrapping_offset(src_step));
    }
}

/// # Safety
/// As [`Strided`].
unsafe fn any(mut dst: *mut u8, dst_step: isize, mut src: *const u8, src_step: isize, count: usize, len: usize) {
    for _ in 0..count {
        // SAFETY: the caller vouches for this run.
        unsafe { dst.copy_from_nonoverlapping(src, len) };
        (dst, src) = (dst.wrapping_offset(dst_step), src.wrapping_offset(src_step));
    }
}
