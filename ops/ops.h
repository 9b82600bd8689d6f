/* Ops: recording tensor operations into a graph, and their gradients.
 *
 * A rota_tape records kernels into one recorder and remembers what it recorded, so that rota_backward can
 * append the gradient nodes. Tensors are views of buffers (ops/tensor.h); an op reads what the last op
 * recorded before it wrote, as the graph says, so in-place and overlapping use mean what the record says.
 *
 * Each op has two forms: rota_op_<name>(..., &out) makes a TRANSIENT buffer of the graph for its result, and
 * rota_op_<name>_into(..., destination) writes into a tensor that is given. A destination has the result's
 * shape and dtype; it may be strided, and may be exactly an input (add_into(tape, a, b, a)), or overlap
 * inputs in any other way: the op then records a copy first, so that the result is as if all inputs were read
 * before the first write.
 *
 * Tensors without elements (an extent of 0) are operands like any other. Where all that an op writes is
 * without elements nothing is recorded; of no elements a sum is 0, a product 1, and what has no such value (a
 * maximum, a mean) is INVALID_ARGUMENT, by a sentence that says so. No gradient flows through them.
 *
 * Inputs may be strided views and broadcast views; where a kernel needs contiguity the op records a copy.
 *
 * All nodes of an op have its name: those of rota_op_add "add", of rota_op_mse "mse", and of their gradients
 * "add_backward" and "mse_backward", unless rota_tape_name gave them one; errors, explanations, pictures and
 * traces show it. Which nodes an op has recorded rota_recorder_last_node says.
 *
 * Errors name the op, the shapes and what was expected; nothing is recorded for an op that failed (but see
 * OUT_OF_MEMORY: part of an op of several nodes may be). Shapes and dtypes: INVALID_ARGUMENT. A tape is used
 * by one thread at a time (as its recorder). Ops may block in malloc. Cost of an op: O(1), whatever was
 * recorded before. */
#ifndef ROTA_OPS_OPS_H
#define ROTA_OPS_OPS_H

#include "../graph/graph.h"
#include "tensor.h"

typedef struct rota_tape rota_tape;

typedef struct rota_tape_options {
    size_t struct_size;       /* sizeof, by ROTA_TAPE_OPTIONS() */
    bool no_gradients;        /* remember nothing; rota_backward is WRONG_STATE */
    rota_placement placement; /* of every node recorded */
} rota_tape_options;
#define ROTA_TAPE_OPTIONS(...) ROTA_SIZED(rota_tape_options, __VA_ARGS__)

/* A tape that records into `recorder`, which it borrows until destroyed. `options` may be NULL. */
ROTA_API rota_status rota_tape_create(rota_recorder *recorder, const rota_tape_options *options,
                                      rota_tape **out_tape);
/* Neither closes the recorder nor touches what was recorded (of rota_device_tape, ops/direct.h, it ends both,
 * and lets go of the plan). NULL is ignored. */
ROTA_API void rota_tape_destroy(rota_tape *tape);
ROTA_API rota_recorder *rota_tape_recorder(const rota_tape *tape);
ROTA_API rota_graph *rota_tape_graph(const rota_tape *tape);
/* Stops and resumes remembering ops for gradients (optimizer steps, statistics). */
ROTA_API void rota_tape_remember(rota_tape *tape, bool remember);
/* Name given to the nodes recorded from now on ("block 3 attention"), and to their gradients'. Copied into
 * the graph; NULL: the ops' names. */
ROTA_API rota_status rota_tape_name(rota_tape *tape, const char *name);

/* A new buffer of the tape's graph, dense. `name` is copied and may be NULL for a transient. */
ROTA_API rota_status rota_tape_tensor(rota_tape *tape, rota_buffer_kind kind, const char *name,
                                      rota_dtype dtype, uint32_t rank, const uint64_t *shape,
                                      rota_tensor *out_tensor);

/* ---- Parameter values ---- */

typedef enum rota_value_kind { ROTA_VALUE_PLAIN, ROTA_VALUE_SLOT, ROTA_VALUE_CONSTANT } rota_value_kind;

/* A scalar parameter of an op: a number fixed at record, or a 4-byte slot filled at each replay (f32 for real
 * numbers, u32 for counts and seeds: rota_args_set_f32, _u32; a number that is no u32 is INVALID_ARGUMENT).
 * What varies by step (lr, step, seed) must be a slot, or ROTA_CONSTANT to say that it is meant to stay; a
 * plain number is INVALID_ARGUMENT at record. */
typedef struct rota_value {
    rota_value_kind kind;
    rota_slot slot;
    double number;
} rota_value;

