//! Where the elements of a box lie in memory: strides, checked against overflow and self-overlap.

use super::{IndexBox, MAX_DIMS, MAX_ELEMENT_SIZE};
use std::ops::Range;

/// Strides in elements, one per dimension of a box; those of dimensions with extent 1 are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    strides: [i64; MAX_DIMS],
}

impl Layout {
    /// The strides; those past the number of dimensions are 0.
    pub fn strides(&self) -> &[i64; MAX_DIMS] {
        &self.strides
    }
}

/// A box and the layout of its elements: element `g` lies `sum of (g[d] - lower[d]) * strides[d]` elements
/// from the data pointer. Every byte offset inside it fits `isize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Placement {
    index_box: IndexBox,
    layout: Layout,
    element_size: usize,
}

impl Placement {
    /// An input: several elements may lie at one place (stride 0). No strides means packed, last dimension fastest.
    pub fn input(index_box: IndexBox, strides: Option<&[i64]>, element_size: usize) -> Result<Placement, String> {
        if element_size == 0 || element_size > MAX_ELEMENT_SIZE {
            return Err(format!("element_size is {element_size}, must be 1 to {MAX_ELEMENT_SIZE}"));
        }
        let size = element_size as i64;
        if index_box.volume().checked_mul(size).is_none() {
            return Err(format!("box {index_box} of {element_size}-byte elements overflows 64 bits"));
        }
        let strides = match strides {
            Some(given) if given.len() != index_box.ndims() => {
                return Err(format!("{} strides for {} dimensions", given.len(), index_box.ndims()));
            }
            Some(given) => significant(&index_box, given),
            None => packed(&index_box, (0..index_box.ndims()).rev()),
        };
        let mut reach = 1i64;
        for (d, stride) in strides.iter().enumerate().take(index_box.ndims()) {
            let step = stride.checked_abs().and_then(|s| s.checked_mul((index_box.extent(d) - 1).max(0)));
            reach = step.and_then(|s| reach.checked_add(s)).ok_or_else(|| {
                format!("strides[{d}] = {stride} times extent {} overflows 64 bits", index_box.extent(d))
            })?;
        }
        if reach.checked_mul(size).is_none() {
            return Err(format!("strides that span {reach} elements of {element_size} bytes overflow 64 bits"));
        }
        Ok(Placement { index_box, layout: Layout { strides }, element_size })
    }

    /// An output: as an input, but every element must have a place of its own.
    pub fn output(index_box: IndexBox, strides: Option<&[i64]>, element_size: usize) -> Result<Placement, String> {
        let placement = Placement::input(index_box, strides, element_size)?;
        match placement.places_are_distinct() {
            true => Ok(placement),
            false => Err(format!(
                "strides {:?} put several elements of box {index_box} at one place",
                &placement.layout.strides[..index_box.ndims()]
            )),
        }
    }

    /// The box.
    pub fn index_box(&self) -> &IndexBox {
        &self.index_box
    }

    /// The strides.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The size of one element in bytes.
    pub fn element_size(&self) -> usize {
        self.element_size
    }

    /// Bytes of the elements themselves, without padding.
    pub fn bytes(&self) -> usize {
        self.index_box.volume() as usize * self.element_size
    }

    /// The bytes that elements and the padding between them occupy, relative to the data pointer.
    pub fn byte_range(&self) -> Range<isize> {
        if self.index_box.is_empty() {
            return 0..0;
        }
        let (mut first, mut last) = (0i64, 0i64);
        for (d, stride) in self.layout.strides.iter().enumerate().take(self.index_box.ndims()) {
            let reach = stride * (self.index_box.extent(d) - 1);
            first += reach.min(0);
            last += reach.max(0);
        }
        let size = self.element_size as i64;
        (first * size) as isize..((last + 1) * size) as isize
    }

    /// The byte offset of the element at `point` from the data pointer.
    pub fn offset_bytes(&self, point: &[i64]) -> isize {
        let elements: i64 =
            (0..self.index_box.ndims()).map(|d| (point[d] - self.index_box.lower()[d]) * self.layout.strides[d]).sum();
        (elements * self.element_size as i64) as isize
    }

