/* Collectives as ops: what the ranks of a communicator (sched/communicator.h) do together, each by a node of its own
 * graph. The rules that hold for all ops are in ops.h; these hold for collectives:
 *
 * All ranks record the same ones of a communicator in the same order, in graphs and lanes of the same names, with the
 * same kind, dtype, count of elements, reduction and node name (rota_tape_name); what differs is found where they run,
 * before a byte moves, and fails on all of them. Of an empty tensor there is no node, so ranks of which only some have
 * one find out by the timeout. Tensors are f32, f16, bf16, i32 or u32. Sums are made in ascending order of ranks,
 * whatever carries the messages, and on devices in NCCL's: replays are the same bit for bit.
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
/* Of that the rank's part: x [n * m, ...] to y [m, ...], rows rank * m and on, of n ranks; y may be those rows of x, of
 * which the others stay. Gradient of sum and mean. */
ROTA_API rota_status rota_op_reduce_scatter(rota_tape *tape, rota_communicator *communicator, rota_tensor x,
                                            rota_collective_reduction reduction, rota_tensor *out_y);
ROTA_API rota_status rota_op_reduce_scatter_into(rota_tape *tape, rota_communicator *communicator,
                                                 rota_tensor x, rota_collective_reduction reduction,
                                                 rota_tensor y);
/* x [m, ...] of each rank, one after the other: y [n * m, ...]; x may be the rank's rows of y. */
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

typedef struct rota_sharding rota_sharding;

/* Bytes of a bucket where none are said, at least: what makes the cost of a collective that does not grow with its
 * bytes a small part of it (docs/measurements.md), and few enough that the first is under way early. */
#define ROTA_BUCKET_BYTES (UINT64_C(4) << 20)
/* And for each rank, since each sends a message of its part to every other one: more from 33 ranks on. */
#define ROTA_BUCKET_RANK_BYTES (UINT64_C(128) << 10)
/* The same where the communicator has devices: there bytes cost less, and a collective more beside them. */
#define ROTA_BUCKET_DEVICE_BYTES (UINT64_C(32) << 20)

/* Of rota_backward_options.data_parallel: each gradient is all-reduced once, when the last op that adds to it has been
 * gone through, however often its parameter was used. Those that are finished one after the other go together, as
 * buckets, in the order in which the backward pass finishes them, which is the same on all ranks that record the same;
 * what is recorded behind a bucket and does not read its gradients runs beside it. Gradients that lie side by side in
 * one buffer are reduced where they lie, others of less than 64 KiB in a copy of theirs together. Where the
 * communicator has devices others of less than 8 MiB, those of several buckets together, once they are as much as a
 * bucket, or with the last one, where they lie if it is side by side with its gradients; they are copied back behind
 * the backward pass, and take as much memory again until then. A parameter that the loss does not depend on takes
 * part, last. All ranks give the same parameters in one order, and gradients
 * that lie alike: else all fail when they run, as collectives do that differ. Gradients that share bytes are
 * INVALID_ARGUMENT, with both named. */
struct rota_data_parallel {
    size_t struct_size;              /* sizeof, by ROTA_DATA_PARALLEL() */
    rota_communicator *communicator; /* borrowed, as by each collective */
    /* A bucket is reduced once it has so many, and a gradient of as many is one by itself. 0: ROTA_BUCKET_BYTES, or
     * ROTA_BUCKET_RANK_BYTES for each rank where that is more, or with devices ROTA_BUCKET_DEVICE_BYTES: what follows
     * from the communicator alone, and so is the same on all ranks and in each run. The first one: 0: a quarter of
     * that. PyTorch's bucket_cap_mb, 25, is for other networks. */
    uint64_t bucket_bytes, first_bucket_bytes;
    bool sum; /* of all ranks' gradients, not their mean */
    /* Not NULL: a new one of the communicator. Each rank gets the reduced gradients of a part of the elements alone,
     * which this then says, and is to update those (below); the gradients themselves stay this rank's. Where
     * rota_backward fails it is of no further use. INVALID_ARGUMENT, WRONG_STATE (it has been filled). */
    rota_sharding *sharding;
};
#define ROTA_DATA_PARALLEL(...) ROTA_SIZED(rota_data_parallel, __VA_ARGS__)

