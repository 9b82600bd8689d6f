/* The norms of f32 rows between products of 16 bits, on a CUDA device: with and without the residual sum, the addend,
 * the narrow copy, weight and bias, beside f64; twice for the same bits. Skipped where there is no GPU. */
#include "tests/kit/support.h"

#ifdef ROTA_HAVE_CUDA

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/half.h"
#include "ops/cuda/image.h"
#include "ops/cuda/norm_mixed_cuda.h"
#include "ops/kernels.h"
#include "tests/kit/random.h"
#include "tests/ops/cuda/cuda_kit.h"

enum { DIM_MAX = 1024, OPERANDS_MAX = 8 };

/* Rows of one to four warps, of which the last has threads without a column; fewer rows than groups, and so many that a
 * group takes several; chunks that the rows do not fill, and of one row. */
static const struct shape {
    uint32_t rows, dim, chunk;
} shapes[] = {
    {1, 8, 8},      {5, 768, 8},     {37, 248, 16},    {300, 256, 1},
    {77, 520, 128}, {4099, 768, 16}, {1000, 1024, 24}, {129, 320, 8},
};

static cuda_kit kit;

static double value_of(uint32_t dtype, const void *array, uint64_t i) {
    if (dtype == ROTA_F32) return (double)((const float *)array)[i];
    const uint16_t bits = ((const uint16_t *)array)[i];
    return (double)(dtype == ROTA_F16 ? f16_to_float(bits) : bits_float((uint32_t)bits << 16));
}

static void *draw(uint32_t dtype, uint64_t count, uint64_t seed) {
    uint8_t *made = malloc(count * 4);
    assert_non_null(made);
    for (uint64_t i = 0; i < count; i++) {
        const float value = ((float)test_below(&seed, 1u << 16) / (1 << 16) - 0.4f) * 3.0f;
        if (dtype == ROTA_F32)
            ((float *)made)[i] = value;
        else
            ((uint16_t *)made)[i] = dtype == ROTA_F16 ? f16_from_float(value) : bf16_from_float(value);
    }
    return made;
}

/* An operand: what is given, or room for what is made, twice. Without bytes it is absent, and bound to the first. */
typedef struct operand {
    void *given;
    uint64_t bytes;
    void *made[2];
} operand;

static void run(const rota_kernel *kernel, operand *operands, const void *params) {
    uint64_t addresses[OPERANDS_MAX], bytes[OPERANDS_MAX];
    for (uint32_t turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; i < kernel->operand_count; i++) {
            bytes[i] = operands[i].bytes ? operands[i].bytes : operands[0].bytes;
            addresses[i] = operands[i].bytes ? cuda_kit_alloc(&kit, bytes[i]) : addresses[0];
            if (operands[i].bytes && operands[i].given)
                cuda_kit_write(&kit, addresses[i], operands[i].given, bytes[i]);
        }
        const rota_cuda_call call = {.target = &kit.target,
                                     .stream = kit.stream,
                                     .operands = addresses,
                                     .operand_bytes = bytes,
                                     .operand_count = kernel->operand_count};
        assert_ok(rota_cuda_image_run(kernel, &call, addresses, bytes, params));
        for (uint32_t i = 0; i < kernel->operand_count; i++) {
            if (!operands[i].bytes) continue;
            if (!operands[i].given) {
                operands[i].made[turn] = malloc(bytes[i]);
                assert_non_null(operands[i].made[turn]);
                cuda_kit_read(&kit, addresses[i], operands[i].made[turn], bytes[i]);
            }
            cuda_kit_free(&kit, addresses[i]);
        }
    }
    for (uint32_t i = 0; i < kernel->operand_count; i++)
        if (operands[i].made[0])
            assert_memory_equal(operands[i].made[0], operands[i].made[1], operands[i].bytes);
}

static void drop(operand *operands, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        free(operands[i].given);
        free(operands[i].made[0]);
        free(operands[i].made[1]);
    }
}

static void expect(double is, double wanted, double within, const char *what, uint64_t i) {
    if (fabs(is - wanted) <= within) return;
    fail_msg("%s[%llu] is %.9g, not %.9g within %.2g", what, (unsigned long long)i, is, wanted, within);
}

/* Of a result that is rounded to the dtype, and comes of sums in f32. */
static double rounding(uint32_t dtype, double value) {
    const double own = dtype == ROTA_F32 ? 0 : dtype == ROTA_F16 ? 0x1p-11 : 0x1p-8;
    return fabs(value) * own + 2e-5 * (1 + fabs(value));
}

