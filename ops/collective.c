/* Collectives on tensors. Each use has an op of its own, in the lane's memory, whose `user` says which communicator,
 * reduction and peer: attributes have no place for those. */
#include <string.h>

#include "base/given.h"
#include "graph/record.h"
#include "ops/collective.h"
#include "ops/tape.h"
#include "ops/unshard.h"
#include "sched/collectives.h"

/* An op, and what its functions find by it. */
typedef struct collective_op {
    rota_op op;
    rota_collective_kind kind;
    rota_communicator *communicator;
    rota_collective_reduction reduction;
    uint32_t peer;
    bool is_again; /* what it gathered is gathered again in the backward pass */
} collective_op;

static const collective_op *own(const rota_op_use *use) {
    return use->op->user;
}

/* ---- Shapes ---- */

static const rota_collective_type types[ROTA_DTYPE_COUNT] = {[ROTA_F32] = ROTA_COLLECTIVE_F32,
                                                             [ROTA_F16] = ROTA_COLLECTIVE_F16,
                                                             [ROTA_BF16] = ROTA_COLLECTIVE_BF16,
                                                             [ROTA_I32] = ROTA_COLLECTIVE_I32,
                                                             [ROTA_U32] = ROTA_COLLECTIVE_U32};

static rota_status check_use(const rota_op_use *use) {
    const collective_op *op = own(use);
    const uint32_t size = rota_communicator_size(op->communicator),
                   rank = rota_communicator_rank(op->communicator);
    const bool is_of_two = rota_collective_is_of_two(op->kind);
    if (op->peer >= size || (is_of_two && op->peer == rank))
        return rota_op_fail(
            use->op, ROTA_INVALID_ARGUMENT, "rank %u, expected %s below %u, the ranks of '%s'", op->peer,
            is_of_two ? "another one" : "one", size, rota_communicator_name(op->communicator));
    if (rota_dtype_is_f8(use->inputs[0].dtype))
        return rota_op_fail(use->op, ROTA_UNSUPPORTED, "ranks exchange f32, f16, bf16, i32 and u32, not %s",
                            rota_dtype_name(use->inputs[0].dtype));
    if ((unsigned)op->reduction >= ROTA_COLLECTIVE_REDUCTION_COUNT)
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "reduction %d, which is none",
                            (int)op->reduction);
    if (op->reduction == ROTA_COLLECTIVE_MEAN && !rota_dtype_is_real(use->inputs[0].dtype))
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "a mean of %s, expected f32, f16 or bf16",
                            rota_dtype_name(use->inputs[0].dtype));
    return ROTA_OK;
}

static rota_status shape_like_input(const rota_op_use *use, rota_tensor *out) {
    ROTA_TRY(check_use(use));
    return rota_shape_like(&use->inputs[0], use->inputs[0].dtype, out);
}

/* Rows of x that each rank has a part of. */
static rota_status check_rows(const rota_op_use *use) {
    char text[ROTA_TENSOR_TEXT_MAX];
    const rota_tensor *x = &use->inputs[0];
    const uint32_t size = rota_communicator_size(own(use)->communicator);
    if (x->rank && x->shape[0] % size == 0) return ROTA_OK;
    return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT,
                        "x is %s, expected a first axis that is a multiple of %u ranks",
                        rota_tensor_describe(x, text, sizeof text), size);
}

static rota_status shape_all_to_all(const rota_op_use *use, rota_tensor *out) {
    ROTA_TRY(check_rows(use));
    return shape_like_input(use, out);
}

static rota_status shape_reduce_scatter(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *x = &use->inputs[0];
    uint64_t shape[ROTA_RANK_MAX];
    ROTA_TRY(check_use(use));
    ROTA_TRY(check_rows(use));
    memcpy(shape, x->shape, sizeof shape);
    shape[0] /= rota_communicator_size(own(use)->communicator);
    return rota_tensor_of(NULL, 0, x->dtype, x->rank, shape, out);
}

static rota_status shape_all_gather(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *x = &use->inputs[0];
    uint64_t shape[ROTA_RANK_MAX];
    ROTA_TRY(check_use(use));
    if (x->rank == 0)
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "x has no axis, expected one at least");
    memcpy(shape, x->shape, sizeof shape);
    shape[0] *= rota_communicator_size(own(use)->communicator);
    return rota_tensor_of(NULL, 0, x->dtype, x->rank, shape, out);
}

