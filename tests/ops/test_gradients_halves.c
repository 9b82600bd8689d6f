/* rota_backward: gradients that begin in the middle of a word, and those of a norm's weight and bias side by side. */
#include "tests/ops/gradient_parts.h"

/* A gradient in f16 at an odd element of memory of N + 1, as f32. */
static void check_half(op_kit *kit, rota_tensor loss, rota_tensor p, double (*f)(const double *x),
                       const float *x) {
    const uint16_t before[N + 2] = {[0] = 0x3c00, [N + 1] = 0x3c00};
    rota_tensor memory = op_kit_variable(kit, ROTA_F16, ROTA_SHAPE(N + 2), before),
                grad = PART(memory, 1, (N), 1), wide;
    assert_ok(rota_backward(kit->tape, loss, &p, 1, &grad, NULL));
    rota_tape_remember(kit->tape, false);
    assert_ok(rota_op_cast(kit->tape, memory, ROTA_F32, &wide));
    const uint32_t output = op_kit_output(kit, wide);
    op_kit_run(kit);
    const float *got = op_kit_f32(kit, output);
    assert_true(got[0] == 1 && got[N + 1] == 1); /* what lies beside it stays */
    double values[N];
    for (int i = 0; i < N; i++) values[i] = (double)x[i];
    for (int i = 0; i < N; i++) {
        const double kept = values[i];
        values[i] = kept + 1e-5;
        const double above = f(values);
        values[i] = kept - 1e-5;
        const double expected = (above - f(values)) / 2e-5;
        values[i] = kept;
        if (fabs(expected - (double)got[i + 1]) > 0.01 * fmax(1, fabs(expected)))
            fail_msg("gradient %d is %g, expected %g", i, (double)got[i + 1], expected);
    }
    op_kit_close(kit);
}

static double rows_chosen(const double *x) {
    double sum = 0;
    for (int c = 0; c < 3; c++) sum += 2 * x[3 + c] * x[3 + c] + x[9 + c] * x[9 + c];
    for (int i = 0; i < N; i++) sum += x[i];
    return sum;
}

static void an_embedding_has_its_gradient_at_an_odd_element(void **state) {
    (void)state;
    const int32_t rows[3] = {1, 3, 1};
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = half_parameter(&kit, x), index = op_kit_input(&kit, ROTA_I32, ROTA_SHAPE(3), rows), y;
    assert_ok(rota_op_embedding(kit.tape, PART(p, 0, (4, 3), 3, 1), index, &y));
    assert_ok(rota_op_square(kit.tape, y, &y));
    assert_ok(rota_op_cast(kit.tape, y, ROTA_F32, &y));
    assert_ok(rota_op_cast(kit.tape, p, ROTA_F32, &index));
    check_half(&kit, sum_of(&kit, y, index), p, rows_chosen, x);
}

static double normalized(const double *x) {
    double sum = 0;
    for (int r = 0; r < 3; r++) {
        double mean = 0, variance = 0;
        for (int c = 0; c < 4; c++) mean += x[r * 4 + c] / 4;
        for (int c = 0; c < 4; c++) variance += (x[r * 4 + c] - mean) * (x[r * 4 + c] - mean) / 4;
        for (int c = 0; c < 4; c++)
            sum += (x[r * 4 + c] - mean) / sqrt(variance + 0.5) * (c == 1) + x[r * 4 + c];
    }
    return sum;
}

static void a_norm_has_its_gradient_at_an_odd_element(void **state) {
    (void)state;
    const float columns[4] = {0, 1, 0, 0};
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = half_parameter(&kit, x), w = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(4), columns), y, z;
    assert_ok(
        rota_op_layernorm(kit.tape, PART(p, 0, (3, 4), 4, 1), ROTA_TENSOR_NONE, ROTA_TENSOR_NONE, 0.5f, &y));
    assert_ok(rota_op_cast(kit.tape, y, ROTA_F32, &y));
    assert_ok(rota_op_mul(kit.tape, y, w, &y));
    assert_ok(rota_op_cast(kit.tape, p, ROTA_F32, &z));
    check_half(&kit, sum_of(&kit, y, z), p, normalized, x);
}

