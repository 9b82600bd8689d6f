/* rota_backward: gradients of every op against finite differences of its f64 reference, and what becomes of
 * views, shared values, operands in place and reused memory. */
#include "tests/op_kit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "tests/random.h"

/* Elements of an input that are varied one by one; of larger inputs, a sample. */
#define SAMPLES 40

/* The loss is the sum of y * w with these weights. */
static void make_weights(uint64_t count, float *out) {
    uint64_t random = 99;
    /* Of 7 bits, so that f16 and bf16 hold them too. */
    for (uint64_t i = 0; i < count; i++)
        out[i] = (float)(rint(((double)(test_random(&random) >> 11) * 0x1p-52 - 1) * 128) / 128);
}

static rota_tensor weighted_sum(op_kit *kit, rota_tensor y, const float *weights) {
    rota_tensor w, product, loss;
    const uint64_t count = rota_tensor_count(&y);
    w = op_kit_input(kit, ROTA_F32, y.rank, y.shape, weights);
    if (y.dtype != ROTA_F32) assert_ok(rota_op_cast(kit->tape, y, ROTA_F32, &y));
    assert_ok(rota_op_mul(kit->tape, y, w, &product));
    assert_ok(rota_op_reshape(kit->tape, product, ROTA_SHAPE(count), &product));
    assert_ok(rota_op_sum(kit->tape, product, 0, false, &loss));
    return loss;
}

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
        uint64_t at = s * count / samples;
        double *value = &trial->reference.in[input][at], kept = *value;
        *value = kept + step;
        double above = reference_loss(trial, weights);
        *value = kept - step;
        double below = reference_loss(trial, weights);
        *value = kept;
        /* The difference is off by some step^2 times the third derivative; the gradient by roundings of f32.
         */
        double expected = (above - below) / (2 * step), bound = 2e-5 * largest + 1e-5 + half;
        const double gradient = element_load(x->dtype, data, at);
        if (is_step(trial->example.use.op) && expected != 0) continue; /* a step lies in between */
        if (fabs(expected - gradient) > bound)
            fail_msg("%s (%s): gradient of '%s'[%llu] is %.9g, the difference %.9g, bound %.2g",
                     trial->example.use.op->name, trial->example.label,
                     trial->example.use.op->input_names[input], (unsigned long long)at, gradient, expected,
                     bound);
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
    for (uint32_t o = 0; o < rota_op_count(); o++) {
        op_trial trial;
        for (uint32_t i = 0; op_trial_make(rota_op_at(o), i, &trial); i++) {
            check_op(&trial);
            op_trial_free(&trial);
            checked++;
        }
    }
    assert_true(checked > 100);
}

/* ---- Graphs of several ops, against differences of a plain f64 function ---- */

#define N 12

/* Checks a gradient of a scalar function of N values. */
static void check_function(double (*f)(const double *x), const float *x, const float *gradient,
                           const char *what) {
    double values[N];
    for (int i = 0; i < N; i++) values[i] = (double)x[i];
    for (int i = 0; i < N; i++) {
        double kept = values[i];
        values[i] = kept + 1e-5;
        double above = f(values);
        values[i] = kept - 1e-5;
        double below = f(values), expected = (above - below) / 2e-5;
        values[i] = kept;
        if (fabs(expected - (double)gradient[i]) > 1e-4 * fmax(1, fabs(expected)))
            fail_msg("%s: gradient %d is %.9g, expected %.9g", what, i, (double)gradient[i], expected);
    }
}

static void fill_values(float *x) {
    for (int i = 0; i < N; i++) x[i] = 0.3f + 0.11f * (float)i;
}

static rota_tensor total(op_kit *kit, rota_tensor x) {
    rota_tensor y;
    assert_ok(rota_op_reshape(kit->tape, x, ROTA_SHAPE(rota_tensor_count(&x)), &y));
    assert_ok(rota_op_sum(kit->tape, y, 0, false, &y));
    return y;
}

static double shared_value(const double *x) {
    double sum = 0;
    for (int i = 0; i < N; i++) sum += x[i] * x[i] * exp(x[i]) + x[i];
    return sum;
}

static double squared_twice(const double *x) {
    double sum = 0;
    for (int i = 0; i < N; i++) sum += (x[i] * x[i] + 1) * (x[i] * x[i] + 1) * (1 + i);
    return sum;
}

static double slices(const double *x) {
    double sum = 0;
    for (int r = 0; r < 3; r++)
        sum += x[r * 4] * x[r * 4 + 2] + x[r * 4 + 1] * x[r * 4 + 1] + 3 * x[r * 4 + 2];
    return sum;
}

static void values_used_again_add_up(void **state) {
    (void)state;
    float x[N];
    fill_values(x);
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), x), a, b, y, grads[1] = {{0}};
    assert_ok(rota_op_mul(kit.tape, p, p, &a));
    assert_ok(rota_op_exp(kit.tape, p, &b));
    assert_ok(rota_op_mul(kit.tape, a, b, &y));
    assert_ok(rota_op_add(kit.tape, y, p, &y));
    assert_ok(rota_backward(kit.tape, total(&kit, y), &p, 1, grads, NULL));
    uint32_t output = op_kit_output(&kit, grads[0]);
    op_kit_run(&kit);
    check_function(shared_value, x, op_kit_f32(&kit, output), "shared value");
    op_kit_close(&kit);
}

