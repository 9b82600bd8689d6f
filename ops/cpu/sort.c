/* CPU kernels: sort_keys, sort_counts, sort, unique_counts, unique, top_p_sums, top_p. */
#include "base/divide.h"
#include "cpu.h"
#include "half.h"
#include "index.h"
#include "ops/sort_keys.h"

/* An item is a chunk of a row. */
static void chunk_items(uint64_t rows, uint32_t n, uint32_t chunk, uint64_t *out_items, uint64_t *out_grain) {
    *out_items = rows * rota_divide_up(n, chunk);
    *out_grain = 1 + ROTA_CPU_GRAIN / (n < chunk ? n : chunk);
}

typedef struct row_chunk {
    uint64_t row, number, of; /* it is number `number` of `of` in its row */
    uint64_t begin, end;      /* in the row */
} row_chunk;

static row_chunk chunk_of(uint64_t item, uint32_t n, uint32_t chunk) {
    row_chunk c = {.of = rota_divide_up(n, chunk)};
    c.row = item / c.of;
    c.number = item % c.of;
    c.begin = c.number * chunk;
    c.end = c.begin + chunk < n ? c.begin + chunk : n;
    return c;
}

/* ---- Sorting ---- */

void rota_cpu_items_sort_keys(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                              uint64_t *out_grain) {
    (void)operand_bytes;
    *out_items = ((const rota_sort_keys_params *)params)->n;
    *out_grain = ROTA_CPU_GRAIN;
}

_Static_assert((int)ROTA_KEY_I32 == (int)ROTA_I32 && (int)ROTA_KEY_U32 == (int)ROTA_U32, "rota_dtype");

rota_status rota_cpu_sort_keys(const rota_kernel_call *call) {
    const rota_sort_keys_params *p = call->params;
    const uint32_t *words = call->operands[0];
    uint32_t *keys = call->operands[1];
    for (uint64_t i = call->begin; i < call->end; i++)
        keys[i] = p->order == ROTA_SORT_PROBABLE
                      ? rota_key_probable(rota_f32_bits(rota_cpu_get(p->dtype, call->operands[0], i)))
                      : rota_key_rising(p->dtype, words[i]);
    return ROTA_OK;
}

void rota_cpu_items_sort_counts(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_sort_params *p = params;
    chunk_items(p->rows, p->n, p->chunk, out_items, out_grain);
}
void rota_cpu_items_sort(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                         uint64_t *out_grain) {
    rota_cpu_items_sort_counts(params, operand_bytes, out_items, out_grain);
}

rota_status rota_cpu_sort_counts(const rota_kernel_call *call) {
    const rota_sort_params *p = call->params;
    for (uint64_t item = call->begin; item < call->end; item++) {
        const row_chunk c = chunk_of(item, p->n, p->chunk);
        const uint32_t *keys = (const uint32_t *)call->operands[0] + c.row * p->n;
        uint32_t *counts = (uint32_t *)call->operands[1] + c.row * ROTA_SORT_DIGITS * c.of + c.number;
        uint32_t found[ROTA_SORT_DIGITS] = {0};
        for (uint64_t i = c.begin; i < c.end; i++) found[keys[i] >> p->shift & (ROTA_SORT_DIGITS - 1)]++;
        for (uint32_t digit = 0; digit < ROTA_SORT_DIGITS; digit++) counts[digit * c.of] = found[digit];
    }
    return ROTA_OK;
}

rota_status rota_cpu_sort(const rota_kernel_call *call) {
    const rota_sort_params *p = call->params;
    for (uint64_t item = call->begin; item < call->end; item++) {
        const row_chunk c = chunk_of(item, p->n, p->chunk);
        const uint64_t base = c.row * p->n;
        const uint32_t *keys = (const uint32_t *)call->operands[0] + base,
                       *offsets =
                           (const uint32_t *)call->operands[2] + c.row * ROTA_SORT_DIGITS * c.of + c.number;
        const int32_t *index = (const int32_t *)call->operands[1] + base;
        uint32_t *to_keys = (uint32_t *)call->operands[3] + base, next[ROTA_SORT_DIGITS];
        int32_t *to_index = (int32_t *)call->operands[4] + base;
        for (uint32_t digit = 0; digit < ROTA_SORT_DIGITS; digit++) next[digit] = offsets[digit * c.of];
        for (uint64_t i = c.begin; i < c.end; i++) {
            const uint32_t to = next[keys[i] >> p->shift & (ROTA_SORT_DIGITS - 1)]++;
            to_keys[to] = keys[i];
            to_index[to] = p->is_first ? (int32_t)i : index[i];
        }
    }
    return ROTA_OK;
}

