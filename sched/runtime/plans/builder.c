/* Making instances beyond the first.
 *
 * A driver may take its time for an instance, and others wait for its locks meanwhile. So a plan's first is
 * made when it is compiled, and the others here, by a thread per device that nobody waits for but the works
 * that need them. Those wait on side queues, as for another device. It makes one at a time, and is asked for one
 * at a time: a replay that would have to wait until it is through with something else takes an instance that
 * is there, after the replay that has that. So an instance that takes a driver minutes keeps the replays that
 * it is for, and no others. */
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "exec/locality.h"
#include "sched/runtime/plans/builder.h"
#include "sched/runtime/plans/executable.h"
#include "sched/runtime/plans/instances.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/shared/device_life.h"
#include "sched/runtime/shared/handle.h"

/* Its works go on, and with the last of them the plan may be gone; or it is gone as soon as this is decided, where
 * those were cancelled meanwhile (rota_executable_is_asked_for). */
static void answer(rota_device *device, rota_instance *instance) {
    rota_runtime *runtime = device->runtime;
    rota_status status = rota_instance_make(instance);
    if (status != ROTA_OK) {
        /* Release: with prepare_segment. */
        ra_store_release(&instance->failure, rota_cause_new(runtime, status, "%s", rota_last_error()));
        ra_store_seq_cst(&instance->building, ROTA_BUILDING_FAILED); /* as `created` */
    }
    ra_store_release(&device->building.done_count, ra_load_relaxed(&device->building.done_count) + 1);
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++) rota_sleeper_wake(runtime->devices[d]->handover.sleeper);
    rota_sleeper_wake(&runtime->sequencing.sleeper); /* which may have the plan to let go */
}

static void *builder_main(void *user) {
    rota_device *device = user;
    rota_runtime *runtime = device->runtime;
    while (!ra_load_acquire(&runtime->stop) && rota_device_life(device) < ROTA_LIFE_CLOSED) {
        /* With rota_instance_ask. */
        rota_stack_entry *oldest = rota_stack_turned(rota_stack_take_upmc(&device->building.asked));
        if (!oldest) {
            rota_sleeper_prepare(&device->building.sleeper);
            if (!rota_stack_is_empty_upmc(&device->building.asked) || ra_load_seq_cst(&runtime->stop) ||
                rota_device_life(device) >= ROTA_LIFE_CLOSED)
                rota_sleeper_cancel(&device->building.sleeper);
            else
                rota_sleeper_wait(&device->building.sleeper, rota_deadline_after(1000000000u));
        }
        while (oldest && !ra_load_acquire(&runtime->stop)) {
            rota_instance *instance = ROTA_STACK_OBJECT(oldest, rota_instance, asked);
            oldest = oldest->next; /* before its works go on */
            answer(device, instance);
        }
    }
    rota_runtime_thread_ends(runtime);
    ra_store_release(&device->building.thread_ended, 1); /* with rota_runtime_close */
    return NULL;
}

rota_status rota_builders_start(rota_device *device) {
    int error =
        rota_locality_start(&device->exec->locality, NULL, &device->building.thread, builder_main, device);
    if (error != 0)
        return rota_fail(ROTA_SYSTEM, "device '%s': no thread to make instances: %s", device->id,
                         strerror(error));
    device->building.thread_started = true;
    return ROTA_OK;
}
