/* The loss of rows of scores with its gradient in their place, on a CUDA device: of whole batches and of pieces, beside
 * f64; twice for the same bits. Skipped where there is no GPU. */
#include "tests/kit/support.h"

#ifdef ROTA_HAVE_CUDA

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/half.h"
#include "ops/cuda/image.h"
#include "ops/cuda/loss_cuda.h"
#include "ops/kernels.h"
#include "tests/kit/random.h"
#include "tests/ops/cuda/cuda_kit.h"

enum { OPERANDS = 4, IGNORED = -7 };

/* Rows that end within a vector or at one's end, and the longest that a multiprocessor has two of; fewer rows than
 * blocks, and so many that a block has several; numbers of labels that are whole vectors, or are not. */
static const struct shape {
    uint32_t rows, first, count, classes, pitch;
    float smoothing;
} shapes[] = {
    {300, 0, 300, 65, 72, 0.0f},       {1000, 10, 700, 2000, 2048, 0.1f},
    {90, 0, 90, 12287, 12288, 0.0f},   {290, 5, 270, 12290, 12296, 0.25f},
    {150, 0, 150, 24577, 24584, 0.1f}, {700, 300, 400, 18432, 18432, 0.0f},
    {5, 1, 3, 50257, 50304, 0.0f},     {421, 0, 421, 50257, 50304, 0.125f},
    {270, 3, 266, 57088, 57088, 0.0f},
};

static cuda_kit kit;

static double value_of(rota_dtype dtype, uint16_t bits) {
    return (double)(dtype == ROTA_F16 ? f16_to_float(bits) : bits_float((uint32_t)bits << 16));
}
static uint16_t bits_of(rota_dtype dtype, float value) {
    return dtype == ROTA_F16 ? f16_from_float(value) : bf16_from_float(value);
}

typedef struct rows {
    const struct shape *shape;
    rota_dtype dtype;
    uint16_t *scores, *gradient, *again;
    int32_t *labels;
    float *losses, *lse; /* of all rows */
} rows;

static void draw(rows *r) {
    const struct shape *s = r->shape;
    uint64_t seed = s->rows + s->classes;
    for (uint64_t i = 0; i < (uint64_t)s->count * s->pitch; i++)
        r->scores[i] = bits_of(r->dtype, ((float)test_below(&seed, 1u << 20) / (1 << 20) - 0.5f) * 16.0f +
                                             (test_below(&seed, 5000) == 0 ? 9.0f : 0.0f));
    for (uint32_t i = 0; i < s->rows; i++) {
        r->labels[i] = (int32_t)test_below(&seed, s->classes);
        if (i % 11 == 4) r->labels[i] = IGNORED;
        if (i % 53 == 9) r->labels[i] = i % 2 ? (int32_t)s->classes : -1;
    }
}

/* What the node makes, into `gradient`. */
static void run(const rows *r, uint16_t *gradient) {
    const struct shape *s = r->shape;
    const uint64_t each = (uint64_t)s->rows * 4,
                   bytes[OPERANDS] = {(uint64_t)s->count * s->pitch * 2, each, each, each};
    const rota_cuda_loss_piece_params piece = {.all = {.rows = s->rows,
                                                       .classes = s->classes,
                                                       .ignored = IGNORED,
                                                       .smoothing = s->smoothing,
                                                       .dtype = r->dtype,
                                                       .pitch = s->pitch},
                                               .first = s->first,
                                               .count = s->count};
    uint64_t operands[OPERANDS];
    for (int i = 0; i < OPERANDS; i++) operands[i] = cuda_kit_alloc(&kit, bytes[i]);
    cuda_kit_write(&kit, operands[0], r->scores, bytes[0]);
    cuda_kit_write(&kit, operands[1], r->labels, bytes[1]);
    const rota_access access = {.size_bytes = bytes[0], .mode = ROTA_READWRITE};
    assert_true(rota_cuda_loss_takes(&piece.all, &access, &kit.target));
    const bool whole = s->count == s->rows;
    const rota_cuda_call call = {.target = &kit.target,
                                 .stream = kit.stream,
                                 .operands = operands,
                                 .operand_bytes = bytes,
                                 .operand_count = OPERANDS};
    assert_ok(rota_cuda_image_run(whole ? &rota_cuda_cross_entropy_in_place : &rota_cuda_cross_entropy_piece,
                                  &call, operands, bytes,
                                  whole ? (const void *)&piece.all : (const void *)&piece));
    cuda_kit_read(&kit, operands[0], gradient, bytes[0]);
    cuda_kit_read(&kit, operands[2], r->losses, bytes[2]);
    cuda_kit_read(&kit, operands[3], r->lse, bytes[3]);
    for (int i = 0; i < OPERANDS; i++) cuda_kit_free(&kit, operands[i]);
}

