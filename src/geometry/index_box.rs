//! A box: the half-open set of indices `[lower, upper)` in up to eight dimensions.

use super::MAX_DIMS;
use std::fmt;

/// A half-open box `[lower, upper)` of the global index space; any origin, possibly empty.
///
/// Its extents and its number of elements fit `i64`, so no arithmetic inside it can overflow.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct IndexBox {
    ndims: usize,
    lower: [i64; MAX_DIMS],
    upper: [i64; MAX_DIMS],
}

impl IndexBox {
    /// A box of `lower.len()` dimensions (1 to [`MAX_DIMS`]), or what is wrong with it.
    pub fn new(lower: &[i64], upper: &[i64]) -> Result<IndexBox, String> {
        let ndims = lower.len();
        if ndims == 0 || ndims > MAX_DIMS {
            return Err(format!("ndims is {ndims}, must be 1 to {MAX_DIMS}"));
        }
        if upper.len() != ndims {
            return Err(format!("lower has {ndims} dimensions but upper has {}", upper.len()));
        }
        let mut empty = false;
        let mut volume = Some(1i64);
        for d in 0..ndims {
            if upper[d] < lower[d] {
                return Err(format!("upper[{d}] = {} is below lower[{d}] = {}", upper[d], lower[d]));
            }
            let Some(extent) = upper[d].checked_sub(lower[d]) else {
                return Err(format!("upper[{d}] - lower[{d}] = {} - {} overflows 64 bits", upper[d], lower[d]));
            };
            empty |= extent == 0;
            volume = volume.and_then(|v| v.checked_mul(extent));
        }
        if volume.is_none() && !empty {
            return Err("the number of elements overflows 64 bits".into());
        }
        let mut b = IndexBox { ndims, lower: [0; MAX_DIMS], upper: [0; MAX_DIMS] };
        b.lower[..ndims].copy_from_slice(lower);
        b.upper[..ndims].copy_from_slice(upper);
        Ok(b)
    }

    /// The number of dimensions.
    pub fn ndims(&self) -> usize {
        self.ndims
    }

    /// The first index in each dimension.
    pub fn lower(&self) -> &[i64] {
        &self.lower[..self.ndims]
    }

    /// One past the last index in each dimension.
    pub fn upper(&self) -> &[i64] {
        &self.upper[..self.ndims]
    }

    /// The number of indices in dimension `d`.
    pub fn extent(&self, d: usize) -> i64 {
        self.upper[d] - self.lower[d]
    }

    /// The extents of all dimensions; those past `ndims` are 1.
    pub fn extents(&self) -> [i64; MAX_DIMS] {
        std::array::from_fn(|d| if d < self.ndims { self.extent(d) } else { 1 })
    }

    /// Whether the box holds no element.
    pub fn is_empty(&self) -> bool {
        (0..self.ndims).any(|d| self.lower[d] == self.upper[d])
    }

    /// The number of elements.
    pub fn volume(&self) -> i64 {
        if self.is_empty() { 0 } else { (0..self.ndims).map(|d| self.extent(d)).product() }
    }

    /// The elements that both boxes hold, `None` when there are none. Both have the same number of dimensions.
    pub fn intersect(&self, other: &IndexBox) -> Option<IndexBox> {
        debug_assert_eq!(self.ndims, other.ndims);
        let mut common = *self;
        for d in 0..self.ndims {
            common.lower[d] = self.lower[d].max(other.lower[d]);
            common.upper[d] = self.upper[d].min(other.upper[d]);
            if common.lower[d] >= common.upper[d] {
                return None;
            }
        }
        Some(common)
    }

    /// Whether every element of `other` is in this box.
    pub fn contains(&self, other: &IndexBox) -> bool {
        other.is_empty() || self.intersect(other).as_ref() == Some(other)
    }

    /// Appends to `rest` disjoint boxes that hold exactly the elements of this box that are not in `hole`.
    pub fn subtract_into(&self, hole: &IndexBox, rest: &mut Vec<IndexBox>) {
        if self.is_empty() {
            return;
        }
        let Some(hole) = self.intersect(hole) else {
            rest.push(*self);
            return;
        };
        // Slice off what lies before and after the hole, one dimension at a time.
        let mut core = *self;
        for d in 0..self.ndims {
            if core.lower[d] < hole.lower[d] {
                let mut before = core;
                before.upper[d] = hole.lower[d];
                rest.push(before);
            }
            if hole.upper[d] < core.upper[d] {
                let mut after = core;
                after.lower[d] = hole.upper[d];
                rest.push(after);
            }
            core.lower[d] = hole.lower[d];
            core.upper[d] = hole.upper[d];
        }
    }
}

impl fmt::Display for IndexBox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for d in 0..self.ndims {
            let separator = if d == 0 { "" } else { " x " };
            write!(f, "{separator}[{}, {})", self.lower[d], self.upper[d])?;
        }
        Ok(())
    }
}

impl fmt::Debug for IndexBox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boxed(lower: &[i64], upper: &[i64]) -> IndexBox {
        IndexBox::new(lower, upper).unwrap()
    }

    #[test]
    fn rejects_what_cannot_be_a_box() {
        assert!(IndexBox::new(&[], &[]).is_err());
        assert!(IndexBox::new(&[0; 9], &[1; 9]).is_err());
        assert!(IndexBox::new(&[0, 5], &[1, 4]).unwrap_err().contains("upper[1] = 4"));
        assert!(IndexBox::new(&[i64::MIN], &[1]).unwrap_err().contains("overflows"));
        assert!(IndexBox::new(&[0, 0], &[1 << 32, 1 << 31]).unwrap_err().contains("overflows"));
        assert_eq!(boxed(&[0, 0, 0], &[i64::MAX, i64::MAX, 0]).volume(), 0);
    }

    #[test]
    fn volumes_are_exact_past_32_bits() {
        assert_eq!(boxed(&[0, 0, 0], &[2048, 1024, 1024]).volume(), 1 << 31);
        assert_eq!(boxed(&[-1], &[(1 << 33) - 1]).volume(), 1 << 33);
    }

    #[test]
    fn subtraction_leaves_every_other_element_once() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..300 {
            let ndims = random.usize(1..=3);
            let mut pick = || {
                let lower: Vec<i64> = (0..ndims).map(|_| random.i64(-3..3)).collect();
                let upper: Vec<i64> = lower.iter().map(|l| l + random.i64(0..4)).collect();
                boxed(&lower, &upper)
            };
            let (a, b) = (pick(), pick());
            let mut rest = Vec::new();
            a.subtract_into(&b, &mut rest);
            let common = a.intersect(&b).map_or(0, |c| c.volume());
            assert_eq!(rest.iter().map(IndexBox::volume).sum::<i64>(), a.volume() - common);
            for (i, r) in rest.iter().enumerate() {
                assert!(a.contains(r) && r.intersect(&b).is_none());
                assert!(rest[..i].iter().all(|s| s.intersect(r).is_none()));
            }
        }
    }
}
