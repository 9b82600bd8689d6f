/* What operations are called, and which one is a node's. */
#include "sched/plan/names.h"

#include <stdio.h>
#include "graph/record.h"
#include "sched/plan/derived.h"
#include "sched/plan/operations.h"

const char *rota_edge_name(rota_edge_kind kind) {
    static const char *const names[ROTA_EDGE_KIND_COUNT] = {"RAW", "WAR", "WAW", "memory", "after"};
    return names[kind];
}

const char *rota_operation_name(const rota_plan *plan, uint32_t operation) {
    const rota_operation *it = &rota_plan_info(plan)->operations[operation];
    switch ((rota_operation_kind)it->kind) {
    case ROTA_OPERATION_NODE:
        return rota_node_record_name(it->record);
    case ROTA_OPERATION_UPLOAD:
        return "upload";
    case ROTA_OPERATION_DOWNLOAD:
        return "read back";
    case ROTA_OPERATION_TRANSFER:
        return "transfer";
    }
    return "node";
}

const char *rota_operation_describe(const rota_plan *plan, uint32_t operation) {
    static _Thread_local char text[256];
    const rota_compile_info *info = rota_plan_info(plan);
    const rota_operation *it = &info->operations[operation];
    if (it->kind == ROTA_OPERATION_NODE) {
        uint32_t lane = rota_lane_of_node(info, it->node);
        (void)snprintf(text, sizeof text, "node '%s' (lane %u '%s', node %u)",
                       rota_node_record_name(it->record), info->lanes[lane]->lane, info->lanes[lane]->name,
                       it->node - info->lane_first_node[lane]);
    } else {
        const uint32_t access = it->kind == ROTA_OPERATION_DOWNLOAD ? 1 : 0;
        const uint32_t buffer = rota_physical_buffer(info, rota_access_physical(plan, it, access));
        (void)snprintf(text, sizeof text, "%s of buffer '%s'", rota_operation_name(plan, operation),
                       plan->buffers[buffer].buffer->name);
    }
    return text;
}

const char *rota_plan_node_name(const void *part, uint32_t node) {
    return rota_operation_name(((const rota_partition *)part)->plan, node);
}

rota_status rota_plan_operation_of(const rota_plan *plan, rota_node node, uint32_t *out_operation) {
    const rota_compile_info *info = rota_plan_info(plan);
    if (node.lane == 0 || node.lane > info->lane_count)
        return rota_fail(ROTA_NOT_FOUND, "plan '%s' has lanes 1 to %u, no lane %u", plan->name,
                         info->lane_count, node.lane);
    uint32_t rank = info->lane_rank[node.lane - 1];
    if (node.index >= info->lanes[rank]->node_count)
        return rota_fail(ROTA_NOT_FOUND, "plan '%s': lane %u '%s' has %u nodes, no node %u", plan->name,
                         node.lane, info->lanes[rank]->name, info->lanes[rank]->node_count, node.index);
    *out_operation = rota_operation_of(info, info->lane_first_node[rank] + node.index);
    if (*out_operation == ROTA_NONE)
        return rota_fail(ROTA_NOT_FOUND, "plan '%s': node %u of lane %u '%s' was rewritten away", plan->name,
                         node.index, node.lane, info->lanes[rank]->name);
    return ROTA_OK;
}

uint64_t rota_access_buffer_offset(const rota_plan *plan, const rota_operation *operation, uint32_t number) {
    const rota_compile_info *info = rota_plan_info(plan);
    const rota_plan_physical *physical = &info->physicals[rota_access_physical(plan, operation, number)];
    return info->accesses[operation->first_access + number].offset_bytes -
           (physical->packed ? physical->offset_bytes : 0);
}

bool rota_operation_count_text(const rota_plan *plan, uint32_t operation, char *text, size_t capacity) {
    const rota_compile_info *info = rota_plan_info(plan);
    const rota_operation *it = &info->operations[operation];
    if (it->kind != ROTA_OPERATION_NODE || !it->record->is_counted) return false;
    const uint32_t access = it->access_count - 1u;
    const uint32_t buffer = rota_physical_buffer(info, rota_access_physical(plan, it, access));
    const unsigned long long offset = rota_access_buffer_offset(plan, it, access);
    (void)snprintf(text, capacity, "count in buffer '%s', bytes [%llu, %llu), at most %u",
                   plan->buffers[buffer].buffer->name, offset, offset + sizeof(uint32_t),
                   rota_node_count_max(it->record));
    return true;
}
