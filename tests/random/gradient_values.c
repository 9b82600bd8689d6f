/* What a program of ops and gradients must give: an interpreter in f64, and gradients by its differences. */
#include "tests/random/gradient_program.h"

#include <math.h>
#include <string.h>
#include "bench/ops_reference.h"
#include "tests/kit/random.h"

/* ---- Views ---- */

uint32_t program_count(const program_view *view) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < view->tensor.rank; i++) count *= view->tensor.shape[i];
    return (uint32_t)count;
}

uint64_t program_begin(const program_view *view) {
    return view->tensor.offset_bytes;
}

uint64_t program_end(const program_view *view) {
    uint64_t last = 0;
    for (uint32_t i = 0; i < view->tensor.rank; i++)
        last += (view->tensor.shape[i] - 1) * view->tensor.stride[i];
    return view->tensor.offset_bytes + (last + 1) * rota_dtype_bytes(view->tensor.dtype);
}

/* Where each element of a view is in the values. */
static uint32_t offsets_of(const program *p, const program_view *view, uint32_t *out) {
    const rota_tensor *t = &view->tensor;
    const uint32_t count = program_count(view);
    const uint64_t first = p->roots[view->root].base + t->offset_bytes / rota_dtype_bytes(t->dtype);
    for (uint32_t e = 0; e < count; e++) {
        uint64_t rest = e, offset = first;
        for (uint32_t d = t->rank; d-- > 0; rest /= t->shape[d]) offset += rest % t->shape[d] * t->stride[d];
        out[e] = (uint32_t)offset;
    }
    return count;
}

bool program_view_is_injective(const program_view *view) {
    const program whole = {.roots = {{.base = 0}}};
    program_view alone = *view;
    uint32_t offsets[PROGRAM_VIEW];
    static _Thread_local uint8_t seen[PROGRAM_VALUES];
    alone.root = 0;
    alone.tensor.offset_bytes = 0;
    const uint32_t count = offsets_of(&whole, &alone, offsets);
    bool injective = true;
    for (uint32_t e = 0; e < count; e++) injective = injective && !seen[offsets[e]]++;
    for (uint32_t e = 0; e < count; e++) seen[offsets[e]] = 0;
    return injective;
}

void program_read(const program *p, const program_view *view, const double *values, double *out) {
    uint32_t offsets[PROGRAM_VIEW];
    const uint32_t count = offsets_of(p, view, offsets);
    for (uint32_t e = 0; e < count; e++) out[e] = values[offsets[e]];
}

static void write_view(const program *p, const program_view *view, double *values, const double *from) {
    uint32_t offsets[PROGRAM_VIEW];
    const uint32_t count = offsets_of(p, view, offsets);
    for (uint32_t e = 0; e < count; e++) values[offsets[e]] = from[e];
}

/* ---- Items ---- */

typedef double operand[PROGRAM_VIEW];

static void concat(const program_item *item, operand *in, double *out) {
    const uint32_t axis = item->attributes.axis[0];
    const rota_tensor *y = &item->out[0].tensor;
    uint64_t inner = 1, begin = 0;
    for (uint32_t d = axis + 1; d < y->rank; d++) inner *= y->shape[d];
    for (uint32_t i = 0; i < item->input_count; i++) {
        const uint64_t n = item->in[i].tensor.shape[axis];
        for (uint64_t e = 0; e < program_count(&item->in[i]); e++)
            out[(e / (n * inner) * y->shape[axis] + begin + e / inner % n) * inner + e % inner] = in[i][e];
        begin += n;
    }
}

static void prod(const program_item *item, operand *in, double *out) {
    const rota_tensor *x = &item->in[0].tensor;
    const uint64_t n = x->shape[item->attributes.axis[0]];
    uint64_t inner = 1;
    for (uint32_t d = item->attributes.axis[0] + 1; d < x->rank; d++) inner *= x->shape[d];
    for (uint64_t e = 0; e < program_count(&item->out[0]); e++) {
        out[e] = 1;
        for (uint64_t k = 0; k < n; k++) out[e] *= in[0][(e / inner * n + k) * inner + e % inner];
    }
}

static double distance(program_kind kind, double d, double delta) {
    if (kind == PROGRAM_MSE) return d * d;
    if (kind == PROGRAM_L1) return fabs(d);
    return fabs(d) <= delta ? d * d / 2 : delta * (fabs(d) - delta / 2);
}

