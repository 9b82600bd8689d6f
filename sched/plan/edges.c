/* Edges between operations: RAW, WAR and WAW by byte range, memory shared by transients, rota_node_after.
 * What a vector clock proves implied is dropped.
 *
 * Operations are visited in record order. Each physical remembers, per range, the last writer and the readers
 * since. A physical that is always touched as one range, the usual case, needs no interval map.
 *
 * O((operations + accesses) log ranges), also where sets meet sets. k readers before k accumulates, before k
 * partial writes or before k transients that share what the readers' buffer leaves would be k * k edges: the
 * second operation that comes after a list of more than JOIN_AT is ordered behind it by a join, a point
 * without work that comes after all of the list. Long lists are joined in blocks, so that lists which share
 * their older part share its joins. And k operations that each touch k ranges would look at k * k of them:
 * each access of a buffer pays for RANGES_PER_ACCESS, and the first that finds nothing left leaves one range
 * behind, joined from all that it saw. That orders later operations on some of those bytes behind the others'
 * too; writes leave one range anyway. */
#include "sched/plan/edges.h"
#include "sched/plan/externals.h"
#include "sched/plan/interval.h"
#include "sched/plan/names.h"
#include "sched/plan/pack.h"
#include "sched/plan/parts.h"
#include "sched/plan/segments.h"

#include <stdlib.h>
#include <string.h>

/* Tests build this file with small ones, so that all is joined. */
#ifndef ROTA_JOIN_AT
#define ROTA_JOIN_AT 64
#define ROTA_RANGES_PER_ACCESS 4
#endif

enum {
    JOIN_AT = ROTA_JOIN_AT, /* operations in a list that is named one by one whoever comes after it */
    RANGES_PER_ACCESS = ROTA_RANGES_PER_ACCESS, /* looked at, on average */
    MARKS_START = 256
};

/* The writer of bytes that come from outside the plan, once that was noted; nothing to come after. Like any
 * writer it is kept plus 1. */
#define INCOMING (ROTA_NONE - 1)

/* What is known of one physical. */
typedef struct touched {
    uint64_t low, high; /* while map is NULL: the one range touched so far; empty: none */
    rota_range_state state;
    rota_interval_map *map;
    uint32_t memory_edges; /* list: what initial uses come after, because of memory */
    uint32_t last_uses;    /* list, once another physical took the memory over */
} touched;

/* Candidates for edges into the present operation, or into a join. */
typedef struct candidate {
    uint32_t from; /* operation or join (ROTA_JOIN) */
    uint32_t kind; /* rota_edge_kind */
} candidate;

typedef struct seen_chain {
    uint32_t stamp; /* the reduction for which `latest` holds */
    uint32_t latest;
} seen_chain;

/* A cell of a long list that somebody went past: the next one joins what lies from there on. */
typedef struct mark {
    uint32_t cell; /* 0: empty */
    uint32_t join; /* ROTA_NONE: none yet */
} mark;

typedef struct hazards {
    rota_compiler *c;
    touched *touched;
    rota_vector cons; /* rota_cons; index 0 unused */
    rota_vector candidates;
    uint32_t *candidate_stamp; /* by operation: operation + 1 that has it as candidate */
    rota_vector join_stamp;    /* uint32_t, the same by join */
    rota_vector join_clocks;   /* rota_clock, of no chain */
    rota_vector joined;        /* candidate: what a join is being made of */
    rota_vector blocks;        /* uint32_t: cells that begin a block of a list */
    mark *marks;               /* hash by cell */
    uint32_t mark_mask, mark_count;
    bool one_timeline;
    seen_chain *seen;
    uint32_t reductions;
    uint32_t *chain_tail;
    uint32_t chain_count;
    rota_interval_map *piece_map[UINT8_MAX + 1];
    rota_arena *arena;
    rota_packer *packer; /* CONCURRENT only */
    uint32_t operation;
    /* Physicals with untouched ranges that this operation touches. */
    uint32_t initial[ROTA_OPERATION_ACCESSES_MAX];
    uint32_t initial_count;
    bool failed;
} hazards;

rota_edge_kind rota_hazard_between(rota_access_mode earlier, rota_access_mode later) {
    if (earlier != ROTA_READ && later != ROTA_WRITE) return ROTA_EDGE_RAW;
    if (earlier != ROTA_READ) return ROTA_EDGE_WAW;
    if (later != ROTA_READ) return ROTA_EDGE_WAR;
    return ROTA_EDGE_KIND_COUNT;
}

bool rota_clock_before(const rota_clock *clocks, uint32_t a, uint32_t b) {
    const rota_clock *clock = &clocks[b];
    uint32_t chain = clocks[a].own_chain;
    if (chain == clock->own_chain) return a < b;
    for (uint32_t i = 0; i < clock->count; i++)
        if (clock->chain[i] == chain) return a <= clock->latest[i];
    return false;
}

/* ---- Reduction ---- */

static int compare_candidates(const void *left, const void *right) {
    uint32_t a = ((const candidate *)left)->from, b = ((const candidate *)right)->from;
    return a < b ? 1 : a > b ? -1 : 0;
}

