// What the kernels read: a made plan as tables in device memory, and the slots by which ranks signal to one another.
// src/exec/device/tables.rs builds them; sizes are compared on both sides.
#pragma once

#include <cstdint>

constexpr int max_dims = 8;
constexpr int max_pieces = 24;

// What one rank writes in the memory of another. In ready, done, complete and pieces the low 56 bits are the number of an
// operation, and the high 8 the status of the writer's fault in it.
struct Slot {
    uint64_t ready;   // "my buffers are ready": of a rank that receives from here
    uint64_t output;  // with ready: its data_out, in bytes from its heap's start
    uint64_t staging; // with ready: where pieces for it go, likewise
    uint64_t done;    // "all that I send you has come": of a rank that stores here directly
    uint64_t complete;
    uint64_t unused[3];
    uint64_t pieces[max_pieces]; // "this piece has come": of a rank that puts
};
static_assert(sizeof(Slot) == 256, "as in tables.rs");

// Where a copy begins or ends.
enum class Side : uint32_t { input, output, workspace, peer };

// A strided copy in normal form, cut into tiles: LoopNest and Piece of src/geometry/loop_nest.rs. Bytes throughout.
struct Copy {
    int64_t src_start, dst_start;
    int64_t src_strides[max_dims], dst_strides[max_dims];
    uint64_t extents[max_dims], tile_extents[max_dims];
    uint64_t run_bytes, tile_run_bytes;
    uint32_t ndims;
    uint32_t source_fastest; // the loop along which the source runs; ndims if that is the run, or the innermost loop
    Side source, target;
    uint32_t peer; // of a copy to a peer
    uint32_t unused;
};
static_assert(sizeof(Copy) == 312, "as in tables.rs");

// What a block does at a time. In a packed copy a tile has its own place, without gaps.
struct Tile {
    uint32_t copy, index;
    uint32_t piece; // of pieces that leave or come; else no_piece
    uint32_t unused;
    uint64_t packed; // its bytes' place in the workspace
};
static_assert(sizeof(Tile) == 24, "as in tables.rs");
constexpr uint32_t no_piece = UINT32_MAX;

// Packed bytes on their way to or from a peer that cannot be reached.
struct Piece {
    uint32_t peer, index; // index: of the peer's pieces
    uint32_t tiles;
    uint32_t packed_tiles; // so many of them are packed in this operation
    uint64_t source;       // in this rank's workspace
    uint64_t target;       // from the start of the peer's staging
    uint64_t bytes;
};
static_assert(sizeof(Piece) == 40, "as in tables.rs");

struct Peer {
    uint64_t heap;     // its symmetric heap as mapped here; 0: it is reached by NVSHMEM only
    Slot *own_slot;    // here, written by it
    Slot *its_slot;    // there, written from here: mapped, or by the address that NVSHMEM takes
    uint64_t staging;  // of what comes from it, in this rank's workspace
    int32_t pe;
    uint32_t rank;
    uint32_t sends, receives; // whether it sends to this rank, and receives from it
    uint32_t absent;          // the fault with which it takes part in this operation: nothing moves to it
    uint32_t unused;
};
static_assert(sizeof(Peer) == 56, "as in tables.rs");

struct Plan {
    uint64_t operation; // the last that has begun
    uint64_t failure;   // of this operation: status << 32 | rank; 0 if none
    uint64_t broken;    // nothing moves any more
    uint64_t heap;      // the start of this rank's symmetric heap
    Peer *peers;
    Copy *copies;
    Tile *stage_tiles, *move_tiles, *unpack_tiles;
    Piece *pieces_out, *pieces_in;
    Peer *everyone; // all other ranks, for exit synchronisation 2
    const volatile uint64_t *abort; // words of the host: the communicator is out of use; rank 0, 1, ... has gone
    volatile uint64_t *report; // finished operations, and the first failure
    uint64_t timeout_ns;
    uint32_t peer_count, stage_count, move_count, unpack_count, piece_in_count, everyone_count;
    uint32_t rank;
    uint32_t puts; // whether anything leaves by NVSHMEM
};
static_assert(sizeof(Plan) == 152, "as in tables.rs");

// The arguments of one execution on one rank: addresses, and the status of its fault.
struct Operands {
    uint64_t input, output, workspace;
    uint32_t fault, unused;
};
static_assert(sizeof(Operands) == 32, "as in tables.rs");

constexpr uint64_t number_mask = (uint64_t(1) << 56) - 1;

// A signal: an operation's number and the writer's fault in it.
__device__ inline uint64_t signal_word(uint64_t operation, uint32_t fault)
{
    return (operation & number_mask) | uint64_t(fault) << 56;
}
