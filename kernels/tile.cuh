// One tile of a copy, moved by one block: the widest accesses that addresses, strides and runs allow; through shared
// memory where source and destination run along different loops, so that both are walked in their own order.
#pragma once

#include "tables.cuh"

constexpr int block_threads = 256;
constexpr uint32_t warp_threads = 32;
// A tile has at most 32 KiB, and a gap of one unit after every row.
constexpr uint32_t shared_bytes = 44 << 10;
// Longer runs fill whole sectors by themselves.
constexpr uint32_t longest_staged_run = 64;

// A tile: its part of the copy.
struct Walk {
    const char *src;
    char *dst;
    int64_t src_strides[max_dims], dst_strides[max_dims];
    uint32_t extents[max_dims];
    uint32_t run_bytes, runs;
    uint32_t ndims, source_fastest;
    uint32_t width; // of one access in bytes
};

__device__ inline const char *source_of(const Operands &operands, Side side)
{
    return reinterpret_cast<const char *>(side == Side::input ? operands.input : operands.workspace);
}

// The tile with this index: the same as LoopNest::piece. `packed` replaces the source or the target of a packed side.
__device__ inline void find_tile(const Copy &copy, uint32_t index, const char *src, char *dst, bool packs, bool unpacks,
                                 Walk &walk)
{
    uint64_t left = index;
    const uint64_t parts = (copy.run_bytes + copy.tile_run_bytes - 1) / copy.tile_run_bytes;
    const uint64_t first_byte = left % parts * copy.tile_run_bytes;
    left /= parts;
    const uint64_t rest = copy.run_bytes - first_byte;
    walk.run_bytes = uint32_t(rest < copy.tile_run_bytes ? rest : copy.tile_run_bytes);
    int64_t src_offset = copy.src_start + int64_t(first_byte), dst_offset = copy.dst_start + int64_t(first_byte);
    uint32_t runs = 1;
    int64_t gapless = walk.run_bytes;
    uint64_t together = walk.run_bytes; // what the width must divide
    for (int d = int(copy.ndims) - 1; d >= 0; d--) {
        const uint64_t count = (copy.extents[d] + copy.tile_extents[d] - 1) / copy.tile_extents[d];
        const uint64_t first = left % count * copy.tile_extents[d];
        left /= count;
        const uint64_t more = copy.extents[d] - first;
        const uint32_t extent = uint32_t(more < copy.tile_extents[d] ? more : copy.tile_extents[d]);
        src_offset += copy.src_strides[d] * int64_t(first);
        dst_offset += copy.dst_strides[d] * int64_t(first);
        walk.extents[d] = extent;
        walk.src_strides[d] = unpacks ? gapless : copy.src_strides[d];
        walk.dst_strides[d] = packs ? gapless : copy.dst_strides[d];
        gapless *= extent;
        runs *= extent;
        if (extent > 1)
            together |= uint64_t(walk.src_strides[d]) | uint64_t(walk.dst_strides[d]);
    }
    walk.src = unpacks ? src : src + src_offset;
    walk.dst = packs ? dst : dst + dst_offset;
    walk.runs = runs;
    walk.ndims = copy.ndims;
    walk.source_fastest = unpacks ? copy.ndims : copy.source_fastest;
    together |= reinterpret_cast<uint64_t>(walk.src) | reinterpret_cast<uint64_t>(walk.dst) | 16;
    walk.width = uint32_t(together & -together);
}

// Offsets of a run on both sides; `first` is the loop that is walked fastest, or ndims for the innermost.
__device__ inline void offsets(const Walk &walk, uint32_t run, uint32_t first, int64_t &src, int64_t &dst)
{
    src = dst = 0;
    if (first < walk.ndims) {
        const uint32_t at = run % walk.extents[first];
        run /= walk.extents[first];
        src += at * walk.src_strides[first];
        dst += at * walk.dst_strides[first];
    }
    for (int d = int(walk.ndims) - 1; d >= 0; d--) {
        if (d == int(first))
            continue;
        const uint32_t at = run % walk.extents[d];
        run /= walk.extents[d];
        src += at * walk.src_strides[d];
        dst += at * walk.dst_strides[d];
    }
}

