/* Nodes that decide: their bodies, and the accesses that are inferred from those.
 *
 * A body is a graph whose records name buffers of the graphs around it by address (ROTA_ACCESS_OUTER). Its node gets
 * the union of what the body's nodes touch outside of it. So hazards, packing, placement and what follows a failure see
 * one node like any other; what is inside is compiled by itself (sched/plan/bodies.c), against the same ranges.
 *
 *     lanes of the bodies --collect--> ranges --sort, join--> disjoint ranges --> accesses of the record
 *     condition, index ------^                                      \--> where condition and index are in them
 *
 * The graph that a node is in holds its bodies, and a body holds that graph only until the node takes it: no circle. */
#include "graph/conditional_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/given.h"
#include "base/sized_copy.h"
#include "base/vector.h"
#include "graph/lane_records.h"
#include "graph/record.h"

const char *rota_conditional_kind_name(uint8_t kind) {
    static const char *const names[ROTA_CONDITIONAL_KIND_COUNT] = {"if", "while", "for", "switch"};
    return kind < ROTA_CONDITIONAL_KIND_COUNT ? names[kind] : "conditional";
}

/* With its mutex held. */
static rota_status check_open(const rota_graph *outer, const char *body) {
    if (!ra_load_relaxed(&outer->compiled)) return ROTA_OK;
    return rota_fail(ROTA_WRONG_STATE, "body '%s': graph '%s' is already %s", body, outer->name,
                     outer->is_taken ? "the body of a node" : "compiled");
}

rota_status rota_graph_create_body(rota_graph *outer, const char *name, rota_graph **out_body) {
    ROTA_GIVEN(outer);
    ROTA_GIVEN(out_body);
    *out_body = NULL;
    if (!name) name = "body";
    if (outer->depth == ROTA_BODY_DEPTH_MAX)
        return rota_fail(ROTA_OUT_OF_RANGE,
                         "body '%s' of graph '%s' would be the %uth of bodies within bodies, of at most %d",
                         name, outer->name, outer->depth + 1, ROTA_BODY_DEPTH_MAX);
    ROTA_TRY(rota_graph_create(
        &ROTA_GRAPH_OPTIONS(.name = name, .allow_reassociation = outer->allow_reassociation), out_body));
    (*out_body)->depth = outer->depth + 1;
    pthread_mutex_lock(&outer->mutex);
    const rota_status status = check_open(outer, name);
    if (status == ROTA_OK) {
        (*out_body)->outer = outer;
        outer->open_bodies++;
        rota_graph_retain(outer);
    }
    pthread_mutex_unlock(&outer->mutex);
    if (status == ROTA_OK) return ROTA_OK;
    rota_graph_release(*out_body);
    *out_body = NULL;
    return status;
}

/* ---- What a node touches ---- */

typedef struct range {
    rota_buffer *root;
    uint64_t low, high;
    bool is_written;
    bool is_packed; /* of a TRANSIENT, INPUT or OUTPUT of the graph that the node is recorded into */
} range;

/* A node that is being recorded. */
typedef struct recording {
    rota_recorder *lane;
    const char *name;
    rota_conditional made; /* bodies: the caller's array */
    rota_placement placement;
    rota_buffer *condition, *index;
    uint64_t condition_offset, index_offset;
    rota_vector ranges; /* range */
} recording;

#define NODE ROTA_NODE_TEXT
#define NODE_ARGUMENTS(r) ROTA_NODE_ARGUMENTS((r)->lane, (r)->name)

static rota_status no_memory(const recording *r) {
    return rota_fail(ROTA_OUT_OF_MEMORY, NODE "no host memory", NODE_ARGUMENTS(r));
}

