/* Products of 8-bit floats with scales against f64, on each device there is: views, leading axes, scales of rows; what
 * quantizing gives; and what is refused. */
#include "tests/ops/op_kit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/op.h"
#include "tests/kit/random.h"

#define assert_message(part)                                                                                 \
    do {                                                                                                     \
        if (!strstr(rota_last_error(), part)) fail_msg("'%s' is not in: %s", part, rota_last_error());       \
    } while (0)

/* All codes but NaN and infinities. */
static void fill_codes(uint8_t *codes, uint64_t count, rota_dtype dtype, uint64_t *random) {
    for (uint64_t i = 0; i < count; i++) do
            codes[i] = (uint8_t)test_random(random);
        while (!isfinite(element_load(dtype, codes, i)));
}

/* [2, 3, k] of a larger tensor by [n, k] that begins within a word. */
static void views_on(const char *device) {
    enum { K = 21, N = 10, ROWS = 6, PITCH = 29 };
    uint8_t a[ROWS * PITCH], b[(N + 1) * K];
    float scale_a[ROWS], scale_b[N];
    uint64_t random = 5;
    for (uint32_t form = 0; form < 16; form++) {
        const rota_dtype of_a = form & 1 ? ROTA_F8_E5M2 : ROTA_F8_E4M3FN,
                         of_b = form & 2 ? ROTA_F8_E5M2 : ROTA_F8_E4M3FN;
        const bool rows_a = form & 4, rows_b = form & 8;
        fill_codes(a, sizeof a, of_a, &random);
        fill_codes(b, sizeof b, of_b, &random);
        for (uint32_t i = 0; i < ROWS; i++) scale_a[i] = ldexpf(1.0f + (float)i / 8, -10);
        for (uint32_t i = 0; i < N; i++) scale_b[i] = ldexpf(1.0f + (float)i / 16, -6);
        op_kit kit;
        op_kit_open(&kit);
        rota_tensor x = op_kit_input(&kit, of_a, ROTA_SHAPE(2, 3, PITCH), a),
                    w = op_kit_input(&kit, of_b, ROTA_SHAPE(sizeof b), b),
                    sa = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(2, rows_a ? 3 : 1, 1), scale_a),
                    sb = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(rows_b ? N : 1), scale_b), y;
        if (!rows_a) assert_ok(rota_tensor_slice(&sa, 0, 0, 1, &sa));
        assert_ok(rota_tensor_slice(&x, 2, 5, K, &x));
        assert_ok(rota_tensor_slice(&w, 0, 3, sizeof b - K, &w));
        assert_ok(rota_tensor_reshape(&w, ROTA_SHAPE(N, K), &w));
        assert_ok(rota_op_scaled_matmul(kit.tape, x, w, sa, sb, ROTA_TENSOR_NONE, ROTA_F32, &y));
        assert_true(y.rank == 3 && y.shape[0] == 2 && y.shape[1] == 3 && y.shape[2] == N);
        const uint32_t output = op_kit_output(&kit, y);
        op_kit_run(&kit);
        for (uint32_t i = 0; i < ROWS; i++)
            for (uint32_t j = 0; j < N; j++) {
                double sum = 0, magnitude = 0;
                for (uint32_t k = 0; k < K; k++) {
                    const double term =
                        element_load(of_a, a, i * PITCH + 5 + k) * element_load(of_b, b, 3 + j * K + k);
                    sum += term;
                    magnitude += fabs(term);
                }
                const double scale = (double)scale_a[rows_a ? i : 0] * (double)scale_b[rows_b ? j : 0],
                             got = (double)op_kit_f32(&kit, output)[i * N + j];
                if (fabs(got - scale * sum) > 0x1p-20 * scale * magnitude)
                    fail_msg("%s, form %u: [%u, %u] is %.9g, expected %.9g", device, form, i, j, got,
                             scale * sum);
            }
        op_kit_close(&kit);
    }
}

static void views_and_scales_of_rows(void **state) {
    (void)state;
    op_kit_on_each_device(views_on);
}

/* Numbers times their scale are those that were quantized, within half a step; the largest is hit; and the product of
 * two such is near theirs. */
