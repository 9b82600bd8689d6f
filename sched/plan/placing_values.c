/* The dataflow between nodes, as far as automatic placement needs it: who wrote the bytes that a node reads, and how
 * many they are. Where things become many it says less than edges.c does later: of readers before a write the last one
 * is kept, and of a buffer that is read in many pieces those become one. Nothing but speed depends on it. */
#include "sched/plan/placing_values.h"

#include <string.h>
#include "base/hash.h"
#include "sched/plan/interval.h"

/* As in placement.c: so many ranges an access may look at on average. */
enum { RANGES_PER_ACCESS = 4 };

/* What happened to a buffer. One that is always touched as one range has no map. In a map: `writer` and `readers` as
 * below, `base` the value. */
typedef struct track {
    uint64_t low, high;
    uint32_t writer; /* node + 1; 0: nobody of the plan */
    uint32_t value;
    uint32_t reader;  /* the last one since, node + 1 */
    uint32_t outside; /* an INPUT's value */
    uint32_t number;  /* among the buffers */
    uint32_t latest;  /* node + 1 that touched it last */
    uint8_t kind;     /* rota_buffer_kind */
    bool is_touched;
    rota_interval_map *map;
} track;

typedef struct finder {
    rota_compiler *c;
    rota_placing_values *values;
    rota_placing_node *nodes;
    track *tracks; /* of the graph's buffers, then PERSISTENT ones as they come */
    uint32_t persistent_count;
    uint32_t *hash; /* by address: number + 1 of a PERSISTENT one */
    uint64_t *addresses;
    uint32_t hash_mask;
    uint32_t n; /* the node at hand */
} finder;

static const rota_buffer *buffer_of(const finder *f, uint64_t stored) {
    if (!(stored & 1)) return ROTA_ACCESS_BUFFER(stored);
    const rota_graph *graph = f->c->graph;
    const uint32_t lane = (uint32_t)(stored >> 32), index = (uint32_t)stored >> 1;
    return rota_lane_buffer(lane ? graph->lanes[lane - 1] : &graph->own, index);
}

static track *track_of(finder *f, uint64_t stored) {
    const rota_gathering *gathering = &f->c->gathering;
    if (stored & 1) return &f->tracks[gathering->lane_base[stored >> 32] + ((uint32_t)stored >> 1)];
    uint32_t cell = rota_hash_word(stored >> 4) & f->hash_mask;
    while (f->hash[cell] && f->addresses[f->hash[cell] - 1] != stored) cell = (cell + 1) & f->hash_mask;
    if (!f->hash[cell]) {
        f->addresses[f->persistent_count] = stored;
        f->hash[cell] = ++f->persistent_count;
    }
    return &f->tracks[gathering->graph_buffer_count + f->hash[cell] - 1];
}

static bool add_edge(finder *f, rota_placing_edge edge, rota_placing_range range) {
    rota_placing_values *values = f->values;
    if (!rota_vector_reserve(&values->edges, sizeof edge, 1) ||
        !rota_vector_reserve(&values->ranges, sizeof range, 1))
        return false;
    ((rota_placing_edge *)values->edges.data)[values->edges.count++] = edge;
    ((rota_placing_range *)values->ranges.data)[values->ranges.count++] = range;
    return true;
}

/* The node reads [low, high), which `writer` wrote as `value`. */
static bool add_read(finder *f, const track *t, uint64_t stored, uint32_t writer, uint32_t value,
                     uint64_t low, uint64_t high) {
    if (!writer && t->kind != ROTA_BUFFER_INPUT) return true;
    if (writer == f->n + 1) return true;
    return add_edge(f,
                    writer ? (rota_placing_edge){writer - 1, value, high - low}
                           : (rota_placing_edge){ROTA_PLACING_OUTSIDE, t->outside, high - low},
                    (rota_placing_range){stored, low, high});
}

/* The node overwrites [low, high), which `reader`, or else `writer`, was the last to touch. What readers had from the
 * last replay's writer of a PERSISTENT buffer goes to them from where that is. */
