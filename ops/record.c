/* Recording kernels for tensors: what several ops share. */
#include "ops/record.h"

#include <string.h>

#include "base/given.h"
#include "graph/record.h"
#include "ops/kernel_objects.h"

rota_access rota_tensor_access(const rota_tensor *tensor, rota_access_mode mode) {
    if (!tensor) return (rota_access){.mode = mode};
    return (rota_access){tensor->buffer, tensor->offset_bytes, rota_tensor_extent_bytes(tensor), mode};
}

rota_access rota_tensor_write(const rota_tensor *tensor) {
    if (!tensor) return (rota_access){.mode = ROTA_WRITE};
    return rota_tensor_access(tensor, rota_tensor_is_dense(tensor) ? ROTA_WRITE : ROTA_READWRITE);
}

rota_status rota_tape_kernel(rota_tape *tape, const rota_kernel *kernel, const rota_access *accesses,
                             uint32_t count, const void *params, const rota_param_binding *bindings,
                             uint32_t binding_count) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(kernel);
    ROTA_GIVEN_ARRAY(accesses, count);
    ROTA_GIVEN_ARRAY(bindings, binding_count);
    rota_kernel_node node =
        ROTA_KERNEL_NODE(.kernel = kernel, .name = tape->name ? tape->name : tape->op_name,
                         .accesses = accesses, .access_count = count, .params = params, .bindings = bindings,
                         .binding_count = binding_count, .placement = tape->options.placement);
    return rota_record_kernel(tape->recorder, &node, NULL);
}

rota_value rota_value_plain(double number) {
    return (rota_value){.kind = ROTA_VALUE_PLAIN, .number = number};
}

rota_value rota_value_slot(rota_slot slot) {
    return (rota_value){.kind = ROTA_VALUE_SLOT, .slot = slot};
}

rota_value rota_value_constant(double number) {
    return (rota_value){.kind = ROTA_VALUE_CONSTANT, .number = number};
}

float rota_value_f32(rota_value value) {
    return value.kind == ROTA_VALUE_SLOT ? 0.0f : (float)value.number;
}

uint32_t rota_value_u32(rota_value value) {
    return value.kind == ROTA_VALUE_SLOT ? 0 : (uint32_t)value.number;
}

void rota_value_bind(rota_value value, uint32_t bindable, rota_param_binding *bindings, uint32_t *count) {
    if (value.kind == ROTA_VALUE_PLAIN || !bindings || !count) return;
    bindings[(*count)++] =
        (rota_param_binding){bindable, value.kind == ROTA_VALUE_SLOT ? value.slot : ROTA_SLOT_CONSTANT};
}

rota_status rota_tape_fill(rota_tape *tape, rota_buffer *buffer, uint64_t offset_bytes, uint64_t size_bytes,
                           uint32_t pattern) {
    return rota_record_named_fill(tape->recorder, tape->name ? tape->name : tape->op_name, buffer,
                                  offset_bytes, size_bytes, pattern);
}

rota_status rota_record_zero(rota_tape *tape, rota_buffer *buffer, uint64_t offset_bytes,
                             uint64_t size_bytes) {
    return rota_tape_fill(tape, buffer, offset_bytes, size_bytes, 0);
}

/* An access to 2-byte elements begins at a multiple of 4 bytes; the odd element is said in the parameters. */
static rota_access word_access(const rota_tensor *tensor, rota_access access, uint32_t *out_offset) {
    uint64_t before = tensor->offset_bytes % 4;
    *out_offset = (uint32_t)(before / rota_dtype_bytes(tensor->dtype));
    access.offset_bytes -= before;
    access.size_bytes += before;
    return access;
}

/* Whether two accesses, which may be of views, have bytes in common. */
static bool words_overlap(const rota_access *a, const rota_access *b) {
    const rota_tensor of_a = {.buffer = a->buffer, .offset_bytes = a->offset_bytes},
                      of_b = {.buffer = b->buffer, .offset_bytes = b->offset_bytes};
    const uint64_t begin_a = rota_tensor_begin(&of_a), begin_b = rota_tensor_begin(&of_b);
    return rota_tensor_root(&of_a) == rota_tensor_root(&of_b) && begin_a < begin_b + b->size_bytes &&
           begin_b < begin_a + a->size_bytes;
}

