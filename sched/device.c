/* What the runtime knows of its devices, and who is told when that changes: timelines, loss, inputs that are being
 * taken. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/runtime_internal.h"

void rota_device_wake_holders(rota_runtime *runtime, rota_timeline *timeline, uint64_t value) {
    /* seq_cst, as the loads below: with watch_for in handover.c. */
    for (uint64_t holders = ra_load_seq_cst(&timeline->holders); holders; holders &= holders - 1) {
        uint32_t d = (uint32_t)__builtin_ctzll(holders);
        if (ra_load_seq_cst(&timeline->held_for[d]) <= value)
            rota_sleeper_wake(&runtime->devices[d]->sleeper);
    }
}

void rota_device_publish(rota_device *device, uint32_t queue, uint64_t value) {
    rota_runtime *runtime = device->runtime;
    rota_timeline *timeline = &device->timelines[queue];
    if (timeline->stamps) rota_stamps_add(timeline->stamps, value); /* first: who sees the value finds it */
    /* Each load below pairs with a store of somebody about to sleep; see base/sleep.h. Releases the works'
     * results. */
    ra_store_relaxed(&timeline->progress_ns, rota_clock_ns()); /* with rota_progress_look */
    ra_store_seq_cst(&timeline->completed, value);
    rota_wait_table_wake(&timeline->waiters, value);
    rota_device_wake_holders(runtime, timeline, value);
    if (ra_load_seq_cst(&runtime->sequencer_interest)) rota_sleeper_wake(&runtime->sequencer_sleeper);
    if (ra_load_seq_cst(&runtime->completer_interest)) rota_sleeper_wake(&runtime->completer_sleeper);
}

void rota_device_wake_waiters(rota_device *device) {
    for (uint32_t q = 0; q < device->runtime->queue_count; q++)
        rota_wait_table_wake(&device->timelines[q].waiters, UINT64_MAX);
    uint32_t devices = ra_load_acquire(&device->runtime->device_count);
    for (uint32_t d = 0; d < devices; d++) rota_sleeper_wake(&device->runtime->devices[d]->sleeper);
    rota_wait_table_wake(&device->runtime->hosted_waiters, UINT64_MAX);
}

bool rota_device_is_lost(const rota_device *device) {
    return ra_load_seq_cst(&device->lost) != 0;
}

/* A lost device gets nothing more, and one that said so itself touches nothing more. */
bool rota_device_is_finished(const rota_device *device) {
    if (ra_load_acquire(&device->gone)) return true;
    bool lost = rota_device_is_lost(device);
    for (uint32_t q = 0; q < device->runtime->queue_count; q++) {
        const rota_timeline *timeline = &device->timelines[q];
        uint64_t last = ra_load_acquire(lost ? &timeline->handed_over : &timeline->issued);
        if (ra_load_acquire(&timeline->completed) < last) return false;
    }
    return true;
}

static void tell_of_loss(rota_device *device) {
    rota_runtime *runtime = device->runtime;
    ra_store_seq_cst(&runtime->lost_pending, 1);
    rota_sleeper_wake(&runtime->sequencer_sleeper);
    (void)ra_fetch_add_seq_cst(&runtime->ended_apart, 1); /* with look_at_apart */
    rota_sleeper_wake(&runtime->completer_sleeper);
    rota_device_wake_waiters(device);
}

void rota_device_set_lost(rota_device *device, const char *message) {
    rota_runtime *runtime = device->runtime;
    const rota_cause *none = NULL;
    const rota_cause *cause = rota_cause_new(runtime, ROTA_DEVICE_LOST, "device '%s' is lost: %s", device->id,
                                             message ? message : "");
    if (!ra_cas_acq_rel(&device->lost_cause, &none, cause)) return; /* the first cause stays */
    ra_store_seq_cst(&device->lost, 1);
    rota_log_write(&runtime->options.log, ROTA_LOG_ERROR, "%s", cause->message);
    tell_of_loss(device);
}

void rota_device_gone(rota_device *device, const char *message) {
    ra_store_release(&device->gone, 1);
    rota_device_set_lost(device, message);
    tell_of_loss(device); /* it may have been given up before: what was kept for its sake can go now */
}

/* With rota_device_fills: a seq_cst store and then a load of `lost` here, a load of `lost` and then one of
 * `filling` there. Either this thread sees that the device is lost and leaves the caller's memory alone, or
 * they see that it is in there. */
bool rota_device_begin_filling(rota_device *device, uint64_t number) {
    ra_store_seq_cst(&device->filling, number);
    if (!rota_device_is_lost(device)) return true;
    rota_device_end_filling(device);
    return false;
}

void rota_device_end_filling(rota_device *device) {
    ra_store_seq_cst(&device->filling, 0); /* releases what it did in there */
    if (rota_device_is_lost(device)) tell_of_loss(device);
}

bool rota_device_fills(rota_runtime *runtime, uint64_t number) {
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++)
        if (rota_device_is_lost(runtime->devices[d]) &&
            ra_load_seq_cst(&runtime->devices[d]->filling) == number)
            return true;
    return false;
}

const rota_device_info *rota_device_get_info(const rota_device *device) {
    return &device->info;
}
rota_runtime *rota_device_runtime(const rota_device *device) {
    return device->runtime;
}
void rota_runtime_name_devices(const rota_runtime *runtime, char *text, size_t capacity) {
    uint32_t devices = ra_load_acquire(&runtime->device_count); /* with the release of who opened the last */
    size_t length = 0;
    text[0] = 0;
    for (uint32_t d = 0; d < devices && length < capacity; d++)
        length += (size_t)snprintf(text + length, capacity - length, "%s'%s'", d ? ", " : "",
                                   runtime->devices[d]->id);
}
rota_exec_device *rota_device_exec(const rota_device *device) {
    return device->exec;
}

/* Of the process: a driver's exit handlers know no runtimes. */
static _Atomic uint32_t abandoned_devices;

void rota_device_note_abandoned(uint32_t count) {
    (void)ra_fetch_add_relaxed(&abandoned_devices, count);
}

uint32_t rota_devices_abandoned(void) {
    return ra_load_relaxed(&abandoned_devices);
}
