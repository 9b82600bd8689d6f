/* Ops element by element. The rules that hold for all ops are in ops.h. */
#ifndef ROTA_OPS_OPS_ELEMENTWISE_H
#define ROTA_OPS_OPS_ELEMENTWISE_H

#include "ops_tape.h"

/* ---- Elementwise. y has the broadcast shape of its inputs (right-aligned, 1-long axes repeat) ---- */

/* pow: a^b (of a negative a NaN unless b is whole). minimum, maximum: NaN if either is; where both are alike
 * each gets half of the gradient. silu_mul: silu(a) * b (SwiGLU). eq to ge: 1 where it holds and 0 elsewhere
 * (of NaN only ne holds; 0 and -0 are equal), in the dtype of the inputs, as where and masked_fill take it;
 * through them no gradient flows. */
#define ROTA_OP_BINARY_LIST(X)                                                                               \
    X(add) X(sub) X(mul) X(div) X(minimum) X(maximum) X(pow) X(silu_mul) X(eq) X(ne) X(lt) X(le) X(gt) X(ge)
#define ROTA_OP_BINARY_DECLARE(name)                                                                         \
    ROTA_API rota_status rota_op_##name(rota_tape *tape, rota_tensor a, rota_tensor b, rota_tensor *out_y);  \
    ROTA_API rota_status rota_op_##name##_into(rota_tape *tape, rota_tensor a, rota_tensor b, rota_tensor y);
ROTA_OP_BINARY_LIST(ROTA_OP_BINARY_DECLARE)
#undef ROTA_OP_BINARY_DECLARE
/* gelu(x + bias), the tanh form. */
ROTA_API rota_status rota_op_bias_gelu(rota_tape *tape, rota_tensor x, rota_tensor bias, rota_tensor *out_y);
ROTA_API rota_status rota_op_bias_gelu_into(rota_tape *tape, rota_tensor x, rota_tensor bias, rota_tensor y);

/* gelu: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))); gelu_erf: 0.5 x (1 + erf(x / sqrt 2)). silu:
 * x / (1 + exp(-x)). softplus: log(1 + exp(x)). hardswish: x * min(max(x + 3, 0), 6) / 6. round: halves to
 * even. sign, floor, ceil and round pass a gradient of 0. sin and cos lose digits for |x| > 1e4 on Vulkan. Of
 * NaN all are NaN, and the gradient of relu is 0. */
#define ROTA_OP_UNARY_LIST(X)                                                                                \
    X(neg)                                                                                                   \
    X(exp)                                                                                                   \
    X(log)                                                                                                   \
    X(sqrt)                                                                                                  \
    X(relu)                                                                                                  \
    X(gelu)                                                                                                  \
    X(silu)                                                                                                  \
    X(abs)                                                                                                   \
    X(square) X(reciprocal) X(rsqrt) X(tanh) X(sigmoid) X(sin) X(cos) X(sign) X(floor) X(ceil) X(round)      \
        X(gelu_erf) X(softplus) X(hardswish)
#define ROTA_OP_UNARY_DECLARE(name)                                                                          \
    ROTA_API rota_status rota_op_##name(rota_tape *tape, rota_tensor x, rota_tensor *out_y);                 \
    ROTA_API rota_status rota_op_##name##_into(rota_tape *tape, rota_tensor x, rota_tensor y);
ROTA_OP_UNARY_LIST(ROTA_OP_UNARY_DECLARE)
#undef ROTA_OP_UNARY_DECLARE

/* leaky_relu: x > 0 ? x : alpha * x. elu: x > 0 ? x : alpha * (exp(x) - 1). */
ROTA_API rota_status rota_op_leaky_relu(rota_tape *tape, rota_tensor x, rota_value alpha, rota_tensor *out_y);
ROTA_API rota_status rota_op_leaky_relu_into(rota_tape *tape, rota_tensor x, rota_value alpha, rota_tensor y);
ROTA_API rota_status rota_op_elu(rota_tape *tape, rota_tensor x, rota_value alpha, rota_tensor *out_y);
ROTA_API rota_status rota_op_elu_into(rota_tape *tape, rota_tensor x, rota_value alpha, rota_tensor y);
/* x^exponent. */
ROTA_API rota_status rota_op_pow_scalar(rota_tape *tape, rota_tensor x, rota_value exponent,
                                        rota_tensor *out_y);