static void check_norm(const struct shape *s, uint32_t flags, uint32_t other, uint32_t dtype) {
    const rota_cuda_mixed_norm_params params = {
        .norm = {.rows = s->rows, .dim = s->dim, .dtype = dtype, .flags = flags, .eps = 1e-5f},
        .other = other};
    const uint64_t count = (uint64_t)s->rows * s->dim, size = other == ROTA_F32 ? 4 : 2;
    const bool residual = flags & ROTA_MIXED_RESIDUAL;
    operand o[ROTA_MIXED_OPERANDS] = {
        [ROTA_MIXED_X] = {draw(ROTA_F32, count, 1), count * 4, {NULL}},
        [ROTA_MIXED_R] = {residual ? draw(other, count, 2) : NULL, residual ? count * size : 0, {NULL}},
        [ROTA_MIXED_OF] = {draw(ROTA_F32, s->dim, 3), flags & ROTA_NORM_WEIGHT ? s->dim * 4u : 0, {NULL}},
        [ROTA_MIXED_BIAS] = {draw(ROTA_F32, s->dim, 4), flags & ROTA_NORM_BIAS ? s->dim * 4u : 0, {NULL}},
        [ROTA_MIXED_SUM] = {NULL, residual ? count * 4 : 0, {NULL}},
        [ROTA_MIXED_Y] = {NULL, count * 2, {NULL}},
        [ROTA_MIXED_STATS] = {NULL, (uint64_t)s->rows * 8, {NULL}}};
    run(&rota_cuda_layernorm_mixed, o, &params);
    for (uint64_t r = 0; r < s->rows; r++) {
        double value[DIM_MAX], mean = 0, spread = 0;
        for (uint32_t c = 0; c < s->dim; c++) {
            const uint64_t i = r * s->dim + c;
            value[c] = value_of(ROTA_F32, o[ROTA_MIXED_X].given, i);
            if (residual) {
                value[c] += value_of(other, o[ROTA_MIXED_R].given, i);
                expect(value_of(ROTA_F32, o[ROTA_MIXED_SUM].made[0], i), value[c],
                       1e-6 * (1 + fabs(value[c])), "sum", i);
            }
            mean += value[c] / s->dim;
        }
        for (uint32_t c = 0; c < s->dim; c++) spread += (value[c] - mean) * (value[c] - mean) / s->dim;
        const double rstd = 1 / sqrt(spread + 1e-5);
        expect(value_of(ROTA_F32, o[ROTA_MIXED_STATS].made[0], 2 * r), mean, 1e-5, "mean", r);
        expect(value_of(ROTA_F32, o[ROTA_MIXED_STATS].made[0], 2 * r + 1), rstd, 1e-4 * rstd, "rstd", r);
        for (uint32_t c = 0; c < s->dim; c++) {
            double wanted = (value[c] - mean) * rstd;
            if (flags & ROTA_NORM_WEIGHT) wanted *= value_of(ROTA_F32, o[ROTA_MIXED_OF].given, c);
            if (flags & ROTA_NORM_BIAS) wanted += value_of(ROTA_F32, o[ROTA_MIXED_BIAS].given, c);
            const uint64_t i = r * s->dim + c;
            expect(value_of(dtype, o[ROTA_MIXED_Y].made[0], i), wanted, rounding(dtype, wanted), "y", i);
        }
    }
    drop(o, ROTA_MIXED_OPERANDS);
}

/* The rows' results, and into the sums what they add to those. */
static void check_gradient_row(const struct shape *s, const rota_cuda_mixed_norm_params *p, const operand *o,
                               uint64_t r, double *sum_h, double *sum) {
    const uint32_t flags = p->norm.flags;
    const double mean = value_of(ROTA_F32, o[ROTA_MIXED_GRADIENT_STATS].given, 2 * r),
                 rstd = value_of(ROTA_F32, o[ROTA_MIXED_GRADIENT_STATS].given, 2 * r + 1);
    double h[DIM_MAX], g[DIM_MAX], total = 0, total_h = 0;
    for (uint32_t c = 0; c < s->dim; c++) {
        const uint64_t i = r * s->dim + c;
        const double dy = value_of(p->norm.dtype, o[ROTA_MIXED_GRADIENT_DY].given, i);
        h[c] = (value_of(ROTA_F32, o[ROTA_MIXED_GRADIENT_X].given, i) - mean) * rstd;
        g[c] = flags & ROTA_NORM_WEIGHT ? dy * value_of(ROTA_F32, o[ROTA_MIXED_GRADIENT_OF].given, c) : dy;
        sum_h[c] += dy * h[c];
        sum[c] += dy;
        total += g[c] / s->dim;
        total_h += g[c] * h[c] / s->dim;
    }
    for (uint32_t c = 0; c < s->dim; c++) {
        const uint64_t i = r * s->dim + c;
        double wanted = rstd * (g[c] - total - h[c] * total_h);
        const double scale = 1e-5 * (1 + fabs(rstd) * (fabs(g[c]) + fabs(total) + fabs(h[c] * total_h)));
        if (flags & ROTA_MIXED_ADDEND) wanted += value_of(ROTA_F32, o[ROTA_MIXED_GRADIENT_ADDEND].given, i);
        expect(value_of(ROTA_F32, o[ROTA_MIXED_GRADIENT_DX].made[0], i), wanted, scale + 1e-6 * fabs(wanted),
               "dx", i);
        if (flags & ROTA_MIXED_NARROW)
            expect(value_of(p->other, o[ROTA_MIXED_GRADIENT_NARROW].made[0], i), wanted,
                   scale + rounding(p->other, wanted), "narrow", i);
    }
}