static inline rota_value rota_value_plain(double number) {
    rota_value value = {ROTA_VALUE_PLAIN, {0}, number};
    return value;
}
static inline rota_value rota_value_slot(rota_slot slot) {
    rota_value value = {ROTA_VALUE_SLOT, slot, 0};
    return value;
}
static inline rota_value rota_value_constant(double number) {
    rota_value value = {ROTA_VALUE_CONSTANT, {0}, number};
    return value;
}
#define ROTA_PLAIN(number) rota_value_plain((double)(number))
#define ROTA_SLOT(slot) rota_value_slot(slot)
#define ROTA_CONSTANT(number) rota_value_constant((double)(number))

/* ---- Dtypes ----
 *
 * An op on real numbers takes f32, f16 or bf16, all of its inputs alike (else INVALID_ARGUMENT, naming both:
 * cast one); its result has that dtype, unless it says otherwise, and so has each gradient. Arithmetic is in
 * f32, also where several elements are summed, and rounded once, when the result is stored. 16 bits need
 * ROTA_FEATURE_F16_STORAGE of a Vulkan device. ---- */

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
    X(silu) X(abs) X(square) X(reciprocal) X(rsqrt) X(tanh) X(sigmoid) X(sin) X(cos) X(sign) X(floor)        \
        X(ceil) X(round) X(gelu_erf) X(softplus) X(hardswish)
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

/* ---- Moving data (any dtype) ---- */

/* y has x's shape, another dtype: f32, f16, bf16 among each other (gradient flows, cast back), and to and
 * from i32: towards 0, a number outside becomes the nearest i32 and NaN 0; from i32 by way of f32, without
 * gradient. */
ROTA_API rota_status rota_op_cast(rota_tape *tape, rota_tensor x, rota_dtype dtype, rota_tensor *out_y);
ROTA_API rota_status rota_op_cast_into(rota_tape *tape, rota_tensor x, rota_tensor y);
/* x's elements in y; x is broadcast to y's shape. Gradient flows. */
ROTA_API rota_status rota_op_copy(rota_tape *tape, rota_tensor x, rota_tensor *out_y);
ROTA_API rota_status rota_op_copy_into(rota_tape *tape, rota_tensor x, rota_tensor y);
/* x's elements, through which no gradient flows: to a loss they are constants. A gradient belongs to memory,
 * so this is a copy; in place (x into x) it costs nothing, and what was computed into x before gets none. */
ROTA_API rota_status rota_op_stop_gradient(rota_tape *tape, rota_tensor x, rota_tensor *out_y);
ROTA_API rota_status rota_op_stop_gradient_into(rota_tape *tape, rota_tensor x, rota_tensor y);
/* x itself if it is contiguous, else a contiguous copy. */
ROTA_API rota_status rota_op_contiguous(rota_tape *tape, rota_tensor x, rota_tensor *out_y);
/* Two axes swapped, moved in memory (rota_tensor_transpose is the view). */
ROTA_API rota_status rota_op_transpose(rota_tape *tape, rota_tensor x, uint32_t axis_a, uint32_t axis_b,
                                       rota_tensor *out_y);
ROTA_API rota_status rota_op_transpose_into(rota_tape *tape, rota_tensor x, uint32_t axis_a, uint32_t axis_b,
                                            rota_tensor y);
/* A view if the strides allow it, else of a contiguous copy. */
ROTA_API rota_status rota_op_reshape(rota_tape *tape, rota_tensor x, uint32_t rank, const uint64_t *shape,
                                     rota_tensor *out_y);
/* x's elements in row-major order into y, which may have another shape of as many elements. */
ROTA_API rota_status rota_op_reshape_into(rota_tape *tape, rota_tensor x, rota_tensor y);
/* [start, start + length) along an axis, moved in memory (rota_tensor_slice is the view). */
ROTA_API rota_status rota_op_slice(rota_tape *tape, rota_tensor x, uint32_t axis, uint64_t start,
                                   uint64_t length, rota_tensor *out_y);
ROTA_API rota_status rota_op_slice_into(rota_tape *tape, rota_tensor x, uint32_t axis, uint64_t start,
                                        uint64_t length, rota_tensor y);
/* Every element of y = number, converted to y's dtype; INVALID_ARGUMENT: an integer dtype can't hold it. */
ROTA_API rota_status rota_op_fill_into(rota_tape *tape, rota_tensor y, double number);

/* The tensors side by side along an axis, in order; alike but for that axis. No tensor may overlap y. Costs a
 * copy of each, and where the parts are not runs in y (an inner axis) a fill of y before. */