static void sort_candidates(candidate *list, uint64_t count) {
    if (count > 24) {
        qsort(list, (size_t)count, sizeof *list, compare_candidates);
        return;
    }
    for (uint64_t i = 1; i < count; i++) {
        candidate moved = list[i];
        uint64_t k = i;
        for (; k && list[k - 1].from < moved.from; k--) list[k] = list[k - 1];
        list[k] = moved;
    }
}

/* Returns how many entries there are then. */
static inline uint32_t clock_add(rota_clock *clock, uint32_t count, uint32_t chain, uint32_t latest) {
    for (uint32_t i = 0; i < count; i++)
        if (clock->chain[i] == chain) {
            if (clock->latest[i] < latest) clock->latest[i] = latest;
            return count;
        }
    uint32_t at = count;
    if (at == ROTA_CLOCK_ENTRIES) {
        at = 0;
        for (uint32_t i = 1; i < ROTA_CLOCK_ENTRIES; i++)
            if (clock->latest[i] < clock->latest[at]) at = i;
        if (clock->latest[at] > latest) return count;
        count--;
    }
    clock->chain[at] = chain;
    clock->latest[at] = latest;
    return count + 1;
}

/* Adds what a predecessor and what comes before it are in other chains. */
static void clock_join(rota_clock *restrict clock, const rota_clock *restrict other, uint32_t from) {
    const uint32_t own = clock->own_chain, others = other->count;
    uint32_t count = clock->count;
    if (count == 0) {
        for (uint32_t k = 0; k < others; k++) {
            clock->chain[count] = other->chain[k];
            clock->latest[count] = other->latest[k];
            count += other->chain[k] != own;
        }
    } else {
        for (uint32_t k = 0; k < others; k++)
            if (other->chain[k] != own) count = clock_add(clock, count, other->chain[k], other->latest[k]);
    }
    if (other->own_chain != own && other->own_chain != ROTA_NONE)
        count = clock_add(clock, count, other->own_chain, from);
    clock->count = count;
}

static inline const rota_clock *clock_of(const hazards *h, uint32_t id) {
    if (__builtin_expect(id & ROTA_JOIN, 0))
        return (const rota_clock *)h->join_clocks.data + (id & ~ROTA_JOIN);
    return &h->c->clocks[id];
}

/* Keeps the candidates that no other one implies; the latest first, since only a later one can imply an
 * earlier. Joins come before all operations and stay: they are on no chain, and no clock knows them. */
static uint64_t keep_candidates(hazards *h, candidate *list, uint64_t count) {
    uint32_t stamp = ++h->reductions;
    uint64_t kept = 0;
    sort_candidates(list, count);
    for (uint64_t i = 0; i < count; i++) {
        uint32_t from = list[i].from;
        const rota_clock *clock = clock_of(h, from);
        if (!(from & ROTA_JOIN)) {
            seen_chain *own = &h->seen[clock->own_chain];
            if (own->stamp == stamp && own->latest >= from) continue;
            *own = (seen_chain){stamp, from};
        } else if (kept && list[kept - 1].from == from) {
            continue;
        }
        list[kept++] = list[i];
        for (uint32_t k = 0; k < clock->count; k++) {
            seen_chain *seen = &h->seen[clock->chain[k]];
            if (seen->stamp != stamp || seen->latest < clock->latest[k])
                *seen = (seen_chain){stamp, clock->latest[k]};
        }
    }
    return kept;
}

/* ---- Lists and candidates ---- */

static inline uint32_t push(hazards *h, uint32_t list, uint32_t operation) {
    if (list && ((rota_cons *)h->cons.data)[list].operation == operation + 1) return list;
    if (!rota_vector_reserve(&h->cons, sizeof(rota_cons), 1)) {
        h->failed = true;
        return list;
    }
    ((rota_cons *)h->cons.data)[h->cons.count] = (rota_cons){operation + 1, list};
    return (uint32_t)h->cons.count++;
}

static inline rota_cons cell_at(const hazards *h, uint32_t list) {
    return ((const rota_cons *)h->cons.data)[list];
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
    uint32_t *stamp =
        from & ROTA_JOIN ? (uint32_t *)h->join_stamp.data + (from & ~ROTA_JOIN) : &h->candidate_stamp[from];
    if (*stamp == h->operation + 1) return;
    *stamp = h->operation + 1;
    append(h, &h->candidates, from, kind);
}

/* ---- Joins ---- */

/* A join of what stands in h->joined from `base` on, or what that comes to: one operation, INCOMING if none.
 * ROTA_NONE: out of memory. */
static uint32_t make_join(hazards *h, uint64_t base, rota_edge_kind kind) {
    rota_compiler *c = h->c;
    uint64_t count = h->joined.count - base;
    h->joined.count = base;
    if (count == 0) return h->failed ? ROTA_NONE : INCOMING;
    candidate *list = (candidate *)h->joined.data + base;
    count = keep_candidates(h, list, count);
    if (count == 1) return list[0].from;
    if (h->failed || c->joins.count >= ROTA_JOINS_MAX ||
        !rota_vector_reserve(&c->joins, sizeof(rota_join), 1) ||
        !rota_vector_reserve(&c->join_from, sizeof(uint32_t), count) ||
        !rota_vector_reserve(&h->join_stamp, sizeof(uint32_t), 1) ||
        !rota_vector_reserve(&h->join_clocks, sizeof(rota_clock), 1)) {
        h->failed = true;
        return ROTA_NONE;
    }
    const uint32_t id = ROTA_JOIN | (uint32_t)c->joins.count;
    ((rota_join *)c->joins.data)[c->joins.count++] = (rota_join){.before = h->operation,
                                                                 .first_from = (uint32_t)c->join_from.count,
                                                                 .count = (uint32_t)count,
                                                                 .kind = (uint8_t)kind};
    ((uint32_t *)h->join_stamp.data)[h->join_stamp.count++] = 0;
    rota_clock *clock = (rota_clock *)h->join_clocks.data + h->join_clocks.count++;
    *clock = (rota_clock){.own_chain = ROTA_NONE};
    for (uint64_t i = 0; i < count; i++) {
        ((uint32_t *)c->join_from.data)[c->join_from.count++] = list[i].from;
        clock_join(clock, clock_of(h, list[i].from), list[i].from);
    }
    return id;
}

