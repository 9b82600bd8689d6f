/* Of a table's gradient an embedding adds the rows that a batch has of it, and comes last in a backward pass: what
 * other ops add, a head with the same table, say, is finished long before. So that is reduced before, and at the end
 * each rank gets all ranks' rows and adds them itself, in ascending order of ranks, where the whole table would have
 * gone round. */
#include "ops/data_parallel_rows.h"

#include <inttypes.h>
#include <stdio.h>

#include "ops/op.h"
#include "ops/record.h"

uint64_t rota_rows_bytes(const rota_op_use *use, const rota_communicator *communicator) {
    const rota_tensor *table = &use->inputs[0];
    if (use->op != rota_op_at(ROTA_OP_embedding) || !rota_tensor_is_contiguous(table)) return 0;
    const uint64_t row = table->shape[1] * rota_dtype_bytes(table->dtype) + rota_dtype_bytes(ROTA_I32);
    return rota_communicator_size(communicator) * rota_tensor_count(&use->inputs[1]) * row;
}

/* What a rank has for the others, and where in it indices begin, in bytes: rows, and the indices behind them. */
typedef struct parcel {
    uint64_t rows, dim, index_begin, bytes;
} parcel;

static parcel parcel_of(const rota_op_use *use) {
    const rota_tensor *table = &use->inputs[0];
    parcel p = {.rows = rota_tensor_count(&use->inputs[1]), .dim = table->shape[1]};
    p.index_begin = (p.rows * p.dim * rota_dtype_bytes(table->dtype) + 3) / 4 * 4;
    p.bytes = p.index_begin + p.rows * rota_dtype_bytes(ROTA_I32);
    return p;
}

/* In each of `count` parcels, side by side in a buffer, `columns` elements of each row. */
static rota_tensor part_of(const rota_tensor *all, const parcel *p, uint64_t count, rota_dtype dtype,
                           uint64_t begin, uint64_t columns) {
    return (rota_tensor){.buffer = all->buffer,
                         .offset_bytes = all->offset_bytes + begin,
                         .dtype = dtype,
                         .rank = 3,
                         .shape = {count, p->rows, columns},
                         .stride = {p->bytes / rota_dtype_bytes(dtype), columns, 1}};
}

/* One parcel of this rank's. */
static rota_status pack(rota_tape *tape, const rota_row_exchange *exchange, const rota_tensor *dy,
                        float alpha, const parcel *p, rota_tensor *out_words) {
    rota_tensor index, rows, to;
    ROTA_TRY(rota_record_contiguous(tape, &exchange->used->use.inputs[1], &index));
    ROTA_TRY(rota_record_contiguous(tape, dy, &rows));
    ROTA_TRY(rota_tensor_reshape(&index, ROTA_SHAPE(1, p->rows, 1), &index));
    ROTA_TRY(rota_tensor_reshape(&rows, ROTA_SHAPE(1, p->rows, p->dim), &rows));
    ROTA_TRY(rota_tape_temporary(tape, "rows", ROTA_U32, ROTA_SHAPE(p->bytes / 4), out_words));
    /* An element that is left over between them is sent, too. */
    if (p->rows * p->dim * rota_dtype_bytes(dy->dtype) < p->index_begin)
        ROTA_TRY(rota_record_zero(tape, out_words->buffer, p->index_begin - 4, 4));
    to = part_of(out_words, p, 1, dy->dtype, 0, p->dim);
    ROTA_TRY(rota_record_strided(tape, &rows, &to, alpha, false));
    to = part_of(out_words, p, 1, ROTA_I32, p->index_begin, 1);
    return rota_record_strided(tape, &index, &to, 1.0f, false);
}

static rota_status unpack(rota_tape *tape, const rota_row_exchange *exchange, uint64_t ranks, const parcel *p,
                          rota_tensor *out_rows, rota_tensor *out_index) {
    const rota_dtype dtype = exchange->used->use.inputs[0].dtype;
    const rota_tensor rows = part_of(&exchange->words, p, ranks, dtype, 0, p->dim),
                      index = part_of(&exchange->words, p, ranks, ROTA_I32, p->index_begin, 1);
    rota_tensor to;
    ROTA_TRY(rota_tape_temporary(tape, "all rows", dtype, ROTA_SHAPE(ranks * p->rows, p->dim), out_rows));
    ROTA_TRY(rota_tensor_reshape(out_rows, ROTA_SHAPE(ranks, p->rows, p->dim), &to));
    ROTA_TRY(rota_record_strided(tape, &rows, &to, 1.0f, false));
    ROTA_TRY(rota_tape_temporary(tape, "all indices", ROTA_I32, ROTA_SHAPE(ranks * p->rows), out_index));
    ROTA_TRY(rota_tensor_reshape(out_index, ROTA_SHAPE(ranks, p->rows, 1), &to));
    return rota_record_strided(tape, &index, &to, 1.0f, false);
}

rota_status rota_rows_gather(rota_tape *tape, rota_communicator *communicator, bool sum,
                             rota_row_exchange *exchange) {
    const float part = 1.0f / (float)rota_communicator_size(communicator);
    const parcel p = parcel_of(&exchange->used->use);
    char text[64];
    rota_tensor words;
    snprintf(text, sizeof text, "gradient %" PRIu32 ", rows of all ranks", exchange->parameter);
    ROTA_TRY(rota_tape_name(tape, text));
    ROTA_TRY(pack(tape, exchange, rota_gradient_output(tape, 0), sum ? 1.0f : part, &p, &words));
    return rota_op_all_gather(tape, communicator, words, &exchange->words);
}

static rota_status add(rota_tape *tape, const rota_row_exchange *exchange, uint64_t ranks) {
    rota_op_use use = exchange->used->use;
    const parcel p = parcel_of(&use);
    ROTA_TRY(unpack(tape, exchange, ranks, &p, &tape->output_gradients[0], &use.inputs[1]));
    return use.op->gradient(tape, &use);
}

rota_status rota_rows_add(rota_tape *tape, const rota_communicator *communicator,
                          const rota_row_exchange *exchange) {
    const char *const name = tape->name, *const op_name = tape->op_name;
    if (!exchange->words.buffer) return ROTA_OK; /* no gradient came to it */
    tape->name = exchange->used->name;
    tape->op_name = NULL;
    rota_status status = ROTA_OK;
    if (exchange->used->op_name)
        status = rota_tape_label_of(tape, exchange->used->op_name, "_backward", &tape->op_name);
    if (status == ROTA_OK) status = add(tape, exchange, rota_communicator_size(communicator));
    tape->name = name;
    tape->op_name = op_name;
    return status;
}
