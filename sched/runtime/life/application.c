/* A device of the application's passes the same trials as any other. */
#include "sched/runtime/life/application.h"

#include <stdio.h>
#include <string.h>

#include "base/atomic.h"
#include "base/sized_copy.h"
#include "sched/opened.h"
#include "sched/runtime/life/device.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/runtime.h"

/* The executor of that kind; NULL: this build has none. */
static const rota_driver_entry *driver_of(const rota_runtime *runtime, rota_exec_kind kind) {
    for (uint32_t i = 0; i < runtime->opening.driver_count; i++)
        if (runtime->opening.drivers[i].driver->kind == kind) return &runtime->opening.drivers[i];
    return NULL;
}

/* The one that was made of this handle: also one that is lost or was refused, which keeps what it was given, and whose
 * submit thread may be in a call for a queue. With opening.mutex held. */
static rota_device *find_handle(rota_runtime *runtime, const void *handle) {
    const uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++) {
        rota_device *device = runtime->devices[d];
        if (device->exec->application == handle) return device;
    }
    return NULL;
}

/* How many devices of this runtime were made of the application's: their ids count so. With opening.mutex held. */
static uint32_t count_given(const rota_runtime *runtime) {
    uint32_t count = 0;
    const uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++)
        if (runtime->devices[d]->exec->application) count++;
    return count;
}

/* `handle`: NULL, or by which the same is known again. With opening.mutex held. */
static rota_status open_locked(rota_runtime *runtime, rota_exec_kind kind, rota_device_source source,
                               const void *handle, rota_device **out_device) {
    const char *const name = kind == ROTA_EXEC_VK ? "vk" : "cuda";
    const char *const what = kind == ROTA_EXEC_VK ? "the VkDevice" : "the CUcontext";
    rota_device *device = handle ? find_handle(runtime, handle) : NULL;
    if (device && rota_device_is_lost(device))
        return rota_fail(ROTA_DEVICE_LOST,
                         "%s %p was lost or refused, and is device '%s' until the runtime is closed", what,
                         handle, device->id);
    if (device)
        return rota_fail(ROTA_INVALID_ARGUMENT, "%s %p is open already, as device '%s'", what, handle,
                         device->id);
    rota_device_info info = {.kind = kind};
    (void)snprintf(info.id, sizeof info.id, "%s:app%u", name, count_given(runtime));
    source.entry = driver_of(runtime, kind);
    if (!source.entry) return rota_fail(ROTA_UNSUPPORTED, "this runtime has no executor '%s'", name);
    ROTA_TRY(rota_device_start(runtime, &source, &info, &device));
    const rota_status status = rota_device_admit(device, out_device);
    if (status == ROTA_OK) return ROTA_OK;
    /* It is not tried again: a later call may give another lock or allocator, and this one keeps the first. */
    char text[ROTA_ERROR_MESSAGE_MAX];
    (void)snprintf(text, sizeof text, "%s", rota_last_error());
    if (!rota_device_is_lost(device)) rota_device_set_lost(device, "failed its smoke test");
    return rota_fail(status, "%s", text);
}

static rota_status open_given(rota_runtime *runtime, const rota_trials *trials, rota_exec_kind kind,
                              rota_device_source source, const void *handle, rota_device **out_device) {
    ROTA_TRY(rota_runtime_check(runtime));
    (void)pthread_mutex_lock(&runtime->opening.mutex);
    rota_device_take_trials(runtime, trials);
    const rota_status status = open_locked(runtime, kind, source, handle, out_device);
    (void)pthread_mutex_unlock(&runtime->opening.mutex);
    return status;
}

rota_status rota_device_open_vulkan_tried(rota_runtime *runtime, const rota_vulkan_device *vulkan,
                                          const rota_trials *trials, rota_device **out_device) {
    rota_vulkan_device room;
    *out_device = NULL;
    vulkan = ROTA_SIZED_IN(rota_vulkan_device, vulkan, &room);
    if (!vulkan) return ROTA_INVALID_ARGUMENT;
    return open_given(runtime, trials, ROTA_EXEC_VK, (rota_device_source){.vulkan = vulkan}, vulkan->device,
                      out_device);
}

rota_status rota_device_open_cuda_tried(rota_runtime *runtime, const rota_cuda_context *cuda,
                                        const rota_trials *trials, rota_device **out_device) {
    rota_cuda_context room;
    *out_device = NULL;
    cuda = ROTA_SIZED_IN(rota_cuda_context, cuda, &room);
    if (!cuda) return ROTA_INVALID_ARGUMENT;
    return open_given(runtime, trials, ROTA_EXEC_CUDA, (rota_device_source){.cuda = cuda}, cuda->context,
                      out_device);
}