static uint32_t mark_slot(const mark *marks, uint32_t mask, uint32_t cell) {
    uint32_t slot = cell * 0x9e3779b1u & mask;
    while (marks[slot].cell && marks[slot].cell != cell) slot = (slot + 1) & mask;
    return slot;
}

static mark *find_mark(const hazards *h, uint32_t cell) {
    if (!h->marks) return NULL;
    mark *found = &h->marks[mark_slot(h->marks, h->mark_mask, cell)];
    return found->cell ? found : NULL;
}

static void add_mark(hazards *h, uint32_t cell) {
    if (!h->marks || h->mark_count * 2 > h->mark_mask) {
        uint32_t size = h->marks ? (h->mark_mask + 1) * 2 : MARKS_START;
        mark *grown = rota_arena_calloc(h->arena, sizeof *grown * size, 8);
        if (!grown) {
            h->failed = true;
            return;
        }
        for (uint32_t i = 0; h->marks && i <= h->mark_mask; i++)
            if (h->marks[i].cell) grown[mark_slot(grown, size - 1, h->marks[i].cell)] = h->marks[i];
        h->marks = grown;
        h->mark_mask = size - 1;
    }
    h->marks[mark_slot(h->marks, h->mark_mask, cell)] = (mark){cell, ROTA_NONE};
    h->mark_count++;
}

/* Joins a list from a marked cell on, block by block, the oldest first, as far as that was not done before.
 * Not while the operation at hand is in it itself, which comes after the rest: ROTA_NONE then. */
static uint32_t join_from_mark(hazards *h, uint32_t cell, rota_edge_kind kind) {
    uint32_t join = ROTA_NONE;
    h->blocks.count = 0;
    for (uint32_t at = cell; at; at = cell_at(h, at).next) {
        const mark *m = find_mark(h, at);
        if (m && m->join != ROTA_NONE) {
            join = m->join;
            break;
        }
        if (cell_at(h, at).operation == h->operation + 1) return ROTA_NONE;
        if (!m) continue;
        if (!rota_vector_reserve(&h->blocks, sizeof(uint32_t), 1)) {
            h->failed = true;
            return ROTA_NONE;
        }
        ((uint32_t *)h->blocks.data)[h->blocks.count++] = at;
    }
    while (h->blocks.count && !h->failed) {
        const uint32_t first = ((uint32_t *)h->blocks.data)[--h->blocks.count];
        const uint64_t base = h->joined.count;
        if (join != ROTA_NONE) append(h, &h->joined, join, kind);
        for (uint32_t at = first; at; at = cell_at(h, at).next) {
            const mark *m = at == first ? NULL : find_mark(h, at);
            if (m && m->join != ROTA_NONE) break;
            append(h, &h->joined, cell_at(h, at).operation - 1, kind);
        }
        join = make_join(h, base, kind);
        find_mark(h, first)->join = join;
    }
    return join;
}

/* The next of a long list as whoever comes after all of it should name them: operations one by one the first
 * time, which is marked at every JOIN_AT of them, and from where a mark is met a join of the rest. */
typedef struct walk {
    uint32_t at, passed;
    rota_edge_kind kind;
} walk;

static uint32_t walk_next(hazards *h, walk *w) {
    const mark *m = find_mark(h, w->at);
    if (m) {
        uint32_t join = m->join != ROTA_NONE ? m->join : join_from_mark(h, w->at, w->kind);
        if (join != ROTA_NONE) {
            w->at = 0;
            return join;
        }
    } else if (w->passed % JOIN_AT == 0) {
        add_mark(h, w->at);
    }
    const rota_cons cell = cell_at(h, w->at);
    w->at = cell.next;
    w->passed++;
    return cell.operation - 1;
}

static inline bool is_long(const hazards *h, uint32_t list) {
    if (!list || !cell_at(h, list).next) return false; /* mostly */
    for (uint32_t length = 0; list; list = cell_at(h, list).next)
        if (++length > JOIN_AT) return true;
    return false;
}

static inline void add_list(hazards *h, uint32_t list, rota_edge_kind kind) {
    if (is_long(h, list)) {
        for (walk w = {list, 0, kind}; w.at && !h->failed;) add_candidate(h, walk_next(h, &w), kind);
        return;
    }
    for (; list; list = cell_at(h, list).next) add_candidate(h, cell_at(h, list).operation - 1, kind);
}

