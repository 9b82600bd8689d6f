/* rota_op_gradient: of every op's examples the same bits as rota_backward's, in a graph that has not computed the op;
 * and what it refuses. */
#include <stdlib.h>
#include <string.h>
#include "tests/ops/gradient_kit.h"

static bool has_gradient(const op_trial *trial) {
    const rota_op *op = trial->example.use.op;
    return (op->gradient || op->remember) && op->differentiable &&
           rota_dtype_is_real(trial->result[0].dtype) &&
           rota_dtype_is_real(trial->example.use.inputs[0].dtype);
}

static uint32_t wanted_of(const rota_op_use *use) {
    uint32_t wanted = 0;
    for (uint32_t i = 0; i < use->input_count; i++)
        if (use->inputs[i].buffer && (use->op->differentiable & 1u << i)) wanted |= 1u << i;
    return wanted;
}

/* The weights as the gradient of y, in its dtype. */
static rota_tensor gradient_of(op_kit *kit, const rota_tensor *y, const float *weights) {
    rota_tensor dy = op_kit_input(kit, ROTA_F32, y->rank, y->shape, weights);
    if (y->dtype != ROTA_F32) assert_ok(rota_op_cast(kit->tape, dy, y->dtype, &dy));
    return dy;
}

/* By both ways in one graph; the op is recorded for the first, and of its results the second has those that the
 * gradient reads. */
static void check_op(const op_trial *trial) {
    const rota_op *op = trial->example.use.op;
    op_kit kit;
    op_kit_open(&kit);
    rota_op_use use = op_trial_use(&kit, trial);
    for (uint32_t i = 0; i < use.output_count; i++) use.outputs[i] = trial->example.use.outputs[i];
    assert_ok(rota_op_apply(kit.tape, &use));
    const uint64_t count = rota_tensor_count(&use.outputs[0]);
    float *weights = malloc((count + 1) * sizeof *weights);
    assert_non_null(weights);
    make_weights(count, weights);
    const bool masks = strcmp(op->name, "causal_mask") == 0; /* whose -infinity is no part of a loss */
    rota_tensor loss, params[ROTA_OP_INPUTS_MAX], grads[ROTA_OP_INPUTS_MAX] = {{0}},
                                                  alone[ROTA_OP_INPUTS_MAX] = {{0}};
    const uint32_t wanted = wanted_of(&use);
    uint32_t outputs[2][ROTA_OP_INPUTS_MAX], params_count = 0;
    for (uint32_t i = 0; i < use.input_count; i++)
        if (wanted & 1u << i) params[params_count++] = use.inputs[i];
    if (!masks) {
        loss = weighted_sum(&kit, use.outputs[0], weights);
        assert_ok(rota_backward(kit.tape, loss, params, params_count, grads, NULL));
    }
    const rota_tensor dy = gradient_of(&kit, &use.outputs[0], weights);
    for (uint32_t i = 0; i < use.output_count; i++)
        if (!(op->saved_outputs & 1u << i) && !op->remember) use.outputs[i].buffer = NULL;
    assert_ok(rota_op_gradient(kit.tape, &use, dy, wanted, alone));
    for (uint32_t i = 0, p = 0; i < use.input_count; i++) {
        if (!(wanted & 1u << i)) continue;
        if (!masks) outputs[0][i] = op_kit_output(&kit, grads[p++]);
        outputs[1][i] = op_kit_output(&kit, alone[i]);
    }
    op_kit_run(&kit);
    for (uint32_t i = 0; i < use.input_count && !masks; i++) {
        if (!(wanted & 1u << i)) continue;
        const void *expected = kit.output_data[outputs[0][i]], *got = kit.output_data[outputs[1][i]];
        if (memcmp(expected, got, kit.output_bytes[outputs[0][i]]) != 0)
            fail_msg("%s (%s): the gradient of '%s' is not rota_backward's", op->name, trial->example.label,
                     op->input_names[i]);
    }
    free(weights);
    op_kit_close(&kit);
}

static void every_op_has_the_gradient_that_backward_gives(void **state) {
    (void)state;
    uint32_t checked = 0;
    for (uint32_t o = 0; o < rota_op_count(); o++) {
        op_trial trial;
        for (uint32_t i = 0; op_trial_make(rota_op_at(o), i, &trial); i++) {
            if (has_gradient(&trial)) {
                check_op(&trial);
                checked++;
            }
            op_trial_free(&trial);
        }
    }
    assert_true(checked > 100);
}

