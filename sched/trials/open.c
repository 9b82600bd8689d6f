/* Opening devices: what there is, which is the best one, and the trials that each passes before anybody gets
 * it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/given.h"
#include "base/log.h"
#include "base/sized_copy.h"
#include "sched/runtime/life/device.h"
#include "sched/runtime/life/link.h"
#include "sched/runtime/memory/import.h"
#include "sched/runtime/shared/device_life.h"
#include "sched/runtime/shared/handle.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/trials/open.h"
#include "sched/trials/trials.h"

/* ---- What there is ---- */

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
    for (uint32_t i = 0; i < runtime->opening.driver_count; i++) {
        const rota_exec_driver *driver = runtime->opening.drivers[i].driver;
        uint32_t found = 0;
        rota_status status = driver->enumerate(driver, infos, ROTA_DEVICES_MAX, &found);
        if ((status != ROTA_OK || found == 0) && notes_size) {
            size_t used = strlen(notes);
            (void)snprintf(notes + used, notes_size - used, "%s%s: %s", used ? "; " : "", driver->name,
                           rota_last_error());
        }
        if (status != ROTA_OK) continue;
        if (found > ROTA_DEVICES_MAX) found = ROTA_DEVICES_MAX;
        for (uint32_t d = 0; d < found; d++) {
            infos[d].struct_size = sizeof *infos;
            list[count++] = (listed){infos[d], &runtime->opening.drivers[i], d};
        }
    }
    free(infos);
    *out_list = list;
    *out_count = count;
    return ROTA_OK;
}

rota_status rota_devices(rota_runtime *runtime, rota_device_info *out_infos, uint32_t capacity,
                         uint32_t *out_count) {
    ROTA_GIVEN_ARRAY(out_infos, capacity);
    ROTA_GIVEN(out_count);
    *out_count = 0;
    size_t stride = capacity ? out_infos->struct_size : 0;
    if (capacity) ROTA_TRY(rota_sized_check(stride, "rota_device_info"));
    ROTA_TRY(rota_runtime_check(runtime));
    listed *list;
    uint32_t count;
    char notes[512];
    ROTA_TRY(list_devices(runtime, &list, &count, notes, sizeof notes));
    (void)rota_fail(ROTA_OK, "%s", notes);
    for (uint32_t i = 0; i < count && i < capacity; i++) {
        void *out = (char *)out_infos + i * stride;
        memcpy(out, &stride, sizeof stride);
        rota_sized_out(out, &list[i].info, sizeof list[i].info);
    }
    *out_count = count;
    free(list);
    return ROTA_OK;
}

/* ---- Trials ---- */

static rota_device *find_open(rota_runtime *runtime, const char *id) {
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++)
        if (ra_load_acquire(&runtime->devices[d]->is_seen) && strcmp(runtime->devices[d]->id, id) == 0)
            return runtime->devices[d];
    return NULL;
}

/* One that was refused and is not lost: it may be tried again. With opening.mutex held. */
static rota_device *find_refused(rota_runtime *runtime, const char *id) {
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++) {
        rota_device *device = runtime->devices[d];
        if (!ra_load_acquire(&device->is_seen) && !rota_device_is_lost(device) && strcmp(device->id, id) == 0)
            return device;
    }
    return NULL;
}

/* A driver makes its first kernels now, on a machine that may be busy: what the application means to wait for
 * replays is no measure of that. */
static uint64_t trial_patience(const rota_runtime *runtime) {
    const uint64_t least = 5000000000u;
    return runtime->options.timeout_ns < least ? least : 0;
}

/* Lets two devices that share memory order their works on the GPU, if that does. */
static void link(rota_device *a, rota_device *b) {
    if (!rota_devices_may_link(a, b)) return;
    rota_status status = rota_devices_link(a, b);
    if (status == ROTA_OK) {
        status = rota_trial_ordering(a, b, trial_patience(a->runtime));
        if (status != ROTA_OK) rota_devices_unlink(a, b);
    }
    const rota_log *log = &a->runtime->options.log;
    if (status == ROTA_OK)
        rota_log_write(log, ROTA_LOG_INFO, "devices '%s' and '%s' order their works on the GPU", a->id,
                       b->id);
    else
        rota_log_write(log, ROTA_LOG_INFO,
                       "devices '%s' and '%s' share memory, but their works are ordered by the host (%s)",
                       a->id, b->id, rota_last_error());
}

/* Finds out with which open device the new one, not visible yet, shares memory. */
static void share(rota_device *device) {
    rota_runtime *runtime = device->runtime;
    if (rota_hooks_unshared(&runtime->hooks) || rota_hooks_touch(&runtime->hooks))
        return; /* in touch mode nothing is computed that could be compared */
    const uint64_t patience_ns = trial_patience(runtime);
    for (uint32_t d = 0; d < device->index; d++) {
        rota_device *other = runtime->devices[d];
        if (!rota_share_may(other, device)) continue;
        const uint32_t before = rota_share_begin(device, other);
        rota_status status = rota_trial_sharing(other, device, patience_ns);
        if (status == ROTA_OK) status = rota_trial_sharing(device, other, patience_ns);
        if (status == ROTA_OK) {
            rota_log_write(&runtime->options.log, ROTA_LOG_INFO, "devices '%s' and '%s' share memory",
                           other->id, device->id);
            link(other, device);
            return;
        }
        rota_share_refuse(device, other, before);
        rota_log_write(
            &runtime->options.log, ROTA_LOG_INFO,
            "devices '%s' and '%s' are of one GPU but share no memory (%s): bytes go from one to the other "
            "through the host's",
            other->id, device->id, rota_last_error());
    }
}