ROTA_API rota_status rota_op_concat(rota_tape *tape, const rota_tensor *tensors, uint32_t count,
                                    uint32_t axis, rota_tensor *out_y);
ROTA_API rota_status rota_op_concat_into(rota_tape *tape, const rota_tensor *tensors, uint32_t count,
                                         uint32_t axis, rota_tensor y);
/* x repeated in memory to a larger shape (rota_tensor_broadcast is the view; its gradient is summed). */
ROTA_API rota_status rota_op_broadcast(rota_tape *tape, rota_tensor x, uint32_t rank, const uint64_t *shape,
                                       rota_tensor *out_y);

/* ---- By index (i32) along an axis. An index outside fails the node (CPU executor), naming position and
 * value; on a GPU what it would give is NaN, and what it would add to is left ---- */

/* y has index's shape: of each of its elements that of x at the same place, but at the index along the axis.
 * index has x's shape but along the axis. */
ROTA_API rota_status rota_op_gather(rota_tape *tape, rota_tensor x, uint32_t axis, rota_tensor index,
                                    rota_tensor *out_y);
ROTA_API rota_status rota_op_gather_into(rota_tape *tape, rota_tensor x, uint32_t axis, rota_tensor index,
                                         rota_tensor y);
/* y = base, with each element of x (index's shape) added at its index along the axis: in order along the
 * axis, in f32, rounded once. A base of 0 and gather's index: gather's gradient. */
ROTA_API rota_status rota_op_scatter_add(rota_tape *tape, rota_tensor base, uint32_t axis, rota_tensor index,
                                         rota_tensor x, rota_tensor *out_y);
ROTA_API rota_status rota_op_scatter_add_into(rota_tape *tape, rota_tensor base, uint32_t axis,
                                              rota_tensor index, rota_tensor x, rota_tensor y);
/* y [index shape, classes] = 1 at the index, else 0. No gradient. */
ROTA_API rota_status rota_op_one_hot(rota_tape *tape, rota_tensor index, uint64_t classes, rota_dtype dtype,
                                     rota_tensor *out_y);
ROTA_API rota_status rota_op_one_hot_into(rota_tape *tape, rota_tensor index, rota_tensor y);

/* ---- Reductions along an axis. keep: the axis stays with extent 1. max and min: NaN if an element
 * is; the gradient goes to the first element that is it, and of NaN to none.
 *
 * On the CPU a sum along an axis, of these and of those below, of softmax, cross_entropy and the norms along
 * it, is off by at most 2^-15 of the sum of the magnitudes, however long the axis: blocks are summed in f32,
 * and added up in f64. (variance is within a few units of its last place, also where the mean is far from 0;
 * sums by index, scatter_add's and the gradients of gather and embedding, are in order and f32.) GPUs sum in
 * f32, in trees. ---- */

#define ROTA_OP_REDUCE_LIST(X) X(sum) X(mean) X(max) X(min)
#define ROTA_OP_REDUCE_DECLARE(name)                                                                         \
    ROTA_API rota_status rota_op_##name(rota_tape *tape, rota_tensor x, uint32_t axis, bool keep,            \
                                        rota_tensor *out_y);                                                 \
    ROTA_API rota_status rota_op_##name##_into(rota_tape *tape, rota_tensor x, uint32_t axis, bool keep,     \
                                               rota_tensor y);
ROTA_OP_REDUCE_LIST(ROTA_OP_REDUCE_DECLARE)
#undef ROTA_OP_REDUCE_DECLARE

/* The sum of (x - mean)^2 over n - correction; 0 <= correction < n (1: the unbiased estimate). */
ROTA_API rota_status rota_op_variance(rota_tape *tape, rota_tensor x, uint32_t axis, int32_t correction,
                                      bool keep, rota_tensor *out_y);
ROTA_API rota_status rota_op_variance_into(rota_tape *tape, rota_tensor x, uint32_t axis, int32_t correction,
                                           bool keep, rota_tensor y);
/* y [n] = the sum of x [..., n] over all of its leading axes. */
ROTA_API rota_status rota_op_column_sums(rota_tape *tape, rota_tensor x, rota_tensor *out_y);
/* The product along an axis. Made of log2 of its extent muls, each rounded; the gradient is right where
 * elements are 0 too. */
ROTA_API rota_status rota_op_prod(rota_tape *tape, rota_tensor x, uint32_t axis, bool keep,
                                  rota_tensor *out_y);
/* y[..., k, ...] = the sum of x[..., 0 to k, ...] along the axis. */
ROTA_API rota_status rota_op_cumulative_sum(rota_tape *tape, rota_tensor x, uint32_t axis,
                                            rota_tensor *out_y);
