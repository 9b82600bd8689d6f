/* Which scores of a tile of attention.cuh's are kept by dropout: of a thread's, bit 4 i + j of row i and lane j. */
#ifndef ROTA_OPS_CUDA_ATTENTION_DROP_SCORES_CUH
#define ROTA_OPS_CUDA_ATTENTION_DROP_SCORES_CUH

#include "ops/cuda/attention.cuh"
#include "ops/cuda/attention_drop.cuh"

/* Of rows that are queries, from these on. What a thread's lanes draw, four threads that are neighbours draw together:
 * one has lanes j of all four. */
ROTA_DEVICE uint32_t kept_scores(const attention_drop &drop, const attention_thread &t, uint32_t query, uint32_t key) {
    uint32_t kept = 0;
    if (drop.even) {
        const uint32_t own = threadIdx.x % 4;
        uint32_t mine = 0;
#pragma unroll 2
        for (int i = 0; i < R; i++)
            mine |= drop.keeps_four(query + t.row(i), key + t.x / 4 * 4 + own * 16) << 4 * i;
#pragma unroll
        for (int j = 0; j < L; j++) {
            const uint32_t theirs = __shfl_sync(0xFFFFFFFFu, mine, threadIdx.x % 32 / 4 * 4 + j) >> own;
#pragma unroll
            for (int i = 0; i < R; i++) kept |= (theirs >> 4 * i & 1u) << (4 * i + j);
        }
        return kept;
    }
#pragma unroll 1
    for (int e = 0; e < R * L; e++)
        if (drop.keeps(query + t.row(e / L), key + t.lane(e % L))) kept |= 1u << e;
    return kept;
}

/* Of rows that are keys: each lane by itself. */
ROTA_DEVICE uint32_t kept_scores_across(const attention_drop &drop, const attention_thread &t, uint32_t key,
                                        uint32_t query) {
    uint32_t kept = 0;
#pragma unroll 1
    for (int e = 0; e < R * L; e++)
        if (drop.keeps(query + t.lane(e % L), key + t.row(e / L))) kept |= 1u << e;
    return kept;
}

#endif
