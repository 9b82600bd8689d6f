/* Devices: what there is, opening, the best one, their memory, and the calls of their executors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/signals.h"
#include "sched/runtime_internal.h"
#include "sched/smoke.h"
#include "sched/testing.h"

/* ---- Calls of the executor ---- */

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
    /* Each load below pairs with a store of somebody about to sleep; see sched/wait.h. Releases the works'
     * results. */
    ra_store_relaxed(&timeline->progress_ns, rota_clock_ns()); /* with rota_progress_look */
    ra_store_seq_cst(&timeline->completed, value);
    rota_wait_table_wake(&timeline->waiters, value);
    rota_device_wake_holders(runtime, timeline, value);
    if (ra_load_seq_cst(&runtime->sequencer_interest)) rota_sleeper_wake(&runtime->sequencer_sleeper);
    if (ra_load_seq_cst(&runtime->completer_interest)) rota_sleeper_wake(&runtime->completer_sleeper);
}

static void advanced(void *user, uint32_t queue, uint64_t value) {
    rota_device *device = user;
    if (ra_load_relaxed(&device->closed)) return;
    if (ra_load_seq_cst(&device->gate.pending)) /* with rota_gate_push */
        rota_gate_report(device, queue, value);
    else
        rota_device_publish(device, queue, value);
    if (ra_load_relaxed(&device->linked)) rota_gate_spread(device);
}

