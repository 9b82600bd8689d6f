/* Edges between operations: RAW, WAR and WAW by byte range, memory shared by transients, rota_node_after.
 * What a vector clock proves implied is dropped.
 *
 * Operations are visited in record order. Each physical remembers, per range, the last writer and the readers
 * since. A physical that is always touched as one range, the usual case, needs no interval map.
 *
 * Linear in accesses, with one care: k readers of a range followed by many partial writes (or k partial
 * writers followed by many whole reads) would give k edges each time. Past SUMMARY_AT predecessors the
 * operation that just came after all of them stands for them; that orders a little more than needed and keeps
 * the sum of edges linear. */
#include "sched/compile.h"

#include <stdlib.h>
#include <string.h>

enum { SUMMARY_AT = 64 };

/* What is known of one physical. */
typedef struct touched {
    uint64_t low, high; /* while map is NULL: the one range touched so far; empty: none */
    rota_range_state state;
    rota_interval_map *map;
    uint32_t memory_edges; /* list: what initial uses come after, because of memory */
} touched;

/* Candidates for edges into the present operation. */
typedef struct candidate {
    uint32_t from;
    uint32_t kind; /* rota_edge_kind */
} candidate;

typedef struct seen_chain {
    uint32_t stamp; /* operation + 1 for which `latest` holds */
    uint32_t latest;
} seen_chain;

