/* What one thread gives another: pushed on the other's stack, or asked of it, and it is woken. */
#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "sched/runtime/shared/mailboxes.h"
#include "sched/runtime/shared/released.h"
#include "sched/runtime/shared/runtime.h"

void rota_reclaim_push(rota_runtime *runtime, rota_released *released) {
    (void)ra_fetch_add_relaxed(&runtime->stats.reclaim_pending, 1);
    /* Releases the object to the take in rota_sequencer_round; ordered with its sleep flag. */
    rota_stack_push_upmc(&runtime->sequencing.released, &released->entry);
    rota_sleeper_wake(&runtime->sequencing.sleeper);
}

/* Releases to the take in take_unused what the sequencer saw of the object's uses: points that have
 * passed, and submissions that the completer and the executors are through with (each seen by an acquire). So
 * the reclaimer comes after them all. Ordered with its sleep flag. */
void rota_reclaim_push_unused(rota_runtime *runtime, rota_released *released) {
    rota_stack_push_upmc(&runtime->reclaiming.unused, &released->entry);
    rota_sleeper_wake(&runtime->reclaiming.sleeper);
}

void rota_completer_push(rota_runtime *runtime, rota_completion *completion) {
    /* Releases the completion to take_completions; ordered with the completer's sleep flag. */
    rota_stack_push_upmc(&runtime->completing.completions, &completion->entry);
    rota_sleeper_wake(&runtime->completing.sleeper);
}

void rota_callbacks_push(rota_runtime *runtime, rota_completion *completion) {
    /* Releases the completion to call_all; ordered with the thread's sleep flag. */
    rota_stack_push_upmc(&runtime->callbacks.calls, &completion->entry);
    rota_sleeper_wake(&runtime->callbacks.sleeper);
}

void rota_sequencer_request_reap(rota_runtime *runtime) {
    (void)ra_fetch_add_seq_cst(&runtime->sequencing.reap_requested, 1);
    rota_sleeper_wake(&runtime->sequencing.sleeper);
}

void rota_sequencer_reap_now(rota_runtime *runtime) {
    uint64_t request = ra_fetch_add_seq_cst(&runtime->sequencing.reap_requested, 1) + 1;
    rota_sleeper_wake(&runtime->sequencing.sleeper);
    uint64_t deadline = rota_deadline_after(runtime->options.timeout_ns);
    while (ra_load_acquire(&runtime->sequencing.reap_done) < request && rota_clock_ns() < deadline)
        rota_nap_until(rota_deadline_after(20000));
}