    /// The same box packed without padding, its dimensions in the same order from slowest to fastest.
    pub fn packed_alike(&self) -> Placement {
        let ndims = self.index_box.ndims();
        let mut order: [usize; MAX_DIMS] = std::array::from_fn(|d| d);
        // Stable, so that ties (extent 1, stride 0) keep the last dimension fastest.
        order[..ndims].reverse();
        order[..ndims].sort_by_key(|&d| self.layout.strides[d].unsigned_abs());
        let strides = packed(&self.index_box, order[..ndims].iter().copied());
        Placement { layout: Layout { strides }, ..*self }
    }

    /// Whether two placements at these addresses may have a byte in common. Exact for equal or nested grids of
    /// strides (interleaved fields are told apart); otherwise overlapping ranges count as overlap.
    pub fn may_overlap(&self, address: usize, other: &Placement, other_address: usize) -> bool {
        if self.index_box.is_empty() || other.index_box.is_empty() {
            return false;
        }
        let (a, b) = (self.byte_range(), other.byte_range());
        let distance = other_address as i128 - address as i128;
        if a.end as i128 <= distance + b.start as i128 || distance + b.end as i128 <= a.start as i128 {
            return false;
        }
        // All elements lie on multiples of the common divisor of all strides, shifted by the distance.
        let divisor = self.layout.strides.iter().chain(&other.layout.strides).fold(0, |g, s| gcd(g, s.unsigned_abs()));
        if divisor == 0 {
            return true;
        }
        let (size, other_size) = (self.element_size as i128, other.element_size as i128);
        let grid = divisor as i128 * size;
        let shift = distance.rem_euclid(grid);
        shift < size || grid - shift < other_size
    }

    fn places_are_distinct(&self) -> bool {
        let mut dims: Vec<(i64, i64)> = (0..self.index_box.ndims())
            .filter(|&d| self.index_box.extent(d) > 1)
            .map(|d| (self.layout.strides[d].abs(), self.index_box.extent(d)))
            .collect();
        if self.index_box.is_empty() {
            return true;
        }
        dims.sort_unstable_by(|a, b| b.cmp(a));
        let mut steps = 0;
        dims.iter().all(|&(stride, _)| stride > 0) && !has_collision(&dims, 0, true, &mut steps)
    }
}

