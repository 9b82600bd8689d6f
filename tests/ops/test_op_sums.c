/* Sums over long axes on the CPU against sums in long double: within the bound that ops.h states. With --full
 * over 2^26 elements too. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "ops/cpu/cpu.h"
#include "ops/cpu/half.h"
#include "ops/cpu/sums.h"
#include "ops/kernel_objects.h"
#include "tests/ops/op_kit.h"
#include "tests/kit/random.h"

#define BOUND 0x1p-15L /* of the sum of the magnitudes */
#define UNIT 0x1p-24L

static uint64_t counts[2] = {((uint64_t)1 << 24) + 1};
static uint32_t count_of_counts = 1;

/* Numbers in [2, 4); or a first one beside which each of the others, 1, is lost in f32. */
enum { AROUND_3, ONES_AFTER_A_LARGE_ONE, CONTENTS };

static float *contents(int kind, uint64_t n) {
    float *x = malloc(n * sizeof *x);
    uint64_t random = 7;
    assert_non_null(x);
    for (uint64_t i = 0; i < n; i++)
        x[i] = kind == AROUND_3 ? 2 + (float)((double)(test_random(&random) >> 11) * 0x1p-52) : 1;
    if (kind == ONES_AFTER_A_LARGE_ONE) x[0] = 0x1p25f;
    return x;
}

static void check(const char *what, int kind, uint64_t element, double got, long double expected,
                  long double bound) {
    if (!(fabsl((long double)got - expected) <= bound))
        fail_msg("%s, contents %d: element %llu is %.9g, expected %.9Lg within %.3Lg", what, kind,
                 (unsigned long long)element, got, expected, bound);
}

/* Some elements of a row of n. */
enum { SOME = 5 };
static uint64_t some(uint64_t n, int s) {
    const uint64_t positions[SOME] = {0, 1, n / 3, n - 2, n - 1};
    return positions[s];
}

static void put_some(op_kit *kit, rota_tensor y, uint64_t n, uint32_t *out) {
    for (int s = 0; s < SOME; s++) {
        rota_tensor one;
        assert_ok(rota_tensor_slice(&y, 1, some(n, s), 1, &one));
        out[s] = op_kit_output(kit, one);
    }
}

static void ops_over_long_rows(void **state) {
    (void)state;
    assert_true(op_kit_use_device("cpu"));
    for (uint32_t c = 0; c < count_of_counts; c++)
        for (int kind = 0; kind < CONTENTS; kind++) {
            const uint64_t n = counts[c];
            float *x = contents(kind, n);
            long double sum = 0, squares = 0, spread = 0, exps = 0, largest = 0, prefix[SOME] = {0};
            for (uint64_t i = 0; i < n; i++) {
                const long double v = (long double)x[i];
                sum += v;
                squares += v * v;
                if (v > largest) largest = v;
                if (i <= 1 || i == n / 3 || i + 2 >= n)
                    for (int s = 0; s < SOME; s++)
                        if (i == some(n, s)) prefix[s] = sum;
            }
            const long double mean = sum / (long double)n;
            for (uint64_t i = 0; i < n; i++) {
                const long double v = (long double)x[i];
                spread += (v - mean) * (v - mean);
                exps += (long double)exp((double)(v - largest));
            }
            op_kit kit;
            op_kit_open(&kit);
            rota_tensor row = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(1, n), x), y;
            uint32_t sums[5], normed[SOME], root[SOME], logs[SOME], scanned[SOME];
            assert_ok(rota_op_sum(kit.tape, row, 1, true, &y));
            sums[0] = op_kit_output(&kit, y);
            assert_ok(rota_op_mean(kit.tape, row, 1, true, &y));
            sums[1] = op_kit_output(&kit, y);
            assert_ok(rota_op_sum_squares(kit.tape, row, &y));
            sums[2] = op_kit_output(&kit, y);
            assert_ok(rota_op_variance(kit.tape, row, 1, 1, true, &y));
            sums[3] = op_kit_output(&kit, y);
            assert_ok(rota_op_global_norm(kit.tape, &row, 1, 1.0f, &y));
            sums[4] = op_kit_output(&kit, y);
            assert_ok(rota_op_layernorm(kit.tape, row, ROTA_TENSOR_NONE, ROTA_TENSOR_NONE, 1e-5f, &y));
            put_some(&kit, y, n, normed);
            assert_ok(rota_op_rmsnorm(kit.tape, row, ROTA_TENSOR_NONE, 1e-5f, &y));
            put_some(&kit, y, n, root);
            assert_ok(rota_op_log_softmax(kit.tape, row, &y));
            put_some(&kit, y, n, logs);
            assert_ok(rota_op_cumulative_sum(kit.tape, row, 1, &y));
            put_some(&kit, y, n, scanned);
            op_kit_run(&kit);
            const double *results =
                (const double[]){(double)op_kit_f32(&kit, sums[0])[0], (double)op_kit_f32(&kit, sums[1])[0],
                                 (double)op_kit_f32(&kit, sums[2])[0], (double)op_kit_f32(&kit, sums[3])[0]};
            const long double variance = spread / (long double)(n - 1), biased = spread / (long double)n;
            check("sum", kind, 0, results[0], sum, BOUND * sum);
            check("mean", kind, 0, results[1], mean, BOUND * mean);
            check("sum_squares", kind, 0, results[2], squares, BOUND * squares);
            check("variance", kind, 0, results[3], variance, 4 * UNIT * variance);
            check("global_norm", kind, 0, (double)op_kit_f32(&kit, sums[4])[0], sqrtl(squares),
                  BOUND * sqrtl(squares));
            const long double deviation = sqrtl(biased + 1e-5L),
                              quadratic = sqrtl(squares / (long double)n + 1e-5L);
            for (int s = 0; s < SOME; s++) {
                const long double v = (long double)x[some(n, s)], expected = (v - mean) / deviation;
                check("layernorm", kind, some(n, s), (double)op_kit_f32(&kit, normed[s])[0], expected,
                      BOUND * (mean / deviation + fabsl(expected)));
                check("rmsnorm", kind, some(n, s), (double)op_kit_f32(&kit, root[s])[0], v / quadratic,
                      BOUND * (v / quadratic));
                const long double lse = largest + logl(exps);
                check("log_softmax", kind, some(n, s), (double)op_kit_f32(&kit, logs[s])[0], v - lse,
                      BOUND + 4 * UNIT * (fabsl(v) + fabsl(lse)));
                check("cumulative_sum", kind, some(n, s), (double)op_kit_f32(&kit, scanned[s])[0], prefix[s],
                      BOUND * prefix[s]);
            }
            op_kit_close(&kit);
            free(x);
        }
}