/* ---- Shards ----
 *
 * What each rank has to keep and to update where optimizers' states are too large to be on every one (ZeRO, stage 1:
 * Rajbhandari et al., 2020). The elements of a bucket of gradients are cut into as many equal parts as there are ranks;
 * a rank's parts of all buckets are its shard, a row of elements as long on every rank, and the pieces of parameters in
 * it what an optimizer works on:
 *
 *     rota_sharding_create(world, &shards);
 *     rota_data_parallel all = ROTA_DATA_PARALLEL(.communicator = world, .sharding = shards);
 *     rota_backward(tape, loss, params, count, grads, &ROTA_BACKWARD_OPTIONS(.data_parallel = &all));
 *     rota_sharding_norm(shards, tape, 1.0f, &norm_factor);                      to clip
 *     rota_sharding_get_pieces(shards, &pieces, &piece_count);
 *     for (i = 0; i < piece_count; i++)
 *         rota_op_adamw(tape, elements [first, first + count) of params[pieces[i].parameter], pieces[i].gradient,
 *                       elements [offset, offset + count) of m and of v, ...);    states: rota_sharding_elements
 *     rota_sharding_gather(shards, tape, params, count);                         comes to all ranks
 *
 * The gathers come in the order in which the next forward pass needs the parameters, and it waits for those alone that
 * it reads. Which elements are whose depends on the number of ranks, on buckets and the order of the ops; what is to be
 * kept without all that is kept as whole tensors (rota_sharding_gather_shards, rota_sharding_take).
 *
 * A sharding borrows the communicator and is the caller's; its layout is good for other graphs, too, the gradients of
 * its pieces for the tape's. Its functions record nodes, and may be called by one thread at a time, as the tape's. */

typedef struct rota_shard_piece {
    uint32_t parameter;    /* its index among those of rota_backward */
    uint64_t first, count; /* elements of it, in row-major order */
    uint64_t offset;       /* of them in the shard */
    rota_tensor gradient;  /* [count], reduced; of the tape's graph; of a group: none */
} rota_shard_piece;

/* OUT_OF_MEMORY. */
ROTA_API rota_status rota_sharding_create(rota_communicator *communicator, rota_sharding **out_sharding);
ROTA_API void rota_sharding_release(rota_sharding *sharding); /* NULL is ignored */
/* Of a shard, the same on all ranks; with some elements that are in no piece. 0 of NULL. */
ROTA_API uint64_t rota_sharding_elements(const rota_sharding *sharding);
/* This rank's, in ascending order of their offsets; they live as long as the sharding. */
ROTA_API rota_status rota_sharding_get_pieces(const rota_sharding *sharding,
                                              const rota_shard_piece **out_pieces, uint32_t *out_count);
/* As rota_op_global_norm, of all ranks' shards of gradients: [2] = {norm, factor}, the same on each. In the tape of the
 * backward pass. */
ROTA_API rota_status rota_sharding_norm(const rota_sharding *sharding, rota_tape *tape, float max_norm,
                                        rota_tensor *out_norm_factor);
/* Each rank's pieces of the tensors come to all: contiguous ones, one for each parameter, of as many elements; of one
 * dtype within a bucket, which those of all gradients of one dtype are if they are of one. INVALID_ARGUMENT. */
ROTA_API rota_status rota_sharding_gather(const rota_sharding *sharding, rota_tape *tape,
                                          const rota_tensor *tensors, uint32_t count);
/* All ranks' shards, each a tensor [rota_sharding_elements], become whole tensors on every rank: an optimizer's state
 * for a checkpoint. As above; all of the shard's dtype. */
ROTA_API rota_status rota_sharding_gather_shards(const rota_sharding *sharding, rota_tape *tape,
                                                 rota_tensor shard, const rota_tensor *tensors,
                                                 uint32_t count);
/* The other way: this rank's elements of whole tensors to its shard, and zeroes between them. No communication. */
ROTA_API rota_status rota_sharding_take(const rota_sharding *sharding, rota_tape *tape,
                                        const rota_tensor *tensors, uint32_t count, rota_tensor shard);

