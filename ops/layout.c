/* Reasoning about strides. */
#include "ops/layout.h"

#include <stdio.h>
#include "graph/buffer_internal.h" /* IWYU pragma: keep */

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

bool rota_strides_fit(const uint64_t *strides, uint32_t count, uint64_t *out_stride) {
    for (uint32_t i = 0; i < count; i++)
        if (strides[i] > UINT32_MAX) {
            *out_stride = strides[i];
            return false;
        }
    return true;
}

bool rota_walk_fits(const rota_walk *walk, uint32_t count, uint64_t *out_stride) {
    for (uint32_t s = 0; s < count; s++)
        if (!rota_strides_fit(walk->stride[s], walk->dims, out_stride)) return false;
    return true;
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

/* "[4, 1]" */
static const char *strides_text(const rota_tensor *tensor, char *text, uint64_t capacity) {
    uint64_t used = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < tensor->rank && used < capacity; i++) {
        int wrote = snprintf(text + used, capacity - used, "%s%llu", i ? ", " : "[",
                             (unsigned long long)tensor->stride[i]);
        used += wrote > 0 ? (uint64_t)wrote : 0;
    }
    if (tensor->rank && used + 1 < capacity) snprintf(text + used, capacity - used, "]");
    return tensor->rank ? text : "[]";
}

rota_status rota_tensor_check(const rota_tensor *x) {
    char text[ROTA_TENSOR_TEXT_MAX], strides[ROTA_TENSOR_TEXT_MAX];
    if ((unsigned)x->dtype >= ROTA_DTYPE_COUNT)
        return rota_fail(ROTA_INVALID_ARGUMENT, "is of dtype %d, which is none", (int)x->dtype);
    if (x->rank > ROTA_RANK_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT, "is of rank %u, at most %d", x->rank, ROTA_RANK_MAX);
    uint64_t count = 1;
    bool empty = false, many = false;
    for (uint32_t i = 0; i < x->rank; i++) {
        empty |= x->shape[i] == 0;
        many |= __builtin_mul_overflow(count, x->shape[i], &count) || count > UINT32_MAX;
    }
    if (many && !empty)
        return rota_fail(ROTA_INVALID_ARGUMENT, "is %s, more than %u elements",
                         rota_tensor_describe(x, text, sizeof text), UINT32_MAX);
    const uint64_t size = rota_buffer_size(x->buffer), extent = empty ? 0 : rota_tensor_extent_bytes(x);
    if (x->offset_bytes > size || extent > size - x->offset_bytes)
        return rota_fail(
            ROTA_OUT_OF_RANGE,
            "%s with strides %s at offset %llu passes buffer '%s' of %llu bytes: it reaches over "
            "%s%llu",
            rota_tensor_describe(x, text, sizeof text), strides_text(x, strides, sizeof strides),
            (unsigned long long)x->offset_bytes, rota_buffer_name(x->buffer), (unsigned long long)size,
            extent == INT64_MAX ? "at least " : "", (unsigned long long)extent);
    if (rota_tensor_begin(x) % rota_dtype_bytes(x->dtype) != 0)
        return rota_fail(ROTA_MISALIGNED, "%s begins at byte %llu of buffer '%s', expected a multiple of %u",
                         rota_tensor_describe(x, text, sizeof text), (unsigned long long)rota_tensor_begin(x),
                         rota_buffer_name(x->buffer), rota_dtype_bytes(x->dtype));
    return ROTA_OK;
}

void rota_tensor_resolve(rota_tensor *tensor) {
    tensor->offset_bytes = rota_tensor_begin(tensor);
    tensor->buffer = rota_tensor_root(tensor);
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
