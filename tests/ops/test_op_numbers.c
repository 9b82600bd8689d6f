/* The arithmetic of the CPU kernels: conversions, the dropout generator, elementary functions, our own matrix
 * product. */
#include "tests/ops/op_kit.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "ops/cpu/cpu.h"
#include "ops/cpu/gemm.h"
#include "tests/kit/random.h"

static void every_half_survives(void **state) {
    (void)state;
    uint16_t halves[65536];
    for (uint32_t i = 0; i < 65536; i++) halves[i] = (uint16_t)i;
    for (int type = 0; type < 2; type++) {
        rota_dtype dtype = type ? ROTA_BF16 : ROTA_F16;
        op_kit kit;
        op_kit_open(&kit);
        rota_tensor h = op_kit_input(&kit, dtype, ROTA_SHAPE(65536), halves), f, back;
        assert_ok(rota_op_cast(kit.tape, h, ROTA_F32, &f));
        assert_ok(rota_op_cast(kit.tape, f, dtype, &back));
        uint32_t wide = op_kit_output(&kit, f), narrow = op_kit_output(&kit, back);
        op_kit_run(&kit);
        const uint16_t *again = kit.output_data[narrow];
        for (uint32_t i = 0; i < 65536; i++) {
            double expected = element_load(dtype, halves, i), got = (double)op_kit_f32(&kit, wide)[i];
            assert_true(isnan(expected) ? isnan(got) : expected == got);
            assert_true(isnan(expected) ? isnan(element_load(dtype, again, i)) : again[i] == halves[i]);
        }
        op_kit_close(&kit);
    }
}

/* Round to nearest, ties to even: no neighbour is nearer, and of two as near the even one is taken. */
static void narrowing_rounds_to_nearest_even(void **state) {
    (void)state;
    enum { COUNT = 40000 };
    static float values[COUNT];
    uint64_t random = 5;
    for (int i = 0; i < COUNT; i++) {
        double value =
            ldexp((double)(test_random(&random) >> 11) * 0x1p-53 + 0.5, (int)test_below(&random, 44) - 27);
        values[i] = (float)(i % 2 ? -value : value);
    }
    for (int i = 0; i < 2048; i++) values[i] = (float)ldexp(2 * i + 1, i % 2 ? -25 : -14); /* ties */
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor f = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(COUNT), values), h;
    assert_ok(rota_op_cast(kit.tape, f, ROTA_F16, &h));
    uint32_t output = op_kit_output(&kit, h);
    op_kit_run(&kit);
    const uint16_t *halves = kit.output_data[output];
    for (int i = 0; i < COUNT; i++) {
        double value = fabs((double)values[i]);
        uint16_t got = halves[i] & 0x7FFF;
        assert_true((halves[i] & 0x8000) == (values[i] < 0 ? 0x8000 : 0));
        if (value >= 65520) {
            assert_int_equal(got, 0x7C00);
            continue;
        }
        double off = fabs(element_load(ROTA_F16, &got, 0) - value);
        for (int d = -1; d <= 1; d += 2) {
            if (got == 0 && d < 0) continue;
            uint16_t other = (uint16_t)(got + d);
            double further = fabs(element_load(ROTA_F16, &other, 0) - value);
            assert_true(off < further || (off == further && got % 2 == 0));
        }
    }
    op_kit_close(&kit);
}

/* y = x + dropout(x) of ones, or fused with that, and its gradient. */
static void run_dropout_of(uint32_t rank, uint32_t ranks, bool fused, uint32_t count, float *out_y,
                           float *out_dx) {
    float *ones = malloc(count * sizeof *ones);
    op_kit kit;
    op_kit_open(&kit);
    rota_tape *tape;
    for (uint32_t i = 0; i < count; i++) ones[i] = 1;
    if (fused) assert_ok(rota_graph_fuse(kit.graph));
    assert_ok(rota_tape_create(rota_tape_recorder(kit.tape), &ROTA_TAPE_OPTIONS(.rank = rank, .ranks = ranks),
                               &tape));
    rota_tensor x = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(count), ones), y, loss, dx = ROTA_TENSOR_NONE;
    assert_ok(rota_op_dropout(tape, x, 0.5f, ROTA_CONSTANT(7), ROTA_CONSTANT(3), &y));
    assert_ok(rota_op_add(tape, y, x, &y));
    assert_ok(rota_op_sum(tape, y, 0, false, &loss));
    assert_ok(rota_backward(tape, loss, &x, 1, &dx, NULL));
    const uint32_t outputs[2] = {op_kit_output(&kit, y), op_kit_output(&kit, dx)};
    op_kit_run(&kit);
    memcpy(out_y, op_kit_f32(&kit, outputs[0]), count * sizeof *out_y);
    memcpy(out_dx, op_kit_f32(&kit, outputs[1]), count * sizeof *out_dx);
    rota_tape_destroy(tape);
    op_kit_close(&kit);
    free(ones);
}

