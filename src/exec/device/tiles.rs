//! Transfers cut into tiles, which a block moves one at a time, and packed tiles joined to pieces, which travel.

use crate::geometry::{LoopNest, Piece as Cut};

/// The most bytes of a tile: as many as fit a block's shared memory.
const TILE_BYTES: usize = 32 << 10;
/// Packed tiles begin at a multiple of the widest access.
const WIDEST_BYTES: usize = 16;
/// The most pieces between two ranks: as many as a slot has signals.
pub const MOST_PIECES: usize = 24;
/// Less is not worth a message of its own.
const LEAST_PIECE_BYTES: usize = 256 << 10;

/// How a nest is cut.
pub fn cut(nest: &LoopNest) -> Cut {
    nest.cut(TILE_BYTES)
}

/// One packed tile: of which nest of the list, which of its tiles, where it lies, and in which piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedTile {
    pub nest: usize,
    pub index: usize,
    pub offset: usize,
    pub piece: usize,
}

/// A piece: where it begins, its bytes, and the number of its tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub offset: usize,
    pub bytes: usize,
    pub tiles: usize,
}

/// All that travels from one rank to another, packed. Both ends have equal nests, and so come to the same.
#[derive(Debug)]
pub struct Packed {
    pub tiles: Vec<PackedTile>,
    pub pieces: Vec<Span>,
    pub bytes: usize,
}

/// Packs the tiles of these nests one after the other.
pub fn pack<'a>(nests: impl Iterator<Item = &'a LoopNest>) -> Packed {
    let mut packed = Packed { tiles: Vec::new(), pieces: Vec::new(), bytes: 0 };
    let mut ends = Vec::new();
    for (nest, copy) in nests.enumerate() {
        let cut = cut(copy);
        for index in 0..copy.piece_count(&cut) {
            let offset = packed.bytes.next_multiple_of(WIDEST_BYTES);
            packed.bytes = offset + copy.piece(&cut, index).bytes();
            packed.tiles.push(PackedTile { nest, index, offset, piece: 0 });
            ends.push(packed.bytes);
        }
    }
    // Each piece but the last has so many bytes at least, so there are not too many.
    let least = packed.bytes.div_ceil(MOST_PIECES).max(LEAST_PIECE_BYTES);
    let mut first = 0;
    for (at, &end) in ends.iter().enumerate() {
        packed.tiles[at].piece = packed.pieces.len();
        let offset = packed.tiles[first].offset;
        if end - offset >= least || at + 1 == ends.len() {
            packed.pieces.push(Span { offset, bytes: end - offset, tiles: at + 1 - first });
            first = at + 1;
        }
    }
    packed
}

/// Takes one item of each list in turn, until all are taken.
pub fn in_turn<T>(lists: Vec<Vec<T>>) -> Vec<T> {
    let mut lists: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
    let mut all = Vec::new();
    while !lists.is_empty() {
        lists.retain_mut(|list| {
            let next = list.next();
            let is_there = next.is_some();
            all.extend(next);
            is_there
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{IndexBox, Placement};

    fn nest(extent: i64) -> LoopNest {
        let place = Placement::output(IndexBox::new(&[0, 0], &[extent, 7]).unwrap(), None, 4).unwrap();
        let turned = Placement::output(IndexBox::new(&[0, 0], &[extent, 7]).unwrap(), Some(&[1, extent]), 4).unwrap();
        LoopNest::between(place.index_box(), &place, &turned)
    }

    #[test]
    fn pieces_hold_all_tiles_without_overlap() {
        for extents in [vec![1], vec![40_000, 3], vec![1_000_000]] {
            let nests: Vec<LoopNest> = extents.iter().map(|extent| nest(*extent)).collect();
            let packed = pack(nests.iter());
            let bytes: usize = nests.iter().map(LoopNest::bytes).sum();
            assert!(packed.bytes >= bytes && packed.bytes <= bytes + WIDEST_BYTES * packed.tiles.len());
            assert!(packed.pieces.len() <= MOST_PIECES);
            assert_eq!(packed.pieces.iter().map(|piece| piece.tiles).sum::<usize>(), packed.tiles.len());
            for tile in &packed.tiles {
                let piece = packed.pieces[tile.piece];
                let end = tile.offset + nests[tile.nest].piece(&cut(&nests[tile.nest]), tile.index).bytes();
                assert!(piece.offset <= tile.offset && end <= piece.offset + piece.bytes);
            }
            let ends = packed.pieces.windows(2).all(|pair| pair[0].offset + pair[0].bytes <= pair[1].offset);
            assert!(ends, "{:?}", packed.pieces);
        }
    }

    #[test]
    fn lists_are_taken_in_turn() {
        assert_eq!(in_turn(vec![vec![1, 4, 6], vec![], vec![2], vec![3, 5]]), [1, 2, 3, 4, 5, 6]);
        assert!(in_turn::<u8>(Vec::new()).is_empty());
    }
}
