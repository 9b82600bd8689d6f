/* CPU kernels that follow indices: embedding, embedding_backward, index_add. */
#include "cpu.h"
#include "half.h"
#include "ops/cpu/index.h"
#include "rows.h"

#include <stdlib.h>
#include "base/atomic.h"

/* Columns of the table that one item of embedding_backward owns: a cache line of floats. */
enum { COLUMNS = 16 };

static uint32_t all_classes(const rota_embedding_params *p) {
    return p->all ? p->all : p->classes;
}

static bool is_outside(const rota_embedding_params *p, int32_t index) {
    return index < 0 || (uint32_t)index >= all_classes(p);
}

/* Of the table; of one that is elsewhere far outside. */
static uint32_t row_of(const rota_embedding_params *p, int32_t index) {
    return (uint32_t)index - p->first;
}

void rota_cpu_items_embedding(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                              uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_embedding_params *p = params;
    *out_items = p->rows;
    *out_grain = 1 + ROTA_CPU_GRAIN / p->dim;
}

rota_status rota_cpu_embedding(const rota_kernel_call *call) {
    const rota_embedding_params *p = call->params;
    const uint64_t row_bytes = (uint64_t)p->dim * rota_dtype_bytes((rota_dtype)p->dtype);
    const uint8_t *table = call->operands[0];
    const int32_t *index = call->operands[1];
    uint8_t *y = call->operands[2];
    for (uint64_t r = call->begin; r < call->end; r++) {
        const uint32_t row = row_of(p, index[r]);
        if (is_outside(p, index[r])) return rota_cpu_outside("embedding", r, index[r], all_classes(p));
        if (row < p->classes)
            memcpy(y + r * row_bytes, table + row * row_bytes, row_bytes);
        else
            memset(y + r * row_bytes, 0, row_bytes);
    }
    return ROTA_OK;
}

/* An item owns columns of the whole table, so no two add to one element, and adds in the order of the rows.
 */
void rota_cpu_items_embedding_backward(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                       uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_embedding_params *p = params;
    *out_items = ((uint64_t)p->dim + COLUMNS - 1) / COLUMNS;
    *out_grain = 1 + ROTA_CPU_GRAIN / (COLUMNS * ((uint64_t)p->rows + p->classes));
}

/* Columns [first, end) of the table's gradient, summed in `sums` [classes, stride]. */
static rota_status add_rows(const rota_embedding_params *p, const void *dy, const int32_t *index,
                            uint64_t first, uint64_t end, float *sums, uint64_t stride) {
    float wide[COLUMNS];
    for (uint64_t r = 0; r < p->rows; r++) {
        const uint32_t row = row_of(p, index[r]);
        if (is_outside(p, index[r]))
            return rota_cpu_outside("embedding_backward", r, index[r], all_classes(p));
        if (row >= p->classes) continue;
        const float *from = rota_cpu_widen(p->dtype, dy, r * p->dim + first, end - first, wide);
        float *to = sums + row * stride;
        for (uint64_t c = 0; c < end - first; c++) to[c] += from[c];
    }
    return ROTA_OK;
}

rota_status rota_cpu_embedding_backward(const rota_kernel_call *call) {
    const rota_embedding_params *p = call->params;
    const uint64_t floats = (uint64_t)p->classes * COLUMNS;
    float *scratch;
    if (!rota_cpu_scratch(p->dtype, floats, &scratch))
        return rota_cpu_no_scratch("embedding_backward", floats);
    rota_status status = ROTA_OK;
    for (uint64_t item = call->begin; item < call->end && status == ROTA_OK; item++) {
        const uint64_t first = item * COLUMNS, end = first + COLUMNS < p->dim ? first + COLUMNS : p->dim;
        const uint64_t stride = scratch ? end - first : p->dim;
        float *sums = scratch ? scratch : (float *)call->operands[2] + first;
        if (!p->accumulate)
            for (uint64_t c = 0; c < p->classes; c++)
                memset(sums + c * stride, 0, (end - first) * sizeof(float));
        else if (scratch)
            rota_cpu_widen_rows(p->dtype, call->operands[2], first, p->classes, end - first, p->dim, scratch);
        status = add_rows(p, call->operands[0], call->operands[1], first, end, sums, stride);
        if (scratch)
            rota_cpu_narrow_rows(p->dtype, scratch, p->classes, end - first, call->operands[2], first,
                                 p->dim);
    }
    free(scratch);
    return status;
}

void rota_cpu_items_index_add(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                              uint64_t *out_grain) {
    (void)operand_bytes;
    *out_items = ((const rota_index_add_params *)params)->rows;
    *out_grain = ROTA_CPU_GRAIN;
}

rota_status rota_cpu_index_add(const rota_kernel_call *call) {
    const rota_index_add_params *p = call->params;
    const int32_t *index = call->operands[0];
    _Atomic uint32_t *y = call->operands[1];
    for (uint64_t r = call->begin; r < call->end; r++) {
        if (index[r] < 0 || (uint32_t)index[r] >= p->size)
            return rota_cpu_outside("index_add", r, index[r], p->size);
        ra_fetch_add_relaxed(&y[index[r]], (uint32_t)p->value);
    }
    return ROTA_OK;
}