// Each warp takes whole runs where they are long, else the block goes over all units.
template <typename Unit> __device__ void copy_runs(const Walk &walk)
{
    const uint32_t units = walk.run_bytes / sizeof(Unit);
    const bool is_long = units >= warp_threads;
    const uint32_t lane = threadIdx.x % warp_threads;
    const uint32_t count = is_long ? walk.runs : walk.runs * units;
    for (uint32_t at = is_long ? threadIdx.x / warp_threads : threadIdx.x; at < count;
         at += is_long ? block_threads / warp_threads : block_threads) {
        const uint32_t run = is_long ? at : at / units;
        int64_t src, dst;
        offsets(walk, run, walk.ndims, src, dst);
        const Unit *from = reinterpret_cast<const Unit *>(walk.src + src);
        Unit *to = reinterpret_cast<Unit *>(walk.dst + dst);
        if (is_long) {
            for (uint32_t unit = lane; unit < units; unit += warp_threads)
                to[unit] = from[unit];
        } else {
            to[at % units] = from[at % units];
        }
    }
}

// The place of a run in shared memory, in the order of the destination, with a gap after each row.
template <typename Unit> __device__ uint32_t staged(const Walk &walk, uint32_t run, uint32_t units, uint32_t gap)
{
    return run * units + run / walk.extents[walk.ndims - 1] * gap;
}

template <typename Unit> __device__ void copy_staged(const Walk &walk, char *shared)
{
    Unit *tile = reinterpret_cast<Unit *>(shared);
    const uint32_t units = walk.run_bytes / sizeof(Unit), count = walk.runs * units;
    const uint32_t row = walk.extents[walk.ndims - 1];
    // An odd number of words between rows keeps the threads of a warp on banks of their own.
    const uint32_t gap = (count + walk.runs / row) * sizeof(Unit) <= shared_bytes ? 1 : 0;
    const uint32_t fastest = walk.source_fastest, along = walk.extents[fastest];
    uint32_t below = 1; // runs between neighbours along `fastest`, in the order of the destination
    for (uint32_t d = fastest + 1; d < walk.ndims; d++)
        below *= walk.extents[d];
    for (uint32_t at = threadIdx.x; at < count; at += block_threads) {
        const uint32_t walked = at / units;
        // The walk takes `fastest` first and the other loops in their order.
        const uint32_t others = walked / along;
        const uint32_t run = others / below * below * along + walked % along * below + others % below;
        int64_t src, dst;
        offsets(walk, run, walk.ndims, src, dst);
        tile[staged<Unit>(walk, run, units, gap) + at % units] =
            reinterpret_cast<const Unit *>(walk.src + src)[at % units];
    }
    __syncthreads();
    for (uint32_t at = threadIdx.x; at < count; at += block_threads) {
        const uint32_t run = at / units;
        int64_t src, dst;
        offsets(walk, run, walk.ndims, src, dst);
        reinterpret_cast<Unit *>(walk.dst + dst)[at % units] = tile[staged<Unit>(walk, run, units, gap) + at % units];
    }
    __syncthreads(); // before the next tile
}

template <typename Unit> __device__ void copy_walk(const Walk &walk, char *shared)
{
    if (walk.source_fastest < walk.ndims && walk.run_bytes <= longest_staged_run)
        copy_staged<Unit>(walk, shared);
    else
        copy_runs<Unit>(walk);
}

// Copies one tile. All threads of the block; `walk` and `shared` are shared memory.
__device__ inline void copy_tile(const Copy &copy, const Tile &tile, const char *src, char *dst, bool packs, bool unpacks,
                                 Walk &walk, char *shared)
{
    if (threadIdx.x == 0)
        find_tile(copy, tile.index, src, dst, packs, unpacks, walk);
    __syncthreads();
    switch (walk.width) {
    case 16:
        copy_walk<uint4>(walk, shared);
        break;
    case 8:
        copy_walk<uint64_t>(walk, shared);
        break;
    case 4:
        copy_walk<uint32_t>(walk, shared);
        break;
    case 2:
        copy_walk<uint16_t>(walk, shared);
        break;
    default:
        copy_walk<uint8_t>(walk, shared);
    }
    __syncthreads(); // nobody changes the walk while another reads it
}
