//! Every kernel against a byte-by-byte walk of the nest, between pages that cannot be touched.

use super::{Kernel, Streaming};
use crate::geometry::{IndexBox, LoopNest, MAX_DIMS, Placement};

const POISON: u8 = 0xa5;

/// Memory that ends, or starts, exactly where it may no longer be touched.
struct Guarded {
    map: *mut u8,
    map_bytes: usize,
    data: *mut u8,
    bytes: usize,
}

impl Guarded {
    /// `bytes` bytes; `at_end`: the forbidden page follows the last byte, else it precedes the first.
    fn new(bytes: usize, at_end: bool) -> Guarded {
        const PAGE_BYTES: usize = 4096;
        let inner = bytes.next_multiple_of(PAGE_BYTES).max(PAGE_BYTES);
        let map_bytes = inner + 2 * PAGE_BYTES;
        // SAFETY: a new mapping; what becomes accessible lies inside it.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let map = libc::mmap(std::ptr::null_mut(), map_bytes, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(map, libc::MAP_FAILED);
            let first = map.cast::<u8>().add(PAGE_BYTES);
            assert_eq!(libc::mprotect(first.cast(), inner, libc::PROT_READ | libc::PROT_WRITE), 0);
            let data = if at_end { first.add(inner - bytes) } else { first };
            Guarded { map: map.cast(), map_bytes, data, bytes }
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: these bytes are accessible, and all of them are zero or written.
        unsafe { std::slice::from_raw_parts_mut(self.data, self.bytes) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, unmapped once.
        unsafe { libc::munmap(self.map.cast(), self.map_bytes) };
    }
}

/// The lowest and the highest byte, exclusive, that the nest touches on one side.
fn reach(nest: &LoopNest, start: isize, strides: &[isize; MAX_DIMS]) -> (isize, isize) {
    let (mut low, mut high) = (start, start + nest.run_bytes as isize);
    for (stride, extent) in strides.iter().zip(nest.extents).take(nest.ndims) {
        let step = stride * (extent as isize - 1);
        low += step.min(0);
        high += step.max(0);
    }
    (low, high)
}

/// All ways this processor can store, first the one that does not stream.
fn ways() -> Vec<Option<Streaming>> {
    std::iter::once(None).chain(Streaming::available().map(Some)).collect()
}

/// Runs the nest every way and compares every byte of the destination with the walk.
fn check(nest: &LoopNest, at_end: bool) {
    let (src_low, src_high) = reach(nest, nest.src_start, &nest.src_strides);
    // With the bytes before the start, by which tests shift the alignment.
    let (dst_low, dst_high) = reach(nest, nest.dst_start, &nest.dst_strides);
    let dst_low = dst_low.min(0);
    let mut source = Guarded::new((src_high - src_low) as usize, at_end);
    let mut target = Guarded::new((dst_high - dst_low) as usize, at_end);
    for (i, byte) in source.bytes().iter_mut().enumerate() {
        *byte = (i * 37 + i / 251) as u8;
    }
    let mut expected = vec![POISON; target.bytes];
    nest.for_each_run(|s, d| {
        for b in 0..nest.run_bytes as isize {
            expected[(d - dst_low + b) as usize] = source.bytes()[(s - src_low + b) as usize];
        }
    });
    for way in ways() {
        target.bytes().fill(POISON);
        let kernel = Kernel::with(*nest, |_| way);
        let (src, dst) = (source.data.wrapping_offset(-src_low), target.data.wrapping_offset(-dst_low));
        // SAFETY: both buffers hold all that the nest touches, and they are apart.
        unsafe { kernel.run(dst, src) };
        if let Some(at) = (0..expected.len()).find(|&i| target.bytes()[i] != expected[i]) {
            panic!("{way:?}, at_end {at_end}: byte {at} of {} is wrong, nest {nest:?}", expected.len());
        }
    }
}

/// Under valgrind, or asked to be quick, a test does less.
fn scale(count: usize) -> usize {
    if std::env::var_os("BOXWISE_TEST_QUICK").is_some() { count.div_ceil(20) } else { count }
}

/// Sizes of elements: squares of all kinds, every way to copy a short run, and a long one.
const SIZES: [usize; 27] =
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 128, 200, 256, 384, 512, 513];

#[test]
fn random_placements() {
    let mut random = fastrand::Rng::with_seed(11);
    for round in 0..scale(3000) {
        let ndims = random.usize(1..=MAX_DIMS);
        let size = SIZES[random.usize(0..SIZES.len())];
        let mut room = 20_000 / size as i64;
        let mut upper = vec![1; ndims];
        for _ in 0..4 {
            let d = random.usize(0..ndims);
            let most = [3, 20, 150][random.usize(0..3)].min(room);
            upper[d] = random.i64(1..=most.max(1));
            room /= upper[d];
        }
        let index_box = IndexBox::new(&vec![0; ndims], &upper).unwrap();
        let mut strides = |padding: i64, repeats: bool| {
            let mut order: Vec<usize> = (0..ndims).collect();
            random.shuffle(&mut order);
            let mut strides = vec![0; ndims];
            let mut next = 1 + random.i64(0..=padding);
            for d in order {
                if !(repeats && random.u8(0..5) == 0) {
                    strides[d] = if random.u8(0..4) == 0 { -next } else { next };
                    next *= upper[d] + random.i64(0..=padding);
                }
            }
            strides
        };
        let (from, to) = (strides(round as i64 % 2, true), strides(round as i64 / 2 % 2, false));
        let source = Placement::input(index_box, Some(&from), size).unwrap();
        let target = Placement::output(index_box, Some(&to), size).unwrap();
        check(&LoopNest::between(&index_box, &source, &target), random.bool());
    }
}