static void interrupted(void *user, const cpu_set_t *cpus) {
    rota_device *device = user;
    if (ra_load_relaxed(&device->closed)) return;
    rota_thread_cpus_keep_off(&device->thread_cpus, cpus);
    /* Of several devices the last one to say so has it. */
    rota_thread_cpus_keep_off(&device->runtime->sequencer_cpus, cpus);
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

static void lost(void *user, rota_status status, const char *message) {
    (void)status;
    rota_device *device = user;
    if (ra_load_relaxed(&device->closed)) return;
    ra_store_release(&device->gone, 1);
    rota_device_set_lost(device, message);
    tell_of_loss(device); /* it may have been given up before: what was kept for its sake can go now */
}

/* ---- Memory ---- */

#define TRIMS_MAX 16 /* others may take what was given back */

static rota_status create_memory(rota_device *device, uint64_t size_bytes, uint32_t flags, const char *name,
                                 bool *out_is_limited, rota_exec_memory **out_memory) {
    rota_runtime *runtime = device->runtime;
    *out_memory = NULL;
    *out_is_limited = true;
    uint64_t limit = runtime->options.memory_limit_bytes;
    uint64_t held = ra_load_relaxed(&runtime->memory_bytes);
    do {
        if (limit != 0 && (size_bytes > limit || held > limit - size_bytes))
            return rota_fail(
                ROTA_OUT_OF_MEMORY,
                "'%s' needs %llu bytes on device '%s': %llu of the memory limit of %llu are free", name,
                (unsigned long long)size_bytes, device->id,
                (unsigned long long)(held < limit ? limit - held : 0), (unsigned long long)limit);
    } while (!ra_cas_acq_rel(&runtime->memory_bytes, &held, held + size_bytes));
    *out_is_limited = false;
    rota_status status =
        device->exec->vtable->memory_create(device->exec, size_bytes, flags, name, out_memory);
    if (status != ROTA_OK) {
        (void)ra_fetch_sub_acq_rel(&runtime->memory_bytes, size_bytes);
        return status;
    }
    uint64_t peak = ra_load_relaxed(&runtime->memory_peak_bytes);
    while (peak < held + size_bytes &&
           !ra_cas_acq_rel(&runtime->memory_peak_bytes, &peak, held + size_bytes)) {
    }
    /* An executor may round up; what is given back is what was asked. */
    if ((*out_memory)->size_bytes != size_bytes) {
        uint64_t more = (*out_memory)->size_bytes - size_bytes;
        (void)ra_fetch_add_acq_rel(&runtime->memory_bytes, more);
    }
    return ROTA_OK;
}

rota_status rota_device_memory_create(rota_device *device, uint64_t size_bytes, uint32_t flags,
                                      const char *name, rota_exec_memory **out_memory) {
    bool is_limited;
    rota_status status = create_memory(device, size_bytes, flags, name, &is_limited, out_memory);
    for (int i = 0; i < TRIMS_MAX && status != ROTA_OK && is_limited; i++) {
        if (!rota_staging_trim(device->runtime, size_bytes)) break;
        status = create_memory(device, size_bytes, flags, name, &is_limited, out_memory);
    }
    return status;
}

void rota_device_memory_destroy(rota_device *device, rota_exec_memory *memory) {
    (void)ra_fetch_sub_acq_rel(&device->runtime->memory_bytes, memory->size_bytes);
    device->exec->vtable->memory_destroy(device->exec, memory);
}

/* ---- What there is ---- */

rota_status rota_runtime_add_driver(rota_runtime *runtime, const rota_exec_driver *driver, void *test) {
    ROTA_TRY(rota_runtime_check(runtime));
    for (uint32_t i = 0; i < runtime->driver_count; i++)
        if (strcmp(runtime->drivers[i].driver->name, driver->name) == 0) {
            runtime->drivers[i] = (rota_driver_entry){driver, test};
            return ROTA_OK;
        }
    if (runtime->driver_count == ROTA_DRIVERS_MAX)
        return rota_fail(ROTA_OUT_OF_RANGE, "driver '%s': at most %d drivers", driver->name,
                         ROTA_DRIVERS_MAX);
    runtime->drivers[runtime->driver_count++] = (rota_driver_entry){driver, test};
    return ROTA_OK;
}

rota_status rota_runtime_set_touch(rota_runtime *runtime, bool touch) {
    ROTA_TRY(rota_runtime_check(runtime));
    runtime->touch = touch;
    return ROTA_OK;
}

typedef struct listed {
    rota_device_info info;
    const rota_driver_entry *entry;
    uint32_t index; /* within the driver */
} listed;

/* All devices of all drivers; the caller frees. A driver that fails to list is as one with no devices, with
 * its sentence in `notes`. */
static rota_status list_devices(rota_runtime *runtime, listed **out_list, uint32_t *out_count, char *notes,
                                size_t notes_size) {
    uint32_t capacity = ROTA_DRIVERS_MAX * ROTA_DEVICES_MAX, count = 0;
    listed *list = calloc(capacity, sizeof *list);
    rota_device_info *infos = calloc(ROTA_DEVICES_MAX, sizeof *infos);
    *out_list = NULL;
    *out_count = 0;
    if (notes_size) notes[0] = 0;
    if (!list || !infos) {
        free(list);
        free(infos);
        return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory to list devices");
    }
    for (uint32_t i = 0; i < runtime->driver_count; i++) {
        const rota_exec_driver *driver = runtime->drivers[i].driver;
        uint32_t found = 0;
        rota_status status = driver->enumerate(driver, infos, ROTA_DEVICES_MAX, &found);
        if ((status != ROTA_OK || found == 0) && notes_size) {
            size_t used = strlen(notes);
            (void)snprintf(notes + used, notes_size - used, "%s%s: %s", used ? "; " : "", driver->name,
                           rota_last_error());
        }
        if (status != ROTA_OK) continue;
        if (found > ROTA_DEVICES_MAX) found = ROTA_DEVICES_MAX;
        for (uint32_t d = 0; d < found; d++) list[count++] = (listed){infos[d], &runtime->drivers[i], d};
    }
    free(infos);
    *out_list = list;
    *out_count = count;
    return ROTA_OK;
}

rota_status rota_devices(rota_runtime *runtime, rota_device_info *out_infos, uint32_t capacity,
                         uint32_t *out_count) {
    *out_count = 0;
    ROTA_TRY(rota_runtime_check(runtime));
    listed *list;
    uint32_t count;
    char notes[512];
    ROTA_TRY(list_devices(runtime, &list, &count, notes, sizeof notes));
    (void)rota_fail(ROTA_OK, "%s", notes);
    for (uint32_t i = 0; i < count && i < capacity; i++) out_infos[i] = list[i].info;
    *out_count = count;
    free(list);
    return ROTA_OK;
}

/* ---- Opening ---- */

void rota_device_free(rota_device *device) {
    for (uint32_t q = 0; device->timelines && q < device->runtime->queue_count; q++) {
        free(device->timelines[q].clock);
        rota_chain_destroy(device->timelines[q].chain);
        rota_stamps_destroy(device->timelines[q].stamps);
        for (uint32_t h = 0; h < ROTA_CLOCK_HISTORY; h++) free(device->timelines[q].history[h].clock);
    }
    free(device->timelines);
    free(device->ring);
    free(device->upload_slots);
    free(device->gate.works);
    rota_staging_free(device);
    (void)pthread_mutex_destroy(&device->gate.mutex);
    free(device);
}

static rota_device *new_device(rota_runtime *runtime, const listed *entry) {
    rota_device *device = aligned_alloc(64, (sizeof *device + 63) / 64 * 64);
    if (!device) return NULL;
    memset(device, 0, sizeof *device);
    device->runtime = runtime;
    device->index = device->domain = ra_load_relaxed(&runtime->device_count);
    device->info = entry->info;
    device->asks_poison = entry->info.kind == ROTA_EXEC_CPU;
    memcpy(device->id, entry->info.id, sizeof device->id);
    (void)pthread_mutex_init(&device->gate.mutex, NULL);
    size_t bytes = (runtime->queue_count * sizeof *device->timelines + 63) / 64 * 64;
    device->timelines = aligned_alloc(64, bytes);
    if (device->timelines) memset(device->timelines, 0, bytes);
    device->upload_slot_count = runtime->options.staging_slots;
    device->upload_slots = calloc(device->upload_slot_count, sizeof *device->upload_slots);
    if (!device->timelines || !device->upload_slots) {
        rota_device_free(device);
        return NULL;
    }
    uint32_t timelines = ROTA_DEVICES_MAX * runtime->queue_count;
    bool ok = true;
    for (uint32_t q = 0; q < runtime->queue_count; q++) {
        device->timelines[q].clock = calloc(timelines, sizeof(uint64_t));
        device->timelines[q].chain = rota_chain_create(timelines);
        ok = ok && device->timelines[q].clock && device->timelines[q].chain;
        if (runtime->options.diagnostics) {
            device->timelines[q].stamps = rota_stamps_create();
            ok = ok && device->timelines[q].stamps;
        }
        for (uint32_t h = 0; h < ROTA_CLOCK_HISTORY; h++) {
            device->timelines[q].history[h].clock = calloc(timelines, sizeof(uint64_t));
            ok = ok && device->timelines[q].history[h].clock;
        }
    }
    if (ok) return device;
    rota_device_free(device);
    return NULL;
}

static rota_status start_device(rota_device *device, const listed *entry) {
    rota_runtime *runtime = device->runtime;
    device->transfer_queue =
        runtime->plan_queue_count > 1 ? runtime->plan_queue_count - 1 : ROTA_EXEC_QUEUES_MAX;
    rota_exec_open_options options = {
        .host = {.user = device,
                 .log = runtime->options.log,
                 .advanced = advanced,
                 .failed = rota_poison_failed,
                 .lost = lost,
                 .poison_active = &runtime->poison_active,
                 .must_skip = rota_poison_must_skip,
                 .succeeded = rota_poison_succeeded,
                 .interrupted = interrupted,
                 .node_name = rota_plan_node_name},
        .queue_count = runtime->queue_count,
        .transfer_queue = device->transfer_queue,
        .segment_queues = runtime->plan_queue_count,
        .worker_threads = runtime->options.worker_threads,
        .spin_ns = runtime->options.spin_ns,
        .diagnostics = runtime->options.diagnostics,
        .cache_dir = runtime->options.cache_dir,
        .validation = runtime->options.validation,
        .test = entry->entry->test,
        .touch = runtime->touch,
    };
    const rota_exec_driver *driver = entry->entry->driver;
    ROTA_TRY(driver->open(driver, entry->index, &options, &device->exec));
    device->info = device->exec->info;
    memcpy(device->id, device->info.id, sizeof device->id);
    device->asks_poison = device->info.kind == ROTA_EXEC_CPU;
    /* On host memory a queue of its own for copies brings nothing but waits between queues. */
    if (device->exec->caps.unified_host) device->transfer_queue = ROTA_EXEC_QUEUES_MAX;
    device->io_queue = device->transfer_queue < runtime->plan_queue_count ? device->transfer_queue : 0;
    ROTA_TRY(rota_device_memory_create(device,
                                       runtime->options.staging_slots * runtime->options.staging_slot_bytes,
                                       ROTA_EXEC_MEMORY_HOST_WRITE, "upload ring", &device->upload_memory));
    ROTA_TRY(rota_makers_start(device));
    return rota_handover_start(device);
}

/* Of the process: a driver's exit handlers know no runtimes. */
static _Atomic uint32_t abandoned_devices;

void rota_device_note_abandoned(uint32_t count) {
    (void)ra_fetch_add_relaxed(&abandoned_devices, count);
}

uint32_t rota_devices_abandoned(void) {
    return ra_load_relaxed(&abandoned_devices);
}

static void stop_unpublished(rota_device *device) {
    uint64_t abandoned = 0;
    ra_store_seq_cst(&device->closed, 1);
    rota_sleeper_wake(&device->maker_sleeper);
    if (device->maker_started) (void)pthread_join(device->maker, NULL); /* it has nothing */
    if (device->upload_memory) rota_device_memory_destroy(device, device->upload_memory);
    if (device->exec) device->exec->vtable->close(device->exec, rota_deadline_after(1000000000u), &abandoned);
    if (abandoned == 0) {
        rota_device_free(device);
        return;
    }
    (void)ra_fetch_add_relaxed(&device->runtime->stat_abandoned, abandoned);
    rota_device_note_abandoned(1);
}

static rota_device *find_open(rota_runtime *runtime, const char *id) {
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++)
        if (ra_load_acquire(&runtime->devices[d]->visible) && strcmp(runtime->devices[d]->id, id) == 0)
            return runtime->devices[d];
    return NULL;
}