rota_status rota_trial_admit(rota_device *device, rota_device **out_device) {
    rota_runtime *runtime = device->runtime;
    rota_status status = ROTA_OK;
    /* In touch mode a Vulkan device computes nothing that could be checked. */
    if (!(rota_hooks_touch(&runtime->hooks) && device->info.kind == ROTA_EXEC_VK))
        status = rota_trial_smoke(device, 0, trial_patience(runtime));
    if (status != ROTA_OK) {
        char text[ROTA_ERROR_MESSAGE_MAX];
        (void)snprintf(text, sizeof text, "%s", rota_last_error());
        if (!rota_device_is_finished(device)) rota_device_set_lost(device, "failed its smoke test");
        return rota_fail(ROTA_REFUSED, "device '%s' (%s) is refused: %.*s", device->id, device->info.name,
                         600, text);
    }
    share(device);
    (void)rota_device_move(device, ROTA_LIFE_OPEN); /* unless it was lost meanwhile */
    ra_store_release(&device->is_seen, 1);
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
    const rota_device_source source = {.entry = entry->entry, .index = entry->index};
    if (!device) ROTA_TRY(rota_device_start(runtime, &source, &entry->info, &device));
    return rota_trial_admit(device, out_device);
}

/* Opens the device of this id; with opening.mutex held. */
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

/* A real GPU, by CUDA rather than by Vulkan, before the CPU before a software GPU, in the order listed; says
 * why. */
static rota_status open_best(rota_runtime *runtime, const listed *list, uint32_t count, const char *notes,
                             rota_device **out_device) {
    static const rota_device_class order[] = {ROTA_DEVICE_GPU, ROTA_DEVICE_CPU, ROTA_DEVICE_SOFTWARE_GPU};
    static const char *const names[] = {"a GPU", "the CPU", "a software GPU"};
    char refused[600] = "";
    /* A round for each class; of GPUs one for CUDA before all others. */
    for (uint32_t round = 0; round < 4; round++) {
        const uint32_t c = round ? round - 1 : 0;
        for (uint32_t i = 0; i < count; i++) {
            const bool first = c == 0 && list[i].info.kind == ROTA_EXEC_CUDA;
            if (list[i].info.device_class != order[c] || first != (round == 0)) continue;
            rota_status status = open_by_id(runtime, list, count, list[i].info.id, notes, out_device);
            if (status == ROTA_OK) {
                /* Once: others may be reading it. */
                if (ra_load_relaxed(&runtime->opening.is_chosen)) return ROTA_OK;
                (void)snprintf(runtime->opening.choice, sizeof runtime->opening.choice,
                               "chose '%s' (%.200s), %s that passed its smoke test%s%s%s%.250s",
                               list[i].info.id, list[i].info.name, names[c], refused[0] ? "; not used: " : "",
                               refused, c > 0 && !refused[0] && notes[0] ? "; no GPU: " : "",
                               c > 0 && !refused[0] ? notes : "");
                ra_store_release(&runtime->opening.is_chosen, 1); /* with rota_device_choice */
                return ROTA_OK;
            }
            size_t used = strlen(refused);
            (void)snprintf(refused + used, sizeof refused - used, "%s%s", used ? "; " : "",
                           rota_last_error());
        }
    }
    return rota_fail(ROTA_NOT_FOUND, "no usable device: %s%s%.300s", refused, refused[0] ? "; " : "", notes);
}

rota_status rota_device_open(rota_runtime *runtime, const char *id, rota_device **out_device) {
    ROTA_GIVEN(out_device);
    *out_device = NULL;
    ROTA_TRY(rota_runtime_check(runtime));
    bool best = !id || strcmp(id, "auto") == 0;
    if (!best) {
        *out_device = find_open(runtime, id);
        if (*out_device) return ROTA_OK;
    }
    (void)pthread_mutex_lock(&runtime->opening.mutex);
    listed *list;
    uint32_t count;
    char notes[512];
    rota_status status = list_devices(runtime, &list, &count, notes, sizeof notes);
    if (status == ROTA_OK)
        status = best ? open_best(runtime, list, count, notes, out_device)
                      : open_by_id(runtime, list, count, id, notes, out_device);
    if (status != ROTA_OK) *out_device = NULL;
    free(list);
    (void)pthread_mutex_unlock(&runtime->opening.mutex);
    return status;
}

const char *rota_device_choice(const rota_runtime *runtime) {
    return runtime && ra_load_acquire(&runtime->opening.is_chosen) ? runtime->opening.choice
                                                                   : ""; /* with open_best */
}

rota_status rota_device_smoke(rota_device *device, uint64_t idle_ns) {
    ROTA_GIVEN(device);
    ROTA_TRY(rota_runtime_check(device->runtime));
    return rota_trial_smoke(device, idle_ns, 0);
}
