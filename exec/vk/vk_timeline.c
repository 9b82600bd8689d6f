/* Timeline semaphores that another driver of the GPU has too: made here, handed over by opaque file
 * descriptor, signalled and waited for by works (vk_submit.c). */
#include <stdlib.h>

#include "exec/vk/vk_timeline.h"
#include "exec/vk/vk_device.h"

struct rota_exec_timeline {
    rota_exec_timeline *next; /* of the device's */
    VkSemaphore handle;
};

VkSemaphore rota_vk_timeline_handle(const rota_exec_timeline *timeline) {
    return timeline->handle;
}

rota_status rota_vk_timeline_create(rota_exec_device *base, int fd, rota_exec_timeline **out_timeline) {
    rota_vk_device *device = (rota_vk_device *)base;
    if (fd >= 0) return rota_fail(ROTA_UNSUPPORTED, "%s makes timelines and takes none over", base->info.id);
    rota_exec_timeline *timeline = calloc(1, sizeof *timeline);
    if (!timeline) return rota_fail(ROTA_OUT_OF_MEMORY, "%s: no host memory for a timeline", base->info.id);
    VkExportSemaphoreCreateInfo exported = {.sType = VK_STRUCTURE_TYPE_EXPORT_SEMAPHORE_CREATE_INFO,
                                            .handleTypes = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT};
    VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      .pNext = device->physical.sharing.timelines ? &exported : NULL,
                                      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    VkResult result =
        device->vk.CreateSemaphore(device->handle, &info, device->application.allocator, &timeline->handle);
    if (result != VK_SUCCESS) {
        free(timeline);
        return rota_vk_fail(result, "vkCreateSemaphore");
    }
    pthread_mutex_lock(&device->objects.lock);
    timeline->next = device->objects.timelines;
    device->objects.timelines = timeline;
    pthread_mutex_unlock(&device->objects.lock);
    *out_timeline = timeline;
    return ROTA_OK;
}

rota_status rota_vk_timeline_export(rota_exec_device *base, rota_exec_timeline *timeline, int *out_fd) {
    rota_vk_device *device = (rota_vk_device *)base;
    VkSemaphoreGetFdInfoKHR info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_GET_FD_INFO_KHR,
                                    .semaphore = timeline->handle,
                                    .handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT};
    VkResult result = device->vk.GetSemaphoreFdKHR(device->handle, &info, out_fd);
    return result == VK_SUCCESS ? ROTA_OK : rota_vk_fail(result, "vkGetSemaphoreFdKHR");
}

rota_status rota_vk_timeline_raise(rota_vk_device *device, VkSemaphore semaphore, uint64_t value) {
    uint64_t now = 0;
    VkResult result = device->vk.GetSemaphoreCounterValue(device->handle, semaphore, &now);
    if (result != VK_SUCCESS) return rota_vk_fail(result, "vkGetSemaphoreCounterValue");
    if (now >= value) return ROTA_OK;
    VkSemaphoreSignalInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, .semaphore = semaphore, .value = value};
    result = device->vk.SignalSemaphore(device->handle, &info);
    return result == VK_SUCCESS ? ROTA_OK : rota_vk_fail(result, "vkSignalSemaphore");
}

rota_status rota_vk_timeline_signal(rota_exec_device *base, rota_exec_timeline *timeline, uint64_t value) {
    return rota_vk_timeline_raise((rota_vk_device *)base, timeline->handle, value);
}

static void destroy(rota_vk_device *device, rota_exec_timeline *timeline) {
    device->vk.DestroySemaphore(device->handle, timeline->handle, device->application.allocator);
    free(timeline);
}

void rota_vk_timeline_destroy(rota_vk_device *device, rota_exec_timeline *timeline) {
    pthread_mutex_lock(&device->objects.lock);
    rota_exec_timeline **link = &device->objects.timelines;
    while (*link != timeline) link = &(*link)->next;
    *link = timeline->next;
    pthread_mutex_unlock(&device->objects.lock);
    destroy(device, timeline);
}

void rota_vk_timelines_free(rota_vk_device *device) {
    while (device->objects.timelines) {
        rota_exec_timeline *timeline = device->objects.timelines;
        device->objects.timelines = timeline->next;
        destroy(device, timeline);
    }
}
