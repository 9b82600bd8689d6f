/* Host functions that end later than they return, alone in their units. A worker begins one and goes on with something
 * else; whoever ends it, on whatever thread, pushes the unit as a task again, and the worker that finds that reports
 * the outcome and starts what comes after (run.c).
 *
 * Orders: what the ender wrote, the status among it, is published by the push to the overflow list and seen by the
 * exchange in take_overflow, as any task. From that push on the instance may be gone, so the ender touches nothing but
 * the device after it, and counts itself out of `runs` last; close frees the device only when it has seen 0 there.
 * Workers count a run in before they begin it, and close looks after they have ended: no run comes to it after 0.
 *
 * Progress: begin and end are lock-free and wait for nobody. Those that are brief keep one worker awake for a
 * millisecond more. */
#include "exec/cpu/later.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/futex.h"
#include "exec/cpu/device.h"
#include "exec/cpu/instance.h"

/* Brief ones: the worker that takes up their ends, and the begin of what comes next, does not sleep (worker.c). */
static void look_on(rota_cpu_device *device) {
    enum { LOOKS_NS = 1000000 };
    ra_store_relaxed(&device->tasks.looks_until_ns, rota_deadline_after(LOOKS_NS)); /* a hint */
}

static void note_brief(rota_host_run *run) {
    rota_cpu_later_state *later = (rota_cpu_later_state *)(void *)run;
    later->is_brief = true; /* seen by whoever ends it, as all that `begin` publishes */
    look_on(later->device);
}

static void end_run(rota_host_run *run, rota_status status, const char *message) {
    rota_cpu_later_state *later = (rota_cpu_later_state *)(void *)run;
    /* Pairs with the store in begin. A second end of one run: nobody's. */
    if (!ra_exchange_acq_rel(&later->is_open, 0)) return;
    rota_cpu_device *device = later->device;
    rota_cpu_task *task = &later->unit->task;
    later->status = status;
    if (status != ROTA_OK) (void)snprintf(later->message, sizeof later->message, "%s", message);
    task->kind = ROTA_CPU_TASK_ENDED;
    if (later->is_brief) look_on(device);
    rota_cpu_push_overflow(device, task, task);
    rota_cpu_notify(device, NULL);
    ra_fetch_sub_acq_rel(&device->end.runs, 1); /* pairs with the load in rota_cpu_later_wait */
}

void rota_cpu_later_init(rota_cpu_later_state *later, rota_cpu_device *device, rota_cpu_unit_state *unit) {
    later->run.end = end_run;
    later->run.is_brief = note_brief;
    later->device = device;
    later->unit = unit;
    atomic_init(&later->node, ROTA_CPU_NONE);
    atomic_init(&later->is_open, 0);
}

bool rota_cpu_later_begin(rota_cpu_later_state *later, const rota_cpu_record *record, void *const *operands,
                          const uint64_t *operand_bytes, rota_status *out_status) {
    rota_cpu_device *device = later->device;
    later->is_brief = false;
    ra_store_relaxed(&later->node, record->node);
    ra_store_release(&later->is_open, 1);       /* pairs with end_run */
    ra_fetch_add_relaxed(&device->end.runs, 1); /* published by the worker's end */
    const rota_status status =
        record->fn.later->begin(record->u.user, operands, operand_bytes, record->operand_count, &later->run);
    if (status == ROTA_OK) return true;
    ra_store_relaxed(&later->is_open, 0);
    ra_store_relaxed(&later->node, ROTA_CPU_NONE);
    ra_fetch_sub_acq_rel(&device->end.runs, 1); /* as in end_run */
    *out_status = status;
    return false;
}

bool rota_cpu_later_wait(rota_cpu_device *device, uint64_t deadline_ns) {
    while (ra_load_acquire(&device->end.runs) != 0) { /* pairs with end_run */
        if (rota_clock_ns() >= deadline_ns) return false;
        rota_nap_until(rota_deadline_after(200000));
    }
    return true;
}
