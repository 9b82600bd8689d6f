/* What recomputing knows of nodes and buffers. Internal to recompute*.c. */
#ifndef ROTA_SCHED_PLAN_RECOMPUTE_STATE_H
#define ROTA_SCHED_PLAN_RECOMPUTE_STATE_H

#include "sched/plan/compiler.h"
#include "sched/plan/peaks.h"

/* Of a node: a buffer dies before, or while, or after it runs. */
#define TICK_BEFORE(node) (2 * (int64_t)(node))
#define TICK_DURING(node) (2 * (int64_t)(node) + 1)
#define TICK_AFTER(node) (2 * (int64_t)(node) + 2)

typedef struct life {
    uint64_t bytes;       /* 0: no memory of the plan's */
    uint32_t producer;    /* the one node that writes it, all of it, and may run again; ROTA_NONE: none */
    uint32_t early, late; /* nodes: the last use before the largest gap, the first after it (ROTA_NONE: only
                             clones read it) */
    int64_t begin, end;   /* ticks; once given up: of the time before the gap */
    int64_t late_end;     /* once given up */
    uint32_t taken_over;  /* plus 1: the buffer that takes its memory over in its last node */
    uint32_t clone_reads; /* list in state.reads of the nodes whose clones read it; plus 1 */
    uint32_t again;       /* the plan buffer that it is computed into again; ROTA_NONE: none */
    bool can_go;          /* given up, as far as the buffer alone is looked at */
    bool given_up;
} life;

typedef struct clone_read {
    uint32_t node, next;
} clone_read;

typedef struct candidate {
    uint32_t buffer;
    double cost; /* of a byte */
} candidate;

typedef struct lowering {
    uint32_t node, to;
} lowering;

typedef struct state {
    rota_compiler *c;
    const rota_node_record **records;
    uint32_t node_count, buffer_count;
    uint32_t *first_access;                  /* by node */
    uint32_t *buffer_of;                     /* by access: plan buffer */
    uint32_t *first_use, *uses;              /* by buffer: nodes in order */
    uint32_t *first_write, *writes;          /* the same, of those that write */
    uint32_t *slot_writes, *external_writes; /* nodes that write a slot buffer; a slot or persistent one */
    uint32_t slot_write_count, external_write_count;
    life *lives;       /* by buffer */
    uint32_t *restore; /* by node: the node that its clone comes before; ROTA_NONE: no clone */
    rota_peaks peaks;
    rota_vector reads;   /* clone_read */
    rota_vector lowered; /* lowering: still to do */
    uint32_t *seen;      /* by node: number of the question that last met it */
    uint32_t questions;
    candidate *candidates;
    uint32_t candidate_count;
} state;

static inline const rota_buffer *buffer_at(const state *s, uint32_t buffer) {
    return ((const rota_plan_buffer *)s->c->buffers.data)[buffer].buffer;
}

/* Where a clone that comes before node `at` finds a buffer: in its first time of life, or computed again. */
static inline bool in_first_life(const life *l, uint32_t node) {
    return !l->given_up || l->end >= TICK_BEFORE(node);
}

#endif