static void check_gradient(const struct shape *s, uint32_t flags, uint32_t other, uint32_t dtype) {
    const rota_cuda_mixed_norm_params params = {
        .norm = {.rows = s->rows, .dim = s->dim, .dtype = dtype, .flags = flags, .chunk = s->chunk},
        .other = other};
    const uint64_t count = (uint64_t)s->rows * s->dim, size = dtype == ROTA_F32 ? 4 : 2,
                   chunks = (s->rows + s->chunk - 1) / s->chunk;
    const bool adds = flags & ROTA_MIXED_ADDEND;
    operand o[ROTA_MIXED_GRADIENT_OPERANDS] = {
        [ROTA_MIXED_GRADIENT_X] = {draw(ROTA_F32, count, 1), count * 4, {NULL}},
        [ROTA_MIXED_GRADIENT_OF] = {draw(ROTA_F32, s->dim, 2),
                                    flags & ROTA_NORM_WEIGHT ? s->dim * 4u : 0,
                                    {NULL}},
        [ROTA_MIXED_GRADIENT_STATS] = {draw(ROTA_F32, 2 * (uint64_t)s->rows, 3),
                                       (uint64_t)s->rows * 8,
                                       {NULL}},
        [ROTA_MIXED_GRADIENT_DY] = {draw(dtype, count, 4), count * size, {NULL}},
        [ROTA_MIXED_GRADIENT_ADDEND] = {adds ? draw(ROTA_F32, count, 5) : NULL, adds ? count * 4 : 0, {NULL}},
        [ROTA_MIXED_GRADIENT_DX] = {NULL, count * 4, {NULL}},
        [ROTA_MIXED_GRADIENT_NARROW] = {NULL, flags & ROTA_MIXED_NARROW ? count * 2 : 0, {NULL}},
        [ROTA_MIXED_GRADIENT_PARTIAL] = {NULL, 2 * chunks * s->dim * 4, {NULL}}};
    run(&rota_cuda_layernorm_mixed_gradient, o, &params);
    const float *partial = o[ROTA_MIXED_GRADIENT_PARTIAL].made[0];
    for (uint64_t k = 0; k < chunks; k++) {
        double sum_h[DIM_MAX] = {0}, sum[DIM_MAX] = {0};
        for (uint64_t r = k * s->chunk; r < s->rows && r < (k + 1) * s->chunk; r++)
            check_gradient_row(s, &params, o, r, sum_h, sum);
        for (uint32_t c = 0; c < s->dim; c++) {
            expect((double)partial[k * s->dim + c], sum_h[c], 1e-4 * (1 + fabs(sum_h[c])), "the weight's", c);
            expect((double)partial[(chunks + k) * s->dim + c], sum[c], 1e-4 * (1 + fabs(sum[c])), "the bias'",
                   c);
        }
    }
    drop(o, ROTA_MIXED_GRADIENT_OPERANDS);
}

static const uint32_t affine[] = {0, ROTA_NORM_WEIGHT, ROTA_NORM_BIAS, ROTA_NORM_WEIGHT | ROTA_NORM_BIAS};
static const uint32_t halves[] = {ROTA_BF16, ROTA_F16};

static void test_norms(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (uint32_t a = 0; a < 4; a++)
            for (uint32_t h = 0; h < 2; h++) {
                check_norm(&shapes[i], affine[a], ROTA_F32, halves[h]);
                check_norm(&shapes[i], affine[a] | ROTA_MIXED_RESIDUAL, a & 1 ? ROTA_F32 : halves[h],
                           halves[h]);
            }
}

static void test_gradients(void **state) {
    (void)state;
    static const uint32_t around[] = {0, ROTA_MIXED_ADDEND, ROTA_MIXED_NARROW,
                                      ROTA_MIXED_ADDEND | ROTA_MIXED_NARROW};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (uint32_t a = 0; a < 4; a++)
            for (uint32_t h = 0; h < 2; h++)
                check_gradient(&shapes[i], affine[(a + i) % 4] | around[a], halves[h],
                               (a + h) % 3 == 2 ? ROTA_F32 : halves[h]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_norms), cmocka_unit_test(test_gradients)};
    const char *missing = cuda_kit_open(&kit);
    if (!missing && !rota_kernels_have_cuda_images()) missing = "no CUDA images were built";
    if (!missing && kit.target.compute_capability < 80) missing = "the device has no such kernel";
    if (missing) {
        printf("skipped: %s\n", missing);
        return 77;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    cuda_kit_close(&kit);
    return failed;
}

#else

int main(void) {
    return 77; /* built without CUDA's headers */
}

#endif
