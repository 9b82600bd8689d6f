/* The ops by name: each fills in a use and applies it. */
#include <math.h>
#include <string.h>
#include "base/given.h"
#include "base/sized_copy.h"
#include "ops/apply.h"
#include "ops/op.h"
#include "ops/ops_tensor_parallel.h"
#include "ops/op_update.h"

/* Applies `use` of an op (ROTA_OP_) with its first output as given (NULL buffer: made), and hands that output
 * back. */
static rota_status apply(rota_tape *tape, uint32_t op, rota_op_use *use, uint32_t inputs,
                         rota_tensor *output) {
    use->op = rota_op_at(op);
    use->input_count = inputs;
    use->output_count = use->op->output_count;
    if (output) use->outputs[0] = *output;
    ROTA_TRY(rota_tape_apply(tape, use, use->op->name));
    if (output) *output = use->outputs[0];
    return ROTA_OK;
}

/* A destination is there. */
static rota_status apply_into(rota_tape *tape, uint32_t op, rota_op_use *use, uint32_t inputs,
                              rota_tensor y) {
    if (!y.buffer)
        return rota_fail(ROTA_INVALID_ARGUMENT, "op '%s': the destination is missing", rota_op_at(op)->name);
    return apply(tape, op, use, inputs, &y);
}

static rota_status apply_new(rota_tape *tape, uint32_t op, rota_op_use *use, uint32_t inputs,
                             rota_tensor *out_y) {
    *out_y = ROTA_TENSOR_NONE;
    return apply(tape, op, use, inputs, out_y);
}

/* Both forms of an op: declarations of parameters, inputs and attributes. */
#define PARAMETERS(...) __VA_ARGS__
#define BOTH(NAME, OP, INPUTS, PARAMS, ...)                                                                  \
    rota_status rota_op_##NAME(rota_tape *tape, PARAMS, rota_tensor *out_y) {                                \
        ROTA_GIVEN(tape);                                                                                    \
        ROTA_GIVEN(out_y);                                                                                   \
        rota_op_use use = __VA_ARGS__;                                                                       \
        ROTA_TAPE_AS_OP(tape, #NAME, apply_new(tape, ROTA_OP_##OP, &use, INPUTS, out_y));                    \
    }                                                                                                        \
    rota_status rota_op_##NAME##_into(rota_tape *tape, PARAMS, rota_tensor y) {                              \
        ROTA_GIVEN(tape);                                                                                    \
        rota_op_use use = __VA_ARGS__;                                                                       \
        ROTA_TAPE_AS_OP(tape, #NAME, apply_into(tape, ROTA_OP_##OP, &use, INPUTS, y));                       \
    }

#define BINARY(NAME) BOTH(NAME, NAME, 2, PARAMETERS(rota_tensor a, rota_tensor b), {.inputs = {a, b}})
ROTA_OP_BINARY_LIST(BINARY)

#define UNARY(NAME) BOTH(NAME, NAME, 1, PARAMETERS(rota_tensor x), {.inputs = {x}})
ROTA_OP_UNARY_LIST(UNARY)

#define REDUCE(NAME)                                                                                         \
    BOTH(NAME, NAME, 1, PARAMETERS(rota_tensor x, uint32_t axis, bool keep),                                 \
         {.inputs = {x}, .attributes = {.axis = {axis}, .keep = keep}})
ROTA_OP_REDUCE_LIST(REDUCE)

/* A number of the op's, or a slot, as value[0]. */
#define WITH_VALUE(NAME, OP, VALUE)                                                                          \
    BOTH(NAME, OP, 1, PARAMETERS(rota_tensor x, rota_value VALUE),                                           \
         {.inputs = {x}, .attributes = {.value = {VALUE}}})
WITH_VALUE(leaky_relu, leaky_relu, alpha)
WITH_VALUE(elu, elu, alpha)
WITH_VALUE(pow_scalar, pow_scalar, exponent)
WITH_VALUE(softcap, softcap, cap)
BOTH(clamp, clamp, 1, PARAMETERS(rota_tensor x, rota_value low, rota_value high),
     {.inputs = {x}, .attributes = {.value = {low, high}}})
