/* Tensors and their views. */
#include "ops/tensor.h"
#include "base/given.h"

#include <stdio.h>
#include <string.h>

const char *rota_dtype_name(rota_dtype dtype) {
    static const char *const names[] = {
#define NAME(name, text, bytes) text,
        ROTA_DTYPE_LIST(NAME)
#undef NAME
    };
    return (unsigned)dtype < ROTA_DTYPE_COUNT ? names[dtype] : "unknown";
}

uint32_t rota_dtype_bytes(rota_dtype dtype) {
    static const uint32_t sizes[] = {
#define BYTES(name, text, bytes) bytes,
        ROTA_DTYPE_LIST(BYTES)
#undef BYTES
    };
    return (unsigned)dtype < ROTA_DTYPE_COUNT ? sizes[dtype] : 0;
}

bool rota_dtype_is_real(rota_dtype dtype) {
    return dtype == ROTA_F32 || dtype == ROTA_F16 || dtype == ROTA_BF16;
}

bool rota_dtype_is_f8(rota_dtype dtype) {
    return dtype == ROTA_F8_E4M3FN || dtype == ROTA_F8_E5M2;
}

const char *rota_tensor_describe(const rota_tensor *tensor, char *text, uint64_t capacity) {
    if (!text || capacity == 0) return text;
    *text = 0;
    if (!tensor) return text;
    uint64_t used = 0;
    for (uint32_t i = 0; i <= tensor->rank && i <= ROTA_RANK_MAX && used < capacity; i++) {
        int wrote;
        if (i == 0)
            wrote = snprintf(text, capacity, "%s [", rota_dtype_name(tensor->dtype));
        else
            wrote = snprintf(text + used, capacity - used, "%s%llu", i == 1 ? "" : ", ",
                             (unsigned long long)tensor->shape[i - 1]);
        used += wrote > 0 ? (uint64_t)wrote : 0;
    }
    if (used + 1 < capacity) snprintf(text + used, capacity - used, "]");
    return text;
}

uint64_t rota_tensor_count(const rota_tensor *tensor) {
    uint64_t count = 1;
    if (!tensor || tensor->rank > ROTA_RANK_MAX) return 0;
    for (uint32_t i = 0; i < tensor->rank; i++) count *= tensor->shape[i];
    return count;
}

bool rota_tensor_is_empty(const rota_tensor *tensor) {
    return rota_tensor_count(tensor) == 0;
}

uint64_t rota_tensor_extent_bytes(const rota_tensor *tensor) {
    uint64_t last = 0, step, bytes;
    bool beyond = false;
    if (rota_tensor_is_empty(tensor)) return 0;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        beyond |= __builtin_mul_overflow(tensor->shape[i] - 1, tensor->stride[i], &step);
        beyond |= __builtin_add_overflow(last, step, &last);
    }
    beyond |= __builtin_add_overflow(last, 1, &last);
    beyond |= __builtin_mul_overflow(last, (uint64_t)rota_dtype_bytes(tensor->dtype), &bytes);
    return beyond || bytes > INT64_MAX ? INT64_MAX : bytes;
}

uint64_t rota_shape_bytes(rota_dtype dtype, uint32_t rank, const uint64_t *shape) {
    uint64_t bytes = rota_dtype_bytes(dtype);
    if (rank > ROTA_RANK_MAX || (rank && !shape)) return 0;
    for (uint32_t i = 0; i < rank; i++) bytes *= shape[i];
    return bytes;
}

static void set_contiguous(rota_tensor *tensor) {
    uint64_t stride = 1;
    for (uint32_t i = tensor->rank; i-- > 0;) {
        tensor->stride[i] = stride;
        stride *= tensor->shape[i];
    }
}

bool rota_tensor_is_contiguous(const rota_tensor *tensor) {
    uint64_t stride = 1;
    if (rota_tensor_is_empty(tensor)) return true;
    for (uint32_t i = tensor->rank; i-- > 0;) {
        if (tensor->shape[i] != 1 && tensor->stride[i] != stride) return false;
        stride *= tensor->shape[i];
    }
    return true;
}