/* The list `list` with all of `more` before it. */
static uint32_t concatenate(hazards *h, uint32_t list, uint32_t more, rota_edge_kind kind) {
    if (!list) return more;
    if (is_long(h, more)) {
        for (walk w = {more, 0, kind}; w.at && !h->failed;) list = push(h, list, walk_next(h, &w));
        return list;
    }
    for (; more; more = cell_at(h, more).next) list = push(h, list, cell_at(h, more).operation - 1);
    return list;
}

/* What a list adds to the join that is being made. */
static void join_list(hazards *h, uint32_t list, rota_edge_kind kind) {
    if (is_long(h, list)) {
        for (walk w = {list, 0, kind}; w.at && !h->failed;) append(h, &h->joined, walk_next(h, &w), kind);
        return;
    }
    for (; list; list = cell_at(h, list).next) append(h, &h->joined, cell_at(h, list).operation - 1, kind);
}

/* ---- One access on one range ---- */

typedef enum effect { EFFECT_READ, EFFECT_WRITE, EFFECT_ACCUMULATE } effect;

static bool is_written(const rota_range_state *state) {
    return state->writer || state->accumulators;
}

/* Adds what the access comes after and returns the range's next state. Writes: the state of the merged range.
 */
static inline __attribute__((always_inline)) rota_range_state apply(hazards *h, rota_range_state state,
                                                                    effect what, bool reads) {
    rota_edge_kind after_write = reads ? ROTA_EDGE_RAW : ROTA_EDGE_WAW;
    switch (what) {
    case EFFECT_READ:
        if (state.accumulators)
            add_list(h, state.accumulators, ROTA_EDGE_RAW);
        else if (state.writer)
            add_candidate(h, state.writer - 1, ROTA_EDGE_RAW);
        state.readers = push(h, state.readers, h->operation);
        return state;
    case EFFECT_WRITE:
        /* Readers come after the writer themselves. */
        if (state.readers)
            add_list(h, state.readers, ROTA_EDGE_WAR);
        else if (state.accumulators)
            add_list(h, state.accumulators, after_write);
        else if (state.writer)
            add_candidate(h, state.writer - 1, after_write);
        return (rota_range_state){.writer = h->operation + 1};
    case EFFECT_ACCUMULATE:
        if (state.readers) {
            state.base = state.readers;
            state.accumulators = 0;
            state.readers = 0;
        } else if (!state.accumulators) {
            state.base = state.writer ? push(h, 0, state.writer - 1) : 0;
        }
        add_list(h, state.base, ROTA_EDGE_RAW);
        state.accumulators = push(h, state.accumulators, h->operation);
        return state;
    }
    return state;
}

static rota_status undefined_read(const hazards *h, const rota_physical *at, uint64_t low, uint64_t high) {
    const rota_buffer *root = h->c->plan->buffers[at->buffer].buffer;
    return rota_fail(
        ROTA_UNDEFINED_DATA, "%s reads bytes [%llu, %llu) of %s buffer '%s', which nothing has written",
        rota_operation_describe(h->c->plan, h->operation), (unsigned long long)low, (unsigned long long)high,
        rota_buffer_kind_name((rota_buffer_kind)root->kind), root->name);
}

static rota_status note_external(hazards *h, const rota_physical *at, uint64_t low, uint64_t high,
                                 uint32_t flags) {
    rota_vector *notes = &h->c->externals;
    if (!rota_vector_reserve(notes, sizeof(rota_external_note), 1)) return rota_compile_no_memory(h->c);
    ((rota_external_note *)notes->data)[notes->count++] =
        (rota_external_note){at->buffer, h->operation, low, high, flags};
    return ROTA_OK;
}

/* A range not written by this plan is read: an error for the graph's own buffers, incoming data for others.
 */
static rota_status read_unwritten(hazards *h, const rota_physical *at, uint64_t low, uint64_t high) {
    if (at->is_mirror) return ROTA_OK;
    if (at->kind == ROTA_BUFFER_PERSISTENT || at->kind == ROTA_BUFFER_SLOT)
        return note_external(h, at, low, high, ROTA_EXTERNAL_READ | ROTA_EXTERNAL_INCOMING);
    return h->c->plan->options.allow_undefined_reads ? ROTA_OK : undefined_read(h, at, low, high);
}

static void note_initial(hazards *h, uint32_t physical) {
    for (uint32_t i = 0; i < h->initial_count; i++)
        if (h->initial[i] == physical) return;
    h->initial[h->initial_count++] = physical;
}

static bool is_untouched(const rota_range_state *state) {
    return !(state->writer | state->readers | state->accumulators);
}

/* ---- Many ranges ---- */

/* What a range's next readers come after. */
static void join_writers(hazards *h, const rota_range_state *state) {
    if (state->accumulators)
        join_list(h, state->accumulators, ROTA_EDGE_RAW);
    else if (state->writer)
        append(h, &h->joined, state->writer - 1, ROTA_EDGE_RAW);
}

static uint32_t join_to_list(hazards *h, uint32_t list, uint64_t base, rota_edge_kind kind) {
    uint32_t join = make_join(h, base, kind);
    return join == ROTA_NONE || join == INCOMING ? list : push(h, list, join);
}

/* Leaves one range of those that a read has gone over: its writer joins theirs, and its readers are this
 * operation and a join of theirs. */