ROTA_API rota_status rota_op_cumulative_sum_into(rota_tape *tape, rota_tensor x, uint32_t axis,
                                                 rota_tensor y);
/* y i32: the index of the largest along the axis; NaN is above all numbers, and of equal ones the first is
 * it. No gradient. */
ROTA_API rota_status rota_op_argmax(rota_tape *tape, rota_tensor x, uint32_t axis, bool keep,
                                    rota_tensor *out_y);
ROTA_API rota_status rota_op_argmax_into(rota_tape *tape, rota_tensor x, uint32_t axis, bool keep,
                                         rota_tensor y);
/* The k largest along the axis, in falling order as argmax orders them, and their indices (i32); both have
 * x's shape with k along the axis. Gradient flows through the values. Reads x k times. */
ROTA_API rota_status rota_op_top_k(rota_tape *tape, rota_tensor x, uint32_t axis, uint64_t k,
                                   rota_tensor *out_values, rota_tensor *out_index);

/* y f32 [1] = sum of the squares of all elements of x. Gradient flows. */
ROTA_API rota_status rota_op_sum_squares(rota_tape *tape, rota_tensor x, rota_tensor *out_y);
ROTA_API rota_status rota_op_sum_squares_into(rota_tape *tape, rota_tensor x, rota_tensor y);

/* ---- Products ---- */

/* a [..., m, k] (or [..., k, m] with transpose_a) times b [..., k, n] (or [..., n, k] with transpose_b):
 * [..., m, n]. Leading axes broadcast right-aligned. f32, f16 or bf16, both alike; sums in f32. The result
 * has the inputs' dtype, or, into a destination, that of the destination: the inputs' or f32. */
ROTA_API rota_status rota_op_matmul(rota_tape *tape, rota_tensor a, rota_tensor b, bool transpose_a,
                                    bool transpose_b, rota_tensor *out_c);
ROTA_API rota_status rota_op_matmul_into(rota_tape *tape, rota_tensor a, rota_tensor b, bool transpose_a,
                                         bool transpose_b, rota_tensor c);
/* out[b, h, q, d] = sum over k of weight[b, h, q, k] * value[b, h, k, d]. */
ROTA_API rota_status rota_op_weighted_matmul(rota_tape *tape, rota_tensor weight, rota_tensor value,
                                             rota_tensor *out_y);
ROTA_API rota_status rota_op_weighted_matmul_into(rota_tape *tape, rota_tensor weight, rota_tensor value,
                                                  rota_tensor y);

typedef enum rota_activation {
    ROTA_ACTIVATION_NONE,
    ROTA_ACTIVATION_GELU, /* the tanh form */
    ROTA_ACTIVATION_RELU
} rota_activation;

typedef struct rota_linear {
    size_t struct_size;   /* sizeof, by ROTA_LINEAR() */
    rota_tensor bias;     /* [n], or ROTA_TENSOR_NONE */
    rota_tensor residual; /* of y's shape, or ROTA_TENSOR_NONE */
    rota_activation activation;
    bool transposed; /* w is [n, k], as in PyTorch */
} rota_linear;
#define ROTA_LINEAR(...) ROTA_SIZED(rota_linear, __VA_ARGS__)

/* y [..., n] = act(x w + bias) + residual; x [..., k], w [k, n]; all of one dtype: f32, f16 or bf16. One
 * node, and on CUDA devices one call of cuBLASLt, unless a residual follows an activation, or cuBLASLt does
 * not take the product; then, as on other devices, the product and what follows are kernels of their own, and
 * what is between them is rounded to the dtype. Its gradient sums up the bias' in the product for w's, and
 * reads x w + bias, which is kept (GELU), or y (RELU). `options` may be NULL: neither. */
ROTA_API rota_status rota_op_linear(rota_tape *tape, rota_tensor x, rota_tensor w, const rota_linear *options,
                                    rota_tensor *out_y);
ROTA_API rota_status rota_op_linear_into(rota_tape *tape, rota_tensor x, rota_tensor w,
                                         const rota_linear *options, rota_tensor y);

/* ---- Networks. f32, f16 or bf16, calculated in f32 and rounded when stored; weights of norms have x's
 * dtype; statistics and losses are f32, indices and labels i32 ---- */

/* y [index shape, dim] = table [classes, dim] at index. An index outside fails the node (CPU executor),
 * naming position and value; on a GPU the row is NaN. The gradient of the table is summed in a fixed order.
 */
