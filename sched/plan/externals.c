/* What each segment touches outside the plan: the notes that edges.c made of accesses to PERSISTENT and
 * SLOT buffers, as disjoint ranges a segment. */
#include <stdlib.h>
#include <string.h>

#include "sched/plan/externals.h"

typedef struct boundary {
    uint64_t offset;
    int32_t change; /* +1 a note begins, -1 it ends */
    uint32_t flags;
} boundary;

/* One past the last of those from `begin` on that are in order already. */
static uint64_t run_end(const boundary *list, uint64_t begin, uint64_t count) {
    uint64_t end = begin + 1;
    while (end < count && list[end - 1].offset <= list[end].offset) end++;
    return end;
}

/* Two neighbouring runs of `from`, the second of which may be empty, as one in `to`. */
static void merge_runs(const boundary *from, uint64_t begin, uint64_t middle, uint64_t end, boundary *to) {
    uint64_t i = begin, k = middle;
    for (uint64_t o = begin; o < end; o++)
        to[o] = k == end || (i < middle && from[i].offset <= from[k].offset) ? from[i++] : from[k++];
}

/* In order of their offsets, in `list` or in `spare`, whichever it returns. Notes come mostly in order, as a buffer's
 * pieces are recorded one after the other: so by merging the runs there are (Knuth, The Art of Computer Programming 3,
 * 5.2.4, natural merge). */
static boundary *sort_boundaries(boundary *list, boundary *spare, uint64_t count) {
    while (run_end(list, 0, count) < count) {
        for (uint64_t begin = 0; begin < count;) {
            const uint64_t middle = run_end(list, begin, count),
                           end = middle < count ? run_end(list, middle, count) : count;
            merge_runs(list, begin, middle, end, spare);
            begin = end;
        }
        boundary *swap = list;
        list = spare;
        spare = swap;
    }
    return list;
}

typedef struct external_entry {
    uint32_t segment;
    rota_plan_external external;
} external_entry;

static bool emit_external(rota_vector *out, uint32_t segment, uint32_t buffer, uint64_t low, uint64_t high,
                          uint32_t flags) {
    if (low == high || flags == 0) return true;
    if (!rota_vector_reserve(out, sizeof(external_entry), 1)) return false;
    ((external_entry *)out->data)[out->count++] = (external_entry){segment, {buffer, flags, low, high - low}};
    return true;
}

/* Notes of one buffer in one segment, which overlap at will, to disjoint ranges with the flags that hold all
 * over each. */
static bool merge_notes(rota_vector *out, rota_vector *scratch, uint32_t segment,
                        const rota_external_note *notes, const uint32_t *order, uint32_t count) {
    const rota_external_note *first = &notes[order[0]];
    uint32_t flags = 0;
    scratch->count = 0;
    if (!rota_vector_reserve(scratch, sizeof(boundary), (uint64_t)count * 4)) return false;
    boundary *list = scratch->data;
    for (uint32_t i = 0; i < count;) {
        const rota_external_note *note = &notes[order[i]];
        flags = note->flags; /* of all that follow with the same range */
        for (i++; i < count && notes[order[i]].low == note->low && notes[order[i]].high == note->high; i++)
            flags |= notes[order[i]].flags;
        list[scratch->count++] = (boundary){note->low, 1, flags};
        list[scratch->count++] = (boundary){note->high, -1, flags};
    }
    if (scratch->count == 2)
        return emit_external(out, segment, first->buffer, first->low, first->high, flags);
    list = sort_boundaries(list, list + scratch->count, scratch->count);
    int32_t depth[3] = {0};
    uint64_t since = 0;
    flags = 0;
    for (uint64_t i = 0; i < scratch->count;) {
        uint64_t offset = list[i].offset;
        uint32_t before = flags;
        for (; i < scratch->count && list[i].offset == offset; i++)
            for (uint32_t bit = 0; bit < 3; bit++)
                if (list[i].flags >> bit & 1) depth[bit] += list[i].change;
        flags = 0;
        for (uint32_t bit = 0; bit < 3; bit++)
            if (depth[bit]) flags |= 1u << bit;
        if (flags == before) continue;
        if (!emit_external(out, segment, first->buffer, since, offset, before)) return false;
        since = offset;
    }
    return true;
}

