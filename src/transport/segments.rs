//! The shared heap: memory that every rank of a node maps, each owning a part of it.

use super::communicator::{Collective, Communicator, Inner};
use super::control::Call;
use super::memory::{HUGE_PAGE_BYTES, Mapping, PAGE_BYTES, available_bytes};
use super::slot::Reach;
use crate::error::{Error, Result, Status, VERDICT_BYTES, agree, encode_verdict};
use std::ops::Range;
use std::sync::{PoisonError, RwLock};

/// The segments of a communicator that this rank has mapped.
#[derive(Debug, Default)]
pub struct Segments(RwLock<Table>);

#[derive(Debug, Default)]
struct Table {
    /// How many have been allocated: the number of the last one, which all ranks count alike. 0 is none.
    last: u64,
    segments: Vec<Segment>,
}

#[derive(Debug)]
struct Segment {
    number: u64,
    mapping: Mapping,
    /// The address at which this rank's part begins.
    own: usize,
}

impl Segments {
    /// How peers reach these bytes: through a segment that holds all of them, else at this address.
    pub fn reach(&self, bytes: Range<usize>, address: usize) -> Reach {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let within = |segment: &&Segment| {
            let base = segment.mapping.base() as usize;
            base <= bytes.start && bytes.end <= base + segment.mapping.bytes()
        };
        match table.segments.iter().find(within) {
            Some(segment) => {
                Reach { segment: segment.number, address: address.wrapping_sub(segment.mapping.base() as usize) as u64 }
            }
            None => Reach { segment: 0, address: address as u64 },
        }
    }

    /// Where this rank has the place that a peer's reach into a segment means.
    pub fn place(&self, reach: Reach) -> Option<*mut u8> {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let segment = table.segments.iter().find(|segment| segment.number == reach.segment)?;
        Some(segment.mapping.base().wrapping_add(reach.address as usize))
    }
}

impl Communicator {
    /// Memory of this rank that all ranks of its node reach directly. Collective; `bytes` may differ by
    /// rank and be 0. With `Err`, this rank's arguments are faulty: it takes part, and all ranks return the fault.
    pub fn malloc(&self, bytes: Result<usize>) -> Result<*mut u8> {
        let Inner { node, segments, .. } = &*self.0;
        let mut collective = self.0.collective(Call::Malloc, None);
        let everybodys = exchange_wishes(&mut collective, bytes)?;
        let wishes: Vec<u64> = node.ranks.iter().map(|&rank| everybodys[rank]).collect();
        // Whether it fits is the same question on all ranks of a node, but not on all nodes.
        let parts = lay_out(&wishes);
        let enough = parts.clone().and_then(|parts| enough_for(parts.last().map_or(0, |part| part.end)));
        let shared = collective.share(c"boxwise-memory", enough).and_then(|mapping| {
            let start = parts?[node.member].start;
            mapping.populate(start, wishes[node.member] as usize)?;
            Ok((mapping, start))
        });
        let verdict = shared.as_ref().map(drop).map_err(Error::clone);
        agree(&collective.exchange(&encode_verdict(&verdict))?)?;
        let (mapping, start) = shared?;
        let own = mapping.base().wrapping_add(start);
        let mut table = segments.0.write().unwrap_or_else(PoisonError::into_inner);
        table.last += 1;
        let number = table.last;
        table.segments.push(Segment { number, mapping, own: own.addr() });
        Ok(own)
    }

    /// Gives back what [`Communicator::malloc`] returned on this rank. Every rank must do so; none waits.
    pub fn free(&self, pointer: *mut u8) -> Result<()> {
        if pointer.is_null() {
            return Ok(());
        }
        let mut table = self.0.segments.0.write().unwrap_or_else(PoisonError::into_inner);
        let found = table.segments.iter().position(|segment| segment.own == pointer.addr());
        let index = found.ok_or_else(|| {
            Error::invalid_argument(format!("pointer {pointer:p} was not allocated on this communicator, or is free"))
        })?;
        table.segments.swap_remove(index);
        Ok(())
    }

    /// As [`Communicator::malloc`], owned: given back when dropped.
    pub fn allocate(&self, bytes: usize) -> Result<SharedBuffer> {
        let pointer = self.malloc(Ok(bytes))?;
        Ok(SharedBuffer { communicator: self.clone(), pointer, bytes })
    }
}

/// Where each rank's part lies: on huge pages where it is that long, and never empty, so that each has an address.
fn lay_out(wishes: &[u64]) -> Result<Vec<Range<usize>>> {
    let mut end = 0usize;
    let part = |wish: &u64| {
        let unit = if *wish >= HUGE_PAGE_BYTES as u64 { HUGE_PAGE_BYTES } else { PAGE_BYTES };
        let start = end.checked_next_multiple_of(unit);
        let length = usize::try_from(*wish).ok().and_then(|wish| wish.max(1).checked_next_multiple_of(PAGE_BYTES));
        match start.zip(length).and_then(|(start, length)| Some(start..start.checked_add(length)?)) {
            Some(part) if part.end <= isize::MAX as usize => {
                end = part.end;
                Ok(part)
            }
            _ => Err(Error::new(Status::OutOfMemory, format!("{wish} bytes for one rank are more than memory can be"))),
        }
    };
    wishes.iter().map(part).collect()
}

/// Whether the machine has that much memory left: a shared page that cannot be had ends the process that touches it.
fn enough_for(bytes: usize) -> Result<usize> {
    match available_bytes() {
        Some(available) if bytes as u64 > available => Err(Error::new(
            Status::OutOfMemory,
            format!("{bytes} bytes for all ranks together, of which {available} are available"),
        )),
        _ => Ok(bytes),
    }
}

/// Everybody's wishes, or the fault of the lowest rank that has one.
fn exchange_wishes(collective: &mut Collective<'_>, own: Result<usize>) -> Result<Vec<u64>> {
    const NUMBER_BYTES: usize = size_of::<u64>();
    let mut mine = [0; NUMBER_BYTES + VERDICT_BYTES];
    mine[..NUMBER_BYTES].copy_from_slice(&own.as_ref().map_or(0, |bytes| *bytes as u64).to_ne_bytes());
    mine[NUMBER_BYTES..].copy_from_slice(&encode_verdict(&own.map(drop)));
    let all = collective.exchange(&mine)?;
    let (numbers, verdicts): (Vec<_>, Vec<_>) =
        all.chunks(mine.len()).map(|message| message.split_at(NUMBER_BYTES)).unzip();
    agree(&verdicts.concat())?;
    Ok(numbers.iter().map(|bytes| u64::from_ne_bytes((*bytes).try_into().expect("eight bytes"))).collect())
}

/// Memory of this rank that the other ranks of its node reach directly.
#[derive(Debug)]
pub struct SharedBuffer {
    communicator: Communicator,
    pointer: *mut u8,
    bytes: usize,
}

// SAFETY: the memory belongs to this value alone, as that of a `Vec` does.
unsafe impl Send for SharedBuffer {}
// SAFETY: as above.
unsafe impl Sync for SharedBuffer {}

impl SharedBuffer {
    /// The first byte.
    pub fn as_ptr(&self) -> *const u8 {
        self.pointer
    }

    /// The first byte, to write.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.pointer
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

impl Drop for SharedBuffer {
    fn drop(&mut self) {
        let freed = self.communicator.free(self.pointer);
        debug_assert!(freed.is_ok(), "a buffer is freed once: {freed:?}");
    }
}
