/* Runs programs of ops and gradients on a device, compares what they give, and makes those that fail smaller.
 */
#include "tests/random/gradient_program.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Elements ---- */

static double load(rota_dtype dtype, const void *data, uint32_t index) {
    if (dtype == ROTA_F32) return (double)((const float *)data)[index];
    if (dtype == ROTA_I32) return ((const int32_t *)data)[index];
    const uint16_t bits = ((const uint16_t *)data)[index];
    if (dtype == ROTA_BF16) {
        const uint32_t word = (uint32_t)bits << 16;
        float single;
        memcpy(&single, &word, sizeof single);
        return (double)single;
    }
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double value = exponent == 0 ? ldexp(mantissa, -24) : ldexp(mantissa + 1024, exponent - 25);
    if (exponent == 31) value = mantissa ? NAN : INFINITY;
    return bits & 0x8000 ? -value : value;
}

/* A number that the dtype has. */
static void store(rota_dtype dtype, void *data, uint32_t index, double value) {
    const float single = (float)value;
    uint32_t word;
    if (dtype == ROTA_F32) {
        ((float *)data)[index] = single;
    } else if (dtype == ROTA_I32) {
        ((int32_t *)data)[index] = (int32_t)value;
    } else if (dtype == ROTA_BF16) {
        memcpy(&word, &single, sizeof word);
        ((uint16_t *)data)[index] = (uint16_t)(word >> 16);
    } else {
        int exponent;
        const double fraction = frexp(fabs(value), &exponent);
        uint16_t bits = 0;
        if (fraction != 0 && exponent > -14)
            bits = (uint16_t)((exponent + 14) << 10 | ((int)(fraction * 2048) & 1023));
        ((uint16_t *)data)[index] = (uint16_t)(bits | (value < 0 ? 0x8000 : 0));
    }
}

/* ---- One run ---- */

/* A tensor that is read back, with room for its contents. */
typedef struct result {
    rota_buffer *buffer;
    void *data;
} result;

typedef struct run {
    const program *p;
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    rota_plan *plan;
    rota_args *args;
    struct {
        rota_buffer *buffer;
        uint64_t offset_bytes;
        rota_buffer *input;
        void *data;
        result output;
    } roots[PROGRAM_ROOTS];
    result gradient[PROGRAM_CALLS][PROGRAM_PARAMS];
    bool refused[PROGRAM_CALLS];
    program_expected *expected;
    char *text;
    size_t capacity;
} run;

static bool wrong(run *r, const char *format, ...) {
    va_list list;
    va_start(list, format);
    if (!r->text[0]) vsnprintf(r->text, r->capacity, format, list);
    va_end(list);
    return false;
}

static bool said(run *r, const char *what) {
    return wrong(r, "%s: %s", what, rota_last_error());
}

/* Memory for a root that has contents from the start. */
static bool make_root(run *r, uint32_t index) {
    const program_root *root = &r->p->roots[index];
    const uint64_t count = root->count;
    rota_tensor input, variable;
    if (rota_tape_tensor(r->tape, ROTA_BUFFER_INPUT, NULL, root->dtype, 1, &count, &input) != ROTA_OK)
        return said(r, "an input");
    r->roots[index].buffer = r->roots[index].input = input.buffer;
    r->roots[index].data = calloc(1, rota_buffer_size(input.buffer) + 4);
    if (!r->roots[index].data) abort();
    for (uint32_t e = 0; e < root->count; e++)
        store(root->dtype, r->roots[index].data, e, r->p->start[root->base + e]);
    if (root->input && !root->written) return true;
    if (rota_tape_tensor(r->tape, ROTA_BUFFER_TRANSIENT, "variable", root->dtype, 1, &count, &variable) !=
        ROTA_OK)
        return said(r, "a variable");
    r->roots[index].buffer = variable.buffer;
    rota_tape_remember(r->tape, false);
    if (rota_op_copy_into(r->tape, input, variable) != ROTA_OK) return said(r, "a variable");
    rota_tape_remember(r->tape, true);
    return true;
}

static rota_tensor tensor_of(const run *r, const program_view *view) {
    rota_tensor t = view->tensor;
    if (view->root == PROGRAM_NONE) return ROTA_TENSOR_NONE;
    t.buffer = r->roots[view->root].buffer;
    t.offset_bytes += r->roots[view->root].offset_bytes;
    return t;
}