static void expect(double is, double wanted, double within, const char *what, uint32_t row) {
    if (isnan(wanted) ? isnan(is) : fabs(is - wanted) <= within) return;
    fail_msg("%s of row %u is %.9g, not %.9g", what, row, is, wanted);
}

static void check_row(const rows *r, uint32_t row, double counted) {
    const struct shape *s = r->shape;
    const uint16_t *scores = r->scores + (uint64_t)(row - s->first) * s->pitch,
                   *gradient = r->gradient + (uint64_t)(row - s->first) * s->pitch;
    const int32_t label = r->labels[row];
    const bool ignored = label == IGNORED, valid = label >= 0 && (uint32_t)label < s->classes;
    const double every = (double)s->smoothing / s->classes, hot = 1.0 - (double)s->smoothing;
    /* Of a rounded result, and of f32 sums. */
    const double rounding = r->dtype == ROTA_F16 ? 0x1p-11 : 0x1p-8,
                 least = r->dtype == ROTA_F16 ? 0x1p-24 : 1e-9;
    double sum = 0, total = 0;
    for (uint32_t i = 0; i < s->classes; i++) {
        sum += exp(value_of(r->dtype, scores[i]));
        total += value_of(r->dtype, scores[i]);
    }
    const double lse = log(sum);
    expect((double)r->lse[row], lse, 1e-5 * (1 + fabs(lse)), "the sum", row);
    expect((double)r->losses[row],
           ignored  ? 0
           : !valid ? NAN
                    : lse - hot * value_of(r->dtype, scores[label]) - every * total,
           2e-5 * (1 + fabs(lse)), "the loss", row);
    for (uint32_t i = 0; i < s->pitch; i++) {
        double wanted = 0;
        if (i < s->classes && !ignored)
            wanted = exp(value_of(r->dtype, scores[i]) - lse) - every - (i == (uint32_t)label ? hot : 0);
        if (!valid && !ignored && i < s->classes) wanted = NAN;
        wanted /= counted;
        expect(value_of(r->dtype, gradient[i]), wanted, rounding * fabs(wanted) + 1e-5 * fabs(wanted) + least,
               "the gradient", row);
    }
}

static void check(const struct shape *s, rota_dtype dtype) {
    rows r = {.shape = s, .dtype = dtype};
    const uint64_t count = (uint64_t)s->count * s->pitch;
    r.scores = malloc(count * 2);
    r.gradient = malloc(count * 2);
    r.again = malloc(count * 2);
    r.labels = malloc((size_t)s->rows * 4);
    r.losses = malloc((size_t)s->rows * 4);
    r.lse = malloc((size_t)s->rows * 4);
    assert_true(r.scores && r.gradient && r.again && r.labels && r.losses && r.lse);
    draw(&r);
    uint32_t counted = 0;
    for (uint32_t i = 0; i < s->rows; i++) counted += r.labels[i] != IGNORED;
    run(&r, r.again);
    run(&r, r.gradient);
    assert_memory_equal(r.gradient, r.again, count * 2);
    const uint32_t step = s->count > 60 ? s->count / 60 : 1; /* rows enough */
    for (uint32_t i = 0; i < s->count; i += step) check_row(&r, s->first + i, counted);
    check_row(&r, s->first + s->count - 1, counted);
    free(r.scores);
    free(r.gradient);
    free(r.again);
    free(r.labels);
    free(r.losses);
    free(r.lse);
}

static void test_loss(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check(&shapes[i], ROTA_BF16);
        check(&shapes[i], ROTA_F16);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_loss)};
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