static rota_status add_range(recording *r, rota_buffer *root, uint64_t low, uint64_t size, bool is_written) {
    if (!rota_vector_reserve(&r->ranges, sizeof(range), 1)) return no_memory(r);
    const bool is_packed = root->graph == r->lane->graph && root->kind != ROTA_BUFFER_SLOT &&
                           root->kind != ROTA_BUFFER_PERSISTENT;
    ((range *)r->ranges.data)[r->ranges.count++] = (range){root, low, low + size, is_written, is_packed};
    return ROTA_OK;
}

/* The body's lanes are closed, and nothing can be recorded into it any more. */
static rota_status collect_body(recording *r, const rota_graph *body) {
    for (uint32_t l = 0; l < body->lane_count; l++) {
        const rota_recorder *lane = body->lanes[l];
        rota_record_cursor cursor = rota_lane_records(lane);
        for (const rota_node_record *record; (record = rota_record_take(&cursor));) {
            const rota_access_record *accesses = rota_node_accesses(record);
            for (uint32_t i = 0; i < record->access_count; i++) {
                if (rota_access_stored(&accesses[i]) & 1) continue; /* the body's own */
                ROTA_TRY(add_range(r, ROTA_ACCESS_BUFFER(rota_access_stored(&accesses[i])),
                                   ROTA_ACCESS_OFFSET(&accesses[i]), rota_access_size(&accesses[i]),
                                   ROTA_ACCESS_MODE(&accesses[i]) != ROTA_READ));
            }
        }
    }
    return ROTA_OK;
}

/* By where they were made, so that a program gives the same plan each time. */
static int compare_roots(const rota_buffer *a, const rota_buffer *b) {
    const uint32_t depth_a = a->graph ? ((const rota_graph *)a->graph)->depth + 1 : 0,
                   depth_b = b->graph ? ((const rota_graph *)b->graph)->depth + 1 : 0;
    const uint64_t number_a = a->graph ? a->graph_key : a->number,
                   number_b = b->graph ? b->graph_key : b->number;
    if (depth_a != depth_b) return depth_a > depth_b ? -1 : 1;
    if (number_a != number_b) return number_a < number_b ? -1 : 1;
    return (uintptr_t)a < (uintptr_t)b ? -1 : 1; /* 2^32 buffers later */
}

static int compare_ranges(const void *left, const void *right) {
    const range *a = left, *b = right;
    if (a->is_packed != b->is_packed) return a->is_packed ? -1 : 1;
    const int by_root = a->root == b->root ? 0 : compare_roots(a->root, b->root);
    if (by_root) return by_root;
    if (a->low != b->low) return a->low < b->low ? -1 : 1;
    return a->high < b->high ? -1 : a->high > b->high;
}

/* What overlaps becomes one range, written if any of it is; so does what meets and is of one mode. */
static void join_ranges(recording *r) {
    range *ranges = r->ranges.data;
    const uint64_t count = r->ranges.count;
    qsort(ranges, (size_t)count, sizeof *ranges, compare_ranges);
    uint64_t kept = 0;
    for (uint64_t i = 0; i < count; i++) {
        range *last = kept ? &ranges[kept - 1] : NULL;
        if (last && last->root == ranges[i].root &&
            (ranges[i].low < last->high ||
             (ranges[i].low == last->high && ranges[i].is_written == last->is_written))) {
            if (ranges[i].high > last->high) last->high = ranges[i].high;
            last->is_written |= ranges[i].is_written;
        } else {
            ranges[kept++] = ranges[i];
        }
    }
    r->ranges.count = kept;
}

/* ---- Condition and index ---- */

/* `what` at `offset` of `buffer`: 4 bytes that the node may read, or write. */
static rota_status check_word(const recording *r, const char *what, const rota_buffer *buffer,
                              uint64_t offset, bool is_written) {
    ROTA_TRY(rota_record_check_word(r->lane, r->name, what, buffer, offset));
    for (const rota_graph *graph = r->lane->graph; buffer->graph && graph != buffer->graph;
         graph = graph->outer)
        if (!graph->outer)
            return rota_fail(ROTA_INVALID_ARGUMENT,
                             NODE "its %s, buffer '%s', belongs to graph '%s', not to '%s'",
                             NODE_ARGUMENTS(r), what, buffer->root->name,
                             ((const rota_graph *)buffer->graph)->name, r->lane->graph->name);
    if (is_written && buffer->is_read_only)
        return rota_fail(ROTA_INVALID_ARGUMENT, NODE "its %s is in buffer '%s', which nodes only read",
                         NODE_ARGUMENTS(r), what, buffer->root->name);
    return ROTA_OK;
}

