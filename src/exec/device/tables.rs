//! What the kernels read, as one image in device memory: the structs of `kernels/tables.cuh`, and how they are filled from a
//! schedule.

use super::tiles::{cut, in_turn};
use super::workspace::{Lane, Layout};
use crate::error::{Error, Result, Status};
use crate::geometry::{LoopNest, MAX_DIMS};
use crate::plan::{ExitSync, Schedule};
use bytemuck::{Pod, Zeroable, bytes_of, cast_slice};
use std::mem::offset_of;

/// Bytes of the slot of one rank in the memory of another.
pub const SLOT_BYTES: usize = 256;
const BLOCK_THREADS: u32 = 256;
/// Of the block that signals: one thread for each peer, as far as that goes.
const SIGNAL_THREADS: u32 = 128;
/// Of a block that moves tiles.
const SHARED_BYTES: u32 = 44 << 10;
const NO_PIECE: u32 = u32::MAX;

/// Where a copy begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Side {
    Input,
    Output,
    Workspace,
    Peer,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Copy {
    src_start: i64,
    dst_start: i64,
    src_strides: [i64; MAX_DIMS],
    dst_strides: [i64; MAX_DIMS],
    extents: [u64; MAX_DIMS],
    tile_extents: [u64; MAX_DIMS],
    run_bytes: u64,
    tile_run_bytes: u64,
    ndims: u32,
    source_fastest: u32,
    source: u32,
    target: u32,
    peer: u32,
    unused: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Tile {
    copy: u32,
    index: u32,
    piece: u32,
    unused: u32,
    packed: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Piece {
    peer: u32,
    index: u32,
    tiles: u32,
    packed_tiles: u32,
    source: u64,
    target: u64,
    bytes: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Peer {
    heap: u64,
    own_slot: u64,
    its_slot: u64,
    staging: u64,
    pe: i32,
    rank: u32,
    sends: u32,
    receives: u32,
    absent: u32,
    unused: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Plan {
    operation: u64,
    failure: u64,
    broken: u64,
    heap: u64,
    peers: u64,
    copies: u64,
    stage_tiles: u64,
    move_tiles: u64,
    unpack_tiles: u64,
    pieces_out: u64,
    pieces_in: u64,
    everyone: u64,
    abort: u64,
    report: u64,
    timeout_ns: u64,
    peer_count: u32,
    stage_count: u32,
    move_count: u32,
    unpack_count: u32,
    piece_in_count: u32,
    everyone_count: u32,
    rank: u32,
    puts: u32,
}

/// What the kernels are given beside the tables: addresses of the buffers, and the fault of this rank.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Operands {
    pub input: u64,
    pub output: u64,
    pub workspace: u64,
    pub fault: u32,
    pub unused: u32,
}

const _: () = {
    assert!(size_of::<Copy>() == 312 && size_of::<Tile>() == 24 && size_of::<Piece>() == 40);
    assert!(size_of::<Peer>() == 56 && size_of::<Plan>() == 152 && size_of::<Operands>() == 32);
};

/// Where things lie that only make can find out.
#[derive(Debug)]
pub struct Places {
    pub rank: usize,
    /// The start of this rank's symmetric heap.
    pub heap: u64,
    /// The address of its slots.
    pub own_slots: u64,
    /// Every rank of the plan.
    pub ranks: Vec<RankPlace>,
    /// Device addresses of words of the host: why to stop, and how operations ended.
    pub abort: u64,
    pub report: u64,
    pub timeout_ns: u64,
}

/// Where one rank is.
#[derive(Clone, Copy, Debug)]
pub struct RankPlace {
    pub pe: i32,
    /// Its heap as mapped here; `None`: NVSHMEM alone reaches it.
    pub heap: Option<u64>,
    /// Its slots, in bytes from the start of its heap.
    pub slots: u64,
}

/// The kernels, in the order in which the transport loads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    Stage,
    Enter,
    Move,
    Unpack,
    Leave,
}

/// How large a grid is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    One,
    /// As many as the device runs at once, but not more than there are tiles.
    AtMost(u32),
}

/// One launch of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    pub kernel: Kernel,
    pub blocks: Blocks,
    pub threads: u32,
    pub shared_bytes: u32,
}

/// The tables of one rank's plan.
#[derive(Debug)]
pub struct Tables {
    plan: Plan,
    /// All but the plan; its pointers count from the start of the plan.
    rest: Vec<u8>,
}

