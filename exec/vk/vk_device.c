/* Opening and closing a Vulkan device, and the driver's entry in the executor contract. */
#include "exec/vk/vk_device.h"
#include "base/clock.h"
#include "exec/vk/vk_cache.h"
#include "exec/vk/vk_block.h"
#include "exec/vk/vk_image.h"
#include "exec/vk/vk_memory.h"
#include "exec/vk/vk_program.h"
#include "exec/vk/vk_record.h"
#include "exec/vk/vk_semaphore.h"
#include "exec/vk/vk_times.h"
#include "exec/vk/vk_timeline.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEVICES_MAX 32
/* The longest that close waits for the driver, whatever its deadline. */
#define CLOSE_NS_MAX (3600ull * 1000000000ull)

static rota_status vk_enumerate(const rota_exec_driver *driver, rota_device_info *out_infos,
                                uint32_t capacity, uint32_t *out_count) {
    (void)driver;
    *out_count = 0;
    rota_vk_instance instance;
    /* No loader or driver is no error: there are no devices, and the sentence says why. */
    if (rota_vk_instance_open(NULL, false, &instance) != ROTA_OK) return ROTA_OK;
    VkPhysicalDevice handles[DEVICES_MAX];
    uint32_t count = 0;
    rota_status status = rota_vk_physical_list(&instance, handles, DEVICES_MAX, &count);
    if (status == ROTA_OK) {
        if (count > DEVICES_MAX) count = DEVICES_MAX;
        rota_vk_physical *physical = calloc(1, sizeof *physical);
        if (!physical)
            status = rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory while listing Vulkan devices");
        for (uint32_t i = 0; physical && i < count && i < capacity; i++) {
            rota_vk_physical_query(&instance, handles[i], i, NULL, physical);
            out_infos[i] = physical->info;
        }
        free(physical);
        *out_count = count;
        if (count == 0) rota_fail(ROTA_UNSUPPORTED, "the Vulkan drivers list no device");
    }
    rota_vk_instance_close(&instance);
    return status;
}

/* ---- Queues ---- */

/* `given`: NULL, or which of its application's it is. */
static rota_status open_real(rota_vk_device *device, rota_vk_real *real, uint32_t family,
                             const rota_vulkan_queue *given) {
    real->family = family;
    if (given) real->given = *given;
    device->vk.GetDeviceQueue(device->handle, family, real->given.index, &real->queue);
    VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkSemaphoreCreateInfo semaphore = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    VkResult result = device->vk.CreateSemaphore(device->handle, &semaphore, device->application.allocator,
                                                 &real->timeline);
    if (result != VK_SUCCESS) return rota_vk_fail(result, "vkCreateSemaphore");
    VkFenceCreateInfo fence = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    if (real->given.lock)
        result =
            device->vk.CreateFence(device->handle, &fence, device->application.allocator, &real->settled);
    if (result != VK_SUCCESS) return rota_vk_fail(result, "vkCreateFence");
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT |
                                             VK_COMMAND_POOL_CREATE_TRANSIENT_BIT,
                                    .queueFamilyIndex = family};
    result = device->vk.CreateCommandPool(device->handle, &pool, device->application.allocator, &real->pool);
    if (result != VK_SUCCESS) return rota_vk_fail(result, "vkCreateCommandPool");
    VkCommandBufferAllocateInfo buffers = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                           .commandPool = real->pool,
                                           .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                           .commandBufferCount = ROTA_VK_COPIES_MAX};
    result = device->vk.AllocateCommandBuffers(device->handle, &buffers, real->submit.copies.buffers);
    if (result != VK_SUCCESS) return rota_vk_fail(result, "vkAllocateCommandBuffers");
    return ROTA_OK;
}