static rota_status add_words(recording *r) {
    const bool is_for = r->made.kind == ROTA_CONDITIONAL_FOR;
    const char *condition = is_for ? "count" : "condition";
    if (!r->condition)
        return rota_fail(ROTA_INVALID_ARGUMENT, NODE "it has no %s; expected a buffer", NODE_ARGUMENTS(r),
                         condition);
    ROTA_TRY(check_word(r, condition, r->condition, r->condition_offset, false));
    ROTA_TRY(add_range(r, r->condition->root, r->condition->root_offset + r->condition_offset, 4, false));
    if (!r->index) return ROTA_OK;
    ROTA_TRY(check_word(r, "index", r->index, r->index_offset, true));
    if (r->index->root == r->condition->root &&
        r->index->root_offset + r->index_offset == r->condition->root_offset + r->condition_offset)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         NODE "its index and its count are the same bytes of buffer '%s'", NODE_ARGUMENTS(r),
                         r->index->root->name);
    return add_range(r, r->index->root, r->index->root_offset + r->index_offset, 4, true);
}

static rota_conditional_word find_word(const recording *r, const rota_buffer *buffer, uint64_t offset) {
    const range *ranges = r->ranges.data;
    for (uint32_t i = 0; buffer && i < r->ranges.count; i++) {
        const uint64_t first = buffer->root_offset + offset;
        if (ranges[i].root == buffer->root && ranges[i].low <= first && first < ranges[i].high)
            return (rota_conditional_word){i, first - ranges[i].low};
    }
    return (rota_conditional_word){ROTA_CONDITIONAL_NO_WORD, 0};
}

/* ---- Bodies ---- */

static rota_status check_body(const recording *r, rota_graph *body) {
    if (body->outer != r->lane->graph)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         NODE "graph '%s' is no body of graph '%s' (rota_graph_create_body)",
                         NODE_ARGUMENTS(r), body->name, r->lane->graph->name);
    if (body->is_taken)
        return rota_fail(ROTA_WRONG_STATE, NODE "body '%s' is another node's, or given twice",
                         NODE_ARGUMENTS(r), body->name);
    if (body->open_bodies)
        return rota_fail(ROTA_WRONG_STATE, NODE "body '%s' has %u bodies that no node of it has taken",
                         NODE_ARGUMENTS(r), body->name, body->open_bodies);
    for (uint32_t i = 0; i < body->lane_count; i++)
        /* Acquire pairs with rota_recorder_close: the lane's contents are complete and visible. */
        if (!ra_load_acquire(&body->lanes[i]->closed))
            return rota_fail(ROTA_WRONG_STATE, NODE "recorder '%s' of body '%s' is still open",
                             NODE_ARGUMENTS(r), body->lanes[i]->name, body->name);
    return ROTA_OK;
}

static rota_status take_body(const recording *r, rota_graph *body) {
    pthread_mutex_lock(&body->mutex);
    const rota_status status = check_body(r, body);
    if (status == ROTA_OK) {
        body->is_taken = true;
        ra_store_release(&body->compiled, true); /* with begin_record's look, for its sentence alone */
    }
    pthread_mutex_unlock(&body->mutex);
    return status;
}

static void give_back_bodies(const recording *r, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        rota_graph *body = r->made.bodies[i];
        if (!body) continue;
        pthread_mutex_lock(&body->mutex);
        body->is_taken = false;
        ra_store_release(&body->compiled, false);
        pthread_mutex_unlock(&body->mutex);
    }
}

