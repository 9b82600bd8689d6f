/* VkInstances, and what the validation layer says. Internal to exec/vk. */
#ifndef ROTA_EXEC_VK_VK_INSTANCE_H
#define ROTA_EXEC_VK_VK_INSTANCE_H

#include <pthread.h>
#include <stdbool.h>
#include "base/atomic.h"
#include "exec/exec.h"
#include "exec/vk/vk_loader.h"

typedef struct rota_vk_device rota_vk_device;

/* What the validation layer says, from any thread inside a Vulkan call. */
typedef struct rota_vk_messages_shared {
    VkDebugUtilsMessengerEXT messenger;
    _Atomic uint64_t count;
    pthread_mutex_t lock;
    char last[1024];
} rota_vk_messages_shared;

/* A VkInstance with its functions; one per open device, and a passing one per enumeration. */
typedef struct rota_vk_instance {
    const rota_vk_global *global;
    VkInstance handle;
    rota_vk_instance_table vk;
    uint32_t api_version;
    bool validation; /* the layer is on */
    bool names;      /* of nodes and objects, for tools (vk_names.h) */
} rota_vk_instance;

/* Makes an instance; with `validation` the Khronos layer where it is installed, its messages going to
 * `device`. */
rota_status rota_vk_instance_open(rota_vk_device *device, bool validation, rota_vk_instance *out_instance);
void rota_vk_instance_close(rota_vk_instance *instance);
/* The physical devices' handles; out_count may exceed capacity. */
rota_status rota_vk_physical_list(const rota_vk_instance *instance, VkPhysicalDevice *out_handles,
                                  uint32_t capacity, uint32_t *out_count);

/* ---- For tests ---- */

/* Warnings and errors of the validation layer so far; the text of the last one is copied ("" if none). */
uint64_t rota_vk_validation_messages(rota_exec_device *device, char *out_text, size_t text_bytes);
/* False where validation was asked for and the layer is not installed. */
bool rota_vk_validation_active(rota_exec_device *device);

#endif
