/* Ops that move data, by place or by index. The rules that hold for all ops are in ops.h. */
#ifndef ROTA_OPS_OPS_MOVE_H
#define ROTA_OPS_OPS_MOVE_H

#include "ops_tape.h"

/* ---- Moving data (any dtype) ---- */

/* y has x's shape, another dtype: f32, f16, bf16 among each other (gradient flows, cast back), and to and
 * from i32: towards 0, a number outside becomes the nearest i32 and NaN 0; from i32 by way of f32, without
 * gradient. And to and from 8-bit floats (rota_dtype_is_f8): to the nearest, ties to even, saturating, so that what is
 * beyond the largest number, infinities too, becomes that, and NaN stays NaN; from them exactly. Between those and i32
 * there is none (INVALID_ARGUMENT). What is computed of them and depends on a parameter has no gradient: rota_backward
 * says so (UNSUPPORTED), unless x went through rota_op_stop_gradient. */
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

/* y [index shape, dim] = table [classes, dim] at index. An index outside fails the node (CPU executor),
 * naming position and value; on a GPU the row is NaN. The gradient of the table is summed in a fixed order.
 */
ROTA_API rota_status rota_op_embedding(rota_tape *tape, rota_tensor table, rota_tensor index,
                                       rota_tensor *out_y);
ROTA_API rota_status rota_op_embedding_into(rota_tape *tape, rota_tensor table, rota_tensor index,
                                            rota_tensor y);

#endif
