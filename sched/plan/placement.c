/* Plans of several devices: where the valid bytes of each buffer are, in record order, and the copies between
 * devices.
 *
 * A buffer has a physical on each part that touches it, but one for all parts whose devices share memory.
 * Bytes go from one part to another through a mirror: mapped memory of the side that has a driver, which the
 * CPU part sees through its host pointer. Between two devices that both need staging the CPU part copies from
 * one's mirror to the other's; a GPU that is a peer of the other one copies out of its memory itself. Parts that
 * share memory are named by the first of them, which makes the copies for all.
 *
 * Where many operations each read many ranges, some of those become one, valid only where all of them are: an
 * access pays for RANGES_PER_ACCESS, so that all of them together look at no more than that on average. */
#include "sched/plan/placement.h"

#include <string.h>
#include "graph/lane_records.h"
#include "sched/plan/interval.h"

/* As in edges_parts.h. */
#ifndef ROTA_RANGES_PER_ACCESS
#define ROTA_RANGES_PER_ACCESS 4
#endif

enum { RANGES_PER_ACCESS = ROTA_RANGES_PER_ACCESS };

/* Beside the bits of the parts that hold a range, in a state's `writer`: a node of the plan wrote it. `readers` are
 * bits, too, of those parts for which it is on the way, from part `base`. */
#define WRITTEN (1u << 31)

static uint32_t mirror_of(rota_compiler *c, uint32_t buffer, uint32_t owner, uint32_t other) {
    /* A buffer's mirrors are a short list, at most one a pair of parts, hung on its physical of the owner. */
    uint32_t home = rota_compile_physical(c, buffer, owner);
    if (home == ROTA_NONE) return ROTA_NONE;
    const rota_mirror *mirrors = c->spread.mirrors.data;
    for (uint32_t i = ROTA_PHYSICALS(c)[home].first_mirror; i; i = mirrors[i - 1].next)
        if (mirrors[i - 1].other == other) return mirrors[i - 1].physical;
    if (!rota_vector_reserve(&c->spread.mirrors, sizeof(rota_mirror), 1) ||
        !rota_vector_reserve(&c->physicals, sizeof(rota_physical), 1))
        return ROTA_NONE;
    uint32_t physical = (uint32_t)c->physicals.count++;
    const rota_buffer *root = ((rota_plan_buffer *)c->buffers.data)[buffer].buffer;
    ROTA_PHYSICALS(c)
    [physical] = (rota_physical){.buffer = buffer,
                                 .first_operation = ROTA_NONE,
                                 .last_operation = ROTA_NONE,
                                 .part = (uint8_t)owner,
                                 .kind = ROTA_BUFFER_TRANSIENT,
                                 .is_mirror = true,
                                 .inplace_of = ROTA_NONE,
                                 .size_bytes = root->size_bytes};
    ((rota_mirror *)c->spread.mirrors.data)[c->spread.mirrors.count++] =
        (rota_mirror){other, physical, ROTA_PHYSICALS(c)[home].first_mirror};
    ROTA_PHYSICALS(c)[home].first_mirror = (uint32_t)c->spread.mirrors.count;
    return physical;
}

static rota_operation *newest(const rota_compiler *c) {
    return &ROTA_OPERATIONS(c)[c->operations.count - 1];
}

static rota_status add_copy(rota_compiler *c, uint32_t part, uint32_t queue, uint32_t buffer, uint32_t to,
                            uint32_t from, uint64_t low, uint64_t high) {
    if (to == ROTA_NONE || from == ROTA_NONE) return rota_compile_no_memory(c);
    rota_operation *operation = rota_compile_add_operation(c, ROTA_OPERATION_TRANSFER, 2);
    if (!operation) return rota_compile_no_memory(c);
    operation->part = (uint8_t)part;
    operation->queue = queue & 0x7fu;
    operation->node = buffer;
    rota_compile_set_access(c, 0, to, low, high - low, ROTA_WRITE);
    rota_compile_set_access(c, 1, from, low, high - low, ROTA_READ);
    return ROTA_OK;
}

/* A copy from one part to another, [low, high) of a buffer, in two halves: into a mirror, and out of it. Between two
 * devices that both need staging the CPU part's copy is of the first half where it runs no nodes, which would wait. */
static bool copies_early(const rota_compiler *c) {
    return c->spread.placing.host_idle;
}

/* Whether copies of the part `to` read the buffer in the memory of the part `from`, by themselves: of peers, but for
 * what is bound with each replay, which may be any memory. */
static bool is_over(const rota_compiler *c, uint32_t buffer, uint32_t from, uint32_t to) {
    const rota_device_traits *source = c->partitions.device[from], *target = c->partitions.device[to];
    return source && target && (target->peers >> source->index & 1u) &&
           ((const rota_plan_buffer *)c->buffers.data)[buffer].buffer->kind != ROTA_BUFFER_SLOT;
}