bool rota_tensor_is_dense(const rota_tensor *tensor) {
    bool used[ROTA_RANK_MAX] = {false};
    uint64_t stride = 1;
    if (rota_tensor_is_empty(tensor)) return true;
    for (uint32_t n = 0; n < tensor->rank; n++) {
        uint32_t next = tensor->rank;
        for (uint32_t i = 0; i < tensor->rank; i++)
            if (!used[i] && (tensor->shape[i] == 1 || tensor->stride[i] == stride)) next = i;
        if (next == tensor->rank) return false;
        used[next] = true;
        stride *= tensor->shape[next];
    }
    return true;
}

rota_status rota_tensor_of(rota_buffer *buffer, uint64_t offset_bytes, rota_dtype dtype, uint32_t rank,
                           const uint64_t *shape, rota_tensor *out_tensor) {
    ROTA_GIVEN_ARRAY(shape, rank);
    ROTA_GIVEN(out_tensor);
    if ((unsigned)dtype >= ROTA_DTYPE_COUNT)
        return rota_fail(ROTA_INVALID_ARGUMENT, "tensor: dtype %d is none", (int)dtype);
    if (rank > ROTA_RANK_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT, "tensor: rank %u, at most %d", rank, ROTA_RANK_MAX);
    rota_tensor tensor = {.buffer = buffer, .offset_bytes = offset_bytes, .dtype = dtype, .rank = rank};
    uint64_t count = 1;
    for (uint32_t i = 0; i < rank; i++) {
        tensor.shape[i] = shape[i];
        if (count != 0 && shape[i] > UINT32_MAX / count)
            return rota_fail(ROTA_INVALID_ARGUMENT, "tensor: more than %u elements", UINT32_MAX);
        count *= shape[i];
    }
    set_contiguous(&tensor);
    if (offset_bytes % rota_dtype_bytes(dtype) != 0)
        return rota_fail(ROTA_MISALIGNED,
                         "tensor in buffer '%s': offset %llu is no multiple of %s's %u bytes",
                         buffer ? rota_buffer_name(buffer) : "", (unsigned long long)offset_bytes,
                         rota_dtype_name(dtype), rota_dtype_bytes(dtype));
    uint64_t bytes = count * rota_dtype_bytes(dtype);
    if (buffer &&
        (offset_bytes > rota_buffer_size(buffer) || bytes > rota_buffer_size(buffer) - offset_bytes)) {
        char text[ROTA_TENSOR_TEXT_MAX];
        return rota_fail(ROTA_OUT_OF_RANGE,
                         "tensor %s needs %llu bytes from offset %llu; buffer '%s' has %llu",
                         rota_tensor_describe(&tensor, text, sizeof text), (unsigned long long)bytes,
                         (unsigned long long)offset_bytes, rota_buffer_name(buffer),
                         (unsigned long long)rota_buffer_size(buffer));
    }
    *out_tensor = tensor;
    return ROTA_OK;
}

/* A tensor may be made by hand. */
static rota_status check_rank(const char *what, const rota_tensor *tensor) {
    if (tensor->rank <= ROTA_RANK_MAX) return ROTA_OK;
    return rota_fail(ROTA_INVALID_ARGUMENT, "%s: a tensor of rank %u, at most %d", what, tensor->rank,
                     ROTA_RANK_MAX);
}

/* Gives `to` (whose shape is set) strides that walk the same elements as `from` does, or returns false. Runs
 * of axes that hold the same number of elements on both sides must be without gaps inside. */