static void mean_distance(const program_item *item, operand *in, double *out) {
    const uint32_t count = program_count(&item->in[0]);
    out[0] = 0;
    for (uint32_t e = 0; e < count; e++)
        out[0] += distance(item->kind, in[0][e] - in[1][e], (double)item->attributes.p) / count;
}

static void group_norm(const program_item *item, operand *in, double *out) {
    const rota_tensor *x = &item->in[0].tensor;
    const uint64_t channels = x->shape[1], groups = item->attributes.length;
    const uint64_t inner = program_count(&item->in[0]) / x->shape[0] / channels,
                   n = channels / groups * inner;
    for (uint64_t g = 0; g < x->shape[0] * groups; g++) {
        const double *row = in[0] + g * n;
        double mean = 0, variance = 0;
        for (uint64_t i = 0; i < n; i++) mean += row[i] / (double)n;
        for (uint64_t i = 0; i < n; i++) variance += (row[i] - mean) * (row[i] - mean) / (double)n;
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t channel = (g * n + i) / inner % channels;
            out[g * n + i] = (row[i] - mean) / sqrt(variance + (double)item->attributes.eps);
            if (item->in[1].root != PROGRAM_NONE) out[g * n + i] *= in[1][channel];
            if (item->in[2].root != PROGRAM_NONE) out[g * n + i] += in[2][channel];
        }
    }
}

static double unit_of(rota_dtype dtype) {
    return dtype == ROTA_F16 ? 0x1p-11 : dtype == ROTA_BF16 ? 0x1p-8 : dtype == ROTA_F32 ? 0x1p-24 : 0;
}

/* -1 to 1. */
static double random_share(uint64_t *random) {
    return (double)((int64_t)test_random(random) >> 11) * 0x1p-52;
}

/* With noise what flows back through each weight is rounded by itself: keys that are alike, of which none counts more
 * than another whatever they are, have a gradient of 0 only without. */
static void grouped_attention(const program_item *item, operand *in, double *out, uint64_t noise) {
    const uint64_t *q = item->in[0].tensor.shape, *k = item->in[1].tensor.shape;
    const uint64_t heads = q[1], queries = q[2], keys = k[2], dim = q[3], share = heads / k[1];
    for (uint64_t row = 0; row < q[0] * heads * queries; row++) {
        const uint64_t batch = row / queries / heads, head = row / queries % heads / share;
        const double *key = in[1] + (batch * k[1] + head) * keys * dim,
                     *value = in[2] + (batch * k[1] + head) * keys * dim;
        const uint64_t seen = item->attributes.causal ? row % queries + keys - queries + 1 : keys;
        double sum = 0;
        for (uint64_t d = 0; d < dim; d++) out[row * dim + d] = 0;
        for (uint64_t j = 0; j < seen; j++) {
            double score = 0;
            for (uint64_t d = 0; d < dim; d++) score += in[0][row * dim + d] * key[j * dim + d];
            score /= sqrt((double)dim);
            double weight = exp(score);
            sum += weight;
            if (noise) weight *= 1 + unit_of(item->out[0].tensor.dtype) * random_share(&noise) * score;
            for (uint64_t d = 0; d < dim; d++) out[row * dim + d] += weight * value[j * dim + d];
        }
        for (uint64_t d = 0; d < dim; d++) out[row * dim + d] /= sum;
    }
}

static void op_of_table(const program_item *item, operand *in, operand *out) {
    rota_op_use use = {.op = item->op,
                       .input_count = item->input_count,
                       .output_count = item->output_count,
                       .attributes = item->attributes};
    reference r = {.use = &use};
    for (uint32_t i = 0; i < item->input_count; i++) {
        use.inputs[i] = item->in[i].tensor;
        r.in[i] = item->in[i].root == PROGRAM_NONE ? NULL : in[i];
    }
    for (uint32_t i = 0; i < item->output_count; i++) {
        use.outputs[i] = item->out[i].tensor;
        r.out[i] = out[i];
    }
    if (!reference_run(&r))
        for (uint32_t e = 0; e < PROGRAM_VIEW; e++) out[0][e] = NAN;
}

