/* Draws programs of ops and gradients: each step is tried in f64, and kept if it is smooth there. */
#include "tests/random/gradient_draw.h"

#include <string.h>

/* The first output and, of what is made, the second that others may read. */
static uint32_t second_output(const program_item *item) {
    if (item->kind != PROGRAM_OP) return PROGRAM_NONE;
    if (strcmp(item->op->name, "top_k") == 0) return 1;
    return strcmp(item->op->name, "residual_layernorm") == 0 ? 2 : PROGRAM_NONE;
}

static bool shape_outputs(program_item *item) {
    if (item->kind != PROGRAM_OP) {
        item->output_count = 1;
        return true;
    }
    rota_op_use use = {.op = item->op,
                       .input_count = item->input_count,
                       .output_count = item->op->output_count,
                       .attributes = item->attributes};
    rota_tensor outputs[ROTA_OP_OUTPUTS_MAX];
    for (uint32_t i = 0; i < item->input_count; i++)
        use.inputs[i] = item->in[i].root == PROGRAM_NONE ? ROTA_TENSOR_NONE : item->in[i].tensor;
    for (uint32_t i = 0; i < use.output_count; i++) use.outputs[i] = item->out[i].tensor;
    memcpy(outputs, use.outputs, sizeof outputs);
    if (item->op->shape(&use, outputs) != ROTA_OK) return false;
    item->output_count = use.output_count;
    for (uint32_t i = 0; i < use.output_count; i++) {
        item->out[i] = (program_view){PROGRAM_NONE, outputs[i]};
        if (program_count(&item->out[i]) > PROGRAM_VIEW || program_count(&item->out[i]) == 0) return false;
    }
    return true;
}

/* Whether steps may write to a root: not to parameters, mostly, whose gradients are then refused. */
static bool is_writable(drawing *d, uint32_t root) {
    const program_root *r = &d->p->roots[root];
    if (r->hidden || !rota_dtype_is_real(r->dtype)) return false;
    return r->made_by != PROGRAM_NONE || r->constant || draw_one_in(d, 4);
}

/* Where an output goes: to an input's place, to some other, or to a root of its own. */
static bool direct_output(drawing *d, program_item *item, uint32_t output) {
    program *p = d->p;
    program_view *out = &item->out[output];
    const rota_tensor shape = out->tensor;
    const bool only_into = item->kind == PROGRAM_OP && strcmp(item->op->name, "fill") == 0;
    const uint32_t form = output == 0 && item->kind == PROGRAM_OP ? draw_below(d, 8) : 0;
    item->made[output] = false;
    if (form >= 6) { /* in place */
        for (uint32_t i = 0; i < item->input_count; i++) {
            const program_view *x = &item->in[i];
            if (x->root == PROGRAM_NONE || !(item->op->inplace_inputs & 1u << i) ||
                x->tensor.dtype != shape.dtype || x->tensor.rank != shape.rank ||
                memcmp(x->tensor.shape, shape.shape, shape.rank * sizeof *shape.shape) ||
                !is_writable(d, x->root) || !program_view_is_injective(x))
                continue;
            *out = *x;
            p->roots[x->root].written = true;
            return true;
        }
    }
    for (uint32_t attempt = 0; attempt < 4 && (form >= 4 || only_into) && p->root_count > 0; attempt++) {
        const uint32_t root = draw_below(d, p->root_count);
        if (p->roots[root].dtype != shape.dtype || !is_writable(d, root)) continue;
        if (!draw_layout(d, root, shape.rank, shape.shape, true, out)) continue;
        p->roots[root].written = true;
        return true;
    }
    if (only_into) return false;
    const uint32_t root = draw_root(d, shape.dtype, (uint32_t)draw_product(shape.rank, shape.shape));
    if (root == PROGRAM_NONE) return false;
    p->roots[root].made_by = p->item_count;
    *out = (program_view){root, shape};
    draw_dense(out);
    item->made[output] = true;
    return true;
}

static bool smooth_item(drawing *d, uint32_t item) {
    memcpy(d->before, d->values, sizeof d->values);
    program_step(d->p, item, d->values, NULL);
    return program_step_is_smooth(d->p, item, d->before, d->values);
}

/* Adds an item whose operands and outputs' shapes are there; false, and all as before, if it is not smooth.
 */
