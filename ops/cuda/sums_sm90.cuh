/* A product of 16-bit matrices on Hopper (sm_90a) that sums the columns of b, too, for matmul_sm90.cu's variants: b [k, n]
 * as it lies, whose stages in shared memory the copying warpgroup's other warps read as well. */
#ifndef ROTA_OPS_CUDA_SUMS_SM90_CUH
#define ROTA_OPS_CUDA_SUMS_SM90_CUH

#include "ops/cuda/matmul_sm90.cuh"

/* Of the stages of a tile each row of tiles has every so manieth; sums are over those, and over every `step`-th row of
 * them: partial[row of tiles * warps + warp][n], all of which add up to the columns' sums. */
template <class tile, bool bf16> struct sums_beside {
    static constexpr int warps = ROTA_SUMS_SM90_WARPS;
    static constexpr uint32_t wide = 8, chunks = tile::columns / wide, rows_at_once = 32 / chunks,
                              step = rows_at_once * warps;
    static_assert(tile::cluster == 1 && 32 % chunks == 0);
    const matmul_params &p;
    uint32_t group;
    float *partial;

    __device__ static uint32_t number() { return threadIdx.x / 32 % 4 - 1; } /* of the warp */
    __device__ __forceinline__ void add(float (&sum)[wide], uint32_t stage) const {
        const uint32_t lane = threadIdx.x % 32, chunk = lane % chunks;
        const uint32_t from = stage + chunk / 8 * PIECE_BYTES;
#pragma unroll 2
        for (uint32_t row = number() * rows_at_once + lane / chunks; row < STEP_K; row += step) {
            uint32_t bits[4];
            asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(bits[0]), "=r"(bits[1]), "=r"(bits[2]), "=r"(bits[3])
                         : "r"(from + row * 128 + ((chunk ^ row) % 8) * 16)
                         : "memory");
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float2 two = matmul_open<bf16>(bits[i]);
                sum[2 * i] += two.x;
                sum[2 * i + 1] += two.y;
            }
        }
    }
    __device__ __forceinline__ void operator()() const {
        const matmul_shared<tile> shared;
        matmul_walk<tile> walk(p, group);
        const uint32_t lane = threadIdx.x % 32;
        uint32_t stage = 0, parity = 0;
        while (walk.take()) {
            const uint32_t row = walk.row / tile::rows, column = walk.column + lane % chunks * wide;
            uint32_t skipped = walk.rows - row; /* stages until ours */
            float sum[wide] = {};
            for (uint32_t i = 0; i < walk.steps; i++) {
                barrier_wait(shared.full(stage), parity);
                if (--skipped == 0) {
                    add(sum, shared.b(stage));
                    skipped = walk.rows;
                }
                __syncwarp();
                if (lane == 0) barrier_arrive(shared.empty(stage));
                if (++stage == tile::stages) stage = 0, parity ^= 1;
            }
#pragma unroll
            for (uint32_t i = 0; i < wide; i++)
#pragma unroll
                for (uint32_t of = chunks; of < 32; of *= 2) sum[i] += __shfl_xor_sync(0xFFFFFFFFu, sum[i], of);
            if (lane >= chunks || column >= p.n) continue;
            float *to = partial + (static_cast<uint64_t>(row) * warps + number()) * p.n + column;
#pragma unroll
            for (uint32_t i = 0; i < wide; i++) to[i] = sum[i];
        }
    }
};

template <class tile, bool bf16, bool transpose_a, typename A>
__device__ __forceinline__ void sums_sm90(const A &args, const matmul_prepared &prepared) {
    matmul_sm90<tile, bf16, transpose_a, false>(
        args.params, prepared, sums_beside<tile, bf16>{args.params, prepared.group, rota_operand<float>(args, 0)});
}

#endif
