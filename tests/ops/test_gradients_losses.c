/* rota_backward: a classifier whose gradient takes the place of its logits. */
#include <stdlib.h>
#include "tests/ops/gradient_parts.h"

static const int32_t labels[3] = {1, 3, 0};

static double cross_entropy(const double *x) {
    double sum = 0;
    for (int r = 0; r < 3; r++) {
        double z = 0;
        for (int c = 0; c < 4; c++) z += exp(x[r * 4 + c]);
        sum += log(z) - x[r * 4 + labels[r]];
    }
    return sum / 3;
}

/* A classifier's gradient takes no place while the tape keeps its ops; and at the last call it does. */
static void a_classifier_is_gone_through_twice(void **state) {
    (void)state;
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = parameter(&kit, x), index = op_kit_input(&kit, ROTA_I32, ROTA_SHAPE(3), labels), logits,
                loss;
    rota_tensor grads[3] = {ROTA_TENSOR_NONE, ROTA_TENSOR_NONE, ROTA_TENSOR_NONE};
    uint32_t outputs[3];
    assert_ok(rota_op_copy(kit.tape, PART(p, 0, (3, 4), 4, 1), &logits));
    const rota_classifier options = ROTA_CLASSIFIER(.ignored = ROTA_IGNORED_LABEL, .in_place = true);
    assert_ok(rota_op_classifier(kit.tape, logits, index, &options, &loss));
    for (int i = 0; i < 3; i++)
        assert_ok(rota_backward(kit.tape, loss, &p, 1, &grads[i], &ROTA_BACKWARD_OPTIONS(.keep = i < 2)));
    for (int i = 0; i < 3; i++) outputs[i] = op_kit_output(&kit, grads[i]);
    const uint32_t taken = op_kit_output(&kit, logits);
    op_kit_run(&kit);
    for (int i = 0; i < 3; i++) check_function(cross_entropy, x, op_kit_f32(&kit, outputs[i]), "a call");
    check_function(cross_entropy, x, op_kit_f32(&kit, taken), "the logits' place");
    op_kit_close(&kit);
}

static double both(const double *x) {
    double sum = cross_entropy(x);
    for (int i = 0; i < N; i++) sum += x[i] * x[i];
    return sum;
}

static void logits_that_others_read_stay_until_they_did(void **state) {
    (void)state;
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = parameter(&kit, x), index = op_kit_input(&kit, ROTA_I32, ROTA_SHAPE(3), labels), logits,
                loss, squares;
    assert_ok(rota_op_copy(kit.tape, PART(p, 0, (3, 4), 4, 1), &logits));
    const rota_classifier options = ROTA_CLASSIFIER(.ignored = ROTA_IGNORED_LABEL, .in_place = true);
    assert_ok(rota_op_classifier(kit.tape, logits, index, &options, &loss));
    assert_ok(rota_op_mul(kit.tape, logits, logits, &squares));
    check_loss(&kit, sum_of(&kit, loss, squares), p, both, x, "two uses");
}

static double some_logits(const double *x) {
    double sum = cross_entropy(x);
    for (int i = 0; i < N; i++) sum += 2 * x[i];
    return sum;
}

/* Logits that are a part of a buffer, of which others have the whole: the first, and the last. */
static void logits_among_others_keep_their_place(void **state) {
    (void)state;
    for (uint64_t before = 0; before < 2; before++) {
        float x[N];
        op_kit kit;
        op_kit_open(&kit);
        rota_tensor p = parameter(&kit, x), index = op_kit_input(&kit, ROTA_I32, ROTA_SHAPE(3), labels), all,
                    loss, sum;
        assert_ok(
            rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "all", ROTA_F32, ROTA_SHAPE(N + 4), &all));
        assert_ok(rota_op_fill_into(kit.tape, all, 1));
        assert_ok(rota_op_copy_into(kit.tape, p, PART(all, 4 * before, (N), 1)));
        assert_ok(rota_op_scale(kit.tape, all, ROTA_PLAIN(2), &sum));
        const rota_classifier options = ROTA_CLASSIFIER(.ignored = ROTA_IGNORED_LABEL, .in_place = true);
        assert_ok(rota_op_classifier(kit.tape, PART(all, 4 * before, (3, 4), 4, 1), index, &options, &loss));
        check_loss(&kit, sum_of(&kit, sum, loss), p, some_logits, x, before ? "the last" : "the first");
    }
}

