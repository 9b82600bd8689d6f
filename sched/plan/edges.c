/* Edges between operations: RAW, WAR and WAW by byte range, memory shared by transients, rota_node_after.
 * What a vector clock proves implied is dropped.
 *
 * Operations are visited in record order. Each physical remembers, per range, the last writer and the readers
 * since. A physical of which all bytes are touched each time, the usual case, needs no interval map.
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
#include "sched/plan/edges_after.h"
#include "sched/plan/edges_join.h"
#include "sched/plan/edges_parts.h"
#include "sched/plan/edges_ranges.h"
#include "sched/plan/edges_reduce.h"
#include "sched/plan/names.h"
#include "sched/plan/segments.h"

#include <stdlib.h>

/* Edges are numbered by 32 bits. A test makes it few. */
#ifndef ROTA_EDGES_MAX
#define ROTA_EDGES_MAX (UINT32_MAX - 1)
#endif

rota_edge_kind rota_hazard_between(rota_access_mode earlier, rota_access_mode later) {
    if (earlier != ROTA_READ && later != ROTA_WRITE) return ROTA_EDGE_RAW;
    if (earlier != ROTA_READ) return ROTA_EDGE_WAW;
    if (later != ROTA_READ) return ROTA_EDGE_WAR;
    return ROTA_EDGE_KIND_COUNT;
}

bool rota_clock_before(const rota_clocks *clocks, uint32_t a, uint32_t b) {
    const uint32_t *latest = clocks->clock[b].latest, chain = clocks->chain[a];
    if (chain == clocks->chain[b]) return a < b;
    for (uint32_t i = 0; i < ROTA_CLOCK_ENTRIES && latest[i] != ROTA_NONE; i++)
        if (clocks->chain[latest[i]] == chain) return a <= latest[i];
    return false;
}

/* ---- Memory edges ---- */

static uint32_t terminal_uses(hazards *h, const rota_range_state *state, uint32_t list) {
    uint32_t from = state->readers ? state->readers : state->accumulators;
    if (from) return rota_edges_concatenate(h, list, from, ROTA_EDGE_MEMORY);
    return state->writer && state->writer != INCOMING + 1 ? push(h, list, state->writer - 1) : list;
}

/* What every use of a physical comes before or is, once all of them were visited. */
static uint32_t last_uses(hazards *h, uint32_t physical) {
    const rota_physical *it = &ROTA_PHYSICALS(h->c)[physical];
    if (!it->map)
        return terminal_uses(h, &(rota_range_state){.writer = it->writer, .readers = it->readers}, 0);
    uint32_t list = 0;
    rota_range_state last = {0};
    for (const rota_interval *use = rota_interval_map_find(map_of(h, it), 0); use; use = use->next[0]) {
        if (use->state.readers != last.readers || use->state.accumulators != last.accumulators ||
            use->state.writer != last.writer)
            list = terminal_uses(h, &use->state, list);
        last = use->state;
    }
    return list;
}

/* Nobody asks for its ranges any more: another physical gets the map. */
static void give_map(hazards *h, rota_physical *it) {
    rota_assert(it->packed && !it->external); /* which is all that its map would still say */
    if (!rota_vector_reserve(&h->spare_maps, sizeof(uint32_t), 1)) {
        h->failed = true;
        return;
    }
    rota_interval_map_clear(map_of(h, it));
    ((uint32_t *)h->spare_maps.data)[h->spare_maps.count++] = it->map;
    it->map = it->writer = it->readers = 0;
}

/* The same, kept: many may share the memory that one leaves. They come before the operation at hand, or, where `list`
 * is given, before whoever comes after that. */
static void add_last_uses(hazards *h, uint32_t physical, uint32_t *list) {
    rota_physical *it = &ROTA_PHYSICALS(h->c)[physical];
    if (!it->last_uses) {
        it->last_uses = last_uses(h, physical);
        if (it->map) give_map(h, it);
    }
    if (list)
        *list = rota_edges_concatenate(h, *list, it->last_uses, ROTA_EDGE_MEMORY);
    else
        rota_edges_add_list(h, it->last_uses, ROTA_EDGE_MEMORY);
}

static rota_interval_map *piece_map(hazards *h, const rota_physical *physical) {
    rota_interval_map **maps = &h->piece_map[physical->part];
    uint32_t pieces = h->c->pieces.count[physical->part];
    if (!*maps) {
        *maps = rota_arena_alloc(&h->arena, sizeof **maps * pieces, 16);
        if (!*maps) return NULL;
        for (uint32_t i = 0; i < pieces; i++) rota_interval_map_init(&(*maps)[i], &h->arena);
    }
    return &(*maps)[physical->piece];
}

/* The physical takes over its memory in this operation: its initial uses come after the last uses of every
 * tenant of any of it. Older tenants come before those by the same rule. Without a map this operation is its only
 * initial use; else later ones may be, too, and there is a list. */
