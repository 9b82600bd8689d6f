/* rota_backward: walks the remembered ops from the loss back, and has each record its gradient. */
#include "ops/backward_bodies.h"
#include "ops/gradient.h"
#include "base/given.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/sized_copy.h"
#include "graph/record.h"
#include "ops/apply.h"
#include "ops/backward_decides.h"
#include "ops/backward_steps.h"
#include "ops/data_parallel.h"
#include "ops/record.h"
#include "ops/remember.h"
#include "ops/unshard.h"

/* ---- What was asked ---- */

static rota_status check_parameter(const rota_tensor *p, const rota_tensor *g, uint32_t index) {
    char text[ROTA_TENSOR_TEXT_MAX], other[ROTA_TENSOR_TEXT_MAX];
    if (!p->buffer || !rota_dtype_is_real(p->dtype) || !rota_tensor_is_contiguous(p))
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "backward: parameter %u is %s; expected f32, f16 or bf16, contiguous", index,
                         p->buffer ? rota_tensor_describe(p, text, sizeof text) : "missing");
    if (!g->buffer) return ROTA_OK;
    if (g->dtype != p->dtype || !rota_tensor_is_contiguous(g) || !rota_shapes_equal(p, g))
        return rota_fail(
            ROTA_INVALID_ARGUMENT, "backward: gradient %u is %s; expected contiguous, like its parameter %s",
            index, rota_tensor_describe(g, text, sizeof text), rota_tensor_describe(p, other, sizeof other));
    if (rota_tensors_overlap(p, g))
        return rota_fail(ROTA_INVALID_ARGUMENT, "backward: gradient %u overlaps its parameter", index);
    return ROTA_OK;
}

/* As rota_tensor_check, for a tensor with a buffer. */
static rota_status check_tensor(const rota_tensor *x, const char *what, uint32_t index) {
    char text[ROTA_ERROR_MESSAGE_MAX];
    if (!x->buffer) return ROTA_OK;
    const rota_status status = rota_tensor_check(x);
    if (status == ROTA_OK) return ROTA_OK;
    snprintf(text, sizeof text, "%s", rota_last_error());
    return rota_fail(status, "backward: %s %u %s", what, index, text);
}

/* Each buffer gets the regions of its parameters, in ascending order. */
static rota_status give_regions(rota_tape *tape, const rota_tensor *params, uint32_t count,
                                rota_gradient_region **regions) {
    rota_place *places;
    rota_overlap overlap;
    uint32_t n;
    ROTA_TRY(rota_gradient_places(tape, params, count, &places, &n, &overlap));
    if (overlap.found)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "backward: parameter %u overlaps another one in buffer '%s', parameter %u",
                         overlap.second, rota_buffer_name(params[overlap.second].buffer), overlap.first);
    rota_gradient_region **given = rota_arena_alloc(&tape->arena, ((uint64_t)n + 1) * sizeof *given, 8);
    if (!given) return rota_backward_no_memory();
    rota_tape_buffer *entry = NULL;
    for (uint32_t i = 0; i < n; i++) {
        given[i] = regions[places[i].index];
        if (i == 0 || places[i].root != places[i - 1].root) {
            if (!(entry = rota_tape_lookup(tape, &params[places[i].index]))) return rota_backward_no_memory();
            entry->given = &given[i];
            entry->given_count = 0;
        }
        entry->given_count++;
    }
    return ROTA_OK;
}

