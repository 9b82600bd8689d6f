/* Opening devices: which is the best one, and the trials that each passes before anybody gets it. */
#include "sched/runtime/life/device_open.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "base/log.h"
#include "sched/runtime/life/catalog.h"
#include "sched/runtime/life/device.h"
#include "sched/runtime/life/link.h"
#include "sched/runtime/memory/import.h"
#include "sched/runtime/shared/device_life.h"
#include "sched/runtime/shared/handle.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/runtime.h"

/* ---- Trials ---- */

void rota_device_take_trials(rota_runtime *runtime, const rota_trials *trials) {
    rota_assert(!runtime->opening.trials || runtime->opening.trials == trials);
    /* Once: whoever compiles reads it without the mutex, after a device was opened. */
    if (!runtime->opening.trials) runtime->opening.trials = trials;
}

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
        status = a->runtime->opening.trials->ordering(a, b, trial_patience(a->runtime));
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
    const rota_trials *trials = runtime->opening.trials;
    for (uint32_t d = 0; d < device->index; d++) {
        rota_device *other = runtime->devices[d];
        if (!rota_share_may(other, device)) continue;
        const uint32_t before = rota_share_begin(device, other);
        rota_status status = trials->sharing(other, device, patience_ns);
        if (status == ROTA_OK) status = trials->sharing(device, other, patience_ns);
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

/* Whether two peers compute what they should, by a sum that goes to and fro between them. */
static bool are_right(rota_device *a, rota_device *b) {
    return a->runtime->opening.trials->ordering(a, b, trial_patience(a->runtime)) == ROTA_OK;
}

/* Lets the new device, not visible yet, and the open ones of other GPUs read each other's memory and wait for each
 * other, as far as that goes. */
static void meet(rota_device *device) {
    rota_runtime *runtime = device->runtime;
    const rota_log *log = &runtime->options.log;
    for (uint32_t d = 0; d < device->index; d++) {
        rota_device *other = runtime->devices[d];
        if (!rota_devices_may_meet(other, device)) continue;
        bool met = rota_devices_meet(other, device) == ROTA_OK, linked = false;
        if (met && rota_peers_may_link(other, device)) {
            linked = rota_peers_link(other, device) == ROTA_OK;
            if (linked && !are_right(other, device)) {
                rota_devices_unlink(other, device);
                linked = false;
            }
            if (!linked)
                rota_log_write(
                    log, ROTA_LOG_INFO,
                    "devices '%s' and '%s' read each other's memory, but their works are ordered by "
                    "the host (%s)",
                    other->id, device->id, rota_last_error());
        }
        if (met && !linked && !are_right(other, device)) {
            rota_devices_part(other, device);
            met = false;
        }
        if (met)
            rota_log_write(log, ROTA_LOG_INFO, "devices '%s' and '%s' read each other's memory%s", other->id,
                           device->id, linked ? " and order their works without the host" : "");
        else
            rota_log_write(log, ROTA_LOG_INFO,
                           "bytes of devices '%s' and '%s' go through the host's memory (%s)", other->id,
                           device->id, rota_last_error());
    }
}

rota_status rota_device_admit(rota_device *device, rota_device **out_device) {
    rota_runtime *runtime = device->runtime;
    rota_status status = ROTA_OK;
    if (!device->exec->caps.only_touches)
        status = runtime->opening.trials->smoke(device, 0, trial_patience(runtime));
    if (status != ROTA_OK) {
        char text[ROTA_ERROR_MESSAGE_MAX];
        (void)snprintf(text, sizeof text, "%s", rota_last_error());
        if (!rota_device_is_finished(device)) rota_device_set_lost(device, "failed its smoke test");
        return rota_fail(ROTA_REFUSED, "device '%s' (%s) is refused: %.*s", device->id, device->info.name,
                         600, text);
    }
    share(device);
    meet(device);
    (void)rota_device_move(device, ROTA_LIFE_OPEN); /* unless it was lost meanwhile */
    ra_store_release(&device->is_seen, 1);
    rota_log_write(&runtime->options.log, ROTA_LOG_INFO, "device '%s' (%s, %s) open, smoke test passed",
                   device->id, device->info.name, device->info.driver);
    *out_device = device;
    return ROTA_OK;
}

static rota_status open_listed(rota_runtime *runtime, const rota_listed *entry, rota_device **out_device) {
    if (!entry->info.usable)
        return rota_fail(ROTA_UNSUPPORTED, "device '%s' (%s) can't be used: %s", entry->info.id,
                         entry->info.name, entry->info.missing);
    rota_device *device = find_refused(runtime, entry->info.id);
    const rota_device_source source = {.entry = entry->entry, .index = entry->index};
    if (!device) ROTA_TRY(rota_device_start(runtime, &source, &entry->info, &device));
    return rota_device_admit(device, out_device);
}

/* Opens the device of this id; with opening.mutex held. */
static rota_status open_by_id(rota_runtime *runtime, const rota_catalog *there, const char *id,
                              rota_device **out_device) {
    *out_device = find_open(runtime, id);
    if (*out_device) return ROTA_OK;
    for (uint32_t i = 0; i < there->count; i++)
        if (strcmp(there->list[i].info.id, id) == 0) return open_listed(runtime, &there->list[i], out_device);
    char ids[512] = "";
    for (uint32_t i = 0; i < there->count; i++) {
        size_t used = strlen(ids);
        (void)snprintf(ids + used, sizeof ids - used, "%s'%s'", i ? ", " : "", there->list[i].info.id);
    }
    return rota_fail(ROTA_NOT_FOUND, "no device '%s'; there are %s%s%.300s", id, there->count ? ids : "none",
                     there->notes[0] ? "; " : "", there->notes);
}

/* A round of looking for the best device: it takes the first that passes of those of this class whose driver is of
 * these kinds. */
typedef struct choice_round {
    rota_device_class device_class;
    uint32_t kinds; /* bit per rota_exec_kind */
    const char *noun;
} choice_round;

static const choice_round rounds[] = {
    {ROTA_DEVICE_GPU, 1u << ROTA_EXEC_CUDA, "a GPU"},
    {ROTA_DEVICE_GPU, ~(1u << ROTA_EXEC_CUDA), "a GPU"},
    {ROTA_DEVICE_CPU, ~0u, "the CPU"},
    {ROTA_DEVICE_SOFTWARE_GPU, ~0u, "a software GPU"},
};

/* Says why: the first time, since others may be reading it. With opening.mutex held. */
static void note_choice(rota_runtime *runtime, const rota_catalog *there, const rota_device_info *chosen,
                        const choice_round *by, const char *refused) {
    if (ra_load_relaxed(&runtime->opening.is_chosen)) return;
    const bool lacks_gpu = by->device_class != ROTA_DEVICE_GPU && !refused[0];
    (void)snprintf(runtime->opening.choice, sizeof runtime->opening.choice,
                   "chose '%s' (%.200s), %s that passed its smoke test%s%s%s%.250s", chosen->id, chosen->name,
                   by->noun, refused[0] ? "; not used: " : "", refused,
                   lacks_gpu && there->notes[0] ? "; no GPU: " : "", lacks_gpu ? there->notes : "");
    ra_store_release(&runtime->opening.is_chosen, 1); /* with rota_device_choice */
}

/* In the order of rounds, and in each in the order listed. */
static rota_status open_best(rota_runtime *runtime, const rota_catalog *there, rota_device **out_device) {
    char refused[600] = "";
    for (uint32_t r = 0; r < sizeof rounds / sizeof *rounds; r++)
        for (uint32_t i = 0; i < there->count; i++) {
            const rota_device_info *info = &there->list[i].info;
            if (info->device_class != rounds[r].device_class || !(rounds[r].kinds >> info->kind & 1u))
                continue;
            if (open_by_id(runtime, there, info->id, out_device) == ROTA_OK) {
                note_choice(runtime, there, info, &rounds[r], refused);
                return ROTA_OK;
            }
            size_t used = strlen(refused);
            (void)snprintf(refused + used, sizeof refused - used, "%s%s", used ? "; " : "",
                           rota_last_error());
        }
    return rota_fail(ROTA_NOT_FOUND, "no usable device: %s%s%.300s", refused, refused[0] ? "; " : "",
                     there->notes);
}

rota_status rota_device_open_tried(rota_runtime *runtime, const char *id, const rota_trials *trials,
                                   rota_device **out_device) {
    *out_device = NULL;
    ROTA_TRY(rota_runtime_check(runtime));
    bool best = !id || strcmp(id, "auto") == 0;
    if (!best) {
        *out_device = find_open(runtime, id);
        if (*out_device) return ROTA_OK;
    }
    (void)pthread_mutex_lock(&runtime->opening.mutex);
    rota_device_take_trials(runtime, trials);
    rota_catalog there;
    rota_status status = rota_catalog_make(runtime, &there);
    if (status == ROTA_OK)
        status = best ? open_best(runtime, &there, out_device) : open_by_id(runtime, &there, id, out_device);
    if (status != ROTA_OK) *out_device = NULL;
    rota_catalog_free(&there);
    (void)pthread_mutex_unlock(&runtime->opening.mutex);
    return status;
}

const char *rota_device_choice(const rota_runtime *runtime) {
    return runtime && ra_load_acquire(&runtime->opening.is_chosen) ? runtime->opening.choice
                                                                   : ""; /* with note_choice */
}
