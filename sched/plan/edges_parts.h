/* What the files of edges share. Operations are numbers in record order; lists are rota_cons. Internal to
 * edges*.c. */
#ifndef ROTA_SCHED_PLAN_EDGES_PARTS_H
#define ROTA_SCHED_PLAN_EDGES_PARTS_H

#include "base/arena.h"
#include "base/assert.h"
#include "base/vector.h"
#include "sched/plan/edges.h"
#include "sched/plan/interval.h"
#include "sched/plan/pack.h"

/* Tests build these files with small ones, so that all is joined. */
#ifndef ROTA_JOIN_AT
#define ROTA_JOIN_AT 64
#define ROTA_RANGES_PER_ACCESS 4
#endif

enum {
    JOIN_AT = ROTA_JOIN_AT, /* operations in a list that is named one by one whoever comes after it */
    RANGES_PER_ACCESS = ROTA_RANGES_PER_ACCESS /* looked at, on average */
};

/* The writer of bytes that come from outside the plan, once that was noted; nothing to come after. Like any
 * writer it is kept plus 1. */
#define INCOMING (ROTA_NONE - 1)

/* Candidates for edges into the present operation, or into a join. */
typedef struct candidate {
    uint32_t from; /* operation or join (ROTA_JOIN) */
    uint32_t kind; /* rota_edge_kind */
} candidate;

typedef struct seen_chain {
    uint32_t epoch; /* the reduction for which `latest` holds */
    uint32_t latest;
    uint32_t tail; /* the chain's last operation so far */
} seen_chain;

/* A cell of a long list that somebody went past: the next one joins what lies from there on. */
typedef struct visit {
    uint32_t cell; /* 0: empty */
    uint32_t join; /* ROTA_NONE: none yet */
} visit;

typedef struct hazards {
    rota_compiler *c;
    rota_vector maps;       /* rota_interval_map *, of physicals that are touched in ranges */
    rota_vector spare_maps; /* uint32_t: of those, plus 1, the ones that no physical has any more */
    rota_vector cons;       /* rota_cons: cells of lists; index 0 unused */
    rota_vector candidates;
    rota_vector join_clocks; /* rota_clock */
    rota_vector joined;      /* candidate: what a join is being made of */
    rota_vector blocks;      /* uint32_t: cells that begin a block of a list */
    visit *visits;           /* hash by cell */
    uint32_t visit_mask, visit_count;
    bool one_timeline;
    rota_clocks clocks; /* by operation */
    rota_vector seen;   /* seen_chain, by chain */
    uint32_t reductions;
    rota_vector reached; /* uint32_t: the chains that the last reduction saw, once each */
    rota_interval_map *piece_map[UINT8_MAX + 1];
    rota_arena arena;
    rota_packer *packer; /* CONCURRENT only */
    uint32_t operation;
    /* Physicals with untouched ranges that this operation touches. */
    uint32_t initial[ROTA_OPERATION_ACCESSES_MAX];
    uint32_t initial_count;
    bool failed;
} hazards;

static inline rota_clock *clock_of(const hazards *h, uint32_t id) {
    if (__builtin_expect(id & ROTA_JOIN, 0)) return (rota_clock *)h->join_clocks.data + (id & ~ROTA_JOIN);
    return &h->clocks.clock[id];
}

static inline rota_interval_map *map_of(const hazards *h, const rota_physical *physical) {
    return ((rota_interval_map **)h->maps.data)[physical->map - 1];
}

/* Joins are on none. */
static inline uint32_t chain_of(const hazards *h, uint32_t id) {
    return __builtin_expect(id & ROTA_JOIN, 0) ? ROTA_NONE : h->clocks.chain[id];
}

/* ---- Lists and candidates ---- */

static inline rota_cons cell_at(const hazards *h, uint32_t list) {
    return rota_list_first(h->cons.data, list);
}

static inline uint32_t push(hazards *h, uint32_t list, uint32_t operation) {
    if (!list && !(operation & ROTA_JOIN)) return ROTA_LIST_OF_ONE | operation;
    if (list && cell_at(h, list).operation == operation + 1) return list;
    if (!rota_vector_reserve(&h->cons, sizeof(rota_cons), 1) || h->cons.count >= ROTA_LIST_OF_ONE) {
        h->failed = true;
        return list;
    }
    ((rota_cons *)h->cons.data)[h->cons.count] = (rota_cons){operation + 1, list};
    return (uint32_t)h->cons.count++;
}

static inline void append(hazards *h, rota_vector *candidates, uint32_t from, rota_edge_kind kind) {
    if (from == INCOMING) return;
    if (!rota_vector_reserve(candidates, sizeof(candidate), 1)) {
        h->failed = true;
        return;
    }
    ((candidate *)candidates->data)[candidates->count++] = (candidate){from, kind};
}

static inline void add_candidate(hazards *h, uint32_t from, rota_edge_kind kind) {
    if (from == h->operation || from == INCOMING) return;
    rota_clock *clock = clock_of(h, from);
    if (clock->candidate_epoch == h->operation + 1) return;
    clock->candidate_epoch = h->operation + 1;
    append(h, &h->candidates, from, kind);
}

#endif