rota_status rota_backward_open(rota_tape *tape, const rota_tensor *params, uint32_t count, rota_tensor *grads,
                               bool accumulate) {
    rota_gradient_region **regions =
        rota_arena_calloc(&tape->arena, ((uint64_t)count + 1) * sizeof *regions, 8);
    if (!regions) return rota_backward_no_memory();
    for (uint32_t i = 0; i < count; i++) {
        ROTA_TRY(check_tensor(&params[i], "parameter", i));
        ROTA_TRY(check_tensor(&grads[i], "gradient", i));
        ROTA_TRY(check_parameter(&params[i], &grads[i], i));
        if (rota_tensor_is_empty(&params[i])) { /* nor has its gradient */
            if (!grads[i].buffer)
                ROTA_TRY(rota_tape_temporary(tape, "parameter gradient", params[i].dtype, params[i].rank,
                                             params[i].shape, &grads[i]));
            continue;
        }
        const bool given = grads[i].buffer != NULL;
        if (!given)
            ROTA_TRY(rota_tape_temporary(tape, "parameter gradient", params[i].dtype, params[i].rank,
                                         params[i].shape, &grads[i]));
        rota_gradient_region *region;
        rota_tensor memory = grads[i];
        rota_tensor_resolve(&memory);
        ROTA_TRY(rota_gradient_region_add(tape, &params[i], &memory, true, &region));
        regions[i] = region;
        if (!given || !accumulate) continue;
        /* What is there stays, and is added to. */
        region->written = rota_arena_calloc(&tape->arena, sizeof *region->written, 8);
        region->views = rota_arena_calloc(&tape->arena, sizeof *region->views, 8);
        if (!region->written || !region->views) return rota_backward_no_memory();
        *region->written = (rota_byte_range){NULL, region->begin, region->end};
        region->views->tensor = memory;
        region->view_count = 1;
    }
    return give_regions(tape, params, count, regions);
}

/* ---- Which ops take part ---- */

static bool passes_any(rota_tape *tape, const rota_op_use *use) {
    for (uint32_t i = 0; i < use->input_count; i++)
        if (rota_gradient_passes(tape, &use->inputs[i])) return true;
    return false;
}

/* The first input of 8-bit floats that was computed from a parameter; input_count: there is none. */
static rota_status find_f8(rota_tape *tape, const rota_op_use *use, uint32_t *out_input) {
    for (*out_input = 0; *out_input < use->input_count; ++*out_input) {
        const rota_tensor *x = &use->inputs[*out_input];
        if (!x->buffer || !rota_dtype_is_f8(x->dtype)) continue;
        const rota_tape_buffer *entry = rota_tape_lookup(tape, x);
        if (!entry) return rota_backward_no_memory();
        if (entry->wanted) return ROTA_OK;
    }
    return ROTA_OK;
}

/* What lies behind 8-bit floats would get no gradient, and nothing would tell. */
static rota_status check_f8(rota_tape *tape, const rota_op_use *use) {
    uint32_t input;
    ROTA_TRY(find_f8(tape, use, &input));
    if (input == use->input_count || use->op->stops_gradient) return ROTA_OK;
    return rota_op_fail(use->op, ROTA_UNSUPPORTED,
                        "the loss depends on a parameter by its '%s', %s: no gradient passes through "
                        "8-bit floats; give what is cast to them to rota_op_stop_gradient if none should",
                        use->op->input_names[input], rota_dtype_name(use->inputs[input].dtype));
}

rota_status rota_backward_spread(rota_tape *tape, const rota_op_use *use) {
    uint32_t f8;
    if (use->op->stops_gradient) return ROTA_OK;
    ROTA_TRY(find_f8(tape, use, &f8));
    if (f8 == use->input_count && !passes_any(tape, use)) return ROTA_OK;
    for (uint32_t i = 0; i < use->output_count; i++) {
        /* 8-bit floats have none, and are marked so that what is computed of them can say so. */
        if (!rota_dtype_is_real(use->outputs[i].dtype) && !rota_dtype_is_f8(use->outputs[i].dtype)) continue;
        rota_tape_buffer *entry = rota_tape_lookup(tape, &use->outputs[i]);
        if (!entry) return rota_backward_no_memory();
        tape->wanted_count += !entry->wanted;
        entry->wanted = true;
    }
    return ROTA_OK;
}