/* In place and in reused memory, the gradient follows the values, not the addresses. */
static void operands_in_place_keep_their_gradients(void **state) {
    (void)state;
    float x[N], weights[N];
    fill_values(x);
    for (int i = 0; i < N; i++) weights[i] = (float)(1 + i);
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), x), y, z, one, w, grads[1] = {{0}};
    w = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(N), weights);
    assert_ok(rota_op_mul(kit.tape, p, p, &y));
    assert_ok(rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "one", ROTA_F32, ROTA_SHAPE(1), &one));
    assert_ok(rota_op_fill_into(kit.tape, one, 1));
    assert_ok(rota_op_add_into(kit.tape, y, one, y)); /* x^2 + 1, in place */
    assert_ok(rota_op_mul(kit.tape, y, y, &z));
    assert_ok(rota_op_affine_into(kit.tape, z, ROTA_PLAIN(2), ROTA_PLAIN(0), z)); /* in place */
    assert_ok(rota_op_scale_into(kit.tape, z, ROTA_PLAIN(0.5), z));
    assert_ok(rota_op_mul(kit.tape, z, w, &z));
    rota_tensor loss = total(&kit, z);
    /* The memory of a value that no gradient reads is used for something else, which the loss depends on not.
     */
    assert_ok(rota_op_copy_into(kit.tape, w, z));
    assert_ok(rota_backward(kit.tape, loss, &p, 1, grads, NULL));
    uint32_t output = op_kit_output(&kit, grads[0]);
    op_kit_run(&kit);
    check_function(squared_twice, x, op_kit_f32(&kit, output), "in place");
    op_kit_close(&kit);
}

static void slices_of_one_buffer_have_their_own_gradients(void **state) {
    (void)state;
    float x[N];
    fill_values(x);
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(3, 4), x), all, column[3], y, z,
                grads[1] = {{0}};
    assert_ok(rota_op_copy(kit.tape, p, &all));
    for (uint32_t c = 0; c < 3; c++) assert_ok(rota_tensor_slice(&all, 1, c, 1, &column[c]));
    assert_ok(rota_op_mul(kit.tape, column[0], column[2], &y));
    assert_ok(rota_op_mul(kit.tape, column[1], column[1], &z));
    assert_ok(rota_op_add(kit.tape, y, z, &y));
    /* Columns written apart, read together. */
    rota_tensor pair, half;
    assert_ok(rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "pair", ROTA_F32, ROTA_SHAPE(3, 2), &pair));
    assert_ok(rota_op_fill_into(kit.tape, pair, 0));
    assert_ok(rota_tensor_slice(&pair, 1, 0, 1, &half));
    assert_ok(rota_op_copy_into(kit.tape, y, half));
    assert_ok(rota_tensor_slice(&pair, 1, 1, 1, &half));
    assert_ok(rota_op_scale_into(kit.tape, column[2], ROTA_PLAIN(3), half));
    assert_ok(rota_backward(kit.tape, total(&kit, pair), &p, 1, grads, NULL));
    uint32_t output = op_kit_output(&kit, grads[0]);
    op_kit_run(&kit);
    check_function(slices, x, op_kit_f32(&kit, output), "slices");
    for (int r = 0; r < 3; r++) assert_true(op_kit_f32(&kit, output)[r * 4 + 3] == 0);
    op_kit_close(&kit);
}

/* Query, key and value as slices of one product, heads side by side: the same as from contiguous copies. */
static void attention_of_slices_is_attention(void **state) {
    (void)state;
    enum { B = 2, T = 9, H = 2, D = 4, C = H * D };
    static float x[B * T * 3 * C], weights[B * T * C];
    make_weights(B * T * 3 * C, x);
    make_weights(B * T * C, weights);
    for (int causal = 0; causal < 2; causal++) {
        op_kit kit;
        uint32_t outputs[3];
        op_kit_open(&kit);
        rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(B, T, 3 * C), x);
        rota_tensor w = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(B, T, C), weights);
        for (int form = 0; form < 3; form++) {
            rota_tensor all, part[3], merged, heads, y, grads[1] = {{0}};
            assert_ok(rota_op_copy(kit.tape, p, &all));
            for (uint32_t i = 0; i < 3; i++) {
                assert_ok(rota_tensor_slice(&all, 2, i * C, C, &part[i]));
                assert_ok(rota_tensor_reshape(&part[i], ROTA_SHAPE(B, T, H, D), &part[i]));
                assert_ok(rota_tensor_transpose(&part[i], 1, 2, &part[i]));
                if (form == 1) assert_ok(rota_op_contiguous(kit.tape, part[i], &part[i]));
            }
            assert_ok(rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, NULL, ROTA_F32, ROTA_SHAPE(B, T, C),
                                       &merged));
            assert_ok(rota_tensor_reshape(&merged, ROTA_SHAPE(B, T, H, D), &heads));
            assert_ok(rota_tensor_transpose(&heads, 1, 2, &heads));
            if (form == 2) {
                assert_ok(rota_op_attention_separate(kit.tape, part[0], part[1], part[2], causal, 0, &y));
                assert_ok(rota_op_copy_into(kit.tape, y, heads));
            } else {
                assert_ok(rota_op_attention_into(kit.tape, part[0], part[1], part[2], causal, 0, heads));
            }
            assert_ok(rota_op_mul(kit.tape, merged, w, &y));
            assert_ok(rota_backward(kit.tape, total(&kit, y), &p, 1, grads, NULL));
            outputs[form] = op_kit_output(&kit, grads[0]);
        }
        op_kit_run(&kit);
        for (int i = 0; i < B * T * 3 * C; i++)
            for (int form = 1; form < 3; form++)
                assert_true(fabsf(op_kit_f32(&kit, outputs[0])[i] - op_kit_f32(&kit, outputs[form])[i]) <
                            2e-5f);
        op_kit_close(&kit);
    }
}

/* ---- What is asked of rota_backward ---- */

static void gradients_go_where_they_are_asked(void **state) {
    (void)state;
    float x[N], old[N], weights[N];
    fill_values(x);
    for (int i = 0; i < N; i++) old[i] = (float)(100 + i), weights[i] = (float)i;
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), x);
    rota_tensor unused = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), x);
    rota_tensor g = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), old);
    rota_tensor w = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(N), weights), y;
    const rota_tensor params[2] = {p, unused};
    rota_tensor grads[2] = {g, ROTA_TENSOR_NONE}, again[2] = {g, ROTA_TENSOR_NONE};
    assert_ok(rota_op_mul(kit.tape, p, w, &y));
    assert_ok(rota_backward(kit.tape, total(&kit, y), params, 2, grads,
                            &(rota_backward_options){.accumulate = true}));
    assert_ptr_equal(grads[0].buffer, g.buffer);
    uint32_t added = op_kit_output(&kit, g), none = op_kit_output(&kit, grads[1]);
    assert_ok(rota_op_mul(kit.tape, p, w, &y));
    assert_ok(rota_backward(kit.tape, total(&kit, y), params, 2, again, NULL));
    uint32_t overwritten = op_kit_output(&kit, g);
    op_kit_run(&kit);
    for (int i = 0; i < N; i++) {
        assert_true(op_kit_f32(&kit, added)[i] == old[i] + weights[i]);
        assert_true(op_kit_f32(&kit, none)[i] == 0);
        assert_true(op_kit_f32(&kit, overwritten)[i] == weights[i]);
    }
    op_kit_close(&kit);
}