static void quantized_on(const char *device) {
    enum { M = 9, N = 12, K = 40 };
    float x[M * K], w[N * K];
    uint64_t random = 11;
    for (uint32_t i = 0; i < M * K; i++) {
        const uint32_t row = i / K;
        x[i] = (float)(((double)(test_random(&random) >> 11) * 0x1p-52 - 1) * (1 + row) * 1000);
    }
    for (uint32_t i = 0; i < N * K; i++)
        w[i] = (float)((double)(test_random(&random) >> 11) * 0x1p-52 - 1) * 1e-4f;
    for (uint32_t form = 0; form < 4; form++) {
        const bool by_rows = form & 1;
        const rota_dtype dtype = form & 2 ? ROTA_F8_E5M2 : ROTA_F8_E4M3FN;
        const double largest = form & 2 ? 57344 : 448, step = form & 2 ? 0x1p-3 : 0x1p-4;
        op_kit kit;
        op_kit_open(&kit);
        rota_tensor in[2] = {op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(M, K), x),
                             op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(N, K), w)},
                    q[2], scale[2], y;
        for (int i = 0; i < 2; i++)
            assert_ok(rota_op_quantize(kit.tape, in[i], dtype, by_rows, &q[i], &scale[i]));
        assert_ok(
            rota_op_scaled_matmul(kit.tape, q[0], q[1], scale[0], scale[1], ROTA_TENSOR_NONE, ROTA_F32, &y));
        const uint32_t codes = op_kit_output(&kit, q[0]), scales = op_kit_output(&kit, scale[0]),
                       product = op_kit_output(&kit, y);
        op_kit_run(&kit);
        const float *s = op_kit_f32(&kit, scales);
        for (uint32_t i = 0; i < M; i++) {
            double most = 0;
            for (uint32_t k = 0; k < K; k++) {
                const double number = element_load(dtype, kit.output_data[codes], i * K + k),
                             scaled = number * (double)s[by_rows ? i : 0];
                most = fmax(most, fabs(number));
                if (fabs(scaled - (double)x[i * K + k]) >
                    step * fabs((double)x[i * K + k]) + 0x1p-9 * (double)s[by_rows ? i : 0])
                    fail_msg("%s, form %u: %u of row %u is %g, expected near %g", device, form, k, i, scaled,
                             (double)x[i * K + k]);
            }
            if (by_rows) assert_true(most == largest);
            for (uint32_t j = 0; j < N; j++) {
                double sum = 0, squares[2] = {0, 0};
                for (uint32_t k = 0; k < K; k++) {
                    sum += (double)x[i * K + k] * (double)w[j * K + k];
                    squares[0] += (double)x[i * K + k] * (double)x[i * K + k];
                    squares[1] += (double)w[j * K + k] * (double)w[j * K + k];
                }
                assert_true(fabs((double)op_kit_f32(&kit, product)[i * N + j] - sum) <=
                            2.2 * step * sqrt(squares[0] * squares[1]));
            }
        }
        op_kit_close(&kit);
    }
}

static void quantizing_fills_the_range(void **state) {
    (void)state;
    op_kit_on_each_device(quantized_on);
}

/* Of zeroes the scale is small, and they stay; a NaN makes it one. */
static void scales_of_zeroes_and_nans(void **state) {
    (void)state;
    const float data[6] = {0, -0.0f, 0, NAN, 1, 2};
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor x = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(2, 3), data), q, scale;
    assert_ok(rota_op_quantize(kit.tape, x, ROTA_F8_E4M3FN, true, &q, &scale));
    assert_true(scale.rank == 2 && scale.shape[0] == 2 && scale.shape[1] == 1);
    const uint32_t codes = op_kit_output(&kit, q), scales = op_kit_output(&kit, scale);
    op_kit_run(&kit);
    assert_true(op_kit_f32(&kit, scales)[0] == 0x1p-100f && isnan(op_kit_f32(&kit, scales)[1]));
    for (uint32_t i = 0; i < 3; i++)
        assert_true(element_load(ROTA_F8_E4M3FN, kit.output_data[codes], i) == 0);
    op_kit_close(&kit);
}