/* A value that a gradient reads must still be there. */
static rota_status check_saved(rota_tape *tape, const rota_tape_use *used, const rota_tensor *saved,
                               const char *name) {
    if (!saved->buffer) return ROTA_OK;
    const rota_tape_buffer *entry = rota_tape_lookup(tape, saved);
    if (!entry) return rota_backward_no_memory();
    const uint64_t begin = rota_tensor_begin(saved), end = begin + rota_tensor_extent_bytes(saved);
    for (const rota_tape_write *write = entry->writes; write && write->sequence >= used->sequence;
         write = write->next) {
        bool by_itself = write->sequence == used->sequence;
        const bool is_input = saved >= used->use.inputs && saved < used->use.inputs + ROTA_OP_INPUTS_MAX;
        /* An op that has a gradient and says that it writes an input, writes it in its gradient. */
        if (by_itself && (!is_input || used->use.op->input_modes[saved - used->use.inputs] != ROTA_READ))
            continue;
        if (write->begin < end && write->end > begin)
            return rota_fail(ROTA_WRONG_STATE,
                             "backward: op '%s' needs its '%s' in buffer '%s', which op '%s' overwrote",
                             used->use.op->name, name, rota_buffer_name(saved->buffer), write->op->name);
    }
    const rota_conditional *node = rota_backward_body_that_overwrites(tape, used, entry, begin, end);
    if (!node) return ROTA_OK;
    return rota_fail(ROTA_WRONG_STATE,
                     "backward: op '%s' needs its '%s' in buffer '%s', which a body of node '%s' overwrote",
                     used->use.op->name, name, rota_buffer_name(saved->buffer),
                     rota_node_record_name(node->record));
}

static rota_status check_all_saved(rota_tape *tape, const rota_tape_use *used) {
    const rota_op *op = used->use.op;
    for (uint32_t i = 0; i < used->use.input_count; i++)
        if (op->saved_inputs & 1u << i)
            ROTA_TRY(check_saved(tape, used, &used->use.inputs[i], op->input_names[i]));
    for (uint32_t i = 0; i < used->use.output_count; i++)
        if (op->saved_outputs & 1u << i)
            ROTA_TRY(check_saved(tape, used, &used->use.outputs[i], op->output_names[i]));
    return ROTA_OK;
}

/* ---- One op back ---- */

/* The gradient of the first output, taken out of the way if the op worked in place: its inputs' gradients go
 * to the same memory. */
static rota_status take_output(rota_tape *tape, const rota_tape_use *used, bool *out_cleared) {
    const rota_op_use *use = &used->use;
    const rota_tensor *y = &use->outputs[0];
    rota_tensor dy;
    *out_cleared = false;
    ROTA_TRY(rota_gradient_read(tape, y, &dy));
    tape->output_gradients[0] = dy;
    for (uint32_t i = 0; i < use->input_count; i++) {
        if (!use->inputs[i].buffer || !rota_tensors_overlap(&use->inputs[i], y)) continue;
        ROTA_TRY(
            rota_tape_temporary(tape, "gradient", dy.dtype, dy.rank, dy.shape, &tape->output_gradients[0]));
        ROTA_TRY(rota_record_strided(tape, &dy, &tape->output_gradients[0], 1.0f, false));
        *out_cleared = true;
        return rota_gradient_clear(tape, y, true);
    }
    return ROTA_OK;
}

/* A parameter may be what an op made: its gradient stays where it was asked for, and what the op was given
 * gets its own of it. That takes an op that wrote all of it, of other memory, which nobody read before. */
static rota_status check_made_parameter(rota_tape *tape, const rota_tape_use *used,
                                        const rota_gradient_region *region, bool accumulate) {
    const rota_op_use *use = &used->use;
    const rota_tensor *y = &use->outputs[0];
    const rota_tape_buffer *entry = rota_tape_lookup(tape, y);
    const uint64_t begin = rota_tensor_begin(y), end = begin + rota_tensor_extent_bytes(y);
    const char *why = NULL;
    for (uint32_t i = 0; i < use->input_count; i++)
        if (use->inputs[i].buffer && rota_tensors_overlap(&use->inputs[i], y)) why = "in place";
    if (begin != region->begin || end != region->end || !rota_tensor_is_contiguous(y))
        why = "in part, or with others";
    if (!entry || entry->first_read < used->sequence) why = "after others had read it";
    if (accumulate) why = "and its gradient is to be added to what there is";
    if (!why) return ROTA_OK;
    return rota_fail(
        ROTA_UNSUPPORTED,
        "backward: op '%s' wrote a parameter in buffer '%s' %s: of an op's result there is a gradient "
        "only if that op wrote all of it, once",
        use->op->name, rota_buffer_name(y->buffer), why);
}