/* ---- unique ---- */

void rota_cpu_items_unique_counts(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                  uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_unique_params *p = params;
    chunk_items(1, p->n, p->chunk, out_items, out_grain);
}
void rota_cpu_items_unique(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                           uint64_t *out_grain) {
    rota_cpu_items_unique_counts(params, operand_bytes, out_items, out_grain);
}

static bool is_start(const uint32_t *keys, uint64_t i) {
    return i == 0 || keys[i] != keys[i - 1];
}

rota_status rota_cpu_unique_counts(const rota_kernel_call *call) {
    const rota_unique_params *p = call->params;
    for (uint64_t item = call->begin; item < call->end; item++) {
        const row_chunk c = chunk_of(item, p->n, p->chunk);
        uint32_t count = 0;
        for (uint64_t i = c.begin; i < c.end; i++) count += is_start(call->operands[0], i);
        ((uint32_t *)call->operands[1])[item] = count;
    }
    return ROTA_OK;
}

rota_status rota_cpu_unique(const rota_kernel_call *call) {
    const rota_unique_params *p = call->params;
    const uint32_t *keys = call->operands[0], *offsets = call->operands[2],
                   total = *(const uint32_t *)call->operands[3];
    const int32_t *index = call->operands[1];
    uint32_t *y = call->operands[4];
    int32_t *inverse = call->operands[5];
    for (uint64_t item = call->begin; item < call->end; item++) {
        const row_chunk c = chunk_of(item, p->n, p->chunk);
        uint64_t rank = offsets[item]; /* of kinds that began before */
        for (uint64_t i = c.begin; i < c.end; i++) {
            if (index[i] < 0 || (uint32_t)index[i] >= p->n)
                return rota_cpu_outside("unique", i, index[i], p->n);
            if (is_start(keys, i))
                y[rank++] = rota_key_number(p->dtype, keys[i]);
            else
                y[total + (i - rank)] = 0;
            inverse[index[i]] = (int32_t)rank - 1;
        }
    }
    return ROTA_OK;
}

/* ---- top_p ---- */

void rota_cpu_items_top_p_sums(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                               uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_top_p_params *p = params;
    chunk_items(p->rows, p->n, p->chunk, out_items, out_grain);
}

rota_status rota_cpu_top_p_sums(const rota_kernel_call *call) {
    const rota_top_p_params *p = call->params;
    for (uint64_t item = call->begin; item < call->end; item++) {
        const row_chunk c = chunk_of(item, p->n, p->chunk);
        const uint32_t *keys = (const uint32_t *)call->operands[0] + c.row * p->n;
        uint64_t sum = 0;
        for (uint64_t i = c.begin; i < c.end; i++) sum += rota_key_weight(keys[i]);
        memcpy((char *)call->operands[1] + item * sizeof sum, &sum, sizeof sum);
    }
    return ROTA_OK;
}

/* An item is a row. */
void rota_cpu_items_top_p(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                          uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_top_p_params *p = params;
    *out_items = p->rows;
    *out_grain = 1 + ROTA_CPU_GRAIN / p->chunk;
}

static uint64_t chunk_sum(const void *sums, uint64_t number) {
    uint64_t sum;
    memcpy(&sum, (const char *)sums + number * sizeof sum, sizeof sum);
    return sum;
}

rota_status rota_cpu_top_p(const rota_kernel_call *call) {
    const rota_top_p_params *p = call->params;
    const uint64_t chunks = rota_divide_up(p->n, p->chunk);
    for (uint64_t row = call->begin; row < call->end; row++) {
        const uint32_t *keys = (const uint32_t *)call->operands[0] + row * p->n;
        uint64_t total = 0, sum = 0, number = 0;
        for (uint64_t c = 0; c < chunks; c++) total += chunk_sum(call->operands[1], row * chunks + c);
        const uint64_t wanted = rota_key_share(p->p, total);
        while (number + 1 < chunks && sum + chunk_sum(call->operands[1], row * chunks + number) < wanted)
            sum += chunk_sum(call->operands[1], row * chunks + number++);
        uint64_t i = number * p->chunk;
        while (i + 1 < p->n && (sum += rota_key_weight(keys[i])) < wanted) i++;
        ((int32_t *)call->operands[2])[row] = (int32_t)i + 1;
    }
    return ROTA_OK;
}
