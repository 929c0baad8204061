//! All copies from one rank to another: their kernels, and the pieces into which both ends cut them alike.

use crate::copy::Kernel;
use crate::geometry::{LoopNest, Piece};
use crate::plan::Transfer;

/// Where the kernel's cross-memory copy beats a ring: long runs, each of which costs it a look-up, of a transfer that
/// stays in the cache; beyond that the ring's streaming stores win (measured: 1.3 times faster at 1 MiB in runs of
/// 32 KiB, .85 times at 64 MiB in runs of 512 KiB).
const CROSS_MEMORY_RUN_BYTES: usize = 4 << 10;
const CROSS_MEMORY_MOST_BYTES: usize = 8 << 20;

/// All copies of one direction.
#[derive(Debug)]
pub struct Direction {
    pub moves: Vec<Move>,
    /// Whether cross-memory attach, where it works, is faster than a ring. Both ends see the same nests.
    pub suits_cross_memory: bool,
}

/// One copy, whole or in pieces.
#[derive(Debug)]
pub struct Move {
    pub kernel: Kernel,
    piece: Piece,
    pieces: usize,
}

/// The piece that comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    next_move: usize,
    next_piece: usize,
}

impl Direction {
    /// The copies of these transfers, in pieces of at most `piece_bytes`.
    pub fn new(transfers: &[Transfer], piece_bytes: usize, kernel: impl Fn(&LoopNest) -> Kernel) -> Direction {
        let moves = transfers.iter().map(|transfer| {
            let piece = transfer.nest.cut(piece_bytes);
            Move { kernel: kernel(&transfer.nest), piece, pieces: transfer.nest.piece_count(&piece) }
        });
        let (bytes, runs) =
            transfers.iter().fold((0, 0), |(bytes, runs), t| (bytes + t.nest.bytes(), runs + t.nest.runs()));
        let long_runs = runs > 0 && bytes / runs >= CROSS_MEMORY_RUN_BYTES;
        Direction { moves: moves.collect(), suits_cross_memory: long_runs && bytes <= CROSS_MEMORY_MOST_BYTES }
    }

    /// Where to begin, if there is anything to copy.
    pub fn first(&self) -> Option<Cursor> {
        (!self.moves.is_empty()).then(Cursor::default)
    }

    /// The piece.
    pub fn piece(&self, cursor: Cursor) -> LoopNest {
        let step = &self.moves[cursor.next_move];
        step.kernel.nest().piece(&step.piece, cursor.next_piece)
    }

    /// What comes after it, if anything does.
    pub fn after(&self, cursor: Cursor) -> Option<Cursor> {
        let Cursor { next_move, next_piece } = cursor;
        if next_piece + 1 < self.moves[next_move].pieces {
            Some(Cursor { next_move, next_piece: next_piece + 1 })
        } else if next_move + 1 < self.moves.len() {
            Some(Cursor { next_move: next_move + 1, next_piece: 0 })
        } else {
            None
        }
    }

    /// The number of pieces, and the bytes of the largest.
    pub fn load(&self) -> (usize, usize) {
        let first = |step: &Move| step.kernel.nest().piece(&step.piece, 0).bytes();
        (self.moves.iter().map(|step| step.pieces).sum(), self.moves.iter().map(first).max().unwrap_or(0))
    }
}