rota_status rota_backward_step(rota_tape *tape, const rota_tape_use *used, bool accumulate) {
    const rota_op_use *use = &used->use;
    if (use->output_count == 0) return ROTA_OK;
    rota_gradient_region *made = rota_gradient_given(tape, &use->outputs[0]);
    /* Written over by the op that made the parameter. */
    if (made && made->kept && rota_tensor_begin(&use->outputs[0]) >= made->begin &&
        rota_tensor_begin(&use->outputs[0]) + rota_tensor_extent_bytes(&use->outputs[0]) <= made->end)
        return ROTA_OK;
    for (uint32_t i = 1; i < use->output_count; i++)
        if (rota_dtype_is_real(use->outputs[i].dtype) && rota_gradient_touched(tape, &use->outputs[i]))
            return rota_op_fail(use->op, ROTA_UNSUPPORTED,
                                "the loss depends on its '%s', and gradients flow through '%s' only",
                                use->op->output_names[i], use->op->output_names[0]);
    if (!rota_dtype_is_real(use->outputs[0].dtype) || !rota_gradient_touched(tape, &use->outputs[0]))
        return ROTA_OK;
    ROTA_TRY(check_f8(tape, use));
    if (made) ROTA_TRY(check_made_parameter(tape, used, made, accumulate));
    tape->name = used->name;
    tape->op_name = NULL;
    if (used->op_name) ROTA_TRY(rota_tape_label_of(tape, used->op_name, "_backward", &tape->op_name));
    bool cleared = false;
    if (!use->op->stops_gradient && passes_any(tape, use)) {
        if (!use->op->gradient)
            return rota_op_fail(use->op, ROTA_UNSUPPORTED, "the loss depends on it, and it has no gradient");
        ROTA_TRY(check_all_saved(tape, used));
        ROTA_TRY(take_output(tape, used, &cleared));
        ROTA_TRY(use->op->gradient(tape, use));
    }
    if (made) made->kept = true;
    if (cleared || made) return ROTA_OK;
    return rota_gradient_clear(tape, &use->outputs[0], used->onto);
}

/* Parameters that the loss doesn't reach, or reaches only in part. */
static rota_status close_parameters(rota_tape *tape, const rota_tensor *params, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        rota_tensor whole;
        if (rota_tensor_is_empty(&params[i])) continue;
        ROTA_TRY(rota_gradient_read(tape, &params[i], &whole));
    }
    return ROTA_OK;
}

/* The loss's gradient of itself. */
static rota_status seed(rota_tape *tape, const rota_tensor *loss) {
    rota_tensor target, one;
    bool fresh;
    if (!rota_gradient_wanted(tape, loss)) return ROTA_OK;
    ROTA_TRY(rota_gradient_target(tape, loss, &target, &fresh));
    if (fresh) return rota_tape_fill(tape, target.buffer, target.offset_bytes, sizeof(float), 0x3F800000u);
    ROTA_TRY(rota_tape_temporary(tape, "one", ROTA_F32, target.rank, target.shape, &one));
    ROTA_TRY(rota_tape_fill(tape, one.buffer, 0, sizeof(float), 0x3F800000u));
    return rota_record_strided(tape, &one, &target, 1.0f, true);
}

/* Buckets know a gradient to be finished by the ops that the tape has. */
static rota_status step_node(rota_tape *tape, rota_conditional *node, const rota_buckets *buckets) {
    if (!buckets || !rota_decides_is_touched(tape, node)) return rota_decides_step(tape, node);
    return rota_fail(
        ROTA_UNSUPPORTED,
        "backward: the gradient flows through node '%s', which decides, and is to be that of all ranks "
        "(data_parallel); expected gradients of this rank alone",
        rota_node_record_name(node->record));
}

/* One op back, with what it reads of gathered parameters; then those whose gradients it was the last to add to. */
static rota_status step_use(rota_tape *tape, rota_unshards *unshards, uint64_t use, bool accumulate) {
    const rota_tape_use *used = tape->uses[use];
    rota_tape_use room;
    if (!unshards) return rota_backward_step(tape, used, accumulate);
    ROTA_TRY(rota_unshards_read(unshards, use, &room, &used));
    if (used) ROTA_TRY(rota_backward_step(tape, used, accumulate));
    while ((used = rota_unshards_finished(unshards, use)))
        ROTA_TRY(rota_backward_step(tape, used, accumulate));
    return ROTA_OK;
}

