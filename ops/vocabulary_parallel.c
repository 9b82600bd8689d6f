/* A vocabulary of which each rank has some classes: their rows of a table, and their columns of scores. */
#include "base/given.h"
#include "base/sized_copy.h"
#include "graph/record.h"
#include "ops/collective.h"
#include "ops/kernel_objects.h"
#include "ops/op.h"
#include "ops/op_loss.h"

/* ---- Embedding ---- */

static rota_status embedding_of_ranks(rota_tape *tape, rota_communicator *communicator, rota_tensor table,
                                      rota_tensor index, rota_rank_part part, rota_tensor *out_y) {
    char text[ROTA_TENSOR_TEXT_MAX];
    if (table.rank != 2 || part.count == 0 || part.count > table.shape[0] || part.whole == 0)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "op 'embedding_of_ranks': table is %s, and its first %llu rows are of %llu classes; "
                         "expected [rows, dim], and one at least",
                         rota_tensor_describe(&table, text, sizeof text), (unsigned long long)part.count,
                         (unsigned long long)part.whole);
    ROTA_TRY(rota_tensor_slice(&table, 0, 0, part.count, &table));
    rota_op_use use = {.op = rota_op_at(ROTA_OP_embedding),
                       .input_count = 2,
                       .output_count = 1,
                       .inputs = {table, index},
                       .attributes = {.start = part.first, .length = part.whole}};
    ROTA_TRY(rota_op_apply(tape, &use));
    return rota_op_reduce_from_ranks(tape, communicator, use.outputs[0], out_y);
}

rota_status rota_op_embedding_of_ranks(rota_tape *tape, rota_communicator *communicator, rota_tensor table,
                                       rota_tensor index, rota_rank_part part, rota_tensor *out_y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(communicator);
    ROTA_GIVEN(out_y);
    *out_y = ROTA_TENSOR_NONE;
    ROTA_TRY(rota_record_may_end_later(tape->recorder, tape->name ? tape->name : "embedding_of_ranks"));
    ROTA_TAPE_AS_OP(tape, "embedding_of_ranks",
                    embedding_of_ranks(tape, communicator, table, index, part, out_y));
}

/* ---- Classifier: each use has an op of its own, as collectives have ---- */

typedef struct loss_of_ranks {
    rota_op op;
    rota_loss_part part;
} loss_of_ranks;

/* What each rank has of a row goes round. */
static rota_status gather_rows(rota_tape *tape, rota_communicator *communicator, const rota_tensor *own,
                               rota_tensor *out_all) {
    const uint64_t rows = own->shape[1], size = rota_communicator_size(communicator);
    *out_all = *own;
    if (size < 2) return ROTA_OK;
    ROTA_TRY(
        rota_tape_temporary(tape, "losses of all classes", ROTA_F32, ROTA_SHAPE(2 * size, rows), out_all));
    return rota_collective_record(tape, communicator, ROTA_COLLECTIVE_ALL_GATHER, own, out_all);
}

static rota_status record_classifier(rota_tape *tape, rota_op_use *use) {
    const rota_loss_part *of = use->op->user;
    const uint64_t rows = rota_tensor_count(&use->inputs[1]);
    const rota_tensor *lse = &use->outputs[1];
    rota_tensor labels, losses, own, all, own_losses, own_lse;
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[1], &labels));
    ROTA_TRY(rota_tape_temporary(tape, "losses of classes", ROTA_F32, ROTA_SHAPE(2, rows), &own));
    ROTA_TRY(rota_tensor_of(own.buffer, 0, ROTA_F32, ROTA_SHAPE(rows), &own_losses));
    ROTA_TRY(rota_tensor_of(own.buffer, rows * sizeof(float), ROTA_F32, ROTA_SHAPE(rows), &own_lse));
    ROTA_TRY(rota_loss_record_rows(tape, use, &labels, &own_losses, &own_lse));
    ROTA_TRY(gather_rows(tape, of->communicator, &own, &all));
    ROTA_TRY(rota_tape_temporary(tape, "losses", ROTA_F32, ROTA_SHAPE(rows), &losses));
    const rota_cross_entropy_join_params params = {.rows = (uint32_t)rows,
                                                   .ranks = rota_communicator_size(of->communicator),
                                                   .ignored = use->attributes.integer};
    rota_access join[] = {rota_tensor_access(&all, ROTA_READ), rota_tensor_access(&labels, ROTA_READ),
                          rota_tensor_write(&losses), rota_tensor_write(lse)};
    ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_cross_entropy_join, join, 4, &params, NULL, 0));
    return rota_loss_record_mean(tape, use, &labels, &losses);
}

static rota_status check_part(const rota_rank_part *part) {
    if (part->count > 0 && part->whole <= INT32_MAX && part->first < part->whole &&
        part->count <= part->whole - part->first)
        return ROTA_OK;
    return rota_fail(
        ROTA_INVALID_ARGUMENT,
        "op 'classifier_of_ranks': classes from %llu on, %llu of %llu; expected one at least, within "
        "all, which are 2^31 - 1 at most",
        (unsigned long long)part->first, (unsigned long long)part->count, (unsigned long long)part->whole);
}

rota_status rota_op_classifier_of_ranks(rota_tape *tape, rota_communicator *communicator, rota_tensor logits,
                                        rota_tensor labels, rota_rank_part part,
                                        const rota_classifier *options, rota_tensor *out_loss) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(communicator);
    ROTA_GIVEN(out_loss);
    rota_classifier room = ROTA_CLASSIFIER(.ignored = ROTA_IGNORED_LABEL);
    *out_loss = ROTA_TENSOR_NONE;
    options = options ? ROTA_SIZED_IN(rota_classifier, options, &room) : &room;
    if (!options) return ROTA_INVALID_ARGUMENT;
    ROTA_TRY(check_part(&part));
    if (options->classes)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "op 'classifier_of_ranks': %llu classes, expected 0: the part says it",
                         (unsigned long long)options->classes);
    ROTA_TRY(rota_record_may_end_later(tape->recorder, tape->name ? tape->name : "classifier_of_ranks"));
    loss_of_ranks *op = rota_arena_alloc(&tape->recorder->arena, sizeof *op, 8);
    if (!op) return rota_fail(ROTA_OUT_OF_MEMORY, "op 'classifier_of_ranks': no host memory");
    *op = (loss_of_ranks){*rota_op_at(options->in_place ? ROTA_OP_classifier : ROTA_OP_cross_entropy),
                          {part, communicator}};
    op->op.name = "classifier_of_ranks";
    op->op.record = record_classifier;
    op->op.user = &op->part;
    rota_op_use use = {
        .op = &op->op,
        .input_count = 2,
        .output_count = 3,
        .inputs = {logits, labels},
        .attributes = {.integer = options->ignored, .smoothing = options->smoothing, .length = part.count}};
    ROTA_TRY(rota_op_apply(tape, &use));
    *out_loss = use.outputs[0];
    return ROTA_OK;
}
