// The kernels that only load and store, also straight into the outputs of peers whose memory is mapped here.

#include "tables.cuh"
#include "tile.cuh"
#include "wait.cuh"

// In place: the input to its packed copy in the workspace, from which everything is then sent.
extern "C" __global__ void __launch_bounds__(block_threads) boxwise_stage(Plan *plan, Operands operands)
{
    __shared__ Walk walk;
    extern __shared__ __align__(16) char shared[];
    if (operands.fault != 0 || is_broken(plan))
        return;
    for (uint32_t at = blockIdx.x; at < plan->stage_count; at += gridDim.x) {
        const Tile tile = plan->stage_tiles[at];
        const Copy &copy = plan->copies[tile.copy];
        copy_tile(copy, tile, source_of(operands, copy.source), reinterpret_cast<char *>(operands.workspace), false, false,
                  walk, shared);
    }
}

// Pieces that have come from peers out of reach, from the workspace to the output.
extern "C" __global__ void __launch_bounds__(block_threads) boxwise_unpack(Plan *plan, Operands operands)
{
    __shared__ Walk walk;
    __shared__ bool has_come;
    extern __shared__ __align__(16) char shared[];
    if (is_broken(plan))
        return;
    for (uint32_t at = blockIdx.x; at < plan->unpack_count; at += gridDim.x) {
        const Tile tile = plan->unpack_tiles[at];
        const Piece &piece = plan->pieces_in[tile.piece];
        const Peer &peer = plan->peers[piece.peer];
        if (threadIdx.x == 0) {
            const uint32_t fault =
                wait_for(plan, &peer.own_slot->pieces[piece.index], plan->operation, peer.rank);
            if (fault != 0 && fault != UINT32_MAX)
                fail(plan, fault, peer.rank);
            has_come = fault == 0 && operands.fault == 0;
        }
        __syncthreads();
        if (has_come)
            copy_tile(plan->copies[tile.copy], tile, reinterpret_cast<const char *>(operands.workspace + tile.packed),
                      reinterpret_cast<char *>(operands.output), false, true, walk, shared);
        __syncthreads();
    }
}