static void evaluate(const program_item *item, operand *in, operand *out, uint64_t noise) {
    switch (item->kind) {
    case PROGRAM_CONCAT:
        concat(item, in, out[0]);
        return;
    case PROGRAM_PROD:
        prod(item, in, out[0]);
        return;
    case PROGRAM_MSE:
    case PROGRAM_L1:
    case PROGRAM_HUBER:
        mean_distance(item, in, out[0]);
        return;
    case PROGRAM_GROUP_NORM:
        group_norm(item, in, out[0]);
        return;
    case PROGRAM_ATTENTION:
        grouped_attention(item, in, out[0], noise);
        return;
    default:
        op_of_table(item, in, out);
    }
}

/* Values become what they might be after a rounding, by the operand of the item. */
static void add_noise(const program_view *view, uint32_t item, uint32_t operand_index, uint64_t noise,
                      double *values) {
    const double unit = unit_of(view->tensor.dtype);
    uint64_t random = (noise * 1000003 + item) * 64 + operand_index;
    for (uint32_t e = 0; e < program_count(view); e++) values[e] *= 1 + unit * random_share(&random);
}

static void copy_view(const program *p, const program_view *view, double *values, const double *from) {
    operand x;
    program_read(p, view, from, x);
    write_view(p, view, values, x);
}

/* noise 0: none. Else what is written is rounded, and what is read, each use by itself: a gradient that the uses
 * of a value cancel is as far from 0 as the roundings of each one's share. */
static void step(const program *p, uint32_t index, double *values, const double *after, uint64_t noise) {
    const program_item *item = &p->items[index];
    operand in[ROTA_OP_INPUTS_MAX], out[ROTA_OP_OUTPUTS_MAX];
    if (item->kind == PROGRAM_CALL) { /* it writes, and is no op that gradients flow through */
        const program_call *call = &p->calls[item->call];
        for (uint32_t i = 0; i < call->param_count; i++)
            if (call->grad[i].root != PROGRAM_NONE && after) copy_view(p, &call->grad[i], values, after);
        return;
    }
    if (after && item->kind == PROGRAM_OP && strcmp(item->op->name, "stop_gradient") == 0) {
        copy_view(p, &item->out[0], values, after);
        return;
    }
    for (uint32_t i = 0; i < item->input_count; i++) {
        if (item->in[i].root == PROGRAM_NONE) continue;
        program_read(p, &item->in[i], values, in[i]);
        if (noise) add_noise(&item->in[i], index, ROTA_OP_OUTPUTS_MAX + i, noise, in[i]);
    }
    evaluate(item, in, out, noise);
    for (uint32_t i = 0; i < item->output_count; i++) {
        if (item->out[i].root == PROGRAM_NONE) continue;
        if (noise) add_noise(&item->out[i], index, i, noise, out[i]);
        write_view(p, &item->out[i], values, out[i]);
    }
    for (uint32_t i = 0; i < item->input_count && item->kind == PROGRAM_OP; i++)
        if (item->in[i].root != PROGRAM_NONE && item->op->input_modes[i] == ROTA_READWRITE)
            write_view(p, &item->in[i], values, in[i]);
}

void program_step(const program *p, uint32_t item, double *values, const double *after) {
    step(p, item, values, after, 0);
}

/* ---- Where there is no derivative ---- */

static bool apart_from(const double *x, uint32_t count, double corner, double margin) {
    for (uint32_t e = 0; e < count; e++)
        if (fabs(x[e] - corner) < margin) return false;
    return true;
}

/* No two elements along the axis are nearly alike. */
static bool distinct_along(const program_view *view, uint32_t axis, const double *x, double margin) {
    const rota_tensor *t = &view->tensor;
    uint64_t inner = 1;
    for (uint32_t d = axis + 1; d < t->rank; d++) inner *= t->shape[d];
    const uint64_t n = t->shape[axis];
    for (uint64_t e = 0; e < program_count(view); e++)
        for (uint64_t k = e / inner % n + 1, other = e + inner; k < n; k++, other += inner)
            if (fabs(x[e] - x[other]) < margin) return false;
    return true;
}

/* No two elements of a plane, the last two axes, are nearly alike. */
static bool distinct_in_planes(const program_view *view, const double *x, double margin) {
    const uint64_t *shape = view->tensor.shape, plane = shape[2] * shape[3];
    for (uint64_t e = 0; e < program_count(view); e++)
        for (uint64_t other = e + 1; other < (e / plane + 1) * plane; other++)
            if (fabs(x[e] - x[other]) < margin) return false;
    return true;
}

