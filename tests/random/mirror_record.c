/* Recording, compiling and arguments of described random graphs. */
#include <string.h>
#include "graph/counted.h"
#include "tests/random/decide.h"
#include "tests/random/hosts_later.h"
#include "tests/random/mirror.h"
#include "tests/kit/random.h"

static rota_status make_buffers(mirror_case *mirror, mirror_graph *graph, rota_recorder *const *recorders) {
    if (mirror->limits.counted)
        ROTA_TRY(rota_graph_buffer(graph->graph, ROTA_BUFFER_INPUT, "counts",
                                   sizeof(uint32_t) * MIRROR_COUNTS, &graph->counts));
    for (uint32_t b = 0; b < graph->buffer_count; b++) {
        mirror_buffer *buffer = &graph->buffers[b];
        if (buffer->group) continue; /* made with its body */
        if (buffer->is_view)
            ROTA_TRY(rota_buffer_create_view(graph->buffers[buffer->root].handle, buffer->root_offset,
                                             buffer->bytes, &buffer->handle));
        else if (buffer->kind == ROTA_BUFFER_PERSISTENT)
            buffer->handle = mirror->persistents[buffer->persistent].handle;
        else if (buffer->through_recorder)
            ROTA_TRY(rota_recorder_buffer(recorders[b % graph->lane_count], buffer->kind, buffer->name,
                                          buffer->bytes, &buffer->handle));
        else
            ROTA_TRY(
                rota_graph_buffer(graph->graph, buffer->kind, buffer->name, buffer->bytes, &buffer->handle));
    }
    return ROTA_OK;
}

/* A count of a node's: a word that the replay brings, or the middle of a transient of its own that a fill of all of it
 * writes. */
static rota_status make_count(const mirror_graph *graph, const mirror_node *node, rota_recorder *recorder,
                              rota_count *out_count) {
    enum { BYTES = 12, OFFSET = 4 };
    *out_count = ROTA_COUNT(.offset_bytes = OFFSET, .max = node->count_max_plus_1 - 1,
                            .unit_bytes = node->kind == MIRROR_COPY ? node->unit_bytes : 0);
    if (node->kind != MIRROR_COPY) {
        out_count->items_per_group = TEST_ITEMS_PER_GROUP;
        out_count->bindable_plus_1 = TEST_BIND_COUNT + 1;
    }
    if (node->count_word_plus_1) {
        out_count->buffer = graph->counts;
        out_count->offset_bytes = (uint64_t)sizeof(uint32_t) * (node->count_word_plus_1 - 1);
        return ROTA_OK;
    }
    ROTA_TRY(rota_recorder_buffer(recorder, ROTA_BUFFER_TRANSIENT, "count", BYTES, &out_count->buffer));
    return rota_record_fill(recorder, out_count->buffer, 0, BYTES, node->count, NULL);
}

rota_status mirror_record_node(mirror_graph *graph, mirror_node *node, rota_recorder *recorder) {
    rota_access accesses[MIRROR_ACCESSES_MAX];
    for (uint32_t k = 0; k < node->access_count; k++) {
        const mirror_access *access = &node->access[k];
        const mirror_buffer *buffer = &graph->buffers[access->buffer];
        bool to_end = access->offset + access->bytes == buffer->bytes;
        accesses[k] =
            (rota_access){buffer->handle, access->offset, to_end ? ROTA_WHOLE : access->bytes, access->mode};
    }
    rota_count count;
    if (node->count_max_plus_1) ROTA_TRY(make_count(graph, node, recorder, &count));
    if (node->kind == MIRROR_COPY && node->count_max_plus_1)
        return rota_record_counted_copy(recorder, accesses[0].buffer, accesses[0].offset_bytes,
                                        accesses[1].buffer, accesses[1].offset_bytes, &count, &node->handle);
    if (node->kind == MIRROR_COPY)
        return rota_record_copy(recorder, accesses[0].buffer, accesses[0].offset_bytes, accesses[1].buffer,
                                accesses[1].offset_bytes, node->access[0].bytes, &node->handle);
    if (node->kind == MIRROR_FILL)
        return rota_record_fill(recorder, accesses[0].buffer, accesses[0].offset_bytes,
                                accesses[0].size_bytes, node->pattern, &node->handle);
    if (node->kind == MIRROR_HOST)
        return rota_record_host(recorder,
                                &ROTA_HOST_NODE(.fn = node->ends_later ? NULL : test_host_function,
                                                .ends_later = node->ends_later ? &hosts_later : NULL,
                                                .user = &node->pattern, .name = "test host",
                                                .accesses = accesses, .access_count = node->access_count),
                                &node->handle);
    rota_param_binding bindings[2] = {
        {TEST_BIND_SEED, node->seed_slot ? graph->slots[node->seed_slot - 1] : ROTA_SLOT_CONSTANT},
        {TEST_BIND_P, {0}}};
    if (node->p_slot) bindings[1].slot = graph->slots[node->p_slot - 1];
    const rota_kernel_node kernel =
        ROTA_KERNEL_NODE(.kernel = &test_kernels[node->kind].kernel, .accesses = accesses,
                         .access_count = node->access_count, .params = &node->params, .bindings = bindings,
                         .binding_count = node->p_slot ? 2 : 1,
                         .placement = {node->device_plus_1, node->queue_plus_1});
    return node->count_max_plus_1 ? rota_record_counted_kernel(recorder, &kernel, &count, &node->handle)
                                  : rota_record_kernel(recorder, &kernel, &node->handle);
}