/* Of each of several ranks the mask is a part of the whole's, forward and backward. */
static void dropout_of_ranks_is_a_part(void **state) {
    (void)state;
    enum { EACH = 1036, RANKS = 3, COUNT = EACH * RANKS };
    static const float ones[6] = {1, 1, 1, 1, 1, 1};
    static float whole[2][COUNT];
    for (uint32_t rank = 0; rank <= RANKS; rank++) {
        float made[2][COUNT];
        for (int fused = 0; fused < 2; fused++) {
            run_dropout_of(rank ? rank - 1 : 0, rank ? RANKS : 1, fused, rank ? EACH : COUNT, made[0],
                           made[1]);
            for (int o = 0; o < 2; o++) {
                if (rank == 0 && !fused)
                    memcpy(whole[o], made[o], sizeof whole[o]);
                else
                    assert_memory_equal(made[o], whole[o] + (rank ? (size_t)EACH * (rank - 1) : 0),
                                        (rank ? EACH : COUNT) * sizeof **made);
            }
        }
    }
    assert_memory_not_equal(whole[0], whole[0] + EACH, EACH * sizeof **whole);
    op_kit kit;
    op_kit_open(&kit);
    rota_tape *tape;
    rota_tensor x = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(6), ones), y;
    assert_status(
        rota_tape_create(rota_tape_recorder(kit.tape), &ROTA_TAPE_OPTIONS(.rank = 2, .ranks = 2), &tape),
        ROTA_INVALID_ARGUMENT);
    expect_said("rank 2 of 2");
    assert_ok(rota_tape_create(rota_tape_recorder(kit.tape), &ROTA_TAPE_OPTIONS(.ranks = 2), &tape));
    assert_status(rota_op_dropout(tape, x, 0.5f, ROTA_CONSTANT(0), ROTA_CONSTANT(0), &y), ROTA_UNSUPPORTED);
    expect_said("6 elements of one of 2 ranks");
    rota_tape_destroy(tape);
    op_kit_close(&kit);
}

/* Known answers of Philox4x32-10 from the authors' Random123 distribution (counters and keys all 0, and all 1
 * bits), as far as the words that a dropout can be asked for reach: counter {0, 0, 0, 0}, key {0, 0}. */
static void dropout_is_philox_and_replays(void **state) {
    (void)state;
    enum { COUNT = 100000 };
    static const uint32_t known[4] = {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u};
    static float ones[COUNT];
    for (int i = 0; i < COUNT; i++) ones[i] = 1;
    for (int word = 0; word < 4; word++)
        for (int side = 0; side < 2; side++) {
            op_kit kit;
            op_kit_open(&kit);
            rota_tensor x = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(4), ones), y;
            /* p just below and just above the word. */
            float p = (float)(known[word] / 4294967296.0 + (side ? 1e-6 : -1e-6));
            assert_ok(rota_op_dropout(kit.tape, x, p, ROTA_CONSTANT(0), ROTA_CONSTANT(0), &y));
            uint32_t output = op_kit_output(&kit, y);
            op_kit_run(&kit);
            assert_true((op_kit_f32(&kit, output)[word] == 0) == (side == 1));
            op_kit_close(&kit);
        }
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor x = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(COUNT), ones), y, z;
    rota_slot seed, step;
    assert_ok(rota_graph_slot(kit.graph, "seed", 4, &seed));
    assert_ok(rota_graph_slot(kit.graph, "step", 4, &step));
    assert_ok(rota_op_dropout(kit.tape, x, 0.25f, ROTA_SLOT(seed), ROTA_SLOT(step), &y));
    assert_ok(rota_op_dropout(kit.tape, x, 0.25f, ROTA_SLOT(seed), ROTA_SLOT(step), &z));
    uint32_t first = op_kit_output(&kit, y), second = op_kit_output(&kit, z);
    static float before[COUNT];
    op_kit_set_u32(&kit, seed, 3);
    op_kit_set_u32(&kit, step, 1);
    op_kit_run(&kit);
    memcpy(before, op_kit_f32(&kit, first), sizeof before);
    double kept = 0, both = 0;
    for (int i = 0; i < COUNT; i++) {
        assert_true(before[i] == 0 || before[i] == 1 / 0.75f);
        kept += before[i] != 0;
        both += before[i] != 0 && op_kit_f32(&kit, second)[i] != 0;
    }
    /* Five standard deviations; the two dropouts are independent. */
    assert_true(fabs(kept - 0.75 * COUNT) < 5 * sqrt(COUNT * 0.75 * 0.25));
    assert_true(fabs(both - 0.5625 * COUNT) < 5 * sqrt(COUNT * 0.5625 * 0.4375));
    op_kit_set_u32(&kit, step, 2);
    op_kit_run(&kit);
    assert_true(memcmp(before, op_kit_f32(&kit, first), sizeof before) != 0);
    op_kit_set_u32(&kit, step, 1);
    op_kit_run(&kit);
    assert_memory_equal(before, op_kit_f32(&kit, first), sizeof before);
    op_kit_close(&kit);
}

