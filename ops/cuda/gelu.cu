/* CUDA kernel: linear_gelu_gradient: the gradient through GELU (its form by tanh) of 16-bit values, and partial sums of
 * its columns, in one pass. A block has a tile of columns of a chunk of rows, a lane a vector of them; its warps take
 * rows in turns, and in the end their sums are added up in their order. */
#include "ops/cuda/activation.cuh"
#include "ops/cuda/values.cuh"

constexpr uint32_t WARPS = ROTA_CUDA_THREADS / 32, W = values<true>::VECTOR, TILE = 32 * W;
constexpr uint32_t ROWS = 4; /* that a warp loads before it calculates */
static_assert(TILE == ROTA_CUDA_REDUCE_TILE_HALF, "as the host counts blocks");

/* Of a result that is rounded to 16 bits: exp by one instruction, within 2^-20 or so. */
ROTA_DEVICE float derivative(float x) {
    float s;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(s) : "f"(1.0f + quick_exp(-GELU_SCALE * (x + GELU_CUBE * x * x * x))));
    return s + x * s * (1.0f - s) * GELU_SCALE * (1.0f + 3.0f * GELU_CUBE * x * x);
}

ROTA_KERNEL(linear_gelu_gradient, 4, rota_linear_params, ROTA_CUDA_THREADS) {
    __shared__ float part[WARPS][TILE];
    const rota_linear_params &p = args.params;
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, tiles = (p.n + TILE - 1) / TILE;
    const uint64_t chunk = rota_group_index() / tiles, first = static_cast<uint64_t>(chunk) * p.chunk;
    const uint32_t tile = static_cast<uint32_t>(rota_group_index() % tiles) * TILE, column = tile + lane * W;
    if (first >= p.m) return;
    const uint64_t end = min(first + p.chunk, static_cast<uint64_t>(p.m));
    const values<true> v(rota_operand<const void>(args, 0), 0, p.dtype),
        dy(rota_operand<const void>(args, 1), 0, p.dtype);
    const values<true> dz(rota_operand<void>(args, 2), 0, p.dtype);
    const bool whole = v.aligned() && dy.aligned() && dz.aligned();
    pack<W> sum = {};
    for (uint64_t row = first + warp; column < p.n && row < end; row += ROWS * WARPS) {
        uint4 x[ROWS], g[ROWS];
#pragma unroll
        for (uint32_t r = 0; r < ROWS; r++) {
            const uint64_t i = (row + r * WARPS) * p.n + column;
            if (row + r * WARPS < end) x[r] = v.fetch(i, whole), g[r] = dy.fetch(i, whole);
        }
#pragma unroll
        for (uint32_t r = 0; r < ROWS; r++) {
            if (row + r * WARPS >= end) break;
            const pack<W> value = v.open(x[r]);
            pack<W> slope = dy.open(g[r]);
#pragma unroll
            for (uint32_t j = 0; j < W; j++) slope.v[j] *= derivative(value.v[j]);
            const uint4 rounded = dz.close(slope);
            dz.place((row + r * WARPS) * p.n + column, rounded, whole);
            slope = dz.open(rounded);
#pragma unroll
            for (uint32_t j = 0; j < W; j++) sum.v[j] += slope.v[j];
        }
    }
#pragma unroll
    for (uint32_t j = 0; j < W; j++) part[warp][lane * W + j] = sum.v[j];
    __syncthreads();
    const uint32_t own = tile + threadIdx.x;
    if (own >= p.n) return;
    float total = part[0][threadIdx.x];
#pragma unroll
    for (uint32_t w = 1; w < WARPS; w++) total += part[w][threadIdx.x];
    rota_operand<float>(args, 3)[chunk * p.n + own] = total;
}