static rota_status leave(rota_compiler *c, uint32_t buffer, uint32_t from, uint32_t to, uint64_t low,
                         uint64_t high, bool ends_segment) {
    const uint32_t source = rota_compile_physical(c, buffer, from), queue = c->spread.copies_from;
    if (is_over(c, buffer, from, to)) { /* it waits where it is, for as little as may be */
        if (newest(c)->part == from) newest(c)->ends_segment = newest(c)->ends_segment || ends_segment;
        return ROTA_OK;
    }
    if (rota_compile_is_unified(c, from) || rota_compile_is_unified(c, to)) {
        const uint32_t owner = rota_compile_is_unified(c, from) ? to : from;
        const uint32_t mirror = mirror_of(c, buffer, owner, owner == from ? to : from);
        ROTA_TRY(add_copy(c, from, queue, buffer, mirror, source, low, high));
        newest(c)->ends_segment = ends_segment;
        return ROTA_OK;
    }
    const uint32_t here = mirror_of(c, buffer, from, c->partitions.cpu);
    ROTA_TRY(add_copy(c, from, queue, buffer, here, source, low, high));
    newest(c)->ends_segment = ends_segment;
    if (!copies_early(c)) return ROTA_OK;
    const uint32_t there = mirror_of(c, buffer, to, c->partitions.cpu);
    ROTA_TRY(add_copy(c, c->partitions.cpu, queue, buffer, there, here, low, high));
    newest(c)->ends_segment = ends_segment;
    return ROTA_OK;
}

static rota_status arrive(rota_compiler *c, uint32_t buffer, uint32_t from, uint32_t to, uint64_t low,
                          uint64_t high) {
    const uint32_t target = rota_compile_physical(c, buffer, to);
    if (is_over(c, buffer, from, to)) {
        const uint32_t source = rota_compile_physical(c, buffer, from);
        return add_copy(c, to, c->spread.copies_to, buffer, target, source, low, high);
    }
    if (rota_compile_is_unified(c, from) || rota_compile_is_unified(c, to)) {
        const uint32_t owner = rota_compile_is_unified(c, from) ? to : from;
        const uint32_t mirror = mirror_of(c, buffer, owner, owner == from ? to : from);
        return add_copy(c, to, c->spread.copies_to, buffer, target, mirror, low, high);
    }
    const uint32_t there = mirror_of(c, buffer, to, c->partitions.cpu);
    if (!copies_early(c)) {
        const uint32_t here = mirror_of(c, buffer, from, c->partitions.cpu);
        ROTA_TRY(add_copy(c, c->partitions.cpu, c->spread.copies_from, buffer, there, here, low, high));
    }
    return add_copy(c, to, c->spread.copies_to, buffer, target, there, low, high);
}

static rota_interval_map *valid_map(rota_compiler *c, uint32_t buffer) {
    if (buffer >= c->spread.valid.count) {
        uint64_t more = buffer + 1 - c->spread.valid.count;
        if (!rota_vector_reserve(&c->spread.valid, sizeof(void *), more)) return NULL;
        for (uint64_t i = 0; i < more; i++) ((void **)c->spread.valid.data)[c->spread.valid.count++] = NULL;
    }
    rota_interval_map **map = &((rota_interval_map **)c->spread.valid.data)[buffer];
    if (!*map) {
        *map = rota_arena_alloc(&c->scratch, sizeof **map, 16);
        if (*map) rota_interval_map_init(*map, &c->scratch);
    }
    return *map;
}

/* Makes one range of each run of written, and each run of unwritten, ranges that all are valid on some part.
 */
static void merge_valid(rota_interval_map *map, rota_interval *range, uint64_t high) {
    while (range && range->low < high) {
        uint32_t state = range->state.writer;
        uint64_t end = range->high;
        for (const rota_interval *next = range->next[0]; next && next->low < high && next->low == end;
             next = next->next[0]) {
            if ((next->state.writer ^ state) & WRITTEN) break;
            state &= next->state.writer;
            end = next->high;
        }
        rota_interval_map_merge(map, range->low, end, (rota_range_state){.writer = state});
        range = range->next[0];
    }
}

rota_status rota_compile_mark_written(rota_compiler *c) {
    rota_vector *written = &c->spread.written;
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < c->info->lane_count; i++) {
            rota_record_cursor cursor = rota_lane_records(c->info->lanes[i]);
            for (const rota_node_record *record; (record = rota_record_take(&cursor));) {
                const rota_access_record *accesses = rota_node_accesses(record);
                for (uint32_t a = 0; a < record->access_count; a++) {
                    uint32_t buffer;
                    if (!ROTA_ACCESS_IS_PERSISTENT(rota_access_stored(&accesses[a])) ||
                        ROTA_ACCESS_MODE(&accesses[a]) == ROTA_READ)
                        continue;
                    ROTA_TRY(rota_compile_buffer_index(c, rota_access_stored(&accesses[a]), &buffer));
                    if (pass == 1) ((uint8_t *)written->data)[buffer] = 1;
                }
            }
        }
        if (pass == 1) break;
        if (!rota_vector_reserve(written, 1, c->buffers.count + 1)) return rota_compile_no_memory(c);
        memset(written->data, 0, (size_t)c->buffers.count + 1);
        written->count = c->buffers.count;
    }
    return ROTA_OK;
}