/* ---- Fully sharded ----
 *
 * Where parameters, too, are too large to be on every rank (ZeRO, stage 3; PyTorch's fully_shard): a rank keeps of
 * each group of parameters that are read together, a layer's, its shard alone, and so of their gradients and an
 * optimizer's states. An op makes them whole, in a transient buffer, for the ops that read them:
 *
 *     rota_sharding_create_group(world, layer, count, &group);              shapes alone; for each layer
 *     rota_sharding_take(group, tape, whole, count, shard);                 once: this rank's elements of first values
 *     ...
 *     rota_sharding_unshard(group, tape, shard, NULL, count, weights);      weights of all elements, for ops
 *     rota_backward(tape, loss, shards, groups, grads, NULL);               the shards are the parameters
 *     rota_op_global_norm_of_ranks(tape, world, grads, groups, 1.0f, &norm_factor);
 *     rota_op_adamw(tape, shard, grad, m, v, ...);               for each layer; all [rota_sharding_elements]
 *
 * The gradient of an unshard is the rank's part of the mean of all ranks' (a reduce_scatter), in the shard's dtype:
 * f32, f16 or bf16, and of a step of 16 bits the shard is that of 16-bit copies. What was gathered nobody keeps once
 * ops have read it: rota_backward gathers it anew for the ops whose gradients read it, a group ahead of its use, and
 * reduces a group's gradients once all that read it is gone through (with nodes that decide on the tape: where it was
 * gathered). Forward, who records the unshard of the next layer before the ops of one has it gathered beside them.
 * Gathers of one shard may be several, and their gradients are added up: of a table that the first ops and the last
 * ones read, two hold less memory than one. In bodies of nodes that decide there is none, as of all collectives; a
 * body that reads what was gathered before it keeps it in memory until its gradient has read it. */

/* A sharding of a group: `count` tensors of any shapes, whose contents are not read (they may be without buffers). Its
 * pieces have no gradients. INVALID_ARGUMENT: there are no elements; OUT_OF_RANGE: more than a tensor may have;
 * OUT_OF_MEMORY. */
ROTA_API rota_status rota_sharding_create_group(rota_communicator *communicator, const rota_tensor *tensors,
                                                uint32_t count, rota_sharding **out_sharding);

typedef struct rota_unshard {
    size_t struct_size; /* sizeof, by ROTA_UNSHARD() */
    bool sum;           /* gradients are the sum of all ranks', not their mean */
    bool keep; /* for the backward pass: it gathers nothing, and all groups are in memory at once (stage 2) */
} rota_unshard;
#define ROTA_UNSHARD(...) ROTA_SIZED(rota_unshard, __VA_ARGS__)

/* All ranks' shards of a group, [rota_sharding_elements] each, as the group's `count` tensors, which lie in one
 * transient buffer of the tape's graph, of the shard's dtype. They are for reading: where an op of the tape wrote
 * there, rota_backward is WRONG_STATE, and so it is if the shard was overwritten before it. A shard has no part in
 * data_parallel (INVALID_ARGUMENT). `options` may be NULL. */
ROTA_API rota_status rota_sharding_unshard(const rota_sharding *sharding, rota_tape *tape, rota_tensor shard,
                                           const rota_unshard *options, uint32_t count,
                                           rota_tensor *out_tensors);
/* Where whole gradients of a group are added up before they are reduced, over micro-batches, say: its `count` tensors
 * in a transient buffer, in which they lie as all shards do, with zeroes between them. */
ROTA_API rota_status rota_sharding_tensors(const rota_sharding *sharding, rota_tape *tape, rota_dtype dtype,
                                           uint32_t count, rota_tensor *out_tensors);
/* ... and this rank's shard, [rota_sharding_elements], of the mean or sum of all ranks' tensors: contiguous ones of
 * the group's shapes and the shard's dtype, f32, f16 or bf16, anywhere; those of rota_sharding_tensors, and a transient
 * buffer's that lie as they do, with zeroes between them, are not copied. No gradient. */
ROTA_API rota_status rota_sharding_reduce(const rota_sharding *sharding, rota_tape *tape,
                                          const rota_tensor *tensors, uint32_t count, bool sum,
                                          rota_tensor shard);
/* As rota_op_global_norm, of all ranks' tensors together: [2] = {norm, factor}, the same on each. No gradient. */
ROTA_API rota_status rota_op_global_norm_of_ranks(rota_tape *tape, rota_communicator *communicator,
                                                  const rota_tensor *tensors, uint32_t count, float max_norm,
                                                  rota_tensor *out_norm_factor);

/* Ends when all ranks have come to it. It comes after the collectives before it, and orders nothing else: what is to be
 * over before reads or writes the same bytes, or is put in order by rota_node_after. */
ROTA_API rota_status rota_op_barrier(rota_tape *tape, rota_communicator *communicator);

#endif
