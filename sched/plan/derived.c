/* What is derived of a plan's operations from the rest of the plan, which does not have it. */
#include "sched/plan/derived.h"

#include "base/assert.h"

/* Workspaces' physicals are one after the other, as the operations are that have them. */
static uint32_t workspace_of(const rota_compile_info *info, uint32_t operation) {
    uint32_t low = 0, high = info->lookup.workspace_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (info->lookup.workspaces[middle] < operation)
            low = middle + 1;
        else
            high = middle;
    }
    return info->lookup.first_workspace + low;
}

/* A graph's buffer by its key, which its records have; in a plan on one device physicals have their numbers. */
static uint32_t in_arena(const rota_plan *plan, const rota_operation *operation, uint32_t number) {
    const rota_compile_info *info = rota_plan_info(plan);
    if (operation->kind != ROTA_OPERATION_NODE) return plan->transfers[operation->node].buffer;
    if (number >= operation->record->access_count)
        return workspace_of(info, (uint32_t)(operation - info->operations));
    const uint64_t stored = rota_access_stored(&rota_node_accesses(operation->record)[number]);
    rota_assert(stored & 1);
    return info->lookup.lane_base[stored >> 32] + ((uint32_t)stored >> 1);
}

uint32_t rota_access_physical(const rota_plan *plan, const rota_operation *operation, uint32_t number) {
    const rota_compile_info *info = rota_plan_info(plan);
    const uint32_t access = operation->first_access + number;
    if (info->access_physical) return info->access_physical[access];
    const rota_exec_operand *operand = &info->accesses[access];
    if (operand->is_slot) {
        const rota_plan_word *word = &plan->words[operand->memory];
        return word->kind == ROTA_WORD_BUFFER ? word->index : ROTA_NONE;
    }
    const rota_plan_memory *memory = &plan->partitions[operation->part].memories[operand->memory];
    if (memory->kind == ROTA_EXEC_BASE_PERSISTENT) return memory->buffer;
    return memory->kind == ROTA_EXEC_BASE_STAGING ? ROTA_NONE : in_arena(plan, operation, number);
}

uint32_t rota_operation_segment(const rota_plan *plan, const rota_operation *operation) {
    const rota_compile_info *info = rota_plan_info(plan);
    return info->lookup.segment_of ? info->lookup.segment_of[operation - info->operations] : 0;
}

uint32_t rota_operation_batch(const rota_plan *plan, const rota_operation *operation) {
    const rota_exec_program_desc *desc = &plan->partitions[operation->part].desc;
    const rota_exec_segment *segment =
        &desc->segments[plan->segments[rota_operation_segment(plan, operation)].index];
    uint32_t low = segment->first_batch, high = low + segment->batch_count;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (desc->batches[middle].first_command <= operation->command)
            low = middle;
        else
            high = middle;
    }
    return low - segment->first_batch;
}
