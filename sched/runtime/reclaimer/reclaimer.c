/* The reclaimer: frees objects whose last use has passed (last_use.c).
 *
 * That is a thread of its own since a driver may keep who frees memory until its device has nothing to do
 * (cuMemFree): for ever, where that device waits for another one that does not get there. Nothing that would
 * end such a wait, and nothing that a submission's end brings about, may wait behind it. */
#include <stdlib.h>

#include "base/arena.h"
#include "base/atomic.h"
#include "base/clock.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/memory/residency.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/plans/args.h"
#include "sched/runtime/plans/executable.h"
#include "sched/runtime/plans/handle.h"
#include "sched/runtime/reclaimer/reclaimer.h"
#include "sched/runtime/shared/failed_ranges.h"
#include "sched/runtime/shared/handle.h"
#include "sched/runtime/shared/released.h"
#include "sched/runtime/shared/runtime.h"

void rota_reclaim_free(rota_released *released) {
    rota_runtime *runtime;
    if (released->kind == ROTA_RELEASED_STAGING) {
        rota_staging *block = (rota_staging *)released;
        runtime = block->device->runtime;
        rota_staging_free_memory(block);
        (void)ra_fetch_sub_release(&runtime->budget.staging_dying, 1); /* with rota_staging_trim */
        return;
    }
    if (released->kind == ROTA_RELEASED_PLAN) {
        rota_executable *executable = (rota_executable *)released;
        rota_plan *plan = executable->plan;
        runtime = plan->runtime;
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
    } else if (released->kind == ROTA_RELEASED_ARGS) {
        rota_args *args = (rota_args *)released;
        runtime = args->runtime;
        rota_args_destroy(args);
    } else {
        rota_residency *residency = rota_residency_of_released(released);
        runtime = residency->runtime;
        (void)pthread_mutex_lock(&runtime->objects.mutex);
        if (residency->previous)
            residency->previous->next = residency->next;
        else
            runtime->objects.residencies = residency->next;
        if (residency->next) residency->next->previous = residency->previous;
        (void)pthread_mutex_unlock(&runtime->objects.mutex);
        if (ra_load_acquire(&runtime->failed.active)) rota_poison_drop(runtime, residency->buffer);
        rota_buffer *buffer = residency->buffer;
        rota_residency_destroy(residency, false);
        rota_buffer_free(buffer);
        (void)ra_fetch_sub_release(&runtime->objects.buffer_count, 1);
    }
    (void)ra_fetch_sub_release(&runtime->stats.reclaim_pending, 1);
}

/* The thread's own. */
typedef struct rota_reclaimer {
    rota_runtime *runtime;
    rota_released *taken; /* what it is about to free, oldest first */
} rota_reclaimer;

static void take_unused(rota_reclaimer *reclaimer) {
    rota_runtime *runtime = reclaimer->runtime;
    rota_assert_owner(&runtime->reclaiming.owner);
    rota_released_prepend(&reclaimer->taken,
                          rota_released_take(&runtime->reclaiming.unused)); /* with push_unused */
}

static void free_taken(rota_reclaimer *reclaimer) {
    while (reclaimer->taken) {
        rota_released *first = reclaimer->taken;
        reclaimer->taken = first->next;
        rota_reclaim_free(first);
    }
}

void *rota_reclaimer_main(void *user) {
    rota_runtime *runtime = user;
    rota_reclaimer reclaimer = {.runtime = runtime};
    rota_owner_take(&runtime->reclaiming.owner);
    /* Acquire: the order to stop comes after the sequencer's end, and so after its last push. */
    while (!ra_load_acquire(&runtime->reclaiming.stop)) {
        take_unused(&reclaimer);
        free_taken(&reclaimer);
        rota_chunk_cache_sweep(rota_clock_ns());
        rota_sleeper_prepare(&runtime->reclaiming.sleeper);
        if (!rota_stack_is_empty_upmc(&runtime->reclaiming.unused) ||
            ra_load_seq_cst(&runtime->reclaiming.stop))
            rota_sleeper_cancel(&runtime->reclaiming.sleeper);
        else
            rota_sleeper_wait(&runtime->reclaiming.sleeper, rota_deadline_after(1000000000u));
    }
    take_unused(&reclaimer);
    free_taken(&reclaimer);
    rota_owner_leave(&runtime->reclaiming.owner);
    rota_runtime_thread_ends(runtime);
    ra_store_release(&runtime->reclaiming.thread_ended, 1); /* with rota_runtime_close */
    return NULL;
}
