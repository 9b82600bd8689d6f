/* References of what works element by element, moves, or reduces along an axis: the same plainly and in f64.
 */
#include "bench/ops_reference_basic.h"

#include "bench/ops_reference_length.h"

#include <math.h>
#include <string.h>

/* ---- Elementwise ---- */

static void binary(reference *r, double (*f)(double, double)) {
    const rota_tensor *y = &r->use->outputs[0];
    for (uint64_t i = 0; i < count_of(y); i++)
        r->out[0][i] = f(r->in[0][broadcast_index(y, i, &r->use->inputs[0])],
                         r->in[1][broadcast_index(y, i, &r->use->inputs[1])]);
}
static double add2(double a, double b) {
    return a + b;
}
static double sub2(double a, double b) {
    return a - b;
}
static double mul2(double a, double b) {
    return a * b;
}
static double div2(double a, double b) {
    return a / b;
}
static void ref_add(reference *r) {
    binary(r, add2);
}
static void ref_sub(reference *r) {
    binary(r, sub2);
}
static void ref_mul(reference *r) {
    binary(r, mul2);
}
static void ref_div(reference *r) {
    binary(r, div2);
}

static void unary(reference *r, double (*f)(double)) {
    for (uint64_t i = 0; i < count_of(&r->use->outputs[0]); i++) r->out[0][i] = f(r->in[0][i]);
}
static double neg1(double x) {
    return -x;
}
static double relu1(double x) {
    return x > 0 ? x : 0;
}
/* Hendrycks and Gimpel, Gaussian error linear units, 2016: the tanh form. */
static double gelu1(double x) {
    return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}
static double silu1(double x) {
    return x / (1 + exp(-x));
}
static double square1(double x) {
    return x * x;
}
static double reciprocal1(double x) {
    return 1 / x;
}
static double rsqrt1(double x) {
    return 1 / sqrt(x);
}
static double sigmoid1(double x) {
    return 1 / (1 + exp(-x));
}
static double sign1(double x) {
    return (x > 0) - (x < 0);
}
static double gelu_erf1(double x) {
    return 0.5 * x * (1 + erf(x / sqrt(2)));
}
static double softplus1(double x) {
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}
/* Howard and others, Searching for MobileNetV3, 2019. */
static double hardswish1(double x) {
    return x * fmin(fmax(x + 3, 0), 6) / 6;
}
static void ref_neg(reference *r) {
    unary(r, neg1);
}
static void ref_exp(reference *r) {
    unary(r, exp);
}
static void ref_log(reference *r) {
    unary(r, log);
}
static void ref_sqrt(reference *r) {
    unary(r, sqrt);
}
static void ref_relu(reference *r) {
    unary(r, relu1);
}
static void ref_gelu(reference *r) {
    unary(r, gelu1);
}
static void ref_silu(reference *r) {
    unary(r, silu1);
}

#define UNARY(NAME, FUNCTION)                                                                                \
    static void ref_##NAME(reference *r) {                                                                   \
        unary(r, FUNCTION);                                                                                  \
    }
UNARY(abs, fabs)
UNARY(square, square1)
UNARY(reciprocal, reciprocal1)
UNARY(rsqrt, rsqrt1)
UNARY(tanh, tanh)
UNARY(sigmoid, sigmoid1)
UNARY(sin, sin)
UNARY(cos, cos)
UNARY(sign, sign1)
UNARY(floor, floor)
UNARY(ceil, ceil)
UNARY(round, rint)
UNARY(gelu_erf, gelu_erf1)
UNARY(softplus, softplus1)
UNARY(hardswish, hardswish1)