ROTA_API rota_status rota_op_embedding(rota_tape *tape, rota_tensor table, rota_tensor index,
                                       rota_tensor *out_y);
ROTA_API rota_status rota_op_embedding_into(rota_tape *tape, rota_tensor table, rota_tensor index,
                                            rota_tensor y);

/* Along the last axis, the maximum subtracted. A row with NaN or infinity in it, or of -infinity alone, is NaN;
 * beside numbers -infinity gives 0. */
ROTA_API rota_status rota_op_softmax(rota_tape *tape, rota_tensor x, rota_tensor *out_y);
ROTA_API rota_status rota_op_softmax_into(rota_tape *tape, rota_tensor x, rota_tensor y);
/* x - log(sum(exp(x))) along the last axis. */
ROTA_API rota_status rota_op_log_softmax(rota_tape *tape, rota_tensor x, rota_tensor *out_y);
ROTA_API rota_status rota_op_log_softmax_into(rota_tape *tape, rota_tensor x, rota_tensor y);
/* x [..., queries, keys]: -infinity where key > query + keys - queries (keys >= queries). */
ROTA_API rota_status rota_op_causal_mask(rota_tape *tape, rota_tensor x, rota_tensor *out_y);
ROTA_API rota_status rota_op_causal_mask_into(rota_tape *tape, rota_tensor x, rota_tensor y);

/* Along the last axis; weight and bias [dim], or ROTA_TENSOR_NONE. layernorm: (x - mean) / sqrt(variance +
 * eps) * weight + bias (Ba, Kiros and Hinton, Layer normalization, 2016); rmsnorm: x / sqrt(mean(x^2) + eps)
 * * weight (Zhang and Sennrich, Root mean square layer normalization, 2019). */
ROTA_API rota_status rota_op_layernorm(rota_tape *tape, rota_tensor x, rota_tensor weight, rota_tensor bias,
                                       float eps, rota_tensor *out_y);
ROTA_API rota_status rota_op_layernorm_into(rota_tape *tape, rota_tensor x, rota_tensor weight,
                                            rota_tensor bias, float eps, rota_tensor y);
ROTA_API rota_status rota_op_rmsnorm(rota_tape *tape, rota_tensor x, rota_tensor weight, float eps,
                                     rota_tensor *out_y);
ROTA_API rota_status rota_op_rmsnorm_into(rota_tape *tape, rota_tensor x, rota_tensor weight, float eps,
                                          rota_tensor y);

/* sum = x + r and y = layernorm(sum), in one pass over memory. The gradients of both are those of add and
 * layernorm. */
ROTA_API rota_status rota_op_residual_layernorm(rota_tape *tape, rota_tensor x, rota_tensor r,
                                                rota_tensor weight, rota_tensor bias, float eps,
                                                rota_tensor *out_y, rota_tensor *out_sum);

typedef struct rota_batch_norm {
    size_t struct_size;                         /* sizeof, by ROTA_BATCH_NORM() */
    uint32_t axis;                              /* of the channels */
    float eps, momentum;                        /* 1e-5 and 0.1 in PyTorch */
    bool evaluate;                              /* with the running statistics, which stay as they are */
    rota_tensor weight, bias;                   /* [channels] of x's dtype, or ROTA_TENSOR_NONE */
    rota_tensor running_mean, running_variance; /* f32 [channels], contiguous */
} rota_batch_norm;
#define ROTA_BATCH_NORM(...) ROTA_SIZED(rota_batch_norm, __VA_ARGS__)

/* y = (x - mean) / sqrt(variance + eps) * weight + bias, over all axes but that of the channels (Ioffe and
 * Szegedy, Batch normalization, 2015). In training mean and variance (divisor n) are the batch's, and the
 * running ones become (1 - momentum) * running + momentum * the batch's, of the variance with divisor n - 1,
 * as in PyTorch; at least 2 elements a channel. */
ROTA_API rota_status rota_op_batch_norm(rota_tape *tape, rota_tensor x, const rota_batch_norm *options,
                                        rota_tensor *out_y);

/* x [batch, channels, ...]: layernorm over each of `groups` groups of channels, then weight and bias
 * [channels] (or ROTA_TENSOR_NONE) per channel (Wu and He, Group normalization, 2018). Made of other ops. */
ROTA_API rota_status rota_op_group_norm(rota_tape *tape, rota_tensor x, uint32_t groups, rota_tensor weight,
                                        rota_tensor bias, float eps, rota_tensor *out_y);