static bool add_item(drawing *d, program_item *item) {
    program *p = d->p;
    if (p->item_count + 1 >= PROGRAM_ITEMS) return false;
    if (!direct_output(d, item, 0)) return false;
    const uint32_t second = second_output(item);
    for (uint32_t i = 1; i < item->output_count; i++) {
        if (i != second)
            item->out[i].root = PROGRAM_NONE;
        else if (!direct_output(d, item, i))
            return false;
    }
    p->items[p->item_count] = *item;
    if (!smooth_item(d, p->item_count)) return false;
    /* What is refused tells little. */
    if (program_item_overwrites(p, p->item_count, d->segment) && !draw_one_in(d, 24)) return false;
    if (item->kind == PROGRAM_OP &&
        (strcmp(item->op->name, "argmax") == 0 || strcmp(item->op->name, "top_k") == 0)) {
        const uint32_t index = item->out[item->output_count - 1].root;
        p->roots[index].classes = (uint32_t)item->in[0].tensor.shape[item->attributes.axis[0]];
    }
    /* Whoever reads the logits of a classifier from here on may read their gradient. */
    if (item->kind == PROGRAM_OP && strcmp(item->op->name, "classifier") == 0)
        p->roots[item->in[0].root].hidden = true;
    p->item_count++;
    return true;
}

/* What a step that was not kept has made. */
typedef struct state_before {
    uint32_t roots, values, items;
    program_root root[PROGRAM_ROOTS];
} state_before;

static void keep_state(const drawing *d, state_before *m) {
    *m = (state_before){.roots = d->p->root_count, .values = d->p->value_count, .items = d->p->item_count};
    memcpy(m->root, d->p->roots, sizeof m->root);
}

static void go_back(drawing *d, const state_before *m, const double *values) {
    d->p->root_count = m->roots;
    d->p->value_count = m->values;
    d->p->item_count = m->items;
    memcpy(d->p->roots, m->root, sizeof m->root);
    memcpy(d->values, values, sizeof d->values);
}

/* Scores that nobody sees beyond the mask are read by a softmax alone. */
static bool add_masked_softmax(drawing *d, program_item *item) {
    program *p = d->p;
    if (p->item_count + 2 >= PROGRAM_ITEMS || item->in[0].tensor.rank < 2) return false;
    const uint64_t *shape = item->in[0].tensor.shape;
    if (shape[item->in[0].tensor.rank - 1] < shape[item->in[0].tensor.rank - 2]) return false;
    const uint32_t root = draw_root(d, item->out[0].tensor.dtype, program_count(&item->out[0]));
    if (root == PROGRAM_NONE) return false;
    p->roots[root].made_by = p->item_count;
    p->roots[root].hidden = true;
    item->out[0].root = root;
    item->made[0] = true;
    p->items[p->item_count++] = *item;
    program_step(p, p->item_count - 1, d->values, NULL);
    program_item softmax = {.op = rota_op_find("softmax"), .input_count = 1, .in = {item->out[0]}};
    return shape_outputs(&softmax) && add_item(d, &softmax);
}

static bool add_step(drawing *d) {
    static _Thread_local state_before m;
    static _Thread_local double values[PROGRAM_VALUES];
    program_item item;
    keep_state(d, &m);
    memcpy(values, d->values, sizeof values);
    bool good = draw_operands(d, &item) && shape_outputs(&item);
    if (good && item.kind == PROGRAM_OP && strcmp(item.op->name, "causal_mask") == 0)
        good = add_masked_softmax(d, &item);
    else
        good = good && add_item(d, &item);
    if (!good) go_back(d, &m, values);
    return good;
}

/* ---- Calls of rota_backward ---- */

static bool add_op(drawing *d, const char *name, program_item *item) {
    item->op = rota_op_find(name);
    if (!shape_outputs(item) || d->p->item_count + 1 >= PROGRAM_ITEMS) return false;
    const uint32_t root = draw_root(d, item->out[0].tensor.dtype, program_count(&item->out[0]));
    if (root == PROGRAM_NONE) return false;
    d->p->roots[root].made_by = d->p->item_count;
    item->out[0].root = root;
    item->made[0] = true;
    d->p->items[d->p->item_count++] = *item;
    program_step(d->p, d->p->item_count - 1, d->values, NULL);
    return true;
}

