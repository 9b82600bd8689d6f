/* Submission behind one mutex: what rota-bench submit is compared with. */
#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "sched/runtime/sequencer/sequencer.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/testing.h"

rota_status rota_runtime_lock_submission(rota_runtime *runtime, bool locked) {
    ra_store_seq_cst(&runtime->sequencing.lent, locked); /* with the sequencer's look before it sleeps */
    rota_sleeper_wake(&runtime->sequencing.sleeper);
    uint64_t deadline = rota_deadline_after(runtime->options.timeout_ns);
    while (ra_load_acquire(&runtime->sequencing.lent_away) != locked) {
        if (rota_clock_ns() > deadline) return rota_fail(ROTA_TIMEOUT, "the sequencer does not answer");
        rota_nap_until(rota_deadline_after(20000));
    }
    return ROTA_OK;
}

rota_status rota_submit_locked(rota_plan *plan, rota_args *args, rota_ticket *out_ticket) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    (void)pthread_mutex_lock(&mutex);
    rota_status status = rota_submit(plan, args, out_ticket);
    (void)rota_sequencer_round(plan->runtime->sequencer);
    (void)pthread_mutex_unlock(&mutex);
    return status;
}
