/* Ops that order or compare, on every executor: NaN, infinities, zeroes of both signs and ties in every
 * place, against the rules that ops.h states, written here once more. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ops/cpu/cpu.h"
#include "ops/cpu/half.h"
#include "tests/ops/op_kit.h"

static const char *const devices[] = {"cpu", "vk:0", "cuda:0"};
static const rota_dtype dtypes[] = {ROTA_F32, ROTA_F16, ROTA_BF16};
enum { DEVICES = 3, DTYPES = 3 };

static rota_tensor input(op_kit *kit, rota_dtype dtype, uint32_t rank, const uint64_t *shape,
                         const float *x) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < rank; i++) count *= shape[i];
    void *data = malloc(count * 4 + 4);
    assert_non_null(data);
    for (uint64_t i = 0; i < count; i++) rota_cpu_put(dtype, data, i, x[i]);
    const rota_tensor tensor = op_kit_input(kit, dtype, rank, shape, data);
    free(data);
    return tensor;
}

static bool same(double got, double expected) {
    return isnan(expected) ? isnan(got) : got == expected;
}

/* ---- Along an axis ---- */

/* Rows of `n` whose elements are small numbers, many of them alike, with special ones in two places. */
#define PAIRS 14
static const float pairs[PAIRS][2] = {
    {NAN, 1},          {-NAN, 2},
    {NAN, NAN},        {NAN, INFINITY},
    {INFINITY, NAN},   {INFINITY, 1},
    {-INFINITY, 1},    {INFINITY, INFINITY},
    {-INFINITY, -NAN}, {0.0f, -0.0f},
    {-0.0f, 0.0f},     {2, 2},
    {-2, -2},          {-INFINITY, INFINITY},
};

typedef struct rows {
    uint64_t count, n, inner; /* x is [count, n, inner]; the columns of a row are turned by their number */
    float *x;
} rows;

enum { LOW, ALL_LOW, ZEROES, FILLS }; /* what the rest of a row is: numbers in (-1, 1); -infinity; 0 or -0 */

static rows make_rows(uint64_t n, uint64_t inner, const uint64_t *positions, uint64_t position_count) {
    rows r = {.count = position_count * PAIRS * FILLS, .n = n, .inner = inner};
    r.x = malloc(r.count * n * inner * sizeof *r.x);
    assert_non_null(r.x);
    for (uint64_t row = 0; row < r.count; row++) {
        const uint64_t position = positions[row / FILLS / PAIRS], fill = row % FILLS;
        const float *pair = pairs[row / FILLS % PAIRS];
        for (uint64_t k = 0; k < n; k++)
            for (uint64_t c = 0; c < inner; c++) {
                const uint64_t turned = (k + c) % n;
                float *x = &r.x[(row * n + k) * inner + c];
                *x = fill == ALL_LOW  ? -INFINITY
                     : fill == ZEROES ? (k % 3 ? 0.0f : -0.0f)
                                      : (float)((k * 7 + row) % 5) / 8 - 0.25f;
                if (turned == position) *x = pair[0];
                if (turned == (position + n / 3 + 1) % n && n > 1) *x = pair[1];
            }
    }
    return r;
}

/* Whether x at i comes before x at j in falling order: NaN above all, zeroes alike, of equal ones the first.
 */
static bool before(const float *x, uint64_t stride, uint64_t i, uint64_t j) {
    const float a = x[i * stride], b = x[j * stride];
    if (isnan(a) || isnan(b)) return isnan(a) && (!isnan(b) || i < j);
    return a > b || (a == b && i < j);
}