BOTH(bias_gelu, bias_gelu, 2, PARAMETERS(rota_tensor x, rota_tensor bias), {.inputs = {x, bias}})
BOTH(where, where, 3, PARAMETERS(rota_tensor condition, rota_tensor a, rota_tensor b),
     {.inputs = {condition, a, b}})
BOTH(masked_fill, masked_fill, 2, PARAMETERS(rota_tensor x, rota_tensor mask, float number),
     {.inputs = {x, mask}, .attributes = {.value = {{.number = (double)number}}}})
BOTH(gather, gather, 2, PARAMETERS(rota_tensor x, uint32_t axis, rota_tensor index),
     {.inputs = {x, index}, .attributes = {.axis = {axis}}})
BOTH(scatter_add, scatter_add, 3,
     PARAMETERS(rota_tensor base, uint32_t axis, rota_tensor index, rota_tensor x),
     {.inputs = {base, index, x}, .attributes = {.axis = {axis}}})
BOTH(argmax, argmax, 1, PARAMETERS(rota_tensor x, uint32_t axis, bool keep),
     {.inputs = {x}, .attributes = {.axis = {axis}, .keep = keep}})
BOTH(cumulative_sum, cumulative_sum, 1, PARAMETERS(rota_tensor x, uint32_t axis),
     {.inputs = {x}, .attributes = {.axis = {axis}}})
BOTH(variance, variance, 1, PARAMETERS(rota_tensor x, uint32_t axis, int32_t correction, bool keep),
     {.inputs = {x}, .attributes = {.axis = {axis}, .integer = correction, .keep = keep}})

rota_status rota_op_one_hot(rota_tape *tape, rota_tensor index, uint64_t classes, rota_dtype dtype,
                            rota_tensor *out_y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_y);
    rota_op_use use = {.inputs = {index}, .attributes = {.length = classes, .dtype = dtype}};
    return apply_new(tape, ROTA_OP_one_hot, &use, 1, out_y);
}

rota_status rota_op_one_hot_into(rota_tape *tape, rota_tensor index, rota_tensor y) {
    ROTA_GIVEN(tape);
    rota_op_use use = {.inputs = {index},
                       .attributes = {.length = y.rank && y.rank <= ROTA_RANK_MAX ? y.shape[y.rank - 1] : 1,
                                      .dtype = y.dtype}};
    return apply_into(tape, ROTA_OP_one_hot, &use, 1, y);
}

rota_status rota_op_top_k(rota_tape *tape, rota_tensor x, uint32_t axis, uint64_t k, rota_tensor *out_values,
                          rota_tensor *out_index) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_values);
    ROTA_GIVEN(out_index);
    rota_op_use use = {.inputs = {x}, .attributes = {.axis = {axis}, .length = k}};
    *out_index = ROTA_TENSOR_NONE;
    ROTA_TRY(apply_new(tape, ROTA_OP_top_k, &use, 1, out_values));
    *out_index = use.outputs[1];
    return ROTA_OK;
}

BOTH(affine, affine, 1, PARAMETERS(rota_tensor x, rota_value alpha, rota_value beta),
     {.inputs = {x}, .attributes = {.value = {alpha, beta}}})
BOTH(scale, affine, 1, PARAMETERS(rota_tensor x, rota_value alpha),
     {.inputs = {x}, .attributes = {.value = {alpha}}})
BOTH(sum_squares, sum_squares, 1, PARAMETERS(rota_tensor x), {.inputs = {x}})
BOTH(matmul, matmul, 2, PARAMETERS(rota_tensor a, rota_tensor b, bool transpose_a, bool transpose_b),
     {.inputs = {a, b}, .attributes = {.transpose_a = transpose_a, .transpose_b = transpose_b}})
