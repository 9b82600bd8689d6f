/* rota_backward: views that hold an element several times, and weights that are part of one another. */
#include "tests/ops/gradient_parts.h"

/* ---- Views that hold an element several times ---- */

static double windows(const double *x) {
    double sum = 0;
    for (int r = 0; r < 8; r++)
        for (int c = 0; c < 5; c++) sum += x[r + c] * x[r + c] * (1 + c);
    return sum;
}

static void windows_that_overlap_add_up(void **state) {
    (void)state;
    const float weights[5] = {1, 2, 3, 4, 5};
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = parameter(&kit, x), w = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(5), weights), y;
    assert_ok(rota_op_square(kit.tape, PART(p, 0, (8, 5), 1, 1), &y));
    assert_ok(rota_op_mul(kit.tape, y, w, &y));
    check_loss(&kit, total(&kit, y), p, windows, x, "windows");
}

static double repeated_product(const double *x) {
    double sum = 0;
    for (int r = 0; r < 2; r++)
        for (int j = 0; j < 4; j++) {
            double y = 0;
            for (int k = 0; k < 3; k++) y += x[r * 3 + k] * x[6 + j];
            sum += y * y;
        }
    return sum;
}

static double window_product(const double *x) {
    double sum = 0;
    for (int r = 0; r < 2; r++)
        for (int j = 0; j < 4; j++) {
            double y = 0;
            for (int k = 0; k < 3; k++) y += x[r * 3 + k] * x[6 + k + j];
            sum += y * y;
        }
    return sum;
}

/* A weight whose rows are one, and one whose rows are windows. */
static void products_with_repeating_weights(void **state) {
    (void)state;
    for (int form = 0; form < 4; form++) {
        float x[N];
        op_kit kit;
        op_kit_open(&kit);
        rota_tensor p = parameter(&kit, x), left = PART(p, 0, (2, 3), 3, 1), y;
        rota_tensor weight = form % 2 ? PART(p, 6, (3, 4), 1, 1) : PART(p, 6, (3, 4), 0, 1);
        if (form < 2)
            assert_ok(rota_op_linear(kit.tape, left, weight, NULL, &y));
        else
            assert_ok(rota_op_matmul(kit.tape, left, weight, false, false, &y));
        assert_ok(rota_op_square(kit.tape, y, &y));
        check_loss(&kit, total(&kit, y), p, form % 2 ? window_product : repeated_product, x,
                   form < 2 ? "linear" : "matmul");
    }
}

static double attended(const double *x) {
    double sum = 0;
    for (int q = 0; q < 3; q++) {
        double weight[3], all = 0, y[2] = {0};
        for (int k = 0; k < 3; k++) {
            weight[k] = exp((x[q] * x[2 * k] + x[q + 1] * x[2 * k + 1]) / sqrt(2));
            all += weight[k];
        }
        for (int k = 0; k < 3; k++)
            for (int d = 0; d < 2; d++) y[d] += weight[k] / all * x[6 + 2 * k + d];
        sum += y[0] * y[0] + y[1] * y[1];
    }
    return sum;
}

static void attention_of_windows(void **state) {
    (void)state;
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = parameter(&kit, x), y;
    assert_ok(rota_op_attention(kit.tape, PART(p, 0, (1, 1, 3, 2), 1, 1, 1, 1),
                                PART(p, 0, (1, 1, 3, 2), 6, 6, 2, 1), PART(p, 6, (1, 1, 3, 2), 6, 6, 2, 1),
                                false, 0, &y));
    assert_ok(rota_op_square(kit.tape, y, &y));
    check_loss(&kit, total(&kit, y), p, attended, x, "attention");
}

/* A window across two parameters can't have its gradient in either. */
static void windows_across_parameters_are_refused(void **state) {
    (void)state;
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor all = parameter(&kit, x), y, params[2], grads[2] = {ROTA_TENSOR_NONE, ROTA_TENSOR_NONE};
    params[0] = PART(all, 0, (4), 1);
    params[1] = PART(all, 6, (4), 1);
    assert_ok(rota_op_square(kit.tape, PART(all, 0, (4, 3), 1, 1), &y));
    assert_status(rota_backward(kit.tape, total(&kit, y), params, 2, grads, NULL), ROTA_UNSUPPORTED);
    assert_message("lies only partly in a parameter");
    op_kit_close(&kit);
}

/* ---- Weights that are part of one another ---- */

static double shared_bias(const double *x) {
    double sum = 0;
    for (int r = 0; r < 2; r++)
        for (int j = 0; j < 3; j++) {
            double y = x[8 + j];
            for (int k = 0; k < 2; k++) y += x[r * 2 + k] * x[4 + k * 3 + j];
            sum += y * y;
        }
    return sum;
}

/* The bias is the weight's last elements, and some more. */
static void a_bias_may_lie_in_its_weight(void **state) {
    (void)state;
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = parameter(&kit, x), y;
    const rota_linear options = ROTA_LINEAR(.bias = PART(p, 8, (3), 1));
    assert_ok(rota_op_linear(kit.tape, PART(p, 0, (2, 2), 2, 1), PART(p, 4, (2, 3), 3, 1), &options, &y));
    assert_ok(rota_op_square(kit.tape, y, &y));
    check_loss(&kit, total(&kit, y), p, shared_bias, x, "bias in the weight");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_that_overlap_add_up),
        cmocka_unit_test(products_with_repeating_weights),
        cmocka_unit_test(attention_of_windows),
        cmocka_unit_test(windows_across_parameters_are_refused),
        cmocka_unit_test(a_bias_may_lie_in_its_weight),
    };
    return op_kit_run_tests(tests, sizeof tests / sizeof *tests);
}