/* Functions of an element and the op's two numbers. */
static void with_numbers(reference *r, double (*f)(double x, double first, double second)) {
    const rota_op_attributes *a = &r->use->attributes;
    for (uint64_t i = 0; i < count_of(&r->use->outputs[0]); i++)
        r->out[0][i] = f(r->in[0][i], a->value[0].number, a->value[1].number);
}
static double leaky_relu3(double x, double alpha, double unused) {
    (void)unused;
    return x > 0 ? x : alpha * x;
}
static double elu3(double x, double alpha, double unused) {
    (void)unused;
    return x > 0 ? x : alpha * expm1(x);
}
static double pow3(double x, double exponent, double unused) {
    (void)unused;
    return pow(x, exponent);
}
static double clamp3(double x, double low, double high) {
    return fmin(fmax(x, low), high);
}
static double softcap3(double x, double cap, double unused) {
    (void)unused;
    return cap * tanh(x / cap);
}
static void ref_leaky_relu(reference *r) {
    with_numbers(r, leaky_relu3);
}
static void ref_elu(reference *r) {
    with_numbers(r, elu3);
}
static void ref_pow_scalar(reference *r) {
    with_numbers(r, pow3);
}
static void ref_clamp(reference *r) {
    with_numbers(r, clamp3);
}
static void ref_softcap(reference *r) {
    with_numbers(r, softcap3);
}

static double silu_mul2(double a, double b) {
    return silu1(a) * b;
}
static double bias_gelu2(double a, double b) {
    return gelu1(a + b);
}
#define BINARY(NAME, FUNCTION)                                                                               \
    static void ref_##NAME(reference *r) {                                                                   \
        binary(r, FUNCTION);                                                                                 \
    }
#define COMPARISON(NAME, OPERATOR)                                                                           \
    static double NAME##2(double a, double b) {                                                              \
        return a OPERATOR b;                                                                                 \
    }                                                                                                        \
    BINARY(NAME, NAME##2)
BINARY(minimum, fmin)
BINARY(maximum, fmax)
BINARY(pow, pow)
BINARY(silu_mul, silu_mul2)
BINARY(bias_gelu, bias_gelu2)
COMPARISON(eq, ==)
COMPARISON(ne, !=)
COMPARISON(lt, <)
COMPARISON(le, <=)
COMPARISON(gt, >)
COMPARISON(ge, >=)

static void ref_where(reference *r) {
    const rota_tensor *y = &r->use->outputs[0], *in = r->use->inputs;
    for (uint64_t i = 0; i < count_of(y); i++)
        r->out[0][i] = r->in[0][broadcast_index(y, i, &in[0])] != 0 ? r->in[1][broadcast_index(y, i, &in[1])]
                                                                    : r->in[2][broadcast_index(y, i, &in[2])];
}

static void ref_masked_fill(reference *r) {
    const rota_tensor *y = &r->use->outputs[0];
    for (uint64_t i = 0; i < count_of(y); i++)
        r->out[0][i] = r->in[1][broadcast_index(y, i, &r->use->inputs[1])] != 0
                           ? r->use->attributes.value[0].number
                           : r->in[0][i];
}

static void ref_affine(reference *r) {
    const rota_op_attributes *a = &r->use->attributes;
    for (uint64_t i = 0; i < count_of(&r->use->outputs[0]); i++)
        r->out[0][i] = a->value[0].number * r->in[0][i] + a->value[1].number;
}

/* Philox4x32-10: Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011. */
static void philox(uint32_t counter[4], uint32_t key0, uint32_t key1) {
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = UINT64_C(0xd2511f53) * counter[0], p1 = UINT64_C(0xcd9e8d57) * counter[2];
        uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ counter[1] ^ key0, (uint32_t)p1,
                            (uint32_t)(p0 >> 32) ^ counter[3] ^ key1, (uint32_t)p0};
        memcpy(counter, next, sizeof next);
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
}

/* Of an element of what is a part of a whole along an axis. */
static uint64_t index_in_whole(const rota_op_use *use, uint64_t i) {
    const rota_tensor *y = &use->outputs[0];
    const rota_op_attributes *a = &use->attributes;
    uint64_t inner = 1;
    if (!a->length) return i;
    for (uint32_t d = a->axis[0] + 1; d < y->rank; d++) inner *= y->shape[d];
    const uint64_t own = y->shape[a->axis[0]] * inner;
    return i / own * a->length * inner + a->start * inner + i % own;
}