/* With an activation the residual is an op of its own: cuBLASLt adds it before. */
static rota_status linear(rota_tape *tape, rota_tensor x, rota_tensor w, const rota_linear *options,
                          rota_tensor *y, bool into) {
    static const uint32_t ops[] = {ROTA_OP_linear, ROTA_OP_linear_gelu, ROTA_OP_linear_relu};
    rota_linear room = ROTA_LINEAR();
    const rota_linear *o = options ? ROTA_SIZED_IN(rota_linear, options, &room) : &room;
    if (!o) return ROTA_INVALID_ARGUMENT;
    if ((uint32_t)o->activation > ROTA_ACTIVATION_RELU)
        return rota_fail(ROTA_INVALID_ARGUMENT, "op 'linear': there is no activation %d", (int)o->activation);
    const bool apart = o->residual.buffer && o->activation != ROTA_ACTIVATION_NONE;
    rota_op_use use = {.inputs = {x, w, o->bias}, .attributes = {.transpose_b = o->transposed}};
    if (!apart && o->activation == ROTA_ACTIVATION_NONE) use.inputs[3] = o->residual;
    const uint32_t inputs = o->activation == ROTA_ACTIVATION_NONE ? 4 : 3;
    if (!apart && into) return apply_into(tape, ops[o->activation], &use, inputs, *y);
    if (!apart) return apply_new(tape, ops[o->activation], &use, inputs, y);
    rota_tensor activated;
    ROTA_TRY(apply_new(tape, ops[o->activation], &use, inputs, &activated));
    if (!rota_shapes_equal(&activated, &o->residual)) {
        char text[ROTA_TENSOR_TEXT_MAX], other[ROTA_TENSOR_TEXT_MAX];
        return rota_fail(ROTA_INVALID_ARGUMENT, "op '%s': residual is %s, y is %s; expected one shape",
                         rota_op_at(ops[o->activation])->name,
                         rota_tensor_describe(&o->residual, text, sizeof text),
                         rota_tensor_describe(&activated, other, sizeof other));
    }
    return into ? rota_op_add_into(tape, activated, o->residual, *y)
                : rota_op_add(tape, activated, o->residual, y);
}

rota_status rota_op_linear(rota_tape *tape, rota_tensor x, rota_tensor w, const rota_linear *options,
                           rota_tensor *out_y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_y);
    *out_y = ROTA_TENSOR_NONE;
    ROTA_TAPE_AS_OP(tape, "linear", linear(tape, x, w, options, out_y, false));
}

rota_status rota_op_linear_into(rota_tape *tape, rota_tensor x, rota_tensor w, const rota_linear *options,
                                rota_tensor y) {
    ROTA_GIVEN(tape);
    ROTA_TAPE_AS_OP(tape, "linear", linear(tape, x, w, options, &y, true));
}

rota_status rota_op_scaled_matmul(rota_tape *tape, rota_tensor a, rota_tensor b, rota_tensor scale_a,
                                  rota_tensor scale_b, rota_tensor bias, rota_dtype dtype,
                                  rota_tensor *out_y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_y);
    rota_op_use use = {.inputs = {a, b, scale_a, scale_b, bias}, .attributes = {.dtype = dtype}};
    return apply_new(tape, ROTA_OP_scaled_matmul, &use, 5, out_y);
}

rota_status rota_op_scaled_matmul_into(rota_tape *tape, rota_tensor a, rota_tensor b, rota_tensor scale_a,
                                       rota_tensor scale_b, rota_tensor bias, rota_tensor y) {
    ROTA_GIVEN(tape);
    rota_op_use use = {.inputs = {a, b, scale_a, scale_b, bias}, .attributes = {.dtype = y.dtype}};
    return apply_into(tape, ROTA_OP_scaled_matmul, &use, 5, y);
}

BOTH(weighted_matmul, weighted_matmul, 2, PARAMETERS(rota_tensor weight, rota_tensor value),
     {.inputs = {weight, value}})
BOTH(transpose, transpose, 1, PARAMETERS(rota_tensor x, uint32_t axis_a, uint32_t axis_b),
     {.inputs = {x}, .attributes = {.axis = {axis_a, axis_b}}})
BOTH(slice, slice, 1, PARAMETERS(rota_tensor x, uint32_t axis, uint64_t start, uint64_t length),
     {.inputs = {x}, .attributes = {.axis = {axis}, .start = start, .length = length}})