/* Records the lanes side by side: which lane gets its next node is drawn. */
static rota_status record_nodes(mirror_graph *graph, rota_recorder *const *recorders, uint64_t *random) {
    uint32_t next[MIRROR_LANES_MAX] = {0}, left = graph->node_count;
    for (uint32_t n = graph->node_count; n-- > 0;) next[graph->nodes[n].lane] = n;
    for (uint32_t l = 0; l < graph->lane_count; l++)
        if (graph->node_count == 0 || graph->nodes[next[l]].lane != l) next[l] = graph->node_count;
    while (left) {
        uint32_t lane = test_below(random, graph->lane_count), burst = 1 + test_below(random, 8);
        while (burst-- && next[lane] < graph->node_count && graph->nodes[next[lane]].lane == lane) {
            mirror_node *node = &graph->nodes[next[lane]];
            const mirror_group *group = node->group ? &graph->groups[node->group - 1] : NULL;
            const uint32_t count = group ? group->layers[0].end - group->first : 1;
            ROTA_TRY(group ? decide_record(graph, group, recorders[lane])
                           : mirror_record_node(graph, node, recorders[lane]));
            next[lane] += count;
            left -= count;
        }
    }
    for (uint32_t a = 0; a < graph->after_count; a++) {
        if (graph->afters[a][0] >= graph->node_count) continue;
        const mirror_node *later = &graph->nodes[graph->afters[a][0]],
                          *earlier = &graph->nodes[graph->afters[a][1]];
        ROTA_TRY(rota_node_after(recorders[later->lane], later->handle, earlier->handle));
    }
    return ROTA_OK;
}

rota_status mirror_record(mirror_case *mirror, mirror_graph *graph, uint64_t *random) {
    static const char *const slot_names[MIRROR_SLOTS_MAX] = {"a0", "a1", "a2", "a3", "a4", "a5"};
    rota_recorder *recorders[MIRROR_LANES_MAX] = {0};
    ROTA_TRY(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "fuzz"), &graph->graph));
    uint32_t turn = test_below(random, graph->lane_count);
    rota_status status = ROTA_OK;
    for (uint32_t l = 0; l < graph->lane_count && status == ROTA_OK; l++) {
        uint32_t lane = (l + turn) % graph->lane_count;
        status = rota_recorder_open(graph->graph, graph->lane_key[lane], NULL, &recorders[lane]);
    }
    for (uint32_t s = 0; s < graph->slot_count && status == ROTA_OK; s++)
        status = rota_graph_slot(graph->graph, slot_names[s], graph->slot_bytes[s], &graph->slots[s]);
    if (status == ROTA_OK) status = make_buffers(mirror, graph, recorders);
    if (status == ROTA_OK) status = record_nodes(graph, recorders, random);
    for (uint32_t l = 0; l < graph->lane_count; l++) rota_recorder_close(recorders[l]);
    return status;
}

