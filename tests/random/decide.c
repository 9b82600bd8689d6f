/* Nodes that decide around nodes of random graphs. */
#include "tests/random/decide.h"

#include <stdlib.h>
#include <string.h>
#include "cuda/test_kernels.h"
#include "spv/test_count_down.h"
#include "tests/kit/random.h"

enum { NODES_MAX = 12, ITERATIONS_MAX = 9 };

/* x[0]--, of a while's condition. */
static rota_status count_down(const rota_kernel_call *call) {
    (*(uint32_t *)call->operands[0])--;
    return ROTA_OK;
}
const rota_kernel decide_count_down = {
    .name = "count down",
    .operand_count = 1,
    .cpu = {.fn = count_down},
    .vk = {.words = rota_spv_test_count_down, .size_bytes = sizeof rota_spv_test_count_down},
    .cuda = {ROTA_CUDA_IMAGE_test_kernels, .entry = ROTA_CUDA_ENTRY_test_kernels(test_count_down)},
};

/* ---- Drawing ---- */

/* Whether nodes [first, end) leave bytes alone that others count on being written: such may run no time at all. */
static bool writes_lasting(const mirror_graph *graph, uint32_t first, uint32_t end) {
    for (uint32_t n = first; n < end; n++)
        for (uint32_t k = 0; k < graph->nodes[n].access_count; k++) {
            const mirror_access *access = &graph->nodes[n].access[k];
            const rota_buffer_kind kind = graph->buffers[graph->buffers[access->buffer].root].kind;
            if (access->mode != ROTA_READ && kind != ROTA_BUFFER_PERSISTENT && kind != ROTA_BUFFER_SLOT)
                return false;
        }
    return true;
}

static void draw_layers(const mirror_graph *graph, mirror_group *group, uint32_t count, uint64_t *random) {
    uint32_t end = group->first + count, iterations = 1;
    group->layer_count = 1 + test_below(random, MIRROR_LAYERS_MAX);
    for (uint32_t l = 0; l < group->layer_count; l++) {
        mirror_layer *layer = &group->layers[l];
        layer->end = end;
        layer->kind = test_below(random, MIRROR_LAYER_KINDS);
        layer->count = 1;
        if (layer->kind == MIRROR_FOR || layer->kind == MIRROR_WHILE)
            layer->count = 1 + test_below(random, ITERATIONS_MAX / iterations < 3 ? 1 : 3);
        if (test_below(random, 4) == 0 && writes_lasting(graph, group->first, end)) layer->count = 0;
        if (layer->count) iterations *= layer->count;
        if (end > group->first) end = group->first + test_below(random, end - group->first + 1);
    }
}

/* Transients that one group alone touches are the outermost body's. */
static void draw_owners(mirror_graph *graph) {
    enum { SEVERAL = UINT32_MAX };
    uint32_t *owner = calloc(graph->buffer_count + 1u, sizeof *owner);
    if (!owner) abort();
    for (uint32_t n = 0; n < graph->node_count; n++)
        for (uint32_t k = 0; k < graph->nodes[n].access_count; k++) {
            const uint32_t root = graph->buffers[graph->nodes[n].access[k].buffer].root;
            const uint32_t group = graph->nodes[n].group ? graph->nodes[n].group : SEVERAL;
            owner[root] = owner[root] == 0 || owner[root] == group ? group : SEVERAL;
        }
    for (uint32_t b = 0; b < graph->buffer_count; b++) {
        const uint32_t root = graph->buffers[b].root;
        if (graph->buffers[root].kind == ROTA_BUFFER_TRANSIENT && owner[root] != SEVERAL)
            graph->buffers[b].group = owner[root];
    }
    free(owner);
}

static void draw_graph(mirror_graph *graph, bool has_hosts, uint64_t *random) {
    bool *is_after = calloc(graph->node_count + 1u, sizeof *is_after);
    graph->groups = calloc(graph->node_count + 1u, sizeof *graph->groups);
    if (!is_after || !graph->groups) abort();
    for (uint32_t a = 0; a < graph->after_count; a++)
        for (uint32_t e = 0; e < 2; e++)
            if (graph->afters[a][e] < graph->node_count) is_after[graph->afters[a][e]] = true;
    for (uint32_t n = 0; n < graph->node_count;) {
        const uint32_t most = 1 + test_below(random, NODES_MAX);
        uint32_t count = 0;
        while (count < most && n + count < graph->node_count && !is_after[n + count] &&
               graph->nodes[n + count].lane == graph->nodes[n].lane &&
               graph->nodes[n + count].device_plus_1 == 0 &&
               (has_hosts || graph->nodes[n + count].kind != MIRROR_HOST))
            count++;
        if (count && test_below(random, 4) == 0) {
            mirror_group *group = &graph->groups[graph->group_count++];
            group->first = n;
            draw_layers(graph, group, count, random);
            for (uint32_t i = 0; i < count; i++) graph->nodes[n + i].group = graph->group_count;
        }
        n += count ? count : 1;
    }
    free(is_after);
    draw_owners(graph);
    if (graph->group_count) graph->options.allow_undefined_reads = true;
}

void decide_draw(mirror_case *mirror, bool has_hosts, uint64_t *random) {
    for (uint32_t g = 0; g < mirror->graph_count; g++) draw_graph(&mirror->graphs[g], has_hosts, random);
}