static rota_status take_memory(hazards *h, uint32_t physical) {
    rota_physical *it = &ROTA_PHYSICALS(h->c)[physical];
    uint32_t made = 0, last = 0, *list = it->map ? &made : NULL;
    if (!h->c->pieces.packed_anew[it->part]) {
        /* The packer knows; in place the input is the only tenant. */
        if (it->inplace_of != ROTA_NONE) add_last_uses(h, it->inplace_of, list);
        const uint32_t *tenants = h->c->pieces.tenants.data;
        for (uint32_t i = it->tenants; i; i = tenants[i] & ROTA_TENANT_OLDEST ? 0 : i - 1)
            add_last_uses(h, tenants[i] & ~ROTA_TENANT_OLDEST, list);
        it->memory_edges = made;
        return ROTA_OK;
    }
    rota_interval_map *map = piece_map(h, it);
    uint64_t low = it->offset_bytes, high = low + it->size_bytes;
    rota_interval *range = map ? rota_interval_map_cover(map, low, high) : NULL;
    if (!range) return rota_compile_no_memory(h->c);
    for (; range && range->low < high; range = range->next[0]) {
        uint32_t tenant = range->state.writer;
        if (!tenant || tenant == last) continue;
        last = tenant;
        add_last_uses(h, tenant - 1, list);
    }
    rota_interval_map_merge(map, low, high, (rota_range_state){.writer = physical + 1});
    it->memory_edges = made;
    return ROTA_OK;
}

/* ---- Edges ---- */

/* Puts the operation behind one of its predecessors that is the last of its chain, or begins a chain. ROTA_NONE: out of
 * memory. */
static uint32_t join_chain(hazards *h, const candidate *list, uint64_t count) {
    seen_chain *seen = h->seen.data;
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t chain = chain_of(h, list[i].from);
        if (chain == ROTA_NONE || seen[chain].tail != list[i].from) continue;
        seen[chain].tail = h->operation;
        return h->clocks.chain[h->operation] = chain;
    }
    if (!rota_vector_reserve(&h->seen, sizeof(seen_chain), 1)) return ROTA_NONE;
    ((seen_chain *)h->seen.data)[h->seen.count] = (seen_chain){.tail = h->operation};
    return h->clocks.chain[h->operation] = (uint32_t)h->seen.count++;
}

static rota_status add_edges(hazards *h, rota_clock *clock, const candidate *list, uint64_t count) {
    rota_compiler *c = h->c;
    rota_vector *from = &c->edges.from, *kind = &c->edges.kind;
    if (!rota_vector_reserve(from, sizeof(uint32_t), count) || !rota_vector_reserve(kind, 1, count))
        return rota_compile_no_memory(c);
    /* Without an edge there may be no memory yet. */
    uint32_t *to_from = count ? (uint32_t *)from->data + from->count : NULL;
    uint8_t *to_kind = count ? (uint8_t *)kind->data + kind->count : NULL;
    uint32_t level = 0;
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t before = clock_of(h, list[i].from)->level;
        if (before >= level) level = before + 1;
        to_from[i] = list[i].from;
        to_kind[i] = (uint8_t)list[i].kind;
    }
    ROTA_OPERATIONS(c)[h->operation].command = clock->level = level;
    from->count += count;
    kind->count += count;
    return ROTA_OK;
}

static rota_status finish_operation(hazards *h) {
    rota_compiler *c = h->c;
    candidate *list = h->candidates.data;
    uint64_t count = h->candidates.count, kept = count;
    if (count > 1) kept = rota_edges_reduce(h, list, count);
    c->plan->stats.edges_dropped += count - kept;

    rota_clock *clock = &h->clocks.clock[h->operation];
    clock->candidate_epoch = 0;
    const uint32_t chain = join_chain(h, list, kept);
    if (chain == ROTA_NONE) return rota_compile_no_memory(c);
    if (count > 1)
        rota_edges_clock_reduced(h, clock, chain);
    else if (count)
        rota_edges_clock_after(h, clock, chain, list[0].from);
    else
        clock->latest[0] = ROTA_NONE;

    if (c->edges.from.count + c->edges.join_from.count + kept > ROTA_EDGES_MAX)
        return rota_fail(
            ROTA_OUT_OF_RANGE, "compile of graph '%s': %llu edges up to %s, and %llu more; at most %u",
            c->graph->name, (unsigned long long)(c->edges.from.count + c->edges.join_from.count),
            rota_operation_describe(c->plan, h->operation), (unsigned long long)kept, ROTA_EDGES_MAX);
    ROTA_TRY(add_edges(h, clock, list, kept));
    h->candidates.count = 0;
    return h->failed ? rota_compile_no_memory(c) : ROTA_OK;
}

/* ---- The pass ---- */

