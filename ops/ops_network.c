/* Ops of networks that take options, and those that are made of other ops. */
#include <math.h>
#include "base/given.h"
#include "base/sized_copy.h"
#include "ops/apply.h"
#include "ops/op.h"

rota_status rota_op_batch_norm(rota_tape *tape, rota_tensor x, const rota_batch_norm *options,
                               rota_tensor *out_y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(options);
    ROTA_GIVEN(out_y);
    rota_batch_norm room;
    *out_y = ROTA_TENSOR_NONE;
    if (!(options = ROTA_SIZED_IN(rota_batch_norm, options, &room))) return ROTA_INVALID_ARGUMENT;
    rota_op_use use = {
        .op = rota_op_at(ROTA_OP_batch_norm),
        .input_count = 5,
        .output_count = 2,
        .inputs = {x, options->weight, options->bias, options->running_mean, options->running_variance},
        .attributes = {.axis = {options->axis},
                       .eps = options->eps,
                       .beta1 = options->momentum,
                       .evaluate = options->evaluate}};
    ROTA_TRY(rota_tape_apply(tape, &use, use.op->name));
    *out_y = use.outputs[0];
    return ROTA_OK;
}

static rota_status rope(rota_tape *tape, rota_tensor x, const rota_rope *options, rota_tensor *y) {
    rota_rope room;
    if (!(options = ROTA_SIZED_IN(rota_rope, options, &room))) return ROTA_INVALID_ARGUMENT;
    rota_op_use use = {.op = rota_op_at(ROTA_OP_rope),
                       .input_count = 1,
                       .output_count = 1,
                       .inputs = {x},
                       .outputs = {*y},
                       .attributes = {.value = {options->offset},
                                      .length = options->rotary,
                                      .scale = options->base,
                                      .interleaved = options->interleaved}};
    ROTA_TRY(rota_tape_apply(tape, &use, use.op->name));
    *y = use.outputs[0];
    return ROTA_OK;
}

rota_status rota_op_rope(rota_tape *tape, rota_tensor x, const rota_rope *options, rota_tensor *out_y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(options);
    ROTA_GIVEN(out_y);
    *out_y = ROTA_TENSOR_NONE;
    return rope(tape, x, options, out_y);
}

rota_status rota_op_rope_into(rota_tape *tape, rota_tensor x, const rota_rope *options, rota_tensor y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(options);
    if (!y.buffer) return rota_fail(ROTA_INVALID_ARGUMENT, "op 'rope': the destination is missing");
    return rope(tape, x, options, &y);
}

static rota_status group_norm(rota_tape *tape, rota_tensor x, uint32_t groups, rota_tensor weight,
                              rota_tensor bias, float eps, rota_tensor *out_y) {
    char text[ROTA_TENSOR_TEXT_MAX];
    if (x.rank < 2 || x.rank > ROTA_RANK_MAX || groups == 0 || x.shape[1] == 0 || x.shape[1] % groups != 0)
        return rota_fail(
            ROTA_INVALID_ARGUMENT,
            "op 'group_norm': x is %s; expected [batch, channels, ...] with channels that %u groups divide",
            rota_tensor_describe(&x, text, sizeof text), groups);
    const uint64_t channels = x.shape[1], rows = x.shape[0] * groups;
    uint64_t length = channels / groups;
    for (uint32_t d = 2; d < x.rank; d++) length *= x.shape[d];
    uint64_t broadcast[ROTA_RANK_MAX];
    for (uint32_t d = 0; d + 1 < x.rank; d++) broadcast[d] = d == 0 ? channels : 1;
    rota_tensor y, factors[2] = {weight, bias};
    ROTA_TRY(rota_op_reshape(tape, x, ROTA_SHAPE(rows, length), &y));
    ROTA_TRY(rota_op_layernorm(tape, y, ROTA_TENSOR_NONE, ROTA_TENSOR_NONE, eps, &y));
    ROTA_TRY(rota_op_reshape(tape, y, x.rank, x.shape, &y));
    for (uint32_t i = 0; i < 2; i++)
        if (factors[i].buffer) {
            ROTA_TRY(rota_op_reshape(tape, factors[i], x.rank - 1, broadcast, &factors[i]));
            ROTA_TRY(i == 0 ? rota_op_mul(tape, y, factors[i], &y) : rota_op_add(tape, y, factors[i], &y));
        }
    *out_y = y;
    return ROTA_OK;
}

rota_status rota_op_group_norm(rota_tape *tape, rota_tensor x, uint32_t groups, rota_tensor weight,
                               rota_tensor bias, float eps, rota_tensor *out_y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_y);
    *out_y = ROTA_TENSOR_NONE;
    ROTA_TAPE_AS_OP(tape, "group_norm", group_norm(tape, x, groups, weight, bias, eps, out_y));
}

/* ---- Losses ---- */