static rota_status record_one_barrier(rota_vk_device *device, rota_vk_real *real, uint32_t from,
                                      uint32_t to) {
    VkCommandBufferAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                            .commandPool = real->pool,
                                            .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                            .commandBufferCount = 1};
    VkCommandBuffer *buffer = &real->barriers[from][to];
    VkResult result = device->vk.AllocateCommandBuffers(device->handle, &allocate, buffer);
    if (result != VK_SUCCESS) return rota_vk_fail(result, "vkAllocateCommandBuffers");
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                      .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
    result = device->vk.BeginCommandBuffer(*buffer, &begin);
    if (result != VK_SUCCESS) return rota_vk_fail(result, "vkBeginCommandBuffer");
    rota_vk_record_barrier(device, *buffer, from, to);
    result = device->vk.EndCommandBuffer(*buffer);
    return result == VK_SUCCESS ? ROTA_OK : rota_vk_fail(result, "vkEndCommandBuffer");
}

/* A family that only copies takes no barrier that names dispatches. */
static rota_status record_barriers(rota_vk_device *device, rota_vk_real *real, uint32_t kinds) {
    for (uint32_t from = 1; from <= ROTA_VK_BOTH; from++)
        for (uint32_t to = 1; to <= ROTA_VK_BOTH; to++)
            if ((from & kinds) == from && (to & kinds) == to)
                ROTA_TRY(record_one_barrier(device, real, from, to));
    return ROTA_OK;
}

static rota_status open_queues(rota_vk_device *device) {
    const rota_exec_open_options *options = &device->options;
    const rota_vk_physical *physical = &device->physical;
    /* Timestamps and their resets need a compute queue, so diagnostics keep everything there. */
    const rota_vk_test_options *test = options->test;
    const rota_vulkan_device *given = options->vulkan;
    bool transfer = (physical->transfer_family != physical->compute_family ||
                     (given && given->has_transfer) || (test && test->split_transfer)) &&
                    options->transfer_queue < options->queue_count && !options->diagnostics;
    device->reals = calloc(ROTA_VK_REALS_MAX, sizeof *device->reals);
    if (!device->reals) return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for queues");
    device->real_count = transfer ? 2 : 1;
    ROTA_TRY(open_real(device, &device->reals[0], physical->compute_family, given ? &given->compute : NULL));
    ROTA_TRY(record_barriers(device, &device->reals[0], ROTA_VK_BOTH));
    if (transfer) {
        const rota_vulkan_queue *second = given && given->has_transfer ? &given->transfer : NULL;
        ROTA_TRY(open_real(device, &device->reals[1], physical->transfer_family,
                           given && !second ? &given->compute : second)); /* split_transfer: both are one */
        ROTA_TRY(record_barriers(device, &device->reals[1], ROTA_VK_TRANSFER));
    }
    for (uint32_t i = 0; i < options->queue_count; i++) {
        rota_vk_logical *logical = &device->logical[i];
        logical->split = transfer && (i == options->transfer_queue ||
                                      (options->segment_queues && i >= options->segment_queues));
        logical->points = calloc(ROTA_VK_HISTORY, sizeof *logical->points);
        if (!logical->points) return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for queues");
    }
    return ROTA_OK;
}

static rota_status open_layout(rota_vk_device *device) {
    uint32_t most = 8 + 8 * ROTA_KERNEL_OPERANDS_MAX + ROTA_KERNEL_PARAM_BYTES_MAX;
    uint32_t limit = device->physical.properties.limits.maxPushConstantsSize;
    device->bounds.push_bytes = limit < most ? limit : most;
    VkPushConstantRange range = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
                                 .size = device->bounds.push_bytes};
    VkPipelineLayoutCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                       .pushConstantRangeCount = 1,
                                       .pPushConstantRanges = &range};
    VkResult result = device->vk.CreatePipelineLayout(device->handle, &info, device->application.allocator,
                                                      &device->layout);
    return result == VK_SUCCESS ? ROTA_OK : rota_vk_fail(result, "vkCreatePipelineLayout");
}

/* ---- Closing ---- */