/* The sum of a root's elements, each times a number of its own. */
static bool add_weighted_sum(drawing *d, uint32_t root, program_view *out) {
    const program_root *r = &d->p->roots[root];
    const uint64_t count = r->count;
    program_view x = {root, {.dtype = r->dtype, .rank = 1, .shape = {count}, .stride = {1}}};
    if (count > PROGRAM_VIEW) return false;
    if (r->dtype != ROTA_F32) {
        program_item cast = {.input_count = 1, .in = {x}, .attributes.dtype = ROTA_F32};
        if (!add_op(d, "cast", &cast)) return false;
        x = cast.out[0];
    }
    const uint32_t weight = draw_root(d, ROTA_F32, (uint32_t)count);
    if (weight == PROGRAM_NONE) return false;
    draw_contents(d, weight, ANY, 0);
    d->p->roots[weight].constant = d->p->roots[weight].input = true;
    program_item mul = {.input_count = 2,
                        .in = {x, {weight, {.dtype = ROTA_F32, .rank = 1, .shape = {count}, .stride = {1}}}}};
    if (!add_op(d, "mul", &mul)) return false;
    program_item sum = {.input_count = 1, .in = {mul.out[0]}, .attributes.keep = true};
    if (!add_op(d, "sum", &sum)) return false;
    *out = sum.out[0];
    return true;
}

/* A scalar that is there, or a sum. */
static bool choose_loss(drawing *d, program_view *out) {
    const program *p = d->p;
    for (uint32_t attempt = 0; attempt < 6 && draw_one_in(d, 2); attempt++) {
        const uint32_t root = draw_below(d, p->root_count);
        const program_root *r = &p->roots[root];
        if (r->hidden || r->dtype != ROTA_F32 || r->count != 1 || r->made_by == PROGRAM_NONE) continue;
        *out = (program_view){
            root, {.dtype = ROTA_F32, .rank = draw_one_in(d, 3) ? 0 : 1, .shape = {1}, .stride = {1}}};
        return true;
    }
    for (uint32_t attempt = 0; attempt < 8; attempt++) {
        const uint32_t near = p->root_count < 5 ? p->root_count : 5;
        const uint32_t root = attempt < 4 && draw_one_in(d, 2) ? draw_below(d, p->root_count)
                                                               : p->root_count - 1 - draw_below(d, near);
        const program_root *r = &p->roots[root];
        if (r->hidden || !rota_dtype_is_real(r->dtype) || r->made_by == PROGRAM_NONE ||
            r->made_by < d->segment)
            continue;
        return add_weighted_sum(d, root, out);
    }
    return false;
}

static bool meets(const program_view *a, const program_view *b) {
    return a->root == b->root && program_begin(a) < program_end(b) && program_begin(b) < program_end(a);
}

/* A contiguous part of a root that was there before what the call knows, or the whole of one that a step
 * made. */
static bool choose_param(drawing *d, const program_call *call, program_view *out) {
    const program *p = d->p;
    for (uint32_t attempt = 0; attempt < 24; attempt++) {
        const uint32_t root = draw_below(d, p->root_count);
        const program_root *r = &p->roots[root];
        const bool made = r->made_by != PROGRAM_NONE && r->made_by >= d->segment;
        if (r->hidden || r->constant || !rota_dtype_is_real(r->dtype) || r->count > PROGRAM_VIEW) continue;
        if (made && (r->written || !draw_one_in(d, 4) || p->items[r->made_by].kind != PROGRAM_OP)) continue;
        /* The sum is what the other result is made of. */
        if (made && p->items[r->made_by].op->remember) continue;
        uint64_t first = 0, count = r->count;
        if (!made && count > 1 && draw_one_in(d, 4)) {
            first = draw_below(d, (uint32_t)count / 2);
            count = 1 + draw_below(d, (uint32_t)(count - first));
        }
        *out = (program_view){root, {.offset_bytes = first * rota_dtype_bytes(r->dtype), .dtype = r->dtype}};
        out->tensor.rank = 1;
        out->tensor.shape[0] = count;
        if (count % 2 == 0 && draw_one_in(d, 2)) {
            out->tensor.rank = 2;
            out->tensor.shape[0] = 2;
            out->tensor.shape[1] = count / 2;
        }
        draw_dense(out);
        bool apart = true;
        for (uint32_t i = 0; i < call->param_count; i++) apart = apart && !meets(out, &call->param[i]);
        if (apart) return true;
    }
    return false;
}