/* One that was refused and is not lost: it may be tried again. With open_mutex held. */
static rota_device *find_refused(rota_runtime *runtime, const char *id) {
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++) {
        rota_device *device = runtime->devices[d];
        if (!ra_load_acquire(&device->visible) && !rota_device_is_lost(device) && strcmp(device->id, id) == 0)
            return device;
    }
    return NULL;
}

/* Lets the device be seen, if it computes what it should. One that does not stays where it is, invisible: the
 * next try is of the same one, unless something of this one's is still in flight: then it is lost. */
static rota_status try_device(rota_device *device, rota_device **out_device) {
    rota_runtime *runtime = device->runtime;
    rota_status status = ROTA_OK;
    /* In touch mode a Vulkan device computes nothing that could be checked. */
    if (!(runtime->touch && device->info.kind == ROTA_EXEC_VK)) status = rota_smoke_run(device, 0);
    if (status != ROTA_OK) {
        char text[ROTA_ERROR_MESSAGE_MAX];
        (void)snprintf(text, sizeof text, "%s", rota_last_error());
        if (!rota_device_is_finished(device)) rota_device_set_lost(device, "failed its smoke test");
        return rota_fail(ROTA_REFUSED, "device '%s' (%s) is refused: %.*s", device->id, device->info.name,
                         600, text);
    }
    rota_share_open(device);
    ra_store_release(&device->visible, 1);
    rota_log_write(&runtime->options.log, ROTA_LOG_INFO, "device '%s' (%s, %s) open, smoke test passed",
                   device->id, device->info.name, device->info.driver);
    *out_device = device;
    return ROTA_OK;
}