BOTH(copy, copy, 1, PARAMETERS(rota_tensor x), {.inputs = {x}})
BOTH(stop_gradient, stop_gradient, 1, PARAMETERS(rota_tensor x), {.inputs = {x}})
BOTH(embedding, embedding, 2, PARAMETERS(rota_tensor table, rota_tensor index), {.inputs = {table, index}})
BOTH(softmax, softmax, 1, PARAMETERS(rota_tensor x), {.inputs = {x}})
BOTH(causal_mask, causal_mask, 1, PARAMETERS(rota_tensor x), {.inputs = {x}})
BOTH(layernorm, layernorm, 3, PARAMETERS(rota_tensor x, rota_tensor weight, rota_tensor bias, float eps),
     {.inputs = {x, weight, bias}, .attributes = {.eps = eps}})
BOTH(rmsnorm, rmsnorm, 2, PARAMETERS(rota_tensor x, rota_tensor weight, float eps),
     {.inputs = {x, weight}, .attributes = {.eps = eps}})
BOTH(log_softmax, log_softmax, 1, PARAMETERS(rota_tensor x), {.inputs = {x}})
BOTH(cross_entropy, cross_entropy, 2, PARAMETERS(rota_tensor logits, rota_tensor labels),
     {.inputs = {logits, labels}, .attributes = {.integer = ROTA_IGNORED_LABEL}})
/* Keys or values of fewer heads than there are of queries: each serves a group of neighbours, and is repeated
 * in memory, which costs little beside the attention itself. Their gradients add up. */
static rota_status for_each_query_head(rota_tape *tape, rota_tensor q, rota_tensor *x) {
    if (q.rank != 4 || x->rank != 4 || x->shape[1] == 0 || x->shape[1] >= q.shape[1] ||
        q.shape[1] % x->shape[1] != 0)
        return ROTA_OK;
    const uint64_t *s = x->shape, group = q.shape[1] / s[1];
    const uint64_t shape[] = {s[0], q.shape[1], s[2], s[3]};
    rota_tensor view;
    ROTA_TRY(rota_tensor_reshape(x, ROTA_SHAPE(s[0], s[1], 1, s[2], s[3]), &view));
    ROTA_TRY(rota_tensor_broadcast(&view, ROTA_SHAPE(s[0], s[1], group, s[2], s[3]), &view));
    ROTA_TRY(rota_op_copy(tape, view, &view));
    return rota_tensor_reshape(&view, 4, shape, x);
}

static rota_status attention(rota_tape *tape, rota_tensor q, rota_tensor k, rota_tensor v, bool causal,
                             float scale, rota_tensor *y) {
    ROTA_TRY(for_each_query_head(tape, q, &k));
    ROTA_TRY(for_each_query_head(tape, q, &v));
    rota_op_use use = {.inputs = {q, k, v}, .attributes = {.causal = causal, .scale = scale}};
    return apply(tape, ROTA_OP_attention, &use, 3, y);
}

rota_status rota_op_attention(rota_tape *tape, rota_tensor q, rota_tensor k, rota_tensor v, bool causal,
                              float scale, rota_tensor *out_y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_y);
    *out_y = ROTA_TENSOR_NONE;
    ROTA_TAPE_AS_OP(tape, "attention", attention(tape, q, k, v, causal, scale, out_y));
}

rota_status rota_op_attention_into(rota_tape *tape, rota_tensor q, rota_tensor k, rota_tensor v, bool causal,
                                   float scale, rota_tensor y) {
    ROTA_GIVEN(tape);
    if (!y.buffer) return rota_fail(ROTA_INVALID_ARGUMENT, "op 'attention': the destination is missing");
    ROTA_TAPE_AS_OP(tape, "attention", attention(tape, q, k, v, causal, scale, &y));
}

static rota_status attention_dropout(rota_tape *tape, rota_tensor q, rota_tensor k, rota_tensor v,
                                     const rota_op_attributes *attributes, rota_tensor *y) {
    ROTA_TRY(for_each_query_head(tape, q, &k));
    ROTA_TRY(for_each_query_head(tape, q, &v));
    rota_op_use use = {.inputs = {q, k, v}, .attributes = *attributes};
    return apply(tape, ROTA_OP_attention_dropout, &use, 3, y);
}