static rota_status record_op(run *r, const program_item *item, rota_tensor *out) {
    rota_op_use use = {.op = item->op,
                       .input_count = item->op->input_count,
                       .output_count = item->op->output_count,
                       .attributes = item->attributes};
    for (uint32_t i = 0; i < item->input_count; i++) use.inputs[i] = tensor_of(r, &item->in[i]);
    for (uint32_t i = 0; i < item->output_count; i++) {
        use.outputs[i] = item->out[i].tensor; /* a copy's shape */
        use.outputs[i].buffer = NULL;
        if (item->out[i].root != PROGRAM_NONE && !item->made[i]) use.outputs[i] = tensor_of(r, &item->out[i]);
    }
    const rota_status status = rota_op_apply(r->tape, &use);
    memcpy(out, use.outputs, sizeof use.outputs);
    return status;
}

static rota_status record_composed(run *r, const program_item *item, rota_tensor *out) {
    const rota_op_attributes *a = &item->attributes;
    rota_tensor in[ROTA_OP_INPUTS_MAX];
    for (uint32_t i = 0; i < item->input_count; i++) in[i] = tensor_of(r, &item->in[i]);
    switch (item->kind) {
    case PROGRAM_CONCAT:
        return rota_op_concat(r->tape, in, item->input_count, a->axis[0], out);
    case PROGRAM_PROD:
        return rota_op_prod(r->tape, in[0], a->axis[0], a->keep, out);
    case PROGRAM_MSE:
        return rota_op_mse(r->tape, in[0], in[1], out);
    case PROGRAM_L1:
        return rota_op_l1(r->tape, in[0], in[1], out);
    case PROGRAM_HUBER:
        return rota_op_huber(r->tape, in[0], in[1], a->p, out);
    case PROGRAM_GROUP_NORM:
        return rota_op_group_norm(r->tape, in[0], (uint32_t)a->length, in[1], in[2], a->eps, out);
    default:
        return rota_op_attention(r->tape, in[0], in[1], in[2], a->causal, 0, out);
    }
}

static bool record_item(run *r, uint32_t k) {
    const program_item *item = &r->p->items[k];
    rota_tensor out[ROTA_OP_OUTPUTS_MAX];
    const rota_status status =
        item->kind == PROGRAM_OP ? record_op(r, item, out) : record_composed(r, item, out);
    if (status != ROTA_OK) return wrong(r, "item %u: %s", k, rota_last_error());
    for (uint32_t i = 0; i < item->output_count; i++) {
        if (!item->made[i]) continue;
        if (!rota_tensor_is_contiguous(&out[i]) || rota_tensor_count(&out[i]) != program_count(&item->out[i]))
            return wrong(r, "item %u: what it made has another shape", k);
        r->roots[item->out[i].root].buffer = out[i].buffer;
        r->roots[item->out[i].root].offset_bytes = out[i].offset_bytes;
    }
    return true;
}

/* Copied out at this place of the record. */
static bool read_back(run *r, rota_tensor x, result *out) {
    rota_tensor y;
    if (rota_tape_tensor(r->tape, ROTA_BUFFER_OUTPUT, NULL, x.dtype, x.rank, x.shape, &y) != ROTA_OK)
        return said(r, "an output");
    out->buffer = y.buffer;
    out->data = malloc(rota_buffer_size(y.buffer));
    if (!out->data) abort();
    memset(out->data, 0xff, rota_buffer_size(y.buffer));
    rota_tape_remember(r->tape, false);
    if (rota_op_copy_into(r->tape, x, y) != ROTA_OK) return said(r, "an output");
    rota_tape_remember(r->tape, true);
    return true;
}

/* A refusal is right where something may be missing, by its own status. */
static bool record_call(run *r, uint32_t c) {
    const program_call *call = &r->p->calls[c];
    rota_tensor losses[PROGRAM_LOSSES], params[PROGRAM_PARAMS], grads[PROGRAM_PARAMS];
    for (uint32_t i = 0; i < call->loss_count; i++) losses[i] = tensor_of(r, &call->loss[i]);
    for (uint32_t i = 0; i < call->param_count; i++) {
        params[i] = tensor_of(r, &call->param[i]);
        grads[i] = tensor_of(r, &call->grad[i]);
    }
    const rota_backward_options options =
        ROTA_BACKWARD_OPTIONS(.keep = call->keep, .accumulate = call->accumulate);
    const rota_status status =
        rota_backward_losses(r->tape, losses, call->loss_count, params, call->param_count, grads, &options);
    if ((status == ROTA_WRONG_STATE && r->expected->overwritten[c]) ||
        (status == ROTA_UNSUPPORTED && r->expected->unsupported[c])) {
        r->refused[c] = true;
        return true;
    }
    if (status != ROTA_OK) return wrong(r, "call %u: %s: %s", c, rota_status_name(status), rota_last_error());
    for (uint32_t i = 0; i < call->param_count; i++)
        if (!read_back(r, grads[i], &r->gradient[c][i])) return false;
    return true;
}

