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
#include "sched/runtime/shared/released.h"
#include "sched/runtime/shared/shell.h"
#include "sched/runtime/shared/runtime.h"

void rota_reclaim_free(rota_dead *dead) {
    rota_runtime *runtime;
    if (dead->kind == ROTA_DEAD_STAGING) {
        rota_staging *block = (rota_staging *)dead;
        runtime = block->device->runtime;
        rota_staging_free_memory(block);
        (void)ra_fetch_sub_release(&runtime->budget.staging_dying, 1); /* with rota_staging_trim */
        return;
    }
    if (dead->kind == ROTA_DEAD_PLAN) {
        rota_plan_run *run = (rota_plan_run *)dead;
        rota_plan *plan = run->plan;
        runtime = plan->runtime;
        (void)pthread_mutex_lock(&runtime->objects.mutex);
        if (run->previous)
            run->previous->next = run->next;
        else
            runtime->objects.runs = run->next;
        if (run->next) run->next->previous = run->previous;
        (void)pthread_mutex_unlock(&runtime->objects.mutex);
        rota_run_destroy(run);
        free(run);
        plan->run = NULL;
        rota_plan_free(plan);
        (void)ra_fetch_sub_release(&runtime->objects.plan_count, 1);
    } else if (dead->kind == ROTA_DEAD_ARGS) {
        rota_args *args = (rota_args *)dead;
        runtime = args->runtime;
        rota_args_destroy(args);
    } else {
        rota_residency *residency = rota_residency_of_dead(dead);
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

/* Oldest first. */
static rota_dead *take_unused(rota_runtime *runtime) {
    rota_assert_owner(&runtime->reclaiming.owner);
    rota_dead *taken = NULL;
    rota_dead_prepend(&taken, rota_dead_take(&runtime->reclaiming.unused)); /* with push_unused */
    return taken;
}

static void free_all(rota_dead *dead) {
    while (dead) {
        rota_dead *next = dead->next;
        rota_reclaim_free(dead);
        dead = next;
    }
}

void *rota_reclaimer_main(void *user) {
    rota_runtime *runtime = user;
    rota_owner_take(&runtime->reclaiming.owner);
    /* Acquire: the order to stop comes after the sequencer's end, and so after its last push. */
    while (!ra_load_acquire(&runtime->reclaiming.stop)) {
        free_all(take_unused(runtime));
        rota_chunk_cache_sweep(rota_clock_ns());
        rota_sleeper_prepare(&runtime->reclaiming.sleeper);
        if (!rota_stack_is_empty_upmc(&runtime->reclaiming.unused) ||
            ra_load_seq_cst(&runtime->reclaiming.stop))
            rota_sleeper_cancel(&runtime->reclaiming.sleeper);
        else
            rota_sleeper_wait(&runtime->reclaiming.sleeper, rota_deadline_after(1000000000u));
    }
    free_all(take_unused(runtime));
    rota_owner_leave(&runtime->reclaiming.owner);
    rota_runtime_thread_ends(runtime);
    ra_store_release(&runtime->reclaiming.thread_ended, 1); /* with rota_runtime_close */
    return NULL;
}