static void gradients_go_where_they_are_asked_for(void **state) {
    (void)state;
    float x[N], dy[N];
    fill_values(x);
    for (int i = 0; i < N; i++) dy[i] = (float)(i - 3);
    op_kit kit;
    op_kit_open(&kit);
    rota_op_use use = {.op = rota_op_find("mul"), .input_count = 2, .output_count = 1};
    use.inputs[0] = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(3, 4), x);
    use.inputs[1] = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(3, 4), x);
    rota_tensor given, transposed, grads[2] = {{0}};
    given = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(4, 3), dy);
    assert_ok(rota_tensor_transpose(&given, 0, 1, &transposed)); /* lies otherwise than the result would */
    assert_ok(rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "dx", ROTA_F32, ROTA_SHAPE(3, 4), &grads[1]));
    const rota_tensor asked = grads[1];
    assert_ok(rota_op_gradient(kit.tape, &use, transposed, 2, grads));
    assert_true(grads[1].buffer == asked.buffer && !grads[0].buffer);
    const uint32_t output = op_kit_output(&kit, asked);
    op_kit_run(&kit);
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 4; c++)
            assert_true(op_kit_f32(&kit, output)[r * 4 + c] == dy[c * 3 + r] * x[r * 4 + c]);
    op_kit_close(&kit);
}

/* Queries, keys and values [2, 2, 5, 4] as thirds of what a product makes, [2, 5, 24]. */
enum { BATCH = 2, LENGTH = 5, HEADS = 2, DIM = 4, WIDTH = HEADS * DIM, ALL = 3 * WIDTH };
enum { THIRD = BATCH * LENGTH * WIDTH };

static void thirds_of(const rota_tensor *whole, rota_tensor out[3]) {
    for (uint32_t i = 0; i < 3; i++) {
        assert_ok(rota_tensor_slice(whole, 2, (uint64_t)i * WIDTH, WIDTH, &out[i]));
        assert_ok(rota_tensor_reshape(&out[i], 4, (const uint64_t[]){BATCH, LENGTH, HEADS, DIM}, &out[i]));
        assert_ok(rota_tensor_transpose(&out[i], 1, 2, &out[i]));
    }
}

static void gradients_lie_side_by_side_as_their_inputs_do(void **state) {
    (void)state;
    float values[3 * THIRD], weights[THIRD];
    make_weights(sizeof values / sizeof *values, values);
    make_weights(THIRD, weights);
    op_kit kit;
    op_kit_open(&kit);
    const rota_tensor whole = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(BATCH, LENGTH, ALL), values);
    rota_tensor y, dy = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(BATCH, LENGTH, HEADS, DIM), weights);
    rota_op_use use = {.op = rota_op_find("attention"), .input_count = 3, .output_count = 2};
    use.attributes.causal = true;
    thirds_of(&whole, use.inputs);
    /* Heads are side by side in the result and its gradient, too, which is read where it is. */
    assert_ok(rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "y", ROTA_F32,
                               ROTA_SHAPE(BATCH, LENGTH, HEADS, DIM), &y));
    assert_ok(rota_tensor_transpose(&y, 1, 2, &use.outputs[0]));
    assert_ok(rota_tensor_transpose(&dy, 1, 2, &dy));
    assert_ok(rota_op_apply(kit.tape, &use));
    rota_tensor gradient, together[ROTA_OP_INPUTS_MAX] = {{0}}, apart[ROTA_OP_INPUTS_MAX] = {{0}};
    assert_ok(rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "dqkv", ROTA_F32,
                               ROTA_SHAPE(BATCH, LENGTH, ALL), &gradient));
    thirds_of(&gradient, together);
    assert_ok(rota_op_gradient(kit.tape, &use, dy, 7, together));
    rota_op_use alone = use;
    uint32_t outputs[3], expected[3];
    assert_ok(rota_op_copy(kit.tape, use.outputs[0], &alone.outputs[0]));
    assert_ok(rota_op_copy(kit.tape, dy, &dy));
    for (uint32_t i = 0; i < 3; i++) assert_ok(rota_op_copy(kit.tape, use.inputs[i], &alone.inputs[i]));
    assert_ok(rota_op_gradient(kit.tape, &alone, dy, 7, apart));
    thirds_of(&gradient, together);
    for (uint32_t i = 0; i < 3; i++) {
        assert_ok(rota_op_copy(kit.tape, together[i], &together[i]));
        outputs[i] = op_kit_output(&kit, together[i]);
        expected[i] = op_kit_output(&kit, apart[i]);
    }
    op_kit_run(&kit);
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t j = 0; j < THIRD; j++) {
            const float a = op_kit_f32(&kit, outputs[i])[j], b = op_kit_f32(&kit, expected[i])[j];
            if (!(fabsf(a - b) <= 1e-6f)) fail_msg("gradient %u, element %u: %g, expected %g", i, j, a, b);
        }
    op_kit_close(&kit);
}