/* The kernel that sums, over an axis that no op has cut before: rows, and columns, of each dtype. */
static void the_kernel_over_uncut_axes(void **state) {
    (void)state;
    for (uint32_t c = 0; c < count_of_counts; c++)
        for (int kind = 0; kind < CONTENTS; kind++)
            for (int form = 0; form < 4; form++) {
                const bool half = form & 1;
                const uint64_t inner = form & 2 ? 2 : 1, n = counts[c] / inner;
                const uint32_t dtype = half ? ROTA_BF16 : ROTA_F32;
                float *x = contents(kind, n * inner);
                uint16_t *narrow = half ? malloc(n * inner * 2) : NULL;
                for (uint64_t i = 0; half && i < n * inner; i++) {
                    narrow[i] = rota_to_bf16(x[i]);
                    x[i] = rota_from_bf16(narrow[i]);
                }
                for (uint32_t op = 0; op < 2; op++) {
                    const rota_reduce_params params = {.op = op ? ROTA_REDUCE_SUM_SQUARES : ROTA_REDUCE_SUM,
                                                       .outer = 1,
                                                       .n = (uint32_t)n,
                                                       .inner = (uint32_t)inner,
                                                       .chunk = (uint32_t)n,
                                                       .scale = 1,
                                                       .from = dtype,
                                                       .to = ROTA_F32};
                    float y[2] = {0};
                    const uint64_t bytes[2] = {0};
                    void *operands[] = {half ? (void *)narrow : x, y};
                    const rota_kernel_call call = {.operands = operands,
                                                   .params = &params,
                                                   .end = 1,
                                                   .items = 1,
                                                   .operand_count = 2,
                                                   .operand_bytes = bytes};
                    assert_ok(rota_kernel_reduce.cpu.fn(&call));
                    for (uint64_t column = 0; column < inner; column++) {
                        long double sum = 0;
                        for (uint64_t i = column; i < n * inner; i += inner)
                            sum += op ? (long double)x[i] * (long double)x[i] : (long double)x[i];
                        check(half ? "reduce, bf16" : "reduce", kind, column, (double)y[column], sum,
                              BOUND * sum);
                    }
                }
                free(x);
                free(narrow);
            }
}

/* Short sums too are within what the block's length says. */
static void the_bound_of_a_block(void **state) {
    (void)state;
    assert_true((long double)ROTA_SUM_BOUND <= BOUND);
    static const uint64_t lengths[] = {1, 15, 16, 17, 4095, 4096, 4097, 8191, 8192, 8193, 12345};
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (int kind = 0; kind < CONTENTS; kind++) {
            float *x = contents(kind, lengths[l]), got;
            long double sum = 0;
            for (uint64_t i = 0; i < lengths[l]; i++) sum += (long double)x[i];
            ROTA_LANE_SUM(got, lengths[l], x[i]);
            check("block", kind, lengths[l], (double)got, sum, (long double)ROTA_SUM_BOUND * sum);
            free(x);
        }
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--full") == 0) counts[count_of_counts++] = (uint64_t)1 << 26;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_over_long_rows),
        cmocka_unit_test(the_kernel_over_uncut_axes),
        cmocka_unit_test(the_bound_of_a_block),
    };
    return op_kit_run_tests(tests, sizeof tests / sizeof *tests);
}
