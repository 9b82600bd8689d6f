/* A VkDevice of the application's: what it was made with is looked over as if rota made it, and what is missing is
 * named. Of its objects rota destroys those that it made itself.
 *
 * A queue that is shared. Vulkan wants one thread at a time in calls for a queue; rota's are vkQueueSubmit2 by the
 * device's submit thread, the last of them when that ends, with a fence that the completion thread then waits for,
 * which is no call for the queue. They are under the application's lock and nothing else is: no other lock of rota's is
 * held when it is taken, so that there is no circle whatever the application does under it, calls of rota's included,
 * which never wait for the submit thread without a deadline. A thread of the application's that keeps it keeps the
 * submit thread as a driver does whose vkQueueSubmit2 blocks, and is treated as that is: callers go on, other devices
 * go on, deadlines pass, and close abandons the device. */
#include "exec/vk/vk_application.h"
#include "exec/vk/vk_device.h"
#include "exec/vk/vk_semaphore.h"
#include <stdio.h>
#include <string.h>

#define FAMILIES_MAX 64
#define WAIT_SLICE_NS 50000000ull

static rota_status wrong(const rota_vk_device *device, const char *member, const char *expected) {
    return rota_fail(ROTA_INVALID_ARGUMENT, "%s: rota_vulkan_device.%s, expected %s", device->base.info.id,
                     member, expected);
}

static rota_status check(const rota_vk_device *device, const rota_vulkan_device *given) {
    if (!given->instance) return wrong(device, "instance is NULL", "a VkInstance");
    if (!given->physical_device) return wrong(device, "physical_device is NULL", "a VkPhysicalDevice");
    if (!given->device) return wrong(device, "device is NULL", "a VkDevice");
    const VkDeviceCreateInfo *info = given->create_info;
    if (!info || info->sType != VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO)
        return wrong(device, info ? "create_info->sType is another struct's" : "create_info is NULL",
                     "the VkDeviceCreateInfo that the device was made with");
    if (!given->compute.lock != !given->compute.unlock)
        return wrong(device, "compute has lock or unlock alone", "both or neither");
    if (given->has_transfer && !given->transfer.lock != !given->transfer.unlock)
        return wrong(device, "transfer has lock or unlock alone", "both or neither");
    if (given->has_transfer && given->transfer.family == given->compute.family &&
        given->transfer.index == given->compute.index)
        return wrong(device, "transfer is the queue of compute", "another one, or has_transfer = false");
    if (!given->allocate != !given->free)
        return wrong(device, "allocate or free is alone", "both or neither");
    const uint32_t version = given->api_version;
    if (version < VK_API_VERSION_1_2)
        return rota_fail(
            ROTA_UNSUPPORTED,
            "%s: rota_vulkan_device.api_version: the instance is for Vulkan %u.%u, expected 1.2 or later",
            device->base.info.id, VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version));
    return ROTA_OK;
}

static rota_status load_instance(rota_vk_device *device, const rota_vulkan_device *given) {
    rota_vk_instance *instance = &device->instance;
    rota_vk_global own = {.GetInstanceProcAddr = (PFN_vkGetInstanceProcAddr)given->get_instance_proc_addr};
    const rota_vk_global *global = &own;
    if (!own.GetInstanceProcAddr) ROTA_TRY(rota_vk_global_get(&global));
    ROTA_TRY(rota_vk_instance_load(global, given->instance, &instance->vk));
    instance->handle = given->instance;
    instance->api_version =
        given->api_version >= VK_API_VERSION_1_3 ? VK_API_VERSION_1_3 : VK_API_VERSION_1_2;
    instance->names = device->options.debug_names && instance->vk.SetDebugUtilsObjectNameEXT &&
                      instance->vk.CmdBeginDebugUtilsLabelEXT && instance->vk.CmdEndDebugUtilsLabelEXT;
    if (device->options.validation)
        rota_log_write(&device->host.log, ROTA_LOG_INFO,
                       "%s is of an instance of the application's: validation is as that has it",
                       device->base.info.id);
    return ROTA_OK;
}

/* Whether the device was made with a queue of that number, without flags. */
static bool was_made(const VkDeviceCreateInfo *info, const rota_vulkan_queue *queue) {
    for (uint32_t i = 0; i < info->queueCreateInfoCount; i++) {
        const VkDeviceQueueCreateInfo *made = &info->pQueueCreateInfos[i];
        if (made->queueFamilyIndex == queue->family && made->flags == 0 && queue->index < made->queueCount)
            return true;
    }
    return false;
}

/* Of a queue with one of these flags, in place of what rota would have picked. */
static rota_status take_queue(rota_vk_device *device, const VkDeviceCreateInfo *info,
                              const rota_vulkan_queue *queue, const char *member, VkQueueFlags flags,
                              uint32_t *out_family) {
    VkQueueFamilyProperties families[FAMILIES_MAX];
    uint32_t count = FAMILIES_MAX;
    device->instance.vk.GetPhysicalDeviceQueueFamilyProperties(device->physical.handle, &count, families);
    if (!was_made(info, queue))
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "%s: rota_vulkan_device.%s: create_info has no queue %u of family %u without flags",
                         device->base.info.id, member, queue->index, queue->family);
    if (queue->family >= count || !(families[queue->family].queueFlags & flags))
        return rota_fail(ROTA_INVALID_ARGUMENT, "%s: rota_vulkan_device.%s: queues of family %u do not %s",
                         device->base.info.id, member, queue->family,
                         flags & VK_QUEUE_TRANSFER_BIT ? "copy" : "compute");
    *out_family = queue->family;
    if (flags & VK_QUEUE_TRANSFER_BIT) return ROTA_OK;
    device->physical.timestamp_bits = families[queue->family].timestampValidBits;
    return ROTA_OK;
}

