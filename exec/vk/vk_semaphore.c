/* Timeline semaphores of the application's, as the host sees them: for who can't wait for them on the GPU, and for
 * tickets that reach points of them. Works that can wait do so by vk_submit.c.
 *
 * The completion thread asks for their values while somebody waits for one, and not otherwise: at intervals that grow
 * with how long that has been, an eighth of it, so that a wait is late by no more than that and costs little however
 * long it is; and it waits for works of rota's no longer at a time than the longest of them. (vkWaitSemaphores would do
 * where a signal is under way; for one that nobody has submitted, drivers poll too, and the validation layer takes ten
 * seconds.)
 *
 * Who begins to wait says so in the semaphore's own words, and then stores `look` and wakes the thread, as is argued in
 * completer.h; the thread takes `look` and then reads those words, so that it sees what was wanted before. */
#include "exec/vk/vk_semaphore.h"
#include "exec/vk/vk_descriptor.h"
#include <fcntl.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/futex.h"
#include "exec/vk/vk_device.h"
#include "exec/vk/vk_timeline.h"

#define NAP_NS_MIN 20000ull
#define NAP_NS_MAX 1000000ull
#define NAP_SHARE 8
/* While works are in flight nobody can wake the thread in the driver: how late it signals then, at most. */
#define SLICE_NS 250000ull

#define FORGET_NAP_NS 50000ull

static void link_one(rota_vk_device *device, rota_exec_semaphore *semaphore) {
    pthread_mutex_lock(&device->objects.lock);
    semaphore->next = device->objects.semaphores;
    device->objects.semaphores = semaphore;
    ra_store_relaxed(&device->objects.has_semaphores, 1);
    pthread_mutex_unlock(&device->objects.lock);
}

void rota_vk_semaphore_adopt(rota_exec_device *base, rota_exec_semaphore *semaphore) {
    link_one((rota_vk_device *)base, semaphore);
}

static rota_status import(rota_vk_device *device, rota_exec_timeline *timeline, int fd) {
    int own;
    ROTA_TRY(rota_vk_timeline_export(&device->base, timeline, &own));
    ROTA_TRY(rota_vk_descriptor_check(&device->base, fd, own, "a semaphore"));
    VkImportSemaphoreFdInfoKHR info = {.sType = VK_STRUCTURE_TYPE_IMPORT_SEMAPHORE_FD_INFO_KHR,
                                       .semaphore = rota_vk_timeline_handle(timeline),
                                       .handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT,
                                       .fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)};
    if (info.fd < 0)
        return rota_fail(ROTA_OUT_OF_MEMORY, "%s: no file descriptor is left for a semaphore",
                         device->base.info.id);
    const VkResult result = device->vk.ImportSemaphoreFdKHR(device->handle, &info);
    if (result == VK_SUCCESS) return ROTA_OK; /* the driver has the copy */
    (void)close(info.fd);
    const rota_status status = rota_vk_fail(result, "vkImportSemaphoreFdKHR");
    if (status == ROTA_OUT_OF_MEMORY || status == ROTA_DEVICE_LOST) return status;
    /* Of something else: VK_ERROR_INVALID_EXTERNAL_HANDLE, or VK_ERROR_INITIALIZATION_FAILED (NVIDIA's 580). */
    return rota_fail(ROTA_INVALID_ARGUMENT, "%s: the descriptor %d is of no semaphore that the driver takes",
                     device->base.info.id, fd);
}

rota_status rota_vk_semaphore_import(rota_exec_device *base, int fd, void **out_handle) {
    rota_vk_device *device = (rota_vk_device *)base;
    rota_exec_timeline *timeline;
    if (!device->physical.sharing.timelines || !device->vk.GetSemaphoreFdKHR ||
        !device->vk.ImportSemaphoreFdKHR)
        return rota_fail(
            ROTA_UNSUPPORTED,
            "%s has no semaphores that others take over (" VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME
            ", of timelines)",
            base->info.id);
    if (ra_load_acquire(&device->lost)) /* pairs with rota_vk_lose */
        return rota_fail(ROTA_DEVICE_LOST, "%s is lost", base->info.id);
    ROTA_TRY(rota_vk_timeline_create(base, -1, &timeline));
    *out_handle = rota_vk_timeline_handle(timeline);
    const rota_status status = fd < 0 ? ROTA_OK : import(device, timeline, fd);
    if (status != ROTA_OK) rota_vk_timeline_destroy(device, timeline);
    return status;
}

