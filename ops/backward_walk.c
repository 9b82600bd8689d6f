/* Nodes that decide, whose bodies have tapes: which they are, and a body's ops and nodes in record order. */
#include "ops/backward_decides.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "graph/record.h"
#include "ops/backward_body.h"

/* ---- Which nodes ---- */

/* The only lane of the body that has ops; NULL: none has, or several have. */
static const rota_recorder *taped_lane(const rota_graph *body) {
    const rota_recorder *found = NULL;
    for (uint32_t i = 0; i < body->lane_count; i++) {
        if (!body->lanes[i]->taped) continue;
        if (found || body->lanes[i]->taped->next) return NULL;
        found = body->lanes[i];
    }
    return found;
}

rota_taped_uses *rota_backward_taped(const rota_graph *body) {
    return taped_lane(body)->taped;
}

static bool has_tapes(const rota_conditional *node) {
    for (uint32_t i = 0; i < node->body_count; i++)
        if (node->bodies[i] && !taped_lane(node->bodies[i])) return false;
    return true;
}

bool rota_decides_has(const rota_tape *tape, const rota_conditional *node) {
    return node->lane == tape->recorder && node->index >= tape->past_nodes && has_tapes(node);
}

rota_status rota_backward_refuse(const rota_backward_body *c, rota_status status, const char *format, ...) {
    char text[ROTA_ERROR_MESSAGE_MAX] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return rota_fail(status, "backward: body '%s' of node '%s': %s", c->body->name,
                     rota_node_record_name(c->node->record), text);
}

/* ---- Ops and nodes of a lane, in record order ---- */

static int compare_nodes(const void *left, const void *right) {
    const rota_conditional *a = *(rota_conditional *const *)left, *b = *(rota_conditional *const *)right;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* Those of a lane whose bodies have tapes, from a node on. */
static rota_status list_nodes(rota_graph *graph, const rota_recorder *lane, uint32_t first,
                              rota_vector *out) {
    pthread_mutex_lock(&graph->mutex);
    rota_conditional *newest = graph->conditionals; /* which stay as they are */
    pthread_mutex_unlock(&graph->mutex);
    for (rota_conditional *it = newest; it; it = it->next) {
        if (it->lane != lane || it->index < first || !has_tapes(it)) continue;
        if (!rota_vector_reserve(out, sizeof it, 1)) return rota_backward_no_memory();
        ((rota_conditional **)out->data)[out->count++] = it;
    }
    if (out->count > 1) qsort(out->data, out->count, sizeof(rota_conditional *), compare_nodes);
    return ROTA_OK;
}

static rota_status walk_all(const rota_vector *nodes, const rota_taped_uses *taped,
                            const rota_backward_walk *walk) {
    rota_conditional *const *all = nodes->data;
    uint64_t next = 0;
    for (uint64_t u = 0; u < taped->count; u++) {
        for (; next < nodes->count && all[next]->index < taped->uses[u].lane_nodes; next++)
            ROTA_TRY(walk->node(walk->user, all[next]));
        ROTA_TRY(walk->use(walk->user, &taped->uses[u]));
    }
    for (; next < nodes->count; next++) ROTA_TRY(walk->node(walk->user, all[next]));
    return ROTA_OK;
}

rota_status rota_backward_walk_body(const rota_graph *body, const rota_backward_walk *walk) {
    const rota_recorder *lane = taped_lane(body);
    rota_vector nodes = {0};
    rota_status status = list_nodes((rota_graph *)(uintptr_t)body, lane, 0, &nodes);
    if (status == ROTA_OK) status = walk_all(&nodes, lane->taped, walk);
    rota_vector_free(&nodes);
    return status;
}

rota_status rota_decides_list(rota_tape *tape, rota_decides *out_decides) {
    rota_vector nodes = {0};
    *out_decides = (rota_decides){0};
    rota_status status = list_nodes(tape->graph, tape->recorder, tape->past_nodes, &nodes);
    if (status == ROTA_OK && nodes.count) {
        out_decides->nodes = rota_arena_alloc(&tape->arena, sizeof *out_decides->nodes * nodes.count, 8);
        if (!out_decides->nodes) status = rota_backward_no_memory();
        for (; status == ROTA_OK && out_decides->count < nodes.count; out_decides->count++)
            out_decides->nodes[out_decides->count] =
                ((rota_conditional *const *)nodes.data)[out_decides->count];
    }
    rota_vector_free(&nodes);
    return status;
}