static rota_status open_listed(rota_runtime *runtime, const listed *entry, rota_device **out_device) {
    if (!entry->info.usable)
        return rota_fail(ROTA_UNSUPPORTED, "device '%s' (%s) can't be used: %s", entry->info.id,
                         entry->info.name, entry->info.missing);
    rota_device *device = find_refused(runtime, entry->info.id);
    if (device) return try_device(device, out_device);
    if (ra_load_relaxed(&runtime->device_count) == ROTA_DEVICES_MAX)
        return rota_fail(ROTA_OUT_OF_RANGE,
                         "device '%s': a runtime has %d devices at most, those that were lost counted in",
                         entry->info.id, ROTA_DEVICES_MAX);
    device = new_device(runtime, entry);
    if (!device) return rota_fail(ROTA_OUT_OF_MEMORY, "device '%s': no host memory", entry->info.id);
    /* The executor's threads, a driver's own and the submit thread. */
    sigset_t before;
    rota_signals_block(&before);
    rota_status status = start_device(device, entry);
    rota_signals_restore(&before);
    if (status != ROTA_OK) {
        stop_unpublished(device);
        return status;
    }
    runtime->devices[device->index] = device;
    ra_store_release(&runtime->device_count, device->index + 1);
    return try_device(device, out_device);
}