/* ---- The node ---- */

static rota_status check_count(const recording *r) {
    uint32_t packed = 0;
    for (uint64_t i = 0; i < r->ranges.count; i++) packed += ((const range *)r->ranges.data)[i].is_packed;
    if (r->ranges.count <= ROTA_BODY_RANGES_MAX && packed <= ROTA_BODY_PACKED_RANGES_MAX) return ROTA_OK;
    return rota_fail(
        ROTA_OUT_OF_RANGE,
        NODE "its bodies touch %llu ranges of outer buffers, at most %d, %u of them in transient, INPUT "
             "and OUTPUT buffers of graph '%s', at most %d",
        NODE_ARGUMENTS(r), (unsigned long long)r->ranges.count, ROTA_BODY_RANGES_MAX, packed,
        r->lane->graph->name, ROTA_BODY_PACKED_RANGES_MAX);
}

static rota_status infer(recording *r) {
    for (uint32_t i = 0; i < r->made.body_count; i++)
        if (r->made.bodies[i]) ROTA_TRY(collect_body(r, r->made.bodies[i]));
    join_ranges(r);
    return check_count(r);
}

static rota_status append(recording *r, rota_node *out_node) {
    ROTA_TRY(infer(r));
    rota_recorder *lane = r->lane;
    rota_conditional *kept = rota_arena_alloc(&lane->arena, sizeof *kept, 8);
    rota_graph **bodies = rota_arena_alloc(&lane->arena, sizeof *bodies * r->made.body_count, 8);
    rota_buffer **roots = rota_arena_alloc(&lane->arena, sizeof *roots * (r->ranges.count + 1), 8);
    if (!kept || !bodies || !roots) return no_memory(r);
    *kept = r->made;
    kept->roots = roots;
    kept->bodies = bodies;
    for (uint32_t i = 0; i < r->made.body_count; i++) bodies[i] = r->made.bodies[i];
    kept->condition = find_word(r, r->condition, r->condition_offset);
    kept->iteration = find_word(r, r->index, r->index_offset);
    const uint32_t count = (uint32_t)r->ranges.count;
    rota_access accesses[ROTA_BODY_RANGES_MAX];
    for (uint32_t i = 0; i < count; i++) {
        const range *it = (const range *)r->ranges.data + i;
        roots[i] = it->root;
        accesses[i] =
            (rota_access){it->root, it->low, it->high - it->low, it->is_written ? ROTA_READWRITE : ROTA_READ};
    }
    const uint32_t room = (uint32_t)sizeof(rota_access_record) * ROTA_CONDITIONAL_ROOM * kept->body_count;
    const size_t bytes = sizeof(rota_node_record) + sizeof(rota_access_record) * count + room;
    rota_node_record header = {.record_words = rota_record_words(bytes) & 0x3fffu,
                               .kind = ROTA_NODE_CONDITIONAL,
                               .access_count = (uint8_t)count,
                               .device_plus_1 = (uint8_t)r->placement.device_plus_1,
                               .queue_plus_1 = (uint16_t)r->placement.queue_plus_1,
                               .name = r->name,
                               .u.conditional = kept};
    ROTA_TRY(rota_record_plain(lane, &header, accesses, out_node));
    kept->lane = lane;
    kept->index = lane->node_count - 1;
    kept->record = (const rota_node_record *)(lane->next - bytes);
    memset(lane->next - room, 0, room);
    pthread_mutex_lock(&lane->graph->mutex);
    kept->next = lane->graph->conditionals;
    lane->graph->conditionals = kept;
    for (uint32_t i = 0; i < kept->body_count; i++) lane->graph->open_bodies -= bodies[i] != NULL;
    pthread_mutex_unlock(&lane->graph->mutex);
    /* They hold it no longer, but it holds them. The caller, who records into it, has a reference of his own. */
    for (uint32_t i = 0; i < kept->body_count; i++)
        if (bodies[i]) rota_graph_release(lane->graph);
    return ROTA_OK;
}