typedef struct rota_rope {
    size_t struct_size; /* sizeof, by ROTA_ROPE() */
    rota_value offset; /* position of the first row of the sequence, u32, varies by step */
    float base;        /* 10000 */
    uint32_t rotary;   /* columns that are turned, even; the others stay. 0: all */
    bool interleaved;  /* pairs are neighbours (GPT-J); else a column and the one half of `rotary` on (Llama,
                          GPT-NeoX) */
} rota_rope;
#define ROTA_ROPE(...) ROTA_SIZED(rota_rope, __VA_ARGS__)

/* x [..., sequence, dim], pair i of each row turned by position * base^(-2 i / rotary) (Su et al., RoFormer,
 * 2021). */
ROTA_API rota_status rota_op_rope(rota_tape *tape, rota_tensor x, const rota_rope *options,
                                  rota_tensor *out_y);
ROTA_API rota_status rota_op_rope_into(rota_tape *tape, rota_tensor x, const rota_rope *options,
                                       rota_tensor y);

/* Means over all elements of (x - target)^2, of |x - target|, and of Huber's loss: d^2 / 2 where |d| = |x -
 * target| <= delta, else delta * (|d| - delta / 2). x and target of one shape; loss f32 [1]. Made of other
 * ops; gradient flows to both. */
ROTA_API rota_status rota_op_mse(rota_tape *tape, rota_tensor x, rota_tensor target, rota_tensor *out_loss);
ROTA_API rota_status rota_op_l1(rota_tape *tape, rota_tensor x, rota_tensor target, rota_tensor *out_loss);
ROTA_API rota_status rota_op_huber(rota_tape *tape, rota_tensor x, rota_tensor target, float delta,
                                   rota_tensor *out_loss);

/* Rows with this label do not count in a loss, as in PyTorch. */
#define ROTA_IGNORED_LABEL (-100)

/* loss f32 [1] = mean of -log softmax(logits)[label] over the rows whose label is not ROTA_IGNORED_LABEL (NaN
 * if there is none). logits [..., classes], labels i32 of logits' leading shape. Another label outside the
 * classes fails the node (CPU executor), naming position and value; on a GPU the loss is NaN. The
 * probabilities are never in memory. */
ROTA_API rota_status rota_op_cross_entropy(rota_tape *tape, rota_tensor logits, rota_tensor labels,
                                           rota_tensor *out_loss);
ROTA_API rota_status rota_op_cross_entropy_into(rota_tape *tape, rota_tensor logits, rota_tensor labels,
                                                rota_tensor loss);

typedef struct rota_classifier {
    size_t struct_size; /* sizeof, by ROTA_CLASSIFIER() */
    int32_t ignored;  /* rows with this label do not count */
    float smoothing;  /* the label gets 1 - smoothing, and each class smoothing / classes (Szegedy et al.,
                         2016) */
    uint64_t classes; /* how many of the last axis's columns are classes; the others don't count, and their
                         gradient is 0: rows padded for the products' sake. 0: all */
    /* The gradient takes the place of the logits: they are contiguous, and whoever reads them after this op
     * may read their gradient. Half the memory of the largest tensors of a language model. (It does not where
     * the logits are not the whole of a transient buffer, or where their gradient was asked for.) */
    bool in_place;
} rota_classifier;
#define ROTA_CLASSIFIER(...) ROTA_SIZED(rota_classifier, __VA_ARGS__)

/* cross_entropy with options; NULL: {ROTA_IGNORED_LABEL}. */
ROTA_API rota_status rota_op_classifier(rota_tape *tape, rota_tensor logits, rota_tensor labels,
                                        const rota_classifier *options, rota_tensor *out_loss);

/* softmax(scale * q k^T) v; q [batch, heads, queries, dim], k and v [batch, heads, keys, dim] (strided views
 * welcome; scale 0 means 1 / sqrt(dim)), or of fewer heads that divide those of q: each serves a group of
 * neighbours (grouped-query attention: Ainslie et al., 2023), and is copied for it. causal: query i sees keys
 * j <= i + keys - queries. Fused: one kernel, the scores never in memory; it saves the log-sum-exp of each
 * row for its gradient. Separate: matmul, softmax, matmul as nodes of their own. */
ROTA_API rota_status rota_op_attention(rota_tape *tape, rota_tensor q, rota_tensor k, rota_tensor v,
                                       bool causal, float scale, rota_tensor *out_y);
ROTA_API rota_status rota_op_attention_into(rota_tape *tape, rota_tensor q, rota_tensor k, rota_tensor v,
                                            bool causal, float scale, rota_tensor y);
ROTA_API rota_status rota_op_attention_separate(rota_tape *tape, rota_tensor q, rota_tensor k, rota_tensor v,
                                                bool causal, float scale, rota_tensor *out_y);

