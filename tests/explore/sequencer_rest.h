/* In place of what the sequencer and lanes call beside what is explored: each does nothing. Included once, by a program
 * that has `preparing`, whose calls those of `begin` are. */
#ifndef ROTA_TESTS_EXPLORE_SEQUENCER_REST_H
#define ROTA_TESTS_EXPLORE_SEQUENCER_REST_H

#include <string.h>
#include "explore.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/sequencer/last_use.h"
#include "sched/runtime/sequencer/submission_pool.h"
#include "sched/runtime/shared/released.h"
#include "sched/runtime/shared/handle.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/submitter/gate.h"
#include "sched/runtime/submitter/ring.h"

/* Works that were pushed and are at no device. */
static uint32_t waiting_works;

unsigned lanes_self(void) {
    const unsigned self = explore_self();
    return self < EXPLORE_THREADS ? self : preparing;
}

void *lanes_map(size_t bytes) {
    return memset(explore_aligned_alloc(64, bytes), 0, bytes);
}

void rota_thread_cpus_begin(rota_thread_cpus *own) {
    (void)own;
}
void rota_thread_cpus_end(rota_thread_cpus *own) {
    (void)own;
}
void rota_runtime_thread_ends(rota_runtime *of) {
    (void)of;
}
void rota_handover_flush(rota_device *of) {
    (void)of;
    waiting_works = 0;
}
void rota_gate_watch(rota_runtime *of, bool at_once) {
    (void)of, (void)at_once;
}
void rota_reclaim_sweep(rota_sequencer *of, rota_released *fresh) {
    (void)of, (void)fresh;
}
void rota_staging_sweep(rota_runtime *of, uint64_t quiet) {
    (void)of, (void)quiet;
}
void rota_staging_sweep_idle(rota_runtime *of) {
    (void)of;
}
void rota_submissions_trim(rota_sequencer *of) {
    (void)of;
}
bool rota_staging_has_idle(const rota_runtime *of) {
    (void)of;
    return false;
}

#endif
