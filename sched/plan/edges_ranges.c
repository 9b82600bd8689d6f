/* Edges by byte range: what one access comes after, and what it leaves behind. */
#include "sched/plan/edges_ranges.h"
#include "sched/plan/edges_join.h"
#include "sched/plan/edges_parts.h"
#include "sched/plan/externals.h"
#include "sched/plan/names.h"

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
            rota_edges_add_list(h, state.accumulators, ROTA_EDGE_RAW);
        else if (state.writer)
            add_candidate(h, state.writer - 1, ROTA_EDGE_RAW);
        state.readers = push(h, state.readers, h->operation);
        return state;
    case EFFECT_WRITE:
        /* Readers come after the writer themselves. */
        if (state.readers)
            rota_edges_add_list(h, state.readers, ROTA_EDGE_WAR);
        else if (state.accumulators)
            rota_edges_add_list(h, state.accumulators, after_write);
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
        rota_edges_add_list(h, state.base, ROTA_EDGE_RAW);
        state.accumulators = push(h, state.accumulators, h->operation);
        return state;
    }
    return state;
}

/* Whether the operation does no more than leave it as it is, as what is counted may: its WRITEs are READWRITEs. */
static bool may_leave_alone(const hazards *h, const rota_physical *physical, uint64_t low) {
    const rota_operation *operation = &ROTA_OPERATIONS(h->c)[h->operation];
    const rota_node_record *record = operation->record;
    if (!record || !record->is_counted) return false;
    for (uint32_t i = operation->first_access; i < operation->first_access + operation->access_count; i++) {
        const rota_exec_operand *access = &ROTA_ACCESSES(h->c)[i];
        const uint32_t of = ROTA_ACCESS_PHYSICAL(h->c)[i];
        if (access->mode == ROTA_READ && of != ROTA_NONE && &ROTA_PHYSICALS(h->c)[of] == physical &&
            access->offset_bytes <= low && low - access->offset_bytes < access->size_bytes)
            return false;
    }
    return true;
}

static rota_status undefined_read(const hazards *h, const rota_physical *physical, uint64_t low,
                                  uint64_t high) {
    const rota_buffer *root = h->c->plan->buffers[physical->buffer].buffer;
    return rota_fail(
        ROTA_UNDEFINED_DATA, "%s %s bytes [%llu, %llu) of %s buffer '%s', which nothing has written",
        rota_operation_describe(h->c->plan, h->operation),
        may_leave_alone(h, physical, low) ? "may leave as they are" : "reads", (unsigned long long)low,
        (unsigned long long)high, rota_buffer_kind_name((rota_buffer_kind)root->kind), root->name);
}

/* `operation`: any of its segment's. */
static rota_status note_external(rota_compiler *c, uint32_t operation, const rota_physical *physical,
                                 uint64_t low, uint64_t high, uint32_t flags) {
    rota_vector *notes = &c->externals;
    if (!rota_vector_reserve(notes, sizeof(rota_external_note), 1)) return rota_compile_no_memory(c);
    ((rota_external_note *)notes->data)[notes->count++] =
        (rota_external_note){physical->buffer, operation, low, high, flags};
    return ROTA_OK;
}

/* Whether the operation is a copy out of a peer's memory, whose bytes came in for that one's own use of them. */
static bool reads_peer(const hazards *h, const rota_physical *physical) {
    const rota_operation *operation = &ROTA_OPERATIONS(h->c)[h->operation];
    return operation->kind == ROTA_OPERATION_TRANSFER && !physical->is_mirror &&
           h->c->partitions.memory[operation->part] != physical->part;
}

/* Memory from outside the plan. */
static inline bool is_outside(const rota_physical *physical) {
    return physical->kind == ROTA_BUFFER_PERSISTENT || physical->kind == ROTA_BUFFER_SLOT;
}

/* A range not written by this plan is read: an error for the graph's own buffers, incoming data for others.
 */
static rota_status read_unwritten(hazards *h, const rota_physical *physical, uint64_t low, uint64_t high) {
    const bool outside = is_outside(physical);
    if (physical->is_mirror) return ROTA_OK;
    /* Only a graph's own buffers are scratch, which to a body are outside, too: else the buffer is not looked at. */
    if ((!outside || h->c->graph->outer) && h->c->plan->buffers[physical->buffer].buffer->is_scratch)
        return ROTA_OK;
    if (outside && reads_peer(h, physical)) return ROTA_OK; /* noted as read */
    if (outside)
        return note_external(h->c, h->operation, physical, low, high,
                             ROTA_EXTERNAL_READ | ROTA_EXTERNAL_INCOMING);
    return h->c->plan->options.allow_undefined_reads ? ROTA_OK : undefined_read(h, physical, low, high);
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
        rota_edges_join_list(h, state->accumulators, ROTA_EDGE_RAW);
    else if (state->writer)
        append(h, &h->joined, state->writer - 1, ROTA_EDGE_RAW);
}