/* Residual attention (He et al., RealFormer, 2020; PatchTST): scores = scale * q k^T + previous (the layer's
 * before, or ROTA_TENSOR_NONE), y = softmax(scores) v. Made of other ops. */
ROTA_API rota_status rota_op_attention_residual(rota_tape *tape, rota_tensor q, rota_tensor k, rota_tensor v,
                                                rota_tensor previous, float scale, rota_tensor *out_y,
                                                rota_tensor *out_scores);

/* Zero with probability p, else x / (1 - p). The mask is a function of seed, step and the dropout's number in
 * its tape: replays with the same seed and step repeat it. seed and step vary by step (u32). p in [0, 1). */
ROTA_API rota_status rota_op_dropout(rota_tape *tape, rota_tensor x, float p, rota_value seed,
                                     rota_value step, rota_tensor *out_y);
ROTA_API rota_status rota_op_dropout_into(rota_tape *tape, rota_tensor x, float p, rota_value seed,
                                          rota_value step, rota_tensor y);

/* residual + dropout(x), in one pass. */
ROTA_API rota_status rota_op_residual_dropout(rota_tape *tape, rota_tensor x, rota_tensor residual, float p,
                                              rota_value seed, rota_value step, rota_tensor *out_y);
ROTA_API rota_status rota_op_residual_dropout_into(rota_tape *tape, rota_tensor x, rota_tensor residual,
                                                   float p, rota_value seed, rota_value step, rota_tensor y);

/* ---- Without gradient ---- */

/* y[index[r]] += value for every r; y i32 [size], index i32. An index outside fails the node (CPU executor).
 */
ROTA_API rota_status rota_op_index_add(rota_tape *tape, rota_tensor index, int32_t value, rota_tensor y);

/* out [2] = {norm, factor}: the norm of all tensors together, and what scales them to at most max_norm (1 if
 * they are). */
ROTA_API rota_status rota_op_global_norm(rota_tape *tape, const rota_tensor *tensors, uint32_t count,
                                         float max_norm, rota_tensor *out_norm_factor);
/* The same, and scales the tensors in place. */
ROTA_API rota_status rota_op_clip_global_norm(rota_tape *tape, const rota_tensor *tensors, uint32_t count,
                                              float max_norm, rota_tensor *out_norm_factor);

/* Optimizers: one step in place on f32 p and its moments m and v, all contiguous and of one shape; g f32, f16
 * or bf16 of that shape. `factor` f32 [1] multiplies the gradient (what clips it), or ROTA_TENSOR_NONE; a
 * negative factor skips the step (rota_op_loss_scale). `half`, f16 or bf16, contiguous, gets p rounded in the
 * same pass, or ROTA_TENSOR_NONE: the copy that a mixed-precision model calculates with.
 *
 * To update a model in one node, or one for each group of parameters with the same weight decay, let
 * parameters be views of one buffer, and their gradients of another, in the same order. */

typedef struct rota_adamw {
    size_t struct_size; /* sizeof, by ROTA_ADAMW() */
    rota_value lr;   /* varies by step, f32 */
    rota_value step; /* varies by step, u32, from 1 */
    float beta1, beta2, eps, weight_decay;
    rota_tensor factor;
    rota_tensor half;
    bool coupled; /* Adam with L2: weight_decay * p is added to the gradient */
} rota_adamw;
#define ROTA_ADAMW(...) ROTA_SIZED(rota_adamw, __VA_ARGS__)

/* AdamW (Loshchilov and Hutter, Decoupled weight decay regularization, 2019), or Adam (Kingma and Ba, 2015).
 */
ROTA_API rota_status rota_op_adamw(rota_tape *tape, rota_tensor p, rota_tensor g, rota_tensor m,
                                   rota_tensor v, const rota_adamw *options);

typedef struct rota_sgd {
    size_t struct_size; /* sizeof, by ROTA_SGD() */
    rota_value lr; /* varies by step, f32 */
    float momentum, weight_decay;
    bool nesterov;
    rota_tensor factor, half;
} rota_sgd;
#define ROTA_SGD(...) ROTA_SIZED(rota_sgd, __VA_ARGS__)

/* As PyTorch's without dampening: d = g + weight_decay * p; m = momentum * m + d; p -= lr * m, or with
 * nesterov lr * (d + momentum * m). */
ROTA_API rota_status rota_op_sgd(rota_tape *tape, rota_tensor p, rota_tensor g, rota_tensor m,
                                 const rota_sgd *options);

