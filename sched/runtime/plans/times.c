/* When a plan's commands ran in its last completed replay. */
#include <stdlib.h>
#include "base/arena.h"
#include "base/atomic.h"
#include "base/given.h"
#include "base/sized_copy.h"
#include "sched/plan/commands.h"
#include "sched/plan/names.h"
#include "sched/plan/operations.h"
#include "sched/runtime/plans/executable.h"
#include "sched/runtime/plans/handle.h"
#include "sched/runtime/plans/times.h"
#include "sched/runtime/shared/devices.h"
#include "sched/runtime/shared/mailboxes.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/submission.h"
#include "sched/runtime/shared/timeline.h"

/* Host times of the last completed replay, and the instance that ran it. */
static rota_status last_replay(rota_plan *plan, rota_plan_replay_times *out_times, uint32_t *out_instance) {
    ROTA_TRY(rota_plan_check(plan));
    rota_runtime *runtime = plan->runtime;
    if (!runtime->options.diagnostics)
        return rota_fail(ROTA_WRONG_STATE, "plan '%s': times need a runtime opened with diagnostics",
                         plan->name);
    rota_sequencer_reap_now(runtime);
    (void)pthread_mutex_lock(&runtime->objects.times_mutex);
    *out_times = plan->executable->times.replay;
    *out_instance = plan->executable->times.instance;
    (void)pthread_mutex_unlock(&runtime->objects.times_mutex);
    if (out_times->number == 0)
        return rota_fail(ROTA_WRONG_STATE, "plan '%s' has completed no replay", plan->name);
    return ROTA_OK;
}

/* Whether a replay that was submitted before this one is under way still: it was, all the time. What has come to its
 * end meanwhile is known by when. */
static bool is_within_another(rota_runtime *runtime, uint64_t number) {
    const uint32_t devices = ra_load_acquire(&runtime->device_count); /* pairs with who adds one */
    for (uint32_t d = 0; d < devices; d++)
        for (uint32_t q = 0; q < runtime->devices[d]->queues_used; q++) {
            const rota_submission *other = runtime->devices[d]->timelines[q].order.oldest;
            for (; other && other->number < number; other = other->next)
                if (other->plan && !rota_point_passed(runtime, other->final_point)) return true;
        }
    return false;
}

void rota_executable_note_replay(const rota_plan *plan, uint32_t instance,
                                 const rota_plan_replay_times *times, bool was_held) {
    rota_objects_shared *objects = &plan->runtime->objects;
    rota_executable_times_shared *kept = &plan->executable->times;
    const bool was_disturbed = was_held || is_within_another(plan->runtime, times->number);
    (void)pthread_mutex_lock(&objects->times_mutex);
    kept->replay = *times;
    kept->replay.was_alone = !was_disturbed && times->submitted_ns >= objects->last_replay_ended_ns;
    kept->instance = instance;
    if (objects->last_replay_ended_ns < times->completed_ns)
        objects->last_replay_ended_ns = times->completed_ns;
    (void)pthread_mutex_unlock(&objects->times_mutex);
}

rota_status rota_executable_times(rota_plan *plan, uint32_t part, rota_exec_time *out) {
    rota_plan_replay_times replay;
    uint32_t instance;
    ROTA_TRY(last_replay(plan, &replay, &instance));
    rota_device *device = plan->executable->partitions[part].device;
    if (!device->exec->vtable->times)
        return rota_fail(ROTA_UNSUPPORTED, "device '%s' measures no times", device->id);
    const rota_instance *of = &plan->executable->instances[instance];
    if (!ra_load_acquire(&of->created)) /* with rota_instance_make */
        return rota_fail(ROTA_WRONG_STATE, "plan '%s': the last replay failed before it reached a device",
                         plan->name);
    return device->exec->vtable->times(device->exec, of->parts[part], out);
}

rota_status rota_executable_replay_times(rota_plan *plan, rota_plan_replay_times *out) {
    uint32_t instance;
    return last_replay(plan, out, &instance);
}

rota_status rota_plan_node_times(rota_plan *plan, rota_node node, uint64_t *out_begin_ns,
                                 uint64_t *out_end_ns) {
    ROTA_GIVEN(plan);
    ROTA_GIVEN(out_begin_ns);
    ROTA_GIVEN(out_end_ns);
    *out_begin_ns = *out_end_ns = 0;
    uint32_t operation;
    ROTA_TRY(rota_plan_operation_of(plan, node, &operation));
    const rota_operation *it = &rota_plan_info(plan)->operations[operation];
    rota_arena arena = ROTA_ARENA_INIT;
    rota_exec_time *times =
        rota_arena_calloc(&arena, sizeof *times * (plan->partitions[it->part].desc.command_count + 1u), 8);
    rota_status status =
        !times ? rota_fail(ROTA_OUT_OF_MEMORY, "times of plan '%s': no host memory", plan->name)
        : !plan->executable
            ? rota_fail(ROTA_WRONG_STATE, "plan '%s' has no times: " ROTA_PLAN_ANALYSED, plan->name)
            : rota_executable_times(plan, it->part, times);
    if (status == ROTA_OK) {
        *out_begin_ns = times[it->command].begin_ns;
        *out_end_ns = times[it->command].end_ns;
    }
    rota_arena_free(&arena);
    return status;
}

rota_status rota_plan_command_times(rota_plan *plan, rota_plan_time *out_times, uint64_t capacity,
                                    rota_plan_replay *out_replay) {
    ROTA_GIVEN(plan);
    ROTA_GIVEN_ARRAY(out_times, capacity);
    const rota_compile_info *info = plan->compile_info;
    rota_plan_replay_times replay;
    if (out_replay) ROTA_TRY(rota_sized_check(out_replay->struct_size, "rota_plan_replay"));
    ROTA_TRY(rota_plan_check_capacity(plan, capacity));
    ROTA_TRY(rota_executable_replay_times(plan, &replay));
    if (out_replay) {
        const rota_plan_replay made = {sizeof made,         replay.number,         replay.submitted_ns,
                                       replay.sequenced_ns, replay.handed_over_ns, replay.completed_ns};
        rota_sized_out(out_replay, &made, sizeof made);
    }
    for (uint32_t p = 0; p < plan->partition_count; p++) {
        const rota_exec_program_desc *desc = &plan->partitions[p].desc;
        rota_exec_time *times = calloc(desc->command_count + 1u, sizeof *times);
        if (!times) return rota_fail(ROTA_OUT_OF_MEMORY, "times of plan '%s': no host memory", plan->name);
        rota_status status = rota_executable_times(plan, p, times);
        for (uint32_t n = 0; status == ROTA_OK && n < info->operation_count; n++) {
            const rota_operation *it = &info->operations[n];
            if (it->part == p)
                out_times[n] = (rota_plan_time){times[it->command].begin_ns, times[it->command].end_ns};
        }
        free(times);
        ROTA_TRY(status);
    }
    return ROTA_OK;
}
