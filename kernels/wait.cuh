// Waiting for a signal of another rank, and what to do when it never comes.
#pragma once

#include "tables.cuh"

constexpr uint32_t peer_lost = 8, timed_out = 9; // statuses of the C interface

__device__ inline uint64_t global_time()
{
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

// The failure that the plan tells of is the first of the lowest rank.
__device__ inline void fail(Plan *plan, uint32_t status, uint32_t rank)
{
    const unsigned long long failure = uint64_t(status) << 32 | rank;
    atomicCAS(reinterpret_cast<unsigned long long *>(&plan->failure), 0ull, failure);
}

__device__ inline void break_off(Plan *plan, uint32_t status, uint32_t rank)
{
    fail(plan, status, rank);
    *reinterpret_cast<volatile uint64_t *>(&plan->broken) = 1;
}

__device__ inline bool is_broken(const Plan *plan)
{
    return *reinterpret_cast<const volatile uint64_t *>(&plan->broken) != 0;
}

// Waits until the word is of this operation; its fault, or UINT32_MAX when the wait was given up. One thread.
__device__ inline uint32_t wait_for(Plan *plan, const uint64_t *word, uint64_t operation, uint32_t rank)
{
    constexpr int turns_a_look = 64;
    const volatile uint64_t *signal = word;
    const uint64_t begun = plan->timeout_ns != 0 ? global_time() : 0;
    for (int turn = 1;; turn++) {
        const uint64_t seen = *signal;
        if ((seen & number_mask) >= operation) {
            __threadfence_system(); // what was written before the signal is seen after it
            return uint32_t(seen >> 56);
        }
        if (turn % turns_a_look == 0) {
            if (is_broken(plan))
                return UINT32_MAX;
            // It may have signalled just before it went.
            if ((plan->abort[0] != 0 || plan->abort[1 + rank] != 0) && (*signal & number_mask) < operation)
                return break_off(plan, peer_lost, rank), UINT32_MAX;
            if (plan->timeout_ns != 0 && global_time() - begun > plan->timeout_ns)
                return break_off(plan, timed_out, rank), UINT32_MAX;
        }
    }
}
