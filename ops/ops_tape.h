/* The tape that ops record into, their parameters' values, and the gradients of what was recorded. */
#ifndef ROTA_OPS_OPS_TAPE_H
#define ROTA_OPS_OPS_TAPE_H

#include "../graph/graph.h"
#include "tensor.h"

typedef struct rota_tape rota_tape;

typedef struct rota_tape_options {
    size_t struct_size;       /* sizeof, by ROTA_TAPE_OPTIONS() */
    bool no_gradients;        /* remember nothing; rota_backward is WRONG_STATE */
    rota_placement placement; /* of every node recorded */
    /* The tensors that dropouts get are part `rank`, along their first axis, of `ranks` equal ones of a whole, as a
     * rank's rows of a batch are: their masks are its parts of the whole's mask, which one rank with all of it would
     * have. 0, 0: the whole. */
    uint32_t rank, ranks;
} rota_tape_options;
#define ROTA_TAPE_OPTIONS(...) ROTA_SIZED(rota_tape_options, __VA_ARGS__)

/* A tape that records into `recorder`, which it borrows until destroyed. `options` may be NULL. INVALID_ARGUMENT (a
 * rank that is none of the ranks), OUT_OF_MEMORY. */
ROTA_API rota_status rota_tape_create(rota_recorder *recorder, const rota_tape_options *options,
                                      rota_tape **out_tape);
/* Neither closes the recorder nor touches what was recorded (of rota_tape_create_on, ops/direct.h, it ends both,
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

/* Wait-free. */
ROTA_API rota_value rota_value_plain(double number);
ROTA_API rota_value rota_value_slot(rota_slot slot);
ROTA_API rota_value rota_value_constant(double number);
#define ROTA_PLAIN(number) rota_value_plain((double)(number))
#define ROTA_SLOT(slot) rota_value_slot(slot)
#define ROTA_CONSTANT(number) rota_value_constant((double)(number))

/* ---- Dtypes ----
 *
 * An op on real numbers takes f32, f16 or bf16, all of its inputs alike (else INVALID_ARGUMENT, naming both:
 * cast one); its result has that dtype, unless it says otherwise, and so has each gradient. Arithmetic is in
 * f32, also where several elements are summed, and rounded once, when the result is stored. 16 bits need
 * ROTA_FEATURE_F16_STORAGE of a Vulkan device. ---- */

/* ---- Gradients ---- */

typedef struct rota_data_parallel rota_data_parallel; /* ops_collective.h */

typedef struct rota_backward_options {
    size_t struct_size; /* sizeof, by ROTA_BACKWARD_OPTIONS() */
    bool accumulate;    /* add into the gradients that are given instead of overwriting them */
    /* The tape keeps its ops, for the gradients of another loss of theirs. (A classifier's gradient does not
     * take the place of its logits then.) */
    bool keep;
    /* The gradients become the means of all ranks', reduced as they are finished; NULL: they stay this rank's. Of
     * several backward passes that accumulate, the last has it. */
    const rota_data_parallel *data_parallel;
} rota_backward_options;
#define ROTA_BACKWARD_OPTIONS(...) ROTA_SIZED(rota_backward_options, __VA_ARGS__)

/* Appends the nodes that compute the gradients of `loss` (one f32 element) with respect to params[0..count):
 * contiguous tensors of real numbers. A gradient has the dtype of its tensor, and is summed up in it.
 * grads[i] with a buffer is a contiguous destination of params[i]'s shape and dtype; with a NULL buffer it is
 * made (TRANSIENT) and returned there. The gradient is that of what a parameter holds before the ops
 * remembered, or, for one that an op of them made, of that result, through which it flows on (UNSUPPORTED if
 * the op wrote it in part, in place, or after it was read, or with `accumulate`). A parameter that the loss
 * doesn't depend on gets zeroes. Params must not overlap one another, nor the gradients. `options` may be
 * NULL. WRONG_STATE: no gradients remembered; or a value that a gradient needs was overwritten by a later op
 * of this tape (names both ops). UNSUPPORTED: an op without gradient stands between (named), or the loss
 * depends on an output of an op other than its first, through which no gradient flows. Linear in the ops
 * remembered.
 *
 * Gradients flow through a node that decides (graph/conditional.h) of the tape's lane, where each body has one tape
 * with gradients that was destroyed by then: of an if or switch as another one of the same condition, of a while or
 * for as a for of the iterations that ran, the last one first, with the sums of the loop unrolled. Its gradient
 * computes the body's ops again: the condition of an if or switch, and what they read and no body of the node writes,
 * must be as they were (WRONG_STATE). What they read and the node writes is kept, where it is needed, as often as
 * there may be iterations: transient memory of iterations_max times so many bytes; a row has at most 16 GiB,
 * iterations_max is at most 2^31 - 1, and the product 2^46 (OUT_OF_RANGE); the node then touches up to 3 ranges more
 * for each body. Nodes within bodies are gone through likewise, and computed once more for each node around them;
 * what decides there is ops' work (UNSUPPORTED). Gradients flow to f32 tensors alone, and, with `data_parallel`,
 * through no such node (UNSUPPORTED, each naming node and buffer).
 *
 * The tape then forgets its ops: a second rota_backward covers what is recorded after the first
 * (but see `keep`). */
ROTA_API rota_status rota_backward(rota_tape *tape, rota_tensor loss, const rota_tensor *params,
                                   uint32_t count, rota_tensor *grads, const rota_backward_options *options);
/* The same of the sum of several losses, in one pass: what they have in common is gone through once. */
ROTA_API rota_status rota_backward_losses(rota_tape *tape, const rota_tensor *losses, uint32_t loss_count,
                                          const rota_tensor *params, uint32_t count, rota_tensor *grads,
                                          const rota_backward_options *options);

#endif
