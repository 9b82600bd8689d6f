/* A device is lost: the one place that makes it so, and who is told; and inputs that are being taken
 * meanwhile. */
#include "base/atomic.h"
#include "base/clock.h"
#include "base/log.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/shared/device_life.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/timeline.h"

/* Of one that was closed, or left, whose word says no more; asked by threads that close could not wait for. */
static bool was_lost(const rota_device *device) {
    return ra_load_seq_cst(&device->lost_cause) != NULL;
}

bool rota_device_is_lost(const rota_device *device) {
    const uint32_t life = ra_load_seq_cst(&device->life); /* where tests stop who asks */
    return life < ROTA_LIFE_CLOSED ? life >= ROTA_LIFE_LOST : was_lost(device);
}

/* A lost device gets nothing more, and one that said so itself touches nothing more. */
bool rota_device_is_finished(const rota_device *device) {
    if (rota_device_life(device) == ROTA_LIFE_QUIET) return true;
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
    ra_store_seq_cst(&runtime->sequencing.lost_pending, 1);
    rota_sleeper_wake(&runtime->sequencing.sleeper);
    (void)ra_fetch_add_seq_cst(&runtime->completing.ended_directly, 1); /* with look_at_ended_directly */
    rota_sleeper_wake(&runtime->completing.sleeper);
    rota_device_wake_waiters(device);
}

/* In this order: the cause and the time, so that who reads that it is lost has them; the word; the log; and then
 * whoever may sleep is woken. Of several the first cause stays, and who was not the first leaves the rest to that one,
 * unless it knows more: what was kept for the device's sake can go once it is quiet. */
static void give_up(rota_device *device, rota_life life, const char *message) {
    rota_runtime *runtime = device->runtime;
    const rota_cause *none = NULL;
    const rota_cause *cause = rota_cause_new(runtime, ROTA_DEVICE_LOST, "device '%s' is lost: %s", device->id,
                                             message ? message : "");
    const bool is_first = ra_cas_acq_rel(&device->lost_cause, &none, cause);
    /* Released by the word, to who gives up others. */
    if (is_first) ra_store_relaxed(&runtime->lost_ns, rota_clock_ns());
    const bool is_new = (is_first || life == ROTA_LIFE_QUIET) && rota_device_move(device, life);
    if (is_first) rota_log_write(&runtime->options.log, ROTA_LOG_ERROR, "%s", cause->message);
    if (is_first || is_new) tell_of_loss(device);
}

void rota_device_set_lost(rota_device *device, const char *message) {
    give_up(device, ROTA_LIFE_LOST, message);
}

void rota_device_gone(rota_device *device, const char *message) {
    give_up(device, ROTA_LIFE_QUIET, message);
}

/* With rota_device_fills: a seq_cst store and then a load of `life` here, a load of `life` and then one of
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

/* Of the process: a driver's exit handlers know no runtimes. */
static _Atomic uint32_t abandoned_devices;

void rota_device_note_abandoned(uint32_t count) {
    (void)ra_fetch_add_relaxed(&abandoned_devices, count);
}

uint32_t rota_devices_abandoned(void) {
    return ra_load_relaxed(&abandoned_devices);
}
