/* Models that are cut across ranks (tensor parallelism): each rank of a communicator has a part of the columns or rows
 * of a matrix, and of the classes, and all of them work on the same rows of a batch.
 *
 * Where ops_collective.h has gradients of the sum of all ranks' losses, here all ranks have the same loss, which counts
 * once. A tensor is then the same on all ranks, with the same gradient; or a rank's part, with a gradient of its own;
 * or a summand of what is the sum over ranks. Two ops lead from one to another, f and g of Shoeybi et al. (Megatron-LM,
 * 2019), and what lies between them is any ops of a rank's own:
 *
 *     x (the same) -- copy_to_ranks -- a rank's columns -- a rank's rows -- reduce_from_ranks -- y (the same)
 *
 *     rota_op_linear_column(tape, ranks, x, w1, &ROTA_LINEAR(.bias = b1, .activation = ROTA_ACTIVATION_GELU), &h);
 *     rota_op_linear_row(tape, ranks, h, w2, &ROTA_LINEAR(.bias = b2, .residual = x), &y);
 *
 * with w1 [k, n] of which a rank has columns, b1 the same elements, w2 [n, k] of which it has those rows, and b2 all.
 * Attention is cut by heads so: the columns of q, k and v that are a rank's heads', and the rows of the projection.
 * Parts may differ in size. What all ranks have (b2, norms) gets the same gradient on each, to the bit, and stays the
 * same where all update it alike.
 *
 * All ranks record the same, as of collectives; the rules and errors are those of ops_collective.h, and data_parallel
 * is of another communicator (rota_communicator_open_split): that of the ranks with the same part. With one rank no
 * collective is recorded. A reduction of 16 bits adds up what each rank has rounded. */
#ifndef ROTA_OPS_OPS_TENSOR_PARALLEL_H
#define ROTA_OPS_OPS_TENSOR_PARALLEL_H

#include "../sched/communicator.h"
#include "ops_linear.h"
#include "ops_train.h"

/* ---- Parts ---- */

/* Of `whole` columns, rows or classes those that a rank has: [first, first + count). */
typedef struct rota_rank_part {
    uint64_t first, count, whole;
} rota_rank_part;
/* This rank's part where ranks have them in ascending order, and none has more than one more than another. count is 0
 * where there are fewer than ranks, which no op here takes: each rank has one at least; NULL: all. Wait-free. */
ROTA_API rota_rank_part rota_communicator_part(const rota_communicator *communicator, uint64_t whole);

/* ---- From ranks' parts to the whole, and back ---- */

/* y = x, which is the same on all ranks; its gradient is the sum of all ranks' dy (an all_reduce in the backward
 * pass). For what goes into several ops on parts, as x into those of q, k and v, once. y may be x, and nothing is
 * recorded then, where only ops on parts read it afterwards (what reads it as a whole, as a residual is, would get its
 * gradient from each rank), and the gradient of the op that made x does not read it (rota_backward says so). */
ROTA_API rota_status rota_op_copy_to_ranks(rota_tape *tape, rota_communicator *communicator, rota_tensor x,
                                           rota_tensor *out_y);
ROTA_API rota_status rota_op_copy_to_ranks_into(rota_tape *tape, rota_communicator *communicator,
                                                rota_tensor x, rota_tensor y);
/* y = the sum of all ranks' x (an all_reduce); the gradient of each is dy, which is the same on all. y may be x. */
ROTA_API rota_status rota_op_reduce_from_ranks(rota_tape *tape, rota_communicator *communicator,
                                               rota_tensor x, rota_tensor *out_y);
ROTA_API rota_status rota_op_reduce_from_ranks_into(rota_tape *tape, rota_communicator *communicator,
                                                    rota_tensor x, rota_tensor y);

/* ---- Products ---- */

/* rota_op_linear of copy_to_ranks(x): w has a rank's columns (of `transposed` rows), bias and residual theirs, y is
 * those. */
ROTA_API rota_status rota_op_linear_column(rota_tape *tape, rota_communicator *communicator, rota_tensor x,
                                           rota_tensor w, const rota_linear *options, rota_tensor *out_y);
/* y = act(reduce_from_ranks(x w) + bias) + residual: x has a rank's columns, and w those rows (of `transposed`
 * columns); bias and residual are whole, the same on all ranks, and added once. */
ROTA_API rota_status rota_op_linear_row(rota_tape *tape, rota_communicator *communicator, rota_tensor x,
                                        rota_tensor w, const rota_linear *options, rota_tensor *out_y);

/* ---- Dropout ---- */

/* rota_op_dropout of what is a rank's part of a whole along an axis, as heads are: its mask is that part of the mask
 * which one rank with the whole would have (and with rota_tape_options.ranks the part of that along the first axis).
 * Of what all ranks have rota_op_dropout drops the same on each. A node for each part of the axes before; elements of a
 * part, and before it, are multiples of 4 (UNSUPPORTED). */
ROTA_API rota_status rota_op_dropout_of_part(rota_tape *tape, rota_tensor x, uint32_t axis,
                                             rota_rank_part part, float p, rota_value seed, rota_value step,
                                             rota_tensor *out_y);

/* ---- A vocabulary ---- */

/* y [..., dim] = row index of a table of part.whole classes, of which this rank has `part`: the first part.count rows
 * of `table`; others do not count. The sum over ranks of what each has, of which one has something. An index outside of
 * all classes fails the node (CPU executor), and is NaN on a GPU. */
ROTA_API rota_status rota_op_embedding_of_ranks(rota_tape *tape, rota_communicator *communicator,
                                                rota_tensor table, rota_tensor index, rota_rank_part part,
                                                rota_tensor *out_y);
/* The loss f32 [1] of rota_op_classifier, of logits of which this rank has the classes `part`, as the first part.count
 * columns of its own, [..., columns]; labels are of all classes, the same on all ranks. No rank has all logits: what
 * goes round are two numbers a row from each, once (an all_gather), and the gradient is this rank's own. Of the options
 * `classes` is 0. INVALID_ARGUMENT: the part is empty, or does not lie within the whole, or that is over 2^31 - 1. */
ROTA_API rota_status rota_op_classifier_of_ranks(rota_tape *tape, rota_communicator *communicator,
                                                 rota_tensor logits, rota_tensor labels, rota_rank_part part,
                                                 const rota_classifier *options, rota_tensor *out_loss);

#endif
