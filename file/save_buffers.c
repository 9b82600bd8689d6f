/* The parts of a graph that is saved, and its buffers by number: of each part those of the graph's own list and those
 * of each lane in the order in which lanes were opened; then PERSISTENT ones in the order in which nodes name them. */
#include "file/save_buffers.h"

#include <string.h>
#include "base/atomic.h"
#include "base/hash.h"
#include "file/cbor_write.h"
#include "file/format.h"
#include "graph/conditional_internal.h"
#include "graph/lane_records.h"

static rota_status no_memory(const rota_graph *graph) {
    return rota_fail(ROTA_OUT_OF_MEMORY, "graph '%s' to be saved: no host memory", graph->name);
}

/* ---- The graph ---- */

/* With its graph's mutex held. */
static rota_status take_part(rota_saved_graph *saved, rota_saved_part *out) {
    const rota_graph *graph = out->graph;
    out->lane_count = graph->lane_count;
    out->own_count = graph->own.buffer_count;
    out->lanes = rota_arena_alloc(&saved->arena, sizeof *out->lanes * ((size_t)out->lane_count + 1), 8);
    out->own_buffers =
        rota_arena_alloc(&saved->arena, sizeof *out->own_buffers * ((size_t)out->own_count + 1), 8);
    if (!out->lanes || !out->own_buffers) return no_memory(saved->graph);
    for (uint32_t i = 0; i < out->lane_count; i++) {
        out->lanes[i] = graph->lanes[i];
        /* Pairs with the release of rota_recorder_close: all of the lane is to be seen. */
        if (!ra_load_acquire(&graph->lanes[i]->closed))
            return rota_fail(ROTA_WRONG_STATE, "graph '%s' to be saved: recorder '%s' is open", graph->name,
                             graph->lanes[i]->name);
    }
    for (uint32_t i = 0; i < out->own_count; i++) out->own_buffers[i] = rota_lane_buffer(&graph->own, i);
    return ROTA_OK;
}

static rota_status add_part(rota_saved_graph *saved, rota_graph *graph, uint32_t outer) {
    if (saved->parts.count > ROTA_GRAPH_FILE_BODIES_MAX)
        return rota_fail(ROTA_OUT_OF_RANGE,
                         "graph '%s' to be saved: more than %llu bodies, the most that a file has",
                         saved->graph->name, (unsigned long long)ROTA_GRAPH_FILE_BODIES_MAX);
    if (!rota_vector_reserve(&saved->parts, sizeof(rota_saved_part), 1)) return no_memory(saved->graph);
    rota_saved_part *part = rota_saved_graph_part(saved, saved->parts.count++);
    *part = (rota_saved_part){.graph = graph, .outer = outer};
    pthread_mutex_lock(&graph->mutex);
    const rota_status status = take_part(saved, part);
    pthread_mutex_unlock(&graph->mutex);
    return status;
}

/* The bodies of the part's nodes, in their order. */
static rota_status add_bodies(rota_saved_graph *saved, uint32_t part) {
    rota_saved_graph_part(saved, part)->first_body = (uint32_t)saved->parts.count;
    if (!rota_saved_graph_part(saved, part)->graph->conditionals) return ROTA_OK;
    for (uint32_t i = 0; i < rota_saved_graph_part(saved, part)->lane_count; i++) {
        rota_record_cursor records = rota_lane_records(rota_saved_graph_part(saved, part)->lanes[i]);
        for (const rota_node_record *node; (node = rota_record_take(&records));) {
            if (node->kind != ROTA_NODE_CONDITIONAL) continue;
            const rota_conditional *conditional = node->u.conditional;
            for (uint32_t b = 0; b < conditional->body_count; b++)
                if (conditional->bodies[b]) ROTA_TRY(add_part(saved, conditional->bodies[b], part));
        }
    }
    return ROTA_OK;
}

rota_status rota_saved_graph_begin(rota_graph *graph, rota_saved_graph *out_graph) {
    *out_graph = (rota_saved_graph){.graph = graph, .slot_count = ra_load_acquire(&graph->slot_count)};
    ROTA_TRY(add_part(out_graph, graph, 0));
    for (uint32_t part = 0; part < out_graph->parts.count; part++) ROTA_TRY(add_bodies(out_graph, part));
    for (uint64_t part = out_graph->parts.count; part-- > 0;) {
        rota_saved_graph_part(out_graph, part)->first_lane = out_graph->lane_count;
        out_graph->lane_count += rota_saved_graph_part(out_graph, part)->lane_count;
    }
    return ROTA_OK;
}

void rota_saved_graph_end(rota_saved_graph *graph) {
    rota_vector_free(&graph->parts);
    rota_arena_free(&graph->arena);
}

/* ---- Its buffers ---- */

static unsigned long hash_buffer(const void *buffer, unsigned long seed) {
    return rota_hash_mix((uintptr_t)((const rota_saved_buffer *)buffer)->buffer ^ seed);
}
static bool same_buffer(const void *a, const void *b) {
    return ((const rota_saved_buffer *)a)->buffer == ((const rota_saved_buffer *)b)->buffer;
}