static rota_status record(rota_tape *tape, const rota_tensor *losses, uint32_t loss_count,
                          const rota_tensor *params, uint32_t count, rota_tensor *grads,
                          const rota_backward_options *options) {
    const uint64_t uses = tape->use_count;
    const char *const name = tape->name;
    const bool accumulate = options && options->accumulate;
    rota_buckets *buckets = NULL; /* NULL: of one rank */
    rota_unshards *unshards;      /* NULL: no parameters were gathered */
    rota_decides decides;
    ROTA_TRY(rota_backward_open(tape, params, count, grads, accumulate));
    if (options && options->data_parallel)
        ROTA_TRY(rota_buckets_open(tape, options->data_parallel, params, grads, count, &buckets));
    ROTA_TRY(rota_decides_list(tape, &decides));
    ROTA_TRY(rota_decides_spread_all(tape, &decides));
    ROTA_TRY(rota_backward_check_bodies(tape));
    ROTA_TRY(rota_unshards_open(tape, decides.count == 0, &unshards));
    const rota_tape_use *again;
    for (uint32_t i = 0; (again = rota_unshards_again(unshards, i)); i++)
        ROTA_TRY(check_all_saved(tape, again));
    if (unshards && options && options->data_parallel) ROTA_TRY(rota_unshards_refuse_data_parallel(unshards));
    for (uint32_t i = 0; i < loss_count; i++) ROTA_TRY(seed(tape, &losses[i]));
    uint32_t left = decides.count;
    for (uint64_t u = uses; u-- > 0;) {
        for (; left > 0 && decides.nodes[left - 1]->index >= tape->uses[u]->lane_nodes; left--)
            ROTA_TRY(step_node(tape, decides.nodes[left - 1], buckets));
        ROTA_TRY(step_use(tape, unshards, u, accumulate));
        if (!buckets) continue;
        tape->op_name = "backward";
        ROTA_TRY(rota_buckets_step(buckets, u));
    }
    tape->name = name;
    tape->op_name = "backward";
    while (left > 0) ROTA_TRY(step_node(tape, decides.nodes[--left], buckets));
    ROTA_TRY(close_parameters(tape, params, count));
    return buckets ? rota_buckets_close(buckets) : ROTA_OK;
}

/* The tape as it was before, but for what gradients were recorded. */
static void forget_gradients(rota_tape *tape) {
    for (uint64_t i = 0; i < tape->map_capacity; i++) {
        tape->map[i].wanted = false;
        tape->map[i].regions = NULL; /* in the arena, until the tape forgets its ops */
        tape->map[i].given = NULL;
        tape->map[i].given_count = 0;
        tape->map[i].body_writes = NULL;
        tape->map[i].lost = false;
        tape->map[i].unshard = 0;
    }
}

rota_status rota_backward_losses(rota_tape *tape, const rota_tensor *losses, uint32_t loss_count,
                                 const rota_tensor *params, uint32_t count, rota_tensor *grads,
                                 const rota_backward_options *options) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN_ARRAY(losses, loss_count);
    ROTA_GIVEN_ARRAY(params, count);
    ROTA_GIVEN_ARRAY(grads, count);
    char text[ROTA_TENSOR_TEXT_MAX];
    rota_backward_options room;
    if (options && !(options = ROTA_SIZED_IN(rota_backward_options, options, &room)))
        return ROTA_INVALID_ARGUMENT;
    if (tape->options.no_gradients)
        return rota_fail(ROTA_WRONG_STATE, "backward: the tape was made without gradients");
    if (loss_count == 0) return rota_fail(ROTA_INVALID_ARGUMENT, "backward: no loss");
    for (uint32_t i = 0; i < loss_count; i++) {
        const rota_tensor *loss = &losses[i];
        ROTA_TRY(check_tensor(loss, "loss", i));
        if (loss->buffer && loss->dtype == ROTA_F32 && rota_tensor_count(loss) == 1) continue;
        return rota_fail(ROTA_INVALID_ARGUMENT, "backward: loss %u is %s; expected one f32 element", i,
                         loss->buffer ? rota_tensor_describe(loss, text, sizeof text) : "missing");
    }
    const char *const name = tape->name, *const op_name = tape->op_name;
    const bool remember = tape->remember;
    tape->keep = options && options->keep;
    tape->remember = false; /* ops that gradients are made of */
    tape->op_name = "backward";
    rota_status status = record(tape, losses, loss_count, params, count, grads, options);
    tape->name = name;
    tape->op_name = op_name;
    tape->remember = remember;
    if (tape->keep) {
        forget_gradients(tape);
    } else {
        rota_tape_forget(tape);
        tape->past_nodes = tape->recorder->node_count;
    }
    tape->keep = false;
    return status;
}

