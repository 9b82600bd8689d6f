/* CPU kernels: nonzero_counts, exclusive_sum, nonzero, select_rows. */
#include "base/divide.h"
#include "cpu.h"
#include "index.h"

/* ---- nonzero ---- */

/* The bits of a number, of any dtype, that are 0 where it is. */
static uint32_t magnitude_bits(uint32_t dtype) {
    return dtype == ROTA_F32 ? 0x7FFFFFFFu : dtype == ROTA_F16 || dtype == ROTA_BF16 ? 0x7FFFu : UINT32_MAX;
}
static bool is_half(uint32_t dtype) {
    return dtype == ROTA_F16 || dtype == ROTA_BF16;
}

/* An item is a chunk. */
static void chunk_items(const void *params, uint64_t *out_items, uint64_t *out_grain) {
    const rota_nonzero_params *p = params;
    *out_items = rota_divide_up(p->n, p->chunk);
    *out_grain = 1 + ROTA_CPU_GRAIN / p->chunk;
}
void rota_cpu_items_nonzero_counts(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                   uint64_t *out_grain) {
    (void)operand_bytes;
    chunk_items(params, out_items, out_grain);
}
void rota_cpu_items_nonzero(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                            uint64_t *out_grain) {
    (void)operand_bytes;
    chunk_items(params, out_items, out_grain);
}

static uint64_t chunk_end(const rota_nonzero_params *p, uint64_t chunk) {
    const uint64_t end = (chunk + 1) * p->chunk;
    return end < p->n ? end : p->n;
}

ROTA_VECTOR rota_status rota_cpu_nonzero_counts(const rota_kernel_call *call) {
    const rota_nonzero_params *p = call->params;
    const uint32_t bits = magnitude_bits(p->dtype);
    const uint32_t *words = call->operands[0];
    const uint16_t *halves = call->operands[0];
    for (uint64_t c = call->begin; c < call->end; c++) {
        const uint64_t begin = c * p->chunk, end = chunk_end(p, c);
        uint32_t count = 0;
        if (is_half(p->dtype))
            for (uint64_t i = begin; i < end; i++) count += (halves[i] & bits) != 0;
        else
            for (uint64_t i = begin; i < end; i++) count += (words[i] & bits) != 0;
        ((uint32_t *)call->operands[1])[c] = count;
    }
    return ROTA_OK;
}

rota_status rota_cpu_nonzero(const rota_kernel_call *call) {
    const rota_nonzero_params *p = call->params;
    const uint32_t bits = magnitude_bits(p->dtype), *offsets = call->operands[1],
                   total = *(const uint32_t *)call->operands[2];
    const uint32_t *words = call->operands[0];
    const uint16_t *halves = call->operands[0];
    int32_t *index = call->operands[3];
    for (uint64_t c = call->begin; c < call->end; c++) {
        const uint64_t begin = c * p->chunk, end = chunk_end(p, c);
        /* Next among those that are not zero, and among the others, which come behind. */
        uint64_t next[2] = {total + begin - offsets[c], offsets[c]};
        if (is_half(p->dtype))
            for (uint64_t i = begin; i < end; i++) index[next[(halves[i] & bits) != 0]++] = (int32_t)i;
        else
            for (uint64_t i = begin; i < end; i++) index[next[(words[i] & bits) != 0]++] = (int32_t)i;
    }
    return ROTA_OK;
}

/* ---- exclusive_sum: an item is a row ---- */

void rota_cpu_items_exclusive_sum(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                  uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_exclusive_sum_params *p = params;
    *out_items = p->rows;
    *out_grain = 1 + ROTA_CPU_GRAIN / p->n;
}

rota_status rota_cpu_exclusive_sum(const rota_kernel_call *call) {
    const rota_exclusive_sum_params *p = call->params;
    for (uint64_t row = call->begin; row < call->end; row++) {
        const uint32_t *x = (const uint32_t *)call->operands[0] + row * p->n;
        uint32_t *y = (uint32_t *)call->operands[1] + row * p->n, sum = 0;
        for (uint64_t k = 0; k < p->n; k++) {
            y[k] = sum;
            sum += x[k];
        }
        ((uint32_t *)call->operands[2])[row] = sum;
    }
    return ROTA_OK;
}

/* ---- select_rows: an item is a row of the permutation ---- */

void rota_cpu_items_select_rows(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_select_rows_params *p = params;
    *out_items = p->rows;
    *out_grain = 1 + ROTA_CPU_GRAIN / p->width;
}

rota_status rota_cpu_select_rows(const rota_kernel_call *call) {
    const rota_select_rows_params *p = call->params;
    const int32_t *index = call->operands[1];
    const uint32_t count = *(const uint32_t *)call->operands[2];
    const uint64_t bytes = (uint64_t)p->width * rota_dtype_bytes((rota_dtype)p->dtype);
    for (uint64_t j = call->begin; j < call->end; j++) {
        if (index[j] < 0 || (uint32_t)index[j] >= p->rows)
            return rota_cpu_outside("select_rows", j, index[j], p->rows);
        const uint64_t from = p->put ? j : (uint32_t)index[j], to = p->put ? (uint32_t)index[j] : j;
        char *y = (char *)call->operands[3] + to * bytes;
        if (j < count)
            memcpy(y, (const char *)call->operands[0] + from * bytes, bytes);
        else
            memset(y, 0, bytes);
    }
    return ROTA_OK;
}
