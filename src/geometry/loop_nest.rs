//! A strided copy in normal form: how to walk from one layout to another with the fewest, longest runs.

use super::{MAX_DIMS, Placement, index_box::IndexBox};

/// A copy of `extents` runs of `run_bytes` bytes each, from one strided place to another.
///
/// Normal form: loops of one iteration are dropped, destination strides are positive and fall from the outermost
/// loop to the innermost, loops that continue each other on both sides are merged, and what is contiguous on
/// both sides has become the run. All strides and starts are in bytes, relative to the two data pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopNest {
    /// Bytes that lie side by side at both ends; at least one element.
    pub run_bytes: usize,
    /// The number of loops around the run.
    pub ndims: usize,
    /// Iterations of each loop, outermost first; 1 past `ndims`.
    pub extents: [usize; MAX_DIMS],
    /// Step of the source in bytes, any sign, also 0.
    pub src_strides: [isize; MAX_DIMS],
    /// Step of the destination in bytes, positive.
    pub dst_strides: [isize; MAX_DIMS],
    /// Offset of the first run from the source pointer.
    pub src_start: isize,
    /// Offset of the first run from the destination pointer.
    pub dst_start: isize,
}

/// How a nest is cut into pieces: the iterations of each loop, and the bytes of the run, that one piece takes.
/// Both ends of a transfer cut the same nest and so agree on the pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Iterations of each loop.
    pub extents: [usize; MAX_DIMS],
    /// Bytes of the run.
    pub run_bytes: usize,
}

impl LoopNest {
    /// The copy of the elements of `common` from `source` to `target`, which both hold all of it.
    pub fn between(common: &IndexBox, source: &Placement, target: &Placement) -> LoopNest {
        let size = source.element_size();
        debug_assert_eq!(size, target.element_size());
        let mut nest = LoopNest {
            run_bytes: size,
            ndims: 0,
            extents: [1; MAX_DIMS],
            src_strides: [0; MAX_DIMS],
            dst_strides: [0; MAX_DIMS],
            src_start: source.offset_bytes(common.lower()),
            dst_start: target.offset_bytes(common.lower()),
        };
        for d in (0..common.ndims()).filter(|&d| common.extent(d) > 1) {
            let extent = common.extent(d) as usize;
            let mut src = source.layout().strides()[d] as isize * size as isize;
            let mut dst = target.layout().strides()[d] as isize * size as isize;
            if dst < 0 {
                nest.src_start += src * (extent as isize - 1);
                nest.dst_start += dst * (extent as isize - 1);
                (src, dst) = (-src, -dst);
            }
            nest.insert_by_dst_stride(extent, src, dst);
        }
        nest.merge();
        nest
    }

    fn insert_by_dst_stride(&mut self, extent: usize, src: isize, dst: isize) {
        let mut at = self.ndims;
        while at > 0 && self.dst_strides[at - 1] < dst {
            self.extents[at] = self.extents[at - 1];
            self.src_strides[at] = self.src_strides[at - 1];
            self.dst_strides[at] = self.dst_strides[at - 1];
            at -= 1;
        }
        (self.extents[at], self.src_strides[at], self.dst_strides[at]) = (extent, src, dst);
        self.ndims += 1;
    }

    fn merge(&mut self) {
        let mut d = self.ndims;
        while d > 0 {
            d -= 1;
            let run = self.run_bytes as isize;
            if d + 1 == self.ndims && self.src_strides[d] == run && self.dst_strides[d] == run {
                self.run_bytes *= self.extents[d];
                self.remove(d);
            } else if d + 1 < self.ndims {
                let inner = self.extents[d + 1] as isize;
                let continues = |strides: &[isize]| strides[d + 1].checked_mul(inner) == Some(strides[d]);
                if continues(&self.src_strides) && continues(&self.dst_strides) {
                    self.extents[d + 1] *= self.extents[d];
                    self.remove(d);
                }
            }
        }
    }

    fn remove(&mut self, d: usize) {
        self.extents.copy_within(d + 1.., d);
        self.src_strides.copy_within(d + 1.., d);
        self.dst_strides.copy_within(d + 1.., d);
        self.ndims -= 1;
        self.extents[self.ndims] = 1;
        self.src_strides[self.ndims] = 0;
        self.dst_strides[self.ndims] = 0;
    }

    /// Drops loops of one iteration, which would hide what the others have in common.
    fn drop_single_iterations(&mut self) {
        for d in (0..self.ndims).rev() {
            if self.extents[d] == 1 {
                self.remove(d);
            }
        }
    }

    /// The number of runs.
    pub fn runs(&self) -> usize {
        self.extents[..self.ndims].iter().product()
    }

