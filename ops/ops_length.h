/* Ops whose results have a length that the contents decide: where elements are not zero, rows that stay. The rules that
 * hold for all ops are in ops.h.
 *
 * A result's shape is what a graph is compiled for, so it is the largest that may come out, and how many there are is a
 * result too: an i32, as indices are, that a counted node (../graph/counted.h) takes without the host in between. What
 * is beyond the count is said for each; it is always written, so that nothing need be filled before, and a whole result
 * can be read. All of it is bit for bit the same on every device. */
#ifndef ROTA_OPS_OPS_LENGTH_H
#define ROTA_OPS_OPS_LENGTH_H

#include "ops_tape.h"

/* index i32 [n], for the n elements of x (any dtype, any shape): which of them, in row-major order, are not zero,
 * ascending; then which are, ascending too, so that index is a permutation and any of it can be gathered by. count i32
 * [1]: how many are not zero. -0 is zero, NaN is not. INVALID_ARGUMENT: more than 2^31 - 1 elements. No gradient. Reads
 * x twice: linear, in three nodes. */
ROTA_API rota_status rota_op_nonzero(rota_tape *tape, rota_tensor x, rota_tensor *out_index,
                                     rota_tensor *out_count);
ROTA_API rota_status rota_op_nonzero_into(rota_tape *tape, rota_tensor x, rota_tensor index,
                                          rota_tensor count);
/* y has x's shape [rows, ...] and dtype (any): the rows along axis 0 where mask [rows] (of any dtype) is not zero, in
 * order, and behind them rows of 0. count i32 [1]: how many there are. Gradient flows to x, 0 where mask is 0.
 * INVALID_ARGUMENT: an x of no axis, another number of masks, more than 2^31 - 1 of them. */
ROTA_API rota_status rota_op_compact(rota_tape *tape, rota_tensor x, rota_tensor mask, rota_tensor *out_y,
                                     rota_tensor *out_count);
ROTA_API rota_status rota_op_compact_into(rota_tape *tape, rota_tensor x, rota_tensor mask, rota_tensor y,
                                          rota_tensor count);

#endif