/* Parameters side by side in one buffer, gradients in another. */
static void parameters_may_share_a_buffer(void **state) {
    (void)state;
    float x[N];
    fill_values(x);
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor all = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), x), params[2], grads[2], y, z, sink;
    assert_ok(rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "sink", ROTA_F32, ROTA_SHAPE(N), &sink));
    for (uint64_t i = 0; i < 2; i++) {
        assert_ok(rota_tensor_slice(&all, 0, i * (N / 2), N / 2, &params[i]));
        assert_ok(rota_tensor_slice(&sink, 0, i * (N / 2), N / 2, &grads[i]));
    }
    assert_ok(rota_op_mul(kit.tape, params[0], params[1], &y));
    assert_ok(rota_op_mul(kit.tape, y, params[0], &z));
    rota_tensor loss = total(&kit, z), across, fresh[2] = {{0}};
    assert_ok(rota_tensor_slice(&all, 0, 1, N / 2, &across));
    assert_ok(rota_backward(kit.tape, loss, params, 2, grads, NULL));
    uint32_t output = op_kit_output(&kit, sink);
    /* A tensor across both can't have its gradient in either. */
    assert_ok(rota_op_mul(kit.tape, across, params[0], &y));
    assert_status(rota_backward(kit.tape, total(&kit, y), params, 2, fresh, NULL), ROTA_UNSUPPORTED);
    op_kit_run(&kit);
    for (int i = 0; i < N / 2; i++) {
        float a = x[i], b = x[i + N / 2];
        assert_true(fabsf(op_kit_f32(&kit, output)[i] - 2 * a * b) < 1e-5f);
        assert_true(fabsf(op_kit_f32(&kit, output)[i + N / 2] - a * a) < 1e-5f);
    }
    op_kit_close(&kit);
}

/* The gradient of a weight that all batches share is summed over so many rows that it is summed up in parts,
 * where their number allows it: 2^4 * 5 * 103 rows, and a prime number of them. It may be added to what there
 * is. */
static void long_sums_of_a_weight_are_whole(void **state) {
    (void)state;
    enum { K = 3, COLUMNS = 2 };
    static const uint64_t rows_of[] = {8240, 8243};
    for (uint32_t round = 0; round < 2; round++) {
        const uint64_t rows = rows_of[round];
        float *x = malloc(rows * K * sizeof *x), *c = malloc(rows * COLUMNS * sizeof *c);
        float first[K * COLUMNS] = {0};
        assert_non_null(x);
        assert_non_null(c);
        make_weights(rows * K, x);
        make_weights(rows * COLUMNS, c);
        op_kit kit;
        op_kit_open(&kit);
        rota_tensor input = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(1, rows, K), x), y;
        rota_tensor w = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(K, COLUMNS), first),
                    grad = ROTA_TENSOR_NONE;
        uint32_t outputs[2];
        for (uint32_t again = 0; again < 2; again++) {
            assert_ok(rota_op_matmul(kit.tape, input, w, false, false, &y));
            assert_ok(rota_backward(kit.tape, weighted_sum(&kit, y, c), &w, 1, &grad,
                                    &(rota_backward_options){.accumulate = again}));
            outputs[again] = op_kit_output(&kit, grad);
        }
        op_kit_run(&kit);
        for (uint32_t i = 0; i < K; i++)
            for (uint32_t j = 0; j < COLUMNS; j++) {
                double expected = 0, magnitude = 0;
                for (uint64_t r = 0; r < rows; r++) {
                    const double term = (double)x[r * K + i] * (double)c[r * COLUMNS + j];
                    expected += term;
                    magnitude += fabs(term);
                }
                for (uint32_t again = 0; again < 2; again++) {
                    const double got = (double)op_kit_f32(&kit, outputs[again])[i * COLUMNS + j];
                    assert_true(fabs(got - (again + 1) * expected) <= 2 * (double)rows * 0x1p-24 * magnitude);
                }
            }
        op_kit_close(&kit);
        free(x);
        free(c);
    }
}

#define assert_message(part)                                                                                 \
    do {                                                                                                     \
        if (!strstr(rota_last_error(), part)) fail_msg("'%s' is not in: %s", part, rota_last_error());       \
    } while (0)

/* The gradients of x and w through a product, whose own gradient may take its place, are the same bits; and
 * it does. */