static bool is_any(const char *name, const char *const *names) {
    while (*names && strcmp(name, *names) != 0) names++;
    return *names != NULL;
}

/* a and b, broadcast, are nowhere nearly alike. */
static bool sides_apart(const program *p, uint32_t index, const double *before, double margin) {
    program_item difference = p->items[index];
    operand in[ROTA_OP_INPUTS_MAX], out[ROTA_OP_OUTPUTS_MAX];
    difference.kind = PROGRAM_OP;
    difference.op = rota_op_find("sub");
    for (uint32_t i = 0; i < 2; i++) program_read(p, &difference.in[i], before, in[i]);
    if (p->items[index].kind != PROGRAM_OP) difference.out[0] = difference.in[0]; /* both of one shape */
    op_of_table(&difference, in, out);
    const uint32_t count = program_count(&difference.out[0]);
    bool good = apart_from(out[0], count, 0, margin);
    if (p->items[index].kind == PROGRAM_HUBER) {
        const double delta = (double)difference.attributes.p;
        good = apart_from(out[0], count, delta, margin) && apart_from(out[0], count, -delta, margin);
    }
    return good;
}

static bool corners_apart(const program *p, uint32_t index, const double *before, double margin) {
    static const char *const at_zero[] = {"relu", "abs", "leaky_relu", "elu", "sign", NULL};
    static const char *const at_steps[] = {"floor", "ceil", "round", NULL};
    static const char *const of_sides[] = {"minimum", "maximum", "eq", "ne", "lt", "le", "gt", "ge", NULL};
    static const char *const of_order[] = {"max", "min", "argmax", "top_k", NULL};
    const program_item *item = &p->items[index];
    operand in[ROTA_OP_INPUTS_MAX], out[ROTA_OP_OUTPUTS_MAX];
    if (item->kind == PROGRAM_L1 || item->kind == PROGRAM_HUBER) return sides_apart(p, index, before, margin);
    if (item->kind != PROGRAM_OP || item->input_count == 0) return true;
    const char *name = item->op->name;
    for (uint32_t i = 0; i < item->input_count; i++)
        if (item->in[i].root != PROGRAM_NONE) program_read(p, &item->in[i], before, in[i]);
    const uint32_t count = program_count(&item->in[0]);
    if (is_any(name, at_zero)) return apart_from(in[0], count, 0, margin);
    if (strcmp(name, "hardswish") == 0)
        return apart_from(in[0], count, 3, margin) && apart_from(in[0], count, -3, margin);
    if (strcmp(name, "clamp") == 0)
        return apart_from(in[0], count, item->attributes.value[0].number, margin) &&
               apart_from(in[0], count, item->attributes.value[1].number, margin);
    if (is_any(name, at_steps)) {
        const double shift = strcmp(name, "round") == 0 ? 0.5 : 0;
        for (uint32_t e = 0; e < count; e++)
            if (fabs(in[0][e] + shift - rint(in[0][e] + shift)) < margin) return false;
        return true;
    }
    if (is_any(name, of_sides)) return sides_apart(p, index, before, margin);
    if (is_any(name, of_order)) return distinct_along(&item->in[0], item->attributes.axis[0], in[0], margin);
    if (strcmp(name, "max_pool2d") == 0) return distinct_in_planes(&item->in[0], in[0], margin);
    if (strcmp(name, "linear_relu") == 0) {
        program_item product = *item;
        product.op = rota_op_find("linear");
        product.input_count = 3;
        op_of_table(&product, in, out);
        return apart_from(out[0], program_count(&item->out[0]), 0, margin);
    }
    return true;
}

bool program_step_is_smooth(const program *p, uint32_t index, const double *before, const double *after) {
    const program_item *item = &p->items[index];
    const bool half = p->dtype != ROTA_F32;
    operand x;
    for (uint32_t i = 0; i < item->output_count; i++) {
        if (item->out[i].root == PROGRAM_NONE || p->roots[item->out[i].root].hidden) continue;
        program_read(p, &item->out[i], after, x);
        for (uint32_t e = 0; e < program_count(&item->out[i]); e++)
            if (!(fabs(x[e]) <= (half ? 6 : 20))) return false;
    }
    return corners_apart(p, index, before, half ? 0.12 : 0.01);
}