static bool reshape_strides(const rota_tensor *from, rota_tensor *to) {
    uint32_t f = 0, t = 0;
    if (rota_tensor_is_empty(from)) return true; /* no element to walk to */
    while (f < from->rank || t < to->rank) {
        uint32_t f0 = f, t0 = t;
        uint64_t nf = f < from->rank ? from->shape[f++] : 1, nt = t < to->rank ? to->shape[t++] : 1;
        while (nf != nt) {
            if (nf < nt)
                nf *= from->shape[f++];
            else
                nt *= to->shape[t++];
        }
        uint64_t stride = 1, inner = 1;
        bool seen = false;
        for (uint32_t i = f; i-- > f0;) {
            if (from->shape[i] == 1) continue;
            if (seen && from->stride[i] != stride * inner) return false;
            if (!seen) stride = from->stride[i];
            seen = true;
            inner *= from->shape[i];
        }
        for (uint32_t i = t; i-- > t0;) {
            to->stride[i] = stride;
            stride *= to->shape[i];
        }
    }
    return true;
}

rota_status rota_tensor_reshape(const rota_tensor *tensor, uint32_t rank, const uint64_t *shape,
                                rota_tensor *out_view) {
    ROTA_GIVEN(tensor);
    ROTA_GIVEN_ARRAY(shape, rank);
    ROTA_GIVEN(out_view);
    char before[ROTA_TENSOR_TEXT_MAX], after[ROTA_TENSOR_TEXT_MAX];
    rota_tensor view;
    ROTA_TRY(check_rank("reshape", tensor));
    ROTA_TRY(rota_tensor_of(NULL, 0, tensor->dtype, rank, shape, &view));
    view.buffer = tensor->buffer;
    view.offset_bytes = tensor->offset_bytes;
    if (rota_tensor_count(tensor) != rota_tensor_count(&view))
        return rota_fail(ROTA_INVALID_ARGUMENT, "reshape: %s has %llu elements, %s has %llu",
                         rota_tensor_describe(tensor, before, sizeof before),
                         (unsigned long long)rota_tensor_count(tensor),
                         rota_tensor_describe(&view, after, sizeof after),
                         (unsigned long long)rota_tensor_count(&view));
    if (!reshape_strides(tensor, &view))
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "reshape: strides of %s can't be read as %s; make it contiguous first",
                         rota_tensor_describe(tensor, before, sizeof before),
                         rota_tensor_describe(&view, after, sizeof after));
    *out_view = view;
    return ROTA_OK;
}

static rota_status check_axis(const char *what, const rota_tensor *tensor, uint32_t axis) {
    ROTA_TRY(check_rank(what, tensor));
    if (axis < tensor->rank) return ROTA_OK;
    char text[ROTA_TENSOR_TEXT_MAX];
    return rota_fail(ROTA_INVALID_ARGUMENT, "%s: axis %u of %s, which has %u", what, axis,
                     rota_tensor_describe(tensor, text, sizeof text), tensor->rank);
}

rota_status rota_tensor_slice(const rota_tensor *tensor, uint32_t axis, uint64_t start, uint64_t length,
                              rota_tensor *out_view) {
    ROTA_GIVEN(tensor);
    ROTA_GIVEN(out_view);
    ROTA_TRY(check_axis("slice", tensor, axis));
    char text[ROTA_TENSOR_TEXT_MAX];
    if (start > tensor->shape[axis] || length > tensor->shape[axis] - start)
        return rota_fail(ROTA_OUT_OF_RANGE, "slice: [%llu, %llu + %llu) of axis %u of %s",
                         (unsigned long long)start, (unsigned long long)start, (unsigned long long)length,
                         axis, rota_tensor_describe(tensor, text, sizeof text));
    rota_tensor view = *tensor;
    uint64_t before;
    if (__builtin_mul_overflow(start, tensor->stride[axis], &before) ||
        __builtin_mul_overflow(before, (uint64_t)rota_dtype_bytes(tensor->dtype), &before) ||
        __builtin_add_overflow(view.offset_bytes, before, &view.offset_bytes) ||
        view.offset_bytes > INT64_MAX)
        return rota_fail(
            ROTA_OUT_OF_RANGE,
            "slice: element %llu of axis %u of %s, of stride %llu, is 2^63 bytes or more from the "
            "buffer's begin",
            (unsigned long long)start, axis, rota_tensor_describe(tensor, text, sizeof text),
            (unsigned long long)tensor->stride[axis]);
    view.shape[axis] = length;
    *out_view = view;
    return ROTA_OK;
}