static double norm_with(const double *x, const double *weight, const double *bias) {
    double sum = 0, mean = 0, variance = 0;
    for (int c = 0; c < 4; c++) mean += x[c] / 4;
    for (int c = 0; c < 4; c++) variance += (x[c] - mean) * (x[c] - mean) / 4;
    for (int c = 0; c < 4; c++) sum += ((x[c] - mean) / sqrt(variance + 0.5) * weight[c] + bias[c]) * (c + 1);
    return sum;
}
static double weight_first(const double *x) {
    return norm_with(x, x + 4, x + 8);
}
static double bias_first(const double *x) {
    return norm_with(x, x + 8, x + 4);
}

/* Nodes of a norm's gradient by all of one memory, which is checked. */
static uint64_t nodes_of_norm(double (*f)(const double *x), uint64_t weight, uint64_t bias) {
    const float columns[4] = {1, 2, 3, 4};
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = parameter(&kit, x), w = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(4), columns), y;
    assert_ok(rota_op_layernorm(kit.tape, PART(p, 0, (1, 4), 4, 1), PART(p, weight, (4), 1),
                                PART(p, bias, (4), 1), 0.5f, &y));
    assert_ok(rota_op_mul(kit.tape, y, w, &y));
    rota_tensor grad = ROTA_TENSOR_NONE;
    assert_ok(rota_backward(kit.tape, total(&kit, y), &p, 1, &grad, NULL));
    const uint32_t output = op_kit_output(&kit, grad);
    op_kit_run(&kit);
    check_function(f, x, op_kit_f32(&kit, output), "a norm");
    const uint64_t count = rota_graph_node_count(kit.graph);
    op_kit_close(&kit);
    return count;
}

/* The two gradients' partial sums are added up by one node where they lie one after the other. */
static void the_gradients_of_weight_and_bias_are_neighbours(void **state) {
    (void)state;
    assert_int_equal(nodes_of_norm(weight_first, 4, 8) + 1, nodes_of_norm(bias_first, 8, 4));
}

static double attended_by_windows(const double *x) {
    double sum = 0;
    for (int q = 0; q < 3; q++) {
        double weight[3], all = 0;
        for (int k = 0; k < 3; k++) all += weight[k] = exp((x[0] * x[2 * k] + x[1] * x[2 * k + 1]) / sqrt(2));
        for (int k = 0; k < 3; k++)
            for (int d = 0; d < 2; d++) sum += weight[k] / all * x[2 * k + d] * (d + 1);
    }
    return sum;
}

/* The gradients of keys and values are copied to where they belong, and that of queries, which are all one,
 * is added there. */
static void attention_has_its_gradients_at_an_odd_element(void **state) {
    (void)state;
    const float columns[2] = {1, 2};
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = half_parameter(&kit, x), w = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(2), columns), y;
    const rota_tensor rows = PART(p, 0, (1, 1, 3, 2), 6, 6, 2, 1);
    assert_ok(rota_op_attention(kit.tape, PART(p, 0, (1, 1, 3, 2), 6, 6, 0, 1), rows, rows, false, 0, &y));
    assert_ok(rota_op_cast(kit.tape, y, ROTA_F32, &y));
    assert_ok(rota_op_mul(kit.tape, y, w, &y));
    check_half(&kit, total(&kit, y), p, attended_by_windows, x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_embedding_has_its_gradient_at_an_odd_element),
        cmocka_unit_test(a_norm_has_its_gradient_at_an_odd_element),
        cmocka_unit_test(the_gradients_of_weight_and_bias_are_neighbours),
        cmocka_unit_test(attention_has_its_gradients_at_an_odd_element),
    };
    return op_kit_run_tests(tests, sizeof tests / sizeof *tests);
}