/* Elementary functions over their whole range, where they leave it, and NaN. */
static void functions_hold_at_the_ends(void **state) {
    (void)state;
    enum { COUNT = 20000 };
    static float values[COUNT + 6];
    for (int i = 0; i < COUNT; i++) values[i] = -110.0f + 0.01f * (float)i;
    const float ends[6] = {INFINITY, -INFINITY, NAN, 0.0f, 88.7f, -87.3f};
    memcpy(values + COUNT, ends, sizeof ends);
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor x = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(COUNT + 6), values), e, s, g, r;
    assert_ok(rota_op_exp(kit.tape, x, &e));
    assert_ok(rota_op_silu(kit.tape, x, &s));
    assert_ok(rota_op_gelu(kit.tape, x, &g));
    assert_ok(rota_op_relu(kit.tape, x, &r));
    uint32_t exps = op_kit_output(&kit, e), silus = op_kit_output(&kit, s), gelus = op_kit_output(&kit, g),
             relus = op_kit_output(&kit, r);
    op_kit_run(&kit);
    for (int i = 0; i < COUNT + 6; i++) {
        double v = (double)values[i], expected = exp(v), got = (double)op_kit_f32(&kit, exps)[i];
        if (isnan(v)) {
            assert_true(isnan(got) && isnan(op_kit_f32(&kit, silus)[i]) && isnan(op_kit_f32(&kit, relus)[i]));
            continue;
        }
        if (expected > (double)FLT_MAX)
            assert_true(isinf(got));
        else if (expected < (double)FLT_MIN)
            assert_true(got <= (double)FLT_MIN && got >= 0);
        else if (fabs(got - expected) > 2 * 0x1p-23 * expected)
            fail_msg("exp(%.9g) is %.9g, expected %.9g", v, got, expected);
        if (isinf(v)) continue;
        double silu = v / (1 + exp(-v)), u = sqrt(2 / 3.14159265358979323846) * (v + 0.044715 * v * v * v);
        double gelu = 0.5 * v * (1 + tanh(u));
        assert_true(fabs((double)op_kit_f32(&kit, silus)[i] - silu) <= 4e-7 * fmax(1e-3, fabs(silu)));
        assert_true(fabs((double)op_kit_f32(&kit, gelus)[i] - gelu) <= 2e-6 * fmax(1e-2, fabs(gelu)));
        assert_true(op_kit_f32(&kit, relus)[i] == (values[i] > 0 ? values[i] : 0));
    }
    assert_true(op_kit_f32(&kit, exps)[COUNT + 1] == 0);
    op_kit_close(&kit);
}

/* Our own product, of every width that the CPU has: odd sizes, both transposes, strides, more than one block
 * each way. */