static bool record_all(run *r) {
    const program *p = r->p;
    for (uint32_t i = 0; i < p->root_count; i++)
        if (p->roots[i].made_by == PROGRAM_NONE && !make_root(r, i)) return false;
    bool refused = false;
    for (uint32_t k = 0; k < p->item_count && !refused; k++) {
        if (p->items[k].kind != PROGRAM_CALL) {
            if (!record_item(r, k)) return false;
            continue;
        }
        if (!record_call(r, p->items[k].call)) return false;
        refused = r->refused[p->items[k].call]; /* part of it may be recorded */
    }
    for (uint32_t i = 0; i < p->root_count && !refused; i++) {
        const uint64_t count = p->roots[i].count;
        if (p->roots[i].hidden || !rota_dtype_is_real(p->roots[i].dtype)) continue;
        const program_view whole = {i,
                                    {.dtype = p->roots[i].dtype, .rank = 1, .shape = {count}, .stride = {1}}};
        if (!read_back(r, tensor_of(r, &whole), &r->roots[i].output)) return false;
    }
    return true;
}

static bool set_result(run *r, const result *x) {
    return !x->buffer ||
           rota_args_set_output(r->args, x->buffer, x->data, rota_buffer_size(x->buffer)) == ROTA_OK ||
           said(r, "an output");
}

static bool play(run *r, rota_runtime *runtime, rota_device *device, bool certify) {
    rota_ticket ticket;
    const rota_compile_options options = ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1,
                                                              .certify = certify, .check_kernels = certify);
    if (rota_compile(runtime, r->graph, &options, &r->plan) != ROTA_OK) return said(r, "compiling");
    if (rota_args_create(r->plan, &r->args) != ROTA_OK) return said(r, "arguments");
    for (uint32_t i = 0; i < r->p->root_count; i++) {
        rota_buffer *input = r->roots[i].input;
        if (input &&
            rota_args_set_input(r->args, input, r->roots[i].data, rota_buffer_size(input), false) != ROTA_OK)
            return said(r, "an input");
        if (!set_result(r, &r->roots[i].output)) return false;
    }
    for (uint32_t c = 0; c < PROGRAM_CALLS; c++)
        for (uint32_t i = 0; i < PROGRAM_PARAMS; i++)
            if (!set_result(r, &r->gradient[c][i])) return false;
    if (rota_submit_wait(r->plan, r->args, 0, &ticket) != ROTA_OK) return said(r, "submitting");
    return rota_wait(ticket, 0) == ROTA_OK || said(r, "waiting");
}

static bool compare(run *r) {
    const program *p = r->p;
    for (uint32_t c = 0; c < p->call_count; c++)
        for (uint32_t i = 0; i < p->calls[c].param_count; i++) {
            const struct program_expected_gradient *g = &r->expected->gradient[c][i];
            if (!r->gradient[c][i].data) continue;
            const program_view *given = &p->calls[c].grad[i];
            for (uint32_t s = 0; s < g->count; s++) {
                const double got =
                    load(p->calls[c].param[i].tensor.dtype, r->gradient[c][i].data, g->element[s]);
                double expected = g->value[s];
                if (given->root != PROGRAM_NONE && p->calls[c].accumulate) expected = g->sum[s];
                if (!(fabs(got - expected) <= g->bound))
                    return wrong(
                        r, "call %u: the gradient of parameter %u at %u is %.9g, expected %.9g within %.2g",
                        c, i, g->element[s], got, expected, g->bound);
            }
        }
    for (uint32_t i = 0; i < p->root_count; i++)
        for (uint32_t e = 0; e < p->roots[i].count && r->roots[i].output.data; e++) {
            const double got = load(p->roots[i].dtype, r->roots[i].output.data, e),
                         expected = r->expected->values[p->roots[i].base + e];
            if (!(fabs(got - expected) <= r->expected->bound_of_root[i]))
                return wrong(r, "r%u at %u is %.9g in the end, expected %.9g within %.2g", i, e, got,
                             expected, r->expected->bound_of_root[i]);
        }
    return true;
}