/* Everything made by open, in reverse; whatever is missing is skipped, so it also ends a failed open. */
static void destroy_device(rota_vk_device *device) {
    if (device->handle && device->vk.DestroyDevice) {
        while (!rota_link_is_alone(&device->objects.instances)) {
            rota_vk_recorded *recorded = ROTA_LINKED(device->objects.instances.next, rota_vk_recorded, link);
            rota_link_remove(&recorded->link);
            rota_vk_recorded_free(device, recorded);
        }
        rota_vk_memories_free(device);
        rota_vk_blocks_free(device);
        rota_vk_touch_close(device);
        rota_vk_pipelines_free(device);
        rota_vk_images_close(device);
        for (uint32_t i = 0; device->reals && i < device->real_count; i++) {
            rota_vk_real *real = &device->reals[i];
            if (real->pool)
                device->vk.DestroyCommandPool(device->handle, real->pool, device->application.allocator);
            if (real->settled)
                device->vk.DestroyFence(device->handle, real->settled, device->application.allocator);
            if (real->timeline)
                device->vk.DestroySemaphore(device->handle, real->timeline, device->application.allocator);
        }
        rota_vk_timelines_free(device);
        if (device->compiled.cache)
            device->vk.DestroyPipelineCache(device->handle, device->compiled.cache,
                                            device->application.allocator);
        if (device->layout)
            device->vk.DestroyPipelineLayout(device->handle, device->layout, device->application.allocator);
        if (!device->application.is_given) {
            rota_vk_cuda_lock();
            device->vk.DestroyDevice(device->handle, NULL);
            rota_vk_cuda_unlock();
        }
    }
    if (device->messages.messenger)
        device->instance.vk.DestroyDebugUtilsMessengerEXT(device->instance.handle, device->messages.messenger,
                                                          NULL);
    if (!device->application.is_given) rota_vk_instance_close(&device->instance);
    for (uint32_t i = 0; i < ROTA_EXEC_QUEUES_MAX; i++) free(device->logical[i].points);
    free(device->reals);
    rota_interrupts_close(&device->watch.interrupts);
    pthread_mutex_destroy(&device->compiled.lock);
    pthread_mutex_destroy(&device->objects.lock);
    pthread_mutex_destroy(&device->messages.lock);
    pthread_mutex_destroy(&device->going.lock);
    free(device);
}

/* Whether the driver has done with everything it was given, or lost the device (it then touches nothing
 * more). Waits until the deadline. The completion thread has ended. */
static bool driver_done(rota_vk_device *device, uint64_t deadline_ns) {
    for (uint32_t i = 0; i < device->real_count; i++) {
        rota_vk_real *real = &device->reals[i];
        uint64_t now = rota_clock_ns();
        VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                    .semaphoreCount = 1,
                                    .pSemaphores = &real->timeline,
                                    .pValues = &real->submit.flushed};
        uint64_t left_ns = deadline_ns > now ? deadline_ns - now : 0;
        VkResult result =
            device->vk.WaitSemaphores(device->handle, &info, left_ns < CLOSE_NS_MAX ? left_ns : CLOSE_NS_MAX);
        if (result == VK_TIMEOUT) return false;
        /* The last value has been seen, so nothing is left to run, and this waits for the driver's own thread
         * only: Mesa's still uses the semaphores that a batch waited for after it has signalled the batch's
         * end, and destroying them then is a use after free. A lost device has no such end. What is shared the
         * completion thread has seen settled (rota_vk_queues_settle). */
        if (real->given.lock) {
            if (!device->watch.is_settled) return false;
            continue;
        }
        if (result == VK_SUCCESS && device->vk.QueueWaitIdle(real->queue) == VK_ERROR_DEVICE_LOST)
            rota_log_write(&device->host.log, ROTA_LOG_WARNING, "%s was lost while it was closed",
                           device->base.info.id);
    }
    return true;
}

