/* Convolutions and pooling, one window after the other, in f64. */
#include "bench/ops_reference_window.h"

#include <math.h>
#include <string.h>

/* Element of x that tap `k` of window `p` reads along an axis; false outside x. */
static bool reads(const rota_op_window *a, uint32_t axis, uint64_t p, uint64_t k, uint64_t size,
                  uint64_t *out) {
    const uint64_t padded = p * a->stride[axis] + k * a->dilation[axis];
    *out = padded - a->padding[axis];
    return padded >= a->padding[axis] && *out < size;
}

/* Where a tensor of a use has the element that it would have at `i` with its second axis where that is without
 * channels_last. */
static uint64_t element_of(const rota_op_window *a, const uint64_t *s, uint64_t i) {
    if (!a->channels_last) return i;
    const uint64_t plane = s[1] * s[2], channels = s[3];
    return (i / (channels * plane) * plane + i % plane) * channels + i / plane % channels;
}
/* Its shape so. */
static void first_shape(const rota_op_window *a, const uint64_t *s, uint64_t out[4]) {
    out[0] = s[0];
    out[1] = s[a->channels_last ? 3 : 1];
    for (uint32_t i = 2; i < 4; i++) out[i] = s[a->channels_last ? i - 1 : i];
}

/* A product for each window over the wide side, each channel and each element of the window. */
typedef enum direction { INTO_NARROW, INTO_WIDE, INTO_W } direction;

static void each_product(const rota_op_use *use, const rota_tensor *wide, const rota_tensor *narrow,
                         const rota_tensor *w, double *of_wide, double *of_w, double *of_narrow,
                         direction into) {
    const rota_op_window *a = &use->attributes.window;
    uint64_t s[4], x[4], y[4];
    first_shape(a, w->shape, s);
    first_shape(a, wide->shape, x);
    first_shape(a, narrow->shape, y);
    const uint64_t of_group = y[1] / a->groups;
    for (uint64_t plane = 0; plane < y[0] * y[1]; plane++)
        for (uint64_t p = 0; p < y[2] * y[3]; p++) {
            const uint64_t first = plane / y[1] * x[1] + plane % y[1] / of_group * s[1], p_row = p / y[3];
            uint64_t in_w = plane % y[1] * s[1] * s[2] * s[3];
            double *narrow_element = of_narrow + element_of(a, narrow->shape, plane * y[2] * y[3] + p);
            for (uint64_t c = 0; c < s[1]; c++)
                for (uint64_t i = 0; i < s[2]; i++)
                    for (uint64_t j = 0; j < s[3]; j++, in_w++) {
                        uint64_t row, column;
                        if (!reads(a, 0, p_row, i, x[2], &row) || !reads(a, 1, p % y[3], j, x[3], &column))
                            continue;
                        double *weight = of_w + element_of(a, w->shape, in_w);
                        double *wide_element =
                            of_wide + element_of(a, wide->shape, ((first + c) * x[2] + row) * x[3] + column);
                        if (into == INTO_WIDE)
                            *wide_element += *narrow_element * *weight;
                        else if (into == INTO_NARROW)
                            *narrow_element += *wide_element * *weight;
                        else
                            *weight += *wide_element * *narrow_element;
                    }
        }
}

static void with_bias(reference *r) {
    const rota_op_window *a = &r->use->attributes.window;
    const rota_tensor *y = &r->use->outputs[0];
    uint64_t s[4];
    first_shape(a, y->shape, s);
    for (uint64_t i = 0; i < rota_tensor_count(y); i++)
        r->out[0][element_of(a, y->shape, i)] = r->in[2] ? r->in[2][i / (s[2] * s[3]) % s[1]] : 0;
}

static void ref_conv2d(reference *r) {
    const rota_op_use *use = r->use;
    with_bias(r);
    each_product(use, &use->inputs[0], &use->outputs[0], &use->inputs[1], r->in[0], r->in[1], r->out[0],
                 INTO_NARROW);
}
static void ref_conv_transpose2d(reference *r) {
    const rota_op_use *use = r->use;
    with_bias(r);
    each_product(use, &use->outputs[0], &use->inputs[0], &use->inputs[1], r->out[0], r->in[1], r->in[0],
                 INTO_WIDE);
}
static void ref_weight(reference *r) {
    const rota_op_use *use = r->use;
    memset(r->out[0], 0, rota_tensor_count(&use->outputs[0]) * sizeof *r->out[0]);
    each_product(use, &use->inputs[0], &use->inputs[1], &use->outputs[0], r->in[0], r->out[0], r->in[1],
                 INTO_W);
}

