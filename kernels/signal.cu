// The kernels that signal to peers, and put to those whose memory is not mapped here: everything that calls NVSHMEM.

#include <nvshmem.h>
#include <nvshmemx.h>

#include "tables.cuh"
#include "tile.cuh"
#include "wait.cuh"

// Writes a word of a peer's slot, after everything that this rank has written for it.
__device__ inline void signal(const Peer &peer, uint64_t *word, uint64_t value)
{
    if (peer.heap != 0) {
        __threadfence_system();
        *reinterpret_cast<volatile uint64_t *>(word) = value;
    } else {
        nvshmem_fence();
        nvshmemx_signal_op(word, value, NVSHMEM_SIGNAL_SET, peer.pe);
    }
}

// Tells a sender where its data goes.
__device__ inline void tell_ready(Plan *plan, const Operands &operands, const Peer &peer, uint64_t word)
{
    Slot *slot = peer.its_slot;
    const uint64_t output = operands.output - plan->heap;
    const uint64_t staging = operands.workspace + peer.staging - plan->heap;
    if (peer.heap != 0) {
        *reinterpret_cast<volatile uint64_t *>(&slot->output) = output;
    } else {
        nvshmem_uint64_p(&slot->output, output, peer.pe);
        nvshmem_uint64_p(&slot->staging, staging, peer.pe);
    }
    signal(peer, &slot->ready, word);
}

// Begins an operation: this rank's buffers are ready, and those of all to which it sends. One block.
extern "C" __global__ void boxwise_enter(Plan *plan, Operands operands)
{
    __shared__ uint64_t operation;
    if (threadIdx.x == 0) {
        operation = ++plan->operation;
        plan->failure = 0;
        if (operands.fault != 0)
            fail(plan, operands.fault, plan->rank);
        __threadfence();
    }
    __syncthreads();
    if (is_broken(plan))
        return;
    for (uint32_t at = threadIdx.x; at < plan->peer_count; at += blockDim.x)
        if (plan->peers[at].sends)
            tell_ready(plan, operands, plan->peers[at], signal_word(operation, operands.fault));
    for (uint32_t at = threadIdx.x; at < plan->peer_count; at += blockDim.x) {
        Peer &peer = plan->peers[at];
        if (!peer.receives)
            continue;
        const uint32_t fault = wait_for(plan, &peer.own_slot->ready, operation, peer.rank);
        peer.absent = fault;
        if (fault != 0 && fault != UINT32_MAX)
            fail(plan, fault, peer.rank);
        // Nothing will be packed for it: its pieces come now, empty. Both ends unpack before they leave.
        if (peer.heap == 0 && fault != UINT32_MAX && (fault != 0 || operands.fault != 0))
            for (int piece = 0; piece < max_pieces; piece++)
                signal(peer, &peer.its_slot->pieces[piece], signal_word(operation, operands.fault));
    }
}

// The last block that has packed a tile of a piece puts it, with its signal. All threads of the block.
__device__ inline void put_when_packed(Plan *plan, const Operands &operands, uint32_t number, bool &is_last)
{
    Piece &piece = plan->pieces_out[number];
    if (threadIdx.x == 0) {
        __threadfence(); // the tile, before it is counted
        is_last = atomicAdd(&piece.packed_tiles, 1) == piece.tiles - 1;
        if (is_last) {
            piece.packed_tiles = 0;
            __threadfence();
        }
    }
    __syncthreads();
    if (is_last) {
        const Peer &peer = plan->peers[piece.peer];
        const uint64_t staging = *reinterpret_cast<const volatile uint64_t *>(&peer.own_slot->staging);
        nvshmemx_putmem_signal_nbi_block(
            reinterpret_cast<void *>(plan->heap + staging + piece.target),
            reinterpret_cast<const void *>(operands.workspace + piece.source), piece.bytes,
            &peer.its_slot->pieces[piece.index], signal_word(plan->operation, 0), NVSHMEM_SIGNAL_SET, peer.pe);
    }
    __syncthreads();
}

// Moves everything that leaves this rank, and what stays.
extern "C" __global__ void __launch_bounds__(block_threads) boxwise_move(Plan *plan, Operands operands)
{
    __shared__ Walk walk;
    __shared__ bool flag;
    extern __shared__ __align__(16) char shared[];
    if (operands.fault != 0 || is_broken(plan))
        return;
    for (uint32_t at = blockIdx.x; at < plan->move_count; at += gridDim.x) {
        const Tile tile = plan->move_tiles[at];
        const Copy &copy = plan->copies[tile.copy];
        const char *src = source_of(operands, copy.source);
        const bool packs = copy.target == Side::workspace;
        char *dst = reinterpret_cast<char *>(packs ? operands.workspace + tile.packed : operands.output);
        if (copy.target != Side::output) {
            const Peer &peer = plan->peers[copy.peer];
            // It has no output, and may be in its next operation already.
            if (peer.absent != 0)
                continue;
            const volatile Slot *slot = peer.own_slot;
            if (!packs)
                dst = reinterpret_cast<char *>(peer.heap + slot->output);
        }
        copy_tile(copy, tile, src, dst, packs, false, walk, shared);
        if (packs)
            put_when_packed(plan, operands, tile.piece, flag);
    }
}

// Ends an operation: what this rank has sent has arrived, and what it receives is here. One block.
extern "C" __global__ void boxwise_leave(Plan *plan, Operands operands)
{
    const uint64_t operation = plan->operation, word = signal_word(operation, operands.fault);
    if (!is_broken(plan)) {
        for (uint32_t at = threadIdx.x; at < plan->peer_count; at += blockDim.x) {
            const Peer &peer = plan->peers[at];
            if (!peer.receives)
                continue;
            if (peer.heap != 0)
                signal(peer, &peer.its_slot->done, word);
        }
        if (plan->puts && threadIdx.x == 0)
            nvshmem_quiet(); // the workspace may be used again
        for (uint32_t at = threadIdx.x; at < plan->peer_count; at += blockDim.x) {
            const Peer &peer = plan->peers[at];
            if (!peer.sends || peer.heap == 0)
                continue;
            const uint32_t fault = wait_for(plan, &peer.own_slot->done, operation, peer.rank);
            if (fault != 0 && fault != UINT32_MAX)
                fail(plan, fault, peer.rank);
        }
    }
    __syncthreads();
    if (!is_broken(plan) && plan->everyone_count != 0) {
        const uint32_t fault = uint32_t(plan->failure >> 32);
        for (uint32_t at = threadIdx.x; at < plan->everyone_count; at += blockDim.x)
            signal(plan->everyone[at], &plan->everyone[at].its_slot->complete, signal_word(operation, fault));
        __syncthreads();
        for (uint32_t at = threadIdx.x; at < plan->everyone_count; at += blockDim.x) {
            const Peer &other = plan->everyone[at];
            const uint32_t theirs = wait_for(plan, &other.own_slot->complete, operation, other.rank);
            if (theirs != 0 && theirs != UINT32_MAX)
                fail(plan, theirs, other.rank);
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        if (plan->failure != 0 && plan->report[1] == 0)
            plan->report[1] = plan->failure;
        __threadfence_system();
        plan->report[0] = operation;
        __threadfence_system();
    }
}
