/* Gradients of every op against finite differences of its f64 reference. */
#include <stdlib.h>
#include <string.h>
#include "bench/ops_shapes.h"
#include "tests/kit/todays.h"
#include "tests/ops/gradient_kit.h"

/* Elements of an input that are varied one by one; of larger inputs, a sample. */
#define SAMPLES 40

static double reference_loss(const op_trial *trial, const float *weights) {
    reference r = trial->reference;
    assert_true(reference_run(&r));
    double loss = 0;
    for (uint64_t i = 0; i < rota_tensor_count(&trial->result[0]); i++)
        if (weights[i] != 0) loss += (double)weights[i] * r.out[0][i];
    return loss;
}

static bool is_step(const rota_op *op) {
    static const char *const names[] = {"sign", "floor", "ceil", "round"};
    for (int i = 0; i < 4; i++)
        if (strcmp(op->name, names[i]) == 0) return true;
    return false;
}

static void check_against_differences(const op_trial *trial, uint32_t input, const void *data,
                                      const float *weights) {
    const rota_tensor *x = &trial->example.use.inputs[input];
    const uint64_t count = rota_tensor_count(x), samples = count < SAMPLES ? count : SAMPLES;
    /* Values that lie close together stay in their order. */
    const double step =
        trial->example.fill[input] == ROTA_FILL_DISTINCT ? fmin(1e-4, 0.25 / (double)count) : 1e-4;
    double largest = 1;
    for (uint64_t i = 0; i < count; i++) largest = fmax(largest, fabs(element_load(x->dtype, data, i)));
    /* Of 16 bits: the gradient is rounded, and with it what it is computed from: the cube of a saved output
     * (rsqrt), or products that are then divided or summed (div). */
    const double unit = x->dtype == ROTA_F16 ? 0x1p-11 : x->dtype == ROTA_BF16 ? 0x1p-8 : 0;
    const double half = unit * (trial->example.use.op->saved_outputs ? 4 : 2) * largest;
    for (uint64_t s = 0; s < samples; s++) {
        uint64_t element = s * count / samples;
        double *value = &trial->reference.in[input][element], kept = *value;
        *value = kept + step;
        double above = reference_loss(trial, weights);
        *value = kept - step;
        double below = reference_loss(trial, weights);
        *value = kept;
        /* The difference is off by some step^2 times the third derivative; the gradient by roundings of f32.
         */
        double expected = (above - below) / (2 * step), bound = 2e-5 * largest + 1e-5 + half;
        const double gradient = element_load(x->dtype, data, element);
        if (is_step(trial->example.use.op) && expected != 0) continue; /* a step lies in between */
        if (fabs(expected - gradient) > bound)
            fail_msg("%s (%s): gradient of '%s'[%llu] is %.9g, the difference %.9g, bound %.2g",
                     trial->example.use.op->name, trial->example.label,
                     trial->example.use.op->input_names[input], (unsigned long long)element, gradient,
                     expected, bound);
    }
}