rota_status rota_backward(rota_tape *tape, rota_tensor loss, const rota_tensor *params, uint32_t count,
                          rota_tensor *grads, const rota_backward_options *options) {
    return rota_backward_losses(tape, &loss, 1, params, count, grads, options);
}

/* ---- The gradient of one use ---- */

/* Without gaps, and a's elements after one another as b's are. */
static bool lie_alike(const rota_tensor *a, const rota_tensor *b) {
    if (rota_tensor_is_contiguous(a) && rota_tensor_is_contiguous(b)) return true;
    return rota_tensor_is_dense(a) && memcmp(a->stride, b->stride, a->rank * sizeof *a->stride) == 0;
}

/* dy as the gradient of y: where it lies if it lies as y does, since nothing is added to it; else copied. */
static rota_status give_gradient(rota_tape *tape, const rota_tensor *y, const rota_tensor *dy) {
    rota_tensor target;
    bool fresh;
    if (!lie_alike(y, dy) || dy->offset_bytes % 4 != 0) {
        ROTA_TRY(rota_gradient_target(tape, y, &target, &fresh));
        return rota_record_strided(tape, dy, &target, 1.0f, !fresh);
    }
    rota_gradient_region *region;
    ROTA_TRY(rota_gradient_region_add(tape, y, dy, false, &region));
    region->written = rota_arena_calloc(&tape->arena, sizeof *region->written, 8);
    if (!region->written) return rota_backward_no_memory();
    *region->written = (rota_byte_range){NULL, region->begin, region->end};
    return ROTA_OK;
}

static rota_status check_gradient_use(const rota_op_use *use, const rota_tensor *expected, uint32_t wanted,
                                      const rota_tensor *dy) {
    const rota_op *op = use->op;
    char text[ROTA_TENSOR_TEXT_MAX], other[ROTA_TENSOR_TEXT_MAX];
    if (!op->gradient && !op->remember) return rota_op_fail(op, ROTA_UNSUPPORTED, "it has no gradient");
    for (uint32_t i = 0; i < 32; i++) {
        if (!(wanted & 1u << i)) continue;
        if (i >= use->input_count || !(op->differentiable & 1u << i) || !use->inputs[i].buffer)
            return rota_op_fail(op, ROTA_INVALID_ARGUMENT, "a gradient is wanted of input %u, which %s", i,
                                i >= use->input_count             ? "there is none of"
                                : !(op->differentiable & 1u << i) ? "gets none"
                                                                  : "is absent");
    }
    for (uint32_t i = 0; i < use->output_count; i++)
        if ((op->saved_outputs & 1u << i) && !use->outputs[i].buffer)
            return rota_op_fail(op, ROTA_INVALID_ARGUMENT, "its gradient reads '%s', which is missing",
                                op->output_names[i]);
    if (dy->buffer && dy->dtype == expected->dtype && rota_shapes_equal(dy, expected))
        return rota_tensor_check(dy);
    return rota_op_fail(op, ROTA_INVALID_ARGUMENT, "the gradient of '%s' is %s, expected %s",
                        op->output_names[0],
                        dy->buffer ? rota_tensor_describe(dy, text, sizeof text) : "missing",
                        rota_tensor_describe(expected, other, sizeof other));
}

/* Inputs that are all of one range of a buffer, between one another, whose gradients lie in another just so: one
 * parameter with one gradient, in which each has its part. */
