/* Timelines that are semaphores: of the application's, or that others have by descriptor.
 *
 * Their values come from the executor's thread, which looks at a semaphore while more of it is wanted; that moves the
 * timeline like any signal, and who is held for it is woken as ever. */
#include <stdlib.h>

#include "base/given.h"
#include "sched/embed.h"
#include "sched/opened.h"
#include "sched/runtime/shared/devices.h" /* IWYU pragma: keep */
#include "sched/runtime/shared/external_semaphore.h"
#include "sched/runtime/shared/external_timeline.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/runtime.h" /* IWYU pragma: keep */

/* Gives the mutex back, and then says what the driver said. */
static void unlock_and_note(rota_external_semaphore *semaphore, rota_status status) {
    rota_external_timeline *timeline = semaphore->timeline;
    if (timeline) rota_external_timeline_retain(timeline); /* for its name: the application may release it then */
    (void)pthread_mutex_unlock(&semaphore->mutex);
    if (!timeline) return;
    rota_external_semaphore_note(timeline, status);
    rota_external_timeline_drop(timeline);
}

/* The executor's thread's, as is end. Who has the mutex now, to export or to release, may be in the driver, or be
 * stopped: it is not waited for, since the device's tickets would be, too. */
static rota_exec_look begin(rota_exec_semaphore *exec) {
    rota_external_semaphore *semaphore = (rota_external_semaphore *)exec;
    if (pthread_mutex_trylock(&semaphore->mutex) != 0) return ROTA_EXEC_LOOK_LATER;
    rota_external_timeline *timeline = semaphore->timeline;
    const rota_status status = rota_external_semaphore_signal(semaphore);
    if (status != ROTA_OK) {
        unlock_and_note(semaphore, status);
        return ROTA_EXEC_LOOK_LATER;
    }
    /* Relaxed: rota_vk_semaphore_look released what is wanted. */
    if (timeline && !rota_external_timeline_has(timeline, ra_load_relaxed(&semaphore->wanted))) {
        rota_external_timeline_retain(timeline); /* its application has a reference as long as it is here */
        return ROTA_EXEC_LOOK;
    }
    (void)pthread_mutex_unlock(&semaphore->mutex);
    return timeline ? ROTA_EXEC_LOOK_NOT : ROTA_EXEC_LOOK_NEVER;
}

static void end(rota_exec_semaphore *exec, uint64_t value) {
    rota_external_semaphore *semaphore = (rota_external_semaphore *)exec;
    rota_external_timeline *timeline = semaphore->timeline;
    (void)pthread_mutex_unlock(&semaphore->mutex);
    rota_external_timeline_raise(timeline, value);
    rota_external_timeline_drop(timeline);
}

/* With the mutex, which it gives back. */
static void signal_noted(rota_external_semaphore *semaphore) {
    unlock_and_note(semaphore, rota_external_semaphore_signal(semaphore));
}

/* That thread's, too: after NEVER, and as its last deed. Nobody notes a point any more then, and what was noted by now
 * is signalled here; also where somebody is still at the semaphore, who may wait for just that. */
static bool forget(rota_exec_semaphore *exec) {
    rota_external_semaphore *semaphore = (rota_external_semaphore *)exec;
    if (!rota_external_semaphore_shut(semaphore)) {
        if (pthread_mutex_trylock(&semaphore->mutex) == 0) signal_noted(semaphore);
        return false;
    }
    signal_noted(semaphore);
    rota_external_semaphore_drop(semaphore);
    return true;
}

static rota_status check(const rota_device *device, const char *name, bool can) {
    if (!can)
        return rota_fail(ROTA_UNSUPPORTED, "external timeline '%s': device '%s' takes no such semaphores",
                         name ? name : "", device->id);
    if (rota_device_is_lost(device))
        return rota_fail(ROTA_DEVICE_LOST, "external timeline '%s': device '%s' is lost", name ? name : "",
                         device->id);
    return ROTA_OK;
}

