/* Applying an op: its operands checked, its results made, its nodes recorded, and the use remembered. */
#include "ops/apply.h"
#include "base/given.h"
#include "ops/op.h"
#include "ops/op_table.h"
#include "ops/record.h"
#include "ops/remember.h"

/* ---- Checks ---- */

/* What an op from outside may lack. */
static rota_status check_op(const rota_op *op) {
    if (!op) return rota_fail(ROTA_INVALID_ARGUMENT, "rota_op_apply: the use has no op");
    if (!op->name) return rota_fail(ROTA_INVALID_ARGUMENT, "rota_op_apply: the op has no name");
    if (op->input_count > ROTA_OP_INPUTS_MAX || op->output_count > ROTA_OP_OUTPUTS_MAX)
        return rota_op_fail(op, ROTA_INVALID_ARGUMENT, "%u inputs and %u outputs; at most %d and %d",
                            op->input_count, op->output_count, ROTA_OP_INPUTS_MAX, ROTA_OP_OUTPUTS_MAX);
    if (!op->shape || !op->record)
        return rota_op_fail(op, ROTA_INVALID_ARGUMENT, "it has no function `%s`",
                            op->shape ? "record" : "shape");
    for (uint32_t i = 0; i < op->input_count; i++)
        if (!op->input_names[i]) return rota_op_fail(op, ROTA_INVALID_ARGUMENT, "input %u has no name", i);
    for (uint32_t i = 0; i < op->output_count; i++)
        if (!op->output_names[i]) return rota_op_fail(op, ROTA_INVALID_ARGUMENT, "output %u has no name", i);
    if (op->gradient && (!op->differentiable || op->stops_gradient))
        return rota_op_fail(op, ROTA_INVALID_ARGUMENT,
                            "it has a function `gradient`, and `%s` says that no input gets one",
                            op->stops_gradient ? "stops_gradient" : "differentiable");
    if (op->differentiable >> op->input_count || op->saved_inputs >> op->input_count ||
        op->saved_outputs >> op->output_count)
        return rota_op_fail(
            op, ROTA_INVALID_ARGUMENT,
            "`differentiable` (%#x), `saved_inputs` (%#x) or `saved_outputs` (%#x) has a bit past "
            "its %u inputs and %u outputs",
            op->differentiable, op->saved_inputs, op->saved_outputs, op->input_count, op->output_count);
    return ROTA_OK;
}

/* What a shape rule from outside gave. */
static rota_status check_shape(const rota_op_use *use, const rota_tensor *expected) {
    for (uint32_t i = 0; i < use->output_count; i++) {
        rota_tensor dense;
        const rota_tensor *y = &expected[i];
        if (y->dtype >= ROTA_DTYPE_COUNT || y->rank > ROTA_RANK_MAX ||
            rota_tensor_of(NULL, 0, y->dtype, y->rank, y->shape, &dense) != ROTA_OK ||
            !rota_tensor_is_contiguous(y))
            return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT,
                                "its shape rule gives '%s' no dtype, shape and contiguous strides",
                                use->op->output_names[i]);
    }
    return ROTA_OK;
}

/* Takes a tensor in: it may be made by hand, and of a view. */
static rota_status enter(const rota_op *op, const char *what, const char *name, rota_tensor *x) {
    rota_status status = rota_tensor_check(x);
    if (status != ROTA_OK) return rota_op_fail(op, status, "%s '%s' %s", what, name, rota_last_error());
    rota_tensor_resolve(x);
    return ROTA_OK;
}

static rota_status enter_operands(rota_op_use *use) {
    const rota_op *op = use->op;
    if (use->input_count != op->input_count || use->output_count != op->output_count)
        return rota_op_fail(op, ROTA_INVALID_ARGUMENT, "%u inputs and %u outputs, expected %u and %u",
                            use->input_count, use->output_count, op->input_count, op->output_count);
    for (uint32_t i = 0; i < use->input_count; i++) {
        rota_tensor *x = &use->inputs[i];
        if (!x->buffer && !(op->optional_inputs & 1u << i))
            return rota_op_fail(op, ROTA_INVALID_ARGUMENT, "input '%s' is missing", op->input_names[i]);
        if (x->buffer) ROTA_TRY(enter(op, "input", op->input_names[i], x));
    }
    for (uint32_t i = 0; i < use->output_count; i++)
        if (use->outputs[i].buffer) ROTA_TRY(enter(op, "destination", op->output_names[i], &use->outputs[i]));
    return ROTA_OK;
}