static void a_classifier_keeps_its_gradient_in_place(void **state) {
    (void)state;
    enum { ROWS = 6, DIM = 5, CLASSES = 9 };
    float x[ROWS * DIM], w[DIM * CLASSES];
    const int32_t labels[ROWS] = {3, 0, ROTA_IGNORED_LABEL, 8, 1, 1};
    for (int i = 0; i < ROWS * DIM; i++) x[i] = (float)(i * 7 % 11) * 0.1f - 0.5f;
    for (int i = 0; i < DIM * CLASSES; i++) w[i] = (float)(i * 5 % 13) * 0.1f - 0.6f;
    op_kit kits[2];
    uint32_t loss_at[2], grad_at[2][2], logits_at[2];
    for (int in_place = 0; in_place < 2; in_place++) {
        op_kit *kit = &kits[in_place];
        op_kit_open(kit);
        rota_tensor params[2], grads[2] = {{0}}, logits, loss;
        params[0] = op_kit_input(kit, ROTA_F32, ROTA_SHAPE(ROWS, DIM), x);
        params[1] = op_kit_input(kit, ROTA_F32, ROTA_SHAPE(DIM, CLASSES), w);
        rota_tensor label = op_kit_input(kit, ROTA_I32, ROTA_SHAPE(ROWS), labels);
        const rota_classifier options = {
            .ignored = ROTA_IGNORED_LABEL, .smoothing = 0.1f, .in_place = in_place != 0};
        assert_ok(rota_op_matmul(kit->tape, params[0], params[1], false, false, &logits));
        assert_ok(rota_op_classifier(kit->tape, logits, label, &options, &loss));
        assert_ok(rota_backward(kit->tape, loss, params, 2, grads, NULL));
        loss_at[in_place] = op_kit_output(kit, loss);
        logits_at[in_place] = op_kit_output(kit, logits);
        for (int g = 0; g < 2; g++) grad_at[in_place][g] = op_kit_output(kit, grads[g]);
        op_kit_run(kit);
    }
    assert_true(*op_kit_f32(&kits[0], loss_at[0]) == *op_kit_f32(&kits[1], loss_at[1]));
    for (int g = 0; g < 2; g++)
        assert_memory_equal(op_kit_f32(&kits[0], grad_at[0][g]), op_kit_f32(&kits[1], grad_at[1][g]),
                            kits[0].output_bytes[grad_at[0][g]]);
    /* each row of the gradient adds up to 0, and the ignored one is 0 */
    const float *dlogits = op_kit_f32(&kits[1], logits_at[1]);
    assert_memory_not_equal(op_kit_f32(&kits[0], logits_at[0]), dlogits, sizeof(float) * ROWS * CLASSES);
    for (int r = 0; r < ROWS; r++) {
        double sum = 0;
        for (int c = 0; c < CLASSES; c++) {
            sum += (double)dlogits[r * CLASSES + c];
            if (r == 2) assert_true(dlogits[r * CLASSES + c] == 0);
        }
        assert_true(fabs(sum) < 1e-6);
    }
    op_kit_close(&kits[0]);
    op_kit_close(&kits[1]);
}

/* Who needs the logits after the classifier took their place is told so. */
static void a_classifier_leaves_no_logits_to_others(void **state) {
    (void)state;
    float x[12] = {1, 2, 3};
    const int32_t labels[3] = {0, 1, 2};
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(3, 4), x), grads[1] = {{0}}, logits, other, loss;
    rota_tensor label = op_kit_input(&kit, ROTA_I32, ROTA_SHAPE(3), labels);
    const rota_classifier options = {.ignored = ROTA_IGNORED_LABEL, .in_place = true};
    assert_ok(rota_op_scale(kit.tape, p, rota_value_plain(2), &logits));
    assert_ok(rota_op_sum_squares(kit.tape, logits, &other));
    assert_ok(rota_op_classifier(kit.tape, logits, label, &options, &loss));
    assert_ok(rota_op_add(kit.tape, loss, other, &loss));
    assert_status(rota_backward(kit.tape, loss, &p, 1, grads, NULL), ROTA_WRONG_STATE);
    assert_non_null(strstr(rota_last_error(), "'classifier' overwrote"));
    op_kit_close(&kit);
}

/* Four query heads on two key heads are four on four where each of the two stands twice. */
static void query_groups_share_their_keys(void **state) {
    (void)state;
    enum {
        HEADS = 4,
        KV = 2,
        QUERIES = 3,
        KEYS = 5,
        DIM = 4,
        Q = HEADS * QUERIES * DIM,
        K = KV * KEYS * DIM
    };
    float q[Q], k[K], v[K], twice[2][2 * K];
    for (int i = 0; i < Q; i++) q[i] = (float)(i * 7 % 13) * 0.2f - 1;
    for (int i = 0; i < K; i++)
        k[i] = (float)(i * 5 % 17) * 0.1f - 0.7f, v[i] = (float)(i * 11 % 19) * 0.1f - 0.9f;
    for (int i = 0; i < 2 * K; i++) {
        const int from = i / (2 * KEYS * DIM) * KEYS * DIM + i % (KEYS * DIM);
        twice[0][i] = k[from], twice[1][i] = v[from];
    }
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor few[3], many[3], y[2], loss, grads[2][3] = {{{0}}};
    uint32_t y_at[2], grad_at[2][3];
    few[0] = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(1, HEADS, QUERIES, DIM), q);
    few[1] = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(1, KV, KEYS, DIM), k);
    few[2] = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(1, KV, KEYS, DIM), v);
    many[0] = few[0];
    for (int i = 1; i < 3; i++)
        many[i] = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(1, HEADS, KEYS, DIM), twice[i - 1]);
    for (int i = 0; i < 2; i++) {
        const rota_tensor *in = i ? many : few;
        assert_ok(rota_op_attention(kit.tape, in[0], in[1], in[2], true, 0, &y[i]));
        y_at[i] = op_kit_output(&kit, y[i]);
        assert_ok(rota_op_sum_squares(kit.tape, y[i], &loss));
        assert_ok(rota_backward(kit.tape, loss, in, 3, grads[i], NULL));
        for (int g = 0; g < 3; g++) grad_at[i][g] = op_kit_output(&kit, grads[i][g]);
    }
    op_kit_run(&kit);
    assert_memory_equal(op_kit_f32(&kit, y_at[0]), op_kit_f32(&kit, y_at[1]), sizeof q);
    assert_memory_equal(op_kit_f32(&kit, grad_at[0][0]), op_kit_f32(&kit, grad_at[1][0]), sizeof q);
    for (int g = 1; g < 3; g++)
        for (int i = 0; i < K; i++) {
            const float *all = op_kit_f32(&kit, grad_at[1][g]);
            const int at = i / (KEYS * DIM) * 2 * KEYS * DIM + i % (KEYS * DIM);
            const double sum = (double)all[at] + (double)all[at + KEYS * DIM];
            assert_true(fabs((double)op_kit_f32(&kit, grad_at[0][g])[i] - sum) <= 1e-6 * fmax(1, fabs(sum)));
        }
    op_kit_close(&kit);
}

