/* rota_backward: views, shared values, operands in place and reused memory; where gradients go, of which
 * losses and parameters, and what is refused. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "tests/ops/gradient_kit.h"

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
                            &ROTA_BACKWARD_OPTIONS(.accumulate = true)));
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
    assert_ok(rota_tape_create(kit.recorder, &ROTA_TAPE_OPTIONS(.no_gradients = true), &without));
    assert_status(rota_backward(without, y, &p, 1, grads, NULL), ROTA_WRONG_STATE);
    rota_tape_destroy(without);
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
                                &ROTA_BACKWARD_OPTIONS(.accumulate = accumulate)));
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
    assert_ok(rota_backward(kit.tape, losses[0], &p, 1, &one, &ROTA_BACKWARD_OPTIONS(.keep = true)));
    assert_ok(rota_backward(kit.tape, losses[1], &p, 1, &other, &ROTA_BACKWARD_OPTIONS(.keep = true)));
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

/* A parameter may be what an op made: the gradient of that result, which also flows on. */
static void results_are_parameters_too(void **state) {
    (void)state;
    float x[N], two[1] = {2};
    fill_values(x);
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), x),
                b = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(1), two), y, z, constant, loss;
    assert_ok(
        rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "constant", ROTA_F32, ROTA_SHAPE(N), &constant));
    assert_ok(rota_op_fill_into(kit.tape, constant, 3)); /* written over: of no consequence */
    assert_ok(rota_op_exp_into(kit.tape, p, constant));
    assert_ok(rota_op_fill_into(kit.tape, constant, 5));
    assert_ok(rota_op_mul(kit.tape, p, p, &y));
    assert_ok(rota_op_mul(kit.tape, y, constant, &z));
    assert_ok(rota_op_mul(kit.tape, z, b, &z));
    loss = total(&kit, z);
    const rota_tensor params[] = {y, p, constant, loss};
    rota_tensor grads[4] = {{0}};
    assert_ok(rota_backward(kit.tape, loss, params, 4, grads, NULL));
    uint32_t out[4];
    for (int i = 0; i < 4; i++) out[i] = op_kit_output(&kit, grads[i]);
    op_kit_run(&kit);
    for (int i = 0; i < N; i++) {
        assert_true(op_kit_f32(&kit, out[0])[i] == 10);
        assert_true(fabsf(op_kit_f32(&kit, out[1])[i] - 20 * x[i]) < 1e-5f);
        assert_true(fabsf(op_kit_f32(&kit, out[2])[i] - 2 * x[i] * x[i]) < 1e-5f);
    }
    assert_true(op_kit_f32(&kit, out[3])[0] == 1);
    op_kit_close(&kit);
}

/* Where there is more than one value in the parameter's memory, or it isn't alone there, that is said. */
static void results_in_part_are_no_parameters(void **state) {
    (void)state;
    static const char *const expected[] = {"in place", "in part, or with others", "after others had read it",
                                           "added to"};
    for (int way = 0; way < 4; way++) {
        float x[N];
        fill_values(x);
        op_kit kit;
        op_kit_open(&kit);
        rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), x),
                    g = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), x), y = p, z, part,
                    grads[1] = {ROTA_TENSOR_NONE};
        if (way != 2) assert_ok(rota_op_mul(kit.tape, p, p, &y));
        part = y;
        if (way == 0) assert_ok(rota_op_exp_into(kit.tape, y, y));
        if (way == 1) assert_ok(rota_tensor_slice(&y, 0, 2, 3, &part));
        assert_ok(rota_op_exp(kit.tape, part, &z));
        if (way == 2) {
            assert_ok(rota_op_copy_into(kit.tape, g, p));
            assert_ok(rota_op_mul(kit.tape, p, z, &z));
        }
        if (way == 3) grads[0] = g;
        assert_status(rota_backward(kit.tape, total(&kit, z), &part, 1, grads,
                                    &ROTA_BACKWARD_OPTIONS(.accumulate = way == 3)),
                      ROTA_UNSUPPORTED);
        assert_message("wrote a parameter in buffer '");
        assert_message(expected[way]);
        op_kit_close(&kit);
    }
}

static double cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Records a chain of `length` pairs of ops and its gradient; the nodes, and this thread's own time for it. */
static double record_chain(int length, uint64_t *out_nodes) {
    float x[N];
    fill_values(x);
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), x), y = p, grads[1] = {{0}};
    const double begin = cpu_seconds();
    for (int i = 0; i < length; i++) {
        assert_ok(rota_op_mul(kit.tape, y, p, &y));
        assert_ok(rota_op_add_into(kit.tape, y, p, y));
    }
    assert_ok(rota_backward(kit.tape, total(&kit, y), &p, 1, grads, NULL));
    const double seconds = cpu_seconds() - begin;
    *out_nodes = rota_graph_node_count(kit.graph);
    op_kit_close(&kit);
    return seconds;
}

/* As many nodes for each further op; and recording takes time in proportion: eight times as many ops would
 * take 64 times as long if it grew with the square; memory that no longer fits the caches makes it 10 to 25.
 * The thread's own time, and the best of several pairs, so that what else runs has no say. */
static void backward_is_linear(void **state) {
    (void)state;
    double least = INFINITY;
    uint64_t nodes[3];
    for (int repeat = 0; repeat < 5; repeat++) {
        const double few = record_chain(1000, &nodes[0]), many = record_chain(8000, &nodes[2]);
        least = fmin(least, many / few);
    }
    (void)record_chain(2000, &nodes[1]);
    assert_int_equal(nodes[2] - nodes[0], 7 * (nodes[1] - nodes[0]));
    assert_true(least < 40);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_used_again_add_up),
        cmocka_unit_test(operands_in_place_keep_their_gradients),
        cmocka_unit_test(slices_of_one_buffer_have_their_own_gradients),
        cmocka_unit_test(gradients_go_where_they_are_asked),
        cmocka_unit_test(parameters_may_share_a_buffer),
        cmocka_unit_test(impossible_gradients_are_refused),
        cmocka_unit_test(halves_accumulate),
        cmocka_unit_test(results_may_lie_beside_parameters),
        cmocka_unit_test(losses_add_up),
        cmocka_unit_test(a_loss_may_feed_another),
        cmocka_unit_test(gradients_stop),
        cmocka_unit_test(other_outputs_are_refused),
        cmocka_unit_test(results_are_parameters_too),
        cmocka_unit_test(results_in_part_are_no_parameters),
        cmocka_unit_test(backward_is_linear),
    };
    return op_kit_run_tests(tests, sizeof tests / sizeof *tests);
}