static void vk_close(rota_exec_device *base, uint64_t deadline_ns, uint64_t *out_abandoned_bytes) {
    rota_vk_device *device = (rota_vk_device *)base;
    const bool stopped = rota_completer_stop(&device->completer, deadline_ns) != ROTA_COMPLETER_STUCK;
    /* By then the thread has forgotten the semaphores: nobody comes to the device's struct by them. */
    if (!stopped || !driver_done(device, deadline_ns) || device->objects.semaphores) {
        /* With the device itself, so that the count is never 0 where something is abandoned. */
        uint64_t bytes = ra_load_relaxed(&device->objects.memory_bytes) + sizeof *device;
        rota_log_write(&device->host.log, ROTA_LOG_ERROR,
                       "%s does not answer; %llu bytes of its memory are abandoned", base->info.id,
                       (unsigned long long)bytes);
        if (out_abandoned_bytes) *out_abandoned_bytes = bytes;
        return;
    }
    if (!ra_load_relaxed(&device->lost)) rota_vk_cache_save(device);
    if (out_abandoned_bytes) *out_abandoned_bytes = 0;
    destroy_device(device);
}

/* ---- Opening ---- */

static const rota_exec_device_vtable vk_vtable = {
    .close = vk_close,
    .memory_create = rota_vk_memory_create,
    .memory_destroy = rota_vk_memory_destroy,
    .memory_export = rota_vk_memory_export,
    .memory_import = rota_vk_memory_import,
    .memory_adopt = rota_vk_memory_adopt,
    .memory_return = rota_vk_memory_return,
    .timeline_create = rota_vk_timeline_create,
    .timeline_export = rota_vk_timeline_export,
    .timeline_signal = rota_vk_timeline_signal,
    .program_create = rota_vk_program_create,
    .program_destroy = rota_vk_program_destroy,
    .instance_create = rota_vk_instance_create,
    .instance_destroy = rota_vk_instance_destroy,
    .submit = rota_vk_submit,
    .times = rota_vk_times,
    .stuck_node = rota_vk_stuck_node,
    .semaphore_adopt = rota_vk_semaphore_adopt,
    .semaphore_import = rota_vk_semaphore_import,
    .semaphore_export = rota_vk_semaphore_export,
    .semaphore_look = rota_vk_semaphore_look,
    .semaphore_signal = rota_vk_semaphore_signal,
    .own_cpu_ns = rota_vk_own_cpu_ns,
};

static rota_status find_physical(rota_vk_device *device, uint32_t index) {
    ROTA_TRY(rota_vk_instance_open(device, device->options.validation, &device->instance));
    VkPhysicalDevice handles[DEVICES_MAX];
    uint32_t count = 0;
    ROTA_TRY(rota_vk_physical_list(&device->instance, handles, DEVICES_MAX, &count));
    if (index >= count || index >= DEVICES_MAX)
        return rota_fail(ROTA_NOT_FOUND, "there is no device vk:%u; Vulkan lists %u", index, count);
    rota_vk_physical_query(&device->instance, handles[index], index, NULL, &device->physical);
    const rota_device_info *info = &device->physical.info;
    if (!info->usable)
        return rota_fail(ROTA_UNSUPPORTED, "%s (%s) lacks %s", info->id, info->name, info->missing);
    return ROTA_OK;
}

static rota_status open_physical(rota_vk_device *device, uint32_t index) {
    if (device->options.vulkan)
        ROTA_TRY(rota_vk_application_open(device, device->options.vulkan));
    else
        ROTA_TRY(find_physical(device, index));
    device->base.info = device->physical.info;
    device->base.locality.device = device->base.info.id;
    device->base.locality.log = &device->host.log;
    rota_locality_find(&device->base.locality, device->physical.pci);
    if (!device->application.is_given)
        ROTA_TRY(rota_vk_physical_open(&device->instance, &device->physical, &device->handle));
    ROTA_TRY(rota_vk_device_load(&device->instance.vk, device->handle, &device->vk));
    device->base.caps.shares_memory =
        device->physical.sharing.memory && device->vk.GetMemoryFdKHR && !device->application.allocate;
    memcpy(device->base.gpu, device->physical.uuid, sizeof device->base.gpu);
    return ROTA_OK;
}