static rota_status shape_send(const rota_op_use *use, rota_tensor *out) {
    (void)out;
    return check_use(use);
}

static rota_status shape_receive(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *y = &use->outputs[0];
    ROTA_TRY(check_use(use));
    return rota_tensor_of(NULL, 0, y->dtype, y->rank, y->shape, out);
}

/* Whether what has one part is exactly this rank's of what has all, and so much that what follows begins where an
 * access may (multiples of 4). */
static bool is_own_part(const rota_op_use *use, const rota_tensor *part, const rota_tensor *whole) {
    const uint64_t before = rota_communicator_rank(own(use)->communicator) * rota_tensor_extent_bytes(part);
    return rota_tensor_is_contiguous(part) && rota_tensor_is_contiguous(whole) &&
           rota_tensor_extent_bytes(part) % 4 == 0 &&
           rota_tensor_begin(part) == rota_tensor_begin(whole) + before;
}

static bool is_part_of_output(const rota_op_use *use) {
    return is_own_part(use, &use->inputs[0], &use->outputs[0]);
}

static bool is_part_of_input(const rota_op_use *use) {
    return is_own_part(use, &use->outputs[0], &use->inputs[0]);
}

/* ---- Nodes ---- */

static rota_status record_node(rota_tape *tape, const collective_op *op, const rota_tensor *x,
                               const rota_tensor *y, uint64_t count) {
    rota_collective_node node = {.communicator = op->communicator,
                                 .collective = {.kind = op->kind,
                                                .reduction = op->reduction,
                                                .peer = op->peer,
                                                .count = count,
                                                .name = tape->name ? tape->name : tape->op_name}};
    if (x || y) node.collective.type = types[x ? x->dtype : y->dtype];
    if (x) node.input = rota_tensor_access(x, ROTA_READ);
    if (y) node.output = rota_tensor_access(y, ROTA_WRITE);
    return rota_record_collective(tape->recorder, &node);
}

rota_status rota_collective_record(rota_tape *tape, rota_communicator *communicator,
                                   rota_collective_kind kind, const rota_tensor *x, const rota_tensor *y) {
    const collective_op op = {.kind = kind, .communicator = communicator, .reduction = ROTA_COLLECTIVE_SUM};
    return record_node(tape, &op, x, y, rota_tensor_count(x));
}

static rota_status record(rota_tape *tape, rota_op_use *use) {
    const collective_op *op = own(use);
    rota_tensor x = ROTA_TENSOR_NONE;
    const rota_tensor *y = use->output_count ? &use->outputs[0] : NULL;
    /* Only the root's is read; what the others read they would wait for. */
    const bool reads = use->input_count && (op->kind != ROTA_COLLECTIVE_BROADCAST ||
                                            op->peer == rota_communicator_rank(op->communicator));
    if (reads) ROTA_TRY(rota_record_contiguous(tape, &use->inputs[0], &x));
    uint64_t count = rota_tensor_count(use->input_count ? &use->inputs[0] : y);
    if (op->kind == ROTA_COLLECTIVE_REDUCE_SCATTER || op->kind == ROTA_COLLECTIVE_ALL_TO_ALL)
        count /= rota_communicator_size(op->communicator);
    return record_node(tape, op, reads ? &x : NULL, y, count);
}

/* ---- Gradients ---- */

static rota_status add_gradient(rota_tape *tape, const rota_op_use *use, rota_status status,
                                const rota_tensor *dx, float alpha) {
    ROTA_TRY(status);
    return rota_gradient_add(tape, &use->inputs[0], dx, alpha);
}

static rota_status check_has_gradient(const rota_op_use *use) {
    const rota_collective_reduction reduction = own(use)->reduction;
    if (reduction == ROTA_COLLECTIVE_SUM || reduction == ROTA_COLLECTIVE_MEAN) return ROTA_OK;
    return rota_op_fail(use->op, ROTA_UNSUPPORTED, "by %s it has no gradient",
                        rota_collective_reduction_text(reduction));
}

