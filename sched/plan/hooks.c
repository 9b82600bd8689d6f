/* The rewrite hook: a look at the recorded nodes, removal and replacement before hazards are resolved. */
#include "sched/plan/hooks.h"
#include "base/given.h"

#include <string.h>

#include "base/sized_copy.h"
#include "graph/record.h"
#include "sched/plan/placing.h"

struct rota_rewriter {
    rota_compiler *c;
    const rota_node_record **records;                  /* NULL: removed */
    rota_access accesses[ROTA_OPERATION_ACCESSES_MAX]; /* of the last view */
    uint8_t *ordered; /* by node: stands in a rota_node_after; NULL: none does */
};

/* Marks the nodes that rota_node_after names. A handle that names none is the hazards' to refuse. */
static rota_status find_ordered(rota_rewriter *rewriter) {
    rota_compiler *c = rewriter->c;
    const rota_compile_info *info = c->info;
    uint64_t count = 0;
    for (uint32_t i = 0; i < info->lane_count; i++) count += info->lanes[i]->afters.count;
    if (count == 0) return ROTA_OK;
    rewriter->ordered = rota_arena_calloc(&c->scratch, c->node_count, 1);
    if (!rewriter->ordered) return rota_compile_no_memory(c);
    for (uint32_t i = 0; i < info->lane_count; i++)
        for (uint32_t k = 0; k < info->lanes[i]->afters.count; k++) {
            const rota_after *after = &info->lanes[i]->afters.list[k];
            const rota_node pair[2] = {after->later, after->earlier};
            for (uint32_t e = 0; e < 2; e++) {
                if (pair[e].lane == 0 || pair[e].lane > info->lane_count) continue;
                const uint32_t rank = info->lane_rank[pair[e].lane - 1];
                if (pair[e].index < info->lanes[rank]->node_count)
                    rewriter->ordered[info->lane_first_node[rank] + pair[e].index] = 1;
            }
        }
    return ROTA_OK;
}

uint64_t rota_rewriter_node_count(const rota_rewriter *rewriter) {
    return rewriter ? rewriter->c->node_count : 0;
}

static rota_status check_position(const rota_rewriter *rewriter, uint64_t position) {
    if (position >= rewriter->c->node_count)
        return rota_fail(ROTA_OUT_OF_RANGE, "rewrite of graph '%s': node %llu of %u",
                         rewriter->c->graph->name, (unsigned long long)position, rewriter->c->node_count);
    return ROTA_OK;
}

static rota_buffer *buffer_of(const rota_rewriter *rewriter, uint64_t stored) {
    if (!(stored & 1)) return ROTA_ACCESS_BUFFER(stored);
    const rota_graph *graph = rewriter->c->graph;
    uint32_t lane = (uint32_t)(stored >> 32), index = (uint32_t)stored >> 1;
    return rota_lane_buffer(lane ? graph->lanes[lane - 1] : &graph->own, index);
}

static void view(rota_rewriter *rewriter, uint64_t position, rota_node_view *out_view) {
    const rota_compile_info *info = rewriter->c->info;
    const uint32_t lane = rota_lane_of_node(info, (uint32_t)position);
    out_view->node = (rota_node){info->lanes[lane]->lane, (uint32_t)position - info->lane_first_node[lane]};
    const rota_node_record *record = rewriter->records[position];
    if (!record) {
        out_view->name = "removed";
        return;
    }
    out_view->name = rota_node_record_name(record);
    if (record->kind == ROTA_NODE_KERNEL && !record->is_counted) {
        out_view->kernel = record->u.kernel.kernel;
        out_view->params = rota_node_params(record);
        memcpy(out_view->groups, record->u.kernel.groups, sizeof out_view->groups);
    }
    if (record->kind == ROTA_NODE_FILL) out_view->fill_plus_1 = (uint64_t)record->u.fill.pattern + 1;
    out_view->bindings = rota_node_bindings(record);
    out_view->binding_count = record->binding_count;
    out_view->placement = (rota_placement){
        rota_compile_device_plus_1(rewriter->c, record, (uint32_t)position), record->queue_plus_1};
    out_view->ordered = rewriter->ordered && rewriter->ordered[position];
    const rota_access_record *accesses = rota_node_accesses(record);
    for (uint32_t i = 0; i < record->access_count; i++)
        rewriter->accesses[i] = (rota_access){buffer_of(rewriter, rota_access_stored(&accesses[i])),
                                              ROTA_ACCESS_OFFSET(&accesses[i]),
                                              rota_access_size(&accesses[i]), ROTA_ACCESS_MODE(&accesses[i])};
    out_view->accesses = rewriter->accesses;
    out_view->access_count = record->access_count;
}

rota_status rota_rewriter_view(rota_rewriter *rewriter, uint64_t position, rota_node_view *out_view) {
    ROTA_GIVEN(rewriter);
    ROTA_GIVEN(out_view);
    ROTA_TRY(rota_sized_check(out_view->struct_size, "rota_node_view"));
    rota_node_view made = ROTA_NODE_VIEW();
    rota_status status = check_position(rewriter, position);
    if (status == ROTA_OK) view(rewriter, position, &made);
    rota_sized_out(out_view, &made, sizeof made);
    return status;
}

