/* A runtime is opened. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/atomic.h"
#include "base/given.h"
#include "base/signals.h"
#include "base/sized_copy.h"
#include "exec/drivers.h"
#include "sched/runtime/completer/callbacks.h"
#include "sched/runtime/completer/complete.h"
#include "sched/runtime/life/close.h"
#include "sched/runtime/reclaimer/reclaimer.h"
#include "sched/runtime/sequencer/sequencer.h"
#include "sched/runtime/shared/handle.h"
#include "sched/runtime/shared/lanes.h"
#include "sched/runtime/shared/runtime.h"

#define DEFAULT_TIMEOUT_NS 30000000000u
#define DEFAULT_QUEUES 2
#define DEFAULT_STAGING_SLOTS 16
#define DEFAULT_STAGING_SLOT_BYTES (1u << 20)
#define DEFAULT_STAGING_LIMIT_BYTES (64u << 20)
#define DEFAULT_STAGING_IDLE_NS 5000000000u
#define STAGING_IDLE_NS_MIN 1000000u

/* False without memory for the copy of the cache folder's name. */
static bool take_options(rota_runtime *runtime, const rota_runtime_options *options) {
    if (options) runtime->options = *options;
    rota_runtime_options *own = &runtime->options;
    if (own->cache_dir) {
        own->cache_dir = runtime->cache_dir = strdup(own->cache_dir);
        if (!own->cache_dir) return false;
    }
    if (own->timeout_ns == 0) own->timeout_ns = DEFAULT_TIMEOUT_NS;
    if (own->queues_per_device == 0) own->queues_per_device = DEFAULT_QUEUES;
    if (own->staging_slots == 0) own->staging_slots = DEFAULT_STAGING_SLOTS;
    if (own->staging_slot_bytes == 0) own->staging_slot_bytes = DEFAULT_STAGING_SLOT_BYTES;
    if (own->staging_limit_bytes == 0) own->staging_limit_bytes = DEFAULT_STAGING_LIMIT_BYTES;
    if (own->staging_idle_ns == 0) own->staging_idle_ns = DEFAULT_STAGING_IDLE_NS;
    if (own->staging_idle_ns < STAGING_IDLE_NS_MIN) own->staging_idle_ns = STAGING_IDLE_NS_MIN;
    runtime->plan_queue_count = own->queues_per_device;
    runtime->queue_count = own->queues_per_device + ROTA_SIDINGS;
    for (uint32_t i = 0; i < rota_exec_driver_count; i++)
        runtime->opening.drivers[runtime->opening.driver_count++].driver = rota_exec_drivers[i];
    return true;
}

static rota_status start_thread(pthread_t *thread, void *(*main)(void *), rota_runtime *runtime,
                                bool *started) {
    int error = pthread_create(thread, NULL, main, runtime);
    if (error != 0) return rota_fail(ROTA_SYSTEM, "no thread for the runtime: %s", strerror(error));
    *started = true;
    return ROTA_OK;
}

static rota_status start(rota_runtime *runtime) {
    ROTA_TRY(rota_lanes_create(runtime));
    ROTA_TRY(rota_sequencer_create(runtime));
    ROTA_TRY(rota_completer_create(runtime));
    sigset_t before;
    rota_signals_block(&before);
    rota_status status = start_thread(&runtime->completing.thread, rota_completer_main, runtime,
                                      &runtime->completing.thread_started);
    if (status == ROTA_OK)
        status = start_thread(&runtime->callbacks.thread, rota_callbacks_main, runtime,
                              &runtime->callbacks.thread_started);
    if (status == ROTA_OK)
        status = start_thread(&runtime->reclaiming.thread, rota_reclaimer_main, runtime,
                              &runtime->reclaiming.thread_started);
    if (status == ROTA_OK)
        status = start_thread(&runtime->sequencing.thread, rota_sequencer_main, runtime,
                              &runtime->sequencing.thread_started);
    rota_signals_restore(&before);
    return status;
}

/* The ring of all slots is one piece of memory. */
static rota_status check_staging(const rota_runtime_options *options) {
    if (options->staging_slot_bytes % ROTA_BUFFER_ALIGNMENT != 0)
        return rota_fail(ROTA_INVALID_ARGUMENT, "staging slots of %llu bytes, expected a multiple of %d",
                         (unsigned long long)options->staging_slot_bytes, ROTA_BUFFER_ALIGNMENT);
    uint64_t slots = options->staging_slots ? options->staging_slots : DEFAULT_STAGING_SLOTS;
    uint64_t bytes = options->staging_slot_bytes ? options->staging_slot_bytes : DEFAULT_STAGING_SLOT_BYTES;
    if (bytes > ROTA_BUFFER_SIZE_MAX / slots)
        return rota_fail(
            ROTA_INVALID_ARGUMENT, "%llu staging slots of %llu bytes, at most %llu bytes together",
            (unsigned long long)slots, (unsigned long long)bytes, (unsigned long long)ROTA_BUFFER_SIZE_MAX);
    return ROTA_OK;
}

rota_status rota_runtime_open(const rota_runtime_options *options, rota_runtime **out_runtime) {
    ROTA_GIVEN(out_runtime);
    *out_runtime = NULL;
    rota_runtime_options room;
    if (options && !(options = ROTA_SIZED_IN(rota_runtime_options, options, &room)))
        return ROTA_INVALID_ARGUMENT;
    if (options && options->queues_per_device > ROTA_PLAN_QUEUES_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT, "%u queues a device, at most %d", options->queues_per_device,
                         ROTA_PLAN_QUEUES_MAX);
    if (options) ROTA_TRY(check_staging(options));
    rota_runtime *runtime = rota_runtime_take_handle();
    if (!runtime) return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for a runtime");
    if (!take_options(runtime, options)) {
        rota_runtime_keep_handle(runtime);
        return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory for a runtime");
    }
    (void)pthread_mutex_init(&runtime->opening.mutex, NULL);
    (void)pthread_mutex_init(&runtime->objects.mutex, NULL);
    (void)pthread_mutex_init(&runtime->failed.mutex, NULL);
    (void)pthread_mutex_init(&runtime->objects.times_mutex, NULL);
    (void)ra_fetch_add_relaxed(&runtime->handle.generation, 1);
    rota_status status = start(runtime);
    if (status != ROTA_OK) {
        rota_runtime_dismantle(runtime);
        return status;
    }
    rota_runtime_note_opened();
    ra_store_release(&runtime->state, ROTA_RUNTIME_OPEN); /* with rota_runtime_check */
    *out_runtime = runtime;
    return ROTA_OK;
}
