//! A ring of pieces in shared memory, from one sender to one receiver, small enough to stay in the cache.

use super::sync::{AtomicU32, Ordering};

/// The most bytes of one piece: what stays in the cache, and less for many ranks, which have a ring for each pair.
pub fn piece_bytes(size: usize) -> usize {
    ((512 << 10) / size.next_power_of_two()).clamp(8 << 10, 64 << 10)
}

/// Pieces that can be under way.
const PIECES: u32 = 4;

/// Bytes of a ring with pieces of so many bytes.
pub fn ring_bytes(piece_bytes: usize) -> usize {
    size_of::<Counters>() + PIECES as usize * piece_bytes
}

/// Each end writes a line of its own. Both counters wrap.
#[repr(C, align(4096))]
struct Counters {
    produced: Line,
    consumed: Line,
}

#[repr(C, align(128))]
struct Line(AtomicU32);

/// A ring as both ends see it.
#[derive(Clone, Copy)]
pub struct Ring<'a> {
    counters: &'a Counters,
    pieces: *mut u8,
    piece_bytes: usize,
}

impl<'a> Ring<'a> {
    /// The ring at this address.
    ///
    /// # Safety
    /// [`ring_bytes`] bytes there, aligned to 4096, are a ring for as long as `'a`.
    pub unsafe fn at(base: *mut u8, piece_bytes: usize) -> Ring<'a> {
        // SAFETY: the caller vouches for the memory.
        unsafe { Ring { counters: &*base.cast(), pieces: base.add(size_of::<Counters>()), piece_bytes } }
    }

    fn piece(&self, number: u32) -> *mut u8 {
        self.pieces.wrapping_add((number % PIECES) as usize * self.piece_bytes)
    }

    /// Sender: where to put the next piece, if there is room.
    pub fn room(&self) -> Option<*mut u8> {
        let produced = self.counters.produced.0.load(Ordering::Relaxed);
        let under_way = produced.wrapping_sub(self.counters.consumed.0.load(Ordering::Acquire));
        (under_way < PIECES).then(|| self.piece(produced))
    }

    /// Sender: the piece is there.
    pub fn push(&self) {
        let produced = self.counters.produced.0.load(Ordering::Relaxed);
        self.counters.produced.0.store(produced.wrapping_add(1), Ordering::Release);
    }

    /// Receiver: the oldest piece, if there is one.
    pub fn front(&self) -> Option<*const u8> {
        let consumed = self.counters.consumed.0.load(Ordering::Relaxed);
        (self.counters.produced.0.load(Ordering::Acquire) != consumed).then(|| self.piece(consumed).cast_const())
    }

    /// Receiver: the piece has been read.
    pub fn pop(&self) {
        let consumed = self.counters.consumed.0.load(Ordering::Relaxed);
        self.counters.consumed.0.store(consumed.wrapping_add(1), Ordering::Release);
    }
}