static void misuse_is_named(void **state) {
    (void)state;
    const uint8_t zeroes[64 * 4] = {0};
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor a = op_kit_input(&kit, ROTA_F8_E4M3FN, ROTA_SHAPE(4, 8), zeroes),
                b = op_kit_input(&kit, ROTA_F8_E5M2, ROTA_SHAPE(6, 8), zeroes),
                narrow = op_kit_input(&kit, ROTA_F8_E5M2, ROTA_SHAPE(6, 7), zeroes),
                one = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(1), zeroes),
                three = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(3), zeroes),
                half = op_kit_input(&kit, ROTA_F16, ROTA_SHAPE(1), zeroes),
                bias = op_kit_input(&kit, ROTA_BF16, ROTA_SHAPE(6), zeroes),
                wide = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(4, 8), zeroes), y, scale;
    const rota_tensor none = ROTA_TENSOR_NONE;
#define REFUSED(SAYS, ...)                                                                                   \
    assert_int_equal(rota_op_scaled_matmul(kit.tape, __VA_ARGS__, &y), ROTA_INVALID_ARGUMENT);               \
    assert_message(SAYS)
    REFUSED("b is f8_e5m2 [6, 7]; expected [..., k] and [n, k]", a, narrow, one, one, none, ROTA_F32);
    REFUSED("a is f32 [4, 8]", wide, b, one, one, none, ROTA_F32);
    REFUSED("scale_a is f32 [3]; expected f32, one for all of a", a, b, three, one, none, ROTA_F32);
    REFUSED("scale_b is f32 [3]; expected f32, one for all of b", a, b, one, three, none, ROTA_F32);
    REFUSED("one for each of its 6 rows", a, b, one, three, none, ROTA_F32);
    REFUSED("scale_b is f16 [1]", a, b, one, half, none, ROTA_F32);
    REFUSED("a result of i32", a, b, one, one, none, ROTA_I32);
    REFUSED("a result of f8_e5m2", a, b, one, one, none, ROTA_F8_E5M2);
    REFUSED("a bias of an f32 result", a, b, one, one, bias, ROTA_F32);
    REFUSED("bias is bf16 [6]; expected f16 [6]", a, b, one, one, bias, ROTA_F16);
    assert_int_equal(rota_op_quantize(kit.tape, wide, ROTA_BF16, false, &y, &scale), ROTA_INVALID_ARGUMENT);
    assert_message("op 'quantize': to bf16");
    assert_int_equal(rota_op_f8_scale(kit.tape, a, ROTA_F8_E5M2, false, &scale), ROTA_INVALID_ARGUMENT);
    assert_message("op 'f8_scale': x is f8_e4m3fn");
    assert_ok(rota_op_scaled_matmul(kit.tape, a, b, one, one, bias, ROTA_BF16, &y));
    assert_ok(rota_op_f8_scale(kit.tape, wide, ROTA_F8_E5M2, true, &scale));
    op_kit_close(&kit);
}

/* A loss of a parameter that was quantized, or whose scale it is. */
static void no_gradient_passes(void **state) {
    (void)state;
    const float data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (int by_scale = 0; by_scale < 2; by_scale++) {
        op_kit kit;
        op_kit_open(&kit);
        rota_tensor w = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(2, 4), data),
                    p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(1), data), q, scale, y, loss,
                    grad = ROTA_TENSOR_NONE;
        assert_ok(rota_op_quantize(kit.tape, w, ROTA_F8_E4M3FN, false, &q, &scale));
        assert_ok(rota_op_scaled_matmul(kit.tape, q, q, by_scale ? p : scale, scale, ROTA_TENSOR_NONE,
                                        ROTA_F32, &y));
        assert_ok(rota_op_sum_squares(kit.tape, y, &loss));
        assert_int_equal(rota_backward(kit.tape, loss, by_scale ? &p : &w, 1, &grad, NULL), ROTA_UNSUPPORTED);
        assert_message(by_scale ? "it has no gradient" : "no gradient passes through 8-bit floats");
        op_kit_close(&kit);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_and_scales_of_rows),  cmocka_unit_test(quantizing_fills_the_range),
        cmocka_unit_test(scales_of_zeroes_and_nans), cmocka_unit_test(misuse_is_named),
        cmocka_unit_test(no_gradient_passes),
    };
    return op_kit_run_tests(tests, sizeof tests / sizeof tests[0]);
}
