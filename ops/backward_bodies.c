/* A tape does not see what bodies of nodes that decide do to the buffers of its ops, so a gradient would silently leave
 * it out. What may be such a case is refused: a body writes a buffer that a gradient flows through, or one that an op of
 * the tape reads, out of what a gradient flows through. Ops with their gradients in one body are as anywhere. */
#include "ops/backward_bodies.h"

#include "graph/buffer_internal.h"
#include "graph/conditional_internal.h"
#include "graph/record.h"

static rota_tape_buffer *entry_of(rota_tape *tape, const rota_conditional *node, uint32_t access) {
    return rota_tape_lookup(tape, &(rota_tensor){.buffer = node->roots[access]});
}

static rota_status no_memory(void) {
    return rota_fail(ROTA_OUT_OF_MEMORY, "backward: no host memory");
}

/* What one node hands on: *out_spread, that a buffer is wanted now that was not. */
static rota_status check_node(rota_tape *tape, const rota_conditional *node, bool *out_spread) {
    const rota_node_record *record = node->record;
    const rota_access_record *accesses = rota_node_accesses(record);
    bool reads_wanted = false;
    for (uint32_t i = 0; i < record->access_count; i++) {
        const rota_tape_buffer *entry = entry_of(tape, node, i);
        if (!entry) return no_memory();
        reads_wanted |= entry->wanted;
        if (entry->wanted && ROTA_ACCESS_MODE(&accesses[i]) != ROTA_READ && (entry->writes || entry->regions))
            return rota_fail(
                ROTA_UNSUPPORTED,
                "backward: the gradient flows through buffer '%s', which a body of node '%s' writes; "
                "nodes that decide have no gradients",
                entry->root->name, rota_node_record_name(record));
    }
    for (uint32_t i = 0; i < record->access_count && reads_wanted; i++) {
        rota_tape_buffer *entry = entry_of(tape, node, i);
        if (!entry) return no_memory();
        if (ROTA_ACCESS_MODE(&accesses[i]) == ROTA_READ || entry->wanted) continue;
        if (entry->first_read != UINT64_MAX)
            return rota_fail(
                ROTA_UNSUPPORTED,
                "backward: an op reads buffer '%s', which a body of node '%s' writes out of what the "
                "gradient flows through; nodes that decide have no gradients",
                entry->root->name, rota_node_record_name(record));
        entry->wanted = true;
        *out_spread = true;
    }
    return ROTA_OK;
}

rota_status rota_backward_check_bodies(rota_tape *tape) {
    pthread_mutex_lock(&tape->graph->mutex);
    const rota_conditional *newest = tape->graph->conditionals; /* which stay as they are */
    pthread_mutex_unlock(&tape->graph->mutex);
    /* Each round but the last marks a buffer. */
    for (bool spreads = newest != NULL; spreads;) {
        spreads = false;
        for (const rota_conditional *it = newest; it; it = it->next) ROTA_TRY(check_node(tape, it, &spreads));
    }
    return ROTA_OK;
}
