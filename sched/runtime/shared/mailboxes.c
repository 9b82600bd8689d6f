/* What one thread gives another: pushed on the other's stack, or asked of it, and it is woken. */
#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "sched/runtime/shared/mailboxes.h"
#include "sched/runtime/shared/released.h"
#include "sched/runtime/state/runtime.h"

void rota_reclaim_push(rota_runtime *runtime, rota_dead *dead) {
    (void)ra_fetch_add_relaxed(&runtime->stat_reclaim_pending, 1);
    dead->next = ra_load_relaxed(&runtime->released);
    /* Releases the object to the sequencer's exchange; seq_cst with its sleep flag. */
    while (!ra_cas_seq_cst(&runtime->released, &dead->next, dead)) {
    }
    rota_sleeper_wake(&runtime->sequencer_sleeper);
}

/* Releases to the exchange in take_unused what the sequencer saw of the object's uses: points that have
 * passed, and submissions that the completer and the executors are through with (each seen by an acquire). So
 * the reclaimer comes after them all. seq_cst: with its sleep flag. */
void rota_reclaim_push_unused(rota_runtime *runtime, rota_dead *dead) {
    dead->next = ra_load_relaxed(&runtime->unused);
    while (!ra_cas_seq_cst(&runtime->unused, &dead->next, dead)) {
    }
    rota_sleeper_wake(&runtime->reclaimer_sleeper);
}

void rota_completer_push(rota_runtime *runtime, rota_job *job) {
    job->next = ra_load_relaxed(&runtime->jobs);
    /* Releases the job to the exchange in the completer; seq_cst with its sleep flag. */
    while (!ra_cas_seq_cst(&runtime->jobs, &job->next, job)) {
    }
    rota_sleeper_wake(&runtime->completer_sleeper);
}

void rota_callbacks_push(rota_runtime *runtime, rota_job *job) {
    job->next = ra_load_relaxed(&runtime->calls);
    /* Releases the job to the exchange in call_all; seq_cst with the thread's sleep flag. */
    while (!ra_cas_seq_cst(&runtime->calls, &job->next, job)) {
    }
    rota_sleeper_wake(&runtime->caller_sleeper);
}

void rota_sequencer_request_reap(rota_runtime *runtime) {
    (void)ra_fetch_add_seq_cst(&runtime->reap_requested, 1);
    rota_sleeper_wake(&runtime->sequencer_sleeper);
}

void rota_sequencer_reap_now(rota_runtime *runtime) {
    uint64_t request = ra_fetch_add_seq_cst(&runtime->reap_requested, 1) + 1;
    rota_sleeper_wake(&runtime->sequencer_sleeper);
    uint64_t deadline = rota_deadline_after(runtime->options.timeout_ns);
    while (ra_load_acquire(&runtime->reap_done) < request && rota_clock_ns() < deadline)
        rota_nap_until(rota_deadline_after(20000));
}
