/* What tests and benchmarks may ask of a runtime beyond the public calls: in builds with hooks alone. */
#include "base/hooks.h"
#include "sched/runtime.h" /* IWYU pragma: keep: without hooks there is nothing else here */

#if ROTA_TEST_HOOKS

#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "sched/runtime/sequencer/sequencer.h"
#include "sched/runtime/shared/handle.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/testing.h"

/* ---- Devices ---- */

rota_status rota_runtime_add_driver(rota_runtime *runtime, const rota_exec_driver *driver, void *test) {
    ROTA_TRY(rota_runtime_check(runtime));
    for (uint32_t i = 0; i < runtime->opening.driver_count; i++)
        if (strcmp(runtime->opening.drivers[i].driver->name, driver->name) == 0) {
            runtime->opening.drivers[i] = (rota_driver_entry){driver, test};
            return ROTA_OK;
        }
    if (runtime->opening.driver_count == ROTA_DRIVERS_MAX)
        return rota_fail(ROTA_OUT_OF_RANGE, "driver '%s': at most %d drivers", driver->name,
                         ROTA_DRIVERS_MAX);
    runtime->opening.drivers[runtime->opening.driver_count++] = (rota_driver_entry){driver, test};
    return ROTA_OK;
}

rota_status rota_runtime_set_touch(rota_runtime *runtime, bool touch) {
    ROTA_TRY(rota_runtime_check(runtime));
    runtime->hooks.touch = touch;
    return ROTA_OK;
}

rota_status rota_runtime_set_few_turns(rota_runtime *runtime, bool few_turns) {
    ROTA_TRY(rota_runtime_check(runtime));
    runtime->hooks.few_turns = few_turns;
    return ROTA_OK;
}

rota_status rota_runtime_set_unshared(rota_runtime *runtime, bool unshared) {
    ROTA_TRY(rota_runtime_check(runtime));
    runtime->hooks.unshared = unshared;
    return ROTA_OK;
}

rota_status rota_runtime_set_host_ordered(rota_runtime *runtime, bool host_ordered) {
    ROTA_TRY(rota_runtime_check(runtime));
    runtime->hooks.host_ordered = host_ordered;
    return ROTA_OK;
}

/* ---- Staging memory ---- */

uint64_t rota_runtime_staging_bytes(rota_runtime *runtime) {
    return ra_load_relaxed(&runtime->budget.staging_bytes);
}

/* ---- Submission behind one mutex: what rota-bench submit is compared with ---- */

rota_status rota_runtime_lock_submission(rota_runtime *runtime, bool locked) {
    ra_store_seq_cst(&runtime->hooks.lent, locked); /* with the sequencer's look before it sleeps */
    rota_sleeper_wake(&runtime->sequencing.sleeper);
    uint64_t deadline = rota_deadline_after(runtime->options.timeout_ns);
    while (ra_load_acquire(&runtime->hooks.lent_away) != locked) {
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

#endif
