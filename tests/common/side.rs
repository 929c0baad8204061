//! A box in memory as the tests see it, with arithmetic of their own: nothing here trusts the library.

use boxwise::Request;
use boxwise::geometry::{IndexBox, Placement};

/// One side of a reshape on one rank: which elements, and where they lie relative to the data pointer.
#[derive(Clone, PartialEq, Eq)]
pub struct Side {
    /// First index in each dimension.
    pub lower: Vec<i64>,
    /// One past the last index in each dimension.
    pub upper: Vec<i64>,
    /// As given to the library; `None` means packed, last dimension fastest.
    pub strides: Option<Vec<i64>>,
}

impl Side {
    pub fn new(lower: &[i64], upper: &[i64], strides: Option<&[i64]>) -> Side {
        Side { lower: lower.to_vec(), upper: upper.to_vec(), strides: strides.map(<[i64]>::to_vec) }
    }

    /// `extents` elements from the origin, packed.
    pub fn packed(lower: &[i64], upper: &[i64]) -> Side {
        Side::new(lower, upper, None)
    }

    /// A box with its dimensions in memory from slowest to fastest as `order` says, packed.
    pub fn ordered(lower: &[i64], upper: &[i64], order: &[usize]) -> Side {
        let mut strides = vec![0; lower.len()];
        let mut next = 1;
        for &d in order.iter().rev() {
            strides[d] = next;
            next *= upper[d] - lower[d];
        }
        Side::new(lower, upper, Some(&strides))
    }

    pub fn ndims(&self) -> usize {
        self.lower.len()
    }

    pub fn extent(&self, d: usize) -> i64 {
        self.upper[d] - self.lower[d]
    }

    pub fn is_empty(&self) -> bool {
        (0..self.ndims()).any(|d| self.extent(d) == 0)
    }

    pub fn volume(&self) -> i64 {
        if self.is_empty() { 0 } else { (0..self.ndims()).map(|d| self.extent(d)).product() }
    }

    pub fn contains(&self, point: &[i64]) -> bool {
        (0..self.ndims()).all(|d| self.lower[d] <= point[d] && point[d] < self.upper[d])
    }

    /// The strides that hold: the given ones where an extent makes them matter.
    pub fn steps(&self) -> Vec<i64> {
        let mut steps = vec![0; self.ndims()];
        let mut next = 1;
        for d in (0..self.ndims()).rev().filter(|&d| !self.is_empty() && self.extent(d) > 1) {
            steps[d] = self.strides.as_ref().map_or(next, |strides| strides[d]);
            next *= self.extent(d);
        }
        steps
    }

    /// Visits every element with its place, in elements from the data pointer.
    pub fn for_each(&self, mut visit: impl FnMut(&[i64], i64)) {
        if self.is_empty() {
            return;
        }
        let steps = self.steps();
        let mut point = self.lower.clone();
        loop {
            visit(&point, (0..self.ndims()).map(|d| (point[d] - self.lower[d]) * steps[d]).sum());
            let Some(d) = (0..self.ndims()).rev().find(|&d| point[d] + 1 < self.upper[d]) else { return };
            point[d] += 1;
            point[d + 1..].copy_from_slice(&self.lower[d + 1..]);
        }
    }

    /// The place of one element, in elements from the data pointer.
    pub fn place(&self, point: &[i64]) -> i64 {
        self.steps().iter().enumerate().map(|(d, step)| (point[d] - self.lower[d]) * step).sum()
    }

    /// The least place and one past the greatest, in elements from the data pointer.
    pub fn reach(&self) -> (i64, i64) {
        if self.is_empty() {
            return (0, 0);
        }
        let ends = self.steps().iter().enumerate().map(|(d, step)| step * (self.extent(d) - 1)).collect::<Vec<_>>();
        (ends.iter().map(|&e| e.min(0)).sum(), ends.iter().map(|&e| e.max(0)).sum::<i64>() + 1)
    }

    /// Bytes from the first to the last place, padding included.
    pub fn span_bytes(&self, element_size: usize) -> usize {
        let (first, last) = self.reach();
        (last - first) as usize * element_size
    }

    fn index_box(&self) -> Result<IndexBox, String> {
        IndexBox::new(&self.lower, &self.upper)
    }

    pub fn as_input(&self, element_size: usize) -> Result<Placement, String> {
        Placement::input(self.index_box()?, self.strides.as_deref(), element_size)
    }

    pub fn as_output(&self, element_size: usize) -> Result<Placement, String> {
        Placement::output(self.index_box()?, self.strides.as_deref(), element_size)
    }
}

/// What the library is asked for; a fault becomes this rank's own bad argument, as the C layer has it.
pub fn request(input: &Side, output: &Side, element_size: usize) -> boxwise::Result<Request> {
    let input = input.as_input(element_size).map_err(boxwise::Error::invalid_argument)?;
    let output = output.as_output(element_size).map_err(boxwise::Error::invalid_argument)?;
    Request::new(input, output)
}

impl std::fmt::Debug for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}..{:?}", self.lower, self.upper)?;
        match &self.strides {
            Some(strides) => write!(f, " strides {strides:?}"),
            None => write!(f, " packed"),
        }
    }
}
