/* A tape does not see what bodies of nodes that decide do to the buffers of its ops, so a gradient would silently
 * leave it out, but where it has a form for them (backward_decides.c). What may be such a case is refused: a body
 * writes a buffer that a gradient flows through, or one that an op of the tape reads, out of what a gradient flows
 * through; or it overwrites, after an op, what that op's gradient reads. Ops with their gradients in one body are as
 * anywhere. */
#include "ops/backward_bodies.h"

#include <stdlib.h>

#include "graph/buffer_internal.h"
#include "graph/conditional_internal.h"
#include "graph/record.h"
#include "ops/backward_decides.h"
#include "ops/gradient.h"

static rota_tape_buffer *entry_of(rota_tape *tape, const rota_conditional *node, uint32_t access) {
    return rota_tape_lookup(tape, &(rota_tensor){.buffer = node->roots[access]});
}

/* Of a newer node than all before it. */
static rota_status note_writes(rota_tape *tape, const rota_conditional *node) {
    const rota_access_record *accesses = rota_node_accesses(node->record);
    for (uint32_t i = 0; i < node->record->access_count; i++) {
        if (ROTA_ACCESS_MODE(&accesses[i]) == ROTA_READ) continue;
        rota_tape_buffer *entry = entry_of(tape, node, i);
        rota_tape_body_write *write = entry ? rota_arena_alloc(&tape->arena, sizeof *write, 8) : NULL;
        if (!write) return rota_backward_no_memory();
        const uint64_t begin = ROTA_ACCESS_OFFSET(&accesses[i]);
        *write =
            (rota_tape_body_write){entry->body_writes, node, begin, begin + rota_access_size(&accesses[i])};
        entry->body_writes = write;
    }
    return ROTA_OK;
}

const rota_conditional *rota_backward_body_that_overwrites(const rota_tape *tape, const rota_tape_use *used,
                                                           const rota_tape_buffer *entry, uint64_t begin,
                                                           uint64_t end) {
    for (const rota_tape_body_write *write = entry->body_writes; write; write = write->next) {
        const rota_recorder *lane = write->node->lane;
        const bool is_after = lane == tape->recorder ? write->node->index >= used->lane_nodes
                                                     : lane->order.key > tape->recorder->order.key;
        if (!is_after) return NULL; /* nor are older ones */
        if (write->begin < end && write->end > begin) return write->node;
    }
    return NULL;
}

/* Why gradients don't flow through the node. */
static const char *why_not(const rota_tape *tape, const rota_conditional *node) {
    return node->lane == tape->recorder
               ? "gradients take bodies of one tape each, with gradients and destroyed by then"
               : "it is in another lane than the tape";
}

/* Gradients flow through the node: but not of what one before it, through which they don't, made. */
static rota_status check_passed(rota_tape *tape, const rota_conditional *node) {
    for (uint32_t i = 0; i < node->record->access_count; i++) {
        const rota_tape_buffer *entry = entry_of(tape, node, i);
        if (!entry) return rota_backward_no_memory();
        if (entry->lost)
            return rota_fail(
                ROTA_UNSUPPORTED,
                "backward: a body of node '%s' reads buffer '%s', which a body of a node without a "
                "gradient writes out of what the gradient flows through",
                rota_node_record_name(node->record), entry->root->name);
    }
    return ROTA_OK;
}

/* Whether a parameter has bytes there. */
static bool is_parameter(const rota_tape_buffer *entry, const rota_access_record *access) {
    const uint64_t begin = ROTA_ACCESS_OFFSET(access), end = begin + rota_access_size(access);
    const uint32_t first = rota_gradient_given_from(entry, begin);
    return first < entry->given_count && entry->given[first]->begin < end;
}

/* What it makes of what is wanted before it is wanted after it. */
static rota_status check_node(rota_tape *tape, const rota_conditional *node) {
    const rota_node_record *record = node->record;
    const rota_access_record *accesses = rota_node_accesses(record);
    bool reads_wanted = false;
    for (uint32_t i = 0; i < record->access_count; i++) {
        const rota_tape_buffer *entry = entry_of(tape, node, i);
        if (!entry) return rota_backward_no_memory();
        reads_wanted |= entry->wanted || is_parameter(entry, &accesses[i]);
        if (entry->wanted && ROTA_ACCESS_MODE(&accesses[i]) != ROTA_READ &&
            (entry->writes || entry->regions || entry->given_count))
            return rota_fail(
                ROTA_UNSUPPORTED,
                "backward: the gradient flows through buffer '%s', which a body of node '%s' writes; %s",
                entry->root->name, rota_node_record_name(record), why_not(tape, node));
    }
    for (uint32_t i = 0; i < record->access_count && reads_wanted; i++) {
        rota_tape_buffer *entry = entry_of(tape, node, i);
        if (!entry) return rota_backward_no_memory();
        if (ROTA_ACCESS_MODE(&accesses[i]) == ROTA_READ || entry->wanted) continue;
        if (entry->first_read != UINT64_MAX)
            return rota_fail(
                ROTA_UNSUPPORTED,
                "backward: an op reads buffer '%s', which a body of node '%s' writes out of what the "
                "gradient flows through; %s",
                entry->root->name, rota_node_record_name(record), why_not(tape, node));
        entry->wanted = entry->lost = true;
    }
    return ROTA_OK;
}

static int compare_nodes(const void *left, const void *right) {
    const rota_conditional *a = *(const rota_conditional *const *)left;
    const rota_conditional *b = *(const rota_conditional *const *)right;
    if (a->lane->order.key != b->lane->order.key) return a->lane->order.key < b->lane->order.key ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* In record order, in which data goes from node to node. */
rota_status rota_backward_check_bodies(rota_tape *tape) {
    pthread_mutex_lock(&tape->graph->mutex);
    const rota_conditional *newest = tape->graph->conditionals; /* which stay as they are */
    pthread_mutex_unlock(&tape->graph->mutex);
    size_t count = 0;
    for (const rota_conditional *it = newest; it; it = it->next) count++;
    if (count == 0) return ROTA_OK;
    const rota_conditional **nodes = malloc(count * sizeof *nodes);
    if (!nodes) return rota_backward_no_memory();
    size_t n = count;
    for (const rota_conditional *it = newest; it; it = it->next) nodes[--n] = it;
    qsort(nodes, count, sizeof *nodes, compare_nodes);
    rota_status status = ROTA_OK;
    for (; n < count && status == ROTA_OK; n++) {
        const bool is_past = nodes[n]->lane == tape->recorder && nodes[n]->index < tape->past_nodes;
        if (rota_decides_has(tape, nodes[n]))
            status = check_passed(tape, nodes[n]);
        else if (!is_past)
            status = check_node(tape, nodes[n]);
        if (status == ROTA_OK) status = note_writes(tape, nodes[n]);
    }
    free(nodes);
    return status;
}
