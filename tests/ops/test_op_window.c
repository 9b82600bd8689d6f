/* Convolutions and pooling beside what the table's examples show: NaN and equal values, windows of padding
 * alone, one axis, views at odd elements, sizes that are refused, numbers worked out by hand, on the CPU and on
 * Vulkan. */
#include "tests/ops/op_kit.h"

#include <math.h>
#include <string.h>

#define assert_message(part)                                                                                 \
    do {                                                                                                     \
        if (!strstr(rota_last_error(), part)) fail_msg("'%s' is not in: %s", part, rota_last_error());       \
    } while (0)

static void on_each_device(void (*check)(void)) {
    assert_true(op_kit_use_device("cpu"));
    check();
    if (op_kit_use_device("vk:0")) check();
    assert_true(op_kit_use_device("cpu"));
}

/* ---- Pooling ---- */

static void check_maxima(void) {
    const float x[12] = {1, 5, 5, 2, NAN, 0, 0, NAN, -INFINITY, 3, 3, -4},
                ones[5] = {1, 10, 100, 1000, 10000};
    const float expected[5] = {5, NAN, NAN, NAN, 3},
                gradient[12] = {0, 1, 0, 0, 110, 0, 0, 1000, 0, 10000, 0, 0};
    const int32_t found[5] = {1, 4, 4, 7, 9};
    /* windows of 3 at 0, 2, 4, 6, 8 (and 10, which is not whole) */
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(1, 1, 12), x), y, index, weights, loss,
                grad = ROTA_TENSOR_NONE;
    weights = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(5), ones);
    assert_ok(rota_op_max_pool1d(kit.tape, p, &ROTA_POOL(.window = {3}, .stride = {2}), &y, &index));
    assert_int_equal(y.rank, 3);
    assert_int_equal(y.shape[2], 5);
    const uint32_t of_y = op_kit_output(&kit, y), of_index = op_kit_output(&kit, index);
    /* 0 times NaN is NaN, so the loss is of what does not depend on y's numbers: its gradient is `ones`. */
    assert_ok(rota_op_reshape(kit.tape, y, ROTA_SHAPE(5), &y));
    assert_ok(rota_op_mul(kit.tape, y, weights, &loss));
    assert_ok(rota_op_sum(kit.tape, loss, 0, true, &loss));
    assert_ok(rota_backward(kit.tape, loss, &p, 1, &grad, NULL));
    const uint32_t of_grad = op_kit_output(&kit, grad);
    op_kit_run(&kit);
    for (uint32_t i = 0; i < 5; i++) {
        const float got = op_kit_f32(&kit, of_y)[i];
        assert_true(isnan(expected[i]) ? isnan(got) : got == expected[i]);
        assert_int_equal(((const int32_t *)kit.output_data[of_index])[i], found[i]);
    }
    for (uint32_t i = 0; i < 12; i++) assert_true(op_kit_f32(&kit, of_grad)[i] == gradient[i]);
    op_kit_close(&kit);
}

static void the_first_of_equal_values_and_nan_is_the_largest(void **state) {
    (void)state;
    on_each_device(check_maxima);
}

static void check_padding_alone(void) {
    const float x[4] = {1, 2, 3, 4};
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(1, 1, 4), x), y, index, loss,
                grad = ROTA_TENSOR_NONE, padded, own;
    /* Taps at -1 and 4. */
    assert_ok(rota_op_max_pool1d(kit.tape, p, &ROTA_POOL(.window = {2}, .padding = {1}, .dilation = {5}), &y,
                                 &index));
    assert_int_equal(y.shape[2], 1);
    const uint32_t of_y = op_kit_output(&kit, y), of_index = op_kit_output(&kit, index);
    assert_ok(rota_op_reshape(kit.tape, y, ROTA_SHAPE(1), &loss));
    assert_ok(rota_backward(kit.tape, loss, &p, 1, &grad, NULL));
    const uint32_t of_grad = op_kit_output(&kit, grad);
    /* -1 to 1, 1 to 3, and from 3 on, up to the end of the padding */
    const rota_pool rounded_up = ROTA_POOL(.window = {3}, .stride = {2}, .padding = {1}, .ceil_mode = true);
    rota_pool without = rounded_up;
    without.exclude_padding = true;
    assert_ok(rota_op_avg_pool1d(kit.tape, p, &rounded_up, &padded));
    assert_ok(rota_op_avg_pool1d(kit.tape, p, &without, &own));
    assert_int_equal(padded.shape[2], 3);
    const uint32_t of_padded = op_kit_output(&kit, padded), of_own = op_kit_output(&kit, own);
    op_kit_run(&kit);
    assert_true(isinf(op_kit_f32(&kit, of_y)[0]) && op_kit_f32(&kit, of_y)[0] < 0);
    assert_int_equal(*(const int32_t *)kit.output_data[of_index], -1);
    for (uint32_t i = 0; i < 4; i++) assert_true(op_kit_f32(&kit, of_grad)[i] == 0);
    const float sums[3] = {3, 9, 4}, counts[3] = {3, 3, 2}, own_counts[3] = {2, 3, 1};
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(op_kit_f32(&kit, of_padded)[i] == sums[i] / counts[i]);
        assert_true(op_kit_f32(&kit, of_own)[i] == sums[i] / own_counts[i]);
    }
    op_kit_close(&kit);
}