static double made_of_others(const double *x) {
    /* mse, l1, huber against 0.5; PatchTST's attention of two layers is compared elsewhere */
    double mse = 0, l1 = 0, huber = 0;
    for (int i = 0; i < N; i++) {
        const double d = x[i] - 0.5, a = fabs(d);
        mse += d * d / N;
        l1 += a / N;
        huber += (a <= 0.4 ? d * d / 2 : 0.4 * (a - 0.2)) / N;
    }
    return mse + 2 * l1 + 3 * huber;
}

static double grouped(const double *x) {
    /* group norm of [2, 6], two groups of three channels, weight 1 + c / 4, bias c / 8; sum of y^2 * (1 + i)
     */
    double sum = 0;
    for (int g = 0; g < 4; g++) {
        double mean = 0, variance = 0;
        for (int i = 0; i < 3; i++) mean += x[g * 3 + i] / 3;
        for (int i = 0; i < 3; i++) variance += (x[g * 3 + i] - mean) * (x[g * 3 + i] - mean) / 3;
        for (int i = 0; i < 3; i++) {
            const int c = g % 2 * 3 + i;
            const double y = (x[g * 3 + i] - mean) / sqrt(variance + 1e-3) * (1 + c / 4.0) + c / 8.0;
            sum += y * y;
        }
    }
    return sum;
}

static void ops_made_of_others_have_gradients(void **state) {
    (void)state;
    float x[N], half[N], weight[6], bias[6];
    fill_values(x);
    for (int i = 0; i < N; i++) half[i] = 0.5f;
    for (int i = 0; i < 6; i++) weight[i] = 1 + (float)i / 4, bias[i] = (float)i / 8;
    x[3] += 0.7f;
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), x),
                t = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(N), half);
    rota_tensor a, b, c, loss, y, rows, grads[1] = {{0}}, again[1] = {{0}};
    assert_ok(rota_op_mse(kit.tape, p, t, &a));
    assert_ok(rota_op_l1(kit.tape, p, t, &b));
    assert_ok(rota_op_huber(kit.tape, p, t, 0.4f, &c));
    assert_ok(rota_op_scale(kit.tape, b, rota_value_plain(2), &b));
    assert_ok(rota_op_scale(kit.tape, c, rota_value_plain(3), &c));
    assert_ok(rota_op_add(kit.tape, a, b, &loss));
    assert_ok(rota_op_add(kit.tape, loss, c, &loss));
    assert_ok(rota_backward(kit.tape, loss, &p, 1, grads, NULL));
    uint32_t first = op_kit_output(&kit, grads[0]), value = op_kit_output(&kit, loss);
    rota_tensor w = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(6), weight),
                d = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(6), bias);
    assert_ok(rota_tensor_reshape(&p, ROTA_SHAPE(2, 6), &rows));
    assert_ok(rota_op_group_norm(kit.tape, rows, 2, w, d, 1e-3f, &y));
    assert_ok(rota_op_sum_squares(kit.tape, y, &loss));
    assert_ok(rota_backward(kit.tape, loss, &p, 1, again, NULL));
    uint32_t second = op_kit_output(&kit, again[0]);
    op_kit_run(&kit);
    double values[N];
    for (int i = 0; i < N; i++) values[i] = (double)x[i];
    assert_true(fabs((double)*op_kit_f32(&kit, value) - made_of_others(values)) < 1e-5);
    check_function(made_of_others, x, op_kit_f32(&kit, first), "mse + 2 l1 + 3 huber");
    check_function(grouped, x, op_kit_f32(&kit, second), "group norm");
    op_kit_close(&kit);
}

/* Rows [3, 4] of which some have zeroes, and columns with an odd length. */
static double products(const double *x) {
    double sum = 0;
    for (int r = 0; r < 3; r++) sum += (1 + r) * x[r * 4] * x[r * 4 + 1] * x[r * 4 + 2] * x[r * 4 + 3];
    for (int c = 0; c < 4; c++) sum += x[c] * x[4 + c] * x[8 + c];
    return sum;
}

static void products_with_zeroes_have_gradients(void **state) {
    (void)state;
    float x[N], weights[3] = {1, 2, 3};
    fill_values(x);
    x[5] = x[8] = x[10] = 0;
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(3, 4), x), w, rows, columns, one, loss,
                grads[1] = {{0}};
    w = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(3), weights);
    assert_ok(rota_op_prod(kit.tape, p, 1, false, &rows));
    assert_int_equal(rows.rank, 1);
    assert_ok(rota_op_mul(kit.tape, rows, w, &rows));
    assert_ok(rota_op_prod(kit.tape, p, 0, true, &columns));
    assert_true(columns.rank == 2 && columns.shape[0] == 1 && columns.shape[1] == 4);
    assert_ok(rota_op_prod(kit.tape, columns, 0, false, &one)); /* of one element */
    assert_ok(rota_op_add(kit.tape, total(&kit, rows), total(&kit, one), &loss));
    assert_ok(rota_backward(kit.tape, loss, &p, 1, grads, NULL));
    const uint32_t gradient = op_kit_output(&kit, grads[0]), value = op_kit_output(&kit, loss);
    assert_status(rota_op_prod(kit.tape, p, 2, false, &one), ROTA_INVALID_ARGUMENT);
    assert_message("prod: x is f32 [3, 4], the axis 2");
    op_kit_run(&kit);
    double values[N];
    for (int i = 0; i < N; i++) values[i] = (double)x[i];
    assert_true(fabs((double)*op_kit_f32(&kit, value) - products(values)) < 1e-6);
    check_function(products, x, op_kit_f32(&kit, gradient), "products");
    op_kit_close(&kit);
}