/* A logical queue that is split has no single semaphore that says what it has reached. */
static void open_timelines(rota_vk_device *device) {
    if (!device->base.caps.shares_memory || !device->physical.sharing.timelines ||
        !device->vk.GetSemaphoreFdKHR)
        return;
    device->base.caps.makes_timelines = true;
    for (uint32_t i = 0; i < device->options.queue_count; i++)
        if (!device->logical[i].split) device->base.caps.timeline_queues |= 1u << i;
}

static rota_status open_device(rota_vk_device *device, uint32_t index) {
    ROTA_TRY(open_physical(device, index));
    ROTA_TRY(open_queues(device));
    open_timelines(device);
    ROTA_TRY(open_layout(device));
    ROTA_TRY(rota_vk_cache_open(device));
    rota_vk_images_open(device);
    device->base.caps.only_touches = device->options.touch;
    device->base.caps.runs_counted = device->base.caps.runs_conditionals = true;
    device->base.go_on = rota_vk_go_on;
    device->base.submit_ended = rota_vk_queues_end;
    if (device->options.touch) ROTA_TRY(rota_vk_touch_open(device));
    if (device->physical.pci[0]) {
        char folder[128];
        snprintf(folder, sizeof folder, "/sys/bus/pci/devices/%s", device->physical.pci);
        rota_interrupts_open(&device->watch.interrupts, folder, "/sys/kernel/irq");
    }
    return rota_completer_start(&device->completer, rota_vk_complete_main, device, device->base.info.id,
                                &device->base.locality);
}

static rota_status vk_open(const rota_exec_driver *driver, uint32_t index,
                           const rota_exec_open_options *options, rota_exec_device **out_device) {
    (void)driver;
    if (options->queue_count == 0 || options->queue_count > ROTA_EXEC_QUEUES_MAX)
        return rota_fail(ROTA_INVALID_ARGUMENT, "vk:%u: %u logical queues asked for; 1 to %u are possible",
                         index, options->queue_count, ROTA_EXEC_QUEUES_MAX);
    rota_vk_device *device = calloc(1, sizeof *device);
    if (!device) return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for vk:%u", index);
    device->base.vtable = &vk_vtable;
    device->host = options->host;
    device->options = *options;
    if (options->id)
        snprintf(device->base.info.id, sizeof device->base.info.id, "%s", options->id);
    else
        snprintf(device->base.info.id, sizeof device->base.info.id, "vk:%u", index);
    rota_link_begin(&device->objects.memories);
    rota_link_begin(&device->objects.instances);
    device->objects.pages.page_size = sizeof(rota_vk_block_page);
    device->counts.skip_barrier = -1;
    const rota_vk_test_options *test = options->test;
    device->bounds.stall_ns = test && test->stall_ns ? test->stall_ns : ROTA_VK_STALL_NS;
    const uint32_t most = options->max_in_flight ? options->max_in_flight : ROTA_VK_IN_FLIGHT_DEFAULT;
    device->bounds.in_flight_max = most < ROTA_VK_IN_FLIGHT_MAX ? most : ROTA_VK_IN_FLIGHT_MAX;
    pthread_mutex_init(&device->compiled.lock, NULL);
    pthread_mutex_init(&device->objects.lock, NULL);
    pthread_mutex_init(&device->messages.lock, NULL);
    pthread_mutex_init(&device->going.lock, NULL);
    rota_status status = open_device(device, index);
    if (status != ROTA_OK) {
        destroy_device(device);
        return status;
    }
    device->options.vulkan = NULL; /* was borrowed */
    *out_device = &device->base;
    return ROTA_OK;
}

const rota_exec_driver rota_exec_vk_driver = {
    .name = "vk",
    .kind = ROTA_EXEC_VK,
    .enumerate = vk_enumerate,
    .open = vk_open,
};
