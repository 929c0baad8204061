//! What the ranks of one made plan share: a slot and a bell for each, and a ring for each ordered pair.

use super::bell::Bell;
use super::memory::Mapping;
use super::ring::{Ring, piece_bytes, ring_bytes};
use super::slot::Slot;

/// A rank's line to its peers in one plan.
#[repr(C, align(128))]
struct Place {
    slot: Slot,
    bell: Bell,
}

/// A rank's view of a plan's segment.
#[derive(Debug)]
pub struct PlanSegment {
    mapping: Mapping,
    size: usize,
}

impl PlanSegment {
    /// Bytes of the segment for so many ranks. The rings take memory only once they are used.
    pub fn bytes(size: usize) -> Option<usize> {
        size.checked_mul(size)?.checked_mul(ring_bytes(piece_bytes(size)))?.checked_add(PlanSegment::rings_start(size))
    }

    /// The view of a mapping of that many bytes, zeroed when it was created.
    pub fn new(mapping: Mapping, size: usize) -> PlanSegment {
        assert!(PlanSegment::bytes(size).is_some_and(|bytes| mapping.bytes() >= bytes), "a segment for {size} ranks");
        PlanSegment { mapping, size }
    }

    fn rings_start(size: usize) -> usize {
        (size * size_of::<Place>()).next_multiple_of(super::memory::PAGE_BYTES)
    }

    fn place(&self, rank: usize) -> &Place {
        assert!(rank < self.size, "rank {rank} of {}", self.size);
        // SAFETY: `new` checked that the mapping begins with `size` places, which are made of atomics.
        unsafe { &*self.mapping.base().cast::<Place>().add(rank) }
    }

    /// The slot of a rank.
    pub fn slot(&self, rank: usize) -> &Slot {
        &self.place(rank).slot
    }

    /// The bell of a rank.
    pub fn bell(&self, rank: usize) -> &Bell {
        &self.place(rank).bell
    }

    /// The most bytes of a piece of a ring.
    pub fn piece_bytes(&self) -> usize {
        piece_bytes(self.size)
    }

    /// The ring from one rank to another.
    pub fn ring(&self, sender: usize, receiver: usize) -> Ring<'_> {
        assert!(sender < self.size && receiver < self.size, "ranks {sender} and {receiver} of {}", self.size);
        let piece_bytes = self.piece_bytes();
        let start = PlanSegment::rings_start(self.size) + (receiver * self.size + sender) * ring_bytes(piece_bytes);
        // SAFETY: `new` checked that the mapping holds `size * size` rings after the places; zeroed bytes are a ring.
        unsafe { Ring::at(self.mapping.base().add(start), piece_bytes) }
    }
}