/* Gradients of all inputs of one example. */
static void check_op(const op_trial *trial) {
    const rota_op *op = trial->example.use.op;
    if ((!op->gradient && !op->remember) || !op->differentiable ||
        !rota_dtype_is_real(trial->result[0].dtype) ||
        !rota_dtype_is_real(trial->example.use.inputs[0].dtype))
        return;
    op_kit kit;
    op_kit_open(&kit);
    rota_op_use use = op_trial_use(&kit, trial);
    for (uint32_t i = 0; i < use.output_count; i++) use.outputs[i] = trial->example.use.outputs[i];
    assert_ok(rota_op_apply(kit.tape, &use));
    const uint64_t count = rota_tensor_count(&use.outputs[0]);
    float *weights = malloc(count * sizeof *weights);
    assert_non_null(weights);
    make_weights(count, weights);
    if (strcmp(op->name, "causal_mask") == 0) /* -infinity stays out of the loss */
        for (uint64_t i = 0, keys = use.outputs[0].shape[2], queries = use.outputs[0].shape[1]; i < count;
             i++)
            if (i % keys > i / keys % queries + keys - queries) weights[i] = 0;
    rota_tensor loss, params[ROTA_OP_INPUTS_MAX], grads[ROTA_OP_INPUTS_MAX] = {{0}};
    uint32_t inputs[ROTA_OP_INPUTS_MAX], outputs[ROTA_OP_INPUTS_MAX], wanted = 0;
    for (uint32_t i = 0; i < use.input_count; i++)
        if (use.inputs[i].buffer && (op->differentiable & 1u << i)) {
            inputs[wanted] = i;
            params[wanted++] = use.inputs[i];
        }
    if (strcmp(op->name, "causal_mask") == 0) {
        /* 0 times -infinity is not 0: the loss is taken of the softmax's finite part instead. */
        rota_tensor y;
        assert_ok(rota_op_copy(kit.tape, use.inputs[0], &y));
        assert_ok(rota_op_causal_mask(kit.tape, y, &y));
        assert_ok(rota_op_softmax(kit.tape, y, &y));
        loss = weighted_sum(&kit, y, weights);
    } else {
        loss = weighted_sum(&kit, use.outputs[0], weights);
    }
    assert_ok(rota_backward(kit.tape, loss, params, wanted, grads, NULL));
    for (uint32_t g = 0; g < wanted; g++) outputs[g] = op_kit_output(&kit, grads[g]);
    op_kit_run(&kit);
    if (strcmp(op->name, "causal_mask") == 0) {
        /* What is masked gets nothing. */
        for (uint64_t i = 0, keys = use.outputs[0].shape[2], queries = use.outputs[0].shape[1]; i < count;
             i++) {
            bool masked = i % keys > i / keys % queries + keys - queries;
            const double got = element_load(grads[0].dtype, kit.output_data[outputs[0]], i);
            assert_true(isfinite(got));
            if (masked) assert_true(got == 0);
        }
    } else {
        for (uint32_t g = 0; g < wanted; g++)
            check_against_differences(trial, inputs[g], kit.output_data[outputs[g]], weights);
    }
    free(weights);
    op_kit_close(&kit);
}

static void every_op_has_the_gradient_of_its_reference(void **state) {
    (void)state;
    uint32_t checked = 0;
    const test_todays todays = test_todays_part();
    for (uint32_t o = (uint32_t)todays.part; o < rota_op_count(); o += (uint32_t)todays.parts) {
        op_trial trial;
        for (uint32_t i = 0; op_trial_make(rota_op_at(o), i, &trial); i++) {
            check_op(&trial);
            op_trial_free(&trial);
            checked++;
        }
    }
    assert_true(checked > 100 / todays.parts);
}

/* The same in shapes that the examples don't have, of every third example: differences take their time, and
 * under a sanitizer too much. */
static void every_op_has_it_in_random_shapes(void **state) {
    (void)state;
    uint32_t checked = 0;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip();
#endif
    const test_todays todays = test_todays_part();
    for (uint32_t o = (uint32_t)todays.part; o < rota_op_count(); o += (uint32_t)todays.parts) {
        rota_op_example example;
        for (uint32_t i = o % 3; rota_op_get_example(rota_op_at(o), i, 0, &example); i += 3) {
            op_trial trial;
            if (!shapes_change(&example, SHAPES_RANDOM, 5000 + i) || !op_trial_of(&example, i, &trial))
                continue;
            check_op(&trial);
            op_trial_free(&trial);
            checked++;
        }
    }
    assert_true(checked > 100 / todays.parts);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_op_has_the_gradient_of_its_reference),
                                       cmocka_unit_test(every_op_has_it_in_random_shapes)};
    return op_kit_run_tests(tests, sizeof tests / sizeof *tests);
}
