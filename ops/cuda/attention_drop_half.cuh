/* Which scores of 16 rows and N columns a warp's dropout keeps, for those that a thread of warp_result
 * (attention_half.cuh) has. Fours of neighbouring keys lie with two threads, or four: each draws as many of them. */
#ifndef ROTA_OPS_CUDA_ATTENTION_DROP_HALF_CUH
#define ROTA_OPS_CUDA_ATTENTION_DROP_HALF_CUH

#include "ops/cuda/attention_drop.cuh"

/* Rows are queries, columns keys. */
template <uint32_t COLUMNS, bool DROPS = true> struct kept_along {
    static constexpr int BLOCKS = COLUMNS / 8;
    uint32_t bits[2]; /* by the row: bit 4 n + column % 4 */

    ROTA_DEVICE void draw(const attention_drop &drop, uint32_t query, uint32_t key) {
        const uint32_t lane = threadIdx.x % 32, odd = lane % 2;
        if (drop.even) {
            uint32_t mine = 0;
#pragma unroll
            for (int n = 0; n < BLOCKS; n++)
                mine |= drop.keeps_four(query + lane / 4 + odd * 8, key + n * 8 + lane % 4 / 2 * 4) << 4 * n;
            const uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, mine, 1);
            bits[0] = odd ? other : mine;
            bits[1] = odd ? mine : other;
            return;
        }
        bits[0] = bits[1] = 0;
#pragma unroll 1
        for (uint32_t e = 0; e < BLOCKS * 2; e++) {
            const uint32_t column = lane % 4 * 2 + e % 2, from = key + e / 2 * 8 + column;
            const uint32_t bit = 1u << (e / 2 * 4 + column % 4);
            if (drop.keeps(query + lane / 4, from)) bits[0] |= bit;
            if (drop.keeps(query + lane / 4 + 8, from)) bits[1] |= bit;
        }
    }
    ROTA_DEVICE bool is(int n, int c) const { return bits[c / 2] >> (n * 4 + threadIdx.x % 2 * 2 + c % 2) & 1u; }
};

template <uint32_t COLUMNS> struct kept_along<COLUMNS, false> {
    template <typename D> ROTA_DEVICE void draw(const D &, uint32_t, uint32_t) {}
};

/* Rows are keys, columns queries. */
template <uint32_t COLUMNS, bool DROPS = true> struct kept_across {
    static constexpr int BLOCKS = COLUMNS / 8;
    uint32_t bits[4]; /* by the column and the row: bit 4 n + row % 4 */

    ROTA_DEVICE void draw(const attention_drop &drop, uint32_t key, uint32_t query) {
        const uint32_t lane = threadIdx.x % 32, own = lane / 4 % 4;
        if (drop.even) {
            uint32_t mine = 0;
#pragma unroll
            for (int n = 0; n < BLOCKS; n++)
                mine |= drop.keeps_four(query + n * 8 + lane % 4 * 2 + own / 2, key + lane / 16 * 4 + own % 2 * 8)
                        << 4 * n;
#pragma unroll
            for (int i = 0; i < 4; i++) bits[i] = __shfl_sync(0xFFFFFFFFu, mine, (lane & ~12u) | i * 4);
            return;
        }
        for (int i = 0; i < 4; i++) bits[i] = 0;
#pragma unroll 1
        for (uint32_t n = 0; n < BLOCKS; n++)
#pragma unroll
            for (uint32_t i = 0; i < 4; i++)
                if (drop.keeps(query + n * 8 + lane % 4 * 2 + i / 2, key + lane / 4 + i % 2 * 8))
                    bits[i] |= 1u << (n * 4 + own);
    }
    ROTA_DEVICE bool is(int n, int c) const {
        return bits[c % 2 * 2 + c / 2] >> (n * 4 + threadIdx.x % 32 / 4 % 4) & 1u;
    }
};
template <uint32_t COLUMNS> struct kept_across<COLUMNS, false> {
    template <typename D> ROTA_DEVICE void draw(const D &, uint32_t, uint32_t) {}
};

#endif
