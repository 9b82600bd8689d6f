/* What a segment's commands touch, node by node, and what outside its plan. */
#include <stdlib.h>

#include "sched/runtime/kinds/plan_externals.h"
#include "sched/runtime/kinds/plan_touch.h"
#include "sched/runtime/kinds/touch.h"
#include "sched/runtime/shared/failed_ranges.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/marks.h"
#include "sched/runtime/shared/runtime.h"

static int compare_nodes(const void *a, const void *b) {
    const rota_exec_command *const *left = a, *const *right = b;
    return (*left)->node < (*right)->node ? -1 : (*left)->node > (*right)->node;
}

/* The part's commands by node; NULL without memory. */
static const rota_exec_command **commands_by_node(const rota_partition *part,
                                                  rota_executable_partition *run_part) {
    if (run_part->by_node || part->desc.command_count == 0) return run_part->by_node;
    const rota_exec_command **sorted = malloc(part->desc.command_count * sizeof *sorted);
    if (!sorted) return NULL;
    for (uint32_t c = 0; c < part->desc.command_count; c++) sorted[c] = &part->desc.commands[c];
    qsort(sorted, part->desc.command_count, sizeof *sorted, compare_nodes);
    run_part->by_node = sorted;
    return sorted;
}

/* The part's commands by node, or NULL, and where in them to begin to look for this one. */
static const rota_exec_command **find_commands(const rota_partition *part, uint32_t part_index, uint32_t node,
                                               uint32_t *out_first) {
    const rota_exec_command **commands =
        commands_by_node(part, &part->plan->executable->partitions[part_index]);
    uint32_t low = 0, high = commands ? part->desc.command_count : 0;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (commands[middle]->node < node)
            low = middle + 1;
        else
            high = middle;
    }
    *out_first = low;
    return commands;
}

/* Where an operand's bytes are. False: host memory of the caller's, or contents of an INPUT. */
static bool operand_range(const rota_submission *submission, uint32_t part_index,
                          const rota_exec_operand *operand, rota_memory_range *out) {
    const rota_plan *plan = submission->plan;
    const rota_partition *part = &plan->partitions[part_index];
    if (operand->is_slot) {
        const rota_plan_word *word = &plan->words[operand->memory];
        if (word->kind != ROTA_WORD_BUFFER) return false;
        const uint64_t *bound =
            rota_submission_bound(submission, plan->executable->arguments.slot_of_buffer[word->index]);
        const rota_buffer *root = (const rota_buffer *)(uintptr_t)bound[0];
        *out = rota_memory_range_of_copy(root->residency, part->device, bound[1] + operand->offset_bytes,
                                         operand->size_bytes);
        return true;
    }
    const rota_plan_memory *memory = &part->memories[operand->memory];
    if (memory->kind == ROTA_EXEC_BASE_PERSISTENT) {
        const rota_device *device =
            memory->is_peer ? plan->partitions[memory->foreign_part].device : part->device;
        *out = rota_memory_range_of_copy(plan->buffers[memory->buffer].buffer->residency, device,
                                         operand->offset_bytes, operand->size_bytes);
        return true;
    }
    const bool own = memory->foreign_part == ROTA_NONE;
    *out = (rota_memory_range){submission,
                               own ? part_index : memory->foreign_part,
                               own ? operand->memory : memory->foreign_memory,
                               operand->offset_bytes,
                               rota_exec_operand_end(operand),
                               ROTA_COPIES_ALL};
    return true;
}

/* Stops at true. */
static bool for_command(rota_runtime *runtime, const rota_work *work, uint32_t part_index,
                        const rota_exec_command *command, rota_touch_fn fn, void *user) {
    const rota_exec_operand *operands = work->submission->plan->partitions[part_index].desc.operands;
    for (uint32_t o = 0; o < command->operand_count; o++) {
        const rota_exec_operand *operand = &operands[command->first_operand + o];
        rota_memory_range where;
        if (operand_range(work->submission, part_index, operand, &where) &&
            fn(runtime, work, &where, operand->mode, user))
            return true;
    }
    return false;
}

bool rota_segment_touch_node(rota_runtime *runtime, const rota_work *work, const void *owner, uint32_t node,
                             rota_touch_fn fn, void *user) {
    if (!owner) return false;
    const rota_submission *submission = work->submission;
    const rota_partition *part = owner;
    uint32_t part_index = (uint32_t)(part - submission->plan->partitions), i;
    const rota_exec_command **commands = find_commands(part, part_index, node, &i);
    for (; i < part->desc.command_count; i++) {
        /* Without memory for the sorted ones each is looked at. */
        const rota_exec_command *command = commands ? commands[i] : &part->desc.commands[i];
        if (commands && command->node != node) break;
        if (command->node == node && for_command(runtime, work, part_index, command, fn, user)) return true;
    }
    return false;
}