static void check_rows(rota_dtype dtype, const rows *r, uint64_t k, const char *how) {
    op_kit kit;
    rota_tensor values, index, arg, max, min, loss, gradient[2] = {ROTA_TENSOR_NONE, ROTA_TENSOR_NONE};
    const uint64_t columns = r->count * r->inner;
    float *ones = malloc(columns * sizeof *ones);
    uint8_t *taken = malloc(r->n);
    assert_true(ones && taken);
    for (uint64_t i = 0; i < columns; i++) ones[i] = 1;
    op_kit_open(&kit);
    const rota_tensor x = input(&kit, dtype, ROTA_SHAPE(r->count, r->n, r->inner), r->x);
    assert_ok(rota_op_top_k(kit.tape, x, 1, k, &values, &index));
    assert_ok(rota_op_argmax(kit.tape, x, 1, false, &arg));
    const uint32_t of_values = op_kit_output(&kit, values), of_index = op_kit_output(&kit, index),
                   of_arg = op_kit_output(&kit, arg);
    uint32_t of_picked[2], of_gradient[2];
    for (int m = 0; m < 2; m++) {
        rota_tensor *y = m ? &min : &max, flat, wide;
        assert_ok((m ? rota_op_min : rota_op_max)(kit.tape, x, 1, false, y));
        of_picked[m] = op_kit_output(&kit, *y);
        /* The sum's gradient is 1 everywhere. */
        assert_ok(rota_op_reshape(kit.tape, *y, ROTA_SHAPE(columns), &flat));
        wide = flat;
        if (dtype != ROTA_F32) assert_ok(rota_op_cast(kit.tape, flat, ROTA_F32, &wide));
        assert_ok(rota_op_sum(kit.tape, wide, 0, true, &loss));
        assert_ok(rota_backward(kit.tape, loss, &x, 1, &gradient[m], NULL));
        of_gradient[m] = op_kit_output(&kit, gradient[m]);
    }
    op_kit_run(&kit);
    for (uint64_t column = 0; column < columns; column++) {
        const uint64_t row = column / r->inner, c = column % r->inner;
        const float *from = r->x + row * r->n * r->inner + c;
        memset(taken, 0, r->n);
        uint64_t first = 0, last = 0; /* what max and min choose */
        bool nan = false;
        for (uint64_t i = 0; i < r->n; i++) {
            if (before(from, r->inner, i, first)) first = i;
            nan = nan || isnan(from[i * r->inner]);
            if (from[i * r->inner] < from[last * r->inner] || isnan(from[last * r->inner])) last = i;
        }
        for (uint64_t j = 0; j < k; j++) {
            uint64_t best = r->n;
            for (uint64_t i = 0; i < r->n; i++)
                if (!taken[i] && (best == r->n || before(from, r->inner, i, best))) best = i;
            taken[best] = 1;
            const uint64_t element = (row * k + j) * r->inner + c;
            const int32_t got = ((const int32_t *)kit.output_data[of_index])[element];
            const double value = element_load(dtype, kit.output_data[of_values], element);
            if (got != (int32_t)best || !same(value, (double)from[best * r->inner]))
                fail_msg("%s: top_k %llu of row %llu, column %llu is %d (%g), expected %llu (%g)", how,
                         (unsigned long long)j, (unsigned long long)row, (unsigned long long)c, got, value,
                         (unsigned long long)best, (double)from[best * r->inner]);
        }
        const int32_t got = ((const int32_t *)kit.output_data[of_arg])[column];
        if (got != (int32_t)first)
            fail_msg("%s: argmax of row %llu, column %llu is %d, expected %llu", how, (unsigned long long)row,
                     (unsigned long long)c, got, (unsigned long long)first);
        for (int m = 0; m < 2; m++) {
            const float picked = nan ? NAN : from[(m ? last : first) * r->inner];
            const double value = element_load(dtype, kit.output_data[of_picked[m]], column);
            if (!same(value, (double)picked))
                fail_msg("%s: %s of row %llu, column %llu is %g, expected %g", how, m ? "min" : "max",
                         (unsigned long long)row, (unsigned long long)c, value, (double)picked);
            for (uint64_t i = 0; i < r->n; i++) {
                const double expected = !nan && i == (m ? last : first) ? 1 : 0;
                const double dx =
                    element_load(dtype, kit.output_data[of_gradient[m]], (row * r->n + i) * r->inner + c);
                if (dx != expected)
                    fail_msg("%s: %s's gradient of row %llu, column %llu at %llu is %g, expected %g", how,
                             m ? "min" : "max", (unsigned long long)row, (unsigned long long)c,
                             (unsigned long long)i, dx, expected);
            }
        }
    }
    op_kit_close(&kit);
    free(ones);
    free(taken);
}

