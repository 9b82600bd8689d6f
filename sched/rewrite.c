/* The rewrite hook: a look at the recorded nodes, removal and replacement before hazards are resolved. */
#include "sched/rewrite.h"

#include "sched/compile.h"

struct rota_rewriter {
    rota_compiler *c;
    const rota_node_record **records;               /* NULL: removed */
    rota_access accesses[ROTA_KERNEL_OPERANDS_MAX]; /* of the last view */
};

uint64_t rota_rewriter_node_count(const rota_rewriter *rewriter) {
    return rewriter->c->node_count;
}

static rota_status check_position(const rota_rewriter *rewriter, uint64_t position) {
    if (position >= rewriter->c->node_count)
        return rota_fail(ROTA_OUT_OF_RANGE, "rewrite of graph '%s': node %llu of %u",
                         rewriter->c->graph->name, (unsigned long long)position, rewriter->c->node_count);
    return ROTA_OK;
}

static rota_buffer *buffer_of(const rota_rewriter *rewriter, uint64_t stored) {
    if (!(stored & 1)) return (rota_buffer *)(uintptr_t)stored;
    const rota_graph *graph = rewriter->c->graph;
    uint32_t lane = (uint32_t)(stored >> 32), index = (uint32_t)stored >> 1;
    return lane ? graph->lanes[lane - 1]->buffers[index] : graph->own.buffers[index];
}

rota_status rota_rewriter_view(rota_rewriter *rewriter, uint64_t position, rota_node_view *out_view) {
    *out_view = (rota_node_view){0};
    ROTA_TRY(check_position(rewriter, position));
    const rota_compile_info *info = rewriter->c->info;
    uint32_t low = 0, high = info->lane_count;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (info->lane_first_node[middle] <= position)
            low = middle;
        else
            high = middle;
    }
    out_view->node = (rota_node){info->lanes[low]->lane, (uint32_t)position - info->lane_first_node[low]};
    const rota_node_record *record = rewriter->records[position];
    if (!record) {
        out_view->name = "removed";
        return ROTA_OK;
    }
    out_view->name = rota_node_record_name(record);
    if (record->kind == ROTA_NODE_KERNEL) {
        out_view->kernel = record->u.kernel.kernel;
        out_view->params = rota_node_params(record);
    }
    const rota_access_record *accesses = rota_node_accesses(record);
    for (uint32_t i = 0; i < record->access_count; i++)
        rewriter->accesses[i] =
            (rota_access){buffer_of(rewriter, accesses[i].buffer), ROTA_ACCESS_OFFSET(&accesses[i]),
                          accesses[i].size_bytes, ROTA_ACCESS_MODE(&accesses[i])};
    out_view->accesses = rewriter->accesses;
    out_view->access_count = record->access_count;
    return ROTA_OK;
}

rota_status rota_rewriter_remove(rota_rewriter *rewriter, uint64_t position) {
    ROTA_TRY(check_position(rewriter, position));
    rewriter->records[position] = NULL;
    return ROTA_OK;
}

rota_status rota_rewriter_replace(rota_rewriter *rewriter, uint64_t position, const rota_kernel_node *node) {
    ROTA_TRY(check_position(rewriter, position));
    if (!node->kernel || node->access_count > ROTA_KERNEL_OPERANDS_MAX ||
        node->binding_count > ROTA_KERNEL_BINDABLE_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "rewrite of graph '%s': node %llu: no kernel, or over %d accesses or %d bindings",
                         rewriter->c->graph->name, (unsigned long long)position, ROTA_KERNEL_OPERANDS_MAX,
                         ROTA_KERNEL_BINDABLE_MAX);
    /* A persistent buffer that only the new node names is held by the graph no longer than the plan's own
     * reference, which gather takes. */
    rota_node_record *record = rota_arena_alloc(&rewriter->c->plan->arena, rota_kernel_record_bytes(node), 8);
    if (!record) return rota_compile_no_memory(rewriter->c);
    ROTA_TRY(rota_kernel_record_build(rewriter->c->graph, node, record));
    rewriter->records[position] = record;
    return ROTA_OK;
}

rota_status rota_graph_add_rewrite(rota_graph *graph, rota_rewrite_fn fn, void *user) {
    if (!fn) return rota_fail(ROTA_INVALID_ARGUMENT, "rewrite hook of graph '%s': no function", graph->name);
    return rota_graph_add_hook(graph, (rota_rewrite_opaque_fn)fn, user);
}

rota_status rota_compile_rewrite(rota_compiler *c, const rota_node_record **records) {
    rota_rewriter rewriter = {.c = c, .records = records};
    for (uint32_t i = 0; i < c->graph->hook_count; i++) {
        const rota_rewrite_hook *hook = &c->graph->hooks[i];
        ROTA_TRY(((rota_rewrite_fn)hook->fn)(hook->user, &rewriter));
    }
    return ROTA_OK;
}