static void padding_is_no_element(void **state) {
    (void)state;
    on_each_device(check_padding_alone);
}

/* ---- Convolutions ---- */

static void check_one_axis(void) {
    float x[2 * 3 * 11], w[4 * 3 * 3], bias[4] = {1, -2, 3, -4};
    for (int i = 0; i < 66; i++) x[i] = (float)(i * 7 % 13 - 6);
    for (int i = 0; i < 36; i++) w[i] = (float)(i * 5 % 11 - 5);
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor a = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(2, 3, 11), x),
                b = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(4, 3, 3), w),
                c = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(4), bias), y;
    assert_ok(rota_op_conv1d(kit.tape, a, b, &ROTA_CONV(.bias = c, .stride = {2}, .padding = {1}), &y));
    assert_int_equal(y.rank, 3);
    assert_int_equal(y.shape[2], 6);
    const uint32_t of_y = op_kit_output(&kit, y);
    op_kit_run(&kit);
    assert_int_equal(rota_graph_node_count(kit.graph), 2); /* and the one that puts y out */
    for (int n = 0; n < 2; n++)
        for (int o = 0; o < 4; o++)
            for (int p = 0; p < 6; p++) {
                float sum = bias[o]; /* whole numbers: exact in any order */
                for (int i = 0; i < 3; i++)
                    for (int k = 0; k < 3; k++)
                        if (2 * p + k >= 1 && 2 * p + k <= 11)
                            sum += x[(n * 3 + i) * 11 + 2 * p + k - 1] * w[(o * 3 + i) * 3 + k];
                assert_true(op_kit_f32(&kit, of_y)[(n * 4 + o) * 6 + p] == sum);
            }
    op_kit_close(&kit);
}

static void one_axis_is_height_1_without_a_copy(void **state) {
    (void)state;
    on_each_device(check_one_axis);
}

/* Views that begin at odd elements of 16 bits, with gaps and in another order give what their copies give, bit
 * for bit, and so do their gradients. */