/* ---- Gradients ---- */

/* The item of a call. */
static uint32_t item_of(const program *p, uint32_t call) {
    uint32_t item = 0;
    while (p->items[item].kind != PROGRAM_CALL || p->items[item].call != call) item++;
    return item;
}

/* The first item whose ops a call still knows. */
static uint32_t first_known(const program *p, uint32_t call) {
    for (uint32_t i = item_of(p, call); i-- > 0;)
        if (p->items[i].kind == PROGRAM_CALL && !p->calls[p->items[i].call].keep) return i + 1;
    return 0;
}

static double total_loss(const program *p, const program_call *call, const double *values) {
    double sum = 0, x[PROGRAM_VIEW];
    for (uint32_t i = 0; i < call->loss_count; i++) {
        program_read(p, &call->loss[i], values, x);
        sum += x[0];
    }
    return sum;
}

static bool ranges_meet(const program_view *a, const program_view *b) {
    return a->root != PROGRAM_NONE && a->root == b->root && program_begin(a) < program_end(b) &&
           program_begin(b) < program_end(a);
}

static bool is_within(const program_view *a, const program_view *b) {
    return program_begin(a) >= program_begin(b) && program_end(a) <= program_end(b);
}

/* The item in whose result a call's parameter lies; PROGRAM_NONE: it was there before. False where it was
 * written several times, in part, or after it was read: of which contents it then has a gradient depends on
 * the loss. */
static bool maker_of(const program *p, uint32_t call, const program_view *x, uint32_t *out) {
    bool read = false;
    *out = PROGRAM_NONE;
    for (uint32_t k = first_known(p, call); k < item_of(p, call); k++) {
        for (uint32_t i = 0; i < p->items[k].input_count; i++)
            read = read || ranges_meet(&p->items[k].in[i], x);
        for (uint32_t i = 0; i < p->items[k].output_count; i++) {
            const program_view *y = &p->items[k].out[i];
            if (!ranges_meet(y, x)) continue;
            if (read || *out != PROGRAM_NONE || !is_within(y, x) || !is_within(x, y)) return false;
            *out = k;
        }
    }
    return true;
}

typedef double state[PROGRAM_VALUES];

/* What the losses are where an element of a parameter is `change` more. states[i]: the values before item i.
 */
static double loss_at(const program *p, state *states, uint32_t call, uint32_t param, uint32_t element,
                      double change, uint64_t noise) {
    const program_view *x = &p->calls[call].param[param];
    const uint32_t end = item_of(p, call);
    uint32_t item = first_known(p, call), made;
    uint32_t offsets[PROGRAM_VIEW];
    double values[PROGRAM_VALUES];
    memcpy(values, states[item], p->value_count * sizeof *values);
    offsets_of(p, x, offsets);
    (void)maker_of(p, call, x, &made);
    if (made == PROGRAM_NONE) values[offsets[element]] += change;
    for (; item < end; item++) {
        step(p, item, values, states[item + 1], noise);
        if (item == made) values[offsets[element]] += change;
    }
    return total_loss(p, &p->calls[call], values);
}

/* In f64 a step of h is off by h^2 / 6 times the third derivative, and by the losses' 2^-53 over h: 1e-9 and
 * less, where f32 is off by 1e-7. */
static double slope(const program *p, state *states, uint32_t call, uint32_t param, uint32_t element,
                    uint64_t noise) {
    const double h = 1e-5;
    return (loss_at(p, states, call, param, element, h, noise) -
            loss_at(p, states, call, param, element, -h, noise)) /
           (2 * h);
}

/* How far roundings can be off is what they change here: the slopes of a program each of whose results is
 * rounded at random differ by as much, some times over, as those of one whose backward pass is rounded too.
 */
enum { NOISES = 2, NOISY_SAMPLES = 4 };
static const double noise_factor = 16;

static double largest_unit(const program *p) {
    double unit = 0;
    for (uint32_t r = 0; r < p->root_count; r++) unit = fmax(unit, unit_of(p->roots[r].dtype));
    return unit;
}

