//! The control segment of a communicator: who the members are, what they exchange, and whether it still works.

use super::bell::Bell;
use super::memory::Mapping;
use super::sync::{AtomicU32, AtomicU64, Ordering};
use crate::error::{Error, Status};

/// The most bytes a rank contributes to one exchange.
pub const EXCHANGE_BYTES: usize = 1024;

/// At the start of the segment.
#[repr(C, align(64))]
struct Header {
    /// 0, or why the communicator is out of use.
    broken: AtomicU64,
}

/// One rank's part; it alone writes all but the bell.
#[repr(C, align(128))]
pub struct Member {
    /// The number of the last exchange whose contribution is there; with ranks on other nodes, that is finished.
    pub arrived: AtomicU32,
    /// 1 when the rank has given up its communicator.
    pub left: AtomicU32,
    /// Its process.
    pub pid: AtomicU32,
    /// Where its probe word lies.
    pub probe_address: AtomicU64,
    /// Where it sleeps.
    pub bell: Bell,
    /// What it contributes: exchanges take turns, so that a fast rank does not overwrite what a slow one reads.
    contributions: [Contribution; 2],
}

#[repr(C)]
struct Contribution {
    /// Which call it belongs to.
    call: AtomicU32,
    words: [AtomicU64; EXCHANGE_BYTES / 8],
}

/// The collective calls, so that ranks which are in different ones are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Forming the communicator.
    Form,
    /// A barrier.
    Barrier,
    /// Allocating shared memory.
    Malloc,
    /// Making a reshape.
    Make,
}

/// Why a communicator is out of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// That rank's process ended.
    Died,
    /// That rank destroyed its communicator while others still waited for it.
    Left,
    /// That rank waited longer than it wanted to, last for this one.
    TimedOut(usize),
    /// That rank could not do its part.
    Failed,
}

impl Cause {
    /// As one word that is not 0: kind, other rank, rank, from the top.
    fn pack(self, rank: usize) -> u64 {
        let (kind, other) = match self {
            Cause::Died => (1, 0),
            Cause::Left => (2, 0),
            Cause::TimedOut(other) => (3, other),
            Cause::Failed => (4, 0),
        };
        kind << 60 | (other as u64) << 30 | rank as u64
    }

    /// What [`Cause::pack`] packed, if it is that.
    pub fn unpack(word: u64) -> Option<(Cause, usize)> {
        let [other, rank] = [word >> 30, word].map(|bits| bits as usize & ((1 << 30) - 1));
        let cause = match word >> 60 {
            1 => Cause::Died,
            2 => Cause::Left,
            3 => Cause::TimedOut(other),
            4 => Cause::Failed,
            _ => return None,
        };
        Some((cause, rank))
    }
}

/// A rank's view of the control segment.
#[derive(Debug)]
pub struct Control {
    mapping: Mapping,
    size: usize,
}

impl Control {
    /// Bytes of the segment for so many ranks.
    pub fn bytes(size: usize) -> usize {
        size_of::<Header>().next_multiple_of(align_of::<Member>()) + size * size_of::<Member>()
    }

    /// The view of a mapping of that many bytes, zeroed when it was created.
    pub fn new(mapping: Mapping, size: usize) -> Control {
        assert!(mapping.bytes() >= Control::bytes(size), "a control segment for {size} ranks");
        Control { mapping, size }
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping begins with the header, which is made of atomics and valid when zeroed.
        unsafe { &*self.mapping.base().cast::<Header>() }
    }

    /// The part of a rank.
    pub fn member(&self, rank: usize) -> &Member {
        assert!(rank < self.size, "rank {rank} of {}", self.size);
        let first = size_of::<Header>().next_multiple_of(align_of::<Member>());
        // SAFETY: `new` checked that the mapping holds `size` members, which are made of atomics.
        unsafe { &*self.mapping.base().add(first).cast::<Member>().add(rank) }
    }

    /// All parts, by rank.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        (0..self.size).map(|rank| self.member(rank))
    }

    /// Puts the communicator out of use; the first cause stays.
    pub fn break_off(&self, cause: Cause, rank: usize) {
        let word = cause.pack(rank);
        let _ = self.header().broken.compare_exchange(0, word, Ordering::AcqRel, Ordering::Acquire);
    }

    /// The word that says why the communicator is out of use; 0 while it is not.
    pub fn cause(&self) -> u64 {
        self.header().broken.load(Ordering::Acquire)
    }

    /// Why the communicator is out of use, if it is.
    pub fn broken(&self) -> Option<Error> {
        let (cause, rank) = Cause::unpack(self.cause())?;
        let what = match cause {
            Cause::Died => format!("the process of rank {rank} has ended"),
            Cause::Left => format!("rank {rank} has destroyed its communicator, or the last handle made on it"),
            Cause::TimedOut(other) => format!("rank {rank} gave up, after its timeout, to wait for rank {other}"),
            Cause::Failed => format!("rank {rank} could not do its part"),
        };
        Some(Error::new(
            Status::PeerLost,
            format!("{what}; the communicator is out of use, destroy it and what was made on it"),
        ))
    }
}

impl Member {
    /// Owner: puts a contribution there, then announces it.
    pub fn contribute(&self, exchange: u32, call: Call, bytes: &[u8]) {
        let contribution = &self.contributions[exchange as usize & 1];
        contribution.call.store(call as u32, Ordering::Relaxed);
        for (word, chunk) in contribution.words.iter().zip(bytes.chunks(8)) {
            let mut padded = [0; 8];
            padded[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_ne_bytes(padded), Ordering::Relaxed);
        }
        self.arrived.store(exchange, Ordering::Release);
    }

    /// Owner: has all that the exchange brings.
    pub fn finish(&self, exchange: u32) {
        self.arrived.store(exchange, Ordering::Release);
    }

    /// Whether the contribution to that exchange is there, or with ranks on other nodes all of it.
    pub fn has_arrived(&self, exchange: u32) -> bool {
        self.arrived.load(Ordering::Acquire).wrapping_sub(exchange) as i32 >= 0
    }

    /// The call that the contribution belongs to, once it is there.
    pub fn call(&self, exchange: u32) -> u32 {
        self.contributions[exchange as usize & 1].call.load(Ordering::Relaxed)
    }

    /// The contribution, once it is there.
    pub fn contribution(&self, exchange: u32, bytes: &mut [u8]) {
        let words = &self.contributions[exchange as usize & 1].words;
        for (word, chunk) in words.iter().zip(bytes.chunks_mut(8)) {
            chunk.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes()[..chunk.len()]);
        }
    }
}