static bool lie_together(const rota_op_use *use, uint32_t wanted, const rota_tensor *grads,
                         rota_tensor *out_param, rota_tensor *out_grad) {
    const rota_tensor *xs[ROTA_OP_INPUTS_MAX], *first = NULL, *first_grad = NULL;
    uint64_t begin, end;
    uint32_t count = 0;
    for (uint32_t i = 0; i < use->input_count; i++) {
        if (!(wanted & 1u << i)) continue;
        const rota_tensor *x = &use->inputs[i], *g = &grads[i];
        if (!first) first = x, first_grad = g;
        if (!g->buffer || g->buffer != first_grad->buffer || x->buffer != first->buffer) return false;
        if (g->dtype != x->dtype || x->dtype != first->dtype || !rota_shapes_equal(g, x)) return false;
        if (memcmp(g->stride, x->stride, x->rank * sizeof *x->stride) != 0) return false;
        if (g->offset_bytes - first_grad->offset_bytes != x->offset_bytes - first->offset_bytes) return false;
        xs[count++] = x;
    }
    if (count < 2 || !rota_gradient_fill_a_range(xs, count, &begin, &end)) return false;
    const uint64_t elements = (end - begin) / rota_dtype_bytes(first->dtype);
    *out_param = (rota_tensor){.buffer = first->buffer,
                               .offset_bytes = first->offset_bytes,
                               .dtype = first->dtype,
                               .rank = 1,
                               .shape = {elements},
                               .stride = {1}};
    *out_grad = *out_param;
    out_grad->buffer = first_grad->buffer;
    out_grad->offset_bytes = first_grad->offset_bytes;
    return true;
}

/* Of a tape that remembers nothing else. */
static rota_status record_gradient(rota_tape *tape, const rota_op_use *use, const rota_tensor *dy,
                                   uint32_t wanted, rota_tensor *grads) {
    rota_tensor params[ROTA_OP_INPUTS_MAX], made[ROTA_OP_INPUTS_MAX];
    uint32_t count = 0;
    ROTA_TRY(rota_tape_remember_use(tape, use));
    tape->remember = false; /* ops that gradients are made of */
    const bool together = lie_together(use, wanted, grads, &params[0], &made[0]);
    if (together) count = 1;
    for (uint32_t i = 0; i < use->input_count && !together; i++) {
        if (!(wanted & 1u << i)) continue;
        params[count] = use->inputs[i];
        made[count++] = grads[i];
    }
    ROTA_TRY(rota_backward_open(tape, params, count, made, false));
    ROTA_TRY(rota_decides_spread_all(tape, &(rota_decides){0}));
    if (!rota_tensor_is_empty(dy)) {
        ROTA_TRY(give_gradient(tape, &use->outputs[0], dy));
        for (uint64_t u = tape->use_count; u-- > 0;) ROTA_TRY(rota_backward_step(tape, tape->uses[u], false));
    }
    ROTA_TRY(close_parameters(tape, params, count));
    for (uint32_t i = together ? 0 : use->input_count; i-- > 0;)
        if (wanted & 1u << i) grads[i] = made[--count];
    return ROTA_OK;
}

rota_status rota_op_gradient(rota_tape *tape, const rota_op_use *given, rota_tensor dy, uint32_t wanted,
                             rota_tensor *grads) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(given);
    ROTA_GIVEN(grads);
    rota_op_use use = *given;
    rota_tensor expected[ROTA_OP_OUTPUTS_MAX];
    ROTA_TRY(rota_tape_expect(&use, expected));
    ROTA_TRY(check_gradient_use(&use, expected, wanted, &dy));
    rota_tensor_resolve(&dy);
    for (uint32_t i = 0; i < use.output_count; i++)
        if (!use.outputs[i].buffer) /* stands for it: no node touches it */
            ROTA_TRY(rota_tape_temporary(tape, use.op->output_names[i], expected[i].dtype, expected[i].rank,
                                         expected[i].shape, &use.outputs[i]));
    rota_tape apart = {.recorder = tape->recorder,
                       .graph = tape->graph,
                       .options = {.placement = tape->options.placement},
                       .remember = true,
                       .name = tape->name,
                       .op_name = use.op->name};
    const rota_status status = record_gradient(&apart, &use, &dy, wanted, grads);
    rota_tape_forget(&apart);
    free(apart.uses);
    return status;
}