/* A copy that rota inserted between devices is no node: bytes move whether they are good or not, and marks
 * with them. False: the command is another one. */
static bool carry_command(rota_runtime *runtime, const rota_work *work, uint32_t part_index,
                          const rota_exec_command *command) {
    const rota_plan *plan = work->submission->plan;
    if (!rota_plan_is_transfer(plan, command->node)) return false;
    const rota_exec_operand *operands = &plan->partitions[part_index].desc.operands[command->first_operand];
    rota_memory_range to, from;
    if (operand_range(work->submission, part_index, &operands[0], &to) &&
        operand_range(work->submission, part_index, &operands[1], &from))
        rota_failed_ranges_carry(runtime, &from, &to, rota_turn_of(work));
    return true;
}

bool rota_segment_carry(rota_runtime *runtime, const rota_work *work, const void *owner, uint32_t node) {
    if (!owner || !rota_plan_is_transfer(work->submission->plan, node)) return false;
    const rota_partition *part = owner;
    uint32_t part_index = (uint32_t)(part - work->submission->plan->partitions), i;
    const rota_exec_command **commands = find_commands(part, part_index, node, &i);
    while (!commands && part->desc.commands[i].node != node) i++;
    return carry_command(runtime, work, part_index, commands ? commands[i] : &part->desc.commands[i]);
}

static rota_memory_range external_range(const rota_work *work, const rota_plan_external *external) {
    uint64_t begin;
    const rota_residency *residency = rota_submission_external(work->submission, external, &begin);
    return rota_memory_range_of_copy(residency, work->device, begin, external->size_bytes);
}

/* What others can see of it: of a plan's only segment that is what lies
 * outside the plan, of others all that their commands do, in order; with `before` alone what comes from outside. */
bool rota_segment_touch(rota_runtime *runtime, const rota_work *work, rota_touch_fn before,
                        rota_touch_fn after, void *user) {
    const rota_plan *plan = work->submission->plan;
    const rota_plan_segment *segment = &plan->segments[work->segment];
    if (plan->segment_count > 1 && after) {
        const rota_partition *part = &plan->partitions[segment->part];
        const rota_exec_segment *commands = &part->desc.segments[segment->index];
        for (uint32_t c = 0; c < commands->command_count; c++) {
            const rota_exec_command *command = &part->desc.commands[commands->first_command + c];
            if (before && carry_command(runtime, work, segment->part, command)) continue;
            if ((before && for_command(runtime, work, segment->part, command, before, user)) ||
                (after && for_command(runtime, work, segment->part, command, after, user)))
                return true;
        }
        return false;
    }
    const rota_plan_external *externals = &plan->externals[segment->first_external];
    for (uint32_t e = 0; before && e < segment->external_count; e++) {
        rota_memory_range where = external_range(work, &externals[e]);
        if (externals[e].flags & ROTA_EXTERNAL_INCOMING && before(runtime, work, &where, ROTA_READ, user))
            return true;
    }
    for (uint32_t e = 0; after && e < segment->external_count; e++) {
        rota_memory_range where = external_range(work, &externals[e]);
        if (externals[e].flags & ROTA_EXTERNAL_WRITE && after(runtime, work, &where, ROTA_WRITE, user))
            return true;
    }
    return false;
}

/* A segment that copies what another part wrote stands for that one's, which is before it. All that lost
 * devices left of what is before it is marked, each work once for them: a submission may have many, all of
 * which are in vain. */
void rota_segment_undone(rota_runtime *runtime, const rota_work *segment) {
    rota_submission *submission = segment->submission;
    const rota_plan *plan = submission->plan;
    if (plan->partition_count == 1) return;
    uint64_t lost = 0;
    for (uint32_t p = 0; p < plan->partition_count; p++)
        if (rota_device_is_lost(plan->partitions[p].device))
            lost |= (uint64_t)1 << plan->partitions[p].device->index;
    rota_submission_undone *undone = &submission->seldom.undone;
    if (undone->number != submission->number || undone->devices != lost)
        *undone = (rota_submission_undone){submission->number, lost, 0};
    for (const rota_work *work = submission->made.works + undone->to; work < segment; work++) {
        undone->to++;
        if (work->step == 0 || !(lost >> work->device->index & 1u)) continue;
        rota_reason reason = {rota_cause_of_loss(runtime, rota_work_point(work)), 0};
        if (reason.cause) (void)rota_segment_touch(runtime, work, NULL, rota_touch_mark_early, &reason);
    }
}
