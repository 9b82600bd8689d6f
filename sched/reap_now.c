/* A round of the sequencer, asked for and waited for. */
#include "base/futex.h"
#include "sched/runtime_internal.h"

void rota_sequencer_reap_now(rota_runtime *runtime) {
    uint64_t request = ra_fetch_add_seq_cst(&runtime->reap_requested, 1) + 1;
    rota_sleeper_wake(&runtime->sequencer_sleeper);
    uint64_t deadline = rota_deadline_after(runtime->options.timeout_ns);
    while (ra_load_acquire(&runtime->reap_done) < request && rota_clock_ns() < deadline)
        rota_nap_until(rota_deadline_after(20000));
}
