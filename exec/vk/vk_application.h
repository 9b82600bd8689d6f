/* A VkDevice of the application's, taken for rota's: see vk_application.c. Internal to exec/vk. */
#ifndef ROTA_EXEC_VK_VK_APPLICATION_H
#define ROTA_EXEC_VK_VK_APPLICATION_H

#include <stdbool.h>
#include "exec/exec.h"
#include "exec/vk/vk_loader.h"

typedef struct rota_vk_device rota_vk_device;
typedef struct rota_vk_real rota_vk_real;

/* What a device has of an application: nothing, where rota made it. */
typedef struct rota_vk_application {
    bool is_given; /* the VkInstance and the VkDevice are not rota's to destroy */
    VkAllocationCallbacks callbacks;
    const VkAllocationCallbacks *allocator; /* those, or NULL: of all that is made on the device */
    /* Where device memory comes from and goes to; NULL: the driver. */
    bool (*allocate)(void *user, uint64_t size_bytes, uint64_t alignment_bytes, uint32_t memory_type,
                     bool is_mapped, rota_vulkan_memory *out_memory);
    void (*free)(void *user, const rota_vulkan_memory *memory);
    void *memory_user;
} rota_vk_application;

/* Takes instance, physical device and device, which are checked: INVALID_ARGUMENT names the member that is wrong;
 * UNSUPPORTED all that the device was not made with. */
rota_status rota_vk_application_open(rota_vk_device *device, const rota_vulkan_device *given);

/* Around each call for a queue: the application's lock, where there is one. */
void rota_vk_queue_lock(const rota_vk_real *real);
void rota_vk_queue_unlock(const rota_vk_real *real);
/* The submit thread's last: behind what is on queues that are shared by then, each has a fence. */
void rota_vk_queues_end(rota_exec_device *device);
/* The completion thread's last, when close has told it to end: waits for those, and so until the driver has done
 * with what it got on queues that are shared. False: close gave up waiting, or the submit thread has not ended. */
bool rota_vk_queues_settle(rota_vk_device *device);

#endif