static bool add_grad(drawing *d, const program_view *param, bool keep, program_view *out) {
    const uint32_t count = program_count(param), before = draw_below(d, 3);
    if (count > PROGRAM_SAMPLES) return false;
    const uint32_t root = draw_root(d, param->tensor.dtype, count + before + draw_below(d, 2));
    if (root == PROGRAM_NONE) return false;
    draw_contents(d, root, ANY, 0);
    d->p->roots[root].written = d->p->roots[root].constant = true;
    d->p->roots[root].hidden = keep; /* to later ops that the tape knows it would change under them */
    *out = *param;
    out->root = root;
    out->tensor.offset_bytes = before * rota_dtype_bytes(param->tensor.dtype);
    return true;
}

static bool same_shape(const program_view *a, const program_view *b) {
    return a->tensor.rank == b->tensor.rank && a->tensor.dtype == b->tensor.dtype &&
           memcmp(a->tensor.shape, b->tensor.shape, a->tensor.rank * sizeof *a->tensor.shape) == 0;
}

static bool add_call(drawing *d, bool keep) {
    program *p = d->p;
    if (p->call_count == PROGRAM_CALLS || p->item_count + 12 >= PROGRAM_ITEMS) return false;
    const program_call *before = p->call_count ? &p->calls[p->call_count - 1] : NULL;
    program_call call = {.keep = keep};
    const uint32_t losses = draw_one_in(d, 3) ? 1 + draw_below(d, PROGRAM_LOSSES) : 1,
                   params = 1 + draw_below(d, PROGRAM_PARAMS);
    if (before && before->keep && draw_one_in(d, 2)) { /* of the same losses, once more */
        memcpy(call.loss, before->loss, sizeof call.loss);
        call.loss_count = before->loss_count;
    }
    while (call.loss_count < losses)
        if (choose_loss(d, &call.loss[call.loss_count]))
            call.loss_count++;
        else
            break;
    call.accumulate = draw_one_in(d, 3);
    p->items[p->item_count] = (program_item){.kind = PROGRAM_CALL, .call = p->call_count};
    for (uint32_t attempt = 0; attempt < 8 && call.param_count < params; attempt++) {
        if (!choose_param(d, &call, &call.param[call.param_count])) break;
        p->calls[p->call_count] = call;
        call.param_count +=
            !program_param_is_unsupported(p, p->call_count, call.param_count) || draw_one_in(d, 24);
    }
    if (call.loss_count == 0 || call.param_count == 0) return false;
    for (uint32_t i = 0; i < call.param_count; i++) {
        call.grad[i].root = PROGRAM_NONE;
        if (!draw_one_in(d, 3) && !call.accumulate) continue;
        if (call.accumulate && before && before->keep && i < before->param_count &&
            before->grad[i].root != PROGRAM_NONE && same_shape(&before->grad[i], &call.param[i]) &&
            draw_one_in(d, 2))
            call.grad[i] = before->grad[i];
        else if (!add_grad(d, &call.param[i], keep, &call.grad[i]))
            call.grad[i].root = PROGRAM_NONE;
    }
    p->items[p->item_count++] = (program_item){.kind = PROGRAM_CALL, .call = p->call_count};
    p->calls[p->call_count++] = call;
    if (!keep) d->segment = p->item_count;
    return true;
}

void program_draw(program *p, program_source *source) {
    static _Thread_local drawing d;
    memset(p, 0, sizeof *p);
    d = (drawing){.p = p, .source = source};
    const uint32_t dtype = draw_below(&d, 8);
    p->dtype = dtype == 6 ? ROTA_F16 : dtype == 7 ? ROTA_BF16 : ROTA_F32;
    for (uint32_t i = 0; i < 3; i++) d.sizes[i] = 1 + draw_below(&d, 4) + (i == 0);
    d.windows = draw_one_in(&d, 4);
    const uint32_t steps = 2 + draw_below(&d, p->dtype == ROTA_F32 ? 12 : 7);
    uint32_t kept = 0;
    for (uint32_t attempt = 0; attempt < 8 * steps && kept < steps && !source->dry; attempt++) {
        kept += add_step(&d);
        if (kept > 2 && draw_one_in(&d, 8)) (void)add_call(&d, !draw_one_in(&d, 3));
    }
    if (p->root_count == 0) return;
    if (draw_one_in(&d, 4)) (void)add_call(&d, true);
    (void)add_call(&d, draw_one_in(&d, 6));
}