uint64_t decide_iterations(const mirror_graph *graph) {
    uint64_t sum = 0;
    for (uint32_t g = 0; g < graph->group_count; g++) {
        uint64_t iterations = 1;
        for (uint32_t l = 0; l < graph->groups[g].layer_count; l++)
            iterations *= graph->groups[g].layers[l].count;
        sum += iterations;
    }
    return sum;
}

/* ---- Running ---- */

void decide_run(const mirror_graph *graph, const mirror_group *group, uint32_t layer, mirror_replay *replay,
                decide_run_fn run) {
    const bool is_last = layer + 1 == group->layer_count;
    for (uint32_t i = 0; i < group->layers[layer].count; i++) {
        if (!is_last) decide_run(graph, group, layer + 1, replay, run);
        for (uint32_t n = is_last ? group->first : group->layers[layer + 1].end; n < group->layers[layer].end;
             n++)
            run(graph, &graph->nodes[n], replay);
    }
}

/* ---- Recording ---- */

static rota_status own_buffers(mirror_graph *graph, uint32_t group, rota_graph *body) {
    for (uint32_t b = 0; b < graph->buffer_count; b++) {
        mirror_buffer *buffer = &graph->buffers[b];
        if (buffer->group != group) continue;
        ROTA_TRY(buffer->is_view
                     ? rota_buffer_create_view(graph->buffers[buffer->root].handle, buffer->root_offset,
                                               buffer->bytes, &buffer->handle)
                     : rota_graph_buffer(body, buffer->kind, buffer->name, buffer->bytes, &buffer->handle));
    }
    return ROTA_OK;
}

/* A body that is not run, and writes what it may. */
static rota_status make_idle(rota_graph *outer, rota_buffer *condition, rota_graph **out_body) {
    ROTA_TRY(rota_graph_create_body(outer, "idle", out_body));
    rota_recorder *lane = NULL;
    rota_status status = rota_recorder_open(*out_body, 0, NULL, &lane);
    if (status == ROTA_OK) status = rota_record_fill(lane, condition, 0, 4, 77, NULL);
    rota_recorder_close(lane);
    return status;
}

static rota_status put_node(const mirror_layer *layer, rota_recorder *recorder, rota_buffer *condition,
                            rota_graph *body) {
    if (layer->kind == MIRROR_WHILE)
        return rota_record_while(
            recorder, &ROTA_WHILE_NODE(.condition = condition, .body = body, .iterations_max = 3), NULL);
    if (layer->kind == MIRROR_FOR) {
        rota_buffer *index = NULL;
        ROTA_TRY(rota_recorder_buffer(recorder, ROTA_BUFFER_TRANSIENT, "index", 4, &index));
        return rota_record_for(
            recorder, &ROTA_FOR_NODE(.count = condition, .index = index, .body = body, .iterations_max = 3),
            NULL);
    }
    rota_graph *idle = NULL;
    if (layer->kind == MIRROR_IF) {
        if (layer->count) ROTA_TRY(make_idle(rota_recorder_graph(recorder), condition, &idle));
        return rota_record_if(recorder,
                              &ROTA_IF_NODE(.condition = condition, .body = body, .otherwise = idle), NULL);
    }
    ROTA_TRY(make_idle(rota_recorder_graph(recorder), condition, &idle));
    rota_graph *const bodies[3] = {NULL, body, idle};
    return rota_record_switch(
        recorder, &ROTA_SWITCH_NODE(.condition = condition, .bodies = bodies, .body_count = 3), NULL);
}

static rota_status record_layer(mirror_graph *graph, const mirror_group *group, uint32_t number,
                                rota_recorder *recorder) {
    const mirror_layer *layer = &group->layers[number];
    const bool is_last = number + 1 == group->layer_count;
    rota_buffer *condition = NULL;
    rota_graph *body = NULL;
    rota_recorder *lane = NULL;
    ROTA_TRY(rota_recorder_buffer(recorder, ROTA_BUFFER_TRANSIENT, "condition", 4, &condition));
    ROTA_TRY(rota_record_fill(recorder, condition, 0, 4, layer->count, NULL));
    ROTA_TRY(rota_graph_create_body(rota_recorder_graph(recorder), "layer", &body));
    ROTA_TRY(rota_recorder_open(body, 0, NULL, &lane));
    if (number == 0) ROTA_TRY(own_buffers(graph, (uint32_t)(group - graph->groups) + 1, body));
    if (!is_last) ROTA_TRY(record_layer(graph, group, number + 1, lane));
    for (uint32_t n = is_last ? group->first : group->layers[number + 1].end; n < layer->end; n++)
        ROTA_TRY(mirror_record_node(graph, &graph->nodes[n], lane));
    if (layer->kind == MIRROR_WHILE) {
        const rota_access access = {condition, 0, 4, ROTA_READWRITE};
        ROTA_TRY(rota_record_kernel(
            lane, &ROTA_KERNEL_NODE(.kernel = &decide_count_down, .accesses = &access, .access_count = 1),
            NULL));
    }
    rota_recorder_close(lane);
    return put_node(layer, recorder, condition, body);
}

rota_status decide_record(mirror_graph *graph, const mirror_group *group, rota_recorder *recorder) {
    return record_layer(graph, group, 0, recorder);
}