static rota_status difference(rota_tape *tape, const char *name, rota_tensor x, rota_tensor target,
                              rota_tensor *out_d) {
    char text[ROTA_TENSOR_TEXT_MAX], other[ROTA_TENSOR_TEXT_MAX];
    if (!rota_shapes_equal(&x, &target))
        return rota_fail(ROTA_INVALID_ARGUMENT, "op '%s': x is %s, target is %s; expected one shape", name,
                         rota_tensor_describe(&x, text, sizeof text),
                         rota_tensor_describe(&target, other, sizeof other));
    if (rota_tensor_is_empty(&x))
        return rota_fail(ROTA_INVALID_ARGUMENT, "op '%s': x is %s, which has no elements: there is no mean",
                         name, rota_tensor_describe(&x, text, sizeof text));
    ROTA_TRY(rota_op_sub(tape, x, target, out_d));
    return rota_op_reshape(tape, *out_d, ROTA_SHAPE(rota_tensor_count(out_d)), out_d);
}

static rota_status mse(rota_tape *tape, rota_tensor x, rota_tensor target, rota_tensor *out_loss) {
    rota_tensor d;
    ROTA_TRY(difference(tape, "mse", x, target, &d));
    ROTA_TRY(rota_op_sum_squares(tape, d, &d));
    return rota_op_scale(tape, d, rota_value_plain(1.0 / (double)rota_tensor_count(&x)), out_loss);
}

rota_status rota_op_mse(rota_tape *tape, rota_tensor x, rota_tensor target, rota_tensor *out_loss) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_loss);
    *out_loss = ROTA_TENSOR_NONE;
    ROTA_TAPE_AS_OP(tape, "mse", mse(tape, x, target, out_loss));
}

/* The mean of all elements, in f32. */
static rota_status mean_of(rota_tape *tape, rota_tensor d, rota_tensor *out_loss) {
    if (d.dtype != ROTA_F32) ROTA_TRY(rota_op_cast(tape, d, ROTA_F32, &d));
    return rota_op_mean(tape, d, 0, true, out_loss);
}

static rota_status l1(rota_tape *tape, rota_tensor x, rota_tensor target, rota_tensor *out_loss) {
    rota_tensor d;
    ROTA_TRY(difference(tape, "l1", x, target, &d));
    ROTA_TRY(rota_op_abs(tape, d, &d));
    return mean_of(tape, d, out_loss);
}

rota_status rota_op_l1(rota_tape *tape, rota_tensor x, rota_tensor target, rota_tensor *out_loss) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_loss);
    *out_loss = ROTA_TENSOR_NONE;
    ROTA_TAPE_AS_OP(tape, "l1", l1(tape, x, target, out_loss));
}

/* With c = clamp(d, -delta, delta): c (d - c / 2). */
static rota_status huber(rota_tape *tape, rota_tensor x, rota_tensor target, float delta,
                         rota_tensor *out_loss) {
    rota_tensor d, c, rest;
    if (!(delta > 0.0f))
        return rota_fail(ROTA_INVALID_ARGUMENT, "op 'huber': delta is %g; expected more than 0",
                         (double)delta);
    ROTA_TRY(difference(tape, "huber", x, target, &d));
    ROTA_TRY(rota_op_clamp(tape, d, rota_value_plain(-(double)delta), rota_value_plain((double)delta), &c));
    ROTA_TRY(rota_op_scale(tape, c, rota_value_plain(0.5), &rest));
    ROTA_TRY(rota_op_sub(tape, d, rest, &rest));
    ROTA_TRY(rota_op_mul(tape, c, rest, &rest));
    return mean_of(tape, rest, out_loss);
}

rota_status rota_op_huber(rota_tape *tape, rota_tensor x, rota_tensor target, float delta,
                          rota_tensor *out_loss) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_loss);
    *out_loss = ROTA_TENSOR_NONE;
    ROTA_TAPE_AS_OP(tape, "huber", huber(tape, x, target, delta, out_loss));
}

/* ---- Attention ---- */

static rota_status attention_residual(rota_tape *tape, rota_tensor q, rota_tensor k, rota_tensor v,
                                      rota_tensor previous, float scale, rota_tensor *out_y,
                                      rota_tensor *out_scores) {
    rota_tensor scores, weights;
    if (q.rank != 4)
        return rota_fail(ROTA_INVALID_ARGUMENT, "op 'attention_residual': q has %u axes, expected 4", q.rank);
    if (scale == 0.0f) scale = 1.0f / sqrtf((float)q.shape[3]);
    /* There are fewer queries than scores. */
    ROTA_TRY(rota_op_scale(tape, q, rota_value_plain((double)scale), &q));
    ROTA_TRY(rota_op_matmul(tape, q, k, false, true, &scores));
    if (previous.buffer) ROTA_TRY(rota_op_add(tape, scores, previous, &scores));
    ROTA_TRY(rota_op_softmax(tape, scores, &weights));
    ROTA_TRY(rota_op_weighted_matmul(tape, weights, v, out_y));
    *out_scores = scores;
    return ROTA_OK;
}

rota_status rota_op_attention_residual(rota_tape *tape, rota_tensor q, rota_tensor k, rota_tensor v,
                                       rota_tensor previous, float scale, rota_tensor *out_y,
                                       rota_tensor *out_scores) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_y);
    ROTA_GIVEN(out_scores);
    *out_y = *out_scores = ROTA_TENSOR_NONE;
    ROTA_TAPE_AS_OP(tape, "attention_residual",
                    attention_residual(tape, q, k, v, previous, scale, out_y, out_scores));
}