double reference_drawn(const rota_op_attributes *a, uint64_t index) {
    double bound = fmin(round((double)a->p * 4294967296.0), 4294967295.0);
    uint32_t counter[4] = {(uint32_t)(index / 4), a->stream, (uint32_t)a->value[1].number, 0};
    philox(counter, (uint32_t)a->value[0].number, 0);
    return counter[index % 4] >= bound ? 1 / (1 - (double)a->p) : 0;
}

static void ref_dropout(reference *r) {
    for (uint64_t i = 0; i < count_of(&r->use->outputs[0]); i++)
        r->out[0][i] = r->in[0][i] * reference_drawn(&r->use->attributes, index_in_whole(r->use, i));
}

static void ref_residual_dropout(reference *r) {
    ref_dropout(r);
    for (uint64_t i = 0; i < count_of(&r->use->outputs[0]); i++) r->out[0][i] += r->in[1][i];
}

/* ---- Moving ---- */

static void ref_copy(reference *r) {
    const rota_tensor *y = &r->use->outputs[0];
    for (uint64_t i = 0; i < count_of(y); i++)
        r->out[0][i] = r->in[0][broadcast_index(y, i, &r->use->inputs[0])];
}

static void ref_same_order(reference *r) {
    memcpy(r->out[0], r->in[0], count_of(&r->use->outputs[0]) * sizeof(double));
}

static void ref_cast(reference *r) {
    const bool whole = r->use->outputs[0].dtype == ROTA_I32;
    for (uint64_t i = 0; i < count_of(&r->use->outputs[0]); i++)
        r->out[0][i] = whole ? trunc(r->in[0][i]) : r->in[0][i];
}

static void ref_transpose(reference *r) {
    const rota_tensor *x = &r->use->inputs[0], *y = &r->use->outputs[0];
    uint32_t a = r->use->attributes.axis[0], b = r->use->attributes.axis[1];
    for (uint64_t i = 0; i < count_of(x); i++) {
        uint64_t index[ROTA_RANK_MAX], rest = i, to = 0;
        for (uint32_t d = x->rank; d-- > 0; rest /= x->shape[d]) index[d] = rest % x->shape[d];
        uint64_t swap = index[a];
        index[a] = index[b];
        index[b] = swap;
        for (uint32_t d = 0; d < y->rank; d++) to = to * y->shape[d] + index[d];
        r->out[0][to] = r->in[0][i];
    }
}

static void ref_slice(reference *r) {
    const rota_op_attributes *a = &r->use->attributes;
    split s = split_at(&r->use->inputs[0], a->axis[0]);
    for (uint64_t o = 0; o < s.outer; o++)
        memcpy(r->out[0] + o * a->length * s.inner, r->in[0] + (o * s.n + a->start) * s.inner,
               a->length * s.inner * sizeof(double));
}

static void ref_fill(reference *r) {
    for (uint64_t i = 0; i < count_of(&r->use->outputs[0]); i++)
        r->out[0][i] = r->use->attributes.value[0].number;
}

/* ---- Reductions ---- */

static void reduce(reference *r, double first, double (*join)(double, double), bool mean) {
    split s = split_at(&r->use->inputs[0], r->use->attributes.axis[0]);
    for (uint64_t o = 0; o < s.outer; o++)
        for (uint64_t i = 0; i < s.inner; i++) {
            double value = first;
            for (uint64_t k = 0; k < s.n; k++) value = join(value, r->in[0][(o * s.n + k) * s.inner + i]);
            r->out[0][o * s.inner + i] = mean ? value / (double)s.n : value;
        }
}
static void ref_sum(reference *r) {
    reduce(r, 0, add2, false);
}
static void ref_mean(reference *r) {
    reduce(r, 0, add2, true);
}
static void ref_max(reference *r) {
    reduce(r, -INFINITY, fmax, false);
}
static void ref_min(reference *r) {
    reduce(r, INFINITY, fmin, false);
}

/* ---- Along an axis ---- */

/* Where element i of [outer, m, inner] reads in [outer, n, inner] with `index` in place of its own. */
static uint64_t indexed_element(split s, uint64_t m, uint64_t i, double index) {
    return (i / s.inner / m * s.n + (uint64_t)index) * s.inner + i % s.inner;
}