static rota_status take_queues(rota_vk_device *device, const rota_vulkan_device *given) {
    const VkDeviceCreateInfo *info = given->create_info;
    rota_vk_physical *physical = &device->physical;
    ROTA_TRY(take_queue(device, info, &given->compute, "compute", VK_QUEUE_COMPUTE_BIT,
                        &physical->compute_family));
    physical->transfer_family = physical->compute_family;
    physical->info.compute_queues = 1;
    physical->info.transfer_queues = given->has_transfer ? 1 : 0;
    if (!given->has_transfer) return ROTA_OK;
    return take_queue(device, info, &given->transfer, "transfer",
                      VK_QUEUE_TRANSFER_BIT | VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT,
                      &physical->transfer_family);
}

rota_status rota_vk_application_open(rota_vk_device *device, const rota_vulkan_device *given) {
    ROTA_TRY(check(device, given));
    device->application.is_given = true;
    ROTA_TRY(load_instance(device, given));
    if (given->allocation_callbacks) {
        device->application.callbacks = *(const VkAllocationCallbacks *)given->allocation_callbacks;
        device->application.allocator = &device->application.callbacks;
    }
    device->application.allocate = given->allocate;
    device->application.free = given->free;
    device->application.memory_user = given->memory_user;
    char id[sizeof device->base.info.id];
    (void)snprintf(id, sizeof id, "%s", device->base.info.id);
    rota_vk_physical_query(&device->instance, given->physical_device, 0, given->create_info,
                           &device->physical);
    (void)snprintf(device->physical.info.id, sizeof id, "%s", id);
    const rota_device_info *info = &device->physical.info;
    if (!info->usable)
        return rota_fail(ROTA_UNSUPPORTED, "%s (%s): the application's VkDevice was made without %s", id,
                         info->name, info->missing);
    ROTA_TRY(take_queues(device, given));
    device->handle = given->device;
    device->base.application = given->device;
    return ROTA_OK;
}

void rota_vk_queue_lock(const rota_vk_real *real) {
    if (real->given.lock) real->given.lock(real->given.user);
}

void rota_vk_queue_unlock(const rota_vk_real *real) {
    if (real->given.unlock) real->given.unlock(real->given.user);
}

/* Behind what is there by now, the application's included: once the driver has come to the fence it is through with
 * rota's (vk_device.c says why that matters). vkQueueWaitIdle would say as much, but has no deadline. Of a device that
 * was given up, too: it may be at work. */
static rota_vk_queue_end end_queue(rota_vk_device *device, rota_vk_real *real) {
    rota_vk_queue_lock(real);
    /* Gone, not given up; pairs with rota_vk_lose. */
    const bool is_gone = ra_load_acquire(&device->lost) && !ra_load_acquire(&device->noisy);
    const VkResult result =
        is_gone ? VK_ERROR_DEVICE_LOST : device->vk.QueueSubmit2(real->queue, 0, NULL, real->settled);
    rota_vk_queue_unlock(real);
    if (result == VK_SUCCESS) return ROTA_VK_QUEUE_ENDS;
    return result == VK_ERROR_DEVICE_LOST ? ROTA_VK_QUEUE_GONE : ROTA_VK_QUEUE_FAILED;
}

void rota_vk_queues_end(rota_exec_device *base) {
    rota_vk_device *device = (rota_vk_device *)base;
    for (uint32_t i = 0; i < device->real_count; i++) {
        rota_vk_real *real = &device->reals[i];
        if (real->settled)
            ra_store_release(&real->shared.end, (uint32_t)end_queue(device, real)); /* with has_settled */
    }
}

/* Waits for the fence, up to where close gives up. */
static bool wait_for_end(rota_vk_device *device, const rota_vk_real *real) {
    VkResult result = VK_TIMEOUT;
    while (result == VK_TIMEOUT) {
        /* Pairs with rota_completer_stop. */
        if (ra_load_acquire(&device->completer.closing) == ROTA_COMPLETER_STOPS) return false;
        /* What is before the fence may wait for a point that somebody noted after the thread's last look, having seen
         * the runtime open. */
        (void)rota_vk_semaphores_watch(device);
        result = device->vk.WaitForFences(device->handle, 1, &real->settled, VK_TRUE, WAIT_SLICE_NS);
    }
    return result == VK_SUCCESS || result == VK_ERROR_DEVICE_LOST;
}

/* A submit thread that has not ended by now is in the lock, or in the driver: it may still submit. Where none ever came
 * to it, as of a device whose open failed, nothing is there. */
static bool has_settled(rota_vk_device *device, const rota_vk_real *real) {
    switch ((rota_vk_queue_end)ra_load_acquire(&real->shared.end)) {
    case ROTA_VK_QUEUE_OPEN:
        return !ra_load_acquire(&real->shared.is_used);
    case ROTA_VK_QUEUE_ENDS:
        return wait_for_end(device, real);
    case ROTA_VK_QUEUE_GONE:
        return true;
    case ROTA_VK_QUEUE_FAILED:
        break;
    }
    return false;
}

bool rota_vk_queues_settle(rota_vk_device *device) {
    /* Gone, not given up; pairs with rota_vk_lose. */
    if (ra_load_acquire(&device->lost) && !ra_load_acquire(&device->noisy)) return true;
    for (uint32_t i = 0; i < device->real_count; i++)
        if (device->reals[i].settled && !has_settled(device, &device->reals[i])) return false;
    return true;
}