static rota_status gradient_all_reduce(rota_tape *tape, const rota_op_use *use) {
    rota_tensor dx;
    ROTA_TRY(check_has_gradient(use));
    return add_gradient(tape, use,
                        rota_op_all_reduce(tape, own(use)->communicator, *rota_gradient_output(tape, 0),
                                           own(use)->reduction, &dx),
                        &dx, 1);
}

static rota_status gradient_reduce_scatter(rota_tape *tape, const rota_op_use *use) {
    rota_tensor dx;
    ROTA_TRY(check_has_gradient(use));
    const bool is_mean = own(use)->reduction == ROTA_COLLECTIVE_MEAN;
    return add_gradient(tape, use,
                        rota_op_all_gather(tape, own(use)->communicator, *rota_gradient_output(tape, 0), &dx),
                        &dx, is_mean ? 1.0f / (float)rota_communicator_size(own(use)->communicator) : 1.0f);
}

static rota_status gradient_all_gather(rota_tape *tape, const rota_op_use *use) {
    rota_gradient_write write;
    ROTA_TRY(rota_gradient_begin(tape, &use->inputs[0], &write));
    ROTA_TRY(rota_op_reduce_scatter_into(tape, own(use)->communicator, *rota_gradient_output(tape, 0),
                                         own(use)->reduction, write.dx));
    return rota_gradient_end(tape, &use->inputs[0], &write);
}

static rota_status gradient_all_to_all(rota_tape *tape, const rota_op_use *use) {
    rota_tensor dx;
    return add_gradient(tape, use,
                        rota_op_all_to_all(tape, own(use)->communicator, *rota_gradient_output(tape, 0), &dx),
                        &dx, 1);
}

/* The root's x is on all ranks; theirs is nowhere, and its gradient zeroes: not none, since what comes before may be
 * collectives, whose gradients all ranks record. */
static rota_status gradient_broadcast(rota_tape *tape, const rota_op_use *use) {
    rota_tensor sum, zeroes;
    const rota_tensor *x = &use->inputs[0];
    const collective_op *op = own(use);
    const bool is_root = op->peer == rota_communicator_rank(op->communicator);
    const rota_status status =
        rota_op_all_reduce(tape, op->communicator, *rota_gradient_output(tape, 0), ROTA_COLLECTIVE_SUM, &sum);
    if (is_root) return add_gradient(tape, use, status, &sum, 1);
    ROTA_TRY(status);
    ROTA_TRY(rota_tape_temporary(tape, "broadcast_from gradient", x->dtype, x->rank, x->shape, &zeroes));
    return add_gradient(tape, use, rota_op_fill_into(tape, zeroes, 0), &zeroes, 1);
}

/* ---- The ops ---- */

#define ONE_TO_ONE                                                                                           \
    .input_count = 1, .output_count = 1, .input_names = {"x"}, .output_names = {"y"}, .differentiable = 1

static const rota_op ops[ROTA_COLLECTIVE_KIND_COUNT] = {
    [ROTA_COLLECTIVE_ALL_REDUCE] = {.name = "all_reduce",
                                    ONE_TO_ONE,
                                    .inplace_inputs = 1,
                                    .shape = shape_like_input,
                                    .record = record,
                                    .gradient = gradient_all_reduce},
    [ROTA_COLLECTIVE_REDUCE_SCATTER] = {.name = "reduce_scatter",
                                        ONE_TO_ONE,
                                        .overlaps_in_place = is_part_of_input,
                                        .shape = shape_reduce_scatter,
                                        .record = record,
                                        .gradient = gradient_reduce_scatter},
    [ROTA_COLLECTIVE_ALL_GATHER] = {.name = "all_gather",
                                    ONE_TO_ONE,
                                    .overlaps_in_place = is_part_of_output,
                                    .shape = shape_all_gather,
                                    .record = record,
                                    .gradient = gradient_all_gather},
    [ROTA_COLLECTIVE_ALL_TO_ALL] = {.name = "all_to_all",
                                    ONE_TO_ONE,
                                    .inplace_inputs = 1,
                                    .shape = shape_all_to_all,
                                    .record = record,
                                    .gradient = gradient_all_to_all},
    [ROTA_COLLECTIVE_BROADCAST] = {.name = "broadcast_from",
                                   ONE_TO_ONE,
                                   .inplace_inputs = 1,
                                   .shape = shape_like_input,
                                   .record = record,
                                   .gradient = gradient_broadcast},
    [ROTA_COLLECTIVE_SEND] =
        {.name = "send", .input_count = 1, .input_names = {"x"}, .shape = shape_send, .record = record},
    [ROTA_COLLECTIVE_RECEIVE] = {.name = "receive",
                                 .output_count = 1,
                                 .output_names = {"y"},
                                 .shape = shape_receive,
                                 .record = record},
};