/* A persistent buffer that no node of the plan writes. */
static bool is_only_read(const rota_compiler *c, uint32_t buffer) {
    const rota_plan_buffer *buffers = c->buffers.data;
    return buffers[buffer].buffer->kind == ROTA_BUFFER_PERSISTENT &&
           (buffer >= c->spread.written.count || !((const uint8_t *)c->spread.written.data)[buffer]);
}

rota_status rota_compile_placement(rota_compiler *c, uint32_t part, uint32_t buffer, uint64_t low,
                                   uint64_t high, rota_access_mode mode, uint32_t *out_physical) {
    *out_physical = rota_compile_physical(c, buffer, part);
    if (*out_physical != ROTA_NONE && c->partitions.memory[part] != part)
        ROTA_PHYSICALS(c)[*out_physical].is_shared = true;
    part = c->partitions.memory[part];
    rota_interval_map *map = valid_map(c, buffer);
    rota_interval *range = map ? rota_interval_map_cover(map, low, high) : NULL;
    if (*out_physical == ROTA_NONE || !range) return rota_compile_no_memory(c);
    const bool only_read = is_only_read(c, buffer);
    if (mode != ROTA_WRITE) {
        rota_interval *const first = range;
        uint64_t looked_at = 0;
        for (; range && range->low < high; range = range->next[0], looked_at++) {
            uint32_t valid = range->state.writer & ~WRITTEN;
            /* Untouched bytes come in from outside (or the read is reported as undefined later); what no node of the
             * plan writes, to each part that reads it: from the first replay on it is there. */
            const bool comes_in = only_read && !(range->state.writer & WRITTEN); /* rewrites may write, too */
            if (valid && !comes_in && !(valid >> part & 1)) {
                const bool left = range->state.readers >> part & 1;
                const uint32_t from = left ? range->state.base : (uint32_t)__builtin_ctz(valid);
                if (!left) ROTA_TRY(leave(c, buffer, from, part, range->low, range->high, false));
                ROTA_TRY(arrive(c, buffer, from, part, range->low, range->high));
            }
            range->state.writer |= 1u << part;
        }
        map->credit += RANGES_PER_ACCESS;
        if (looked_at <= map->credit)
            map->credit -= looked_at;
        else if (mode == ROTA_READ)
            merge_valid(map, first, high);
    }
    if (mode != ROTA_READ)
        rota_interval_map_merge(map, low, high, (rota_range_state){.writer = WRITTEN | 1u << part});
    return ROTA_OK;
}

rota_status rota_compile_send_range(rota_compiler *c, uint32_t part, uint32_t buffer, uint64_t low,
                                    uint64_t high) {
    part = c->partitions.memory[part];
    rota_interval_map *map = valid_map(c, buffer);
    rota_interval *range = map ? rota_interval_map_cover(map, low, high) : NULL;
    if (!range) return rota_compile_no_memory(c);
    for (; range && range->low < high; range = range->next[0]) {
        rota_range_state *state = &range->state;
        const uint32_t valid = state->writer & ~WRITTEN;
        if (!valid || ((valid | state->readers) >> part & 1)) continue;
        const uint32_t from = (uint32_t)__builtin_ctz(valid);
        if (state->readers && state->base != from) continue; /* it leaves when it is read */
        ROTA_TRY(leave(c, buffer, from, part, range->low, range->high, true));
        state->readers |= 1u << part;
        state->base = from;
    }
    return ROTA_OK;
}

rota_status rota_compile_final_placement(rota_compiler *c) {
    rota_plan *plan = c->plan;
    rota_interval_map *const *maps = c->spread.valid.data;
    for (uint32_t pass = 0; pass < 2; pass++) {
        uint32_t count = 0;
        for (uint32_t b = 0; b < c->spread.valid.count; b++) {
            const rota_buffer *root = ((rota_plan_buffer *)c->buffers.data)[b].buffer;
            if (!maps[b] || (root->kind != ROTA_BUFFER_PERSISTENT && root->kind != ROTA_BUFFER_SLOT))
                continue;
            for (const rota_interval *range = rota_interval_map_find(maps[b], 0); range;
                 range = range->next[0]) {
                if (!(range->state.writer & WRITTEN)) continue;
                if (pass == 1)
                    plan->placed.ranges[count] = (rota_plan_placed){b, range->state.writer & ~WRITTEN,
                                                                    range->low, range->high - range->low};
                count++;
            }
        }
        plan->placed.count = count;
        if (count == 0 || pass == 1) break;
        plan->placed.ranges = rota_arena_alloc(&plan->arena, sizeof *plan->placed.ranges * count, 8);
        if (!plan->placed.ranges) return rota_compile_no_memory(c);
    }
    return ROTA_OK;
}