/* A result that is given must look like the one that would be made. */
static rota_status check_output(const rota_op_use *use, uint32_t i, const rota_tensor *expected) {
    const rota_tensor *y = &use->outputs[i];
    char got[ROTA_TENSOR_TEXT_MAX], wanted[ROTA_TENSOR_TEXT_MAX];
    if (y->dtype != expected->dtype || !rota_shapes_equal(y, expected))
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "destination '%s' is %s, expected %s",
                            use->op->output_names[i], rota_tensor_describe(y, got, sizeof got),
                            rota_tensor_describe(expected, wanted, sizeof wanted));
    for (uint32_t d = 0; d < y->rank && !rota_tensor_is_empty(y); d++)
        if (y->shape[d] > 1 && y->stride[d] == 0)
            return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "destination '%s' %s repeats axis %u",
                                use->op->output_names[i], rota_tensor_describe(y, got, sizeof got), d);
    return ROTA_OK;
}

/* Whether the op can write a destination directly, given what its inputs are. */
static bool writes_directly(const rota_op_use *use, uint32_t output) {
    const rota_tensor *y = &use->outputs[output];
    /* Kernels take addresses that are multiples of 4. */
    if (!(use->op->strided_output && output == 0) &&
        (!rota_tensor_is_contiguous(y) || y->offset_bytes % 4 != 0))
        return false;
    if (output > 0) return true;
    uint32_t same = 0, touching = 0;
    for (uint32_t i = 0; i < use->input_count; i++) {
        const rota_tensor *x = &use->inputs[i];
        if (!x->buffer || !rota_tensors_overlap(x, y)) continue;
        touching++;
        same += ((use->op->inplace_inputs & 1u << i) && rota_tensors_equal(x, y)) ||
                (i == 0 && use->op->overlaps_in_place && use->op->overlaps_in_place(use));
    }
    return touching == 0 || (touching == 1 && same == 1);
}

/* ---- Operands without elements ---- */

/* Whether an operand has none, and whether none that the op writes has one. */
static bool takes_nothing(const rota_op_use *use, bool *out_writes_nothing) {
    bool takes = false, writes = false;
    for (uint32_t i = 0; i < use->input_count; i++) {
        const rota_tensor *x = &use->inputs[i];
        if (!x->buffer) continue;
        if (rota_tensor_is_empty(x))
            takes = true;
        else
            writes = writes || use->op->input_modes[i] != ROTA_READ;
    }
    for (uint32_t i = 0; i < use->output_count; i++)
        if (rota_tensor_is_empty(&use->outputs[i]))
            takes = true;
        else
            writes = true;
    *out_writes_nothing = !writes;
    return takes;
}

/* Another op in the place of `use`: it records, and remembers, what its result is. */
static rota_status apply_instead(rota_tape *tape, const rota_op_use *use, uint32_t op, double number) {
    rota_op_use other = {.op = rota_op_at(op), .output_count = 1, .outputs = {use->outputs[0]}};
    other.input_count = other.op->input_count;
    if (other.input_count) other.inputs[0] = use->inputs[0];
    other.attributes.value[0] = rota_value_plain(number);
    return rota_op_apply(tape, &other);
}

/* What an op gives of operands without elements, where that has some. */
static rota_status apply_to_nothing(rota_tape *tape, const rota_op_use *use) {
    char text[ROTA_TENSOR_TEXT_MAX], other[ROTA_TENSOR_TEXT_MAX];
    switch (use->op->of_nothing) {
    case ROTA_OF_NOTHING_ZERO:
        return apply_instead(tape, use, ROTA_OP_fill, 0);
    case ROTA_OF_NOTHING_FIRST:
        return apply_instead(tape, use, ROTA_OP_copy, 0);
    case ROTA_OF_NOTHING_UNCHANGED:
        return ROTA_OK;
    default:
        break;
    }
    const rota_tensor *empty = NULL, *full = NULL;
    const char *name = NULL, *full_name = NULL;
    for (uint32_t i = 0; i < use->input_count + use->output_count; i++) {
        const bool is_input = i < use->input_count;
        const uint32_t n = is_input ? i : i - use->input_count;
        const rota_tensor *x = is_input ? &use->inputs[n] : &use->outputs[n];
        if (!x->buffer) continue;
        const bool written = !is_input || use->op->input_modes[n] != ROTA_READ;
        const char *const called = is_input ? use->op->input_names[n] : use->op->output_names[n];
        if (rota_tensor_is_empty(x) && !empty) {
            empty = x;
            name = called;
        } else if (!rota_tensor_is_empty(x) && written && !full) {
            full = x;
            full_name = called;
        }
    }
    return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT,
                        "%s is %s, which has no elements: there is nothing to make %s, %s, of", name,
                        rota_tensor_describe(empty, text, sizeof text), full_name,
                        rota_tensor_describe(full, other, sizeof other));
}

