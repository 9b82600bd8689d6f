/* Inside of a tape, and what op files record with. Internal. */
#ifndef ROTA_OPS_TAPE_H
#define ROTA_OPS_TAPE_H

#include "base/arena.h"
#include "graph/conditional_internal.h"
#include "ops/custom.h"
#include "ops/layout.h"
#include "ops/ops.h"
#include "ops/table.h"
#include "sched/opened.h"
#include "sched/plan.h"

/* A remembered use, with the names its nodes had. */
typedef struct rota_tape_use {
    rota_op_use use;
    const char *name, *op_name; /* rota_tape's */
    uint64_t sequence;
    uint32_t
        lane_nodes; /* of the recorder's before it was remembered: what comes after the op has no lower number */
    bool onto;      /* output 0 has gaps, and what a remembered op wrote before may lie in its place */
} rota_tape_use;

/* What is kept of a body's iterations (backward_kept.c). */
typedef struct rota_backward_kept rota_backward_kept;

/* A body's ops, as a tape leaves them behind when it ends (rota_recorder.taped), whose gradients another tape may ask
 * for. In the arena of the body's lane. */
typedef struct rota_taped_uses {
    struct rota_taped_uses *next; /* of a tape before, in the same lane */
    rota_backward_kept *kept;     /* NULL: nothing is; made by rota_backward, newest first */
    uint64_t count;
    rota_tape_use uses[];
} rota_taped_uses;

/* An op's write into a buffer, newest first. */
typedef struct rota_tape_write {
    struct rota_tape_write *next;
    const rota_op *op;
    const rota_tensor *tensor; /* of a remembered use; NULL: the op was not remembered */
    uint64_t sequence;
    uint64_t begin, end;
    uint32_t lane_nodes; /* as of rota_tape_use */
} rota_tape_write;

/* What a body of a node that decides writes into a buffer, newest first; made by rota_backward. */
typedef struct rota_tape_body_write {
    struct rota_tape_body_write *next;
    const rota_conditional *node;
    uint64_t begin, end;
} rota_tape_body_write;

typedef struct rota_gradient_region rota_gradient_region;
typedef struct rota_backward_span rota_backward_span; /* backward_body.h */

/* A name that was made of another, in the lane's arena. */
typedef struct rota_tape_label {
    const char *of, *made;
} rota_tape_label;
enum { ROTA_TAPE_LABELS = 32 }; /* a power of two */

/* What a tape knows of a root buffer. */
typedef struct rota_tape_buffer {
    rota_buffer *root;
    rota_tape_write *writes;
    uint64_t first_read;           /* sequence of the first remembered use that reads it */
    bool wanted;                   /* during rota_backward: a gradient flows through it */
    rota_gradient_region *regions; /* but those of parameters */
    rota_gradient_region **given;  /* of parameters, which lie apart: ascending */
    uint32_t given_count;
    rota_tape_body_write *body_writes; /* during rota_backward */
    rota_backward_span *spans;         /* on the tape of a body that is gone back through */
    bool is_needed;                    /* on that: its contents are */
    bool lost; /* during rota_backward: such a node writes it out of what gradients flow through, unseen */
    uint32_t
        unshard; /* during rota_backward: which of those (backward_unshard.c) gathered it, from 1; 0: none */
    rota_buffer *same_as; /* it has once more what is in that one, whose entry is looked up in its place */
} rota_tape_buffer;

struct rota_tape {
    rota_recorder *recorder;
    rota_graph *graph;
    /* Of rota_tape_create_on, whose recorder and graph are its own; else NULL. */
    rota_device *device; /* as long as `opened` lasts */
    rota_opened opened;
    rota_plan *plan; /* once it is compiled */
    rota_tape_options options;
    bool is_in_body;
    bool remember;
    bool keep;           /* during rota_backward: the ops stay for another one */
    const char *name;    /* of nodes, as the caller said; NULL: op_name */
    const char *op_name; /* of the op that is being recorded, the outermost one; NULL: the kernels' names */
    rota_tape_label labels[ROTA_TAPE_LABELS]; /* by the hash of `of` */
    rota_arena arena;                         /* writes, regions; emptied by rota_backward */
    rota_tape_use **uses;
    uint64_t use_count, use_capacity;
    uint64_t sequence;     /* of the next op */
    uint32_t past_nodes;   /* of the lane: what is before was gone back through, and is forgotten */
    uint32_t streams;      /* dropouts so far */
    uint64_t wanted_count; /* of buffers of the map that are wanted */
    rota_tape_buffer *map; /* open addressing; root NULL: free */
    uint64_t map_count, map_capacity;                  /* capacity a power of two */
    rota_tensor output_gradients[ROTA_OP_OUTPUTS_MAX]; /* of the use whose gradient is being recorded */
};

/* The entry of a tensor's root, or of what that is the same as, made if it is not there; NULL when out of memory.
 * Entries move when another is made. */
rota_tape_buffer *rota_tape_lookup(rota_tape *tape, const rota_tensor *tensor);

/* ---- Ops and their nodes' names ---- */

/* `text` with `suffix` behind it, for as long as the graph lives; without a suffix the text need not live on,
 * with one it does as long as the tape. OUT_OF_MEMORY. */
rota_status rota_tape_label_of(rota_tape *tape, const char *text, const char *suffix, const char **out_made);

/* From here to rota_tape_end_op, which is given what this returns, nodes belong to the op of that (static)
 * name. */
static inline const char *rota_tape_begin_op(rota_tape *tape, const char *name) {
    const char *outer = tape->op_name;
    if (!outer) tape->op_name = name;
    return outer;
}
static inline void rota_tape_end_op(rota_tape *tape, const char *outer) {
    tape->op_name = outer;
}
/* An op that is made of others: returns what `CALL` does, which records them. */
#define ROTA_TAPE_AS_OP(TAPE, NAME, CALL)                                                                    \
    do {                                                                                                     \
        const char *const outer_ = rota_tape_begin_op(TAPE, NAME);                                           \
        const rota_status status_ = (CALL);                                                                  \
        rota_tape_end_op(TAPE, outer_);                                                                      \
        return status_;                                                                                      \
    } while (0)

/* Frees what rota_backward left on the tape's buffers. */
void rota_tape_forget(rota_tape *tape);

#endif