static void along_an_axis(void **state) {
    (void)state;
    uint64_t everywhere[37];
    for (uint64_t i = 0; i < 37; i++) everywhere[i] = i;
    const rows short_rows = make_rows(37, 1, everywhere, 37), columns = make_rows(19, 3, everywhere, 19),
               tiny = make_rows(3, 1, everywhere, 3), one = make_rows(1, 1, everywhere, 1);
    for (int d = 0; d < DEVICES; d++) {
        if (!op_kit_use_device(devices[d])) continue;
        for (int t = 0; t < DTYPES; t++) {
            char how[64];
            snprintf(how, sizeof how, "%s, %s", devices[d], rota_dtype_name(dtypes[t]));
            check_rows(dtypes[t], &short_rows, 4, how);
            check_rows(dtypes[t], &short_rows, 37, how);
            check_rows(dtypes[t], &columns, 19, how);
            check_rows(dtypes[t], &tiny, 3, how);
            check_rows(dtypes[t], &one, 1, how);
        }
    }
    free(short_rows.x);
    free(columns.x);
    free(tiny.x);
    free(one.x);
}

/* Axes that Vulkan takes in chunks: 16 384 elements of max's gradient and 65 536 of top_k, or many passes. */
static void along_a_long_axis(void **state) {
    (void)state;
    static const struct {
        uint64_t n, k, positions[3];
    } cases[] = {
        {66001, 1, {0, 16383, 66000}},
        {66001, 2, {65535, 65536, 43000}},
        {1100, 1099, {0, 64, 1099}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const rows r = make_rows(cases[i].n, 1, cases[i].positions, i < 2 ? 1 : 3);
        for (int d = 0; d < DEVICES; d++) {
            if (!op_kit_use_device(devices[d])) continue;
            char how[64];
            snprintf(how, sizeof how, "%s, rows of %llu", devices[d], (unsigned long long)cases[i].n);
            check_rows(i ? ROTA_F32 : ROTA_BF16, &r, cases[i].k, how);
        }
        free(r.x);
    }
}

/* ---- Element by element ---- */

#define SPECIALS 13
static const float specials[SPECIALS] = {NAN, -NAN,  INFINITY, -INFINITY, 0.0f,  -0.0f, 1,
                                         -1,  0.25f, -0.25f,   2.5f,      -2.5f, 3};

typedef rota_status (*binary_op)(rota_tape *tape, rota_tensor a, rota_tensor b, rota_tensor *out_y);
static const binary_op compared[] = {rota_op_minimum, rota_op_maximum, rota_op_eq, rota_op_ne,
                                     rota_op_lt,      rota_op_le,      rota_op_gt, rota_op_ge};
static const char *const compared_names[] = {"minimum", "maximum", "eq", "ne", "lt", "le", "gt", "ge"};
enum { COMPARED = 8 };

static double comparison(int op, double a, double b) {
    const bool nan = isnan(a) || isnan(b);
    switch (op) {
    case 0:
        return nan ? NAN : a < b ? a : b;
    case 1:
        return nan ? NAN : a > b ? a : b;
    case 2:
        return !nan && a == b;
    case 3:
        return nan || a != b;
    case 4:
        return !nan && a < b;
    case 5:
        return !nan && a <= b;
    case 6:
        return !nan && a > b;
    default:
        return !nan && a >= b;
    }
}

enum { PAIRED = SPECIALS * SPECIALS };

/* `fused`: behind a product with 1, as one node with it. */
static void check_compared(rota_dtype dtype, bool repeats, bool fused, const char *how) {
    op_kit kit;
    op_kit_open(&kit);
    float a[PAIRED], b[PAIRED], one = 1;
    for (int i = 0; i < PAIRED; i++) {
        a[i] = specials[i % SPECIALS];
        b[i] = specials[i / SPECIALS];
    }
    rota_tensor left = input(&kit, dtype, ROTA_SHAPE(SPECIALS, SPECIALS), a), ones, product,
                right = repeats ? input(&kit, dtype, ROTA_SHAPE(SPECIALS, 1), specials)
                                : input(&kit, dtype, ROTA_SHAPE(SPECIALS, SPECIALS), b);
    uint32_t outputs[COMPARED + 2];
    ones = input(&kit, dtype, ROTA_SHAPE(1), &one);
    for (int o = 0; o < COMPARED + 2; o++) {
        rota_tensor y, x = left;
        if (fused) {
            assert_ok(rota_op_mul(kit.tape, left, ones, &product));
            x = product;
        }
        if (o < COMPARED)
            assert_ok(compared[o](kit.tape, x, right, &y));
        else if (o == COMPARED)
            assert_ok(rota_op_where(kit.tape, right, x, ones, &y));
        else
            assert_ok(rota_op_masked_fill(kit.tape, x, right, 7, &y));
        outputs[o] = op_kit_output(&kit, y);
    }
    if (fused) assert_ok(rota_graph_fuse(kit.graph));
    op_kit_run(&kit);
    for (int o = 0; o < COMPARED + 2; o++)
        for (int i = 0; i < PAIRED; i++) {
            const double u = (double)a[i], v = (double)b[i];
            const double expected = o < COMPARED    ? comparison(o, u, v)
                                    : o == COMPARED ? (v != 0 ? u : 1)
                                                    : (v != 0 ? 7 : u);
            const double got = element_load(dtype, kit.output_data[outputs[o]], (uint64_t)i);
            if (!same(got, expected))
                fail_msg("%s: %s of %g and %g is %g, expected %g", how,
                         o < COMPARED    ? compared_names[o]
                         : o == COMPARED ? "where"
                                         : "masked_fill",
                         u, v, got, expected);
        }
    op_kit_close(&kit);
}

static rota_status leaky(rota_tape *tape, rota_tensor x, rota_tensor *y) {
    return rota_op_leaky_relu(tape, x, ROTA_CONSTANT(0.25), y);
}
static rota_status elu(rota_tape *tape, rota_tensor x, rota_tensor *y) {
    return rota_op_elu(tape, x, ROTA_CONSTANT(0.5), y);
}
static rota_status clamped(rota_tape *tape, rota_tensor x, rota_tensor *y) {
    return rota_op_clamp(tape, x, ROTA_CONSTANT(-1), ROTA_CONSTANT(2.5), y);
}

typedef rota_status (*unary_op)(rota_tape *tape, rota_tensor x, rota_tensor *out_y);
static const unary_op bent[] = {rota_op_relu,  rota_op_abs, rota_op_sign, rota_op_floor, rota_op_ceil,
                                rota_op_round, leaky,       clamped,      elu,           rota_op_hardswish};
static const char *const bent_names[] = {"relu",  "abs",        "sign",  "floor", "ceil",
                                         "round", "leaky_relu", "clamp", "elu",   "hardswish"};
enum { BENT = 10, WITH_SLOPE = 8 /* the first, whose slopes are a rule of their own and not a formula's */ };

static double bend(int op, double x) {
    switch (op) {
    case 0:
        return x < 0 ? 0 : x;
    case 1:
        return fabs(x);
    case 2:
        return x > 0 ? 1 : x < 0 ? -1 : x;
    case 3:
        return floor(x);
    case 4:
        return ceil(x);
    case 5:
        return rint(x);
    case 6:
        return x > 0 ? x : 0.25 * x;
    case 7:
        return x < -1 ? -1 : x > 2.5 ? 2.5 : x;
    case 8:
        return x > 0 ? x : 0.5 * expm1(x);
    default:
        return x * (x + 3 < 0 ? 0 : x + 3 > 6 ? 6 : x + 3) / 6;
    }
}
static double slope(int op, double x) {
    switch (op) {
    case 0:
        return x > 0;
    case 1:
        return x > 0 ? 1 : x < 0 ? -1 : x;
    case 6:
        return x > 0 ? 1 : 0.25;
    case 7:
        return x >= -1 && x <= 2.5;
    default:
        return 0;
    }
}

static void check_bent(rota_dtype dtype, bool fused, const char *how) {
    op_kit kit;
    op_kit_open(&kit);
    const float one = 1;
    const rota_tensor x = input(&kit, dtype, ROTA_SHAPE(SPECIALS), specials),
                      ones = input(&kit, dtype, ROTA_SHAPE(1), &one);
    uint32_t outputs[BENT], gradients[BENT] = {0};
    for (int o = 0; o < BENT; o++) {
        rota_tensor y, from = x, wide, loss, gradient = ROTA_TENSOR_NONE;
        if (fused) assert_ok(rota_op_mul(kit.tape, x, ones, &from));
        assert_ok(bent[o](kit.tape, from, &y));
        outputs[o] = op_kit_output(&kit, y);
        if (o >= WITH_SLOPE || fused) continue;
        wide = y;
        if (dtype != ROTA_F32) assert_ok(rota_op_cast(kit.tape, y, ROTA_F32, &wide));
        assert_ok(rota_op_sum(kit.tape, wide, 0, true, &loss));
        assert_ok(rota_backward(kit.tape, loss, &x, 1, &gradient, NULL));
        gradients[o] = op_kit_output(&kit, gradient);
    }
    if (fused) assert_ok(rota_graph_fuse(kit.graph));
    op_kit_run(&kit);
    for (int o = 0; o < BENT; o++)
        for (uint64_t i = 0; i < SPECIALS; i++) {
            const double v = (double)specials[i], expected = bend(o, v);
            const double got = element_load(dtype, kit.output_data[outputs[o]], i);
            const double off = dtype == ROTA_F32 ? 1e-6 : dtype == ROTA_F16 ? 1e-3 : 8e-3;
            if (!same(got, expected) && !(isfinite(expected) && fabs(got - expected) <= off * fabs(expected)))
                fail_msg("%s: %s of %g is %g, expected %g", how, bent_names[o], v, got, expected);
            if (o >= WITH_SLOPE || fused) continue;
            const double dx = element_load(dtype, kit.output_data[gradients[o]], i);
            if (!same(dx, slope(o, v)))
                fail_msg("%s: %s's slope at %g is %g, expected %g", how, bent_names[o], v, dx, slope(o, v));
        }
    op_kit_close(&kit);
}

/* To i32: towards 0, the nearest where there is none, NaN 0. */
static void check_cast(rota_dtype dtype, const char *how) {
    op_kit kit;
    op_kit_open(&kit);
    const float x[] = {NAN,   -NAN,   INFINITY, -INFINITY, 0.0f,  -0.0f,
                       2.75f, -2.75f, 3e9f,     -3e9f,     65504, -65504};
    const int32_t expected[] = {0, 0, INT32_MAX, INT32_MIN, 0, 0, 2, -2, INT32_MAX, INT32_MIN};
    rota_tensor y;
    assert_ok(rota_op_cast(kit.tape, input(&kit, dtype, ROTA_SHAPE(12), x), ROTA_I32, &y));
    const uint32_t output = op_kit_output(&kit, y);
    op_kit_run(&kit);
    for (int i = 0; i < 10; i++)
        if (((const int32_t *)kit.output_data[output])[i] != expected[i])
            fail_msg("%s: %g as i32 is %d, expected %d", how, (double)x[i],
                     ((const int32_t *)kit.output_data[output])[i], expected[i]);
    op_kit_close(&kit);
}

static void element_by_element(void **state) {
    (void)state;
    for (int d = 0; d < DEVICES; d++) {
        if (!op_kit_use_device(devices[d])) continue;
        for (int t = 0; t < DTYPES; t++)
            for (int fused = 0; fused < (t ? 1 : 2); fused++) { /* dtypes are alike to a fused kernel */
                char how[64];
                snprintf(how, sizeof how, "%s, %s%s", devices[d], rota_dtype_name(dtypes[t]),
                         fused ? ", fused" : "");
                check_compared(dtypes[t], false, fused, how);
                if (!fused) check_compared(dtypes[t], true, false, how);
                check_bent(dtypes[t], fused, how);
                if (!fused) check_cast(dtypes[t], how);
            }
    }
}

/* ---- Rows whose largest is subtracted ---- */

/* As IEEE arithmetic has it: all of a row is NaN where one of its elements is NaN or infinity, or where all
 * are -infinity; else -infinity alone is 0 (of the logarithm -infinity). */
static void check_softmax(rota_dtype dtype, uint64_t n, const char *how) {
    static const float singles[] = {NAN, -NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 0.5f};
    enum { SINGLES = 7 };
    const uint64_t count = n * SINGLES + 1; /* a single one in each place; a row of -infinity */
    float *x = malloc(count * n * sizeof *x);
    assert_non_null(x);
    for (uint64_t row = 0; row < count; row++) {
        for (uint64_t k = 0; k < n; k++)
            x[row * n + k] = row + 1 == count     ? -INFINITY
                             : k == row / SINGLES ? singles[row % SINGLES]
                                                  : (float)((k + row) % 4) / 4;
    }
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor y, log_y;
    const rota_tensor t = input(&kit, dtype, ROTA_SHAPE(count, n), x);
    assert_ok(rota_op_softmax(kit.tape, t, &y));
    assert_ok(rota_op_log_softmax(kit.tape, t, &log_y));
    const uint32_t outputs[] = {op_kit_output(&kit, y), op_kit_output(&kit, log_y)};
    op_kit_run(&kit);
    for (uint64_t row = 0; row < count; row++) {
        double largest = -INFINITY, sum = 0;
        bool nan = row + 1 == count;
        for (uint64_t k = 0; k < n; k++) {
            const double v = (double)x[row * n + k];
            nan = nan || isnan(v) || v == INFINITY;
            if (v > largest) largest = v;
        }
        for (uint64_t k = 0; k < n; k++) sum += exp((double)x[row * n + k] - largest);
        for (uint64_t k = 0; k < n; k++)
            for (int log_form = 0; log_form < 2; log_form++) {
                const double v = (double)x[row * n + k] - largest;
                const double expected = nan ? NAN : log_form ? v - log(sum) : exp(v) / sum;
                const double got = element_load(dtype, kit.output_data[outputs[log_form]], row * n + k);
                if (!same(got, expected) &&
                    !(isfinite(expected) && fabs(got - expected) <= 0.01 * fmax(1, fabs(expected))))
                    fail_msg("%s: %s of %g in row %llu is %g, expected %g", how,
                             log_form ? "log_softmax" : "softmax", (double)x[row * n + k],
                             (unsigned long long)row, got, expected);
            }
    }
    op_kit_close(&kit);
    free(x);
}

/* The loss of a row with NaN or infinity is NaN, of one with -infinity elsewhere than at the label a number.
 */
static void check_loss(rota_dtype dtype, const char *how) {
    enum { N = 21 };
    static const float singles[] = {NAN, INFINITY, -INFINITY};
    for (int s = 0; s < 3; s++)
        for (uint64_t position = 0; position < N; position++) {
            op_kit kit;
            op_kit_open(&kit);
            float x[N];
            const int32_t label = 3;
            double sum = 0;
            for (uint64_t k = 0; k < N; k++) x[k] = k == position ? singles[s] : (float)(k % 4) / 4;
            for (uint64_t k = 0; k < N; k++) sum += exp((double)x[k]);
            rota_tensor loss;
            assert_ok(rota_op_cross_entropy(kit.tape, input(&kit, dtype, ROTA_SHAPE(1, N), x),
                                            op_kit_input(&kit, ROTA_I32, ROTA_SHAPE(1), &label), &loss));
            const uint32_t output = op_kit_output(&kit, loss);
            op_kit_run(&kit);
            const double expected = s < 2 ? NAN : log(sum) - (double)x[label];
            const double got = (double)op_kit_f32(&kit, output)[0];
            if (!same(got, expected) && !(isfinite(expected) && fabs(got - expected) <= 0.01))
                fail_msg("%s: cross_entropy with %g at %llu is %g, expected %g", how, (double)singles[s],
                         (unsigned long long)position, got, expected);
            op_kit_close(&kit);
        }
}

/* A key that is NaN makes every query's result NaN, one whose score is -infinity counts for nothing. */
static void check_attention(const char *how) {
    enum { QUERIES = 5, KEYS = 70, DIM = 8 };
    static const uint64_t positions[] = {0, 1, 31, 32, 63, 64, 69};
    for (int s = 0; s < 2; s++)
        for (size_t p = 0; p < sizeof positions / sizeof *positions; p++) {
            op_kit kit;
            op_kit_open(&kit);
            float q[QUERIES * DIM], k[KEYS * DIM], v[KEYS * DIM];
            for (int i = 0; i < QUERIES * DIM; i++) q[i] = 0.5f;
            for (int i = 0; i < KEYS * DIM; i++) {
                const bool here = (uint64_t)(i / DIM) == positions[p];
                k[i] = here ? (s ? -INFINITY : NAN) : 0.25f;
                v[i] = here ? 1000 : (float)(i % DIM);
            }
            rota_tensor y;
            assert_ok(rota_op_attention(kit.tape, input(&kit, ROTA_F32, ROTA_SHAPE(1, 1, QUERIES, DIM), q),
                                        input(&kit, ROTA_F32, ROTA_SHAPE(1, 1, KEYS, DIM), k),
                                        input(&kit, ROTA_F32, ROTA_SHAPE(1, 1, KEYS, DIM), v), false, 1.0f,
                                        &y));
            const uint32_t output = op_kit_output(&kit, y);
            op_kit_run(&kit);
            for (int i = 0; i < QUERIES * DIM; i++) {
                const double got = (double)op_kit_f32(&kit, output)[i],
                             expected = s ? (double)(i % DIM) : (double)NAN;
                if (!same(got, expected) && !(s && fabs(got - expected) <= 1e-4))
                    fail_msg("%s: attention with a key of %g at %llu is %g, expected %g", how,
                             s ? -(double)INFINITY : (double)NAN, (unsigned long long)positions[p], got,
                             expected);
            }
            op_kit_close(&kit);
        }
}

static void rows_less_their_largest(void **state) {
    (void)state;
    for (int d = 0; d < DEVICES; d++) {
        if (!op_kit_use_device(devices[d])) continue;
        for (int t = 0; t < DTYPES; t++) {
            char how[64];
            snprintf(how, sizeof how, "%s, %s", devices[d], rota_dtype_name(dtypes[t]));
            check_softmax(dtypes[t], 37, how);
            check_softmax(dtypes[t], 2, how);
            check_loss(dtypes[t], how);
        }
        check_attention(devices[d]);
    }
}

/* ---- Norms and what follows from them ---- */

/* A norm that is no number clips nothing away in silence; the scale's factor is negative then. */
static void norms(void **state) {
    (void)state;
    enum { N = 21 };
    static const float singles[] = {NAN, INFINITY, -INFINITY, 0.0f};
    for (int d = 0; d < DEVICES; d++) {
        if (!op_kit_use_device(devices[d])) continue;
        for (int s = 0; s < 4; s++)
            for (uint64_t position = 0; position < N; position++) {
                op_kit kit;
                op_kit_open(&kit);
                float x[N] = {0}, state_data[] = {1024, 0};
                x[position] = singles[s];
                rota_tensor t = input(&kit, ROTA_F32, ROTA_SHAPE(N), x), norm_factor, norm, factor,
                            scale = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(2), state_data);
                const rota_loss_scale options =
                    ROTA_LOSS_SCALE(.growth = 2, .backoff = 0.5f, .interval = 100, .max_norm = INFINITY);
                assert_ok(rota_op_global_norm(kit.tape, &t, 1, 1.0f, &norm_factor));
                assert_ok(rota_tensor_slice(&norm_factor, 0, 0, 1, &norm));
                assert_ok(rota_op_loss_scale(kit.tape, norm, scale, &options, &factor));
                const uint32_t of_norm = op_kit_output(&kit, norm), of_factor = op_kit_output(&kit, factor),
                               of_scale = op_kit_output(&kit, scale);
                op_kit_run(&kit);
                const double got = (double)op_kit_f32(&kit, of_norm)[0];
                assert_true(same(got, s == 0 ? NAN : s < 3 ? INFINITY : 0));
                assert_true((op_kit_f32(&kit, of_factor)[0] < 0) == (s < 3));
                assert_true(op_kit_f32(&kit, of_scale)[0] == (s < 3 ? 512 : 1024));
                op_kit_close(&kit);
            }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(along_an_axis),
        cmocka_unit_test(along_a_long_axis),
        cmocka_unit_test(element_by_element),
        cmocka_unit_test(rows_less_their_largest),
        cmocka_unit_test(norms),
    };
    return op_kit_run_tests(tests, sizeof tests / sizeof *tests);
}