/* All but the checks of the op itself. */
static rota_status expect(rota_op_use *use, rota_tensor *expected) {
    const rota_op *op = use->op;
    for (uint32_t i = 0; i < ROTA_OP_OUTPUTS_MAX; i++)
        expected[i] = (rota_tensor){.dtype = ROTA_DTYPE_COUNT}; /* what no shape rule leaves */
    for (uint32_t i = 0; i < 2; i++)
        if ((unsigned)use->attributes.value[i].kind > ROTA_VALUE_CONSTANT)
            return rota_op_fail(op, ROTA_INVALID_ARGUMENT, "value %u is of kind %d, which is none", i,
                                (int)use->attributes.value[i].kind);
    ROTA_TRY(enter_operands(use));
    ROTA_TRY(op->shape(use, expected));
    ROTA_TRY(check_shape(use, expected));
    for (uint32_t i = 0; i < use->output_count; i++)
        if (use->outputs[i].buffer) ROTA_TRY(check_output(use, i, &expected[i]));
    return ROTA_OK;
}

rota_status rota_tape_expect(rota_op_use *use, rota_tensor *out_outputs) {
    ROTA_TRY(check_op(use->op));
    return expect(use, out_outputs);
}

/* Of an op that was checked. */
static rota_status apply(rota_tape *tape, rota_op_use *use) {
    const rota_op *op = use->op;
    rota_tensor expected[ROTA_OP_OUTPUTS_MAX];
    ROTA_TRY(expect(use, expected));
    for (uint32_t i = 0; i < use->output_count; i++)
        if (!use->outputs[i].buffer)
            ROTA_TRY(rota_tape_temporary(tape, op->name, expected[i].dtype, expected[i].rank,
                                         expected[i].shape, &use->outputs[i]));
    bool writes_nothing;
    if (takes_nothing(use, &writes_nothing)) {
        /* Nothing is remembered either: no gradient flows through no elements. */
        if (writes_nothing) return ROTA_OK;
        if (op->of_nothing != ROTA_OF_NOTHING_RECORDED) return apply_to_nothing(tape, use);
    }
    uint32_t around = 0; /* bit i: output i is made elsewhere, and copied */
    for (uint32_t i = 0; i < use->output_count; i++) around |= writes_directly(use, i) ? 0 : 1u << i;
    if (around == 0) {
        ROTA_TRY(op->record(tape, use));
    } else {
        rota_op_use detour = *use;
        for (uint32_t i = 0; i < use->output_count; i++)
            if (around & 1u << i)
                ROTA_TRY(rota_tape_temporary(tape, op->name, expected[i].dtype, expected[i].rank,
                                             expected[i].shape, &detour.outputs[i]));
        ROTA_TRY(op->record(tape, &detour));
        use->attributes = detour.attributes;
        for (uint32_t i = 0; i < use->output_count; i++)
            if (around & 1u << i)
                ROTA_TRY(rota_record_strided(tape, &detour.outputs[i], &use->outputs[i], 1.0f, false));
    }
    return rota_tape_remember_use(tape, use);
}

rota_status rota_tape_apply(rota_tape *tape, rota_op_use *use, const char *name) {
    ROTA_TAPE_AS_OP(tape, name, apply(tape, use));
}

rota_status rota_op_apply(rota_tape *tape, rota_op_use *use) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(use);
    ROTA_TRY(check_op(use->op));
    /* An op from outside need not live as long as the nodes. */
    const char *name = use->op->name;
    if (!tape->op_name && !rota_op_is_listed(use->op))
        ROTA_TRY(rota_tape_label_of(tape, use->op->name, "", &name));
    return rota_tape_apply(tape, use, name);
}