static void ref_gather(reference *r) {
    const uint32_t axis = r->use->attributes.axis[0];
    split s = split_at(&r->use->inputs[0], axis);
    for (uint64_t i = 0; i < count_of(&r->use->outputs[0]); i++)
        r->out[0][i] = r->in[0][indexed_element(s, r->use->inputs[1].shape[axis], i, r->in[1][i])];
}

static void ref_scatter_add(reference *r) {
    const uint32_t axis = r->use->attributes.axis[0];
    split s = split_at(&r->use->inputs[0], axis);
    ref_same_order(r);
    for (uint64_t i = 0; i < count_of(&r->use->inputs[1]); i++)
        r->out[0][indexed_element(s, r->use->inputs[1].shape[axis], i, r->in[1][i])] += r->in[2][i];
}

static void ref_one_hot(reference *r) {
    const uint64_t classes = r->use->attributes.length;
    for (uint64_t i = 0; i < count_of(&r->use->outputs[0]); i++)
        r->out[0][i] = r->in[0][i / classes] == (double)(i % classes);
}

/* The k largest of each column, values and indices; either may be NULL. */
static void largest(reference *r, uint64_t k, double *values, double *index) {
    split s = split_at(&r->use->inputs[0], r->use->attributes.axis[0]);
    for (uint64_t column = 0; column < s.outer * s.inner; column++) {
        const double *x = r->in[0] + column / s.inner * s.n * s.inner + column % s.inner;
        double before = INFINITY;
        uint64_t taken = 0;
        for (uint64_t j = 0; j < k;) {
            double best = -INFINITY;
            for (uint64_t i = 0; i < s.n; i++)
                if (x[i * s.inner] < before) best = fmax(best, x[i * s.inner]);
            for (uint64_t i = 0; i < s.n && j < k; i++) {
                if (x[i * s.inner] != best) continue;
                const uint64_t to = (column / s.inner * k + j++) * s.inner + column % s.inner;
                if (values) values[to] = best;
                if (index) index[to] = (double)i;
            }
            before = best;
            if (++taken > s.n) return;
        }
    }
}
static void ref_argmax(reference *r) {
    largest(r, 1, NULL, r->out[0]);
}
static void ref_top_k(reference *r) {
    largest(r, r->use->attributes.length, r->out[0], r->out[1]);
}

static void ref_cumulative_sum(reference *r) {
    split s = split_at(&r->use->inputs[0], r->use->attributes.axis[0]);
    ref_same_order(r);
    for (uint64_t o = 0; o < s.outer; o++)
        for (uint64_t i = s.inner; i < s.n * s.inner; i++)
            r->out[0][o * s.n * s.inner + i] += r->out[0][o * s.n * s.inner + i - s.inner];
}

static void ref_variance(reference *r) {
    split s = split_at(&r->use->inputs[0], r->use->attributes.axis[0]);
    for (uint64_t column = 0; column < s.outer * s.inner; column++) {
        const double *x = r->in[0] + column / s.inner * s.n * s.inner + column % s.inner;
        double mean = 0, sum = 0;
        for (uint64_t k = 0; k < s.n; k++) mean += x[k * s.inner] / (double)s.n;
        for (uint64_t k = 0; k < s.n; k++) sum += (x[k * s.inner] - mean) * (x[k * s.inner] - mean);
        r->out[0][column] = sum / (double)((int64_t)s.n - r->use->attributes.integer);
        r->out[1][column] = mean;
    }
}

/* Roundings to f32, in units of its roundoff, that may lie between an op's inputs and its result. Vulkan
 * allows a division 2.5 ulp (5 units), exp 3 + 2 |x| ulp, log 3 ulp or 2^-21, sqrt what a division and 2 ulp
 * of its inverse make; an error in an argument comes out times the slope of the function, at most 1.2 here
 * but for pow (exponents of up to 2.5). */