rota_status rota_op_attention_dropout(rota_tape *tape, rota_tensor q, rota_tensor k, rota_tensor v,
                                      bool causal, float scale, float p, rota_value seed, rota_value step,
                                      rota_tensor *out_y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_y);
    *out_y = ROTA_TENSOR_NONE;
    const rota_op_attributes attributes = {
        .causal = causal, .scale = scale, .p = p, .value = {seed, step}, .stream = tape->streams++};
    ROTA_TAPE_AS_OP(tape, "attention_dropout", attention_dropout(tape, q, k, v, &attributes, out_y));
}

rota_status rota_op_attention_dropout_into(rota_tape *tape, rota_tensor q, rota_tensor k, rota_tensor v,
                                           bool causal, float scale, float p, rota_value seed,
                                           rota_value step, rota_tensor y) {
    ROTA_GIVEN(tape);
    if (!y.buffer)
        return rota_fail(ROTA_INVALID_ARGUMENT, "op 'attention_dropout': the destination is missing");
    const rota_op_attributes attributes = {
        .causal = causal, .scale = scale, .p = p, .value = {seed, step}, .stream = tape->streams++};
    ROTA_TAPE_AS_OP(tape, "attention_dropout", attention_dropout(tape, q, k, v, &attributes, &y));
}

/* Each dropout of a tape draws from a stream of its own. BOTH writes two functions, each of which draws once. */
/* NOLINTBEGIN(bugprone-macro-repeated-side-effects) */
BOTH(dropout, dropout, 1, PARAMETERS(rota_tensor x, float p, rota_value seed, rota_value step),
     {.inputs = {x}, .attributes = {.p = p, .value = {seed, step}, .stream = tape->streams++}})

rota_status rota_op_dropout_of_part(rota_tape *tape, rota_tensor x, uint32_t axis, rota_rank_part part,
                                    float p, rota_value seed, rota_value step, rota_tensor *out_y) {
    char text[ROTA_TENSOR_TEXT_MAX];
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_y);
    *out_y = ROTA_TENSOR_NONE;
    if (part.whole == 0 || axis >= x.rank || axis >= ROTA_RANK_MAX || x.shape[axis] != part.count)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "op 'dropout_of_part': x is %s; expected %llu of %llu elements along axis %u",
                         rota_tensor_describe(&x, text, sizeof text), (unsigned long long)part.count,
                         (unsigned long long)part.whole, axis);
    rota_op_use use = {.inputs = {x},
                       .attributes = {.p = p,
                                      .value = {seed, step},
                                      .stream = tape->streams++,
                                      .axis = {axis},
                                      .start = part.first,
                                      .length = part.whole}};
    return apply_new(tape, ROTA_OP_dropout, &use, 1, out_y);
}

BOTH(residual_dropout, residual_dropout, 2,
     PARAMETERS(rota_tensor x, rota_tensor residual, float p, rota_value seed, rota_value step),
     {.inputs = {x, residual}, .attributes = {.p = p, .value = {seed, step}, .stream = tape->streams++}})
/* NOLINTEND(bugprone-macro-repeated-side-effects) */

rota_status rota_op_residual_layernorm(rota_tape *tape, rota_tensor x, rota_tensor r, rota_tensor weight,
                                       rota_tensor bias, float eps, rota_tensor *out_y,
                                       rota_tensor *out_sum) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_y);
    ROTA_GIVEN(out_sum);
    rota_op_use use = {.inputs = {x, r, weight, bias}, .attributes = {.eps = eps}};
    *out_sum = ROTA_TENSOR_NONE;
    ROTA_TRY(apply_new(tape, ROTA_OP_residual_layernorm, &use, 4, out_y));
    *out_sum = use.outputs[2];
    return ROTA_OK;
}