static bool add_write(finder *f, const track *t, uint64_t stored, uint32_t writer, uint32_t reader,
                      uint64_t low, uint64_t high) {
    const rota_placing_range none = {stored, 0, 0};
    if (reader && reader != f->n + 1) {
        const bool comes_back = !writer && t->kind == ROTA_BUFFER_PERSISTENT;
        const uint32_t value = comes_back ? f->values->value_count++ : 0;
        return add_edge(f, (rota_placing_edge){reader - 1, value, comes_back ? high - low : 0}, none);
    }
    if (writer && writer != f->n + 1) return add_edge(f, (rota_placing_edge){writer - 1, 0, 0}, none);
    return true;
}

static rota_interval *cover(const finder *f, track *t, uint64_t low, uint64_t high) {
    if (!t->map) {
        t->map = rota_arena_alloc(&f->c->scratch, sizeof *t->map, 16);
        if (!t->map) return NULL;
        rota_interval_map_init(t->map, &f->c->scratch);
        rota_interval *whole = rota_interval_map_cover(t->map, t->low, t->high);
        if (!whole) return NULL;
        whole->state = (rota_range_state){.writer = t->writer, .readers = t->reader, .base = t->value};
    }
    return rota_interval_map_cover(t->map, low, high);
}

/* All that is between becomes one range, of its last writer. */
static void merge(track *t, const rota_interval *first, uint64_t low, uint64_t high) {
    rota_range_state state = first->state;
    for (const rota_interval *range = first; range && range->low < high; range = range->next[0])
        if (range->state.writer > state.writer) state = range->state;
    rota_interval_map_merge(t->map, low, high, state);
}

static bool read_range(finder *f, track *t, uint64_t stored, uint64_t low, uint64_t high, bool is_only_read) {
    if (!t->map && low == t->low && high == t->high) {
        if (is_only_read) t->reader = f->n + 1;
        return add_read(f, t, stored, t->writer, t->value, low, high);
    }
    rota_interval *const first = cover(f, t, low, high);
    if (!first) return false;
    uint64_t looked_at = 0;
    for (rota_interval *range = first; range && range->low < high; range = range->next[0], looked_at++) {
        if (is_only_read) range->state.readers = f->n + 1;
        if (!add_read(f, t, stored, range->state.writer, range->state.base, range->low, range->high))
            return false;
    }
    t->map->credit += RANGES_PER_ACCESS;
    if (looked_at <= t->map->credit)
        t->map->credit -= looked_at;
    else if (is_only_read)
        merge(t, first, low, high);
    return true;
}

static bool write_range(finder *f, track *t, uint64_t stored, uint64_t low, uint64_t high) {
    const uint32_t value = f->values->value_count++;
    if (t->kind == ROTA_BUFFER_OUTPUT) f->nodes[f->n].read_back_bytes += high - low;
    if (!t->map && low == t->low && high == t->high) {
        if (!add_write(f, t, stored, t->writer, t->reader, low, high)) return false;
        t->writer = f->n + 1;
        t->value = value;
        t->reader = 0;
        return true;
    }
    rota_interval *range = cover(f, t, low, high);
    if (!range) return false;
    for (; range && range->low < high; range = range->next[0])
        if (!add_write(f, t, stored, range->state.writer, range->state.readers, range->low, range->high))
            return false;
    rota_interval_map_merge(t->map, low, high, (rota_range_state){.writer = f->n + 1, .base = value});
    return true;
}