rota_status rota_vk_semaphore_export(rota_exec_device *base, void *handle, int *out_fd) {
    rota_vk_device *device = (rota_vk_device *)base;
    VkSemaphoreGetFdInfoKHR info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_GET_FD_INFO_KHR,
                                    .semaphore = handle,
                                    .handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT};
    const VkResult result = device->vk.GetSemaphoreFdKHR(device->handle, &info, out_fd);
    return result == VK_SUCCESS ? ROTA_OK : rota_vk_fail(result, "vkGetSemaphoreFdKHR");
}

void rota_vk_semaphore_look(rota_exec_device *base) {
    rota_vk_device *device = (rota_vk_device *)base;
    /* Releases what is wanted, and what others released here before, whose looks this one stands for: a plain store
     * would end theirs. With has_work and watch. */
    (void)ra_exchange_seq_cst(&device->objects.look, 1);
    rota_completer_wake_by_any(&device->completer);
}

rota_status rota_vk_semaphore_signal(rota_exec_device *base, void *handle, uint64_t value) {
    return rota_vk_timeline_raise((rota_vk_device *)base, handle, value);
}

static rota_exec_semaphore *first_of(rota_vk_device *device) {
    pthread_mutex_lock(&device->objects.lock);
    rota_exec_semaphore *first = device->objects.semaphores;
    pthread_mutex_unlock(&device->objects.lock);
    return first;
}

/* Others only put new ones before the first. */
static void unlink_one(rota_vk_device *device, const rota_exec_semaphore *semaphore) {
    pthread_mutex_lock(&device->objects.lock);
    rota_exec_semaphore **link = &device->objects.semaphores;
    while (*link != semaphore) link = &(*link)->next;
    *link = semaphore->next;
    ra_store_relaxed(&device->objects.has_semaphores, device->objects.semaphores != NULL);
    pthread_mutex_unlock(&device->objects.lock);
}

/* It may be gone afterwards. One that somebody is at stays, for a later look. */
static bool forget_one(rota_vk_device *device, rota_exec_semaphore *semaphore) {
    unlink_one(device, semaphore);
    if (semaphore->forget(semaphore)) return true;
    link_one(device, semaphore);
    return false;
}

static void ask(rota_vk_device *device, rota_exec_semaphore *semaphore) {
    uint64_t value = 0;
    const VkResult result = device->vk.GetSemaphoreCounterValue(device->handle, semaphore->handle, &value);
    /* Drivers may set every counter to its highest value when they lose the device. */
    semaphore->end(semaphore, result == VK_SUCCESS && value != UINT64_MAX ? value : 0);
}

uint64_t rota_vk_semaphores_watch(rota_vk_device *device) {
    rota_vk_watch *watch = &device->watch;
    if (ra_load_relaxed(&device->objects.look) &&
        ra_exchange_acq_rel(&device->objects.look, 0)) /* with look */
        watch->semaphores_since_ns = rota_clock_ns();
    watch->semaphores_nap_ns = 0;
    if (!watch->semaphores_since_ns) return 0;
    bool is_wanted = false;
    for (rota_exec_semaphore *semaphore = first_of(device), *next; semaphore; semaphore = next) {
        next = semaphore->next;
        const rota_exec_look look = semaphore->begin(semaphore);
        if (look == ROTA_EXEC_LOOK_NOT) continue;
        if (look == ROTA_EXEC_LOOK_NEVER && forget_one(device, semaphore)) continue;
        is_wanted = true; /* it may be no longer: the next look finds that */
        if (look == ROTA_EXEC_LOOK) ask(device, semaphore);
    }
    if (!is_wanted) {
        watch->semaphores_since_ns = 0;
        return 0;
    }
    const uint64_t nap = (rota_clock_ns() - watch->semaphores_since_ns) / NAP_SHARE;
    watch->semaphores_nap_ns = nap < NAP_NS_MIN ? NAP_NS_MIN : nap > NAP_NS_MAX ? NAP_NS_MAX : nap;
    return watch->semaphores_nap_ns;
}

uint64_t rota_vk_semaphores_slice(const rota_vk_device *device) {
    if (device->watch.semaphores_nap_ns) return device->watch.semaphores_nap_ns;
    return ra_load_relaxed(&device->objects.has_semaphores) ? SLICE_NS : 0;
}

bool rota_vk_semaphores_forget(rota_vk_device *device) {
    /* One that somebody is at keeps no other one's signal; and where close waits no longer each has its turn, too. */
    for (;;) {
        /* First; pairs with rota_completer_stop. */
        const bool is_last = ra_load_acquire(&device->completer.closing) == ROTA_COMPLETER_STOPS;
        for (rota_exec_semaphore *semaphore = first_of(device), *next; semaphore; semaphore = next) {
            next = semaphore->next;
            (void)forget_one(device, semaphore);
        }
        if (!first_of(device)) return true;
        if (is_last) return false;
        rota_nap_until(rota_deadline_after(FORGET_NAP_NS));
    }
}
