/* A replay described, for who waits for it. */
#include "sched/runtime/kinds/plan_describe.h"

#include "base/atomic.h"
#include "sched/plan/compiled.h"
#include "sched/runtime/plans/executable.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/text.h"
#include "sched/runtime/shared/timeline.h"
#include "sched/runtime/shared/work.h"

const char *rota_kind_plan_name(const rota_submission *submission) {
    return submission->plan->name;
}

static void describe_segment(const rota_submission *submission, const rota_work *work, char *text,
                             size_t capacity, size_t *length) {
    const rota_plan *plan = submission->plan;
    const rota_plan_segment *segment = &plan->segments[work->segment];
    const rota_partition *part = &plan->partitions[segment->part];
    const rota_exec_segment *commands = &part->desc.segments[segment->index];
    if (commands->command_count > 0) {
        uint32_t first = part->desc.commands[commands->first_command].node;
        uint32_t last = part->desc.commands[commands->first_command + commands->command_count - 1].node;
        rota_append(text, capacity, length, ", segment %u of queue %u on '%s' from node '%s' to node '%s'",
                    work->segment, work->queue, work->device->id, rota_plan_node_name(part, first),
                    rota_plan_node_name(part, last));
    }
    const rota_exec_device_vtable *vtable = work->device->exec->vtable;
    rota_executable *executable = plan->executable;
    if (!vtable->stuck_node || !ra_load_acquire(&executable->instances[submission->instance].created)) return;
    rota_exec_stuck stuck = {0};
    if (!vtable->stuck_node(work->device->exec,
                            executable->instances[submission->instance].parts[segment->part], &stuck))
        return;
    rota_append(text, capacity, length, ", stuck at node '%s'", rota_plan_node_name(part, stuck.node));
    if (stuck.iterations && rota_plan_decides(plan, stuck.node))
        rota_append(text, capacity, length, ", iteration %llu", (unsigned long long)(stuck.iterations - 1));
    if (stuck.body_owner)
        rota_append(text, capacity, length, ", in its body at node '%s'",
                    rota_plan_node_name(stuck.body_owner, stuck.body_node));
}

/* The smallest segment that has not passed. */
void rota_kind_plan_describe(rota_runtime *runtime, const rota_submission *submission, char *text,
                             size_t capacity, size_t *length) {
    const rota_plan *plan = submission->plan;
    const rota_work *smallest = NULL;
    uint32_t smallest_size = UINT32_MAX;
    for (uint32_t i = 0; i < submission->made.work_count; i++) {
        const rota_work *work = &submission->made.works[i];
        if (work->step == 0 || rota_point_passed(runtime, rota_work_point(work))) continue;
        const rota_plan_segment *segment = &plan->segments[work->segment];
        const uint32_t size = plan->partitions[segment->part].desc.segments[segment->index].command_count;
        if (size == 0 || size >= smallest_size) continue;
        smallest = work;
        smallest_size = size;
    }
    if (smallest) describe_segment(submission, smallest, text, capacity, length);
}