static rota_status take_ranges(const recording *r, rota_conditional *node) {
    rota_node_record *record = (rota_node_record *)(uintptr_t)node->record;
    rota_access_record *accesses = (rota_access_record *)(record + 1);
    const uint32_t count = (uint32_t)r->ranges.count;
    if (sizeof *record + sizeof *accesses * count > rota_record_bytes(record))
        return rota_fail(ROTA_OUT_OF_RANGE, NODE "its bodies touch %u ranges, and %u when it was recorded",
                         NODE_ARGUMENTS(r), count, record->access_count);
    rota_buffer **roots = rota_arena_alloc(&r->lane->arena, sizeof *roots * (count + 1), 8);
    rota_wide_range *wide = rota_arena_alloc(&r->lane->arena, sizeof *wide * (count + 1), 8);
    if (!roots || !wide) return no_memory(r);
    for (uint32_t i = 0; i < count; i++) {
        const range *it = (const range *)r->ranges.data + i;
        roots[i] = it->root;
        accesses[i] = rota_access_record_of(rota_access_buffer_of(r->lane->graph, it->root), it->low,
                                            it->high - it->low, it->is_written ? ROTA_READWRITE : ROTA_READ,
                                            rota_access_is_wide(it->low, it->high - it->low) ? wide++ : NULL);
    }
    node->roots = roots;
    node->condition = find_word(r, r->condition, r->condition_offset);
    node->iteration = find_word(r, r->index, r->index_offset);
    r->lane->access_count += count - record->access_count;
    record->access_count = (uint8_t)count;
    return ROTA_OK;
}

rota_status rota_conditional_infer_again(rota_conditional *node) {
    const rota_access_record *accesses = rota_node_accesses(node->record);
    const rota_conditional_word *condition = &node->condition, *index = &node->iteration;
    recording r = {.lane = (rota_recorder *)(uintptr_t)node->lane,
                   .name = rota_node_record_name(node->record),
                   .made = *node,
                   .condition = node->roots[condition->access],
                   .condition_offset =
                       ROTA_ACCESS_OFFSET(&accesses[condition->access]) + condition->offset_bytes};
    if (index->access != ROTA_CONDITIONAL_NO_WORD) {
        r.index = node->roots[index->access];
        r.index_offset = ROTA_ACCESS_OFFSET(&accesses[index->access]) + index->offset_bytes;
    }
    rota_status status = add_words(&r);
    if (status == ROTA_OK) status = infer(&r);
    if (status == ROTA_OK) status = take_ranges(&r, node);
    rota_vector_free(&r.ranges);
    return status;
}

static rota_status record(recording *r, rota_node *out_node) {
    if (rota_conditional_is_loop(r->made.kind)) {
        if (r->made.iterations_max == 0)
            return rota_fail(ROTA_INVALID_ARGUMENT, NODE "iterations_max is 0, expected 1 or more",
                             NODE_ARGUMENTS(r));
    }
    if (r->placement.device_plus_1 > UINT8_MAX || r->placement.queue_plus_1 > UINT16_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT, NODE "placed on device %u, queue %u; there are no so many",
                         NODE_ARGUMENTS(r), r->placement.device_plus_1 - 1, r->placement.queue_plus_1 - 1);
    /* Of a closed one the graphs around it may be gone. */
    if (ra_load_relaxed(&r->lane->closed))
        return rota_fail(ROTA_WRONG_STATE, "node '%s': recorder '%s' is closed", r->name, r->lane->name);
    rota_status status = add_words(r);
    uint32_t taken = 0;
    while (status == ROTA_OK && taken < r->made.body_count) {
        rota_graph *body = r->made.bodies[taken];
        if (body) status = take_body(r, body);
        if (status == ROTA_OK) taken++;
    }
    if (status == ROTA_OK) status = append(r, out_node);
    if (status != ROTA_OK) give_back_bodies(r, taken);
    rota_vector_free(&r->ranges);
    return status;
}