static const struct {
    const char *name;
    void (*run)(reference *r);
    double roundings;
} basics[] = {
    {"add", ref_add, 1},
    {"sub", ref_sub, 1},
    {"mul", ref_mul, 1},
    {"div", ref_div, 5},
    {"minimum", ref_minimum, 0},
    {"maximum", ref_maximum, 0},
    {"pow", ref_pow, 32},             /* log2, a product, exp2 */
    {"silu_mul", ref_silu_mul, 18},   /* exp, a sum, a division, two products */
    {"bias_gelu", ref_bias_gelu, 24}, /* as gelu, and a sum */
    {"eq", ref_eq, 0},
    {"ne", ref_ne, 0},
    {"lt", ref_lt, 0},
    {"le", ref_le, 0},
    {"gt", ref_gt, 0},
    {"ge", ref_ge, 0},
    {"where", ref_where, 0},
    {"masked_fill", ref_masked_fill, 0},
    {"neg", ref_neg, 0},
    {"exp", ref_exp, 10},
    {"log", ref_log, 8},
    {"sqrt", ref_sqrt, 9},
    {"relu", ref_relu, 0},
    {"gelu", ref_gelu, 22}, /* four products and a sum inside exp; a sum, a division, two products */
    {"silu", ref_silu, 17},
    {"abs", ref_abs, 0},
    {"square", ref_square, 1},
    {"reciprocal", ref_reciprocal, 5},
    {"rsqrt", ref_rsqrt, 14},
    {"tanh", ref_tanh, 17}, /* expm1, a sum, a division */
    {"sigmoid", ref_sigmoid, 16},
    {"sin", ref_sin, 4}, /* the reduced argument, and a polynomial whose terms after the first are small */
    {"cos", ref_cos, 4},
    {"sign", ref_sign, 0},
    {"floor", ref_floor, 0},
    {"ceil", ref_ceil, 0},
    {"round", ref_round, 0},
    {"gelu_erf", ref_gelu_erf, 20}, /* erf to 1.5e-7, 2.5 units, and exp, a division and a polynomial in it */
    {"softplus", ref_softplus, 24}, /* exp, a sum, log, a division, a product, a sum */
    {"hardswish", ref_hardswish, 7},
    {"leaky_relu", ref_leaky_relu, 1},
    {"elu", ref_elu, 13},
    {"pow_scalar", ref_pow_scalar, 32},
    {"clamp", ref_clamp, 0},
    {"softcap", ref_softcap, 24},
    {"affine", ref_affine, 2},
    {"dropout", ref_dropout, 2}, /* the factor and the product */
    {"residual_dropout", ref_residual_dropout, 3},
    {"copy", ref_copy, 0},
    {"cast", ref_cast, 0},
    {"reshape", ref_same_order, 0},
    {"stop_gradient", ref_same_order, 0},
    {"transpose", ref_transpose, 0},
    {"slice", ref_slice, 0},
    {"fill", ref_fill, 0},
    {"sum", ref_sum, 1},
    {"mean", ref_mean, 3},
    {"max", ref_max, 0},
    {"min", ref_min, 0},
    {"gather", ref_gather, 0},
    {"scatter_add", ref_scatter_add, 0},
    {"one_hot", ref_one_hot, 0},
    {"argmax", ref_argmax, 0},
    {"top_k", ref_top_k, 0},
    {"cumulative_sum", ref_cumulative_sum, 0},
    {"nonzero", reference_nonzero, 0},
    {"compact", reference_compact, 0},
    {"unique", reference_unique, 0},
    {"top_p", reference_top_p, 0},
    {"variance", ref_variance, 6}, /* the mean's division; a difference, its square, the factor */
};

static int find(const char *name) {
    for (size_t i = 0; i < sizeof basics / sizeof *basics; i++)
        if (strcmp(basics[i].name, name) == 0) return (int)i;
    return -1;
}

bool reference_run_basic(reference *r) {
    int i = find(r->use->op->name);
    if (i >= 0) basics[i].run(r);
    return i >= 0;
}

double reference_roundings_basic(const reference *r) {
    int i = find(r->use->op->name);
    return i >= 0 ? basics[i].roundings : -1;
}