static rota_range_state merge_read(hazards *h, const rota_interval *first, uint64_t high) {
    rota_range_state merged = {0}, last = {0};
    const uint64_t base = h->joined.count;
    for (const rota_interval *range = first; range && range->low < high; range = range->next[0]) {
        if (range->state.writer != last.writer || range->state.accumulators != last.accumulators)
            join_writers(h, &range->state);
        last = range->state;
    }
    merged.writer = make_join(h, base, ROTA_EDGE_RAW) + 1;
    last.readers = 0;
    for (const rota_interval *range = first; range && range->low < high; range = range->next[0]) {
        if (range->state.readers == last.readers) continue;
        last.readers = range->state.readers;
        uint32_t others = last.readers;
        if (cell_at(h, others).operation == h->operation + 1) others = cell_at(h, others).next;
        join_list(h, others, ROTA_EDGE_WAR);
    }
    merged.readers = push(h, join_to_list(h, 0, base, ROTA_EDGE_WAR), h->operation);
    return merged;
}

/* The same for an accumulate, which has begun or joined each range's group. */
static rota_range_state merge_accumulate(hazards *h, const rota_interval *first, uint64_t high) {
    rota_range_state merged = {0}, last = {0};
    const uint64_t base = h->joined.count;
    for (const rota_interval *range = first; range && range->low < high; range = range->next[0])
        if (range->state.base != last.base) join_list(h, last.base = range->state.base, ROTA_EDGE_RAW);
    merged.base = join_to_list(h, 0, base, ROTA_EDGE_RAW);
    for (const rota_interval *range = first; range && range->low < high; range = range->next[0]) {
        if (range->state.accumulators == last.accumulators) continue;
        last.accumulators = range->state.accumulators;
        uint32_t others = last.accumulators;
        if (cell_at(h, others).operation == h->operation + 1) others = cell_at(h, others).next;
        join_list(h, others, ROTA_EDGE_RAW);
    }
    merged.accumulators = push(h, join_to_list(h, 0, base, ROTA_EDGE_RAW), h->operation);
    return merged;
}

/* The same on an interval map. */
static rota_status apply_map(hazards *h, uint32_t physical, uint64_t low, uint64_t high, effect what,
                             bool reads) {
    rota_physical *at = &ROTA_PHYSICALS(h->c)[physical];
    touched *t = &h->touched[physical];
    rota_interval *first = rota_interval_map_cover(t->map, low, high);
    if (!first) return rota_compile_no_memory(h->c);
    const bool external =
        (at->kind == ROTA_BUFFER_PERSISTENT || at->kind == ROTA_BUFFER_SLOT) && !at->is_mirror;
    uint64_t looked_at = 0;
    bool all_written = true;
    rota_range_state merged = {0};
    for (rota_interval *range = first; range && range->low < high; range = range->next[0], looked_at++) {
        if (is_untouched(&range->state)) note_initial(h, physical);
        if (!is_written(&range->state)) {
            if (reads) ROTA_TRY(read_unwritten(h, at, range->low, range->high));
            /* Noted once is enough where the plan is one segment; others note it for each of theirs. */
            if (reads && (!external || h->one_timeline))
                range->state.writer = INCOMING + 1;
            else
                all_written = false;
        }
        merged = apply(h, range->state, what, reads);
        if (what != EFFECT_WRITE) range->state = merged;
    }
    t->map->credit += RANGES_PER_ACCESS;
    if (what == EFFECT_WRITE) {
        rota_interval_map_merge(t->map, low, high, merged);
    } else if (looked_at <= t->map->credit) {
        t->map->credit -= looked_at;
    } else if (what == EFFECT_ACCUMULATE) {
        rota_interval_map_merge(t->map, low, high, merge_accumulate(h, first, high));
    } else if (all_written) {
        rota_interval_map_merge(t->map, low, high, merge_read(h, first, high));
    }
    return ROTA_OK;
}

static rota_status to_map(hazards *h, touched *t) {
    t->map = rota_arena_alloc(h->arena, sizeof *t->map, 16);
    if (!t->map) return rota_compile_no_memory(h->c);
    rota_interval_map_init(t->map, h->arena);
    rota_interval *range = rota_interval_map_cover(t->map, t->low, t->high);
    if (!range) return rota_compile_no_memory(h->c);
    range->state = t->state;
    return ROTA_OK;
}

static bool commuting_accumulates(const rota_compiler *c, const rota_operation *operation) {
    if (!operation->record || operation->record->kind != ROTA_NODE_KERNEL) return false;
    uint32_t flags = operation->record->u.kernel.kernel->flags;
    return (flags & ROTA_KERNEL_ATOMIC_ACCUMULATE) &&
           ((flags & ROTA_KERNEL_INTEGER_ACCUMULATE) || c->graph->allow_reassociation);
}