/* *y of output_count 1: the destination, or what is made. */
static rota_status apply(rota_tape *tape, rota_communicator *communicator, rota_collective_kind kind,
                         rota_collective_reduction reduction, uint32_t peer, const rota_tensor *x,
                         rota_tensor *y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(communicator);
    /* Before copies are recorded of what it reads, and results made. */
    ROTA_TRY(rota_record_may_end_later(tape->recorder, tape->name ? tape->name : ops[kind].name));
    collective_op *op = rota_arena_alloc(&tape->recorder->arena, sizeof *op, 8);
    if (!op) return rota_fail(ROTA_OUT_OF_MEMORY, "op '%s': no host memory", ops[kind].name);
    *op = (collective_op){ops[kind], kind, communicator, reduction, peer, false};
    op->op.user = op;
    rota_op_use use = {
        .op = &op->op, .input_count = ops[kind].input_count, .output_count = ops[kind].output_count};
    if (x) use.inputs[0] = *x;
    if (y) use.outputs[0] = *y;
    ROTA_TRY(rota_op_apply(tape, &use));
    if (y) *y = use.outputs[0];
    return ROTA_OK;
}

static rota_status apply_new(rota_tape *tape, rota_communicator *communicator, rota_collective_kind kind,
                             rota_collective_reduction reduction, uint32_t peer, const rota_tensor *x,
                             rota_tensor *out_y) {
    ROTA_GIVEN(out_y);
    rota_tensor y = ROTA_TENSOR_NONE;
    ROTA_TRY(apply(tape, communicator, kind, reduction, peer, x, &y));
    *out_y = y;
    return ROTA_OK;
}

static rota_status apply_into(rota_tape *tape, rota_communicator *communicator, rota_collective_kind kind,
                              rota_collective_reduction reduction, uint32_t peer, const rota_tensor *x,
                              rota_tensor *y) {
    if (!y->buffer)
        return rota_fail(ROTA_INVALID_ARGUMENT, "op '%s': the destination is missing", ops[kind].name);
    return apply(tape, communicator, kind, reduction, peer, x, y);
}

rota_status rota_op_all_reduce(rota_tape *tape, rota_communicator *communicator, rota_tensor x,
                               rota_collective_reduction reduction, rota_tensor *out_y) {
    return apply_new(tape, communicator, ROTA_COLLECTIVE_ALL_REDUCE, reduction, 0, &x, out_y);
}
rota_status rota_op_all_reduce_into(rota_tape *tape, rota_communicator *communicator, rota_tensor x,
                                    rota_collective_reduction reduction, rota_tensor y) {
    return apply_into(tape, communicator, ROTA_COLLECTIVE_ALL_REDUCE, reduction, 0, &x, &y);
}

rota_status rota_op_reduce_scatter(rota_tape *tape, rota_communicator *communicator, rota_tensor x,
                                   rota_collective_reduction reduction, rota_tensor *out_y) {
    return apply_new(tape, communicator, ROTA_COLLECTIVE_REDUCE_SCATTER, reduction, 0, &x, out_y);
}
rota_status rota_op_reduce_scatter_into(rota_tape *tape, rota_communicator *communicator, rota_tensor x,
                                        rota_collective_reduction reduction, rota_tensor y) {
    return apply_into(tape, communicator, ROTA_COLLECTIVE_REDUCE_SCATTER, reduction, 0, &x, &y);
}

rota_status rota_op_all_gather(rota_tape *tape, rota_communicator *communicator, rota_tensor x,
                               rota_tensor *out_y) {
    return apply_new(tape, communicator, ROTA_COLLECTIVE_ALL_GATHER, ROTA_COLLECTIVE_SUM, 0, &x, out_y);
}
rota_status rota_op_all_gather_into(rota_tape *tape, rota_communicator *communicator, rota_tensor x,
                                    rota_tensor y) {
    return apply_into(tape, communicator, ROTA_COLLECTIVE_ALL_GATHER, ROTA_COLLECTIVE_SUM, 0, &x, &y);
}

