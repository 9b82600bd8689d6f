/* Devices from their making to where they are tried: their structs, executors and threads. */
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/signals.h"
#include "sched/runtime/life/device.h"
#include "sched/runtime/memory/memory.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/plans/builder.h"
#include "sched/runtime/shared/device_life.h"
#include "sched/runtime/shared/end_times.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/progress.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/submitter/events.h"
#include "sched/runtime/submitter/thread.h"

void rota_device_free(rota_device *device) {
    for (uint32_t q = 0; device->timelines && q < device->runtime->queue_count; q++) {
        free(device->timelines[q].order.clock);
        free(device->timelines[q].order.past);
        rota_chain_destroy(device->timelines[q].chain);
        rota_end_times_destroy(device->timelines[q].end_times);
        for (uint32_t h = 0; h < ROTA_CLOCK_HISTORY; h++) {
            free(device->timelines[q].order.history[h].clock);
            free(device->timelines[q].order.history[h].past);
        }
    }
    free(device->timelines);
    free(device->handover.ring.cells);
    free(device->outbox);
    free(device->submitter);
    free(device->uploads.slots);
    free(device->gate.works);
    rota_staging_free(device);
    (void)pthread_mutex_destroy(&device->gate.mutex);
    free(device);
}

static rota_device *new_device(rota_runtime *runtime, const rota_device_info *info) {
    rota_device *device = aligned_alloc(64, (sizeof *device + 63) / 64 * 64);
    if (!device) return NULL;
    memset(device, 0, sizeof *device);
    device->runtime = runtime;
    device->index = device->domain = ra_load_relaxed(&runtime->device_count);
    device->info = *info;
    memcpy(device->id, info->id, sizeof device->id);
    device->handover.sleeper = &runtime->handle.submitters[device->index];
    (void)pthread_mutex_init(&device->gate.mutex, NULL);
    size_t bytes = (runtime->queue_count * sizeof *device->timelines + 63) / 64 * 64;
    device->timelines = aligned_alloc(64, bytes);
    if (device->timelines) memset(device->timelines, 0, bytes);
    device->uploads.slot_count = runtime->options.staging_slots;
    device->uploads.slots = calloc(device->uploads.slot_count, sizeof *device->uploads.slots);
    if (!device->timelines || !device->uploads.slots || rota_staging_create(device) != ROTA_OK) {
        rota_device_free(device);
        return NULL;
    }
    uint32_t timelines = ROTA_DEVICES_MAX * runtime->queue_count;
    bool ok = true;
    for (uint32_t q = 0; q < runtime->queue_count; q++) {
        device->timelines[q].order.clock = calloc(timelines, sizeof(uint64_t));
        device->timelines[q].order.past = calloc(timelines, sizeof(uint64_t));
        device->timelines[q].chain = rota_chain_create(timelines);
        ok = ok && device->timelines[q].order.clock && device->timelines[q].order.past &&
             device->timelines[q].chain;
        if (runtime->options.diagnostics) {
            device->timelines[q].end_times = rota_end_times_create();
            ok = ok && device->timelines[q].end_times;
        }
        for (uint32_t h = 0; h < ROTA_CLOCK_HISTORY; h++) {
            rota_clock_entry *entry = &device->timelines[q].order.history[h];
            entry->clock = calloc(timelines, sizeof(uint64_t));
            entry->past = calloc(timelines, sizeof(uint64_t));
            ok = ok && entry->clock && entry->past;
        }
    }
    if (ok) return device;
    rota_device_free(device);
    return NULL;
}

static rota_status start_device(rota_device *device, const rota_device_source *source) {
    rota_runtime *runtime = device->runtime;
    device->transfer_queue =
        runtime->plan_queue_count > 1 ? runtime->plan_queue_count - 1 : ROTA_EXEC_QUEUES_MAX;
    rota_exec_open_options options = {
        .host = rota_events_for(device),
        .queue_count = runtime->queue_count,
        .transfer_queue = device->transfer_queue,
        .segment_queues = runtime->plan_queue_count,
        .worker_threads = runtime->options.worker_threads,
        .spin_ns = runtime->options.spin_ns,
        .diagnostics = runtime->options.diagnostics,
        .cache_dir = runtime->options.cache_dir,
        .validation = runtime->options.validation,
        .debug_names = runtime->options.debug_names,
        .id = source->vulkan || source->cuda ? device->id : NULL,
        .vulkan = source->vulkan,
        .cuda = source->cuda,
        .test = source->entry->test,
        .touch = rota_hooks_touch(&runtime->hooks),
        .few_turns = rota_hooks_few_turns(&runtime->hooks),
    };
    const rota_exec_driver *driver = source->entry->driver;
    ROTA_TRY(driver->open(driver, source->index, &options, &device->exec));
    device->info = device->exec->info;
    device->info.struct_size = sizeof device->info;
    memcpy(device->id, device->info.id, sizeof device->id);
    device->asks_poison = device->exec->caps.asks_must_skip;
    /* On host memory a queue of its own for copies brings nothing but waits between queues. */
    if (device->exec->caps.unified_host) device->transfer_queue = ROTA_EXEC_QUEUES_MAX;
    device->io_queue = device->transfer_queue < runtime->plan_queue_count ? device->transfer_queue : 0;
    ROTA_TRY(rota_device_memory_create(device,
                                       runtime->options.staging_slots * runtime->options.staging_slot_bytes,
                                       ROTA_EXEC_MEMORY_HOST_WRITE, "upload ring", &device->uploads.memory));
    ROTA_TRY(rota_builders_start(device));
    return rota_handover_start(device);
}

static void stop_unpublished(rota_device *device) {
    uint64_t abandoned = 0;
    (void)rota_device_move(device, ROTA_LIFE_CLOSED); /* with the builder's look before it sleeps */
    rota_sleeper_wake(&device->building.sleeper);
    if (device->building.thread_started)
        (void)pthread_join(device->building.thread, NULL); /* it has nothing */
    if (device->uploads.memory) rota_device_memory_destroy(device, device->uploads.memory);
    if (device->exec) device->exec->vtable->close(device->exec, rota_deadline_after(1000000000u), &abandoned);
    if (abandoned == 0) {
        rota_device_free(device);
        return;
    }
    (void)rota_device_move(device, ROTA_LIFE_ABANDONED);
    (void)ra_fetch_add_relaxed(&device->runtime->stats.abandoned, abandoned);
    rota_device_note_abandoned(1);
}

rota_status rota_device_start(rota_runtime *runtime, const rota_device_source *source,
                              const rota_device_info *info, rota_device **out_device) {
    if (ra_load_relaxed(&runtime->device_count) == ROTA_DEVICES_MAX)
        return rota_fail(ROTA_OUT_OF_RANGE,
                         "device '%s': a runtime has %d devices at most, those that were lost counted in",
                         info->id, ROTA_DEVICES_MAX);
    rota_device *device = new_device(runtime, info);
    if (!device) return rota_fail(ROTA_OUT_OF_MEMORY, "device '%s': no host memory", info->id);
    /* The executor's threads, a driver's own and the submit thread. */
    sigset_t before;
    rota_signals_block(&before);
    rota_status status = start_device(device, source);
    rota_signals_restore(&before);
    if (status != ROTA_OK) {
        stop_unpublished(device);
        return status;
    }
    runtime->devices[device->index] = device;
    ra_store_release(&runtime->device_count, device->index + 1);
    *out_device = device;
    return ROTA_OK;
}