rota_status rota_op_classifier(rota_tape *tape, rota_tensor logits, rota_tensor labels,
                               const rota_classifier *options, rota_tensor *out_loss) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_loss);
    rota_classifier room = ROTA_CLASSIFIER(.ignored = ROTA_IGNORED_LABEL);
    *out_loss = ROTA_TENSOR_NONE;
    options = options ? ROTA_SIZED_IN(rota_classifier, options, &room) : &room;
    if (!options) return ROTA_INVALID_ARGUMENT;
    rota_op_use use = {.inputs = {logits, labels},
                       .attributes = {.integer = options->ignored,
                                      .smoothing = options->smoothing,
                                      .length = options->classes}};
    ROTA_TAPE_AS_OP(
        tape, "classifier",
        apply_new(tape, options->in_place ? ROTA_OP_classifier : ROTA_OP_cross_entropy, &use, 2, out_loss));
}

rota_status rota_op_cast(rota_tape *tape, rota_tensor x, rota_dtype dtype, rota_tensor *out_y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_y);
    rota_op_use use = {.inputs = {x}, .attributes = {.dtype = dtype}};
    return apply_new(tape, ROTA_OP_cast, &use, 1, out_y);
}

rota_status rota_op_cast_into(rota_tape *tape, rota_tensor x, rota_tensor y) {
    ROTA_GIVEN(tape);
    rota_op_use use = {.inputs = {x}, .attributes = {.dtype = y.dtype}};
    return apply_into(tape, ROTA_OP_cast, &use, 1, y);
}

/* Of what may be no more than a view: the check that applying an op makes. */
static rota_status check_view(const char *name, const rota_tensor *x) {
    if (!x->buffer) return rota_fail(ROTA_INVALID_ARGUMENT, "op '%s': input 'x' is missing", name);
    rota_status status = rota_tensor_check(x);
    return status == ROTA_OK ? ROTA_OK : rota_fail(status, "op '%s': input 'x' %s", name, rota_last_error());
}

rota_status rota_op_contiguous(rota_tape *tape, rota_tensor x, rota_tensor *out_y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_y);
    ROTA_TRY(check_view("contiguous", &x));
    *out_y = x;
    if (rota_tensor_is_contiguous(&x)) return ROTA_OK;
    ROTA_TAPE_AS_OP(tape, "contiguous", rota_op_copy(tape, x, out_y));
}

rota_status rota_op_reshape(rota_tape *tape, rota_tensor x, uint32_t rank, const uint64_t *shape,
                            rota_tensor *out_y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN_ARRAY(shape, rank);
    ROTA_GIVEN(out_y);
    *out_y = ROTA_TENSOR_NONE;
    ROTA_TRY(check_view("reshape", &x));
    uint64_t count = 1;
    for (uint32_t i = 0; i < rank && i < ROTA_RANK_MAX; i++) count *= shape[i];
    rota_status status = rota_tensor_reshape(&x, rank, shape, out_y);
    if (status == ROTA_OK || count != rota_tensor_count(&x)) return status;
    const char *const outer = rota_tape_begin_op(tape, "reshape");
    status = rota_op_contiguous(tape, x, &x);
    rota_tape_end_op(tape, outer);
    return status == ROTA_OK ? rota_tensor_reshape(&x, rank, shape, out_y) : status;
}

rota_status rota_op_reshape_into(rota_tape *tape, rota_tensor x, rota_tensor y) {
    ROTA_GIVEN(tape);
    rota_op_use use = {.inputs = {x}};
    return apply_into(tape, ROTA_OP_reshape, &use, 1, y);
}

rota_status rota_op_fill_into(rota_tape *tape, rota_tensor y, double number) {
    ROTA_GIVEN(tape);
    rota_op_use use = {.attributes = {.value = {rota_value_plain(number)}}};
    return apply_into(tape, ROTA_OP_fill, &use, 0, y);
}

static rota_status attention_separate(rota_tape *tape, rota_tensor q, rota_tensor k, rota_tensor v,
                                      bool causal, float scale, rota_tensor *out_y) {
    rota_tensor scores;
    if (q.rank != 4) return rota_fail(ROTA_INVALID_ARGUMENT, "attention: q has %u axes, expected 4", q.rank);
    if (scale == 0.0f) scale = 1.0f / sqrtf((float)q.shape[3]);
    ROTA_TRY(for_each_query_head(tape, q, &k));
    ROTA_TRY(for_each_query_head(tape, q, &v));
    ROTA_TRY(rota_op_matmul(tape, q, k, false, true, &scores));
    ROTA_TRY(rota_op_scale(tape, scores, rota_value_plain((double)scale), &scores));
    if (causal) ROTA_TRY(rota_op_causal_mask(tape, scores, &scores));
    ROTA_TRY(rota_op_softmax(tape, scores, &scores));
    return rota_op_weighted_matmul(tape, scores, v, out_y);
}