impl Tables {
    /// The tables of a schedule whose workspace was laid out.
    pub fn build(schedule: &Schedule, layout: &Layout, places: &Places) -> Result<Tables> {
        let mut writer = Writer {
            copies: Vec::new(),
            source: match schedule.options.in_place {
                true => Side::Workspace,
                false => Side::Input,
            },
        };
        let stage_tiles = schedule.staging.iter().flat_map(|nest| writer.copy(nest, Side::Input, Side::Workspace, 0));
        let stage_tiles: Vec<Tile> = stage_tiles.collect();

        let (mut pieces_out, mut pieces_in) = (Vec::new(), Vec::new());
        let mut packing = Vec::new();
        for lane in &layout.outgoing {
            let nests = schedule.peers[lane.peer].send.iter().map(|transfer| &transfer.nest);
            packing.push(writer.packed(lane, nests, Side::Workspace, &mut pieces_out));
        }
        let mut unpacking = Vec::new();
        for lane in &layout.incoming {
            let nests = schedule.peers[lane.peer].receive.iter().map(|transfer| &transfer.nest);
            unpacking.push(writer.packed(lane, nests, Side::Output, &mut pieces_in));
        }
        let is_packed = |peer: usize| layout.outgoing.iter().any(|lane| lane.peer == peer);
        let mut direct = Vec::new();
        for (peer, transfers) in schedule.peers.iter().enumerate().filter(|(peer, _)| !is_packed(*peer)) {
            let source = writer.source;
            let copy = |nest| writer.copy(nest, source, Side::Peer, peer as u32);
            direct.push(transfers.send.iter().map(|transfer| &transfer.nest).flat_map(copy).collect());
        }
        let source = writer.source;
        let kept = schedule.keep.iter().flat_map(|transfer| writer.copy(&transfer.nest, source, Side::Output, 0));
        let kept: Vec<Tile> = kept.collect();
        // First what takes long on its way, last what goes nowhere.
        let move_tiles = [in_turn(packing), in_turn(direct), kept].concat();
        let unpack_tiles = in_turn(unpacking);

        let peers: Vec<Peer> = (0..schedule.peers.len()).map(|peer| peer_of(schedule, layout, places, peer)).collect();
        let everyone: Vec<Peer> = match schedule.options.exit_sync {
            ExitSync::Everyone => {
                (0..schedule.size).filter(|rank| *rank != places.rank).map(|rank| places.peer(rank)).collect()
            }
            _ => Vec::new(),
        };
        let mut tables = Tables { plan: Plan::zeroed(), rest: Vec::new() };
        tables.plan = Plan {
            heap: places.heap,
            peers: tables.add(&peers),
            copies: tables.add(&writer.copies),
            stage_tiles: tables.add(&stage_tiles),
            move_tiles: tables.add(&move_tiles),
            unpack_tiles: tables.add(&unpack_tiles),
            pieces_out: tables.add(&pieces_out),
            pieces_in: tables.add(&pieces_in),
            everyone: tables.add(&everyone),
            abort: places.abort,
            report: places.report,
            timeout_ns: places.timeout_ns,
            peer_count: count(peers.len())?,
            stage_count: count(stage_tiles.len())?,
            move_count: count(move_tiles.len())?,
            unpack_count: count(unpack_tiles.len())?,
            piece_in_count: count(pieces_in.len())?,
            everyone_count: count(everyone.len())?,
            rank: places.rank as u32,
            puts: !pieces_out.is_empty() as u32,
            ..Plan::zeroed()
        };
        Ok(tables)
    }

    /// Adds a table, and returns where.
    fn add<T: Pod>(&mut self, table: &[T]) -> u64 {
        let at = size_of::<Plan>() + self.rest.len();
        self.rest.extend(cast_slice::<T, u8>(table));
        at as u64
    }

    /// The size of the image.
    pub fn bytes(&self) -> usize {
        size_of::<Plan>() + self.rest.len()
    }

    /// The image, as it must be at this address.
    pub fn at(&self, address: u64) -> Vec<u8> {
        let mut plan = self.plan;
        let pointers = [
            &mut plan.peers,
            &mut plan.copies,
            &mut plan.stage_tiles,
            &mut plan.move_tiles,
            &mut plan.unpack_tiles,
            &mut plan.pieces_out,
            &mut plan.pieces_in,
            &mut plan.everyone,
        ];
        pointers.into_iter().for_each(|pointer| *pointer += address);
        [bytes_of(&plan), &self.rest].concat()
    }