static uint32_t join_to_list(hazards *h, uint32_t list, uint64_t base, rota_edge_kind kind) {
    uint32_t join = rota_edges_make_join(h, base, kind);
    return join == ROTA_NONE || join == INCOMING ? list : push(h, list, join);
}

/* All of the list but this operation, which is its first or not in it. */
static void join_others(hazards *h, uint32_t list, rota_edge_kind kind) {
    rota_edges_join_list(h, cell_at(h, list).operation == h->operation + 1 ? cell_at(h, list).next : list,
                         kind);
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
    merged.writer = rota_edges_make_join(h, base, ROTA_EDGE_RAW) + 1;
    last.readers = 0;
    for (const rota_interval *range = first; range && range->low < high; range = range->next[0]) {
        if (range->state.readers == last.readers) continue;
        last.readers = range->state.readers;
        join_others(h, last.readers, ROTA_EDGE_WAR);
    }
    merged.readers = push(h, join_to_list(h, 0, base, ROTA_EDGE_WAR), h->operation);
    return merged;
}

/* The same for an accumulate, which has begun or joined each range's group. */
static rota_range_state merge_accumulate(hazards *h, const rota_interval *first, uint64_t high) {
    rota_range_state merged = {0}, last = {0};
    const uint64_t base = h->joined.count;
    bool reads = false; /* too: those to come are behind its read */
    for (const rota_interval *range = first; range && range->low < high; range = range->next[0]) {
        if (range->state.base == last.base) continue;
        last.base = range->state.base;
        reads |= cell_at(h, last.base).operation == h->operation + 1;
        join_others(h, last.base, ROTA_EDGE_RAW);
    }
    merged.base = join_to_list(h, 0, base, ROTA_EDGE_RAW);
    if (reads) merged.base = push(h, merged.base, h->operation);
    for (const rota_interval *range = first; range && range->low < high; range = range->next[0]) {
        if (range->state.accumulators == last.accumulators) continue;
        last.accumulators = range->state.accumulators;
        join_others(h, last.accumulators, ROTA_EDGE_RAW);
    }
    merged.accumulators = push(h, join_to_list(h, 0, base, ROTA_EDGE_RAW), h->operation);
    return merged;
}

/* The same on an interval map. */
static rota_status apply_map(hazards *h, uint32_t physical, uint64_t low, uint64_t high, effect what,
                             bool reads) {
    const rota_physical *it = &ROTA_PHYSICALS(h->c)[physical];
    rota_interval_map *map = map_of(h, it);
    rota_interval *first = rota_interval_map_cover(map, low, high);
    if (!first) return rota_compile_no_memory(h->c);
    uint64_t looked_at = 0;
    bool all_written = true;
    rota_range_state merged = {0};
    for (rota_interval *range = first; range && range->low < high; range = range->next[0], looked_at++) {
        if (is_untouched(&range->state)) note_initial(h, physical);
        if (!is_written(&range->state)) {
            if (reads) ROTA_TRY(read_unwritten(h, it, range->low, range->high));
            /* Noted once is enough where the plan is one segment; others note it for each of theirs. */
            if (reads && (!is_outside(it) || h->one_timeline))
                range->state.writer = INCOMING + 1;
            else
                all_written = false;
        }
        merged = apply(h, range->state, what, reads);
        if (what != EFFECT_WRITE) range->state = merged;
    }
    map->credit += RANGES_PER_ACCESS;
    if (what == EFFECT_WRITE) {
        rota_interval_map_merge(map, low, high, merged);
    } else if (looked_at <= map->credit) {
        map->credit -= looked_at;
    } else if (what == EFFECT_ACCUMULATE) {
        rota_interval_map_merge(map, low, high, merge_accumulate(h, first, high));
    } else if (all_written) {
        rota_interval_map_merge(map, low, high, merge_read(h, first, high));
    }
    return ROTA_OK;
}

/* From one range, of all bytes, to a map. */
static rota_status to_map(hazards *h, rota_physical *it) {
    if (it->external) ROTA_TRY(note_external(h->c, h->operation, it, 0, it->size_bytes, it->external));
    if (h->spare_maps.count) {
        it->map = ((const uint32_t *)h->spare_maps.data)[--h->spare_maps.count];
    } else {
        rota_interval_map *map = rota_arena_alloc(&h->arena, sizeof *map, 16);
        if (!map || !rota_vector_reserve(&h->maps, sizeof map, 1)) return rota_compile_no_memory(h->c);
        rota_interval_map_init(map, &h->arena);
        ((rota_interval_map **)h->maps.data)[h->maps.count++] = map;
        it->map = (uint32_t)h->maps.count;
    }
    if (!(it->writer | it->readers)) return ROTA_OK;
    rota_interval *range = rota_interval_map_cover(map_of(h, it), 0, it->size_bytes);
    if (!range) return rota_compile_no_memory(h->c);
    range->state = (rota_range_state){.writer = it->writer, .readers = it->readers};
    return ROTA_OK;
}