/// Whether some `delta` with `|delta[d]| < extent[d]`, not all 0, solves `sum of delta[d] * stride[d] = target`.
/// `dims` holds (stride, extent) with the largest stride first. Nested strides are decided at once; entangled
/// ones by search, and a search that takes too long counts as a collision.
fn has_collision(dims: &[(i64, i64)], target: i64, all_zero: bool, steps: &mut u32) -> bool {
    const MOST_STEPS: u32 = 1_000_000;
    let Some((&(stride, extent), rest)) = dims.split_first() else {
        return target == 0 && !all_zero;
    };
    *steps += 1;
    if *steps > MOST_STEPS {
        return true;
    }
    let reach: i64 = rest.iter().map(|(s, e)| s * (e - 1)).sum();
    let least = (target - reach).div_euclid(stride).max(1 - extent);
    let most = (target + reach).div_euclid(stride).min(extent - 1);
    (least..=most).any(|delta| {
        let left = target - delta * stride;
        left.abs() <= reach && has_collision(rest, left, all_zero && delta == 0, steps)
    })
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The given strides, 0 where they do not matter.
fn significant(index_box: &IndexBox, given: &[i64]) -> [i64; MAX_DIMS] {
    let mut strides = [0; MAX_DIMS];
    if !index_box.is_empty() {
        for d in (0..index_box.ndims()).filter(|&d| index_box.extent(d) > 1) {
            strides[d] = given[d];
        }
    }
    strides
}

/// Strides without padding; `fastest_first` lists the dimensions. The volume is known to fit.
fn packed(index_box: &IndexBox, fastest_first: impl Iterator<Item = usize>) -> [i64; MAX_DIMS] {
    let mut strides = [0; MAX_DIMS];
    if !index_box.is_empty() {
        let mut next = 1;
        for d in fastest_first {
            if index_box.extent(d) > 1 {
                strides[d] = next;
                next *= index_box.extent(d);
            }
        }
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn boxed(extents: &[i64]) -> IndexBox {
        IndexBox::new(&vec![0; extents.len()], extents).unwrap()
    }

    #[test]
    fn packed_is_last_dimension_fastest() {
        let p = Placement::input(boxed(&[2, 3, 4]), None, 8).unwrap();
        assert_eq!(p.layout().strides()[..3], [12, 4, 1]);
        assert_eq!(p.byte_range(), 0..192);
        assert_eq!(p.offset_bytes(&[1, 2, 3]), 23 * 8);
    }

    #[test]
    fn packed_alike_keeps_the_order() {
        let p = Placement::input(boxed(&[2, 3, 4]), Some(&[1, 100, 10]), 8).unwrap();
        assert_eq!(p.packed_alike().layout().strides()[..3], [1, 8, 2]);
        let broadcast = Placement::input(boxed(&[2, 3]), Some(&[0, 0]), 8).unwrap();
        assert_eq!(broadcast.packed_alike().layout().strides()[..2], [3, 1]);
    }

    #[test]
    fn strides_of_extent_one_are_ignored() {
        let b = IndexBox::new(&[0, 4, 0], &[8, 8, 1]).unwrap();
        let p = Placement::output(b, Some(&[1, 8, 0]), 8).unwrap();
        assert_eq!(p.byte_range(), 0..32 * 8);
        let one = IndexBox::new(&[0], &[1]).unwrap();
        assert!(Placement::output(one, Some(&[i64::MIN]), 8).is_ok());
    }

    #[test]
    fn overflow_is_told() {
        assert!(Placement::input(boxed(&[1 << 40]), None, 1 << 16).is_ok());
        assert!(Placement::input(boxed(&[1 << 50]), None, 1 << 16).is_err());
        assert!(Placement::input(boxed(&[2]), Some(&[i64::MIN]), 1).is_err());
        assert!(Placement::input(boxed(&[3]), Some(&[i64::MAX / 2 + 1]), 1).is_err());
        assert!(Placement::input(boxed(&[2]), Some(&[1 << 60]), 16).is_err());
        assert!(Placement::input(boxed(&[1 << 40, 1 << 20]), Some(&[0, 0]), 16).is_err());
        for elements in [(1i64 << 31) - 1, 1 << 31, (1 << 31) + 1, 1 << 33] {
            let p = Placement::output(boxed(&[elements]), None, 1).unwrap();
            assert_eq!(p.bytes() as i64, elements);
            assert_eq!(p.byte_range(), 0..elements as isize);
        }
    }

    #[test]
    fn distinct_places_are_decided_exactly() {
        let mut random = fastrand::Rng::with_seed(11);
        for _ in 0..2000 {
            let ndims = random.usize(1..=3);
            let extents: Vec<i64> = (0..ndims).map(|_| random.i64(1..5)).collect();
            let strides: Vec<i64> = (0..ndims).map(|_| random.i64(-8..9)).collect();
            let index_box = boxed(&extents);
            let p = Placement::input(index_box, Some(&strides), 1).unwrap();
            let mut places = HashSet::new();
            let mut point = vec![0; ndims];
            let distinct = loop {
                if !places.insert(p.offset_bytes(&point)) {
                    break false;
                }
                let Some(d) = (0..ndims).rev().find(|&d| point[d] + 1 < extents[d]) else { break true };
                point[d] += 1;
                point[d + 1..].fill(0);
            };
            assert_eq!(p.places_are_distinct(), distinct, "extents {extents:?} strides {strides:?}");
        }
    }

    #[test]
    fn interleaved_fields_do_not_overlap() {
        let field = Placement::input(boxed(&[10]), Some(&[2]), 8).unwrap();
        assert!(!field.may_overlap(1000, &field, 1008));
        assert!(field.may_overlap(1000, &field, 1004));
        assert!(field.may_overlap(1000, &field, 1016));
        assert!(!field.may_overlap(1000, &field, 1152));
    }
}