static void impossible_gradients_are_refused(void **state) {
    (void)state;
    float x[N];
    fill_values(x);
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), x), y, z, grads[2] = {{0}}, other;
    rota_tape *without;
    assert_ok(rota_op_exp(kit.tape, p, &y));
    assert_ok(rota_op_mul(kit.tape, y, y, &z));
    assert_ok(rota_op_fill_into(kit.tape, y, 3));
    assert_status(rota_backward(kit.tape, total(&kit, z), &p, 1, grads, NULL), ROTA_WRONG_STATE);
    assert_message("op 'mul' needs its 'a'");
    assert_message("op 'fill' overwrote");
    grads[0] = ROTA_TENSOR_NONE;
    assert_ok(rota_op_global_norm(kit.tape, &p, 1, 1, &other));
    rota_op_use use = {.op = rota_op_find("global_norm"), .input_count = 5, .output_count = 1, .inputs = {p}};
    use.attributes.scale = 1;
    assert_ok(rota_op_apply(kit.tape, &use));
    assert_ok(rota_tensor_slice(&use.outputs[0], 0, 0, 1, &y));
    assert_status(rota_backward(kit.tape, y, &p, 1, grads, NULL), ROTA_UNSUPPORTED);
    assert_message("op 'global_norm'");
    assert_status(rota_backward(kit.tape, p, &p, 1, grads, NULL), ROTA_INVALID_ARGUMENT);
    assert_message("expected one f32 element");
    grads[0] = ROTA_TENSOR_NONE;
    const rota_tensor twice[2] = {p, p};
    assert_status(rota_backward(kit.tape, y, twice, 2, grads, NULL), ROTA_INVALID_ARGUMENT);
    assert_message("overlaps another one");
    grads[0] = y;
    assert_status(rota_backward(kit.tape, y, &p, 1, grads, NULL), ROTA_INVALID_ARGUMENT);
    assert_message("like its parameter");
    assert_ok(rota_tape_create(kit.recorder, &(rota_tape_options){.no_gradients = true}, &without));
    assert_status(rota_backward(without, y, &p, 1, grads, NULL), ROTA_WRONG_STATE);
    rota_tape_destroy(without);
    op_kit_close(&kit);
}

/* Mixed precision: 16-bit copies of f32 parameters, values at odd places of 16-bit buffers, and f32 in
 * between. */
static void gradients_cross_dtypes(void **state) {
    (void)state;
    for (rota_dtype dtype = ROTA_F16; dtype <= ROTA_BF16; dtype++) {
        const double unit = dtype == ROTA_F16 ? 0x1p-11 : 0x1p-8;
        float x[N];
        uint16_t halves[N + 1] = {0};
        fill_values(x);
        for (uint64_t i = 0; i < N; i++) element_store(dtype, halves, i, 0.5 + 0.0625 * (double)i);
        op_kit kit;
        op_kit_open(&kit);
        rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), x), h, q, back, y, z, part[3];
        h = op_kit_variable(&kit, dtype, ROTA_SHAPE(N), halves);
        assert_ok(rota_op_cast(kit.tape, p, dtype, &q));
        assert_ok(rota_op_mul(kit.tape, q, h, &y)); /* x h */
        /* Thirds that begin at odd elements: squares of [1, 4), the rest as it is. */
        assert_ok(rota_tensor_slice(&y, 0, 1, 3, &part[0]));
        assert_ok(rota_op_square(kit.tape, part[0], &z));
        assert_ok(rota_op_cast(kit.tape, z, ROTA_F32, &z));
        assert_ok(rota_tensor_slice(&y, 0, 5, 7, &part[1]));
        assert_ok(rota_op_cast(kit.tape, part[1], ROTA_F32, &back));
        rota_tensor first = total(&kit, z), second = total(&kit, back), loss, params[2] = {p, h},
                    grads[2] = {{0}};
        assert_ok(rota_op_add(kit.tape, first, second, &loss));
        assert_ok(rota_backward(kit.tape, loss, params, 2, grads, NULL));
        assert_int_equal(grads[0].dtype, ROTA_F32);
        assert_int_equal(grads[1].dtype, dtype);
        uint32_t of_p = op_kit_output(&kit, grads[0]), of_h = op_kit_output(&kit, grads[1]);
        op_kit_run(&kit);
        for (int i = 0; i < N; i++) {
            const double a = (double)x[i], b = element_load(dtype, halves, (uint64_t)i);
            const double slope = i >= 1 && i < 4 ? 2 * a * b : i >= 5 ? 1 : 0;
            const double dp = (double)op_kit_f32(&kit, of_p)[i],
                         dh = element_load(dtype, kit.output_data[of_h], (uint64_t)i);
            /* the cast of x, its product, the square's slope and the last product are each rounded */
            if (fabs(dp - slope * b) > 4 * unit * fabs(slope * b) ||
                fabs(dh - slope * a) > 4 * unit * fabs(slope * a))
                fail_msg("%s, %d: %g and %g, expected %g and %g", rota_dtype_name(dtype), i, dp, dh,
                         slope * b, slope * a);
        }
        op_kit_close(&kit);
    }
}

static double put_together(const double *x) {
    double sum = 0;
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 4; c++) {
            const double left = x[r * 4 + (c < 2 ? c + 2 : c - 2)]; /* halves exchanged */
            sum += left * left * (1 + r * 4 + c) + (r + 1) * x[c] * x[c];
        }
    return sum;
}

/* concat, broadcast and column_sums are views and other ops: gradients pass. */
static void gradients_pass_through_compositions(void **state) {
    (void)state;
    float x[N], weights[N];
    fill_values(x);
    for (int i = 0; i < N; i++) weights[i] = (float)(1 + i);
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(3, 4), x), part[2], y, w, row, z,
                grads[1] = {{0}};
    w = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(3, 4), weights);
    const float rows[3] = {1, 2, 3};
    rota_tensor v = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(3, 1), rows);
    assert_ok(rota_tensor_split(&p, 1, 2, part));
    assert_ok(rota_op_concat(kit.tape, (const rota_tensor[]){part[1], part[0]}, 2, 1, &y));
    assert_ok(rota_op_square(kit.tape, y, &y));
    assert_ok(rota_op_mul(kit.tape, y, w, &y));
    assert_ok(rota_tensor_slice(&p, 0, 0, 1, &row));
    assert_ok(rota_op_broadcast(kit.tape, row, ROTA_SHAPE(3, 4), &z));
    assert_ok(rota_op_square(kit.tape, z, &z));
    assert_ok(rota_op_mul(kit.tape, z, v, &z));
    assert_ok(rota_op_add(kit.tape, y, z, &y));
    assert_ok(rota_op_column_sums(kit.tape, y, &y));
    assert_ok(rota_backward(kit.tape, total(&kit, y), &p, 1, grads, NULL));
    uint32_t output = op_kit_output(&kit, grads[0]);
    op_kit_run(&kit);
    check_function(put_together, x, op_kit_f32(&kit, output), "compositions");
    op_kit_close(&kit);
}