rota_status rota_record_strided(rota_tape *tape, const rota_tensor *x, const rota_tensor *y, float alpha,
                                bool accumulate) {
    rota_tensor from;
    ROTA_TRY(rota_tensor_broadcast(x, y->rank, y->shape, &from));
    rota_walk walk;
    const uint64_t *strides[] = {from.stride, y->stride};
    rota_walk_of(y->rank, y->shape, 2, strides, &walk);
    if (walk.dims > ROTA_KERNEL_DIMS) {
        char text[ROTA_TENSOR_TEXT_MAX];
        return rota_fail(ROTA_UNSUPPORTED, "copy to %s: %u axes are left after merging, at most %d",
                         rota_tensor_describe(y, text, sizeof text), walk.dims, ROTA_KERNEL_DIMS);
    }
    uint64_t wide;
    if (!rota_walk_fits(&walk, 2, &wide)) {
        char text[ROTA_TENSOR_TEXT_MAX];
        return rota_fail(ROTA_UNSUPPORTED,
                         "copy to %s: a stride of %llu elements, of what is read or of what is written, and "
                         "kernels take at most %u",
                         rota_tensor_describe(y, text, sizeof text), (unsigned long long)wide, UINT32_MAX);
    }
    rota_copy_strided_params params = {
        .count = (uint32_t)rota_tensor_count(y),
        .flags = (alpha != 1.0f ? ROTA_COPY_SCALE : 0) | (accumulate ? ROTA_COPY_ACCUMULATE : 0),
        .alpha = alpha,
        .dtype = y->dtype,
    };
    rota_access write = rota_tensor_write(y);
    if (accumulate) write.mode = ROTA_READWRITE;
    rota_access accesses[2] = {word_access(&from, rota_tensor_access(&from, ROTA_READ), &params.x_offset),
                               word_access(y, write, &params.y_offset)};
    if (params.y_offset) accesses[1].mode = ROTA_READWRITE;
    /* Elements side by side in one word are one word to a node. */
    if ((params.x_offset || params.y_offset) && !rota_tensors_overlap(x, y) &&
        words_overlap(&accesses[0], &accesses[1])) {
        ROTA_TRY(rota_tape_temporary(tape, "copy", x->dtype, x->rank, x->shape, &from));
        ROTA_TRY(rota_record_strided(tape, x, &from, 1.0f, false));
        return rota_record_strided(tape, &from, y, alpha, accumulate);
    }
    rota_walk_pad(walk.shape, walk.dims, ROTA_KERNEL_DIMS, 1, params.shape);
    rota_walk_pad(walk.stride[0], walk.dims, ROTA_KERNEL_DIMS, 0, params.x_stride);
    rota_walk_pad(walk.stride[1], walk.dims, ROTA_KERNEL_DIMS, 0, params.y_stride);
    return rota_tape_kernel(tape, &rota_kernel_copy_strided, accesses, 2, &params, NULL, 0);
}

rota_status rota_record_contiguous(rota_tape *tape, const rota_tensor *x, rota_tensor *out_y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(x);
    ROTA_GIVEN(out_y);
    /* Kernels take addresses that are multiples of 4. */
    if (rota_tensor_is_contiguous(x) && x->offset_bytes % 4 == 0) {
        *out_y = *x;
        return ROTA_OK;
    }
    rota_tensor y;
    ROTA_TRY(rota_tape_temporary(tape, "contiguous", x->dtype, x->rank, x->shape, &y));
    ROTA_TRY(rota_record_strided(tape, x, &y, 1.0f, false));
    *out_y = y;
    return ROTA_OK;
}

/* x as an operand whose elements kernels reach by strides: its address must be a multiple of 4. */
static rota_status aligned(rota_tape *tape, const rota_tensor *x, rota_tensor *out) {
    *out = *x;
    return x->offset_bytes % 4 == 0 ? ROTA_OK : rota_record_contiguous(tape, x, out);
}

rota_status rota_record_operand(rota_tape *tape, const rota_tensor *x, const rota_tensor *y,
                                rota_tensor *out_x, uint32_t *out_shape, uint32_t *out_stride) {
    rota_walk walk;
    uint64_t wide;
    ROTA_TRY(aligned(tape, x, out_x));
    ROTA_TRY(rota_tensor_broadcast(out_x, y->rank, y->shape, out_x));
    const uint64_t *strides[] = {out_x->stride, y->stride};
    rota_walk_of(y->rank, y->shape, 2, strides, &walk);
    if (walk.dims > ROTA_KERNEL_DIMS || !rota_walk_fits(&walk, 1, &wide)) {
        ROTA_TRY(rota_record_contiguous(tape, out_x, out_x));
        strides[0] = out_x->stride;
        rota_walk_of(y->rank, y->shape, 2, strides, &walk);
    }
    rota_walk_pad(walk.shape, walk.dims, ROTA_KERNEL_DIMS, 1, out_shape);
    rota_walk_pad(walk.stride[0], walk.dims, ROTA_KERNEL_DIMS, 0, out_stride);
    return ROTA_OK;
}

