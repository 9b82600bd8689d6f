/* See kernels.h. */
#include "examples/cg/kernels.h"

#include <math.h>
#include "cuda/cg_cuda.h"
#include "spv/cg_begin.h"
#include "spv/cg_choose_mix.h"
#include "spv/cg_choose_step.h"
#include "spv/cg_dot.h"
#include "spv/cg_product.h"
#include "spv/cg_turn.h"
#include "spv/cg_update.h"

/* ---- On CPUs ---- */

static void items_of_rows(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                          uint64_t *out_grain) {
    (void)operand_bytes;
    *out_items = ((const cg_params *)params)->rows;
    *out_grain = ((const cg_params *)params)->grain;
}

uint64_t cg_blocks(uint64_t rows) {
    return (rows + CG_BLOCK_ROWS - 1) / CG_BLOCK_ROWS;
}

static void items_of_blocks(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                            uint64_t *out_grain) {
    (void)operand_bytes;
    *out_items = cg_blocks(((const cg_params *)params)->rows);
    *out_grain = CG_GRAIN_BLOCKS;
}

/* q = A p, a row an item. */
static rota_status product(const rota_kernel_call *call) {
    const uint64_t *starts = call->operands[0];
    const uint32_t *columns = call->operands[1];
    const double *values = call->operands[2], *p = call->operands[3];
    double *q = call->operands[4];
    for (uint64_t row = call->begin; row < call->end; row++) {
        double sum = 0;
        for (uint64_t i = starts[row]; i < starts[row + 1]; i++) sum += values[i] * p[columns[i]];
        q[row] = sum;
    }
    return ROTA_OK;
}

/* Parts of a.b, a block of rows an item. */
static rota_status dot(const rota_kernel_call *call) {
    const uint64_t rows = ((const cg_params *)call->params)->rows;
    const double *a = call->operands[0], *b = call->operands[1];
    double *parts = call->operands[2];
    for (uint64_t block = call->begin; block < call->end; block++) {
        const uint64_t first = block * CG_BLOCK_ROWS,
                       end = first + CG_BLOCK_ROWS < rows ? first + CG_BLOCK_ROWS : rows;
        double sums[4] = {0};
        uint64_t i = first;
        for (; i + 4 <= end; i += 4)
            for (uint64_t k = 0; k < 4; k++) sums[k] += a[i + k] * b[i + k];
        for (; i < end; i++) sums[0] += a[i] * b[i];
        parts[block] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
    return ROTA_OK;
}

/* y += sign factor v. */
static rota_status update(const rota_kernel_call *call) {
    const double *v = call->operands[0];
    const double factor = ((const cg_params *)call->params)->factor * *(const double *)call->operands[1];
    double *y = call->operands[2];
    for (uint64_t i = call->begin; i < call->end; i++) y[i] += factor * v[i];
    return ROTA_OK;
}

/* p = r + mix p. */
static rota_status turn(const rota_kernel_call *call) {
    const double *r = call->operands[0], mix = *(const double *)call->operands[1];
    double *p = call->operands[2];
    for (uint64_t i = call->begin; i < call->end; i++) p[i] = r[i] + mix * p[i];
    return ROTA_OK;
}

static double sum_parts(const rota_kernel_call *call) {
    const double *parts = call->operands[0];
    double sum = 0;
    for (uint64_t i = 0; i < call->operand_bytes[0] / sizeof *parts; i++) sum += parts[i];
    return sum;
}

/* Of parts of b.b, which is the first r.r: r.r, where it is enough, more and iterations. */
static rota_status begin(const rota_kernel_call *call) {
    const double tolerance = ((const cg_params *)call->params)->factor, square = sum_parts(call);
    uint32_t *more = call->operands[3];
    *(double *)call->operands[1] = square;
    *(double *)call->operands[2] = tolerance * tolerance * square;
    more[0] = square > tolerance * tolerance * square;
    more[1] = 0;
    if (isfinite(square)) return ROTA_OK;
    return rota_fail(ROTA_NODE_FAILED, "the right-hand side's norm is too large: its square is %g", square);
}

/* Of parts of p.q, and r.r: step. */
static rota_status choose_step(const rota_kernel_call *call) {
    const double curvature = sum_parts(call);
    *(double *)call->operands[2] = *(const double *)call->operands[1] / curvature;
    if (curvature > 0 && isfinite(curvature)) return ROTA_OK;
    return rota_fail(ROTA_NODE_FAILED,
                     "p.Ap is %g, expected more than 0: the matrix is not positive definite", curvature);
}

/* Of parts of the new r.r, r.r and where it is enough: mix, more and iterations. */
static rota_status choose_mix(const rota_kernel_call *call) {
    double *square = call->operands[1];
    const double next = sum_parts(call), enough = *(const double *)call->operands[2];
    uint32_t *more = call->operands[4];
    *(double *)call->operands[3] = next / *square;
    *square = next;
    more[0] = !(next <= enough);
    more[1]++;
    return ROTA_OK;
}

/* ---- On GPUs ---- */

enum { GROUP_THREADS = 256, GROUPS_ALONG = 65535 };

static void fold(uint64_t groups, uint32_t out_groups[3]) {
    const uint64_t along = groups < GROUPS_ALONG ? groups : GROUPS_ALONG;
    out_groups[0] = (uint32_t)along;
    out_groups[1] = (uint32_t)((groups + along - 1) / along);
    out_groups[2] = 1;
}

static void grid_of_rows(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {
    (void)operand_bytes;
    fold((((const cg_params *)params)->rows + GROUP_THREADS - 1) / GROUP_THREADS, out_groups);
}

static void grid_of_blocks(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {
    (void)operand_bytes;
    fold(cg_blocks(((const cg_params *)params)->rows), out_groups);
}

static void grid_of_one(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {
    (void)params;
    (void)operand_bytes;
    fold(1, out_groups);
}

#define KERNEL(called, what, operands, items_fn, grid_fn)                                                    \
    {                                                                                                        \
        .name = called, .operand_count = operands, .param_bytes = sizeof(cg_params),                         \
        .cpu = {.fn = what, .items = items_fn},                                                              \
        .vk = {.words = rota_spv_cg_##what,                                                                  \
               .size_bytes = sizeof rota_spv_cg_##what,                                                      \
               .grid = grid_fn,                                                                              \
               .required_features = ROTA_FEATURE_F64},                                                       \
        .cuda = {ROTA_CUDA_IMAGE_cg_cuda, .entry = ROTA_CUDA_ENTRY_cg_cuda(cg_##what), .grid = grid_fn,      \
                 .block = {GROUP_THREADS, 1, 1}},                                                            \
    }

const rota_kernel cg_kernel_product = KERNEL("product", product, 5, items_of_rows, grid_of_rows);
const rota_kernel cg_kernel_dot = KERNEL("dot", dot, 3, items_of_blocks, grid_of_blocks);
const rota_kernel cg_kernel_update = KERNEL("update", update, 3, items_of_rows, grid_of_rows);
const rota_kernel cg_kernel_turn = KERNEL("turn", turn, 3, items_of_rows, grid_of_rows);
const rota_kernel cg_kernel_begin = KERNEL("begin", begin, 4, NULL, grid_of_one);
const rota_kernel cg_kernel_choose_step = KERNEL("choose step", choose_step, 3, NULL, grid_of_one);
const rota_kernel cg_kernel_choose_mix = KERNEL("choose mix", choose_mix, 5, NULL, grid_of_one);