static void expect_call(const program *p, state *states, uint32_t c, program_expected *out) {
    const program_call *call = &p->calls[c];
    double largest = 0, change[PROGRAM_PARAMS] = {0};
    for (uint32_t i = 0; i < call->param_count; i++) {
        struct program_expected_gradient *g = &out->gradient[c][i];
        const uint32_t count = program_count(&call->param[i]);
        uint32_t maker;
        if (program_param_is_unsupported(p, c, i)) out->unsupported[c] = true;
        if (!maker_of(p, c, &call->param[i], &maker)) {
            if (call->grad[i].root != PROGRAM_NONE) out->steep = true; /* who knows what others read there */
            continue;
        }
        const bool whole = call->grad[i].root != PROGRAM_NONE; /* later steps may read all of it */
        g->count = whole || count < PROGRAM_SAMPLES ? count : PROGRAM_SAMPLES;
        if (g->count > PROGRAM_SAMPLES) g->count = PROGRAM_SAMPLES;
        for (uint32_t s = 0; s < g->count; s++) {
            g->element[s] = (uint32_t)((uint64_t)s * count / g->count);
            g->value[s] = slope(p, states, c, i, g->element[s], 0);
            largest = fmax(largest, fabs(g->value[s]));
        }
        /* Each at least once: there may be one alone that the loss depends on. */
        for (uint64_t noise = 1; noise <= NOISES; noise++)
            for (uint32_t s = 0; s < g->count; s++)
                if (s % NOISES == noise - 1 || s % (1 + g->count / NOISY_SAMPLES) == noise - 1)
                    change[i] =
                        fmax(change[i], fabs(slope(p, states, c, i, g->element[s], noise) - g->value[s]));
    }
    const double unit = largest_unit(p), floor = unit > 0x1p-20 ? 48 * unit : 1e-4;
    for (uint32_t i = 0; i < call->param_count; i++) {
        out->gradient[c][i].bound =
            floor * fmax(largest, unit > 0x1p-20 ? 1 : 0.25) + noise_factor * change[i];
        if (!(largest <= 1e3) || !(out->gradient[c][i].bound <= 0.25 * fmax(largest, 1))) out->steep = true;
    }
}

/* ---- What may be refused ---- */

/* Of ops that are made of others anything may be saved. */
static bool saves(const program_item *item, uint32_t index, bool output) {
    if (item->kind != PROGRAM_OP || item->op->remember) return true;
    return ((output ? item->op->saved_outputs : item->op->saved_inputs) & 1u << index) != 0;
}

static bool writes(const program_item *item, const program_view *view) {
    for (uint32_t i = 0; i < item->output_count; i++)
        if (ranges_meet(&item->out[i], view)) return true;
    return false;
}

static bool changes(const program_item *item, const program_view *view) {
    for (uint32_t i = 0; i < item->input_count && item->kind == PROGRAM_OP; i++)
        if (item->op->input_modes[i] != ROTA_READ && ranges_meet(&item->in[i], view)) return true;
    return writes(item, view);
}

bool program_item_overwrites(const program *p, uint32_t k, uint32_t from) {
    for (uint32_t before = from; before <= k; before++) {
        const program_item *item = &p->items[before];
        if (item->kind == PROGRAM_CALL) continue;
        for (uint32_t i = 0; i < item->input_count; i++)
            if (saves(item, i, false) &&
                (before == k ? writes(item, &item->in[i]) : changes(&p->items[k], &item->in[i])))
                return true;
        for (uint32_t i = 0; i < item->output_count; i++)
            if (saves(item, i, true) && before != k && changes(&p->items[k], &item->out[i])) return true;
    }
    return false;
}

bool program_call_is_overwritten(const program *p, uint32_t call) {
    const uint32_t begin = first_known(p, call);
    for (uint32_t k = begin; k < item_of(p, call); k++)
        if (program_item_overwrites(p, k, begin)) return true;
    return false;
}