bool rota_record_fits(const rota_tensor *x, const rota_tensor *y) {
    return rota_shapes_equal(x, y) && rota_tensor_is_contiguous(x) && x->offset_bytes % 4 == 0;
}

rota_status rota_record_binary(rota_tape *tape, rota_binary op, const rota_tensor *a, const rota_tensor *b,
                               const rota_tensor *y) {
    /* What the op is with its operands exchanged; COUNT: none. */
    static const rota_binary swapped[ROTA_BINARY_COUNT] = {
        [ROTA_BINARY_ADD] = ROTA_BINARY_ADD,
        [ROTA_BINARY_SUB] = ROTA_BINARY_RSUB,
        [ROTA_BINARY_MUL] = ROTA_BINARY_MUL,
        [ROTA_BINARY_DIV] = ROTA_BINARY_RDIV,
        [ROTA_BINARY_RSUB] = ROTA_BINARY_SUB,
        [ROTA_BINARY_RDIV] = ROTA_BINARY_DIV,
        [ROTA_BINARY_MINIMUM] = ROTA_BINARY_MINIMUM,
        [ROTA_BINARY_MAXIMUM] = ROTA_BINARY_MAXIMUM,
        [ROTA_BINARY_POW] = ROTA_BINARY_COUNT,
        [ROTA_BINARY_SILU_MUL] = ROTA_BINARY_COUNT,
        [ROTA_BINARY_ADD_GELU] = ROTA_BINARY_ADD_GELU,
        [ROTA_BINARY_EQ] = ROTA_BINARY_EQ,
        [ROTA_BINARY_NE] = ROTA_BINARY_NE,
        [ROTA_BINARY_LT] = ROTA_BINARY_GT,
        [ROTA_BINARY_LE] = ROTA_BINARY_GE,
        [ROTA_BINARY_GT] = ROTA_BINARY_LT,
        [ROTA_BINARY_GE] = ROTA_BINARY_LE,
    };
    const bool a_fits = rota_record_fits(a, y), b_fits = rota_record_fits(b, y);
    const bool b_in_place = b_fits && rota_tensors_equal(b, y);
    rota_tensor left = *a, right = *b;
    if (swapped[op] != ROTA_BINARY_COUNT && (b_in_place || (!a_fits && b_fits))) {
        left = *b;
        right = *a;
        op = swapped[op];
    } else if (!a_fits) {
        ROTA_TRY(rota_record_strided(tape, a, y, 1.0f, false));
        left = *y;
    }
    rota_binary_params params = {.count = (uint32_t)rota_tensor_count(y), .op = op, .dtype = y->dtype};
    ROTA_TRY(rota_record_operand(tape, &right, y, &right, params.shape, params.b_stride));
    rota_access accesses[] = {rota_tensor_access(&left, ROTA_READ), rota_tensor_access(&right, ROTA_READ),
                              rota_tensor_write(y)};
    return rota_tape_kernel(tape, &rota_kernel_binary, accesses, 3, &params, NULL, 0);
}

rota_status rota_record_cast(rota_tape *tape, const rota_tensor *x, const rota_tensor *y) {
    rota_tensor from;
    ROTA_TRY(rota_record_contiguous(tape, x, &from));
    rota_cast_params params = {.count = (uint32_t)rota_tensor_count(y), .from = x->dtype, .to = y->dtype};
    rota_access accesses[] = {rota_tensor_access(&from, ROTA_READ), rota_tensor_write(y)};
    return rota_tape_kernel(tape, &rota_kernel_cast, accesses, 2, &params, NULL, 0);
}

/* A reduction with fewer outputs than this leaves workers idle and sums long chains: the axis is cut first.
 */
#define REDUCE_OUTPUTS_FEW 256
/* Elements of the axis in one partial sum, along rows and, at the least, along columns. */
#define REDUCE_CHUNK_ROW 1024
#define REDUCE_CHUNK_COLUMN 64
/* Partial sums of 64 columns that long columns are cut into: some for each of a large device's workers, and
 * not so many that adding them up is work again. */