static void check_views(void) {
    uint8_t x[2 * (1 + 2 * 5 * 6 * 4)], w[2 * (3 + 4 * 4 * 9)];
    for (rota_dtype dtype = ROTA_F16; dtype <= ROTA_BF16; dtype++) {
        for (uint64_t i = 0; i < sizeof x / 2; i++)
            element_store(dtype, x, i, (double)(i * 37 % 64) / 32 - 1);
        for (uint64_t i = 0; i < sizeof w / 2; i++)
            element_store(dtype, w, i, (double)(i * 29 % 64) / 32 - 1);
        op_kit kit;
        op_kit_open(&kit);
        rota_tensor whole_x = op_kit_input(&kit, dtype, ROTA_SHAPE(sizeof x / 2), x),
                    whole_w = op_kit_input(&kit, dtype, ROTA_SHAPE(sizeof w / 2), w), sides[2][2], y[2], loss,
                    grads[2][2];
        /* x is stored [2, 5, 6, 4] from element 1 on and read as [2, 4, 5, 6]; of w's rows of 4 channels 3 are
         * left out. */
        assert_ok(rota_tensor_slice(&whole_x, 0, 1, 240, &sides[0][0]));
        assert_ok(rota_tensor_reshape(&sides[0][0], ROTA_SHAPE(2, 5, 6, 4), &sides[0][0]));
        assert_ok(rota_tensor_permute(&sides[0][0], (const uint32_t[]){0, 3, 1, 2}, &sides[0][0]));
        assert_ok(rota_tensor_slice(&whole_w, 0, 3, 144, &sides[0][1]));
        assert_ok(rota_tensor_reshape(&sides[0][1], ROTA_SHAPE(4, 4, 3, 3), &sides[0][1]));
        assert_ok(rota_tensor_slice(&sides[0][1], 0, 1, 3, &sides[0][1]));
        uint32_t results[2][3];
        for (uint32_t form = 0; form < 2; form++) {
            if (form == 1)
                for (uint32_t i = 0; i < 2; i++) assert_ok(rota_op_copy(kit.tape, sides[0][i], &sides[1][i]));
            memset(grads[form], 0, sizeof grads[form]);
            assert_ok(rota_op_conv2d(kit.tape, sides[form][0], sides[form][1], &ROTA_CONV(.padding = {1, 0}),
                                     &y[form]));
            assert_ok(rota_op_sum_squares(kit.tape, y[form], &loss));
            assert_ok(
                rota_backward(kit.tape, loss, (const rota_tensor[]){whole_x, whole_w}, 2, grads[form], NULL));
            results[form][0] = op_kit_output(&kit, y[form]);
            for (uint32_t i = 0; i < 2; i++) results[form][1 + i] = op_kit_output(&kit, grads[form][i]);
        }
        op_kit_run(&kit);
        for (uint32_t i = 0; i < 3; i++)
            assert_memory_equal(kit.output_data[results[0][i]], kit.output_data[results[1][i]],
                                kit.output_bytes[results[0][i]]);
        op_kit_close(&kit);
    }
}

static void views_are_their_copies(void **state) {
    (void)state;
    on_each_device(check_views);
}

/* conv_transpose2d is the gradient of conv2d, and the other way round: bit for bit the same kernels. */
static void check_transposed(void) {
    float x[2 * 4 * 5 * 6], w[4 * 3 * 3 * 2];
    for (int i = 0; i < 240; i++) x[i] = (float)(i * 7 % 31 - 15) / 8;
    for (int i = 0; i < 72; i++) w[i] = (float)(i * 5 % 17 - 8) / 8;
    const rota_conv options = ROTA_CONV(.stride = {2, 3}, .padding = {1, 1}, .dilation = {1, 2});
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor a = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(2, 4, 5, 6), x),
                b = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(4, 3, 3, 2), w), y, p, loss, product,
                grad = ROTA_TENSOR_NONE;
    assert_ok(rota_op_conv_transpose2d(kit.tape, a, b, &options, &y)); /* [2, 3, 9, 16] */
    assert_int_equal(y.shape[2], 9);
    assert_int_equal(y.shape[3], 16);
    const uint32_t of_y = op_kit_output(&kit, y);
    assert_ok(rota_op_scale(kit.tape, y, rota_value_plain(0.5), &p)); /* any parameter of its shape */
    assert_ok(rota_op_conv2d(kit.tape, p, b, &options, &product));
    assert_ok(rota_op_mul(kit.tape, product, a, &product));
    assert_ok(rota_op_reshape(kit.tape, product, ROTA_SHAPE(240), &product));
    assert_ok(rota_op_sum(kit.tape, product, 0, true, &loss));
    assert_ok(rota_backward(kit.tape, loss, &p, 1, &grad, NULL));
    const uint32_t of_grad = op_kit_output(&kit, grad);
    op_kit_run(&kit);
    assert_memory_equal(op_kit_f32(&kit, of_y), op_kit_f32(&kit, of_grad), kit.output_bytes[of_y]);
    op_kit_close(&kit);
}

static void transposed_is_the_gradient(void **state) {
    (void)state;
    on_each_device(check_transposed);
}