static rota_status no_body(const recording *r) {
    return rota_fail(ROTA_INVALID_ARGUMENT, NODE "it has no body; expected a graph of rota_graph_create_body",
                     NODE_ARGUMENTS(r));
}

rota_status rota_record_if(rota_recorder *recorder, const rota_if_node *node, rota_node *out_node) {
    ROTA_GIVEN(recorder);
    ROTA_GIVEN(node);
    rota_if_node room;
    if (!(node = ROTA_SIZED_IN(rota_if_node, node, &room))) return ROTA_INVALID_ARGUMENT;
    rota_graph *bodies[2] = {node->body, node->otherwise};
    recording r = {.lane = recorder,
                   .name = node->name ? node->name : "if",
                   .made = {.kind = ROTA_CONDITIONAL_IF, .body_count = 2, .bodies = bodies},
                   .placement = node->placement,
                   .condition = node->condition,
                   .condition_offset = node->condition_offset_bytes};
    return node->body ? record(&r, out_node) : no_body(&r);
}

rota_status rota_record_while(rota_recorder *recorder, const rota_while_node *node, rota_node *out_node) {
    ROTA_GIVEN(recorder);
    ROTA_GIVEN(node);
    rota_while_node room;
    if (!(node = ROTA_SIZED_IN(rota_while_node, node, &room))) return ROTA_INVALID_ARGUMENT;
    rota_graph *bodies[1] = {node->body};
    recording r = {.lane = recorder,
                   .name = node->name ? node->name : "while",
                   .made = {.kind = ROTA_CONDITIONAL_WHILE,
                            .iterations_max = node->iterations_max,
                            .body_count = 1,
                            .bodies = bodies},
                   .placement = node->placement,
                   .condition = node->condition,
                   .condition_offset = node->condition_offset_bytes};
    return node->body ? record(&r, out_node) : no_body(&r);
}

rota_status rota_record_for(rota_recorder *recorder, const rota_for_node *node, rota_node *out_node) {
    ROTA_GIVEN(recorder);
    ROTA_GIVEN(node);
    rota_for_node room;
    if (!(node = ROTA_SIZED_IN(rota_for_node, node, &room))) return ROTA_INVALID_ARGUMENT;
    rota_graph *bodies[1] = {node->body};
    recording r = {.lane = recorder,
                   .name = node->name ? node->name : "for",
                   .made = {.kind = ROTA_CONDITIONAL_FOR,
                            .iterations_max = node->iterations_max,
                            .body_count = 1,
                            .bodies = bodies},
                   .placement = node->placement,
                   .condition = node->count,
                   .condition_offset = node->count_offset_bytes,
                   .index = node->index,
                   .index_offset = node->index_offset_bytes};
    return node->body ? record(&r, out_node) : no_body(&r);
}

rota_status rota_record_switch(rota_recorder *recorder, const rota_switch_node *node, rota_node *out_node) {
    ROTA_GIVEN(recorder);
    ROTA_GIVEN(node);
    rota_switch_node room;
    if (!(node = ROTA_SIZED_IN(rota_switch_node, node, &room))) return ROTA_INVALID_ARGUMENT;
    recording r = {.lane = recorder,
                   .name = node->name ? node->name : "switch",
                   .made = {.kind = ROTA_CONDITIONAL_SWITCH,
                            .body_count = node->body_count,
                            .bodies = (rota_graph **)(uintptr_t)node->bodies},
                   .placement = node->placement,
                   .condition = node->condition,
                   .condition_offset = node->condition_offset_bytes};
    if (!node->bodies || node->body_count == 0) return no_body(&r);
    if (node->body_count > ROTA_SWITCH_BODIES_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT, NODE "%u bodies, expected at most %d", NODE_ARGUMENTS(&r),
                         node->body_count, ROTA_SWITCH_BODIES_MAX);
    return record(&r, out_node);
}