/* Beside one another in other ways, they are no one range. */
static void gradients_that_lie_otherwise_are_refused(void **state) {
    (void)state;
    float values[3 * THIRD], weights[THIRD];
    make_weights(sizeof values / sizeof *values, values);
    make_weights(THIRD, weights);
    op_kit kit;
    op_kit_open(&kit);
    const rota_tensor whole = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(BATCH, LENGTH, ALL), values),
                      dy = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(BATCH, HEADS, LENGTH, DIM), weights);
    rota_op_use use = {.op = rota_op_find("attention"), .input_count = 3, .output_count = 2};
    thirds_of(&whole, use.inputs);
    assert_ok(rota_op_apply(kit.tape, &use));
    rota_tensor gradient, grads[ROTA_OP_INPUTS_MAX] = {{0}};
    assert_ok(rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "dqkv", ROTA_F32,
                               ROTA_SHAPE(BATCH, LENGTH, ALL), &gradient));
    thirds_of(&gradient, grads);
    const rota_tensor first = grads[0];
    grads[0] = grads[1];
    grads[1] = first;
    assert_int_equal(rota_op_gradient(kit.tape, &use, dy, 7, grads), ROTA_INVALID_ARGUMENT);
    assert_message("parameter 0 is f32");
    op_kit_run(&kit);
    op_kit_close(&kit);
}

static void what_has_no_gradient_is_refused(void **state) {
    (void)state;
    float x[N];
    fill_values(x);
    op_kit kit;
    op_kit_open(&kit);
    const rota_tensor input = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(3, 4), x);
    rota_tensor grads[ROTA_OP_INPUTS_MAX] = {{0}};
    rota_op_use use = {.op = rota_op_find("layernorm"), .input_count = 3, .output_count = 2};
    use.inputs[0] = input;
    assert_int_equal(rota_op_gradient(kit.tape, &use, input, 1, grads), ROTA_INVALID_ARGUMENT);
    assert_message("reads 'stats', which is missing");
    use.op = rota_op_find("exp");
    use.input_count = use.output_count = 1;
    use.outputs[0] = input;
    assert_int_equal(rota_op_gradient(kit.tape, &use, input, 2, grads), ROTA_INVALID_ARGUMENT);
    assert_message("wanted of input 1, which there is none of");
    assert_int_equal(rota_op_gradient(kit.tape, &use, ROTA_TENSOR_NONE, 1, grads), ROTA_INVALID_ARGUMENT);
    assert_message("the gradient of 'y' is missing, expected f32 [3, 4]");
    rota_op_use argmax = {.op = rota_op_find("argmax"), .input_count = 1, .output_count = 1};
    argmax.inputs[0] = input;
    assert_int_equal(rota_op_gradient(kit.tape, &argmax, input, 1, grads), ROTA_UNSUPPORTED);
    assert_message("op 'argmax': it has no gradient");
    op_kit_run(&kit);
    op_kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_has_the_gradient_that_backward_gives),
        cmocka_unit_test(gradients_go_where_they_are_asked_for),
        cmocka_unit_test(gradients_lie_side_by_side_as_their_inputs_do),
        cmocka_unit_test(gradients_that_lie_otherwise_are_refused),
        cmocka_unit_test(what_has_no_gradient_is_refused),
    };
    return op_kit_run_tests(tests, sizeof tests / sizeof *tests);
}
