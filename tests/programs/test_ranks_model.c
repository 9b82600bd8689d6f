/* The model of many ranks (bench/ranks_model.h): that it gives back what it was made of, and a step's arithmetic where
 * it can be done by hand. */
#include "tests/kit/support.h"

#include <math.h>
#include "bench/ranks_model.h"
#include "ops/data_parallel.h"

static void expect_near(double value, double expected) {
    if (!(fabs(value - expected) <= 1e-9 * fabs(expected)))
        fail_msg("%.12g, expected %.12g", value, expected);
}

static void test_fit(void **state) {
    (void)state;
    static const ranks_algorithm algorithms[] = {RANKS_EXCHANGE, RANKS_RING, RANKS_DOUBLING};
    for (size_t a = 0; a < 3; a++)
        for (uint32_t ranks = 2; ranks <= 64; ranks *= 2) {
            const ranks_model made = {algorithms[a], 3e-6, 5e9};
            double bytes[9], seconds[9];
            for (int i = 0; i < 9; i++) {
                bytes[i] = ldexp(1024, 2 * i);
                seconds[i] = ranks_model_all_reduce(&made, bytes[i], ranks);
            }
            const ranks_model found = ranks_model_fit(algorithms[a], ranks, bytes, seconds, 9);
            expect_near(found.latency_s, made.latency_s);
            expect_near(found.bytes_per_s, made.bytes_per_s);
        }
}

static void test_all_reduce(void **state) {
    (void)state;
    /* 8 ranks: each sends 2 * 7 / 8 of 8000 bytes. */
    const double bytes_s = 14000 / 1e6;
    expect_near(ranks_model_all_reduce(&(ranks_model){RANKS_EXCHANGE, 0.5, 1e6}, 8000, 8),
                21 * 0.5 + bytes_s);
    expect_near(ranks_model_all_reduce(&(ranks_model){RANKS_RING, 0.5, 1e6}, 8000, 8), 14 * 0.5 + bytes_s);
    expect_near(ranks_model_all_reduce(&(ranks_model){RANKS_DOUBLING, 0.5, 1e6}, 8000, 8), 6 * 0.5 + bytes_s);
    expect_near(ranks_model_all_reduce(&(ranks_model){RANKS_DOUBLING, 0.5, 1e6}, 8000, 5),
                6 * 0.5 + 8000 * 1.6 / 1e6);
    assert_true(ranks_model_all_reduce(&(ranks_model){RANKS_RING, 0.5, 1e6}, 8000, 1) == 0);
}

/* 10 s, of which the backward pass is the last 8; 4 buckets of 2 bytes of 2 ranks, each 1 s a byte: one is finished at
 * 4, 6, 8 and 10 s, and each takes 2 s, so that all but the last are hidden. */
static void test_step_that_hides(void **state) {
    (void)state;
    const ranks_model model = {RANKS_RING, 0, 1};
    const ranks_step step = {10, 0.8, 8, 2, 2};
    const ranks_step_times times = ranks_model_step(&model, &step, 2);
    expect_near(times.communication_s, 8);
    expect_near(times.seconds, 12);
    expect_near(times.hidden_s, 6);
}

/* The same with links that are half as fast: each bucket waits for the one before it. From 4 s on 4 times 4. */
static void test_step_that_waits(void **state) {
    (void)state;
    const ranks_model model = {RANKS_RING, 0, 0.5};
    const ranks_step step = {10, 0.8, 8, 2, 2};
    const ranks_step_times times = ranks_model_step(&model, &step, 2);
    expect_near(times.communication_s, 16);
    expect_near(times.seconds, 20);
    expect_near(times.hidden_s, 6);
}

/* The first bucket of another size, the last of what is left: 1, 3, 3, 1. */
static void test_buckets(void **state) {
    (void)state;
    const ranks_model model = {RANKS_RING, 0.25, INFINITY};
    const ranks_step step = {10, 0.8, 8, 3, 1};
    const ranks_step_times times = ranks_model_step(&model, &step, 2);
    expect_near(times.communication_s, 4 * 2 * 0.25);
    expect_near(times.seconds, 10.5);
    const ranks_step_times alone = ranks_model_step(&model, &step, 1);
    assert_true(alone.seconds == 10 && alone.communication_s == 0);
}

/* What can't be is not said: a latency below 0, a bandwidth below 0. */
static void test_what_cannot_be(void **state) {
    (void)state;
    const double bytes[] = {1000, 2000}, falling[] = {2, 1}, steep[] = {1, 3};
    assert_true(isinf(ranks_model_fit(RANKS_RING, 2, bytes, falling, 2).bytes_per_s));
    assert_true(ranks_model_fit(RANKS_RING, 2, bytes, steep, 2).latency_s == 0);
}

/* What data_parallel takes where nothing is said: never less for more ranks, the same for as many, and no step is more
 * than a fifth longer by it than with the best of the powers of two, in networks and on a host (docs/measurements.md);
 * with 4 MiB whatever the ranks are, up to eleven times as long. */
static void test_usual_bucket(void **state) {
    (void)state;
    const struct {
        double latency_s, bytes_per_s, gradient_bytes, seconds;
    } cases[] = {{6.4e-6, 5.1e9, 238, 0.25}, {6.4e-6, 5.1e9, 474, 0.25}, {6.4e-6, 5.1e9, 47, 0.1},
                 {20e-6, 10e9, 238, 0.25},   {20e-6, 1.2e9, 238, 0.25},  {2e-6, 10e9, 474, 1}};
    uint64_t before = 0;
    for (uint32_t ranks = 2; ranks <= 1024; ranks *= 2) {
        const uint64_t usual = rota_bucket_bytes(ranks, false);
        assert_true(usual >= before && usual >= ROTA_BUCKET_BYTES &&
                    (ranks > 32 || usual == ROTA_BUCKET_BYTES));
        assert_int_equal(rota_bucket_bytes(ranks, true), ROTA_BUCKET_DEVICE_BYTES);
        before = usual;
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            const ranks_model model = {RANKS_EXCHANGE, cases[c].latency_s, cases[c].bytes_per_s};
            ranks_step step = {cases[c].seconds, 0.67, ldexp(cases[c].gradient_bytes, 20), (double)usual,
                               (double)usual / 4};
            const double with_usual = ranks_model_step(&model, &step, ranks).seconds;
            double least = INFINITY;
            for (int doubled = 19; doubled <= 28; doubled++) {
                step.bucket_bytes = ldexp(1, doubled);
                step.first_bucket_bytes = step.bucket_bytes / 4;
                least = fmin(least, ranks_model_step(&model, &step, ranks).seconds);
            }
            if (with_usual > 1.2 * least)
                fail_msg("case %zu, %u ranks: %g s, with the best bucket %g", c, ranks, with_usual, least);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fit),
        cmocka_unit_test(test_all_reduce),
        cmocka_unit_test(test_step_that_hides),
        cmocka_unit_test(test_step_that_waits),
        cmocka_unit_test(test_buckets),
        cmocka_unit_test(test_what_cannot_be),
        cmocka_unit_test(test_usual_bucket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