bool program_param_is_unsupported(const program *p, uint32_t c, uint32_t param) {
    const program_call *call = &p->calls[c];
    const program_view *x = &call->param[param];
    uint32_t maker;
    if (!maker_of(p, c, x, &maker)) return true;
    if (maker != PROGRAM_NONE && (call->accumulate || p->items[maker].kind != PROGRAM_OP)) return true;
    for (uint32_t i = 0; maker != PROGRAM_NONE && i < p->items[maker].output_count; i++) {
        const program_view *y = &p->items[maker].out[i]; /* written in another order is as good as in part */
        if (ranges_meet(y, x) && !rota_tensor_is_contiguous(&y->tensor)) return true;
    }
    for (uint32_t k = first_known(p, c); k < item_of(p, c); k++) {
        const program_item *item = &p->items[k];
        for (uint32_t i = 0; i < item->input_count; i++)
            if (ranges_meet(&item->in[i], x) &&
                (!is_within(&item->in[i], x) ||
                 (item->kind == PROGRAM_OP && item->op->input_modes[i] != ROTA_READ)))
                return true;
    }
    return false;
}

/* ---- All of it ---- */

/* What a call leaves in the gradients that it was given. */
static void write_gradients(const program *p, uint32_t c, program_expected *out, double *values) {
    const program_call *call = &p->calls[c];
    for (uint32_t i = 0; i < call->param_count; i++) {
        double x[PROGRAM_VIEW];
        if (call->grad[i].root == PROGRAM_NONE) continue;
        program_read(p, &call->grad[i], values, x);
        for (uint32_t s = 0; s < out->gradient[c][i].count; s++) {
            const uint32_t e = out->gradient[c][i].element[s];
            x[e] = out->gradient[c][i].value[s] + (call->accumulate ? x[e] : 0);
            out->gradient[c][i].sum[s] = x[e];
        }
        write_view(p, &call->grad[i], values, x);
    }
}

void program_expect(const program *p, program_expected *out) {
    static _Thread_local state states[PROGRAM_ITEMS + 1];
    memset(out, 0, sizeof *out);
    memcpy(states[0], p->start, sizeof p->start);
    bool calls = false;
    for (uint32_t k = 0; k < p->item_count; k++) {
        memcpy(states[k + 1], states[k], p->value_count * sizeof(double));
        if (p->items[k].kind == PROGRAM_CALL) {
            expect_call(p, states, p->items[k].call, out);
            out->overwritten[p->items[k].call] = program_call_is_overwritten(p, p->items[k].call);
            write_gradients(p, p->items[k].call, out, states[k + 1]);
            calls = true;
        } else {
            step(p, k, states[k + 1], NULL, 0);
            /* Where it reads a gradient it was drawn for other values. */
            if (calls && !program_step_is_smooth(p, k, states[k], states[k + 1])) out->steep = true;
        }
    }
    memcpy(out->values, states[p->item_count], sizeof out->values);
    for (uint64_t noise = 1; noise <= NOISES; noise++) {
        state noisy;
        memcpy(noisy, p->start, sizeof noisy);
        for (uint32_t k = 0; k < p->item_count; k++)
            step(p, k, noisy, p->items[k].kind == PROGRAM_CALL ? states[k + 1] : NULL, noise);
        for (uint32_t r = 0; r < p->root_count; r++)
            for (uint32_t e = p->roots[r].base; e < p->roots[r].base + p->roots[r].count; e++)
                out->bound_of_root[r] =
                    fmax(out->bound_of_root[r], noise_factor * fabs(noisy[e] - out->values[e]));
    }
    const double unit = largest_unit(p);
    for (uint32_t r = 0; r < p->root_count; r++) {
        double largest = 1;
        for (uint32_t e = p->roots[r].base; e < p->roots[r].base + p->roots[r].count; e++)
            largest = fmax(largest, fabs(out->values[e]));
        out->bound_of_root[r] += fmax(1e-5, 8 * unit) * largest;
    }
    /* What came from a gradient is as far off as that. */
    double worst = 0;
    for (uint32_t c = 0; c < p->call_count; c++)
        for (uint32_t i = 0; i < p->calls[c].param_count; i++)
            if (p->calls[c].grad[i].root != PROGRAM_NONE) worst = fmax(worst, out->gradient[c][i].bound);
    for (uint32_t r = 0; r < p->root_count; r++) out->bound_of_root[r] += 4 * worst;
}

double program_round(rota_dtype dtype, double number) {
    if (dtype == ROTA_F32) return (double)(float)number;
    if (!rota_dtype_is_real(dtype)) return rint(number);
    int exponent;
    const int bits = dtype == ROTA_F16 ? 11 : 8;
    const double fraction = frexp(number, &exponent);
    return ldexp(rint(ldexp(fraction, bits)), exponent - bits);
}