rota_status rota_tensor_split(const rota_tensor *tensor, uint32_t axis, uint32_t count,
                              rota_tensor *out_views) {
    ROTA_GIVEN(tensor);
    ROTA_GIVEN(out_views);
    ROTA_TRY(check_axis("split", tensor, axis));
    char text[ROTA_TENSOR_TEXT_MAX];
    if (count == 0 || tensor->shape[axis] % count != 0)
        return rota_fail(ROTA_INVALID_ARGUMENT, "split: axis %u of %s is no multiple of %u", axis,
                         rota_tensor_describe(tensor, text, sizeof text), count);
    const rota_tensor whole = *tensor; /* out_views may begin with it */
    const uint64_t length = whole.shape[axis] / count;
    for (uint32_t i = 0; i < count; i++)
        ROTA_TRY(rota_tensor_slice(&whole, axis, i * length, length, &out_views[i]));
    return ROTA_OK;
}

rota_status rota_tensor_permute(const rota_tensor *tensor, const uint32_t *order, rota_tensor *out_view) {
    ROTA_GIVEN(tensor);
    ROTA_GIVEN_ARRAY(order, tensor->rank);
    ROTA_GIVEN(out_view);
    ROTA_TRY(check_rank("permute", tensor));
    rota_tensor view = *tensor;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        ROTA_TRY(check_axis("permute", tensor, order[i]));
        if (seen & 1u << order[i])
            return rota_fail(ROTA_INVALID_ARGUMENT, "permute: axis %u is named twice", order[i]);
        seen |= 1u << order[i];
        view.shape[i] = tensor->shape[order[i]];
        view.stride[i] = tensor->stride[order[i]];
    }
    *out_view = view;
    return ROTA_OK;
}

rota_status rota_tensor_transpose(const rota_tensor *tensor, uint32_t axis_a, uint32_t axis_b,
                                  rota_tensor *out_view) {
    ROTA_GIVEN(tensor);
    ROTA_GIVEN(out_view);
    ROTA_TRY(check_axis("transpose", tensor, axis_a));
    ROTA_TRY(check_axis("transpose", tensor, axis_b));
    rota_tensor view = *tensor;
    view.shape[axis_a] = tensor->shape[axis_b];
    view.stride[axis_a] = tensor->stride[axis_b];
    view.shape[axis_b] = tensor->shape[axis_a];
    view.stride[axis_b] = tensor->stride[axis_a];
    *out_view = view;
    return ROTA_OK;
}

rota_status rota_tensor_broadcast(const rota_tensor *tensor, uint32_t rank, const uint64_t *shape,
                                  rota_tensor *out_view) {
    ROTA_GIVEN(tensor);
    ROTA_GIVEN_ARRAY(shape, rank);
    ROTA_GIVEN(out_view);
    rota_tensor view;
    ROTA_TRY(check_rank("broadcast", tensor));
    ROTA_TRY(rota_tensor_of(NULL, 0, tensor->dtype, rank, shape, &view));
    char from[ROTA_TENSOR_TEXT_MAX], to[ROTA_TENSOR_TEXT_MAX];
    bool fits = tensor->rank <= rank;
    for (uint32_t i = 0; fits && i < rank; i++) {
        uint32_t missing = rank - tensor->rank;
        uint64_t extent = i < missing ? 1 : tensor->shape[i - missing];
        view.stride[i] = extent == 1 ? 0 : tensor->stride[i - missing];
        fits = extent == 1 || extent == shape[i];
    }
    if (!fits)
        return rota_fail(ROTA_INVALID_ARGUMENT, "broadcast: %s does not repeat to %s",
                         rota_tensor_describe(tensor, from, sizeof from),
                         rota_tensor_describe(&view, to, sizeof to));
    view.buffer = tensor->buffer;
    view.offset_bytes = tensor->offset_bytes;
    *out_view = view;
    return ROTA_OK;
}