/* Gradients as ops are what gradients are: bit for bit the same kernels. */
static void check_gradients_as_ops(void) {
    float x[2 * 4 * 7 * 9], w[6 * 2 * 3 * 2];
    for (int i = 0; i < 504; i++) x[i] = (float)(i * 7 % 31 - 15) / 8;
    for (int i = 0; i < 72; i++) w[i] = (float)(i * 5 % 17 - 8) / 8;
    const rota_conv conv = ROTA_CONV(.stride = {2, 3}, .padding = {1, 1}, .dilation = {1, 2}, .groups = 2);
    const rota_pool pool = ROTA_POOL(.window = {3, 2}, .stride = {2, 1}, .padding = {1, 1}, .ceil_mode = true,
                                     .exclude_padding = true);
    for (int i = 0; i < 3; i++) {
        op_kit kit;
        op_kit_open(&kit);
        rota_tensor a = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(2, 4, 7, 9), x),
                    b = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(6, 2, 3, 2), w), p, y, dy, index, loss,
                    product, grad = ROTA_TENSOR_NONE, as_op;
        assert_ok(rota_op_scale(kit.tape, i == 0 ? b : a, rota_value_plain(0.5), &p)); /* any parameter */
        if (i == 0) assert_ok(rota_op_conv2d(kit.tape, a, p, &conv, &y));
        if (i == 1) assert_ok(rota_op_max_pool2d(kit.tape, p, &pool, &y, &index));
        if (i == 2) assert_ok(rota_op_avg_pool2d(kit.tape, p, &pool, &y));
        const uint64_t count = rota_tensor_count(&y);
        assert_ok(rota_op_stop_gradient(kit.tape, y, &dy));
        assert_ok(rota_op_mul(kit.tape, y, dy, &product));
        assert_ok(rota_op_reshape(kit.tape, product, ROTA_SHAPE(count), &product));
        assert_ok(rota_op_sum(kit.tape, product, 0, true, &loss));
        assert_ok(rota_backward(kit.tape, loss, &p, 1, &grad, NULL));
        if (i == 0) assert_ok(rota_op_conv2d_backward_weight(kit.tape, a, dy, 3, 2, &conv, &as_op));
        if (i == 1) assert_ok(rota_op_max_pool2d_backward(kit.tape, dy, index, 7, 9, &pool, &as_op));
        if (i == 2) assert_ok(rota_op_avg_pool2d_backward(kit.tape, dy, 7, 9, &pool, &as_op));
        const uint32_t of_grad = op_kit_output(&kit, grad), of_op = op_kit_output(&kit, as_op);
        op_kit_run(&kit);
        assert_int_equal(kit.output_bytes[of_op], kit.output_bytes[of_grad]);
        assert_memory_equal(op_kit_f32(&kit, of_op), op_kit_f32(&kit, of_grad), kit.output_bytes[of_op]);
        op_kit_close(&kit);
    }
}

static void gradients_as_ops_are_the_gradients(void **state) {
    (void)state;
    on_each_device(check_gradients_as_ops);
}

/* ---- Errors ---- */

static void what_does_not_fit_is_said(void **state) {
    (void)state;
    static const float data[512];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor x = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(2, 4, 5, 6), data),
                w = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(6, 4, 3, 3), data),
                flat = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(4, 4), data),
                half = op_kit_input(&kit, ROTA_BF16, ROTA_SHAPE(6, 4, 3, 3), data), none, y, index;