/* Opens the device of this id; with open_mutex held. */
static rota_status open_by_id(rota_runtime *runtime, const listed *list, uint32_t count, const char *id,
                              const char *notes, rota_device **out_device) {
    *out_device = find_open(runtime, id);
    if (*out_device) return ROTA_OK;
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(list[i].info.id, id) == 0) return open_listed(runtime, &list[i], out_device);
    char ids[512] = "";
    for (uint32_t i = 0; i < count; i++) {
        size_t used = strlen(ids);
        (void)snprintf(ids + used, sizeof ids - used, "%s'%s'", i ? ", " : "", list[i].info.id);
    }
    return rota_fail(ROTA_NOT_FOUND, "no device '%s'; there are %s%s%.300s", id, count ? ids : "none",
                     notes[0] ? "; " : "", notes);
}

/* A real GPU before the CPU before a software GPU, in the order listed; says why. */
static rota_status open_best(rota_runtime *runtime, const listed *list, uint32_t count, const char *notes,
                             rota_device **out_device) {
    static const rota_device_class order[] = {ROTA_DEVICE_GPU, ROTA_DEVICE_CPU, ROTA_DEVICE_SOFTWARE_GPU};
    static const char *const names[] = {"a GPU", "the CPU", "a software GPU"};
    char refused[600] = "";
    for (uint32_t c = 0; c < 3; c++)
        for (uint32_t i = 0; i < count; i++) {
            if (list[i].info.device_class != order[c]) continue;
            rota_status status = open_by_id(runtime, list, count, list[i].info.id, notes, out_device);
            if (status == ROTA_OK) {
                /* Once: others may be reading it. */
                if (ra_load_relaxed(&runtime->is_chosen)) return ROTA_OK;
                (void)snprintf(runtime->choice, sizeof runtime->choice,
                               "chose '%s' (%.200s), %s that passed its smoke test%s%s%s%.250s",
                               list[i].info.id, list[i].info.name, names[c], refused[0] ? "; not used: " : "",
                               refused, c > 0 && !refused[0] && notes[0] ? "; no GPU: " : "",
                               c > 0 && !refused[0] ? notes : "");
                ra_store_release(&runtime->is_chosen, 1); /* with rota_device_choice */
                return ROTA_OK;
            }
            size_t used = strlen(refused);
            (void)snprintf(refused + used, sizeof refused - used, "%s%s", used ? "; " : "",
                           rota_last_error());
        }
    return rota_fail(ROTA_NOT_FOUND, "no usable device: %s%s%.300s", refused, refused[0] ? "; " : "", notes);
}

rota_status rota_device_open(rota_runtime *runtime, const char *id, rota_device **out_device) {
    *out_device = NULL;
    ROTA_TRY(rota_runtime_check(runtime));
    bool best = !id || strcmp(id, "auto") == 0;
    if (!best) {
        *out_device = find_open(runtime, id);
        if (*out_device) return ROTA_OK;
    }
    (void)pthread_mutex_lock(&runtime->open_mutex);
    listed *list;
    uint32_t count;
    char notes[512];
    rota_status status = list_devices(runtime, &list, &count, notes, sizeof notes);
    if (status == ROTA_OK)
        status = best ? open_best(runtime, list, count, notes, out_device)
                      : open_by_id(runtime, list, count, id, notes, out_device);
    if (status != ROTA_OK) *out_device = NULL;
    free(list);
    (void)pthread_mutex_unlock(&runtime->open_mutex);
    return status;
}

const char *rota_device_choice(const rota_runtime *runtime) {
    return ra_load_acquire(&runtime->is_chosen) ? runtime->choice : ""; /* with open_best */
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

rota_status rota_device_smoke(rota_device *device, uint64_t idle_ns) {
    ROTA_TRY(rota_runtime_check(device->runtime));
    return rota_smoke_run(device, idle_ns);
}