/* Three logits of 16 bits, of whose buffer's words others have a fourth element. */
static void logits_share_a_word_with_others(void **state) {
    (void)state;
    const int32_t label = 1;
    const float expected[4] = {1.18632f, 0.30724f, 1.50644f,
                               1}; /* softmax(0, 0.5, 1), less the label, and 1 */
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = half_parameter(&kit, x), index = op_kit_input(&kit, ROTA_I32, ROTA_SHAPE(1), &label), all,
                wide;
    rota_tensor loss, grad = ROTA_TENSOR_NONE;
    assert_ok(rota_op_scale(kit.tape, PART(p, 0, (4), 1), ROTA_PLAIN(4), &all));
    assert_ok(rota_op_cast(kit.tape, all, ROTA_F32, &wide));
    const rota_classifier options = ROTA_CLASSIFIER(.ignored = ROTA_IGNORED_LABEL, .in_place = true);
    assert_ok(rota_op_classifier(kit.tape, PART(all, 0, (1, 3), 3, 1), index, &options, &loss));
    assert_ok(rota_op_add(kit.tape, total(&kit, wide), loss, &loss));
    assert_ok(rota_backward(kit.tape, loss, &p, 1, &grad, NULL));
    assert_ok(rota_op_cast(kit.tape, grad, ROTA_F32, &grad));
    const uint32_t output = op_kit_output(&kit, grad);
    op_kit_run(&kit);
    for (int i = 0; i < 4; i++)
        if (fabsf(op_kit_f32(&kit, output)[i] - 4 * expected[i]) > 0.02f)
            fail_msg("gradient %d is %g, expected %g", i, (double)op_kit_f32(&kit, output)[i],
                     4 * (double)expected[i]);
    op_kit_close(&kit);
}

/* Logits in memory of the caller's are still there. */
static void logits_of_others_stay(void **state) {
    (void)state;
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = parameter(&kit, x), index = op_kit_input(&kit, ROTA_I32, ROTA_SHAPE(3), labels), logits,
                loss;
    rota_tensor grad = ROTA_TENSOR_NONE;
    assert_ok(rota_tape_tensor(kit.tape, ROTA_BUFFER_OUTPUT, "logits", ROTA_F32, ROTA_SHAPE(3, 4), &logits));
    const uint32_t output = kit.output_count++;
    kit.outputs[output] = logits.buffer;
    kit.output_bytes[output] = N * sizeof(float);
    assert_non_null(kit.output_data[output] = calloc(N, sizeof(float)));
    assert_ok(rota_op_copy_into(kit.tape, PART(p, 0, (3, 4), 4, 1), logits));
    const rota_classifier options = ROTA_CLASSIFIER(.ignored = ROTA_IGNORED_LABEL, .in_place = true);
    assert_ok(rota_op_classifier(kit.tape, logits, index, &options, &loss));
    assert_ok(rota_backward(kit.tape, loss, &p, 1, &grad, NULL));
    const uint32_t gradient = op_kit_output(&kit, grad);
    op_kit_run(&kit);
    assert_memory_equal(kit.output_data[output], x, sizeof x);
    check_function(cross_entropy, x, op_kit_f32(&kit, gradient), "logits of others");
    op_kit_close(&kit);
}

/* What a classifier's gradient needs, and what another one has put in its place. */
static void overwritten_logits_and_labels_are_refused(void **state) {
    (void)state;
    for (int form = 0; form < 3; form++) {
        float x[N];
        op_kit kit;
        op_kit_open(&kit);
        rota_tensor p = parameter(&kit, x), index = op_kit_variable(&kit, ROTA_I32, ROTA_SHAPE(3), labels),
                    logits, loss;
        rota_tensor other, grad = ROTA_TENSOR_NONE;
        assert_ok(rota_op_copy(kit.tape, PART(p, 0, (3, 4), 4, 1), &logits));
        const rota_classifier options = ROTA_CLASSIFIER(.ignored = ROTA_IGNORED_LABEL, .in_place = true);
        assert_ok(rota_op_classifier(kit.tape, logits, index, &options, &loss));
        if (form == 0) assert_ok(rota_op_fill_into(kit.tape, logits, 0));
        if (form == 1) assert_ok(rota_op_fill_into(kit.tape, index, 0));
        if (form == 2) {
            assert_ok(rota_op_classifier(kit.tape, logits, index, &options, &other));
            assert_ok(rota_op_add(kit.tape, loss, other, &loss));
        }
        assert_status(rota_backward(kit.tape, loss, &p, 1, &grad, NULL), ROTA_WRONG_STATE);
        assert_message(form == 1 ? "needs its 'labels'" : "needs its 'logits'");
        op_kit_close(&kit);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_classifier_is_gone_through_twice),
        cmocka_unit_test(logits_that_others_read_stay_until_they_did),
        cmocka_unit_test(logits_among_others_keep_their_place),
        cmocka_unit_test(logits_share_a_word_with_others),
        cmocka_unit_test(logits_of_others_stay),
        cmocka_unit_test(overwritten_logits_and_labels_are_refused),
    };
    return op_kit_run_tests(tests, sizeof tests / sizeof *tests);
}