static rota_status visit_access(hazards *h, const rota_exec_operand *access, uint32_t physical,
                                const rota_operation *operation) {
    rota_physical *at = &ROTA_PHYSICALS(h->c)[physical];
    touched *t = &h->touched[physical];
    uint64_t low = access->offset_bytes, high = low + access->size_bytes;
    /* No two devices add to one place at once: nobody promises that their atomics are each other's. */
    effect what =
        access->mode == ROTA_READ ? EFFECT_READ
        : access->mode == ROTA_ACCUMULATE && !at->is_shared && commuting_accumulates(h->c, operation)
            ? EFFECT_ACCUMULATE
            : EFFECT_WRITE;
    bool reads = access->mode != ROTA_WRITE;
    bool external = (at->kind == ROTA_BUFFER_PERSISTENT || at->kind == ROTA_BUFFER_SLOT) && !at->is_mirror;
    uint32_t flags =
        (reads ? ROTA_EXTERNAL_READ : 0u) | (access->mode != ROTA_READ ? ROTA_EXTERNAL_WRITE : 0u);
    if (!t->map && t->high == 0) {
        t->low = low;
        t->high = high;
    } else if (!t->map && (t->low != low || t->high != high)) {
        ROTA_TRY(to_map(h, t));
    }
    if (t->map) {
        if (external) ROTA_TRY(note_external(h, at, low, high, flags));
        return apply_map(h, physical, low, high, what, reads);
    }
    if (is_untouched(&t->state)) note_initial(h, physical);
    bool incoming = reads && !is_written(&t->state);
    if (external)
        ROTA_TRY(note_external(h, at, low, high, flags | (incoming ? ROTA_EXTERNAL_INCOMING : 0u)));
    else if (incoming)
        ROTA_TRY(read_unwritten(h, at, low, high));
    t->state = apply(h, t->state, what, reads);
    return ROTA_OK;
}

/* ---- Memory edges ---- */

static uint32_t terminal_uses(hazards *h, const rota_range_state *state, uint32_t list) {
    uint32_t from = state->readers ? state->readers : state->accumulators;
    if (from) return concatenate(h, list, from, ROTA_EDGE_MEMORY);
    return state->writer && state->writer != INCOMING + 1 ? push(h, list, state->writer - 1) : list;
}

/* What every use of a physical comes before or is, once all of them were visited. */
static uint32_t last_uses(hazards *h, uint32_t physical) {
    const touched *t = &h->touched[physical];
    if (!t->map) return terminal_uses(h, &t->state, 0);
    uint32_t list = 0;
    rota_range_state last = {0};
    for (const rota_interval *use = rota_interval_map_find(t->map, 0); use; use = use->next[0]) {
        if (use->state.readers != last.readers || use->state.accumulators != last.accumulators ||
            use->state.writer != last.writer)
            list = terminal_uses(h, &use->state, list);
        last = use->state;
    }
    return list;
}

/* The same, kept: many may share the memory that one leaves. */
static uint32_t last_uses_kept(hazards *h, uint32_t physical, uint32_t list) {
    touched *t = &h->touched[physical];
    if (!t->last_uses) t->last_uses = last_uses(h, physical);
    return concatenate(h, list, t->last_uses, ROTA_EDGE_MEMORY);
}

static rota_interval_map *piece_map(hazards *h, const rota_physical *at) {
    rota_interval_map **maps = &h->piece_map[at->part];
    uint32_t pieces = h->c->piece_count[at->part];
    if (!*maps) {
        *maps = rota_arena_alloc(h->arena, sizeof **maps * pieces, 16);
        if (!*maps) return NULL;
        for (uint32_t i = 0; i < pieces; i++) rota_interval_map_init(&(*maps)[i], h->arena);
    }
    return &(*maps)[at->piece];
}

/* The physical takes over its memory in this operation: its initial uses come after the last uses of every
 * tenant of any of it. Older tenants come before those by the same rule. */
static rota_status take_memory(hazards *h, uint32_t physical) {
    const rota_physical *at = &ROTA_PHYSICALS(h->c)[physical];
    uint32_t list = 0, last = 0;
    if (!h->c->placed_anew[at->part]) {
        /* The packer knows; in place the input is the only tenant. */
        if (at->inplace_of != ROTA_NONE) list = last_uses_kept(h, at->inplace_of, list);
        const rota_cons *tenants = h->c->tenants.data;
        for (uint32_t i = at->tenants; i; i = tenants[i].next)
            list = last_uses_kept(h, tenants[i].operation, list);
        h->touched[physical].memory_edges = list;
        return ROTA_OK;
    }
    rota_interval_map *map = piece_map(h, at);
    uint64_t low = at->offset_bytes, high = low + at->size_bytes;
    rota_interval *range = map ? rota_interval_map_cover(map, low, high) : NULL;
    if (!range) return rota_compile_no_memory(h->c);
    for (; range && range->low < high; range = range->next[0]) {
        uint32_t tenant = range->state.writer;
        if (!tenant || tenant == last) continue;
        last = tenant;
        list = last_uses_kept(h, tenant - 1, list);
    }
    rota_interval_map_merge(map, low, high, (rota_range_state){.writer = physical + 1});
    h->touched[physical].memory_edges = list;
    return ROTA_OK;
}

/* ---- Edges ---- */