/* 16-bit gradients that are added to: given, at odd places, and accumulated. */
static void halves_accumulate(void **state) {
    (void)state;
    uint16_t x[N], old[N + 1];
    for (uint64_t i = 0; i < N; i++) element_store(ROTA_BF16, x, i, 0.5 + 0.125 * (double)i);
    for (uint64_t i = 0; i < N + 1; i++) element_store(ROTA_BF16, old, i, 8);
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        op_kit kit;
        op_kit_open(&kit);
        rota_tensor p = op_kit_variable(&kit, ROTA_BF16, ROTA_SHAPE(N), x);
        rota_tensor sink = op_kit_variable(&kit, ROTA_BF16, ROTA_SHAPE(N + 1), old), g, y, part;
        assert_ok(rota_tensor_slice(&sink, 0, 1, N, &g));
        assert_ok(rota_tensor_slice(&p, 0, 3, 6, &part));
        assert_ok(rota_op_add(kit.tape, part, part, &y)); /* twice, of six elements */
        assert_ok(rota_op_cast(kit.tape, y, ROTA_F32, &y));
        assert_ok(rota_backward(kit.tape, total(&kit, y), &p, 1, &g,
                                &(rota_backward_options){.accumulate = accumulate}));
        uint32_t output = op_kit_output(&kit, sink);
        op_kit_run(&kit);
        for (uint64_t i = 0; i < N + 1; i++) {
            const bool inside = i >= 4 && i < 10;
            const double expected = i == 0 ? 8 : (accumulate ? 8 : 0) + (inside ? 2 : 0);
            assert_true(element_load(ROTA_BF16, kit.output_data[output], i) == expected);
        }
        op_kit_close(&kit);
    }
}

/* A result kept in the buffer of the parameters doesn't take their gradients' place. */
static void results_may_lie_beside_parameters(void **state) {
    (void)state;
    float x[2 * N];
    fill_values(x);
    fill_values(x + N);
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor all = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(2 * N), x), p, beside, a, b, y,
                grads[1] = {{0}};
    assert_ok(rota_tensor_slice(&all, 0, 0, N, &p));
    assert_ok(rota_tensor_slice(&all, 0, N, N, &beside));
    assert_ok(rota_op_mul(kit.tape, p, p, &a));
    assert_ok(rota_op_exp(kit.tape, p, &b));
    assert_ok(rota_op_mul(kit.tape, a, b, &y));
    assert_ok(rota_op_add(kit.tape, y, p, &y));
    assert_ok(rota_op_copy_into(kit.tape, y, beside));
    assert_ok(rota_backward(kit.tape, total(&kit, y), &p, 1, grads, NULL));
    uint32_t output = op_kit_output(&kit, grads[0]);
    op_kit_run(&kit);
    check_function(shared_value, x, op_kit_f32(&kit, output), "beside");
    op_kit_close(&kit);
}

static double two_losses(const double *x) {
    double sum = shared_value(x);
    for (int i = 0; i < N; i++) sum += 2 * (1 + i) * x[i] * x[i] * x[i];
    return sum;
}

static double cubes(const double *x) {
    return (two_losses(x) - shared_value(x)) / 2;
}

/* The sum of several losses, one of them twice; and each alone from the same ops, which the tape keeps. */
static void losses_add_up(void **state) {
    (void)state;
    float x[N], weights[N];
    fill_values(x);
    for (int i = 0; i < N; i++) weights[i] = (float)(1 + i);
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), x), a, b, y, z, w, losses[3],
                both = ROTA_TENSOR_NONE, one = both, other = both;
    w = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(N), weights);
    assert_ok(rota_op_mul(kit.tape, p, p, &a));
    assert_ok(rota_op_exp(kit.tape, p, &b));
    assert_ok(rota_op_mul(kit.tape, a, b, &y));
    assert_ok(rota_op_add(kit.tape, y, p, &y));
    losses[0] = total(&kit, y);
    assert_ok(rota_op_mul(kit.tape, a, p, &z)); /* both go through a */
    assert_ok(rota_op_mul(kit.tape, z, w, &z));
    losses[1] = losses[2] = total(&kit, z);
    assert_ok(rota_backward(kit.tape, losses[0], &p, 1, &one, &(rota_backward_options){.keep = true}));
    assert_ok(rota_backward(kit.tape, losses[1], &p, 1, &other, &(rota_backward_options){.keep = true}));
    assert_ok(rota_backward_losses(kit.tape, losses, 3, &p, 1, &both, NULL));
    /* Now the ops are forgotten: p has no part in a loss. */
    rota_tensor none = ROTA_TENSOR_NONE;
    assert_ok(rota_backward(kit.tape, losses[0], &p, 1, &none, NULL));
    const uint32_t outputs[] = {op_kit_output(&kit, both), op_kit_output(&kit, one),
                                op_kit_output(&kit, other), op_kit_output(&kit, none)};
    op_kit_run(&kit);
    check_function(two_losses, x, op_kit_f32(&kit, outputs[0]), "sum of losses");
    check_function(shared_value, x, op_kit_f32(&kit, outputs[1]), "first loss");
    check_function(cubes, x, op_kit_f32(&kit, outputs[2]), "second loss");
    for (int i = 0; i < N; i++) assert_true(op_kit_f32(&kit, outputs[3])[i] == 0);
    op_kit_close(&kit);
}

/* A loss that another one is computed from gets both gradients. */
static double of_its_own(const double *x) {
    const double first = shared_value(x);
    return first + first * first / 100;
}