rota_status rota_saved_buffers_begin(const rota_saved_graph *graph, rota_saved_buffers *out_buffers) {
    *out_buffers = (rota_saved_buffers){.graph = graph, .persistent = ROTA_SET(hash_buffer, same_buffer)};
    uint64_t count = 0;
    for (uint64_t p = 0; p < graph->parts.count; p++) {
        rota_saved_part *part = rota_saved_graph_part(graph, p);
        uint32_t *first =
            rota_arena_alloc(&out_buffers->arena, sizeof *first * ((size_t)part->lane_count + 1), 8);
        if (!first) return no_memory(graph->graph);
        part->first_buffer = first;
        first[0] = (uint32_t)count;
        count += part->own_count;
        for (uint32_t i = 0; i < part->lane_count; i++) {
            first[i + 1] = (uint32_t)count;
            count += part->lanes[i]->buffer_count;
        }
    }
    if (count > UINT32_MAX)
        return rota_fail(ROTA_OUT_OF_RANGE,
                         "graph '%s' to be saved: %llu buffers, a file has at most 2^32 - 1",
                         graph->graph->name, (unsigned long long)count);
    out_buffers->graph_count = (uint32_t)count;
    return ROTA_OK;
}

void rota_saved_buffers_end(rota_saved_buffers *buffers) {
    rota_set_end(&buffers->persistent);
    rota_vector_free(&buffers->persistents);
    rota_arena_free(&buffers->arena);
}

rota_status rota_saved_buffers_add(rota_saved_buffers *buffers, rota_buffer *root) {
    const uint64_t index = buffers->graph_count + buffers->persistents.count;
    rota_saved_buffer sought = {root, (uint32_t)index};
    if (rota_set_get(&buffers->persistent, &sought)) return ROTA_OK;
    if (index >= UINT32_MAX)
        return rota_fail(ROTA_OUT_OF_RANGE, "graph '%s' to be saved: a file has at most 2^32 - 1 buffers",
                         buffers->graph->graph->name);
    rota_saved_buffer *made = rota_arena_alloc(&buffers->arena, sizeof *made, 8);
    if (!made || !rota_vector_reserve(&buffers->persistents, sizeof made, 1))
        return no_memory(buffers->graph->graph);
    *made = sought;
    if (!rota_set_put(&buffers->persistent, made)) return no_memory(buffers->graph->graph);
    ((rota_saved_buffer **)buffers->persistents.data)[buffers->persistents.count++] = made;
    return ROTA_OK;
}

uint32_t rota_saved_buffers_index(rota_saved_buffers *buffers, uint32_t part, uint64_t key) {
    const rota_saved_part *of = rota_saved_graph_part(buffers->graph, part);
    if (key & ROTA_ACCESS_OUTER && !(key & 1)) { /* of a graph around it, at most ROTA_BODY_DEPTH_MAX up */
        const rota_buffer *buffer = ROTA_ACCESS_BUFFER(key);
        while (of->graph != buffer->graph) of = rota_saved_graph_part(buffers->graph, of->outer);
        key = buffer->graph_key;
    }
    if (key & 1) return of->first_buffer[key >> 32] + ((uint32_t)key >> 1);
    const rota_saved_buffer sought = {(rota_buffer *)(uintptr_t)key, 0};
    const rota_saved_buffer *found = rota_set_get(&buffers->persistent, &sought);
    return found ? found->index : UINT32_MAX;
}

rota_status rota_saved_buffers_find(rota_saved_buffers *buffers, const rota_buffer *buffer,
                                    uint32_t *out_index, uint64_t *out_offset_bytes) {
    rota_graph *graph = buffers->graph->graph;
    *out_offset_bytes = buffer->root_offset;
    if (buffer->graph && buffer->graph != graph)
        return rota_fail(ROTA_INVALID_ARGUMENT, "buffer '%s' belongs to graph '%s', not to '%s'",
                         buffer->root->name, ((rota_graph *)buffer->graph)->name, graph->name);
    if (!buffer->graph) ROTA_TRY(rota_saved_buffers_add(buffers, buffer->root));
    *out_index = rota_saved_buffers_index(
        buffers, 0, buffer->graph ? buffer->graph_key : (uint64_t)(uintptr_t)buffer->root);
    return ROTA_OK;
}

/* ---- Written ---- */

static void write_buffer(const rota_buffer *buffer, uint32_t lane, FILE *file) {
    rota_cbor_put_array(file, 4);
    rota_cbor_put_text(file, rota_buffer_kind_name((rota_buffer_kind)buffer->kind));
    rota_cbor_put_text(file, buffer->name);
    rota_cbor_put_uint(file, buffer->size_bytes);
    rota_cbor_put_uint(file, lane);
}

void rota_saved_buffers_write(const rota_saved_buffers *buffers, FILE *file) {
    const rota_saved_graph *graph = buffers->graph;
    rota_cbor_put_text(file, "buffers");
    rota_cbor_put_array(file, buffers->graph_count + buffers->persistents.count);
    for (uint32_t p = 0; p < graph->parts.count; p++) {
        const rota_saved_part *part = rota_saved_graph_part(graph, p);
        const uint32_t own = p ? graph->lane_count + p : 0;
        for (uint32_t i = 0; i < part->own_count; i++) write_buffer(part->own_buffers[i], own, file);
        for (uint32_t lane = 0; lane < part->lane_count; lane++)
            for (uint32_t i = 0; i < part->lanes[lane]->buffer_count; i++)
                write_buffer(rota_lane_buffer(part->lanes[lane], i), part->first_lane + lane + 1, file);
    }
    for (uint64_t i = 0; i < buffers->persistents.count; i++)
        write_buffer(((rota_saved_buffer *const *)buffers->persistents.data)[i]->buffer, 0, file);
}
