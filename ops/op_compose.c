/* Ops that are other ops with views around them: concat, broadcast, column_sums, prod. */
#include "base/given.h"
#include "ops/op.h" /* IWYU pragma: keep */

/* y's shape: that of the first, with the extents along the axis added up. */
static rota_status concat_shape(const rota_tensor *tensors, uint32_t count, uint32_t axis, rota_tensor *out) {
    char text[ROTA_TENSOR_TEXT_MAX], other[ROTA_TENSOR_TEXT_MAX];
    if (count == 0) return rota_fail(ROTA_INVALID_ARGUMENT, "concat: no tensors");
    const rota_tensor *first = &tensors[0];
    uint64_t shape[ROTA_RANK_MAX] = {0};
    for (uint32_t t = 0; t < count; t++) {
        const rota_tensor *x = &tensors[t];
        if (!x->buffer) return rota_fail(ROTA_INVALID_ARGUMENT, "concat: tensor %u is missing", t);
        if (x->rank > ROTA_RANK_MAX)
            return rota_fail(ROTA_INVALID_ARGUMENT, "concat: tensor %u is of rank %u, at most %d", t, x->rank,
                             ROTA_RANK_MAX);
        if (axis >= x->rank)
            return rota_fail(ROTA_INVALID_ARGUMENT, "concat: axis %u of tensor %u, which is %s", axis, t,
                             rota_tensor_describe(x, text, sizeof text));
        bool fits = x->rank == first->rank && x->dtype == first->dtype;
        for (uint32_t i = 0; fits && i < x->rank; i++) fits = i == axis || x->shape[i] == first->shape[i];
        if (!fits)
            return rota_fail(ROTA_INVALID_ARGUMENT,
                             "concat: tensor 0 is %s, tensor %u is %s; expected one dtype, and one shape but "
                             "along axis %u",
                             rota_tensor_describe(first, text, sizeof text), t,
                             rota_tensor_describe(x, other, sizeof other), axis);
        for (uint32_t i = 0; i < x->rank; i++) shape[i] = i == axis ? shape[i] + x->shape[i] : x->shape[i];
    }
    return rota_tensor_of(NULL, 0, first->dtype, first->rank, shape, out);
}

/* Copies the tensors to their places in y. A copy into a part with gaps says that it also reads what lies
 * between, which must be something. */
static rota_status copy_parts(rota_tape *tape, const rota_tensor *tensors, uint32_t count, uint32_t axis,
                              const rota_tensor *y) {
    rota_tensor part;
    uint64_t begin = 0;
    bool gaps = false;
    for (uint32_t t = 0; t < count; begin += tensors[t++].shape[axis]) {
        ROTA_TRY(rota_tensor_slice(y, axis, begin, tensors[t].shape[axis], &part));
        gaps = gaps || !rota_tensor_is_dense(&part) || part.offset_bytes % 4 != 0;
    }
    if (gaps) {
        const bool remembered = tape->remember;
        tape->remember = false;
        rota_status status = rota_op_fill_into(tape, *y, 0);
        tape->remember = remembered;
        ROTA_TRY(status);
    }
    begin = 0;
    for (uint32_t t = 0; t < count; begin += tensors[t++].shape[axis]) {
        ROTA_TRY(rota_tensor_slice(y, axis, begin, tensors[t].shape[axis], &part));
        ROTA_TRY(rota_op_copy_into(tape, tensors[t], part));
    }
    return ROTA_OK;
}

static rota_status concat_into(rota_tape *tape, const rota_tensor *tensors, uint32_t count, uint32_t axis,
                               rota_tensor y) {
    rota_tensor expected;
    char text[ROTA_TENSOR_TEXT_MAX], other[ROTA_TENSOR_TEXT_MAX];
    ROTA_TRY(concat_shape(tensors, count, axis, &expected));
    if (!y.buffer || y.dtype != expected.dtype || !rota_shapes_equal(&y, &expected))
        return rota_fail(ROTA_INVALID_ARGUMENT, "concat: the destination is %s, expected %s",
                         y.buffer ? rota_tensor_describe(&y, text, sizeof text) : "missing",
                         rota_tensor_describe(&expected, other, sizeof other));
    for (uint32_t t = 0; t < count; t++)
        if (rota_tensors_overlap(&tensors[t], &y))
            return rota_fail(ROTA_OVERLAP, "concat: tensor %u overlaps the destination in buffer '%s'", t,
                             rota_buffer_name(y.buffer));
    return copy_parts(tape, tensors, count, axis, &y);
}

rota_status rota_op_concat_into(rota_tape *tape, const rota_tensor *tensors, uint32_t count, uint32_t axis,
                                rota_tensor y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN_ARRAY(tensors, count);
    ROTA_TAPE_AS_OP(tape, "concat", concat_into(tape, tensors, count, axis, y));
}

