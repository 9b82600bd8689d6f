/* Physical devices: what they can do, and a VkDevice of one. Internal to exec/vk. */
#ifndef ROTA_EXEC_VK_VK_PHYSICAL_H
#define ROTA_EXEC_VK_VK_PHYSICAL_H

#include <stdbool.h>
#include "exec/exec.h"
#include "exec/vk/vk_instance.h"
#include "exec/vk/vk_loader.h"

/* What it has in common with others. */
typedef struct rota_vk_sharing {
    bool memory;             /* by opaque file descriptors */
    bool timelines;          /* that it makes and others take over by such */
    uint64_t host_alignment; /* of host memory that is imported; 0: none is */
    bool dma_bufs;           /* VK_EXT_external_memory_dma_buf is on */
    /* Why memory is not exported as a dma-buf, nor imported; NULL: it is. */
    const char *no_dma_buf_export, *no_dma_buf_import;
} rota_vk_sharing;

/* What a device lent by the driver can do and which extensions and features are switched on for it. */
typedef struct rota_vk_physical {
    VkPhysicalDevice handle;
    VkPhysicalDeviceProperties properties;
    VkPhysicalDeviceMemoryProperties memory;
    VkPhysicalDeviceSubgroupSizeControlProperties subgroup;
    uint32_t turns_max; /* of the loops of an invocation, all together: what the driver ends them after; 0:
                           nothing */
    uint8_t cache_uuid[VK_UUID_SIZE];
    uint32_t compute_family, transfer_family; /* transfer_family == compute_family: no family of its own */
    uint32_t timestamp_bits;                  /* of the compute family */
    bool core13, memory_budget, calibrated_timestamps, bytes_8bit, host_query_reset;
    bool cooperative_matrix, bfloat16, cooperative_matrix_2, subgroup_control_extension, binary_import;
    rota_vk_sharing sharing;
    /* Asked for results of queries, whatever of them, the driver waits for the device, and looks then at queries that
     * a reset in a submission that came since may be freeing. There each segment copies its own (vk_record.c). */
    bool queries_wait;
    uint8_t uuid[VK_UUID_SIZE];
    char pci[40]; /* its folder under /sys/bus/pci/devices; "" where it does not say */
    rota_device_info info;
} rota_vk_physical;

/* Looks a device over; info.usable and info.missing say whether rota can run on it. `given`: NULL, or what an
 * application made its VkDevice with, and only what that has is there. */
void rota_vk_physical_query(const rota_vk_instance *instance, VkPhysicalDevice handle, uint32_t index,
                            const VkDeviceCreateInfo *given, rota_vk_physical *out_physical);
/* Creates the VkDevice with the queues and everything switched on that rota's kernels may use. */
rota_status rota_vk_physical_open(const rota_vk_instance *instance, const rota_vk_physical *physical,
                                  VkDevice *out_device);

#endif