static void own_products_are_products(void **state) {
    (void)state;
    static const uint64_t sizes[][3] = {{1, 1, 1}, {7, 33, 5}, {13, 16, 300}, {40, 270, 9}, {3, 31, 513}};
    for (uint64_t width = 16; width <= 32; width += 16)
        for (int c = 0; c < 5 * 8; c++) {
            const uint64_t m = sizes[c / 8][0], n = sizes[c / 8][1], k = sizes[c / 8][2];
            const bool ta = c & 1, tb = c & 2, add = c & 4;
            const uint64_t lda = (ta ? m : k) + 3, ldb = (tb ? k : n) + 1, ldc = n + 2;
            float *a = malloc((ta ? k : m) * lda * 4), *b = malloc((tb ? n : k) * ldb * 4),
                  *y = malloc(m * ldc * 4);
            assert_true(a && b && y);
            uint64_t random = 3;
            for (uint64_t i = 0; i < (ta ? k : m) * lda; i++)
                a[i] = (float)test_below(&random, 2001) / 1000 - 1;
            for (uint64_t i = 0; i < (tb ? n : k) * ldb; i++)
                b[i] = (float)test_below(&random, 2001) / 1000 - 1;
            for (uint64_t i = 0; i < m * ldc; i++) y[i] = add ? (float)(i % 7) : NAN;
            bool ran =
                rota_cpu_own_sgemm(width, ta, tb, m, n, k, 0.5f, a, lda, b, ldb, add ? 1.0f : 0.0f, y, ldc);
            for (uint64_t i = 0; ran && i < m * ldc; i++) {
                double sum = 0, before = add ? (double)(i % 7) : 0;
                const uint64_t row = i / ldc, column = i % ldc;
                if (column >= n) {
                    assert_true(add ? (double)y[i] == before : isnan(y[i]));
                    continue;
                }
                for (uint64_t p = 0; p < k; p++)
                    sum += (double)a[ta ? p * lda + row : row * lda + p] *
                           (double)b[tb ? column * ldb + p : p * ldb + column];
                assert_true(fabs((double)y[i] - (before + 0.5 * sum)) <= 0x1p-24 * (8 + sqrt((double)k) * 8));
            }
            free(a);
            free(b);
            free(y);
        }
}

/* One step of adamw with its rate and its count given, and by what is in memory beside the factor. */
static void adamw_takes_rates_from_memory(void **state) {
    (void)state;
    enum { COUNT = 37 };
    const float rates[] = {0.5f, 0.02f, 7}, factor = 0.5f;
    float values[4][COUNT];
    uint64_t random = 5;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < COUNT; j++)
            values[i][j] = (float)((double)(test_random(&random) >> 11) * 0x1p-53);
    op_kit kit;
    op_kit_open(&kit);
    const rota_tensor g = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(COUNT), values[3]),
                      held = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(3), rates),
                      one = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(1), &factor);
    rota_adamw options = ROTA_ADAMW(.lr = ROTA_CONSTANT(0.02), .step = ROTA_CONSTANT(7), .beta1 = 0.9f,
                                    .beta2 = 0.99f, .eps = 1e-8f, .weight_decay = 0.1f, .factor = one);
    uint32_t outputs[2][3];
    for (int way = 0; way < 2; way++) {
        rota_tensor x[3];
        for (int i = 0; i < 3; i++) x[i] = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(COUNT), values[i]);
        assert_ok(rota_op_adamw(kit.tape, x[0], g, x[1], x[2], &options));
        for (int i = 0; i < 3; i++) outputs[way][i] = op_kit_output(&kit, x[i]);
        options.factor = held;
        options.lr = ROTA_CONSTANT(77);
        options.step = ROTA_CONSTANT(1);
    }
    options.factor = g;
    rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(COUNT), values[0]);
    assert_status(rota_op_adamw(kit.tape, p, g, p, p, &options), ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), "factor is f32 [37]"));
    assert_non_null(strstr(rota_last_error(), "expected f32 [1], or f32 [3], contiguous"));
    op_kit_run(&kit);
    for (int i = 0; i < 3; i++) {
        assert_memory_equal(kit.output_data[outputs[0][i]], kit.output_data[outputs[1][i]], sizeof values[i]);
        assert_true(op_kit_f32(&kit, outputs[0][i])[0] != values[i][0]);
    }
    op_kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_survives),           cmocka_unit_test(narrowing_rounds_to_nearest_even),
        cmocka_unit_test(dropout_is_philox_and_replays), cmocka_unit_test(dropout_of_ranks_is_a_part),
        cmocka_unit_test(functions_hold_at_the_ends),    cmocka_unit_test(own_products_are_products),
        cmocka_unit_test(adamw_takes_rates_from_memory),
    };
    return op_kit_run_tests(tests, sizeof tests / sizeof *tests);
}
