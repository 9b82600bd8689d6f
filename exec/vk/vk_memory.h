/* Memory: see vk_memory.c. Internal to exec/vk. */
#ifndef ROTA_EXEC_VK_VK_MEMORY_H
#define ROTA_EXEC_VK_VK_MEMORY_H

#include <stdbool.h>
#include "exec/common/link.h"
#include "exec/exec.h"
#include "exec/vk/vk_loader.h"

typedef struct rota_vk_device rota_vk_device;

/* Of every buffer. */
#define ROTA_VK_BUFFER_USAGE                                                                                 \
    (VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |                                 \
     VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT |                          \
     VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT)

typedef struct rota_vk_memory {
    struct rota_exec_memory base; /* first: the contract's part */
    rota_link link;
    VkBuffer buffer;
    VkDeviceMemory memory;
    uint64_t buffer_offset; /* of base.address in buffer, which begins where `memory` does */
    uint64_t allocation_bytes;
    uint32_t type;
    rota_vulkan_memory given; /* of the application, in the place of `memory` */
    bool is_import;
} rota_vk_memory;

rota_status rota_vk_memory_create(rota_exec_device *device, uint64_t size_bytes, uint32_t flags,
                                  const char *name, rota_exec_memory **out_memory);
void rota_vk_memory_destroy(rota_exec_device *device, rota_exec_memory *memory);
rota_status rota_vk_memory_export(rota_exec_device *device, rota_exec_memory *memory, bool is_dma_buf,
                                  rota_exec_export *out_export);
rota_status rota_vk_memory_import(rota_exec_device *device, const rota_exec_export *from, const char *name,
                                  rota_exec_memory **out_memory);
rota_status rota_vk_memory_adopt(rota_exec_device *device, const rota_exec_foreign *from, const char *name,
                                 rota_exec_memory **out_memory);
bool rota_vk_memory_return(rota_exec_device *device, rota_exec_memory *memory);
void rota_vk_memories_free(rota_vk_device *device);

/* Memory of the executor's own, in no list: mapped, for argument blocks. */
rota_status rota_vk_memory_take(rota_vk_device *device, uint64_t size_bytes, rota_vk_memory **out_memory);
void rota_vk_memory_give(rota_vk_device *device, rota_vk_memory *memory);

#endif