static __attribute__((noinline)) rota_status touch_range(hazards *h, const rota_exec_operand *access,
                                                         uint32_t physical, effect what, bool reads,
                                                         uint32_t flags) {
    rota_physical *it = &ROTA_PHYSICALS(h->c)[physical];
    const uint64_t low = access->offset_bytes, high = low + access->size_bytes;
    if (!it->map) ROTA_TRY(to_map(h, it));
    if (is_outside(it)) ROTA_TRY(note_external(h->c, h->operation, it, low, high, flags));
    return apply_map(h, physical, low, high, what, reads);
}

static bool commuting_accumulates(const rota_compiler *c, const rota_operation *operation) {
    if (!operation->record || operation->record->kind != ROTA_NODE_KERNEL) return false;
    uint32_t flags = operation->record->u.kernel.kernel->flags;
    return (flags & ROTA_KERNEL_ATOMIC_ACCUMULATE) &&
           ((flags & ROTA_KERNEL_INTEGER_ACCUMULATE) || c->graph->allow_reassociation);
}

static inline __attribute__((always_inline)) rota_status touch(hazards *h, const rota_exec_operand *access,
                                                               uint32_t physical, effect what, bool reads,
                                                               uint32_t flags) {
    rota_physical *it = &ROTA_PHYSICALS(h->c)[physical];
    if (it->map || access->offset_bytes || access->size_bytes != it->size_bytes || what == EFFECT_ACCUMULATE)
        return touch_range(h, access, physical, what, reads, flags);
    if (!(it->writer | it->readers)) note_initial(h, physical);
    const bool incoming = reads && !it->writer;
    if (is_outside(it)) {
        if (incoming && !reads_peer(h, it)) flags |= ROTA_EXTERNAL_INCOMING;
        if (h->one_timeline)
            it->external = (it->external | flags) & 7u;
        else
            ROTA_TRY(note_external(h->c, h->operation, it, 0, it->size_bytes, flags));
    } else if (incoming) {
        ROTA_TRY(read_unwritten(h, it, 0, it->size_bytes));
    }
    const rota_range_state state =
        apply(h, (rota_range_state){.writer = it->writer, .readers = it->readers}, what, reads);
    it->writer = state.writer;
    it->readers = state.readers;
    return ROTA_OK;
}

static rota_status touch_to_write(hazards *h, const rota_exec_operand *access, uint32_t physical,
                                  const rota_operation *operation) {
    /* No two devices add to the same bytes at once: nobody promises that their atomics are each other's. */
    if (access->mode == ROTA_ACCUMULATE && !ROTA_PHYSICALS(h->c)[physical].is_shared &&
        commuting_accumulates(h->c, operation))
        return touch(h, access, physical, EFFECT_ACCUMULATE, true, ROTA_EXTERNAL_READ | ROTA_EXTERNAL_WRITE);
    const bool reads = access->mode != ROTA_WRITE;
    return touch(h, access, physical, EFFECT_WRITE, reads,
                 (reads ? ROTA_EXTERNAL_READ : 0u) | ROTA_EXTERNAL_WRITE);
}

rota_status rota_edges_visit(hazards *h, const rota_operation *operation) {
    const rota_compiler *c = h->c;
    const rota_exec_operand *accesses = ROTA_ACCESSES(c);
    const uint32_t *access_physical = ROTA_ACCESS_PHYSICAL(c);
    const uint32_t first = operation->first_access, end = first + operation->access_count;
    /* Reads before writes: an operation in place reads what was there before it. */
    uint32_t first_write = end;
    for (uint32_t i = end; i-- > first;) {
        rota_compile_prefetch(c, ROTA_PHYSICALS(c), sizeof(rota_physical), i);
        if (accesses[i].mode != ROTA_READ) first_write = i;
    }
    for (uint32_t i = first; i < end; i++)
        if (accesses[i].mode == ROTA_READ && access_physical[i] != ROTA_NONE)
            ROTA_TRY(touch(h, &accesses[i], access_physical[i], EFFECT_READ, true, ROTA_EXTERNAL_READ));
    for (uint32_t i = first_write; i < end; i++)
        if (accesses[i].mode != ROTA_READ && access_physical[i] != ROTA_NONE)
            ROTA_TRY(touch_to_write(h, &accesses[i], access_physical[i], operation));
    return ROTA_OK;
}

rota_status rota_edges_note_externals(rota_compiler *c) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < c->physicals.count; i++) {
        const rota_physical *it = &ROTA_PHYSICALS(c)[i];
        count += it->external && !it->map;
    }
    if (!rota_vector_reserve(&c->externals, sizeof(rota_external_note), count))
        return rota_compile_no_memory(c);
    for (uint32_t i = 0; i < c->physicals.count; i++) {
        const rota_physical *it = &ROTA_PHYSICALS(c)[i];
        if (it->external && !it->map) ROTA_TRY(note_external(c, 0, it, 0, it->size_bytes, it->external));
    }
    return ROTA_OK;
}
