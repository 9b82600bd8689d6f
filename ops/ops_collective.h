/* Collectives as ops: what the ranks of a communicator (sched/communicator.h) do together, each by a node of its own
 * graph. The rules that hold for all ops are in ops.h; these hold for collectives:
 *
 * All ranks record the same ones of a communicator in the same order, in graphs and lanes of the same names, with the
 * same kind, dtype, count of elements, reduction and node name (rota_tape_name); what differs is found where they run,
 * before a byte moves, and fails on all of them. Of an empty tensor there is no node, so ranks of which only some have
 * one find out by the timeout. Tensors are f32, f16, bf16, i32 or u32. Sums are made in ascending order of ranks,
 * whatever carries the bytes: replays are the same bit for bit.
 *
 * The communicator is borrowed: nodes that run when it is closed fail. In a graph file there can be none. Gradients are
 * those of the sum of all ranks' losses, so every rank records rota_backward.
 *
 * Errors beside those of all ops: INVALID_ARGUMENT (a peer that is no rank, a mean of integers, an extent that the
 * ranks don't divide); WRONG_STATE (the communicator is closed); UNSUPPORTED (in a body of a node that decides). When
 * they run: NODE_FAILED, with the communicator's sentence. */
#ifndef ROTA_OPS_OPS_COLLECTIVE_H
#define ROTA_OPS_OPS_COLLECTIVE_H

#include "../sched/communicator.h"
#include "ops_tape.h"

/* y = the sum, mean and so on of all ranks' x, on every rank; y may be x. Gradient of sum and mean. */
ROTA_API rota_status rota_op_all_reduce(rota_tape *tape, rota_communicator *communicator, rota_tensor x,
                                        rota_collective_reduction reduction, rota_tensor *out_y);
ROTA_API rota_status rota_op_all_reduce_into(rota_tape *tape, rota_communicator *communicator, rota_tensor x,
                                             rota_collective_reduction reduction, rota_tensor y);
/* Of that the rank's part: x [n * m, ...] to y [m, ...], rows rank * m and on, of n ranks. Gradient of sum and mean. */
ROTA_API rota_status rota_op_reduce_scatter(rota_tape *tape, rota_communicator *communicator, rota_tensor x,
                                            rota_collective_reduction reduction, rota_tensor *out_y);
ROTA_API rota_status rota_op_reduce_scatter_into(rota_tape *tape, rota_communicator *communicator,
                                                 rota_tensor x, rota_collective_reduction reduction,
                                                 rota_tensor y);
/* x [m, ...] of each rank, one after the other: y [n * m, ...]. */
ROTA_API rota_status rota_op_all_gather(rota_tape *tape, rota_communicator *communicator, rota_tensor x,
                                        rota_tensor *out_y);
ROTA_API rota_status rota_op_all_gather_into(rota_tape *tape, rota_communicator *communicator, rota_tensor x,
                                             rota_tensor y);
/* Part k of x [n * m, ...] goes to rank k; y has the parts that came, in the order of ranks; y may be x. */
ROTA_API rota_status rota_op_all_to_all(rota_tape *tape, rota_communicator *communicator, rota_tensor x,
                                        rota_tensor *out_y);
ROTA_API rota_status rota_op_all_to_all_into(rota_tape *tape, rota_communicator *communicator, rota_tensor x,
                                             rota_tensor y);
/* y = rank root's x, on every rank; x has y's shape on all, and is read on root alone; y may be x. */
ROTA_API rota_status rota_op_broadcast_from(rota_tape *tape, rota_communicator *communicator, uint32_t root,
                                            rota_tensor x, rota_tensor *out_y);
ROTA_API rota_status rota_op_broadcast_from_into(rota_tape *tape, rota_communicator *communicator,
                                                 uint32_t root, rota_tensor x, rota_tensor y);

/* x goes to rank `to`, which records the receive; the others record nothing. It ends when it has got there, so ranks
 * that send in a ring all at once would wait for one another, which the timeout ends: let every other one receive
 * first, or use rota_op_all_to_all. No gradient. */
ROTA_API rota_status rota_op_send(rota_tape *tape, rota_communicator *communicator, uint32_t to,
                                  rota_tensor x);
ROTA_API rota_status rota_op_receive(rota_tape *tape, rota_communicator *communicator, uint32_t from,
                                     rota_dtype dtype, uint32_t rank, const uint64_t *shape,
                                     rota_tensor *out_y);
ROTA_API rota_status rota_op_receive_into(rota_tape *tape, rota_communicator *communicator, uint32_t from,
                                          rota_tensor y);

/* ---- Training with ranks ---- */

/* Bytes of a bucket where none are said: what makes the cost of a collective that does not grow with its bytes a
 * small part of it (docs/measurements.md), and few enough that the first is under way early. */
#define ROTA_BUCKET_BYTES (UINT64_C(4) << 20)

/* Of rota_backward_options.data_parallel: each gradient is all-reduced once, when the last op that adds to it has been
 * gone through, however often its parameter was used. Those that are finished one after the other go together, as
 * buckets, in the order in which the backward pass finishes them, which is the same on all ranks that record the same;
 * what is recorded behind a bucket and does not read its gradients runs beside it. Gradients that lie side by side in
 * one buffer are reduced where they lie, others of less than 64 KiB in a copy of theirs together. A parameter that the
 * loss does not depend on takes part, last. All ranks give the same parameters in one order, and gradients that lie
 * alike: else all fail when they run, as collectives do that differ. Gradients that share bytes are INVALID_ARGUMENT,
 * with both named. */
struct rota_data_parallel {
    size_t struct_size;              /* sizeof, by ROTA_DATA_PARALLEL() */
    rota_communicator *communicator; /* borrowed, as by each collective */
    /* A bucket is reduced once it has so many, and a gradient of as many is one by itself. 0: ROTA_BUCKET_BYTES. The
     * first one: 0: a quarter of that. PyTorch's bucket_cap_mb, 25, is for other networks. */
    uint64_t bucket_bytes, first_bucket_bytes;
    bool sum; /* of all ranks' gradients, not their mean */
};
#define ROTA_DATA_PARALLEL(...) ROTA_SIZED(rota_data_parallel, __VA_ARGS__)

/* Ends when all ranks have come to it. It comes after the collectives before it, and orders nothing else: what is to be
 * over before reads or writes the same bytes, or is put in order by rota_node_after. */
ROTA_API rota_status rota_op_barrier(rota_tape *tape, rota_communicator *communicator);

#endif