/* Orders the notes by buffer and, inside one, by segment; both stable. */
static uint32_t *order_notes(const rota_compiler *c, rota_arena *arena, const rota_external_note *notes,
                             uint32_t count) {
    uint32_t keys =
        c->plan->segment_count > c->plan->buffer_count ? c->plan->segment_count : c->plan->buffer_count;
    uint32_t *counts = rota_arena_alloc(arena, sizeof(uint32_t) * ((size_t)keys + 2), 8);
    uint32_t *from = rota_arena_alloc(arena, sizeof(uint32_t) * ((size_t)count + 1), 8);
    uint32_t *to = rota_arena_alloc(arena, sizeof(uint32_t) * ((size_t)count + 1), 8);
    if (!counts || !from || !to) return NULL;
    for (uint32_t i = 0; i < count; i++) from[i] = i;
    for (int pass = c->plan->segment_count > 1 ? 0 : 1; pass < 2; pass++) {
        memset(counts, 0, sizeof(uint32_t) * ((size_t)keys + 2));
#define KEY(i) (pass == 0 ? rota_segment_of(c, notes[i].operation) : notes[i].buffer)
        for (uint32_t i = 0; i < count; i++) counts[KEY(from[i]) + 1]++;
        for (uint32_t i = 0; i < keys; i++) counts[i + 1] += counts[i];
        for (uint32_t i = 0; i < count; i++) to[counts[KEY(from[i])]++] = from[i];
#undef KEY
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    return from;
}

static rota_status write_externals(rota_compiler *c, const rota_vector *entries) {
    rota_plan *plan = c->plan;
    const external_entry *list = entries->data;
    plan->external_count = (uint32_t)entries->count;
    plan->externals =
        rota_arena_alloc(&plan->arena, sizeof *plan->externals * (size_t)(entries->count + 1), 8);
    if (!plan->externals) return rota_compile_no_memory(c);
    for (uint64_t i = 0; i < entries->count; i++) plan->segments[list[i].segment].external_count++;
    uint32_t total = 0;
    for (uint32_t i = 0; i < plan->segment_count; i++) {
        plan->segments[i].first_external = total;
        total += plan->segments[i].external_count;
        plan->segments[i].external_count = 0;
    }
    for (uint64_t i = 0; i < entries->count; i++) {
        rota_plan_segment *segment = &plan->segments[list[i].segment];
        plan->externals[segment->first_external + segment->external_count++] = list[i].external;
    }
    return ROTA_OK;
}

rota_status rota_compile_externals(rota_compiler *c) {
    const rota_external_note *notes = c->externals.data;
    uint32_t count = (uint32_t)c->externals.count;
    rota_arena arena = ROTA_ARENA_INIT;
    rota_vector entries = {0}, scratch = {0};
    const uint32_t *order = order_notes(c, &arena, notes, count);
    bool room = order && rota_vector_reserve(&entries, sizeof(external_entry), count);
    for (uint32_t i = 0; i < count && room;) {
        uint32_t segment = rota_segment_of(c, notes[order[i]].operation), buffer = notes[order[i]].buffer,
                 k = i;
        while (k < count && notes[order[k]].buffer == buffer &&
               rota_segment_of(c, notes[order[k]].operation) == segment)
            k++;
        room = merge_notes(&entries, &scratch, segment, notes, order + i, k - i);
        i = k;
    }
    rota_arena_free(&arena);
    rota_vector_free(&scratch);
    rota_vector_free(&c->externals); /* for the plan's own */
    rota_status status = room ? write_externals(c, &entries) : rota_compile_no_memory(c);
    rota_vector_free(&entries);
    return status;
}
