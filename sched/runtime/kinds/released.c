/* The table of released objects: plans, argument sets, buffers, and blocks of staging memory. */
#include "sched/runtime/kinds/released.h"

#include <stdlib.h>

#include "base/atomic.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/memory/ranges.h"
#include "sched/runtime/memory/residency.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/order/replay.h"
#include "sched/runtime/plans/args.h"
#include "sched/runtime/plans/executable.h"
#include "sched/runtime/plans/handle.h"
#include "sched/runtime/plans/instances.h"
#include "sched/runtime/shared/cancel.h"
#include "sched/runtime/shared/failed_ranges.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/timeline.h"

/* With rota_runtime_get_stats. */
static void note_freed(rota_runtime *runtime) {
    (void)ra_fetch_sub_release(&runtime->stats.reclaim_pending, 1);
}

/* ---- Plans ---- */

static bool plan_is_unused(rota_runtime *runtime, rota_released *released) {
    (void)runtime;
    const rota_executable *executable = (const rota_executable *)released;
    return executable->order.unreaped == 0 && !rota_executable_is_asked_for(executable);
}

static void plan_leave(rota_released *released) {
    rota_replay_release((rota_executable *)released);
}

static bool plan_is_of(const rota_released *released, uint64_t devices) {
    return (((const rota_executable *)released)->device_mask & devices) != 0;
}

static void plan_free(rota_released *released) {
    rota_executable *executable = (rota_executable *)released;
    rota_plan *plan = executable->plan;
    rota_runtime *runtime = plan->runtime;
    (void)pthread_mutex_lock(&runtime->objects.mutex);
    if (executable->previous)
        executable->previous->next = executable->next;
    else
        runtime->objects.executables = executable->next;
    if (executable->next) executable->next->previous = executable->previous;
    (void)pthread_mutex_unlock(&runtime->objects.mutex);
    rota_executable_destroy(executable);
    free(executable);
    plan->executable = NULL;
    rota_plan_free(plan);
    (void)ra_fetch_sub_release(&runtime->objects.plan_count, 1);
    note_freed(runtime);
}

/* ---- Argument sets ---- */

static bool args_are_unused(rota_runtime *runtime, rota_released *released) {
    (void)runtime;
    return rota_args_idle((const rota_args *)released);
}

static void args_free(rota_released *released) {
    rota_args *args = (rota_args *)released;
    rota_runtime *runtime = args->runtime;
    rota_args_destroy(args);
    note_freed(runtime);
}

/* ---- Buffers ---- */

static bool range_passed(rota_runtime *runtime, const rota_range *range) {
    if (!rota_point_passed(runtime, range->writer)) return false;
    for (uint32_t r = 0; r < range->reader_count; r++)
        if (!rota_point_passed(runtime, range->readers[r])) return false;
    return true;
}

static bool buffer_is_unused(rota_runtime *runtime, rota_released *released) {
    rota_residency *residency = rota_residency_of_released(released);
    if (ra_load_relaxed(&residency->kept)) return false;
    if (residency->owner) rota_replay_disown(residency); /* it was in a slot of replays since */
    for (const rota_range *range = &residency->first; range; range = range->next)
        if (!range_passed(runtime, range)) return false;
    return true;
}

/* Those that it has memory on. */
static bool buffer_is_touched_by(const rota_released *released, uint64_t devices) {
    const rota_residency *residency = rota_residency_of_released(released);
    for (; devices; devices &= devices - 1)
        if (ra_load_acquire(&residency->memory[__builtin_ctzll(devices)])) return true;
    return false;
}

static void buffer_free(rota_released *released) {
    rota_residency *residency = rota_residency_of_released(released);
    rota_runtime *runtime = residency->runtime;
    (void)pthread_mutex_lock(&runtime->objects.mutex);
    if (residency->previous)
        residency->previous->next = residency->next;
    else
        runtime->objects.residencies = residency->next;
    if (residency->next) residency->next->previous = residency->previous;
    (void)pthread_mutex_unlock(&runtime->objects.mutex);
    if (rota_failed_is_any(ra_load_acquire(&runtime->failed.active)))
        rota_poison_drop(runtime, residency->buffer);
    rota_buffer *buffer = residency->buffer;
    rota_residency_destroy(residency, false);
    rota_buffer_free(buffer);
    (void)ra_fetch_sub_release(&runtime->objects.buffer_count, 1);
    note_freed(runtime);
}

/* ---- Blocks of staging memory, of which nothing is pending once they are given ---- */

static void staging_free(rota_released *released) {
    rota_staging *block = (rota_staging *)released;
    rota_runtime *runtime = block->device->runtime;
    rota_staging_free_memory(block);
    (void)ra_fetch_sub_release(&runtime->budget.staging_dying, 1); /* with rota_staging_trim */
}

const rota_released_row rota_released_rows[] = {
    [ROTA_RELEASED_BUFFER] = {.is_unused = buffer_is_unused,
                              .is_touched_by = buffer_is_touched_by,
                              .free = buffer_free},
    [ROTA_RELEASED_PLAN] = {.is_unused = plan_is_unused,
                            .leave = plan_leave,
                            .is_of = plan_is_of,
                            .free = plan_free},
    [ROTA_RELEASED_ARGS] = {.is_unused = args_are_unused, .free = args_free},
    [ROTA_RELEASED_STAGING] = {.free = staging_free},
};