rota_status rota_op_all_to_all(rota_tape *tape, rota_communicator *communicator, rota_tensor x,
                               rota_tensor *out_y) {
    return apply_new(tape, communicator, ROTA_COLLECTIVE_ALL_TO_ALL, ROTA_COLLECTIVE_SUM, 0, &x, out_y);
}
rota_status rota_op_all_to_all_into(rota_tape *tape, rota_communicator *communicator, rota_tensor x,
                                    rota_tensor y) {
    return apply_into(tape, communicator, ROTA_COLLECTIVE_ALL_TO_ALL, ROTA_COLLECTIVE_SUM, 0, &x, &y);
}

rota_status rota_op_broadcast_from(rota_tape *tape, rota_communicator *communicator, uint32_t root,
                                   rota_tensor x, rota_tensor *out_y) {
    return apply_new(tape, communicator, ROTA_COLLECTIVE_BROADCAST, ROTA_COLLECTIVE_SUM, root, &x, out_y);
}
rota_status rota_op_broadcast_from_into(rota_tape *tape, rota_communicator *communicator, uint32_t root,
                                        rota_tensor x, rota_tensor y) {
    return apply_into(tape, communicator, ROTA_COLLECTIVE_BROADCAST, ROTA_COLLECTIVE_SUM, root, &x, &y);
}

rota_status rota_op_send(rota_tape *tape, rota_communicator *communicator, uint32_t to, rota_tensor x) {
    return apply(tape, communicator, ROTA_COLLECTIVE_SEND, ROTA_COLLECTIVE_SUM, to, &x, NULL);
}
rota_status rota_op_receive(rota_tape *tape, rota_communicator *communicator, uint32_t from, rota_dtype dtype,
                            uint32_t rank, const uint64_t *shape, rota_tensor *out_y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_y);
    rota_tensor y;
    ROTA_TRY(rota_tape_tensor(tape, ROTA_BUFFER_TRANSIENT, NULL, dtype, rank, shape, &y));
    ROTA_TRY(apply(tape, communicator, ROTA_COLLECTIVE_RECEIVE, ROTA_COLLECTIVE_SUM, from, NULL, &y));
    *out_y = y;
    return ROTA_OK;
}
rota_status rota_op_receive_into(rota_tape *tape, rota_communicator *communicator, uint32_t from,
                                 rota_tensor y) {
    return apply_into(tape, communicator, ROTA_COLLECTIVE_RECEIVE, ROTA_COLLECTIVE_SUM, from, NULL, &y);
}

/* ---- Shards that become whole ---- */

rota_status rota_collective_unshard(rota_tape *tape, rota_communicator *communicator, rota_tensor x,
                                    rota_collective_reduction reduction, bool keep, rota_tensor *out_y) {
    ROTA_TRY(rota_record_may_end_later(tape->recorder, tape->name ? tape->name : "unshard"));
    collective_op *op = rota_arena_alloc(&tape->recorder->arena, sizeof *op, 8);
    if (!op) return rota_fail(ROTA_OUT_OF_MEMORY, "op 'unshard': no host memory");
    *op = (collective_op){
        ops[ROTA_COLLECTIVE_ALL_GATHER], ROTA_COLLECTIVE_ALL_GATHER, communicator, reduction, 0, !keep};
    op->op.name = "unshard";
    op->op.user = op;
    op->op.saved_inputs = keep ? 0 : 1;
    rota_op_use use = {.op = &op->op, .input_count = 1, .output_count = 1, .inputs = {x}};
    ROTA_TRY(rota_op_apply(tape, &use));
    *out_y = use.outputs[0];
    return ROTA_OK;
}

bool rota_collective_is_unshard(const rota_op_use *use) {
    return use->op->record == record && own(use)->is_again;
}

rota_status rota_op_barrier(rota_tape *tape, rota_communicator *communicator) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(communicator);
    const collective_op op = {.kind = ROTA_COLLECTIVE_BARRIER, .communicator = communicator};
    ROTA_TAPE_AS_OP(tape, "barrier", record_node(tape, &op, NULL, NULL, 0));
}