/* Of a long list what comes after the rest of it. */
static uint32_t latest_of(hazards *h, uint32_t list) {
    if (!rota_edges_is_long(h, list)) return list;
    const uint64_t base = h->joined.count;
    for (uint32_t cell = list; cell; cell = cell_at(h, cell).next)
        append(h, &h->joined, cell_at(h, cell).operation - 1, ROTA_EDGE_MEMORY);
    candidate *uses = (candidate *)h->joined.data + base;
    uint64_t count = h->joined.count - base, kept = rota_edges_reduce(h, uses, count);
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
        const rota_physical *physical = &ROTA_PHYSICALS(c)[access_physical[i]];
        if (!physical->packed || physical->first_operation != h->operation) continue;
        bool whole = accesses[i].mode == ROTA_WRITE && accesses[i].size_bytes == physical->size_bytes;
        uint32_t inplace_uses = physical->inplace_of != ROTA_NONE ? last_uses(h, physical->inplace_of) : 0;
        ROTA_TRY(rota_packer_birth(h->packer, access_physical[i], h->operation, whole, inplace_uses,
                                   h->cons.data));
    }
    for (uint32_t i = 0; i < operation->access_count; i++) {
        if (access_physical[i] == ROTA_NONE) continue;
        const rota_physical *physical = &ROTA_PHYSICALS(c)[access_physical[i]];
        if (!physical->packed || physical->last_operation != h->operation) continue;
        rota_packer_death(h->packer, access_physical[i], latest_of(h, last_uses(h, access_physical[i])));
    }
    return ROTA_OK;
}

static rota_status visit_operations(hazards *h) {
    rota_compiler *c = h->c;
    const rota_operation *operations = ROTA_OPERATIONS(c);
    const rota_after *afters = c->edges.afters.data;
    bool tight = c->plan->options.packing == ROTA_PACK_TIGHT;
    uint64_t after = 0;
    for (uint32_t n = 0; n < c->operations.count; n++) {
        const rota_operation *operation = &operations[n];
        h->operation = n;
        h->initial_count = 0;
        c->edges.first[n] = (uint32_t)c->edges.from.count;
        ROTA_TRY(rota_edges_visit(h, operation));
        if (tight)
            for (uint32_t i = 0; i < h->initial_count; i++) {
                const rota_physical *physical = &ROTA_PHYSICALS(c)[h->initial[i]];
                if (!physical->packed) continue;
                if (physical->first_operation == n) ROTA_TRY(take_memory(h, h->initial[i]));
                rota_edges_add_list(h, physical->memory_edges, ROTA_EDGE_MEMORY);
            }
        for (; after < c->edges.afters.count && afters[after].later.index == n; after++)
            add_candidate(h, afters[after].earlier.index, ROTA_EDGE_AFTER);
        ROTA_TRY(finish_operation(h));
        if (!tight) ROTA_TRY(pack_operation(h, operation));
    }
    c->edges.first[c->operations.count] = (uint32_t)c->edges.from.count;
    return ROTA_OK;
}

rota_status rota_compile_edges(rota_compiler *c) {
    ROTA_TRY(rota_edges_gather_afters(c));
    size_t count = (size_t)c->operations.count;
    hazards h = {.c = c, .one_timeline = rota_compile_on_one_queue(c)};
    h.clocks.clock = rota_arena_alloc(&h.arena, sizeof *h.clocks.clock * count, 64);
    h.clocks.chain = rota_arena_alloc(&h.arena, sizeof *h.clocks.chain * count, 64);
    c->edges.clocks = h.clocks;
    c->edges.first = rota_arena_alloc(&c->plan->arena, sizeof(uint32_t) * (count + 1), 16);
    h.cons.count = 1; /* index 0 ends lists */
    rota_status status = ROTA_OK;
    if (!h.clocks.clock || !h.clocks.chain || !c->edges.first ||
        !rota_vector_reserve(&h.cons, sizeof(rota_cons), count + c->accesses.count) ||
        !rota_vector_reserve(&h.seen, sizeof(seen_chain), count) || /* as many chains at the most */
        !rota_vector_reserve(&c->edges.from, sizeof(uint32_t), c->accesses.count))
        status = rota_compile_no_memory(c);
    else if (c->plan->options.packing == ROTA_PACK_CONCURRENT)
        status = rota_packer_create(c, &h.packer);
    if (status == ROTA_OK) {
        *(rota_cons *)h.cons.data = (rota_cons){0}; /* the empty list has no operation */
        status = visit_operations(&h);
    }
    if (h.packer && status == ROTA_OK) status = rota_packer_finish(h.packer);
    rota_packer_free(h.packer);
    rota_vector *const vectors[] = {&h.maps,        &h.spare_maps, &h.cons,   &h.candidates, &h.seen,
                                    &h.join_clocks, &h.joined,     &h.blocks, &h.reached};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) rota_vector_free(vectors[i]);
    rota_arena_free(&h.arena); /* for what comes after */
    c->edges.clocks = (rota_clocks){0};
    return status == ROTA_OK && h.one_timeline ? rota_edges_note_externals(c) : status;
}
