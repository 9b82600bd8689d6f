/* CPU kernels: copy_row, gather, scatter_add, one_hot, top_k. */
#include "ops/cpu/index.h"
#include "cpu.h"
#include "half.h"

rota_status rota_cpu_outside(const char *kernel, uint64_t position, int32_t index, uint32_t n) {
    return rota_fail(ROTA_NODE_FAILED, "%s: index %llu is %d, expected 0 to %u", kernel,
                     (unsigned long long)position, index, n - 1);
}

/* An item is a word. */
void rota_cpu_items_copy_row(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                             uint64_t *out_grain) {
    (void)operand_bytes;
    *out_items = ((const rota_copy_row_params *)params)->words;
    *out_grain = ROTA_CPU_GRAIN;
}

rota_status rota_cpu_copy_row(const rota_kernel_call *call) {
    const rota_copy_row_params *p = call->params;
    const int32_t index = *(const int32_t *)call->operands[0];
    if (index < 0 || (uint32_t)index >= p->rows) return rota_cpu_outside("copy_row", 0, index, p->rows);
    const uint32_t *x = (const uint32_t *)call->operands[1] + (uint64_t)index * p->x_step;
    uint32_t *y = (uint32_t *)call->operands[2] + (uint64_t)index * p->y_step;
    memcpy(y + call->begin, x + call->begin, (call->end - call->begin) * sizeof *y);
    return ROTA_OK;
}

/* An item is a result. */
void rota_cpu_items_gather(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                           uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_gather_params *p = params;
    *out_items = (uint64_t)p->outer * p->m * p->inner;
    *out_grain = ROTA_CPU_GRAIN;
}

rota_status rota_cpu_gather(const rota_kernel_call *call) {
    const rota_gather_params *p = call->params;
    const int32_t *index = call->operands[1];
    const bool half = p->dtype != ROTA_F32;
    for (uint64_t i = call->begin; i < call->end; i++) {
        if (index[i] < 0 || (uint32_t)index[i] >= p->n) return rota_cpu_outside("gather", i, index[i], p->n);
        const uint64_t outer = i / p->inner / p->m;
        const uint64_t from = (outer * p->n + (uint32_t)index[i]) * p->inner + i % p->inner;
        if (half)
            ((uint16_t *)call->operands[2])[i] = ((const uint16_t *)call->operands[0])[from];
        else
            ((uint32_t *)call->operands[2])[i] = ((const uint32_t *)call->operands[0])[from];
    }
    return ROTA_OK;
}

/* An item is a column of the result, which alone adds to it. */
void rota_cpu_items_scatter_add(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_gather_params *p = params;
    *out_items = (uint64_t)p->outer * p->inner;
    *out_grain = 1 + ROTA_CPU_GRAIN / p->m;
}

rota_status rota_cpu_scatter_add(const rota_kernel_call *call) {
    const rota_gather_params *p = call->params;
    const int32_t *index = call->operands[1];
    float *y = call->operands[2];
    for (uint64_t item = call->begin; item < call->end; item++) {
        const uint64_t outer = item / p->inner, column = item % p->inner;
        for (uint64_t j = 0; j < p->m; j++) {
            const uint64_t i = (outer * p->m + j) * p->inner + column;
            if (index[i] < 0 || (uint32_t)index[i] >= p->n)
                return rota_cpu_outside("scatter_add", i, index[i], p->n);
            y[(outer * p->n + (uint32_t)index[i]) * p->inner + column] +=
                rota_cpu_get(p->dtype, call->operands[0], i);
        }
    }
    return ROTA_OK;
}

/* An item is a row. */
void rota_cpu_items_one_hot(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                            uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_one_hot_params *p = params;
    *out_items = p->rows;
    *out_grain = 1 + ROTA_CPU_GRAIN / p->classes;
}

rota_status rota_cpu_one_hot(const rota_kernel_call *call) {
    const rota_one_hot_params *p = call->params;
    const int32_t *index = call->operands[0];
    for (uint64_t row = call->begin; row < call->end; row++) {
        if (index[row] < 0 || (uint32_t)index[row] >= p->classes)
            return rota_cpu_outside("one_hot", row, index[row], p->classes);
        for (uint64_t c = 0; c < p->classes; c++)
            rota_cpu_put(p->dtype, call->operands[1], row * p->classes + c,
                         c == (uint32_t)index[row] ? 1.0f : 0.0f);
    }
    return ROTA_OK;
}

/* An item is a column [n] of x. */
void rota_cpu_items_top_k(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                          uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_top_k_params *p = params;
    *out_items = (uint64_t)p->outer * p->inner;
    *out_grain = 1 + ROTA_CPU_GRAIN / p->n;
}

/* A number that grows with the value, NaN above all, and, of equal values, with smallness of the index. None is
 * 0 or UINT64_MAX, so that each is between what the search begins with. */
static uint64_t key_of(float value, uint32_t index) {
    const uint32_t bits = rota_f32_bits(value + 0.0f); /* -0 is 0 */
    const uint32_t ordered = value != value ? UINT32_MAX - 1 : bits >> 31 ? ~bits : bits | 0x80000000u;
    return (uint64_t)ordered << 32 | (uint32_t)~index;
}

rota_status rota_cpu_top_k(const rota_kernel_call *call) {
    const rota_top_k_params *p = call->params;
    int32_t *index = call->operands[2];
    for (uint64_t item = call->begin; item < call->end; item++) {
        const uint64_t outer = item / p->inner, column = item % p->inner;
        uint64_t before = UINT64_MAX;
        for (uint64_t k = 0; k < p->k; k++) {
            uint64_t best = 0;
            for (uint32_t i = 0; i < p->n; i++) {
                const uint64_t key = key_of(
                    rota_cpu_get(p->dtype, call->operands[0], (outer * p->n + i) * p->inner + column), i);
                if (key > best && key < before) best = key;
            }
            before = best;
            const uint64_t to = (outer * p->k + k) * p->inner + column;
            const uint32_t chosen = ~(uint32_t)best;
            index[to] = (int32_t)chosen;
            rota_cpu_put(
                p->dtype, call->operands[1], to,
                rota_cpu_get(p->dtype, call->operands[0], (outer * p->n + chosen) * p->inner + column));
        }
    }
    return ROTA_OK;
}