static rota_status finish_operation(hazards *h) {
    rota_compiler *c = h->c;
    candidate *list = h->candidates.data;
    uint64_t count = h->candidates.count, kept = count;
    if (count > 1) kept = keep_candidates(h, list, count);
    c->plan->stats.edges_dropped += count - kept;

    rota_clock *clock = &c->clocks[h->operation];
    clock->count = 0;
    clock->own_chain = ROTA_NONE;
    for (uint64_t i = 0; i < kept && clock->own_chain == ROTA_NONE; i++) {
        uint32_t chain = clock_of(h, list[i].from)->own_chain;
        if (chain != ROTA_NONE && h->chain_tail[chain] == list[i].from) clock->own_chain = chain;
    }
    if (clock->own_chain == ROTA_NONE) clock->own_chain = h->chain_count++;
    h->chain_tail[clock->own_chain] = h->operation;

    if (c->edge_from.count + c->join_from.count + kept > UINT32_MAX - 1)
        return rota_fail(ROTA_OUT_OF_RANGE,
                         "compile of graph '%s': %llu edges up to %s, and %llu more; at most 2^32 - 2",
                         c->graph->name, (unsigned long long)(c->edge_from.count + c->join_from.count),
                         rota_operation_describe(c->plan, h->operation), (unsigned long long)kept);
    if (!rota_vector_reserve(&c->edge_from, sizeof(uint32_t), kept) ||
        !rota_vector_reserve(&c->edge_kind, 1, kept))
        return rota_compile_no_memory(c);
    for (uint64_t i = 0; i < kept; i++) {
        uint32_t from = list[i].from;
        ((uint32_t *)c->edge_from.data)[c->edge_from.count++] = from;
        ((uint8_t *)c->edge_kind.data)[c->edge_kind.count++] = (uint8_t)list[i].kind;
        clock_join(clock, clock_of(h, from), from);
    }
    h->candidates.count = 0;
    return h->failed ? rota_compile_no_memory(c) : ROTA_OK;
}

/* ---- rota_node_after ---- */

static int compare_afters(const void *left, const void *right) {
    const rota_after *a = left, *b = right;
    if (a->later.index != b->later.index) return a->later.index < b->later.index ? -1 : 1;
    return 0;
}

/* All parts of one node come after all of the other: parts of a node need not be ordered themselves. */
static rota_status add_after(rota_compiler *c, uint32_t later, uint32_t earlier) {
    for (uint32_t to = later; to != ROTA_NONE; to = rota_compile_next_part(c, to))
        for (uint32_t from = earlier; from != ROTA_NONE; from = rota_compile_next_part(c, from)) {
            if (from >= to) {
                char name[256];
                strncpy(name, rota_operation_describe(c->plan, from), sizeof name - 1);
                name[sizeof name - 1] = 0;
                return rota_fail(ROTA_INVALID_ARGUMENT,
                                 "rota_node_after: %s is to come after %s, which is later in record order",
                                 rota_operation_describe(c->plan, to), name);
            }
            if (!rota_vector_reserve(&c->afters, sizeof(rota_after), 1)) return rota_compile_no_memory(c);
            ((rota_after *)c->afters.data)[c->afters.count++] = (rota_after){{0, to}, {0, from}};
        }
    return ROTA_OK;
}

static rota_status gather_afters(rota_compiler *c) {
    const rota_compile_info *info = c->info;
    uint64_t count = 0;
    for (uint32_t i = 0; i < info->lane_count; i++) count += info->lanes[i]->after_count;
    if (count == 0) return ROTA_OK;
    if (!rota_vector_reserve(&c->afters, sizeof(rota_after), count)) return rota_compile_no_memory(c);
    for (uint32_t i = 0; i < info->lane_count; i++)
        for (uint32_t k = 0; k < info->lanes[i]->after_count; k++) {
            rota_after after = info->lanes[i]->afters[k];
            if (after.earlier.lane == 0 || after.earlier.lane > info->lane_count ||
                after.earlier.index >= info->lanes[info->lane_rank[after.earlier.lane - 1]]->node_count)
                return rota_fail(ROTA_INVALID_ARGUMENT,
                                 "rota_node_after on lane '%s': there is no node %u in lane %u",
                                 info->lanes[i]->name, after.earlier.index, after.earlier.lane);
            uint32_t earlier_lane = info->lane_rank[after.earlier.lane - 1];
            uint32_t later = info->operation_of_node[info->lane_first_node[i] + after.later.index];
            uint32_t earlier =
                info->operation_of_node[info->lane_first_node[earlier_lane] + after.earlier.index];
            if (later == ROTA_NONE || earlier == ROTA_NONE) continue; /* rewritten away */
            ROTA_TRY(add_after(c, later, earlier));
        }
    qsort(c->afters.data, (size_t)c->afters.count, sizeof(rota_after), compare_afters);
    return ROTA_OK;
}

/* ---- The pass ---- */

/* Of a long list what comes after the rest of it. */
static uint32_t latest_of(hazards *h, uint32_t list) {
    if (!is_long(h, list)) return list;
    const uint64_t base = h->joined.count;
    for (uint32_t at = list; at; at = cell_at(h, at).next)
        append(h, &h->joined, cell_at(h, at).operation - 1, ROTA_EDGE_MEMORY);
    candidate *uses = (candidate *)h->joined.data + base;
    uint64_t count = h->joined.count - base, kept = keep_candidates(h, uses, count);
    h->joined.count = base;
    list = 0;
    while (kept) list = push(h, list, uses[--kept].from);
    return list;
}

/* CONCURRENT: what starts its life in this operation gets memory whose tenants are proved to be done; what
 * ends its life gives its memory up, with its last uses. */
