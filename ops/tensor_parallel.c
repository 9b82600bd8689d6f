/* Ops between what all ranks have and what each has a part of, and products of matrices that are cut across ranks.
 * As of collectives each use has an op of its own, whose `user` says which communicator. */
#include "ops/ops_tensor_parallel.h"

#include "base/given.h"
#include "base/sized_copy.h"
#include "graph/record.h"
#include "ops/collective.h"
#include "ops/record.h"
#include "ops/tape.h"

typedef struct ranks_op {
    rota_op op;
    rota_communicator *communicator;
} ranks_op;

static rota_communicator *ranks_of(const rota_op_use *use) {
    return ((const ranks_op *)use->op->user)->communicator;
}

static bool is_alone(const rota_op_use *use) {
    return rota_communicator_size(ranks_of(use)) < 2;
}

rota_rank_part rota_communicator_part(const rota_communicator *communicator, uint64_t whole) {
    const uint64_t size = communicator ? rota_communicator_size(communicator) : 1;
    const uint64_t rank = communicator ? rota_communicator_rank(communicator) : 0;
    /* whole * rank / size, which might overflow. */
    const uint64_t each = whole / size, more = whole % size;
    const uint64_t first = each * rank + more * rank / size,
                   end = each * (rank + 1) + more * (rank + 1) / size;
    return (rota_rank_part){first, end - first, whole};
}

/* ---- Copy to ranks, reduce from ranks ---- */

static rota_status shape_like_input(const rota_op_use *use, rota_tensor *out) {
    rota_dtype dtype;
    ROTA_TRY(rota_shape_require_real(use, 1, &dtype));
    return rota_shape_like(&use->inputs[0], dtype, out);
}

static rota_status record_copy(rota_tape *tape, rota_op_use *use) {
    if (rota_tensors_equal(&use->inputs[0], &use->outputs[0])) return ROTA_OK;
    return rota_record_strided(tape, &use->inputs[0], &use->outputs[0], 1.0f, false);
}

static rota_status gradient_copy(rota_tape *tape, const rota_op_use *use) {
    rota_gradient_write write;
    const rota_tensor *x = &use->inputs[0], *dy = rota_gradient_output(tape, 0);
    if (is_alone(use)) return rota_gradient_add(tape, x, dy, 1.0f);
    ROTA_TRY(rota_gradient_begin(tape, x, &write));
    ROTA_TRY(rota_op_all_reduce_into(tape, ranks_of(use), *dy, ROTA_COLLECTIVE_SUM, write.dx));
    return rota_gradient_end(tape, x, &write);
}

static rota_status record_reduce(rota_tape *tape, rota_op_use *use) {
    rota_tensor x;
    if (is_alone(use)) return record_copy(tape, use);
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[0], &x));
    return rota_collective_record(tape, ranks_of(use), ROTA_COLLECTIVE_ALL_REDUCE, &x, &use->outputs[0]);
}

static rota_status gradient_reduce(rota_tape *tape, const rota_op_use *use) {
    return rota_gradient_add(tape, &use->inputs[0], rota_gradient_output(tape, 0), 1.0f);
}

#define ONE_TO_ONE                                                                                           \
    .input_count = 1, .output_count = 1, .input_names = {"x"}, .output_names = {"y"}, .differentiable = 1,   \
    .inplace_inputs = 1, .shape = shape_like_input

static const rota_op copy_to_ranks = {
    .name = "copy_to_ranks", ONE_TO_ONE, .record = record_copy, .gradient = gradient_copy};
static const rota_op reduce_from_ranks = {
    .name = "reduce_from_ranks", ONE_TO_ONE, .record = record_reduce, .gradient = gradient_reduce};

/* *y: the destination, or what is made. */
static rota_status apply(rota_tape *tape, rota_communicator *communicator, const rota_op *like, rota_tensor x,
                         rota_tensor *y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(communicator);
    ROTA_TRY(rota_record_may_end_later(tape->recorder, tape->name ? tape->name : like->name));
    ranks_op *op = rota_arena_alloc(&tape->recorder->arena, sizeof *op, 8);
    if (!op) return rota_fail(ROTA_OUT_OF_MEMORY, "op '%s': no host memory", like->name);
    *op = (ranks_op){*like, communicator};
    op->op.user = op;
    rota_op_use use = {.op = &op->op, .input_count = 1, .output_count = 1, .inputs = {x}, .outputs = {*y}};
    ROTA_TRY(rota_op_apply(tape, &use));
    *y = use.outputs[0];
    return ROTA_OK;
}

static rota_status apply_into(rota_tape *tape, rota_communicator *communicator, const rota_op *like,
                              rota_tensor x, rota_tensor y) {
    if (!y.buffer) return rota_fail(ROTA_INVALID_ARGUMENT, "op '%s': the destination is missing", like->name);
    return apply(tape, communicator, like, x, &y);
}

rota_status rota_op_copy_to_ranks(rota_tape *tape, rota_communicator *communicator, rota_tensor x,
                                  rota_tensor *out_y) {
    ROTA_GIVEN(out_y);
    *out_y = ROTA_TENSOR_NONE;
    return apply(tape, communicator, &copy_to_ranks, x, out_y);
}
rota_status rota_op_copy_to_ranks_into(rota_tape *tape, rota_communicator *communicator, rota_tensor x,
                                       rota_tensor y) {
    return apply_into(tape, communicator, &copy_to_ranks, x, y);
}