/* All but what the driver has: nothing fails after that. */
static rota_status prepare(rota_device *device, bool is_exportable, const char *name,
                           rota_external_timeline **out_timeline) {
    rota_external_timeline *timeline;
    ROTA_TRY(rota_external_timeline_create(device->runtime, name, &timeline));
    rota_external_semaphore *semaphore = calloc(1, sizeof *semaphore);
    if (!semaphore) {
        rota_external_timeline_release(timeline);
        return rota_fail(ROTA_OUT_OF_MEMORY, "external timeline '%s': no host memory", name ? name : "");
    }
    *semaphore = (rota_external_semaphore){.exec = {.begin = begin, .end = end, .forget = forget},
                                           .device = device,
                                           .timeline = timeline,
                                           .timeout_ns = device->runtime->options.timeout_ns,
                                           .is_exportable = is_exportable};
    (void)pthread_mutex_init(&semaphore->mutex, NULL);
    atomic_init(&semaphore->references, 1);
    timeline->semaphore = semaphore;
    *out_timeline = timeline;
    return ROTA_OK;
}

/* The executor's thread looks over what it has, and forgets those that were released, also where nobody ever waits on
 * the host. */
static void adopt(rota_external_timeline *timeline, void *handle) {
    rota_external_semaphore *semaphore = timeline->semaphore;
    rota_exec_device *exec = semaphore->device->exec;
    semaphore->exec.handle = handle;
    (void)ra_fetch_add_relaxed(&semaphore->references, 1);
    exec->vtable->semaphore_adopt(exec, &semaphore->exec);
    exec->vtable->semaphore_look(exec);
}

rota_status rota_external_timeline_adopt(rota_device *device, void *semaphore, const char *name,
                                         rota_external_timeline **out_timeline) {
    ROTA_GIVEN(out_timeline);
    *out_timeline = NULL;
    ROTA_GIVEN(device);
    ROTA_GIVEN(semaphore);
    ROTA_TRY(rota_runtime_check(device->runtime));
    const bool can = device->exec->vtable->semaphore_adopt && device->exec->application;
    ROTA_TRY(check(device, name, can));
    ROTA_TRY(prepare(device, false, name, out_timeline));
    adopt(*out_timeline, semaphore);
    return ROTA_OK;
}

rota_status rota_external_timeline_import(rota_device *device, int fd, const char *name,
                                          rota_external_timeline **out_timeline) {
    ROTA_GIVEN(out_timeline);
    *out_timeline = NULL;
    ROTA_GIVEN(device);
    ROTA_TRY(rota_runtime_check(device->runtime));
    if (fd < -1)
        return rota_fail(ROTA_INVALID_ARGUMENT, "external timeline '%s': descriptor %d, expected one, or -1",
                         name ? name : "", fd);
    ROTA_TRY(check(device, name, device->exec->vtable->semaphore_import != NULL));
    rota_external_timeline *timeline;
    ROTA_TRY(prepare(device, true, name, &timeline));
    void *handle;
    const rota_status status = device->exec->vtable->semaphore_import(device->exec, fd, &handle);
    if (status != ROTA_OK) {
        rota_external_timeline_release(timeline);
        return status;
    }
    adopt(timeline, handle);
    *out_timeline = timeline;
    return ROTA_OK;
}

rota_status rota_external_timeline_export(rota_external_timeline *timeline, int *out_fd) {
    ROTA_GIVEN(out_fd);
    *out_fd = -1;
    ROTA_GIVEN(timeline);
    rota_external_semaphore *semaphore = timeline->semaphore;
    ROTA_TRY(rota_opened_check(timeline->opened));
    if (!semaphore || !semaphore->is_exportable)
        return rota_fail(ROTA_UNSUPPORTED,
                         "external timeline '%s' is no semaphore that others take over: expected one of "
                         "rota_external_timeline_import",
                         timeline->name);
    if (!rota_external_semaphore_enter(semaphore))
        return rota_fail(ROTA_WRONG_STATE, "the runtime was closed");
    rota_exec_device *exec = semaphore->device->exec;
    rota_status status;
    if (rota_external_semaphore_lock(semaphore, rota_deadline_after(semaphore->timeout_ns))) {
        status = exec->vtable->semaphore_export(exec, semaphore->exec.handle, out_fd);
        (void)pthread_mutex_unlock(&semaphore->mutex);
    } else {
        status =
            rota_fail(ROTA_TIMEOUT,
                      "external timeline '%s': within %.3f s a driver did not let go of who asks for its "
                      "semaphore",
                      timeline->name, (double)semaphore->timeout_ns * 1e-9);
    }
    rota_external_semaphore_leave(semaphore);
    return status;
}