    /// Bytes copied in all.
    pub fn bytes(&self) -> usize {
        self.runs() * self.run_bytes
    }

    /// Part `index` of `parts` of nearly equal size; they cover the nest once. `None` when there is nothing for it.
    pub fn part(&self, index: usize, parts: usize) -> Option<LoopNest> {
        let share = |n: usize| (n * index / parts, n * (index + 1) / parts);
        let mut part = *self;
        // The outermost loop that gives everybody something; without loops, the run by cache lines.
        let Some(d) = (0..self.ndims).find(|&d| self.extents[d] >= parts).or_else(|| (self.ndims > 0).then_some(0))
        else {
            let (first, last) = share(self.run_bytes.div_ceil(64));
            let (first, last) = (first * 64, (last * 64).min(self.run_bytes));
            part.src_start += first as isize;
            part.dst_start += first as isize;
            part.run_bytes = last - first;
            return (first < last).then_some(part);
        };
        let (first, last) = share(self.extents[d]);
        part.src_start += self.src_strides[d] * first as isize;
        part.dst_start += self.dst_strides[d] * first as isize;
        part.extents[d] = last - first;
        part.drop_single_iterations();
        (first < last).then_some(part)
    }

    /// How to cut the nest into pieces of at most `most_bytes`, a multiple of 64 that holds any element.
    /// Where the two sides run along different dimensions a piece is a block of both, so that neither side
    /// touches a cache line once per piece.
    pub fn cut(&self, most_bytes: usize) -> Piece {
        let mut piece = Piece { extents: [1; MAX_DIMS], run_bytes: self.run_bytes.min(most_bytes) };
        if self.run_bytes > most_bytes {
            return piece;
        }
        let mut room = most_bytes / self.run_bytes;
        let mut grow = |d: usize, most: usize| {
            let more = (self.extents[d] / piece.extents[d]).min(room).min(most).max(1);
            // Never past the extent: a piece that does not divide it leaves a smaller last one.
            piece.extents[d] *= more;
            room /= more;
        };
        if let Some(source_fastest) = self.source_fastest().filter(|d| d + 1 != self.ndims) {
            const LINE_BYTES: usize = 64;
            let most = (4 * LINE_BYTES / self.run_bytes).max(1);
            grow(self.ndims - 1, most);
            grow(source_fastest, most);
        }
        for d in (0..self.ndims).rev() {
            grow(d, usize::MAX);
        }
        piece
    }

    /// The loop along which the source moves by the smallest step, if there is a loop.
    pub fn source_fastest(&self) -> Option<usize> {
        (0..self.ndims).rev().filter(|&d| self.src_strides[d] != 0).min_by_key(|&d| self.src_strides[d].unsigned_abs())
    }

    /// The number of pieces of a cut.
    pub fn piece_count(&self, piece: &Piece) -> usize {
        let loops: usize = (0..self.ndims).map(|d| self.extents[d].div_ceil(piece.extents[d])).product();
        loops * self.run_bytes.div_ceil(piece.run_bytes)
    }

    /// The piece with this index, from the source's place to the destination's.
    pub fn piece(&self, piece: &Piece, index: usize) -> LoopNest {
        let mut part = *self;
        let mut left = index;
        let runs = self.run_bytes.div_ceil(piece.run_bytes);
        let first_byte = (left % runs) * piece.run_bytes;
        left /= runs;
        part.run_bytes = piece.run_bytes.min(self.run_bytes - first_byte);
        part.src_start += first_byte as isize;
        part.dst_start += first_byte as isize;
        for d in (0..self.ndims).rev() {
            let count = self.extents[d].div_ceil(piece.extents[d]);
            let first = (left % count) * piece.extents[d];
            left /= count;
            part.extents[d] = piece.extents[d].min(self.extents[d] - first);
            part.src_start += self.src_strides[d] * first as isize;
            part.dst_start += self.dst_strides[d] * first as isize;
        }
        part.drop_single_iterations();
        part
    }

    /// The same walk of the source, written without gaps from the destination pointer on.
    pub fn pack(&self) -> LoopNest {
        let mut nest = LoopNest { dst_strides: self.packed_strides(), dst_start: 0, ..*self };
        nest.merge();
        nest
    }

    /// The same walk of the destination, read without gaps from the source pointer on.
    pub fn unpack(&self) -> LoopNest {
        let mut nest = LoopNest { src_strides: self.packed_strides(), src_start: 0, ..*self };
        nest.merge();
        nest
    }

    fn packed_strides(&self) -> [isize; MAX_DIMS] {
        let mut strides = [0; MAX_DIMS];
        let mut next = self.run_bytes;
        for d in (0..self.ndims).rev() {
            strides[d] = next as isize;
            next *= self.extents[d];
        }
        strides
    }