rota_status rota_op_attention_separate(rota_tape *tape, rota_tensor q, rota_tensor k, rota_tensor v,
                                       bool causal, float scale, rota_tensor *out_y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_y);
    *out_y = ROTA_TENSOR_NONE;
    ROTA_TAPE_AS_OP(tape, "attention_separate", attention_separate(tape, q, k, v, causal, scale, out_y));
}

rota_status rota_op_index_add(rota_tape *tape, rota_tensor index, int32_t value, rota_tensor y) {
    ROTA_GIVEN(tape);
    rota_op_use use = {.inputs = {index, y}, .attributes = {.integer = value}};
    return apply(tape, ROTA_OP_index_add, &use, 2, NULL);
}

rota_status rota_op_global_norm(rota_tape *tape, const rota_tensor *tensors, uint32_t count, float max_norm,
                                rota_tensor *out_norm_factor) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN_ARRAY(tensors, count);
    ROTA_GIVEN(out_norm_factor);
    *out_norm_factor = ROTA_TENSOR_NONE;
    for (uint32_t i = 0; i < count; i++)
        if (!tensors[i].buffer || !rota_dtype_is_real(tensors[i].dtype))
            return rota_fail(ROTA_INVALID_ARGUMENT,
                             "op 'global_norm': tensor %u is %s, expected f32, f16 or bf16", i,
                             tensors[i].buffer ? rota_dtype_name(tensors[i].dtype) : "missing");
    if (count == 0) return rota_fail(ROTA_INVALID_ARGUMENT, "op 'global_norm': no tensors");
    ROTA_TRY(rota_tape_temporary(tape, "global_norm", ROTA_F32, ROTA_SHAPE(2), out_norm_factor));
    ROTA_TAPE_AS_OP(tape, "global_norm",
                    rota_record_global_norm(tape, tensors, count, max_norm, out_norm_factor));
}

static rota_status clip_global_norm(rota_tape *tape, const rota_tensor *tensors, uint32_t count,
                                    float max_norm, rota_tensor *out_norm_factor) {
    rota_tensor factor;
    ROTA_TRY(rota_op_global_norm(tape, tensors, count, max_norm, out_norm_factor));
    ROTA_TRY(rota_tensor_slice(out_norm_factor, 0, 1, 1, &factor));
    const bool remembered = tape->remember;
    tape->remember = false;
    rota_status status = ROTA_OK;
    rota_tensor factors[ROTA_DTYPE_COUNT] = {[ROTA_F32] = factor};
    for (uint32_t i = 0; i < count && status == ROTA_OK; i++) {
        rota_tensor *own = &factors[tensors[i].dtype];
        if (!own->buffer) status = rota_op_cast(tape, factor, tensors[i].dtype, own);
        if (status == ROTA_OK) status = rota_op_mul_into(tape, tensors[i], *own, tensors[i]);
    }
    tape->remember = remembered;
    return status;
}

rota_status rota_op_clip_global_norm(rota_tape *tape, const rota_tensor *tensors, uint32_t count,
                                     float max_norm, rota_tensor *out_norm_factor) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN_ARRAY(tensors, count);
    ROTA_GIVEN(out_norm_factor);
    ROTA_TAPE_AS_OP(tape, "clip_global_norm",
                    clip_global_norm(tape, tensors, count, max_norm, out_norm_factor));
}

rota_status rota_op_check_finite(rota_tape *tape, rota_tensor x, rota_tensor *out_found) {
    ROTA_GIVEN(tape);
    rota_op_use use = {.inputs = {x}};
    rota_tensor found;
    return apply_new(tape, ROTA_OP_check_finite, &use, 1, out_found ? out_found : &found);
}
