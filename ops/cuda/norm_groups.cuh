/* Groups of warps that have a row of a norm each: how they take vectors and add up. */
#ifndef ROTA_OPS_CUDA_NORM_GROUPS_CUH
#define ROTA_OPS_CUDA_NORM_GROUPS_CUH

#include "ops/cuda/norm_groups.h"
#include "ops/cuda/values.cuh"

/* Rows of 16 bits that are whole vectors: each is of as many whole warps of a block as it has vectors for, and a thread
 * has the same vector of every row that its group of warps takes. */
struct norm_group {
    static constexpr uint32_t W = values<true>::VECTOR, WARPS = ROTA_CUDA_NORM_THREADS / 32;
    uint32_t warps, groups, group, column, parity = 0; /* warps: of a row */
    float2 *parts;                                     /* of the block, [2][WARPS] */
    ROTA_DEVICE norm_group(uint32_t dim, float2 *parts) : parts(parts) {
        const uint32_t warp = threadIdx.x / 32;
        warps = rota_cuda_norm_warps(dim);
        groups = WARPS / warps;
        group = warp / warps;
        column = (threadIdx.x - group * warps * 32) * W;
    }
    /* Two sums over the group's threads, for all of them; by turns in one half of the parts, so that nobody writes what
     * another still reads: whoever comes back to a half has met all the others, who are through with it, at the other
     * one. */
    ROTA_DEVICE float2 sum(float a, float b) {
#pragma unroll
        for (int step = 16; step > 0; step /= 2) {
            a += __shfl_xor_sync(0xFFFFFFFFu, a, step);
            b += __shfl_xor_sync(0xFFFFFFFFu, b, step);
        }
        if (warps == 1) return make_float2(a, b);
        float2 *mine = parts + parity * WARPS + group * warps;
        parity ^= 1;
        if (threadIdx.x % 32 == 0) mine[threadIdx.x / 32 - group * warps] = make_float2(a, b);
        asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "r"(warps * 32) : "memory");
        float2 all = mine[0];
#pragma unroll
        for (uint32_t w = 1; w < ROTA_CUDA_WARP_ROW / (32 * W); w++)
            if (w < warps) all.x += mine[w].x, all.y += mine[w].y;
        return all;
    }
    /* A row's weight or bias as f32 in shared memory, for all groups; `otherwise` where there is none. */
    template <bool WHOLE>
    ROTA_DEVICE void share(float *to, const values<true> &from, bool there, float otherwise) const {
        if (group != 0) return;
        pack<W> value = {};
        if (there) value = from.open(from.fetch(0, WHOLE));
#pragma unroll
        for (uint32_t j = 0; j < W; j++) value.v[j] = there ? value.v[j] : otherwise;
        values<false>(to, column, DTYPE_F32).template store<W>(0, value, true);
    }
};
static_assert(norm_group::WARPS % 3 == 0 && norm_group::WARPS % 4 == 0,
              "rows of one to four warps share a block out");

/* What the groups of the block have left in shared memory, [groups, dim], added up in their order. */
ROTA_DEVICE void norm_gradient_add(const norm_group &g, uint32_t dim, const float *shared, float *partial) {
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < dim; i += ROTA_CUDA_NORM_THREADS) {
        float total = shared[i];
        for (uint32_t group = 1; group < g.groups; group++) total += shared[group * dim + i];
        partial[i] = total;
    }
}

/* The sums of all groups of the block, by way of memory that nobody else touches. */
ROTA_DEVICE void norm_gradient_sums(const norm_group &g, uint32_t dim, const pack<norm_group::W> &own,
                                    float *shared, float *partial) {
    if (g.column < dim)
        values<false>(shared, g.group * dim + g.column, DTYPE_F32)
            .template store<norm_group::W>(0, own, true);
    norm_gradient_add(g, dim, shared, partial);
}

#endif
