/* Ops whose results have a length that the contents decide: where elements are not zero, rows that stay, numbers each
 * once, what a share of probability needs. The rules that hold for all ops are in ops.h.
 *
 * A result's shape is what a graph is compiled for, so it is the largest that may come out, and how many there are is a
 * result too: an i32, as indices are, that a counted node (../graph/counted.h) takes without the host in between. What
 * is beyond the count is said for each; it is always written, so that nothing need be filled before, and a whole result
 * can be read. All of it is bit for bit the same on every device. */
#ifndef ROTA_OPS_OPS_LENGTH_H
#define ROTA_OPS_OPS_LENGTH_H

#include "ops_tape.h"

/* index i32 [n], for the n elements of x (of any dtype but 8-bit floats, any shape): which of them, in row-major
 * order, are not zero, ascending; then which are, ascending too, so that index is a permutation and any of it can be
 * gathered by. count i32 [1]: how many are not zero. -0 is zero, NaN is not. INVALID_ARGUMENT: more than 2^31 - 1
 * elements. No gradient. Reads x twice: linear, in three nodes. */
ROTA_API rota_status rota_op_nonzero(rota_tape *tape, rota_tensor x, rota_tensor *out_index,
                                     rota_tensor *out_count);
ROTA_API rota_status rota_op_nonzero_into(rota_tape *tape, rota_tensor x, rota_tensor index,
                                          rota_tensor count);
/* y has x's shape [rows, ...] and dtype (those of nonzero): the rows along axis 0 where mask [rows] (of any of those)
 * is not zero, in order, and behind them rows of 0. count i32 [1]: how many there are. Gradient flows to x, 0 where
 * mask is 0. INVALID_ARGUMENT: an x of no axis, another number of masks, more than 2^31 - 1 of them. */
ROTA_API rota_status rota_op_compact(rota_tape *tape, rota_tensor x, rota_tensor mask, rota_tensor *out_y,
                                     rota_tensor *out_count);
ROTA_API rota_status rota_op_compact_into(rota_tape *tape, rota_tensor x, rota_tensor mask, rota_tensor y,
                                          rota_tensor count);

/* y [n], of the n elements of x (f32, i32 or u32, any shape): each number that is among them, once, ascending, and
 * behind them 0. count i32 [1]: how many there are. inverse i32, of x's shape: where in y each element is, so that
 * gathering y by it gives x, and adding 1 by it (rota_op_index_add) how often each is there. Of f32, -0 and 0 are one
 * number, which is 0; NaN, all of them one, is above all numbers. out_inverse NULL, or an inverse without a buffer: not
 * asked for. INVALID_ARGUMENT: of another dtype, more than 2^31 - 1 elements. No gradient. By sorting, in linear work:
 * 28 nodes, of which most read and write 8 bytes an element. */
ROTA_API rota_status rota_op_unique(rota_tape *tape, rota_tensor x, rota_tensor *out_y,
                                    rota_tensor *out_count, rota_tensor *out_inverse);
ROTA_API rota_status rota_op_unique_into(rota_tape *tape, rota_tensor x, rota_tensor y, rota_tensor count,
                                         rota_tensor inverse);
/* Of each row of probabilities x [..., n], as rota_op_softmax gives them: index i32 of x's shape, in falling order, of
 * equal ones by index; count i32 [..., 1]: of how many, 1 at least, the sum reaches p, 0 < p <= 1, of the row's sum,
 * which need not be 1. So the first `count` of a row are what nucleus sampling chooses from. What is not above 0, and
 * NaN, counts as 0 and comes last. Sums are of whole numbers, 2^-32ths, rounded down, at most 2^32 - 1; what is to be
 * reached is p, in 2^-31ths rounded down, of their sum, rounded up. INVALID_ARGUMENT: an x of no axis, rows of more
 * than 2^31 - 1, a p outside, unless it is in a slot: there one below 0 is 0, which one element reaches, and one above
 * 1 is 1. No gradient. By sorting, in linear work, in 27 nodes. */
ROTA_API rota_status rota_op_top_p(rota_tape *tape, rota_tensor x, rota_value p, rota_tensor *out_index,
                                   rota_tensor *out_count);
ROTA_API rota_status rota_op_top_p_into(rota_tape *tape, rota_tensor x, rota_value p, rota_tensor index,
                                        rota_tensor count);

#endif