/// A plane whose source runs along the second loop of the destination.
fn transposition(size: usize, height: usize, width: usize, src_pitch: usize, dst_pitch: usize) -> LoopNest {
    let mut nest = LoopNest {
        run_bytes: size,
        ndims: 2,
        extents: [1; MAX_DIMS],
        src_strides: [0; MAX_DIMS],
        dst_strides: [0; MAX_DIMS],
        src_start: 0,
        dst_start: 0,
    };
    nest.extents[..2].copy_from_slice(&[width, height]);
    nest.src_strides[..2].copy_from_slice(&[size as isize, src_pitch as isize]);
    nest.dst_strides[..2].copy_from_slice(&[dst_pitch as isize, size as isize]);
    nest
}

#[test]
fn transpositions_of_every_tail() {
    let mut random = fastrand::Rng::with_seed(12);
    for size in SIZES {
        for _ in 0..scale(60) {
            let most = (300_000 / size).isqrt().clamp(8, 300);
            let (height, width) = (random.usize(2..=most), random.usize(2..=most));
            let pitch = (height * size).next_multiple_of(64);
            let mut nest = transposition(size, height, width, width * size, pitch);
            // Aligned lines, lines that some rows reach, and lines that no element starts.
            nest.dst_start = [0, size * random.usize(0..64), random.usize(0..64)][random.usize(0..3)] as isize;
            check(&nest, false);
            nest.dst_strides[0] = (height * size) as isize;
            check(&nest, true);
        }
    }
}

#[test]
fn tiles_past_the_tlb_block_and_planes() {
    // Two loops beyond 512 iterations, and a third around them between the two on both sides.
    for (size, height, width) in
        [(1usize, 700, 530), (2, 520, 600), (4, 513, 700), (8, 600, 520), (16, 530, 514), (12, 520, 520)]
    {
        let (height, width) = if scale(20) == 1 { (height / 8, width / 8) } else { (height, width) };
        let line = (height * size).next_multiple_of(64);
        let mut nest = transposition(size, height, width, 2 * width * size, 2 * line);
        nest.ndims = 3;
        nest.extents[..3].copy_from_slice(&[width, 2, height]);
        nest.src_strides[..3].copy_from_slice(&[size as isize, (width * size) as isize, (2 * width * size) as isize]);
        nest.dst_strides[..3].copy_from_slice(&[2 * line as isize, line as isize, size as isize]);
        check(&nest, false);
    }
}

#[test]
fn runs_of_every_length_and_alignment() {
    let mut random = fastrand::Rng::with_seed(13);
    for len in (1..700).chain([1000, 4096, 4100, 8192, 9000, 20_000]).step_by(if scale(20) == 1 { 23 } else { 1 }) {
        for at_end in [false, true] {
            let mut nest = transposition(len, 1 + random.usize(0..40), 1, 0, 0);
            (nest.ndims, nest.extents[0], nest.extents[1]) = (1, nest.extents[1], 1);
            nest.dst_strides[0] = (len + random.usize(0..2) * random.usize(0..70)) as isize;
            nest.src_strides[0] = (len + random.usize(0..2) * random.usize(0..70)) as isize;
            if random.u8(0..4) == 0 {
                nest.src_strides[0] *= -1;
            }
            nest.dst_start = random.isize(0..64);
            check(&nest, at_end);
        }
    }
}

#[test]
fn pieces_and_a_single_run() {
    // Pieces keep loops of one iteration.
    let index_box = IndexBox::new(&[0, 0, 0], &[9, 10, 11]).unwrap();
    for size in [1, 2, 4, 8, 16, 24] {
        let source = Placement::input(index_box, None, size).unwrap();
        let target = Placement::output(index_box, Some(&[1, 9, 90]), size).unwrap();
        let nest = LoopNest::between(&index_box, &source, &target);
        let piece = nest.cut(512);
        for i in 0..nest.piece_count(&piece) {
            check(&nest.piece(&piece, i).pack(), i % 2 == 0);
            check(&nest.piece(&piece, i).unpack(), i % 2 == 0);
        }
        let whole = LoopNest::between(&index_box, &source, &source);
        assert_eq!(whole.ndims, 0);
        check(&whole, true);
    }
}

#[test]
fn streaming_and_tiles_are_chosen_where_they_pay() {
    let tiled = Kernel::new(transposition(8, 64, 64, 512, 512), 0);
    assert!(tiled.tiling.is_some() && tiled.streaming.is_none());
    assert_eq!(Kernel::new(*tiled.nest(), usize::MAX).streaming, Streaming::detect());
    let long = transposition(4096, 4, 4, 1 << 20, 1 << 16);
    assert!(Kernel::new(long, 0).tiling.is_none());
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        assert!(Streaming::detect().is_some());
    }
}