/* The node has the buffer on its device. */
static bool note_touch(finder *f, track *t, const rota_buffer *buffer, bool is_first) {
    rota_placing_values *values = f->values;
    if (t->latest == f->n + 1) return true;
    if (!rota_vector_reserve(&values->touches, sizeof(uint32_t), 1) ||
        !rota_vector_reserve(&values->buffers, sizeof(rota_placing_buffer), 1))
        return false;
    t->latest = f->n + 1;
    if (is_first) {
        t->number = (uint32_t)values->buffers.count++;
        ((rota_placing_buffer *)values->buffers.data)[t->number].bytes = buffer->size_bytes;
    }
    const bool stays = buffer->kind == ROTA_BUFFER_PERSISTENT || buffer->kind == ROTA_BUFFER_SLOT;
    ((rota_placing_buffer *)values->buffers.data)[t->number].last = stays ? UINT32_MAX : f->n;
    ((uint32_t *)values->touches.data)[values->touches.count++] = t->number;
    return true;
}

static bool touch(finder *f, const rota_access_record *access, bool writes) {
    const uint64_t low = ROTA_ACCESS_OFFSET(access), high = low + rota_access_size(access);
    const rota_access_mode mode = ROTA_ACCESS_MODE(access);
    if (low == high) return true;
    track *t = track_of(f, rota_access_stored(access));
    if (!note_touch(f, t, buffer_of(f, rota_access_stored(access)), !t->is_touched)) return false;
    if (!t->is_touched) {
        t->is_touched = true;
        t->low = low;
        t->high = high;
        t->kind = buffer_of(f, rota_access_stored(access))->kind;
        if (t->kind == ROTA_BUFFER_INPUT) t->outside = f->values->value_count++;
    }
    if (!writes)
        return mode == ROTA_WRITE ||
               read_range(f, t, rota_access_stored(access), low, high, mode == ROTA_READ);
    return mode == ROTA_READ || write_range(f, t, rota_access_stored(access), low, high);
}

static bool make_room(finder *f) {
    rota_compiler *c = f->c;
    uint64_t held = 0;
    for (uint32_t i = 0; i < c->graph->lane_count; i++) held += c->graph->lanes[i]->held_count;
    uint64_t cells = 16;
    while (cells < 2 * held) cells *= 2;
    f->hash_mask = (uint32_t)cells - 1;
    f->hash = rota_arena_calloc(&c->scratch, sizeof(uint32_t) * (size_t)cells, 8);
    f->addresses = rota_arena_alloc(&c->scratch, sizeof(uint64_t) * (size_t)(held + 1), 8);
    f->tracks = rota_arena_calloc(&c->scratch,
                                  sizeof(track) * (size_t)(c->gathering.graph_buffer_count + held + 1), 8);
    return f->hash && f->addresses && f->tracks;
}

rota_status rota_placing_find_values(rota_compiler *c, const rota_node_record *const *records,
                                     rota_placing_node *nodes, rota_placing_values *out_values) {
    *out_values = (rota_placing_values){0};
    finder f = {.c = c, .values = out_values, .nodes = nodes};
    if (!make_room(&f)) return rota_compile_no_memory(c);
    for (f.n = 0; f.n < c->node_count; f.n++) {
        const rota_access_record *accesses = rota_node_accesses(records[f.n]);
        const uint32_t count = records[f.n]->access_count, first = (uint32_t)out_values->edges.count;
        nodes[f.n].first_touch = (uint32_t)out_values->touches.count;
        for (uint32_t writes = 0; writes < 2; writes++)
            for (uint32_t i = 0; i < count; i++)
                if (!touch(&f, &accesses[i], writes)) return rota_compile_no_memory(c);
        nodes[f.n].first_edge = first;
        nodes[f.n].edge_count = (uint32_t)out_values->edges.count - first;
        nodes[f.n].touch_count = (uint32_t)out_values->touches.count - nodes[f.n].first_touch;
        if (out_values->edges.count > UINT32_MAX / 2 || out_values->value_count > UINT32_MAX / 2)
            return rota_fail(ROTA_OUT_OF_RANGE, "compile of graph '%s': more than 2^31 edges to place by",
                             c->graph->name);
    }
    return ROTA_OK;
}

void rota_placing_values_free(rota_placing_values *values) {
    rota_vector_free(&values->edges);
    rota_vector_free(&values->ranges);
    rota_vector_free(&values->touches);
    rota_vector_free(&values->buffers);
}