typedef struct rota_lion {
    size_t struct_size; /* sizeof, by ROTA_LION() */
    rota_value lr; /* varies by step, f32 */
    float beta1, beta2, weight_decay;
    rota_tensor factor, half;
} rota_lion;
#define ROTA_LION(...) ROTA_SIZED(rota_lion, __VA_ARGS__)

/* Lion (Chen et al., Symbolic discovery of optimization algorithms, 2023): p = p (1 - lr * weight_decay) - lr
 * * sign(beta1 * m + (1 - beta1) * g); m = beta2 * m + (1 - beta2) * g. */
ROTA_API rota_status rota_op_lion(rota_tape *tape, rota_tensor p, rota_tensor g, rota_tensor m,
                                  const rota_lion *options);

/* average = decay * average + (1 - decay) * x; f32, average contiguous: an exponential moving average of
 * parameters. */
ROTA_API rota_status rota_op_ema(rota_tape *tape, rota_tensor x, rota_tensor average, float decay);

typedef struct rota_loss_scale {
    size_t struct_size;    /* sizeof, by ROTA_LOSS_SCALE() */
    uint32_t interval;     /* steps without overflow after which the scale grows: 2000 */
    float growth, backoff; /* what it is multiplied by then, and after an overflow: 2 and 0.5 */
    float max_norm;        /* of the gradient without the scale; INFINITY: not clipped */
} rota_loss_scale;
#define ROTA_LOSS_SCALE(...) ROTA_SIZED(rota_loss_scale, __VA_ARGS__)

/* Dynamic loss scaling on the device, as PyTorch's GradScaler (Micikevicius et al., Mixed precision training,
 * 2018): the loss was multiplied by state[0] before rota_backward; norm f32 [1] is the gradients'
 * (rota_op_global_norm, its first element). factor [1], for the optimizer, takes the scale away again and
 * clips; where the norm is infinite or NaN it is negative, which skips the step, and the scale shrinks. state
 * f32 [2], in place: {scale, steps since it changed}. */
ROTA_API rota_status rota_op_loss_scale(rota_tape *tape, rota_tensor norm, rota_tensor state,
                                        const rota_loss_scale *options, rota_tensor *out_factor);

/* Fails the node if an element is NaN or infinite, naming index and value (CPU executor). out_found u32 [2]:
 * how many there are and the index of the first (UINT32_MAX: none), for devices whose kernels can't fail.
 * out_found may be NULL. */
ROTA_API rota_status rota_op_check_finite(rota_tape *tape, rota_tensor x, rota_tensor *out_found);

/* ---- Gradients ---- */

typedef struct rota_backward_options {
    size_t struct_size; /* sizeof, by ROTA_BACKWARD_OPTIONS() */
    bool accumulate; /* add into the gradients that are given instead of overwriting them */
    /* The tape keeps its ops, for the gradients of another loss of theirs. (A classifier's gradient does not
     * take the place of its logits then.) */
    bool keep;
} rota_backward_options;
#define ROTA_BACKWARD_OPTIONS(...) ROTA_SIZED(rota_backward_options, __VA_ARGS__)

/* Appends the nodes that compute the gradients of `loss` (one f32 element) with respect to params[0..count):
 * contiguous tensors of real numbers. A gradient has the dtype of its tensor, and is summed up in it.
 * grads[i] with a buffer is a contiguous destination of params[i]'s shape and dtype; with a NULL buffer it is
 * made (TRANSIENT) and returned there. The gradient is that of what a parameter holds before the ops
 * remembered, or, for one that an op of them made, of that result, through which it flows on (UNSUPPORTED if the
 * op wrote it in part, in place, or after it was read, or with `accumulate`). A parameter that the loss doesn't depend on gets
 * zeroes. Params must not overlap one another, nor the gradients. `options` may be NULL. WRONG_STATE: no
 * gradients remembered; or a value that a gradient needs was overwritten by a later op of this tape (names
 * both ops). UNSUPPORTED: an op without gradient stands between (named), or the loss depends on an output of
 * an op other than its first, through which no gradient flows. Linear in the ops remembered. The tape then
 * forgets its ops: a second rota_backward covers what is recorded after the first (but see `keep`). */
ROTA_API rota_status rota_backward(rota_tape *tape, rota_tensor loss, const rota_tensor *params,
                                   uint32_t count, rota_tensor *grads, const rota_backward_options *options);
/* The same of the sum of several losses, in one pass: what they have in common is gone through once. */
ROTA_API rota_status rota_backward_losses(rota_tape *tape, const rota_tensor *losses, uint32_t loss_count,
                                          const rota_tensor *params, uint32_t count, rota_tensor *grads,
                                          const rota_backward_options *options);

#endif