static rota_status pack_operation(hazards *h, const rota_operation *operation) {
    rota_compiler *c = h->c;
    const uint32_t *access_physical = ROTA_ACCESS_PHYSICAL(c) + operation->first_access;
    const rota_exec_operand *accesses = ROTA_ACCESSES(c) + operation->first_access;
    for (uint32_t i = 0; i < operation->access_count; i++) {
        if (access_physical[i] == ROTA_NONE) continue;
        const rota_physical *at = &ROTA_PHYSICALS(c)[access_physical[i]];
        if (!at->packed || at->first_operation != h->operation) continue;
        bool whole = accesses[i].mode == ROTA_WRITE && accesses[i].size_bytes == at->size_bytes;
        uint32_t inplace_uses = at->inplace_of != ROTA_NONE ? last_uses(h, at->inplace_of) : 0;
        ROTA_TRY(rota_packer_birth(h->packer, access_physical[i], h->operation, whole, inplace_uses,
                                   h->cons.data));
    }
    for (uint32_t i = 0; i < operation->access_count; i++) {
        if (access_physical[i] == ROTA_NONE) continue;
        const rota_physical *at = &ROTA_PHYSICALS(c)[access_physical[i]];
        if (!at->packed || at->last_operation != h->operation) continue;
        rota_packer_death(h->packer, access_physical[i], latest_of(h, last_uses(h, access_physical[i])));
    }
    return ROTA_OK;
}

static rota_status visit_operations(hazards *h) {
    rota_compiler *c = h->c;
    const rota_operation *operations = ROTA_OPERATIONS(c);
    const rota_exec_operand *accesses = ROTA_ACCESSES(c);
    const uint32_t *access_physical = ROTA_ACCESS_PHYSICAL(c);
    const rota_after *afters = c->afters.data;
    bool tight = c->plan->options.packing == ROTA_PACK_TIGHT;
    uint64_t after = 0;
    for (uint32_t n = 0; n < c->operations.count; n++) {
        const rota_operation *operation = &operations[n];
        h->operation = n;
        h->initial_count = 0;
        c->first_edge[n] = (uint32_t)c->edge_from.count;
        /* Reads before writes: an operation in place reads what was there before it. */
        bool writes = false;
        for (uint32_t i = operation->first_access;
             i < (uint32_t)operation->first_access + operation->access_count; i++) {
            if (access_physical[i] == ROTA_NONE) continue;
            if (accesses[i].mode == ROTA_READ)
                ROTA_TRY(visit_access(h, &accesses[i], access_physical[i], operation));
            else
                writes = true;
        }
        for (uint32_t i = operation->first_access;
             writes && i < (uint32_t)operation->first_access + operation->access_count; i++)
            if (access_physical[i] != ROTA_NONE && accesses[i].mode != ROTA_READ)
                ROTA_TRY(visit_access(h, &accesses[i], access_physical[i], operation));
        if (tight)
            for (uint32_t i = 0; i < h->initial_count; i++) {
                const rota_physical *at = &ROTA_PHYSICALS(c)[h->initial[i]];
                if (!at->packed) continue;
                if (at->first_operation == n) ROTA_TRY(take_memory(h, h->initial[i]));
                add_list(h, h->touched[h->initial[i]].memory_edges, ROTA_EDGE_MEMORY);
            }
        for (; after < c->afters.count && afters[after].later.index == n; after++)
            add_candidate(h, afters[after].earlier.index, ROTA_EDGE_AFTER);
        ROTA_TRY(finish_operation(h));
        if (!tight) ROTA_TRY(pack_operation(h, operation));
    }
    c->first_edge[c->operations.count] = (uint32_t)c->edge_from.count;
    return ROTA_OK;
}

rota_status rota_compile_edges(rota_compiler *c) {
    ROTA_TRY(gather_afters(c));
    size_t count = (size_t)c->operations.count;
    hazards h = {.c = c, .arena = &c->scratch, .one_timeline = rota_compile_on_one_queue(c)};
    h.touched = rota_arena_calloc(&c->scratch, sizeof *h.touched * ((size_t)c->physicals.count + 1), 16);
    h.candidate_stamp = rota_arena_calloc(&c->scratch, sizeof(uint32_t) * (count + 1), 16);
    h.seen = rota_arena_calloc(&c->scratch, sizeof *h.seen * (count + 1), 16);
    h.chain_tail = rota_arena_alloc(&c->scratch, sizeof(uint32_t) * (count + 1), 16);
    c->clocks = rota_arena_alloc(&c->scratch, sizeof *c->clocks * (count + 1), 16);
    c->first_edge = rota_arena_alloc(&c->plan->arena, sizeof(uint32_t) * (count + 1), 16);
    h.cons.count = 1; /* index 0 ends lists */
    rota_status status = ROTA_OK;
    if (!h.touched || !h.candidate_stamp || !h.seen || !h.chain_tail || !c->clocks || !c->first_edge ||
        !rota_vector_reserve(&h.cons, sizeof(rota_cons), count))
        status = rota_compile_no_memory(c);
    else if (c->plan->options.packing == ROTA_PACK_CONCURRENT)
        status = rota_packer_create(c, &h.packer);
    if (status == ROTA_OK) status = visit_operations(&h);
    if (h.packer && status == ROTA_OK) status = rota_packer_finish(h.packer);
    rota_packer_free(h.packer);
    rota_vector *const vectors[] = {&h.cons,        &h.candidates, &h.join_stamp,
                                    &h.join_clocks, &h.joined,     &h.blocks};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) rota_vector_free(vectors[i]);
    return status;
}
