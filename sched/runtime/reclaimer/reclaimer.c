/* The reclaimer: frees objects whose last use has passed (last_use.c).
 *
 * That is a thread of its own since a driver may keep who frees memory until its device has nothing to do
 * (cuMemFree): for ever, where that device waits for another one that does not get there. Nothing that would
 * end such a wait, and nothing that a submission's end brings about, may wait behind it. */
#include "sched/runtime/reclaimer/reclaimer.h"

#include "base/arena.h"
#include "base/atomic.h"
#include "base/clock.h"
#include "sched/runtime/kinds/released.h"
#include "sched/runtime/shared/handle.h"
#include "sched/runtime/shared/released.h"
#include "sched/runtime/shared/runtime.h"

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
        rota_released_row_of(first)->free(first);
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
