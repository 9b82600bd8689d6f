/* The reference: runs the nodes of a described graph one by one, in record order, on host arrays. */
#include <stdlib.h>
#include <string.h>
#include "tests/random/decide.h"
#include "tests/random/mirror.h"

static uint8_t *address_of(const mirror_graph *graph, const mirror_access *access) {
    const mirror_buffer *buffer = &graph->buffers[access->buffer];
    return graph->buffers[buffer->root].storage + buffer->root_offset + access->offset;
}

static void assign_storage(mirror_case *mirror, mirror_graph *graph, const mirror_replay *replay) {
    for (uint32_t b = 0; b < graph->buffer_count; b++) {
        mirror_buffer *buffer = &graph->buffers[b];
        if (buffer->is_view) continue;
        switch (buffer->kind) {
        case ROTA_BUFFER_PERSISTENT:
            buffer->storage = mirror->persistents[buffer->persistent].values;
            break;
        case ROTA_BUFFER_SLOT:
            buffer->storage = mirror->persistents[replay->bound[b]].values + replay->bound_offset[b];
            break;
        case ROTA_BUFFER_INPUT:
            buffer->storage = replay->data[b];
            break;
        default:
            buffer->storage = malloc(buffer->bytes);
            if (!buffer->storage) abort();
            memset(buffer->storage, 0xee, buffer->bytes);
        }
    }
}

/* False: too many, and nothing of the node is run. */
static bool take_count(const mirror_node *node, mirror_replay *replay, uint32_t *out_count) {
    *out_count = node->count_word_plus_1 ? replay->counts[node->count_word_plus_1 - 1] : node->count;
    if (!node->count_max_plus_1 || *out_count < node->count_max_plus_1) return true;
    replay->exceeds = true;
    return false;
}

static void run_node(const mirror_graph *graph, const mirror_node *node, mirror_replay *replay) {
    void *operands[MIRROR_ACCESSES_MAX];
    uint64_t bytes[MIRROR_ACCESSES_MAX];
    for (uint32_t k = 0; k < node->access_count; k++) {
        operands[k] = address_of(graph, &node->access[k]);
        bytes[k] = node->access[k].bytes;
    }
    uint32_t count;
    if (!take_count(node, replay, &count)) return;
    if (node->kind == MIRROR_COPY) {
        memcpy(operands[0], operands[1],
               node->count_max_plus_1 ? count * (size_t)node->unit_bytes : bytes[0]);
    } else if (node->kind == MIRROR_FILL) {
        for (uint64_t i = 0; i + 4 <= bytes[0]; i += 4) memcpy((uint8_t *)operands[0] + i, &node->pattern, 4);
    } else if (node->kind == MIRROR_HOST) {
        uint32_t user = node->pattern;
        (void)test_host_function(&user, operands, bytes, node->access_count);
    } else {
        test_params params = node->params;
        if (node->p_slot) params.p = (uint32_t)replay->slot_value[node->p_slot - 1];
        if (node->seed_slot) params.seed = replay->slot_value[node->seed_slot - 1];
        const rota_kernel *kernel = &test_kernels[node->kind].kernel;
        rota_kernel_call call = {operands, &params, 0, 0, 0, node->access_count, bytes, NULL};
        uint64_t grain;
        kernel->cpu.items(&params, bytes, &call.items, &grain);
        if (node->count_max_plus_1) call.items = count;
        call.end = call.items;
        if (call.items) (void)kernel->cpu.fn(&call);
    }
}

void reference_run(mirror_case *mirror, mirror_graph *graph, mirror_replay *replay) {
    assign_storage(mirror, graph, replay);
    for (uint32_t n = 0; n < graph->node_count;) {
        const uint32_t group = graph->nodes[n].group;
        if (!group) {
            run_node(graph, &graph->nodes[n++], replay);
            continue;
        }
        decide_run(graph, &graph->groups[group - 1], 0, replay, run_node);
        n = graph->groups[group - 1].layers[0].end;
    }
    for (uint32_t b = 0; b < graph->buffer_count; b++) {
        mirror_buffer *buffer = &graph->buffers[b];
        if (buffer->is_view) continue;
        if (buffer->kind == ROTA_BUFFER_OUTPUT)
            replay->expected[b] = buffer->storage;
        else if (buffer->kind == ROTA_BUFFER_TRANSIENT)
            free(buffer->storage);
        buffer->storage = NULL;
    }
}

int64_t reference_compare(const mirror_buffer *buffer, const uint8_t *expected, const uint8_t *got) {
    for (uint32_t i = 0; i < buffer->bytes; i++)
        if ((!buffer->defined || buffer->defined[i]) && expected[i] != got[i]) return i;
    return -1;
}
