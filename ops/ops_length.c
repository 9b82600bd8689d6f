/* Ops that give a length, by name: each fills in a use and applies it. */
#include "base/given.h"
#include "ops/apply.h"
#include "ops/op.h"

/* `outputs`, of which the op has as many or more, as given (NULL buffer: made), and handed back. */
static rota_status apply(rota_tape *tape, uint32_t op, rota_op_use *use, uint32_t count,
                         rota_tensor *const *outputs) {
    use->op = rota_op_at(op);
    use->input_count = use->op->input_count;
    use->output_count = use->op->output_count;
    for (uint32_t i = 0; i < count; i++) use->outputs[i] = *outputs[i];
    ROTA_TRY(rota_tape_apply(tape, use, use->op->name));
    for (uint32_t i = 0; i < count; i++) *outputs[i] = use->outputs[i];
    return ROTA_OK;
}

static rota_status apply_new(rota_tape *tape, uint32_t op, rota_op_use *use, rota_tensor *out_y,
                             rota_tensor *out_count) {
    *out_y = *out_count = ROTA_TENSOR_NONE;
    return apply(tape, op, use, 2, (rota_tensor *const[]){out_y, out_count});
}

static rota_status apply_into(rota_tape *tape, uint32_t op, rota_op_use *use, rota_tensor y,
                              rota_tensor count) {
    if (!y.buffer || !count.buffer)
        return rota_fail(ROTA_INVALID_ARGUMENT, "op '%s': the destination '%s' is missing",
                         rota_op_at(op)->name, rota_op_at(op)->output_names[y.buffer ? 1 : 0]);
    return apply(tape, op, use, 2, (rota_tensor *const[]){&y, &count});
}

rota_status rota_op_nonzero(rota_tape *tape, rota_tensor x, rota_tensor *out_index, rota_tensor *out_count) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_index);
    ROTA_GIVEN(out_count);
    rota_op_use use = {.inputs = {x}};
    return apply_new(tape, ROTA_OP_nonzero, &use, out_index, out_count);
}

rota_status rota_op_nonzero_into(rota_tape *tape, rota_tensor x, rota_tensor index, rota_tensor count) {
    ROTA_GIVEN(tape);
    rota_op_use use = {.inputs = {x}};
    return apply_into(tape, ROTA_OP_nonzero, &use, index, count);
}

rota_status rota_op_compact(rota_tape *tape, rota_tensor x, rota_tensor mask, rota_tensor *out_y,
                            rota_tensor *out_count) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_y);
    ROTA_GIVEN(out_count);
    rota_op_use use = {.inputs = {x, mask}};
    return apply_new(tape, ROTA_OP_compact, &use, out_y, out_count);
}

rota_status rota_op_compact_into(rota_tape *tape, rota_tensor x, rota_tensor mask, rota_tensor y,
                                 rota_tensor count) {
    ROTA_GIVEN(tape);
    rota_op_use use = {.inputs = {x, mask}};
    return apply_into(tape, ROTA_OP_compact, &use, y, count);
}

rota_status rota_op_unique(rota_tape *tape, rota_tensor x, rota_tensor *out_y, rota_tensor *out_count,
                           rota_tensor *out_inverse) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_y);
    ROTA_GIVEN(out_count);
    rota_op_use use = {.inputs = {x}};
    if (out_inverse) *out_inverse = ROTA_TENSOR_NONE;
    ROTA_TRY(apply_new(tape, ROTA_OP_unique, &use, out_y, out_count));
    if (out_inverse) *out_inverse = use.outputs[2];
    return ROTA_OK;
}

rota_status rota_op_unique_into(rota_tape *tape, rota_tensor x, rota_tensor y, rota_tensor count,
                                rota_tensor inverse) {
    ROTA_GIVEN(tape);
    rota_op_use use = {.inputs = {x}, .outputs = {[2] = inverse}};
    return apply_into(tape, ROTA_OP_unique, &use, y, count);
}

rota_status rota_op_top_p(rota_tape *tape, rota_tensor x, rota_value p, rota_tensor *out_index,
                          rota_tensor *out_count) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_index);
    ROTA_GIVEN(out_count);
    rota_op_use use = {.inputs = {x}, .attributes = {.value = {p}}};
    return apply_new(tape, ROTA_OP_top_p, &use, out_index, out_count);
}

rota_status rota_op_top_p_into(rota_tape *tape, rota_tensor x, rota_value p, rota_tensor index,
                               rota_tensor count) {
    ROTA_GIVEN(tape);
    rota_op_use use = {.inputs = {x}, .attributes = {.value = {p}}};
    return apply_into(tape, ROTA_OP_top_p, &use, index, count);
}