static void a_loss_may_feed_another(void **state) {
    (void)state;
    float x[N];
    fill_values(x);
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), x), a, b, y, losses[2], grads[1] = {{0}};
    assert_ok(rota_op_mul(kit.tape, p, p, &a));
    assert_ok(rota_op_exp(kit.tape, p, &b));
    assert_ok(rota_op_mul(kit.tape, a, b, &y));
    assert_ok(rota_op_add(kit.tape, y, p, &y));
    losses[0] = total(&kit, y);
    assert_ok(rota_op_square(kit.tape, losses[0], &losses[1]));
    assert_ok(rota_op_scale(kit.tape, losses[1], ROTA_PLAIN(0.01), &losses[1]));
    assert_ok(rota_backward_losses(kit.tape, losses, 2, &p, 1, grads, NULL));
    uint32_t output = op_kit_output(&kit, grads[0]);
    op_kit_run(&kit);
    check_function(of_its_own, x, op_kit_f32(&kit, output), "a loss of a loss");
    op_kit_close(&kit);
}

/* sum(c x) + sum(k^2), with c = exp(x) and k = 3 x stopped: the values at which they stopped. */
static double stopped_at[N];
static double past_stops(const double *x) {
    double sum = 0;
    for (int i = 0; i < N; i++) sum += stopped_at[i] * x[i];
    return sum;
}

static void gradients_stop(void **state) {
    (void)state;
    float x[N];
    fill_values(x);
    for (int i = 0; i < N; i++) stopped_at[i] = exp((double)x[i]);
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), x), c, k, y, grads[1] = {{0}};
    assert_ok(rota_op_exp(kit.tape, p, &c));
    assert_ok(rota_op_stop_gradient(kit.tape, c, &c));
    assert_ok(rota_op_mul(kit.tape, c, p, &y));
    assert_ok(rota_op_scale(kit.tape, p, ROTA_PLAIN(3), &k));
    assert_ok(rota_op_stop_gradient_into(kit.tape, k, k)); /* in place: no node */
    assert_ok(rota_op_square(kit.tape, k, &k));
    assert_ok(rota_op_add(kit.tape, y, k, &y));
    assert_ok(rota_backward(kit.tape, total(&kit, y), &p, 1, grads, NULL));
    const uint32_t of_p = op_kit_output(&kit, grads[0]);
    op_kit_run(&kit);
    check_function(past_stops, x, op_kit_f32(&kit, of_p), "past stops");
    op_kit_close(&kit);
}

/* Gradients flow through the first output only; a loss of another one is refused, not wrong. */
static void other_outputs_are_refused(void **state) {
    (void)state;
    float x[N];
    fill_values(x);
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(1, 1, 3, 4), x), grads[1] = {{0}};
    rota_op_use use = {
        .op = rota_op_find("attention"), .input_count = 3, .output_count = 2, .inputs = {p, p, p}};
    use.output_count = use.op->output_count;
    assert_true(use.output_count > 1);
    assert_ok(rota_op_apply(kit.tape, &use));
    assert_int_equal(rota_backward(kit.tape, total(&kit, use.outputs[1]), &p, 1, grads, NULL),
                     ROTA_UNSUPPORTED);
    assert_non_null(strstr(rota_last_error(), "op 'attention': the loss depends on its '"));
    assert_int_equal(rota_backward_losses(kit.tape, NULL, 0, &p, 1, grads, NULL), ROTA_INVALID_ARGUMENT);
    op_kit_close(&kit);
}

/* Recording takes time in proportion to the ops: eight times as many would take 64 times as long if it grew
 * with the square; memory that no longer fits the caches makes it 10 to 25. */
static void backward_is_linear(void **state) {
    (void)state;
    double seconds[2];
    for (int round = 0; round < 2; round++) {
        seconds[round] = 1e9;
        for (int repeat = 0; repeat < 5; repeat++) {
            float x[N];
            fill_values(x);
            op_kit kit;
            op_kit_open(&kit);
            rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), x), y = p, grads[1] = {{0}};
            uint64_t begin = rota_clock_ns();
            for (int i = 0; i < (round ? 8000 : 1000); i++) {
                assert_ok(rota_op_mul(kit.tape, y, p, &y));
                assert_ok(rota_op_add_into(kit.tape, y, p, y));
            }
            assert_ok(rota_backward(kit.tape, total(&kit, y), &p, 1, grads, NULL));
            seconds[round] = fmin(seconds[round], (double)(rota_clock_ns() - begin) * 1e-9);
            op_kit_close(&kit);
        }
    }
    assert_true(seconds[1] < 40 * seconds[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_has_the_gradient_of_its_reference),
        cmocka_unit_test(values_used_again_add_up),
        cmocka_unit_test(operands_in_place_keep_their_gradients),
        cmocka_unit_test(slices_of_one_buffer_have_their_own_gradients),
        cmocka_unit_test(attention_of_slices_is_attention),
        cmocka_unit_test(gradients_go_where_they_are_asked),
        cmocka_unit_test(parameters_may_share_a_buffer),
        cmocka_unit_test(long_sums_of_a_weight_are_whole),
        cmocka_unit_test(a_classifier_keeps_its_gradient_in_place),
        cmocka_unit_test(a_classifier_leaves_no_logits_to_others),
        cmocka_unit_test(query_groups_share_their_keys),
        cmocka_unit_test(ops_made_of_others_have_gradients),
        cmocka_unit_test(products_with_zeroes_have_gradients),
        cmocka_unit_test(impossible_gradients_are_refused),
        cmocka_unit_test(gradients_cross_dtypes),
        cmocka_unit_test(halves_accumulate),
        cmocka_unit_test(gradients_pass_through_compositions),
        cmocka_unit_test(results_may_lie_beside_parameters),
        cmocka_unit_test(losses_add_up),
        cmocka_unit_test(a_loss_may_feed_another),
        cmocka_unit_test(gradients_stop),
        cmocka_unit_test(other_outputs_are_refused),
        cmocka_unit_test(backward_is_linear),
    };
    return cmocka_run_group_tests(tests, op_kit_setup, op_kit_teardown);
}
