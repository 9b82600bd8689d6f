/* What was released, on its way to the sequencer, which knows when its last use is over, and to the reclaimer. */
#include "sched/runtime_internal.h"

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
