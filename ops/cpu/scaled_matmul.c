/* CPU kernel: scaled_matmul. An item is a tile of the result; its operands are widened in blocks along the sum, and
 * multiplied by a BLAS, in f32. The tiles follow from the shape alone, so results do not depend on the workers. */
#include "cpu.h"
#include "gemm.h"
#include "half.h"

enum { TILE_M = 64, TILE_N = 128, BLOCK_K = 256 };
/* Multiply-adds of a task at the least. */
#define TASK_WORK (UINT64_C(512) << 10)

static uint64_t columns_of(const rota_scaled_matmul_params *p) {
    return ((uint64_t)p->n + TILE_N - 1) / TILE_N;
}

void rota_cpu_items_scaled_matmul(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                  uint64_t *out_grain) {
    const rota_scaled_matmul_params *p = params;
    (void)operand_bytes;
    *out_items = ((uint64_t)p->m + TILE_M - 1) / TILE_M * columns_of(p);
    *out_grain = 1 + TASK_WORK / ((uint64_t)TILE_M * TILE_N * p->k);
}

/* `depth` elements of `count` rows, row after row. */
static void widen(uint32_t dtype, const uint8_t *x, uint64_t ld, uint64_t count, uint64_t depth, float *to) {
    for (uint64_t r = 0; r < count; r++)
        (void)rota_cpu_widen(dtype, x, r * ld, depth, to + r * depth); /* never f32, which would stay */
}

/* Sums of row `row`, from column `column` on, scaled and with the bias, to y. */
static void finish(const rota_kernel_call *call, uint64_t row, uint64_t column, uint64_t width,
                   const float *sum) {
    const rota_scaled_matmul_params *p = call->params;
    const float *scale_a = call->operands[ROTA_SCALED_SCALE_A],
                *scale_b = call->operands[ROTA_SCALED_SCALE_B];
    const bool by_rows = (p->flags & ROTA_SCALED_BY_ROWS) != 0, biased = (p->flags & ROTA_SCALED_BIAS) != 0;
    const uint64_t first = row * p->n + column;
    float wide[TILE_N], bias[TILE_N];
    float *y = rota_cpu_results(p->y_dtype, call->operands[ROTA_SCALED_Y], first, wide);
    const float *b =
        biased ? rota_cpu_widen(p->y_dtype, call->operands[ROTA_SCALED_BIAS_OPERAND], column, width, bias)
               : NULL;
    for (uint64_t j = 0; j < width; j++) {
        const float scale = scale_a[by_rows ? row : 0] * scale_b[by_rows ? column + j : 0];
        y[j] = scale * sum[j];
        if (b) y[j] += b[j];
    }
    rota_cpu_narrow(p->y_dtype, y, call->operands[ROTA_SCALED_Y], first, width);
}

static void tile(const rota_kernel_call *call, uint64_t row, uint64_t column) {
    const rota_scaled_matmul_params *p = call->params;
    const uint8_t *a = (const uint8_t *)call->operands[ROTA_SCALED_A] + row * p->lda;
    const uint8_t *b = (const uint8_t *)call->operands[ROTA_SCALED_B] + column * p->ldb;
    const uint64_t height = p->m - row < TILE_M ? p->m - row : TILE_M,
                   width = p->n - column < TILE_N ? p->n - column : TILE_N;
    float wide_a[TILE_M * BLOCK_K], wide_b[TILE_N * BLOCK_K], sum[TILE_M * TILE_N];
    for (uint64_t k0 = 0; k0 < p->k; k0 += BLOCK_K) {
        const uint64_t depth = p->k - k0 < BLOCK_K ? p->k - k0 : BLOCK_K;
        widen(p->a_dtype, a + k0, p->lda, height, depth, wide_a);
        widen(p->b_dtype, b + k0, p->ldb, width, depth, wide_b);
        rota_cpu_sgemm(false, true, height, width, depth, 1.0f, wide_a, depth, wide_b, depth,
                       k0 == 0 ? 0.0f : 1.0f, sum, width);
    }
    for (uint64_t r = 0; r < height; r++) finish(call, row + r, column, width, sum + r * width);
}

rota_status rota_cpu_scaled_matmul(const rota_kernel_call *call) {
    const uint64_t columns = columns_of(call->params);
    for (uint64_t item = call->begin; item < call->end; item++)
        tile(call, item / columns * TILE_M, item % columns * TILE_N);
    return ROTA_OK;
}