static void close_run(run *r) {
    rota_args_release(r->args);
    rota_plan_release(r->plan);
    rota_tape_destroy(r->tape);
    rota_recorder_close(r->recorder);
    rota_graph_release(r->graph);
    for (uint32_t i = 0; i < PROGRAM_ROOTS; i++) {
        free(r->roots[i].data);
        free(r->roots[i].output.data);
    }
    for (uint32_t c = 0; c < PROGRAM_CALLS; c++)
        for (uint32_t i = 0; i < PROGRAM_PARAMS; i++) free(r->gradient[c][i].data);
}

program_outcome program_check(const program *p, rota_runtime *runtime, rota_device *device, bool certify,
                              char *text, size_t capacity) {
    static _Thread_local run r;
    static _Thread_local program_expected expected;
    text[0] = 0;
    program_expect(p, &expected);
    if (expected.steep) return PROGRAM_STEEP;
    memset(&r, 0, sizeof r);
    r.p = p;
    r.expected = &expected;
    r.text = text;
    r.capacity = capacity;
    bool good = rota_graph_create(NULL, &r.graph) == ROTA_OK &&
                rota_recorder_open(r.graph, 0, NULL, &r.recorder) == ROTA_OK &&
                rota_tape_create(r.recorder, NULL, &r.tape) == ROTA_OK;
    good = good ? record_all(&r) : said(&r, "a graph");
    bool refused = false;
    for (uint32_t c = 0; c < p->call_count; c++) refused = refused || r.refused[c];
    if (good && !refused) {
        rota_tape_destroy(r.tape);
        rota_recorder_close(r.recorder);
        r.tape = NULL;
        r.recorder = NULL;
        good = play(&r, runtime, device, certify) && compare(&r);
    }
    close_run(&r);
    return !good ? PROGRAM_WRONG : refused ? PROGRAM_REFUSED : PROGRAM_GOOD;
}

/* ---- Smaller ---- */

/* Without an item: what it made has its contents from the start. */
static void drop_item(program *p, uint32_t k) {
    static _Thread_local double values[PROGRAM_VALUES];
    memcpy(values, p->start, sizeof values);
    for (uint32_t i = 0; i <= k; i++) program_step(p, i, values, NULL);
    for (uint32_t i = 0; i < p->root_count; i++) {
        program_root *root = &p->roots[i];
        if (root->made_by == k) {
            root->made_by = PROGRAM_NONE;
            for (uint32_t e = root->base; e < root->base + root->count; e++)
                p->start[e] = program_round(root->dtype, values[e]);
        } else if (root->made_by != PROGRAM_NONE && root->made_by > k) {
            root->made_by--;
        }
    }
    p->item_count--;
    memmove(&p->items[k], &p->items[k + 1], (p->item_count - k) * sizeof *p->items);
}

static bool is_wrong(const program *p, rota_runtime *runtime, rota_device *device) {
    char text[512];
    return program_check(p, runtime, device, false, text, sizeof text) == PROGRAM_WRONG;
}

/* Puts `smaller` in p's place if it is wrong too. */
static bool accept(program *p, const program *smaller, rota_runtime *runtime, rota_device *device) {
    if (!is_wrong(smaller, runtime, device)) return false;
    *p = *smaller;
    return true;
}

void program_shrink(program *p, rota_runtime *runtime, rota_device *device) {
    static program smaller;
    bool again = true;
    while (again) {
        again = false;
        for (uint32_t k = p->item_count; k-- > 0;) {
            smaller = *p;
            drop_item(&smaller, k);
            again = accept(p, &smaller, runtime, device) || again;
        }
        for (uint32_t c = 0; c < p->call_count; c++) {
            for (uint32_t i = p->calls[c].loss_count; i-- > 0 && p->calls[c].loss_count > 1;) {
                smaller = *p;
                program_call *call = &smaller.calls[c];
                call->loss[i] = call->loss[--call->loss_count];
                again = accept(p, &smaller, runtime, device) || again;
            }
            for (uint32_t i = p->calls[c].param_count; i-- > 0 && p->calls[c].param_count > 1;) {
                smaller = *p;
                program_call *call = &smaller.calls[c];
                call->param[i] = call->param[--call->param_count];
                call->grad[i] = call->grad[call->param_count];
                again = accept(p, &smaller, runtime, device) || again;
            }
        }
    }
}
