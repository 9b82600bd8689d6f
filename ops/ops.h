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

#include "ops_tape.h"
#include "ops_elementwise.h"
#include "ops_move.h"
#include "ops_reduce.h"
#include "ops_length.h"
#include "ops_linear.h"
#include "ops_norm.h"
#include "ops_attention.h"
#include "ops_window.h"
#include "ops_train.h"

#endif
