/* For tests of rota_backward: losses, and gradients against differences of a plain f64 function. */
#ifndef ROTA_TESTS_GRADIENT_KIT_H
#define ROTA_TESTS_GRADIENT_KIT_H

#include <math.h>
#include "tests/ops/op_kit.h"
#include "tests/kit/random.h"

/* The loss is the sum of y * w with these weights. */
static inline void make_weights(uint64_t count, float *out) {
    uint64_t random = 99;
    /* Of 7 bits, so that f16 and bf16 hold them too. */
    for (uint64_t i = 0; i < count; i++)
        out[i] = (float)(rint(((double)(test_random(&random) >> 11) * 0x1p-52 - 1) * 128) / 128);
}

static inline rota_tensor weighted_sum(op_kit *kit, rota_tensor y, const float *weights) {
    rota_tensor w, product, loss;
    const uint64_t count = rota_tensor_count(&y);
    w = op_kit_input(kit, ROTA_F32, y.rank, y.shape, weights);
    if (y.dtype != ROTA_F32) assert_ok(rota_op_cast(kit->tape, y, ROTA_F32, &y));
    assert_ok(rota_op_mul(kit->tape, y, w, &product));
    assert_ok(rota_op_reshape(kit->tape, product, ROTA_SHAPE(count), &product));
    assert_ok(rota_op_sum(kit->tape, product, 0, false, &loss));
    return loss;
}

/* Values of a parameter. */
#define N 12

/* Checks a gradient of a scalar function of N values. */
static inline void check_function(double (*f)(const double *x), const float *x, const float *gradient,
                                  const char *what) {
    double values[N];
    for (int i = 0; i < N; i++) values[i] = (double)x[i];
    for (int i = 0; i < N; i++) {
        double kept = values[i];
        values[i] = kept + 1e-5;
        double above = f(values);
        values[i] = kept - 1e-5;
        double below = f(values), expected = (above - below) / 2e-5;
        values[i] = kept;
        if (fabs(expected - (double)gradient[i]) > 1e-4 * fmax(1, fabs(expected)))
            fail_msg("%s: gradient %d is %.9g, expected %.9g", what, i, (double)gradient[i], expected);
    }
}

static inline void fill_values(float *x) {
    for (int i = 0; i < N; i++) x[i] = 0.3f + 0.11f * (float)i;
}

static inline rota_tensor total(op_kit *kit, rota_tensor x) {
    rota_tensor y;
    assert_ok(rota_op_reshape(kit->tape, x, ROTA_SHAPE(rota_tensor_count(&x)), &y));
    assert_ok(rota_op_sum(kit->tape, y, 0, false, &y));
    return y;
}

#define assert_message(part)                                                                                 \
    do {                                                                                                     \
        if (!strstr(rota_last_error(), part)) fail_msg("'%s' is not in: %s", part, rota_last_error());       \
    } while (0)

#endif