static uint32_t random_policy(void *user, rota_node node, uint32_t queue_count) {
    const mirror_graph *graph = user;
    uint64_t state = graph->policy_seed ^ ((uint64_t)node.lane << 32 | node.index);
    /* Runs of nodes on one queue, so that segments have some length. */
    if (graph->policy_seed % 3) state = graph->policy_seed ^ ((uint64_t)node.lane << 32 | node.index / 8);
    return test_below(&state, queue_count);
}

/* Any device that may be, the same one for some nodes in a row. */
static rota_status random_placer(void *user, const rota_placing *placing, uint8_t *out_devices) {
    const mirror_graph *graph = user;
    uint64_t random = graph->policy_seed;
    uint32_t wanted = 0;
    for (uint32_t n = 0; n < placing->node_count; n++) {
        if (test_below(&random, 3) == 0) wanted = test_below(&random, placing->device_count);
        const uint32_t possible = placing->nodes[n].possible;
        out_devices[n] = (uint8_t)(possible >> wanted & 1 ? wanted : (uint32_t)__builtin_ctz(possible));
    }
    return ROTA_OK;
}

rota_status mirror_compile(mirror_graph *graph, rota_runtime *runtime, rota_device *const *devices,
                           uint32_t device_count) {
    graph->options.devices = devices;
    graph->options.device_count = device_count;
    graph->options.queue_policy = graph->policy_seed % 4 ? random_policy : NULL;
    graph->options.queue_policy_user = graph;
    graph->options.certify = true;
    if (graph->automatic) {
        graph->options.place_auto = graph->policy_seed % 5 < 3;
        graph->options.placer = graph->policy_seed % 7 < 5 ? random_placer : NULL;
        graph->options.placer_user = graph;
    }
    ROTA_TRY(rota_compile(runtime, graph->graph, &graph->options, &graph->plan));
    return device_count ? rota_args_create(graph->plan, &graph->args) : ROTA_OK;
}

rota_status mirror_set_args(const mirror_case *mirror, mirror_graph *graph, const mirror_replay *replay,
                            bool copy_inputs) {
    for (uint32_t s = 0; s < graph->slot_count; s++)
        ROTA_TRY(graph->slot_bytes[s] == 4
                     ? rota_args_set_u32(graph->args, graph->slots[s], (uint32_t)replay->slot_value[s])
                     : rota_args_set_u64(graph->args, graph->slots[s], replay->slot_value[s]));
    if (graph->counts)
        ROTA_TRY(rota_args_set_input(graph->args, graph->counts, replay->counts, sizeof replay->counts,
                                     copy_inputs));
    for (uint32_t b = 0; b < graph->buffer_count; b++) {
        const mirror_buffer *buffer = &graph->buffers[b];
        if (buffer->is_view) continue;
        if (buffer->kind == ROTA_BUFFER_INPUT)
            ROTA_TRY(rota_args_set_input(graph->args, buffer->handle, replay->data[b], buffer->bytes,
                                         copy_inputs));
        if (buffer->kind == ROTA_BUFFER_OUTPUT)
            ROTA_TRY(rota_args_set_output(graph->args, buffer->handle, replay->data[b], buffer->bytes));
        if (buffer->kind != ROTA_BUFFER_SLOT) continue;
        const mirror_persistent *bound = &mirror->persistents[replay->bound[b]];
        if (replay->bound_offset[b] == 0) {
            ROTA_TRY(rota_args_set_buffer(graph->args, buffer->handle, bound->handle));
            continue;
        }
        rota_buffer *view = NULL;
        ROTA_TRY(rota_buffer_create_view(bound->handle, replay->bound_offset[b], buffer->bytes, &view));
        rota_status status = rota_args_set_buffer(graph->args, buffer->handle, view);
        rota_buffer_release(view); /* What is bound holds it. */
        ROTA_TRY(status);
    }
    return ROTA_OK;
}

void mirror_release(mirror_graph *graph) {
    rota_args_release(graph->args);
    rota_plan_release(graph->plan);
    for (uint32_t b = 0; b < graph->buffer_count; b++)
        if (graph->buffers[b].is_view) rota_buffer_release(graph->buffers[b].handle);
    rota_graph_release(graph->graph);
    graph->args = NULL;
    graph->plan = NULL;
    graph->graph = NULL;
    graph->counts = NULL;
}