static void ref_pool(reference *r) {
    const bool is_max = strcmp(r->use->op->name, "max_pool2d") == 0;
    const rota_op_window *a = &r->use->attributes.window;
    const uint64_t *of_x = r->use->inputs[0].shape, *of_y = r->use->outputs[0].shape;
    uint64_t x[4], y[4];
    first_shape(a, of_x, x);
    first_shape(a, of_y, y);
    for (uint64_t i = 0; i < rota_tensor_count(&r->use->outputs[0]); i++) {
        const uint64_t p[2] = {i / y[3] % y[2], i % y[3]}, plane = i / (y[2] * y[3]) * x[2] * x[3];
        double most = -INFINITY, found = -1, sum = 0, count = 0, of[2] = {0, 0};
        for (uint32_t axis = 0; axis < 2; axis++)
            for (uint64_t k = 0; k < a->extent[axis]; k++)
                of[axis] += p[axis] * a->stride[axis] + k < x[2 + axis] + 2 * (uint64_t)a->padding[axis];
        for (uint64_t k = 0; k < (uint64_t)a->extent[0] * a->extent[1]; k++) {
            uint64_t row, column;
            if (!reads(a, 0, p[0], k / a->extent[1], x[2], &row) ||
                !reads(a, 1, p[1], k % a->extent[1], x[3], &column))
                continue;
            const double value = r->in[0][element_of(a, of_x, plane + row * x[3] + column)];
            sum += value;
            count++;
            if (found >= 0 && !(value > most) && !(isnan(value) && !isnan(most))) continue;
            most = value;
            found = (double)(row * x[3] + column);
        }
        if (!a->exclude_padding) count = count > 0 ? of[0] * of[1] : 0;
        const uint64_t to = element_of(a, of_y, i);
        r->out[0][to] = is_max ? most : count > 0 ? sum / count : 0;
        if (is_max) r->out[1][to] = found;
    }
}

/* To where each window's largest was found, or to all that a window has, alike. */
static void ref_pool_backward(reference *r) {
    const bool is_max = strcmp(r->use->op->name, "max_pool2d_backward") == 0;
    const rota_op_window *a = &r->use->attributes.window;
    const uint64_t *of_y = r->use->inputs[0].shape, *of_x = r->use->outputs[0].shape;
    uint64_t x[4], y[4];
    first_shape(a, of_x, x);
    first_shape(a, of_y, y);
    memset(r->out[0], 0, rota_tensor_count(&r->use->outputs[0]) * sizeof *r->out[0]);
    for (uint64_t i = 0; i < rota_tensor_count(&r->use->inputs[0]); i++) {
        const uint64_t p[2] = {i / y[3] % y[2], i % y[3]}, plane = i / (y[2] * y[3]) * x[2] * x[3];
        double inside = 0, of[2] = {0, 0};
        for (uint32_t axis = 0; axis < 2; axis++)
            for (uint64_t k = 0; k < a->extent[axis]; k++)
                of[axis] += p[axis] * a->stride[axis] + k < x[2 + axis] + 2 * (uint64_t)a->padding[axis];
        for (int adds = 0; adds < 2; adds++)
            for (uint64_t k = 0; k < (uint64_t)a->extent[0] * a->extent[1]; k++) {
                uint64_t row, column;
                if (!reads(a, 0, p[0], k / a->extent[1], x[2], &row) ||
                    !reads(a, 1, p[1], k % a->extent[1], x[3], &column))
                    continue;
                inside += !adds;
                const double count = a->exclude_padding ? inside : of[0] * of[1];
                const uint64_t from = element_of(a, of_y, i);
                const bool found = !is_max || r->in[1][from] == (double)(row * x[3] + column);
                if (adds && found)
                    r->out[0][element_of(a, of_x, plane + row * x[3] + column)] +=
                        r->in[0][from] / (is_max ? 1 : count);
            }
    }
}

bool reference_run_window(reference *r) {
    static const struct {
        const char *name;
        void (*run)(reference *r);
    } references[] = {{"conv2d", ref_conv2d},
                      {"conv_transpose2d", ref_conv_transpose2d},
                      {"max_pool2d", ref_pool},
                      {"avg_pool2d", ref_pool},
                      {"conv2d_backward_weight", ref_weight},
                      {"max_pool2d_backward", ref_pool_backward},
                      {"avg_pool2d_backward", ref_pool_backward}};
    for (size_t i = 0; i < sizeof references / sizeof *references; i++)
        if (strcmp(references[i].name, r->use->op->name) == 0) {
            references[i].run(r);
            return true;
        }
    return false;
}

double reference_sum_window(const rota_op_use *use) {
    const rota_op_window *a = &use->attributes.window;
    uint64_t w[4];
    first_shape(a, use->inputs[1].shape, w);
    if (strcmp(use->op->name, "conv2d") == 0) return (double)(w[1] * w[2] * w[3]);
    if (strcmp(use->op->name, "conv_transpose2d") == 0) {
        const uint64_t in_group = w[0] / a->groups;
        return (double)(in_group * w[2] * w[3]);
    }
    if (strcmp(use->op->name, "avg_pool2d") == 0) return (double)a->extent[0] * a->extent[1];
    if (strcmp(use->op->name, "conv2d_backward_weight") == 0) return (double)(w[0] * w[2] * w[3]); /* dy's */
    if (strcmp(use->op->name, "max_pool2d_backward") == 0 ||
        strcmp(use->op->name, "avg_pool2d_backward") == 0)
        return (double)a->extent[0] * a->extent[1];
    return strcmp(use->op->name, "max_pool2d") == 0 ? 1 : 0;
}
