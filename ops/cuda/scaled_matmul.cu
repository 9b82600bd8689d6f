/* CUDA kernel: scaled_matmul, for what no library takes: tiles of TILE x TILE results a block, staged through shared
 * memory as f32, a thread's PATCH x PATCH sums in registers, each over k in order. */
#include "ops/cuda/f8.cuh"

constexpr int TILE = ROTA_SCALED_TILE, DEPTH = 16, PATCH = 4, SIDE = TILE / PATCH;
static_assert(SIDE * SIDE == ROTA_CUDA_THREADS && TILE * DEPTH == 4 * ROTA_CUDA_THREADS,
              "a thread stages four of each");

/* Four elements of a row, k-major; 0 beyond. */
template <typename T>
ROTA_DEVICE void stage(const uint8_t *x, uint32_t row, uint32_t rows, uint64_t ld, uint32_t k0, uint32_t k,
                       float (&tile)[DEPTH][TILE + 1]) {
    const uint32_t r = threadIdx.x / (DEPTH / 4), first = threadIdx.x % (DEPTH / 4) * 4;
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        const uint32_t column = k0 + first + j;
        const bool there = row + r < rows && column < k;
        tile[first + j][r] = there ? widen(T{x[static_cast<uint64_t>(row + r) * ld + column]}) : 0.0f;
    }
}
ROTA_DEVICE void stage(uint32_t dtype, const uint8_t *x, uint32_t row, uint32_t rows, uint64_t ld, uint32_t k0,
                       uint32_t k, float (&tile)[DEPTH][TILE + 1]) {
    if (dtype == DTYPE_F8_E4M3FN)
        stage<f8_e4m3fn>(x, row, rows, ld, k0, k, tile);
    else
        stage<f8_e5m2>(x, row, rows, ld, k0, k, tile);
}

ROTA_KERNEL(scaled_matmul, ROTA_SCALED_OPERANDS, rota_scaled_matmul_params, ROTA_CUDA_THREADS) {
    const rota_scaled_matmul_params &p = args.params;
    __shared__ float left[DEPTH][TILE + 1], right[DEPTH][TILE + 1];
    const uint32_t columns = (p.n - 1) / TILE + 1;
    const uint64_t block = rota_group_index();
    if (block / columns > (p.m - 1) / TILE) return; /* the padding of a folded grid */
    const uint32_t row = static_cast<uint32_t>(block / columns) * TILE;
    const uint32_t column = static_cast<uint32_t>(block % columns) * TILE;
    const uint8_t *a = rota_operand<const uint8_t>(args, ROTA_SCALED_A);
    const uint8_t *b = rota_operand<const uint8_t>(args, ROTA_SCALED_B);
    const uint32_t y = threadIdx.x / SIDE, x = threadIdx.x % SIDE;
    float sum[PATCH][PATCH] = {};
    /* Counted: k0 would wrap where k is near 2^32. */
    for (uint32_t step = 0, steps = p.k ? (p.k - 1) / DEPTH + 1 : 0; step < steps; step++) {
        const uint32_t k0 = step * DEPTH;
        stage(p.a_dtype, a, row, p.m, p.lda, k0, p.k, left);
        stage(p.b_dtype, b, column, p.n, p.ldb, k0, p.k, right);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < DEPTH; k++)
#pragma unroll
            for (int i = 0; i < PATCH; i++)
#pragma unroll
                for (int j = 0; j < PATCH; j++)
                    sum[i][j] = __fmaf_rn(left[k][y + i * SIDE], right[k][x + j * SIDE], sum[i][j]);
        __syncthreads();
    }
    const float *scale_a = rota_operand<const float>(args, ROTA_SCALED_SCALE_A);
    const float *scale_b = rota_operand<const float>(args, ROTA_SCALED_SCALE_B);
    const bool by_rows = p.flags & ROTA_SCALED_BY_ROWS, biased = p.flags & ROTA_SCALED_BIAS;
    by_dtype(p.y_dtype, [&](auto type) {
        using T = decltype(type);
        const T *bias = rota_operand<const T>(args, ROTA_SCALED_BIAS_OPERAND);
        T *to = rota_operand<T>(args, ROTA_SCALED_Y);
        for (int i = 0; i < PATCH; i++)
            for (int j = 0; j < PATCH; j++) {
                const uint32_t r = row + y + i * SIDE, c = column + x + j * SIDE;
                if (r >= p.m || c >= p.n) continue;
                const float scale = __fmul_rn(scale_a[by_rows ? r : 0], scale_b[by_rows ? c : 0]);
                float value = __fmul_rn(scale, sum[i][j]);
                if (biased) value = __fadd_rn(value, widen(bias[c]));
                to[static_cast<uint64_t>(r) * p.n + c] = narrow<T>(value);
            }
    });
}
