/* Reasoning about strides. */
#include "ops/layout.h"

#include "graph/buffer_internal.h"

void rota_walk_of(uint32_t rank, const uint64_t *shape, uint32_t count, const uint64_t *const *strides,
                  rota_walk *out_walk) {
    rota_walk walk = {0};
    for (uint32_t i = 0; i < rank; i++) {
        if (shape[i] == 1) continue;
        bool merges = walk.dims > 0;
        for (uint32_t s = 0; merges && s < count; s++)
            merges = walk.stride[s][walk.dims - 1] == strides[s][i] * shape[i];
        if (!merges) walk.shape[walk.dims++] = 1;
        walk.shape[walk.dims - 1] *= shape[i];
        for (uint32_t s = 0; s < count; s++) walk.stride[s][walk.dims - 1] = strides[s][i];
    }
    *out_walk = walk;
}

void rota_walk_pad(const uint64_t *values, uint32_t count, uint32_t dims, uint32_t filler,
                   uint32_t *out_values) {
    for (uint32_t i = 0; i < dims; i++)
        out_values[i] = i < dims - count ? filler : (uint32_t)values[i - (dims - count)];
}

bool rota_matrix_layout(uint64_t rows, uint64_t columns, uint64_t row_stride, uint64_t column_stride,
                        bool *out_transposed, uint64_t *out_ld) {
    if ((column_stride == 1 || columns == 1) && (row_stride >= columns || rows == 1)) {
        *out_transposed = false;
        *out_ld = rows == 1 ? columns : row_stride;
        return true;
    }
    if ((row_stride == 1 || rows == 1) && (column_stride >= rows || columns == 1)) {
        *out_transposed = true;
        *out_ld = columns == 1 ? rows : column_stride;
        return true;
    }
    return false;
}

uint64_t rota_tensor_rows(const rota_tensor *tensor) {
    uint64_t rows = 1;
    for (uint32_t i = 0; i + 1 < tensor->rank; i++) rows *= tensor->shape[i];
    return rows;
}

uint64_t rota_tensor_begin(const rota_tensor *tensor) {
    return tensor->buffer->root_offset + tensor->offset_bytes;
}

rota_buffer *rota_tensor_root(const rota_tensor *tensor) {
    return tensor->buffer->root;
}

bool rota_tensors_overlap(const rota_tensor *a, const rota_tensor *b) {
    if (rota_tensor_root(a) != rota_tensor_root(b)) return false;
    if (rota_tensor_is_empty(a) || rota_tensor_is_empty(b)) return false;
    uint64_t begin_a = rota_tensor_begin(a), begin_b = rota_tensor_begin(b);
    return begin_a < begin_b + rota_tensor_extent_bytes(b) && begin_b < begin_a + rota_tensor_extent_bytes(a);
}

bool rota_shapes_equal(const rota_tensor *a, const rota_tensor *b) {
    if (a->rank != b->rank) return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->shape[i] != b->shape[i]) return false;
    return true;
}

bool rota_tensors_equal(const rota_tensor *a, const rota_tensor *b) {
    if (rota_tensor_root(a) != rota_tensor_root(b) || rota_tensor_begin(a) != rota_tensor_begin(b))
        return false;
    if (a->dtype != b->dtype || !rota_shapes_equal(a, b)) return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->shape[i] != 1 && a->stride[i] != b->stride[i]) return false;
    return true;
}

static uint64_t greatest_common_divisor(uint64_t a, uint64_t b) {
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The tensor as runs of *out_run elements that begin at its offset plus multiples of *out_period (0: one
 * run). */
static void runs_of(const rota_tensor *tensor, uint64_t *out_run, uint64_t *out_period) {
    bool used[ROTA_RANK_MAX] = {false};
    uint64_t run = 1, period = 0;
    for (uint32_t n = 0; n < tensor->rank; n++)
        for (uint32_t i = 0; i < tensor->rank; i++)
            if (!used[i] && (tensor->shape[i] == 1 || tensor->stride[i] == run)) {
                used[i] = true;
                run *= tensor->shape[i];
            }
    for (uint32_t i = 0; i < tensor->rank; i++)
        if (!used[i]) period = greatest_common_divisor(period, tensor->stride[i]);
    *out_run = run;
    *out_period = period;
}

bool rota_tensors_disjoint(const rota_tensor *a, const rota_tensor *b) {
    if (!rota_tensors_overlap(a, b)) return true;
    if (a->dtype != b->dtype) return false;
    uint64_t run_a, run_b, period_a, period_b, size = rota_dtype_bytes(a->dtype);
    runs_of(a, &run_a, &period_a);
    runs_of(b, &run_b, &period_b);
    uint64_t period = greatest_common_divisor(period_a, period_b);
    if (period == 0) return false;
    uint64_t at_a = rota_tensor_begin(a) / size % period, at_b = rota_tensor_begin(b) / size % period;
    if (at_a + run_a > period || at_b + run_b > period) return false;
    return at_a + run_a <= at_b || at_b + run_b <= at_a;
}