    /// What an execution launches, in order.
    pub fn launches(&self) -> Vec<Launch> {
        let signals = |kernel| Launch { kernel, blocks: Blocks::One, threads: SIGNAL_THREADS, shared_bytes: 0 };
        let moves = |kernel, tiles| {
            let blocks = Blocks::AtMost(tiles);
            (tiles > 0).then_some(Launch { kernel, blocks, threads: BLOCK_THREADS, shared_bytes: SHARED_BYTES })
        };
        let plan = &self.plan;
        let all = [
            moves(Kernel::Stage, plan.stage_count),
            Some(signals(Kernel::Enter)),
            moves(Kernel::Move, plan.move_count),
            moves(Kernel::Unpack, plan.unpack_count),
            Some(signals(Kernel::Leave)),
        ];
        all.into_iter().flatten().collect()
    }
}

fn count(items: usize) -> Result<u32> {
    u32::try_from(items).map_err(|_| Error::new(Status::NotSupported, format!("{items} tiles in one plan on a device")))
}

impl Places {
    /// A rank, without what it exchanges.
    fn peer(&self, rank: usize) -> Peer {
        let RankPlace { pe, heap, slots } = self.ranks[rank];
        let slot = |slots: u64, writer: usize| slots + (writer * SLOT_BYTES) as u64;
        Peer {
            heap: heap.unwrap_or(0),
            own_slot: slot(self.own_slots, rank),
            // NVSHMEM takes the address that the same place has here.
            its_slot: slot(heap.unwrap_or(self.heap) + slots, self.rank),
            pe,
            rank: rank as u32,
            ..Peer::zeroed()
        }
    }
}

fn peer_of(schedule: &Schedule, layout: &Layout, places: &Places, peer: usize) -> Peer {
    let transfers = &schedule.peers[peer];
    let staging = layout.incoming.iter().find(|lane| lane.peer == peer).map_or(0, |lane| lane.offset as u64);
    let (sends, receives) = (!transfers.receive.is_empty() as u32, !transfers.send.is_empty() as u32);
    Peer { staging, sends, receives, ..places.peer(transfers.rank) }
}

/// Writes the copies, and gives tiles of them.
struct Writer {
    copies: Vec<Copy>,
    source: Side,
}

impl Writer {
    /// A copy that is not packed, and all its tiles.
    fn copy(&mut self, nest: &LoopNest, source: Side, target: Side, peer: u32) -> Vec<Tile> {
        let copy = self.add(nest, source, target, peer);
        let tile = |index| Tile { copy, index: index as u32, piece: NO_PIECE, unused: 0, packed: 0 };
        (0..nest.piece_count(&cut(nest))).map(tile).collect()
    }

    /// The copies of a lane, their tiles, and its pieces.
    fn packed<'a>(
        &mut self,
        lane: &Lane,
        nests: impl Iterator<Item = &'a LoopNest>,
        target: Side,
        pieces: &mut Vec<Piece>,
    ) -> Vec<Tile> {
        let source = if target == Side::Output { Side::Workspace } else { self.source };
        let first_copy = self.copies.len();
        nests.for_each(|nest| _ = self.add(nest, source, target, lane.peer as u32));
        let first_piece = pieces.len();
        pieces.extend(lane.packed.pieces.iter().enumerate().map(|(index, piece)| Piece {
            peer: lane.peer as u32,
            index: index as u32,
            tiles: piece.tiles as u32,
            packed_tiles: 0,
            source: (lane.offset + piece.offset) as u64,
            target: piece.offset as u64,
            bytes: piece.bytes as u64,
        }));
        let tile = |tile: &super::tiles::PackedTile| Tile {
            copy: (first_copy + tile.nest) as u32,
            index: tile.index as u32,
            piece: (first_piece + tile.piece) as u32,
            unused: 0,
            packed: (lane.offset + tile.offset) as u64,
        };
        lane.packed.tiles.iter().map(tile).collect()
    }

    fn add(&mut self, nest: &LoopNest, source: Side, target: Side, peer: u32) -> u32 {
        let cut = cut(nest);
        let innermost = nest.ndims.saturating_sub(1);
        let fastest = nest.source_fastest().filter(|loop_index| *loop_index != innermost).unwrap_or(nest.ndims);
        self.copies.push(Copy {
            src_start: nest.src_start as i64,
            dst_start: nest.dst_start as i64,
            src_strides: nest.src_strides.map(|stride| stride as i64),
            dst_strides: nest.dst_strides.map(|stride| stride as i64),
            extents: nest.extents.map(|extent| extent as u64),
            tile_extents: cut.extents.map(|extent| extent as u64),
            run_bytes: nest.run_bytes as u64,
            tile_run_bytes: cut.run_bytes as u64,
            ndims: nest.ndims as u32,
            source_fastest: fastest as u32,
            source: source as u32,
            target: target as u32,
            peer,
            unused: 0,
        });
        self.copies.len() as u32 - 1
    }
}

const _: () = assert!(offset_of!(Plan, peers) == 32 && offset_of!(Operands, fault) == 24);