    /// Calls `visit(src, dst)` with the byte offsets of every run, in the order of the destination.
    pub fn for_each_run(&self, mut visit: impl FnMut(isize, isize)) {
        let mut index = [0usize; MAX_DIMS];
        let (mut src, mut dst) = (self.src_start, self.dst_start);
        loop {
            visit(src, dst);
            let mut d = self.ndims;
            loop {
                if d == 0 {
                    return;
                }
                d -= 1;
                index[d] += 1;
                // One step past the last run may leave what fits, before the step back.
                src = src.wrapping_add(self.src_strides[d]);
                dst = dst.wrapping_add(self.dst_strides[d]);
                if index[d] < self.extents[d] {
                    break;
                }
                src = src.wrapping_sub(self.src_strides[d].wrapping_mul(self.extents[d] as isize));
                dst = dst.wrapping_sub(self.dst_strides[d].wrapping_mul(self.extents[d] as isize));
                index[d] = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(lower: &[i64], upper: &[i64], strides: Option<&[i64]>, size: usize) -> Placement {
        Placement::output(IndexBox::new(lower, upper).unwrap(), strides, size).unwrap()
    }

    #[test]
    fn slabs_to_slabs_are_one_run_per_plane() {
        // 8 x 8 x 8 of 4 bytes: planes 0..4 to columns 4..8 of every plane.
        let source = place(&[0, 0, 0], &[4, 8, 8], None, 4);
        let target = place(&[0, 4, 0], &[8, 8, 8], None, 4);
        let common = source.index_box().intersect(target.index_box()).unwrap();
        let nest = LoopNest::between(&common, &source, &target);
        assert_eq!((nest.run_bytes, nest.ndims, nest.extents[0]), (4 * 8 * 4, 1, 4));
        assert_eq!((nest.src_strides[0], nest.dst_strides[0]), (256, 128));
        assert_eq!((nest.src_start, nest.dst_start), (128, 0));
    }

    #[test]
    fn equal_reversed_layouts_become_one_run() {
        let source = place(&[0, 0], &[3, 5], Some(&[-5, -1]), 2);
        let nest = LoopNest::between(source.index_box(), &source, &source);
        assert_eq!((nest.run_bytes, nest.ndims, nest.src_start), (30, 0, -28));
    }

    /// Offsets of every byte copied, in order.
    fn bytes(nest: &LoopNest) -> Vec<(isize, isize)> {
        let mut all = Vec::new();
        nest.for_each_run(|src, dst| all.extend((0..nest.run_bytes as isize).map(|b| (src + b, dst + b))));
        all
    }

    #[test]
    fn pieces_and_parts_cover_the_nest_once() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..500 {
            let ndims = random.usize(1..=4);
            let size = [1, 2, 3, 8, 12, 64][random.usize(0..6)];
            let lower = vec![0; ndims];
            let upper: Vec<i64> = (0..ndims).map(|_| random.i64(1..7)).collect();
            let mut strides = || {
                let mut order: Vec<usize> = (0..ndims).collect();
                random.shuffle(&mut order);
                let mut strides = vec![0; ndims];
                let mut next = 1;
                for d in order {
                    strides[d] = next * if random.bool() { 1 } else { -1 };
                    next *= upper[d] + random.i64(0..2);
                }
                strides
            };
            let (a, b) = (strides(), strides());
            let (source, target) = (place(&lower, &upper, Some(&a), size), place(&lower, &upper, Some(&b), size));
            let nest = LoopNest::between(source.index_box(), &source, &target);
            let mut whole = bytes(&nest);
            whole.sort_unstable();
            assert_eq!(whole.len(), source.bytes());

            let piece = nest.cut(64);
            let mut cut = Vec::new();
            for i in 0..nest.piece_count(&piece) {
                let part = nest.piece(&piece, i);
                assert!(part.bytes() <= 64);
                let (pack, unpack) = (bytes(&part.pack()), bytes(&part.unpack()));
                assert_eq!(pack.len(), part.bytes());
                for ((src, at), (from, dst)) in pack.iter().zip(&unpack) {
                    assert_eq!(at, from);
                    cut.push((*src, *dst));
                }
                assert!(pack.iter().enumerate().all(|(i, (_, at))| *at == i as isize));
            }
            cut.sort_unstable();
            assert_eq!(cut, whole);

            let parts = random.usize(1..5);
            let mut split: Vec<_> = (0..parts).filter_map(|i| nest.part(i, parts)).flat_map(|p| bytes(&p)).collect();
            split.sort_unstable();
            assert_eq!(split, whole);
        }
    }
}