typedef struct hazards {
    rota_compiler *c;
    touched *touched;
    rota_vector cons; /* rota_cons; index 0 unused */
    rota_vector candidates;
    uint32_t *candidate_stamp; /* by operation: operation + 1 that has it as candidate */
    seen_chain *seen;
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

static inline void add_candidate(hazards *h, uint32_t from, rota_edge_kind kind) {
    if (from == h->operation || h->candidate_stamp[from] == h->operation + 1) return;
    if (!rota_vector_reserve(&h->candidates, sizeof(candidate), 1)) {
        h->failed = true;
        return;
    }
    h->candidate_stamp[from] = h->operation + 1;
    ((candidate *)h->candidates.data)[h->candidates.count++] = (candidate){from, kind};
}

static void add_list(hazards *h, uint32_t list, rota_edge_kind kind) {
    while (list) {
        rota_cons cell = ((rota_cons *)h->cons.data)[list];
        add_candidate(h, cell.operation - 1, kind);
        list = cell.next;
    }
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

/* The same on an interval map. */
static rota_status apply_map(hazards *h, uint32_t physical, uint64_t low, uint64_t high, effect what,
                             bool reads) {
    rota_physical *at = &ROTA_PHYSICALS(h->c)[physical];
    touched *t = &h->touched[physical];
    rota_interval *first = rota_interval_map_cover(t->map, low, high);
    if (!first) return rota_compile_no_memory(h->c);
    uint64_t before = h->candidates.count;
    bool all_written = true;
    rota_range_state merged = {0};
    uint32_t shared_readers = first->state.readers;
    for (rota_interval *range = first; range && range->low < high; range = range->next[0]) {
        if (is_untouched(&range->state)) note_initial(h, physical);
        if (!is_written(&range->state)) {
            all_written = false;
            if (reads) ROTA_TRY(read_unwritten(h, at, range->low, range->high));
        }
        if (range->state.readers != shared_readers) shared_readers = 0;
        merged = apply(h, range->state, what, reads);
        if (what != EFFECT_WRITE) range->state = merged;
    }
    bool many = h->candidates.count - before > SUMMARY_AT;
    if (what == EFFECT_WRITE) {
        rota_interval_map_merge(t->map, low, high, merged);
        if (many && shared_readers) {
            /* The rest of the range that those readers read: this operation comes after them all. */
            uint32_t self = push(h, 0, h->operation);
            rota_interval *left = low ? rota_interval_map_find(t->map, low - 1) : NULL;
            rota_interval *right = rota_interval_map_find(t->map, high);
            if (left && left->state.readers == shared_readers) left->state.readers = self;
            if (right && right->state.readers == shared_readers) right->state.readers = self;
        }
    } else if (what == EFFECT_READ && many && all_written) {
        uint32_t last = 0;
        for (rota_interval *range = first; range && range->low < high; range = range->next[0]) {
            if (range->state.readers != last) add_list(h, range->state.readers, ROTA_EDGE_WAR);
            last = range->state.readers;
        }
        rota_interval_map_merge(
            t->map, low, high,
            (rota_range_state){.writer = h->operation + 1, .readers = push(h, 0, h->operation)});
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
    uint64_t before = h->candidates.count;
    bool read_accumulates = what == EFFECT_READ && t->state.accumulators;
    t->state = apply(h, t->state, what, reads);
    if (read_accumulates && h->candidates.count - before > SUMMARY_AT &&
        !((rota_cons *)h->cons.data)[t->state.readers].next)
        t->state = (rota_range_state){.writer = h->operation + 1, .readers = t->state.readers};
    return ROTA_OK;
}

/* ---- Memory edges ---- */

static uint32_t terminal_uses(hazards *h, const rota_range_state *state, uint32_t list) {
    uint32_t from = state->readers ? state->readers : state->accumulators;
    if (!from) return state->writer ? push(h, list, state->writer - 1) : list;
    while (from) {
        rota_cons cell = ((rota_cons *)h->cons.data)[from];
        list = push(h, list, cell.operation - 1);
        from = cell.next;
    }
    return list;
}

/* What every use of a physical comes before or is, once all of them were visited. */
static uint32_t last_uses(hazards *h, uint32_t physical, uint32_t list) {
    const touched *t = &h->touched[physical];
    if (!t->map) return terminal_uses(h, &t->state, list);
    for (const rota_interval *use = rota_interval_map_find(t->map, 0); use; use = use->next[0])
        list = terminal_uses(h, &use->state, list);
    return list;
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
        if (at->inplace_of != ROTA_NONE) list = last_uses(h, at->inplace_of, list);
        const rota_cons *tenants = h->c->tenants.data;
        for (uint32_t i = at->tenants; i; i = tenants[i].next)
            list = last_uses(h, tenants[i].operation, list);
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
        list = last_uses(h, tenant - 1, list);
    }
    rota_interval_map_merge(map, low, high, (rota_range_state){.writer = physical + 1});
    h->touched[physical].memory_edges = list;
    return ROTA_OK;
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

static void clock_add(rota_clock *clock, uint32_t chain, uint32_t latest) {
    for (uint32_t i = 0; i < clock->count; i++)
        if (clock->chain[i] == chain) {
            if (clock->latest[i] < latest) clock->latest[i] = latest;
            return;
        }
    uint32_t at = clock->count;
    if (at < ROTA_CLOCK_ENTRIES) {
        clock->count++;
    } else {
        at = 0;
        for (uint32_t i = 1; i < ROTA_CLOCK_ENTRIES; i++)
            if (clock->latest[i] < clock->latest[at]) at = i;
        if (clock->latest[at] > latest) return;
    }
    clock->chain[at] = chain;
    clock->latest[at] = latest;
}

/* Adds what a predecessor and what comes before it are in other chains. */
static void clock_join(rota_clock *clock, const rota_clock *other, uint32_t from) {
    if (clock->count == 0) {
        for (uint32_t k = 0; k < other->count; k++) {
            clock->chain[clock->count] = other->chain[k];
            clock->latest[clock->count] = other->latest[k];
            clock->count += other->chain[k] != clock->own_chain;
        }
    } else {
        for (uint32_t k = 0; k < other->count; k++)
            if (other->chain[k] != clock->own_chain) clock_add(clock, other->chain[k], other->latest[k]);
    }
    if (other->own_chain != clock->own_chain) clock_add(clock, other->own_chain, from);
}

/* Keeps the candidates that no other one implies; the latest first, since only a later one can imply an
 * earlier. */
static uint64_t keep_candidates(hazards *h, candidate *list, uint64_t count) {
    const rota_clock *clocks = h->c->clocks;
    uint32_t stamp = h->operation + 1;
    uint64_t kept = 0;
    sort_candidates(list, count);
    for (uint64_t i = 0; i < count; i++) {
        uint32_t from = list[i].from;
        const rota_clock *clock = &clocks[from];
        seen_chain *own = &h->seen[clock->own_chain];
        if (own->stamp == stamp && own->latest >= from) continue;
        list[kept++] = list[i];
        *own = (seen_chain){stamp, from};
        for (uint32_t k = 0; k < clock->count; k++) {
            seen_chain *seen = &h->seen[clock->chain[k]];
            if (seen->stamp != stamp || seen->latest < clock->latest[k])
                *seen = (seen_chain){stamp, clock->latest[k]};
        }
    }
    return kept;
}

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
        uint32_t chain = c->clocks[list[i].from].own_chain;
        if (h->chain_tail[chain] == list[i].from) clock->own_chain = chain;
    }
    if (clock->own_chain == ROTA_NONE) clock->own_chain = h->chain_count++;
    h->chain_tail[clock->own_chain] = h->operation;

    if (!rota_vector_reserve(&c->edge_from, sizeof(uint32_t), kept) ||
        !rota_vector_reserve(&c->edge_kind, 1, kept))
        return rota_compile_no_memory(c);
    for (uint64_t i = 0; i < kept; i++) {
        uint32_t from = list[i].from;
        ((uint32_t *)c->edge_from.data)[c->edge_from.count++] = from;
        ((uint8_t *)c->edge_kind.data)[c->edge_kind.count++] = (uint8_t)list[i].kind;
        clock_join(clock, &c->clocks[from], from);
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

static rota_status gather_afters(rota_compiler *c) {
    const rota_compile_info *info = c->info;
    uint64_t count = 0;
    for (uint32_t i = 0; i < info->lane_count; i++) count += info->lanes[i]->after_count;
    if (count == 0) return ROTA_OK;
    c->afters = rota_arena_alloc(&c->scratch, sizeof *c->afters * count, 8);
    if (!c->afters) return rota_compile_no_memory(c);
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
            earlier = rota_compile_last_part(c, earlier);
            if (earlier >= later) {
                char name[256];
                strncpy(name, rota_operation_describe(c->plan, earlier), sizeof name - 1);
                name[sizeof name - 1] = 0;
                return rota_fail(ROTA_INVALID_ARGUMENT,
                                 "rota_node_after: %s is to come after %s, which is later in record order",
                                 rota_operation_describe(c->plan, later), name);
            }
            c->afters[c->after_count++] = (rota_after){{0, later}, {0, earlier}};
        }
    qsort(c->afters, c->after_count, sizeof *c->afters, compare_afters);
    return ROTA_OK;
}

/* ---- The pass ---- */

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
        uint32_t inplace_uses = at->inplace_of != ROTA_NONE ? last_uses(h, at->inplace_of, 0) : 0;
        ROTA_TRY(rota_packer_birth(h->packer, access_physical[i], h->operation, whole, inplace_uses,
                                   h->cons.data));
    }
    for (uint32_t i = 0; i < operation->access_count; i++) {
        if (access_physical[i] == ROTA_NONE) continue;
        const rota_physical *at = &ROTA_PHYSICALS(c)[access_physical[i]];
        if (!at->packed || at->last_operation != h->operation) continue;
        rota_packer_death(h->packer, access_physical[i], last_uses(h, access_physical[i], 0));
    }
    return ROTA_OK;
}

static rota_status visit_operations(hazards *h) {
    rota_compiler *c = h->c;
    const rota_operation *operations = ROTA_OPERATIONS(c);
    const rota_exec_operand *accesses = ROTA_ACCESSES(c);
    const uint32_t *access_physical = ROTA_ACCESS_PHYSICAL(c);
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
        for (; after < c->after_count && c->afters[after].later.index == n; after++)
            add_candidate(h, c->afters[after].earlier.index, ROTA_EDGE_AFTER);
        ROTA_TRY(finish_operation(h));
        if (!tight) ROTA_TRY(pack_operation(h, operation));
    }
    c->first_edge[c->operations.count] = (uint32_t)c->edge_from.count;
    return ROTA_OK;
}

rota_status rota_compile_hazards(rota_compiler *c) {
    ROTA_TRY(gather_afters(c));
    size_t count = (size_t)c->operations.count;
    hazards h = {.c = c, .arena = &c->scratch};
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
    rota_vector_free(&h.cons);
    rota_vector_free(&h.candidates);
    return status;
}