#define REFUSED(CALL, SENTENCE)                                                                              \
    do {                                                                                                     \
        assert_status(CALL, ROTA_INVALID_ARGUMENT);                                                          \
        assert_message(SENTENCE);                                                                            \
        assert_null(y.buffer);                                                                               \
    } while (0)
    REFUSED(rota_op_conv2d(kit.tape, x, flat, NULL, &y),
            "expected [batch, in, height, width] and [out, in / groups, kh, kw]");
    REFUSED(rota_op_conv2d(kit.tape, x, half, NULL, &y), "w is bf16 [6, 4, 3, 3]; expected one dtype");
    REFUSED(rota_op_conv2d(kit.tape, x, w, &ROTA_CONV(.groups = 2), &y),
            "x is f32 [2, 4, 5, 6], w is f32 [6, 4, 3, 3], of 2 groups; expected as many channels of x as");
    REFUSED(rota_op_conv2d(kit.tape, x, w, &ROTA_CONV(.groups = 4), &y), "expected groups of as many");
    REFUSED(rota_op_conv2d(kit.tape, x, w, &ROTA_CONV(.bias = flat), &y),
            "bias is f32 [4, 4]; expected f32 [6]");
    REFUSED(rota_op_conv2d(kit.tape, x, w, &ROTA_CONV(.dilation = {3, 1}), &y),
            "a window of 3 with dilation 3 reaches over 7 elements along height, of 5 with padding of 0");
    REFUSED(rota_op_conv2d(kit.tape, x, w, &ROTA_CONV(.stride = {UINT32_MAX}), &y),
            "stride along height is 4294967295");
    REFUSED(rota_op_conv2d(kit.tape, x, w, &ROTA_CONV(.padding = {0, INT32_MAX}), &y),
            "width 6 with padding of 2147483647");
    /* 2^32 elements and more */
    REFUSED(rota_op_conv2d(kit.tape, x, w, &ROTA_CONV(.padding = {20000, 20000}), &y), "elements");
    assert_status(rota_op_conv2d_into(kit.tape, x, w, NULL, ROTA_TENSOR_NONE), ROTA_INVALID_ARGUMENT);
    assert_message("the destination is missing");
    REFUSED(rota_op_conv1d(kit.tape, x, w, NULL, &y),
            "op 'conv1d': x is f32 [2, 4, 5, 6]; expected three axes");
    REFUSED(rota_op_conv_transpose2d(kit.tape, x, w, NULL, &y),
            "expected as many channels of x as w's first axis is long");
    assert_ok(rota_tensor_slice(&w, 0, 0, 4, &w));
    REFUSED(rota_op_conv_transpose2d(kit.tape, x, w, &ROTA_CONV(.output_padding = {1}), &y),
            "output_padding along height is 1, stride 1 and dilation 1; expected less");
    REFUSED(rota_op_conv_transpose2d(kit.tape, x, w, &ROTA_CONV(.padding = {4}), &y),
            "reach over 7 elements along height, of which padding takes 8");
    assert_ok(rota_tensor_slice(&w, 3, 0, 0, &none));
    REFUSED(rota_op_conv2d(kit.tape, x, none, NULL, &y), "expected a window of at least one element");
    REFUSED(rota_op_max_pool2d(kit.tape, flat, &ROTA_POOL(.window = {2, 2}), &y, &index),
            "x is f32 [4, 4]; expected [batch, channels, height, width]");
    REFUSED(rota_op_max_pool2d(kit.tape, x, &ROTA_POOL(.window = {2}), &y, NULL), "stride along width is 0");
    REFUSED(rota_op_max_pool2d(kit.tape, x, &ROTA_POOL(.window = {2, 2}, .padding = {2}), &y, NULL),
            "the window is of 2 x 2, the padding of 2 x 0; expected at most half");
    REFUSED(rota_op_avg_pool2d(kit.tape, x, &ROTA_POOL(.window = {2, 2}, .dilation = {1, 2}), &y),
            "dilation is 1 x 2; expected 1 x 1");
    REFUSED(rota_op_avg_pool2d(kit.tape, x, &ROTA_POOL(.window = {6, 1}), &y),
            "reaches over 6 elements along height, of 5");
    REFUSED(
        rota_op_conv2d_backward_weight(kit.tape, x, x, 3, 3, NULL, &y),
        "x is f32 [2, 4, 5, 6], dy is f32 [2, 4, 5, 6], of 1 groups; expected [batch, in, height, width]");
    REFUSED(rota_op_conv2d_backward_weight(kit.tape, x, x, 1, 1, &ROTA_CONV(.groups = 3), &y), "of 3 groups");
    REFUSED(rota_op_conv2d_backward_weight(kit.tape, x, x, 0, 1, NULL, &y),
            "a window of 0 elements along height");
    REFUSED(rota_op_conv2d_backward_weight(kit.tape, x, x, 1, 1, &ROTA_CONV(.bias = x), &y),
            "a bias is given");
    REFUSED(rota_op_avg_pool2d_backward(kit.tape, x, 5, 7, &ROTA_POOL(.window = {1, 1}), &y),
            "dy is f32 [2, 4, 5, 6]; expected [batch, channels, 5, 7], the windows of planes of 5 x 7");
    REFUSED(rota_op_max_pool2d_backward(kit.tape, x, x, 5, 6, &ROTA_POOL(.window = {1, 1}), &y),
            "expected i32");
    op_kit_output(&kit, x);
    op_kit_run(&kit);
    assert_int_equal(rota_graph_node_count(kit.graph), 1); /* that one: nothing refused was recorded */
#undef REFUSED
    op_kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_of_equal_values_and_nan_is_the_largest),
        cmocka_unit_test(padding_is_no_element),
        cmocka_unit_test(one_axis_is_height_1_without_a_copy),
        cmocka_unit_test(views_are_their_copies),
        cmocka_unit_test(transposed_is_the_gradient),
        cmocka_unit_test(gradients_as_ops_are_the_gradients),
        cmocka_unit_test(what_does_not_fit_is_said),
    };
    return op_kit_run_tests(tests, sizeof tests / sizeof *tests);
}