bool rota_rewriter_owns(const rota_rewriter *rewriter, const rota_buffer *buffer) {
    return rewriter && buffer && buffer->kind == ROTA_BUFFER_TRANSIENT && buffer->graph == rewriter->c->graph;
}

rota_status rota_rewriter_remove(rota_rewriter *rewriter, uint64_t position) {
    ROTA_GIVEN(rewriter);
    ROTA_TRY(check_position(rewriter, position));
    rewriter->records[position] = NULL;
    return ROTA_OK;
}

rota_status rota_rewriter_merge(rota_rewriter *rewriter, uint64_t position, uint64_t into) {
    ROTA_GIVEN(rewriter);
    rota_compiler *c = rewriter->c;
    ROTA_TRY(check_position(rewriter, position));
    ROTA_TRY(check_position(rewriter, into));
    if (position == into)
        return rota_fail(ROTA_INVALID_ARGUMENT, "rewrite of graph '%s': node %llu merged into itself",
                         c->graph->name, (unsigned long long)position);
    if (!c->merged_into) {
        c->merged_into = rota_arena_alloc(&c->scratch, sizeof *c->merged_into * c->node_count, 4);
        if (!c->merged_into) return rota_compile_no_memory(c);
        memset(c->merged_into, 0xFF, sizeof *c->merged_into * c->node_count); /* ROTA_NONE */
    }
    rewriter->records[position] = NULL;
    c->merged_into[position] = (uint32_t)into;
    c->plan->stats.merged++;
    return ROTA_OK;
}

rota_status rota_rewriter_note(rota_rewriter *rewriter, uint64_t position, const char *text) {
    ROTA_GIVEN(rewriter);
    ROTA_GIVEN(text);
    rota_compiler *c = rewriter->c;
    ROTA_TRY(check_position(rewriter, position));
    rota_compile_note *note = rota_arena_alloc(&c->plan->arena, sizeof *note, 8);
    if (!note) return rota_compile_no_memory(c);
    *note = (rota_compile_note){c->info->notes, (uint32_t)position, rota_arena_strdup(&c->plan->arena, text)};
    if (!note->text) return rota_compile_no_memory(c);
    c->info->notes = note;
    return ROTA_OK;
}

rota_status rota_rewriter_target(const rota_rewriter *rewriter, const rota_placement *placement,
                                 rota_rewrite_target *out_target) {
    ROTA_GIVEN(rewriter);
    ROTA_GIVEN(placement);
    ROTA_GIVEN(out_target);
    ROTA_TRY(rota_sized_check(out_target->struct_size, "rota_rewrite_target"));
    const rota_compiler *c = rewriter->c;
    rota_rewrite_target made = ROTA_REWRITE_TARGET();
    /* A body has one device, which placements name as around it. */
    const uint32_t first = c->graph->outer ? c->devices->index : 0;
    const bool is_placed = placement->device_plus_1 && placement->device_plus_1 != ROTA_PLACE_AUTO;
    const uint32_t index = is_placed ? placement->device_plus_1 - 1 - first : 0;
    if (index < c->devices->count) {
        const rota_device_traits *device = &c->devices->all[index];
        made = (rota_rewrite_target){sizeof made, true, device->kind, device->features, device->cuda, 0};
    }
    made.memory_limit_bytes = c->memory.rewrite_limit;
    rota_sized_out(out_target, &made, sizeof made);
    return ROTA_OK;
}

rota_status rota_rewriter_replace(rota_rewriter *rewriter, uint64_t position, const rota_kernel_node *node) {
    ROTA_GIVEN(rewriter);
    ROTA_GIVEN(node);
    ROTA_TRY(check_position(rewriter, position));
    rota_kernel_node room;
    if (!(node = ROTA_SIZED_IN(rota_kernel_node, node, &room))) return ROTA_INVALID_ARGUMENT;
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
    ROTA_TRY(rota_kernel_record_build(rewriter->c->graph, node, &rewriter->c->plan->arena, record));
    rewriter->records[position] = record;
    return ROTA_OK;
}

rota_status rota_graph_add_rewrite(rota_graph *graph, rota_rewrite_fn fn, void *user) {
    ROTA_GIVEN(graph);
    ROTA_GIVEN(fn);
    if (!fn) return rota_fail(ROTA_INVALID_ARGUMENT, "rewrite hook of graph '%s': no function", graph->name);
    return rota_graph_add_hook(graph, (rota_rewrite_opaque_fn)fn, user);
}

rota_status rota_compile_rewrite(rota_compiler *c, const rota_node_record **records) {
    rota_rewriter rewriter = {.c = c, .records = records};
    if (c->graph->hook_count) ROTA_TRY(find_ordered(&rewriter));
    for (uint32_t i = 0; i < c->graph->hook_count; i++) {
        const rota_rewrite_hook *hook = &c->graph->hooks[i];
        ROTA_TRY(((rota_rewrite_fn)hook->fn)(hook->user, &rewriter));
    }
    return ROTA_OK;
}
