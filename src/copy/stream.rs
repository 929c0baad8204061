//! Streaming stores: whole cache lines written past the cache, for copies that would only flush it.

/// Size of a cache line, the unit of streaming stores.
pub(super) const LINE_BYTES: usize = 64;

/// How whole lines are written past the cache, chosen by what the processor can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Streaming {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Streaming {
    /// The best way here; `None` when the processor has none that beats ordinary stores.
    pub(super) fn detect() -> Option<Streaming> {
        Streaming::available().next()
    }

    /// All ways that work here, best first.
    pub(super) fn available() -> impl Iterator<Item = Streaming> {
        #[cfg(target_arch = "x86_64")]
        let all = [
            (is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw"), Streaming::Avx512),
            (is_x86_feature_detected!("avx2"), Streaming::Avx2),
        ];
        #[cfg(not(target_arch = "x86_64"))]
        let all: [(bool, Streaming); 0] = [];
        all.into_iter().filter_map(|(works, way)| works.then_some(way))
    }

    /// Copies `len` bytes: whole lines of the destination past the cache, what is left at both ends as usual.
    /// Other threads may see the lines only after a [`fence`].
    ///
    /// # Safety
    /// `len` bytes are valid at both ends and do not overlap; `self` came from [`Streaming::available`].
    #[inline]
    pub(super) unsafe fn copy(self, dst: *mut u8, src: *const u8, len: usize) {
        let head = dst.align_offset(LINE_BYTES).min(len);
        let lines = (len - head) / LINE_BYTES;
        let tail = len - head - lines * LINE_BYTES;
        // SAFETY: head, lines and tail lie one after the other inside the caller's bytes; the lines start aligned.
        unsafe {
            copy_part_of_line(dst, src, head);
            self.copy_lines(dst.add(head), src.add(head), lines);
            copy_part_of_line(dst.add(len - tail), src.add(len - tail), tail);
        }
    }

    /// # Safety
    /// As [`Streaming::copy`], for `lines` whole lines, with `dst` at the start of a line.
    #[inline]
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_variables, reason = "there is no way to stream"))]
    unsafe fn copy_lines(self, dst: *mut u8, src: *const u8, lines: usize) {
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the caller vouches for the bytes, and `self` was detected.
            Streaming::Avx512 => unsafe { avx512(dst, src, lines) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the caller vouches for the bytes, and `self` was detected.
            Streaming::Avx2 => unsafe { avx2(dst, src, lines) },
        }
    }
}

/// Makes streaming stores visible before any later store.
pub(super) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86_64.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    };
}

/// Asks for the line at `address` to be fetched; never faults, so any address will do. It goes to the second-level
/// cache only: the first level can wait for far fewer lines at a time, and those are for the loads themselves.
#[inline(always)]
pub(super) fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86_64, and a prefetch of an invalid address does nothing.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(address.cast())
    };
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// # Safety
/// `len` bytes, less than a line, are valid at both ends and do not overlap.
#[inline]
unsafe fn copy_part_of_line(mut dst: *mut u8, mut src: *const u8, len: usize) {
    /// # Safety
    /// `N` bytes are valid at both ends.
    #[inline(always)]
    unsafe fn step<const N: usize>(dst: &mut *mut u8, src: &mut *const u8) {
        // SAFETY: the caller vouches for these bytes.
        unsafe {
            dst.copy_from_nonoverlapping(*src, N);
            (*dst, *src) = (dst.add(N), src.add(N));
        }
    }
    // SAFETY: the bits of `len` add up to it, so the steps cover exactly the caller's bytes.
    unsafe {
        if len & 1 != 0 {
            step::<1>(&mut dst, &mut src);
        }
        if len & 2 != 0 {
            step::<2>(&mut dst, &mut src);
        }
        if len & 4 != 0 {
            step::<4>(&mut dst, &mut src);
        }
        if len & 8 != 0 {
            step::<8>(&mut dst, &mut src);
        }
        if len & 16 != 0 {
            step::<16>(&mut dst, &mut src);
        }
        if len & 32 != 0 {
            step::<32>(&mut dst, &mut src);
        }
    }
}

/// # Safety
/// `lines` lines are valid at both ends and do not overlap, `dst` is aligned to a line, and there is AVX-512F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn avx512(dst: *mut u8, src: *const u8, lines: usize) {
    use std::arch::x86_64::{__m512i, _mm512_loadu_si512, _mm512_stream_si512};
    let (mut to, mut from) = (dst.cast::<__m512i>(), src.cast::<__m512i>());
    // SAFETY: every line touched is one of the caller's.
    unsafe {
        for _ in 0..lines / 4 {
            let four = [0, 1, 2, 3].map(|i| _mm512_loadu_si512(from.add(i)));
            four.into_iter().enumerate().for_each(|(i, line)| _mm512_stream_si512(to.add(i), line));
            (to, from) = (to.add(4), from.add(4));
        }
        for i in 0..lines % 4 {
            _mm512_stream_si512(to.add(i), _mm512_loadu_si512(from.add(i)));
        }
    }
}

/// # Safety
/// As [`avx512`], with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2(dst: *mut u8, src: *const u8, lines: usize) {
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_stream_si256};
    let (mut to, mut from) = (dst.cast::<__m256i>(), src.cast::<__m256i>());
    // SAFETY: every half line touched is one of the caller's.
    unsafe {
        for _ in 0..lines {
            let (low, high) = (_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1)));
            _mm256_stream_si256(to, low);
            _mm256_stream_si256(to.add(1), high);
            (to, from) = (to.add(2), from.add(2));
        }
    }
}