rota_status rota_op_reduce_from_ranks(rota_tape *tape, rota_communicator *communicator, rota_tensor x,
                                      rota_tensor *out_y) {
    ROTA_GIVEN(out_y);
    *out_y = ROTA_TENSOR_NONE;
    return apply(tape, communicator, &reduce_from_ranks, x, out_y);
}
rota_status rota_op_reduce_from_ranks_into(rota_tape *tape, rota_communicator *communicator, rota_tensor x,
                                           rota_tensor y) {
    return apply_into(tape, communicator, &reduce_from_ranks, x, y);
}

/* ---- Products ---- */

/* No gradient flows through no elements: this rank would leave a collective out that the others come to. */
static rota_status check_part(const char *name, const rota_tensor *w, bool columns, bool transposed) {
    char text[ROTA_TENSOR_TEXT_MAX];
    const bool is_last = columns != transposed;
    if (w->rank < 2 || w->rank > ROTA_RANK_MAX || w->shape[w->rank - (is_last ? 1 : 2)] > 0) return ROTA_OK;
    return rota_fail(ROTA_INVALID_ARGUMENT, "op '%s': w is %s; expected one %s of this rank's at least", name,
                     rota_tensor_describe(w, text, sizeof text), columns ? "column" : "row");
}

static rota_status linear_column(rota_tape *tape, rota_communicator *communicator, rota_tensor x,
                                 rota_tensor w, const rota_linear *options, rota_tensor *out_y) {
    ROTA_TRY(check_part("linear_column", &w, true, options && options->transposed));
    ROTA_TRY(rota_op_copy_to_ranks(tape, communicator, x, &x));
    return rota_op_linear(tape, x, w, options, out_y);
}

rota_status rota_op_linear_column(rota_tape *tape, rota_communicator *communicator, rota_tensor x,
                                  rota_tensor w, const rota_linear *options, rota_tensor *out_y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_y);
    *out_y = ROTA_TENSOR_NONE;
    ROTA_TAPE_AS_OP(tape, "linear_column", linear_column(tape, communicator, x, w, options, out_y));
}

static rota_status activate(rota_tape *tape, rota_activation activation, rota_tensor *y) {
    switch (activation) {
    case ROTA_ACTIVATION_NONE:
        return ROTA_OK;
    case ROTA_ACTIVATION_GELU:
        return rota_op_gelu(tape, *y, y);
    case ROTA_ACTIVATION_RELU:
        return rota_op_relu(tape, *y, y);
    default:
        return rota_fail(ROTA_INVALID_ARGUMENT, "op 'linear_row': activation %d, which is none",
                         (int)activation);
    }
}

static rota_status linear_row(rota_tape *tape, rota_communicator *communicator, rota_tensor x, rota_tensor w,
                              const rota_linear *o, rota_tensor *out_y) {
    char text[ROTA_TENSOR_TEXT_MAX], other[ROTA_TENSOR_TEXT_MAX];
    rota_tensor y;
    if ((unsigned)o->activation > ROTA_ACTIVATION_RELU) return activate(tape, o->activation, out_y);
    ROTA_TRY(check_part("linear_row", &w, false, o->transposed));
    ROTA_TRY(rota_op_matmul(tape, x, w, false, o->transposed, &y));
    if (o->bias.buffer && (o->bias.rank != 1 || y.rank == 0 || o->bias.shape[0] != y.shape[y.rank - 1]))
        return rota_fail(
            ROTA_INVALID_ARGUMENT, "op 'linear_row': bias is %s, y is %s; expected one element a column",
            rota_tensor_describe(&o->bias, text, sizeof text), rota_tensor_describe(&y, other, sizeof other));
    if (o->residual.buffer && !rota_shapes_equal(&o->residual, &y))
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "op 'linear_row': residual is %s, y is %s; expected one shape",
                         rota_tensor_describe(&o->residual, text, sizeof text),
                         rota_tensor_describe(&y, other, sizeof other));
    ROTA_TRY(rota_op_reduce_from_ranks(tape, communicator, y, &y));
    if (o->bias.buffer) ROTA_TRY(rota_op_add(tape, y, o->bias, &y));
    ROTA_TRY(activate(tape, o->activation, &y));
    if (o->residual.buffer) ROTA_TRY(rota_op_add(tape, y, o->residual, &y));
    *out_y = y;
    return ROTA_OK;
}

rota_status rota_op_linear_row(rota_tape *tape, rota_communicator *communicator, rota_tensor x, rota_tensor w,
                               const rota_linear *options, rota_tensor *out_y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(communicator);
    ROTA_GIVEN(out_y);
    rota_linear room = ROTA_LINEAR();
    *out_y = ROTA_TENSOR_NONE;
    options = options ? ROTA_SIZED_IN(rota_linear, options, &room) : &room;
    if (!options) return ROTA_INVALID_ARGUMENT;
    ROTA_TRY(rota_record_may_end_later(tape->recorder, tape->name ? tape->name : "linear_row"));
    ROTA_TAPE_AS_OP(tape, "linear_row", linear_row(tape, communicator, x, w, options, out_y));
}