#define REDUCE_PARTS_COLUMN 4096

static uint64_t reduce_chunk(uint64_t outer, uint64_t n, uint64_t inner) {
    uint64_t chunk = REDUCE_CHUNK_COLUMN;
    if (inner == 1) return REDUCE_CHUNK_ROW;
    while (n / chunk * outer * ((inner + 63) / 64) > REDUCE_PARTS_COLUMN && 4 * chunk <= n) chunk *= 2;
    return chunk;
}

uint64_t rota_reduce_chunk(uint64_t outer, uint64_t n, uint64_t inner) {
    const uint64_t chunk = reduce_chunk(outer, n, inner);
    return n >= 2 * chunk && outer * ((inner + 63) / 64) < REDUCE_OUTPUTS_FEW ? chunk : n;
}

rota_status rota_record_partial_sums(rota_tape *tape, uint64_t outer, uint64_t rows, uint64_t columns,
                                     const rota_tensor *x, const rota_tensor *y) {
    const rota_reduce_params params = {.op = ROTA_REDUCE_SUM,
                                       .outer = (uint32_t)outer,
                                       .n = (uint32_t)rows,
                                       .inner = (uint32_t)columns,
                                       .chunk = (uint32_t)rows,
                                       .scale = 1.0f,
                                       .from = x->dtype,
                                       .to = y->dtype};
    const rota_access accesses[] = {rota_tensor_access(x, ROTA_READ), rota_tensor_write(y)};
    return rota_tape_kernel(tape, &rota_kernel_reduce, accesses, 2, &params, NULL, 0);
}

rota_status rota_record_reduce(rota_tape *tape, rota_reduce op, float scale, uint64_t outer, uint64_t n,
                               uint64_t inner, const rota_tensor *x, const rota_tensor *y) {
    const uint64_t chunk = rota_reduce_chunk(outer, n, inner);
    const bool cut = chunk < n;
    rota_reduce_params params = {
        .op = op,
        .outer = (uint32_t)outer,
        .n = (uint32_t)n,
        .inner = (uint32_t)inner,
        .chunk = (uint32_t)chunk,
        .scale = cut ? 1.0f : scale,
        .from = x->dtype,
        .to = cut ? ROTA_F32 : y->dtype,
    };
    rota_tensor to = *y;
    const uint64_t shape[] = {outer, (n + chunk - 1) / chunk, inner};
    if (cut) ROTA_TRY(rota_tape_temporary(tape, "partial", ROTA_F32, 3, shape, &to));
    rota_access accesses[] = {rota_tensor_access(x, ROTA_READ), rota_tensor_access(&to, ROTA_WRITE)};
    ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_reduce, accesses, 2, &params, NULL, 0));
    if (!cut) return ROTA_OK;
    return rota_record_reduce(tape, op == ROTA_REDUCE_SUM_SQUARES ? ROTA_REDUCE_SUM : op, scale, outer,
                              shape[1], inner, &to, y);
}

rota_status rota_record_unbroadcast(rota_tape *tape, const rota_tensor *x, const rota_tensor *like,
                                    rota_tensor *out_y) {
    const uint32_t missing = x->rank - like->rank;
    rota_tensor from = *x;
    uint32_t i = 0;
    while (i < x->rank) {
        bool repeated = from.shape[i] != (i < missing ? 1 : like->shape[i - missing]);
        if (!repeated) {
            i++;
            continue;
        }
        uint64_t outer = 1, n = 1, inner = 1;
        rota_tensor to = from;
        for (uint32_t d = 0; d < i; d++) outer *= from.shape[d];
        for (; i < x->rank && (i < missing || like->shape[i - missing] == 1); i++) {
            n *= from.shape[i];
            to.shape[i] = 1;
        }
        for (uint32_t d = i; d < x->rank; d++) inner *= from.shape[d];
        /* Only the last of several sums is rounded to 16 bits. */
        bool more = false;
        for (uint32_t d = i; d < x->rank; d++)
            more = more || to.shape[d] != (d < missing ? 1 : like->shape[d - missing]);
        ROTA_TRY(
            rota_tape_temporary(tape, "unbroadcast", more ? ROTA_F32 : like->dtype, to.rank, to.shape, &to));
        ROTA_TRY(rota_record_reduce(tape, ROTA_REDUCE_SUM, 1.0f, outer, n, inner, &from, &to));
        from = to;
    }
    return rota_tensor_reshape(&from, like->rank, like->shape, out_y);
}