ROTA_API rota_status rota_op_pow_scalar_into(rota_tape *tape, rota_tensor x, rota_value exponent,
                                             rota_tensor y);
/* min(max(x, low), high), NaN of NaN; the gradient passes where low <= x <= high. */
ROTA_API rota_status rota_op_clamp(rota_tape *tape, rota_tensor x, rota_value low, rota_value high,
                                   rota_tensor *out_y);
ROTA_API rota_status rota_op_clamp_into(rota_tape *tape, rota_tensor x, rota_value low, rota_value high,
                                        rota_tensor y);
/* cap * tanh(x / cap). */
ROTA_API rota_status rota_op_softcap(rota_tape *tape, rota_tensor x, rota_value cap, rota_tensor *out_y);
ROTA_API rota_status rota_op_softcap_into(rota_tape *tape, rota_tensor x, rota_value cap, rota_tensor y);

/* a where condition is not 0 (NaN is not), b elsewhere; all three alike, broadcast to one another. */
ROTA_API rota_status rota_op_where(rota_tape *tape, rota_tensor condition, rota_tensor a, rota_tensor b,
                                   rota_tensor *out_y);
ROTA_API rota_status rota_op_where_into(rota_tape *tape, rota_tensor condition, rota_tensor a, rota_tensor b,
                                        rota_tensor y);
/* The number where mask, which is broadcast to x, is not 0; x elsewhere. */
ROTA_API rota_status rota_op_masked_fill(rota_tape *tape, rota_tensor x, rota_tensor mask, float number,
                                         rota_tensor *out_y);
ROTA_API rota_status rota_op_masked_fill_into(rota_tape *tape, rota_tensor x, rota_tensor mask, float number,
                                              rota_tensor y);

/* y = alpha * x + beta. */
ROTA_API rota_status rota_op_affine(rota_tape *tape, rota_tensor x, rota_value alpha, rota_value beta,
                                    rota_tensor *out_y);
ROTA_API rota_status rota_op_affine_into(rota_tape *tape, rota_tensor x, rota_value alpha, rota_value beta,
                                         rota_tensor y);
/* y = alpha * x. */
ROTA_API rota_status rota_op_scale(rota_tape *tape, rota_tensor x, rota_value alpha, rota_tensor *out_y);
ROTA_API rota_status rota_op_scale_into(rota_tape *tape, rota_tensor x, rota_value alpha, rota_tensor y);

/* Zero with probability p, else x / (1 - p). The mask is a function of seed, step and the dropout's number in its
 * tape: replays with the same seed and step repeat it. seed and step vary by step (u32). p in [0, 1). Of a tape of
 * one of several ranks the mask is a part of the whole's (rota_tape_options.ranks): UNSUPPORTED where its elements
 * are no multiple of 4. */
ROTA_API rota_status rota_op_dropout(rota_tape *tape, rota_tensor x, float p, rota_value seed,
                                     rota_value step, rota_tensor *out_y);
ROTA_API rota_status rota_op_dropout_into(rota_tape *tape, rota_tensor x, float p, rota_value seed,
                                          rota_value step, rota_tensor y);

/* residual + dropout(x), in one pass. */
ROTA_API rota_status rota_op_residual_dropout(rota_tape *tape, rota_tensor x, rota_tensor residual, float p,
                                              rota_value seed, rota_value step, rota_tensor *out_y);
ROTA_API rota_status rota_op_residual_dropout_into(rota_tape *tape, rota_tensor x, rota_tensor residual,
                                                   float p, rota_value seed, rota_value step, rota_tensor y);

#endif