static rota_status concat(rota_tape *tape, const rota_tensor *tensors, uint32_t count, uint32_t axis,
                          rota_tensor *out_y) {
    rota_tensor y;
    ROTA_TRY(concat_shape(tensors, count, axis, &y));
    ROTA_TRY(rota_tape_temporary(tape, "concat", y.dtype, y.rank, y.shape, &y));
    ROTA_TRY(rota_op_concat_into(tape, tensors, count, axis, y));
    *out_y = y;
    return ROTA_OK;
}

rota_status rota_op_concat(rota_tape *tape, const rota_tensor *tensors, uint32_t count, uint32_t axis,
                           rota_tensor *out_y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN_ARRAY(tensors, count);
    ROTA_GIVEN(out_y);
    *out_y = ROTA_TENSOR_NONE;
    ROTA_TAPE_AS_OP(tape, "concat", concat(tape, tensors, count, axis, out_y));
}

static rota_status broadcast(rota_tape *tape, rota_tensor x, uint32_t rank, const uint64_t *shape,
                             rota_tensor *out_y) {
    rota_tensor view, y;
    ROTA_TRY(rota_tensor_broadcast(&x, rank, shape, &view)); /* says what does not fit */
    ROTA_TRY(rota_tape_temporary(tape, "broadcast", x.dtype, rank, shape, &y));
    ROTA_TRY(rota_op_copy_into(tape, x, y));
    *out_y = y;
    return ROTA_OK;
}

rota_status rota_op_broadcast(rota_tape *tape, rota_tensor x, uint32_t rank, const uint64_t *shape,
                              rota_tensor *out_y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN_ARRAY(shape, rank);
    ROTA_GIVEN(out_y);
    *out_y = ROTA_TENSOR_NONE;
    ROTA_TAPE_AS_OP(tape, "broadcast", broadcast(tape, x, rank, shape, out_y));
}

static rota_status column_sums(rota_tape *tape, rota_tensor x, rota_tensor *out_y) {
    char text[ROTA_TENSOR_TEXT_MAX];
    if (x.rank < 2 || x.rank > ROTA_RANK_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT, "column_sums: x is %s, expected two axes or more",
                         rota_tensor_describe(&x, text, sizeof text));
    const uint64_t shape[] = {rota_tensor_rows(&x), x.shape[x.rank - 1]};
    ROTA_TRY(rota_op_reshape(tape, x, 2, shape, &x));
    return rota_op_sum(tape, x, 0, false, out_y);
}

rota_status rota_op_column_sums(rota_tape *tape, rota_tensor x, rota_tensor *out_y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_y);
    *out_y = ROTA_TENSOR_NONE;
    ROTA_TAPE_AS_OP(tape, "column_sums", column_sums(tape, x, out_y));
}

static rota_status prod(rota_tape *tape, rota_tensor x, uint32_t axis, bool keep, rota_tensor *out_y) {
    char text[ROTA_TENSOR_TEXT_MAX];
    if (!x.buffer || !rota_dtype_is_real(x.dtype) || axis >= x.rank)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "prod: x is %s, the axis %u; expected f32, f16 or bf16 and an axis of it",
                         x.buffer ? rota_tensor_describe(&x, text, sizeof text) : "missing", axis);
    /* One half times the other, again and again; what is left over at odd lengths comes in at the end. */
    rota_tensor left_over[64], front, back;
    uint32_t count = 0;
    if (x.shape[axis] == 0) { /* the product of nothing */
        uint64_t one[ROTA_RANK_MAX];
        for (uint32_t i = 0; i < x.rank; i++) one[i] = i == axis ? 1 : x.shape[i];
        ROTA_TRY(rota_tape_temporary(tape, "prod", x.dtype, x.rank, one, &x));
        ROTA_TRY(rota_op_fill_into(tape, x, 1));
    }
    if (x.shape[axis] == 1) ROTA_TRY(rota_op_copy(tape, x, &x));
    for (uint64_t n = x.shape[axis]; n > 1; n /= 2) {
        if (n % 2) ROTA_TRY(rota_tensor_slice(&x, axis, n - 1, 1, &left_over[count++]));
        ROTA_TRY(rota_tensor_slice(&x, axis, 0, n / 2, &front));
        ROTA_TRY(rota_tensor_slice(&x, axis, n / 2, n / 2, &back));
        ROTA_TRY(rota_op_mul(tape, front, back, &x));
    }
    for (uint32_t i = 0; i < count; i++) ROTA_TRY(rota_op_mul(tape, x, left_over[i], &x));
    uint64_t shape[ROTA_RANK_MAX];
    uint32_t rank = 0;
    for (uint32_t i = 0; i < x.rank; i++)
        if (keep || i != axis) shape[rank++] = x.shape[i];
    return rota_tensor_reshape(&x, rank, shape, out_y);
}

rota_status rota_op_prod(rota_tape *tape, rota_tensor x, uint32_t axis, bool keep, rota_tensor *out_y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_y);
    *out_y = ROTA_TENSOR_NONE;
    ROTA_TAPE_AS_OP(tape, "prod", prod(tape, x, axis, keep, out_y));
}
