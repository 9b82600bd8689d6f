/* Ops along an axis. The rules that hold for all ops are in ops.h. */
#ifndef ROTA_OPS_OPS_REDUCE_H
#define ROTA_OPS_OPS_REDUCE_H

#include "ops_tape.h"

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

#endif
