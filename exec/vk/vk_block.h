/* Argument blocks: see vk_block.c. Internal to exec/vk. */
#ifndef ROTA_EXEC_VK_VK_BLOCK_H
#define ROTA_EXEC_VK_VK_BLOCK_H

#include "base/status.h"
#include "exec/common/cell_pages.h"
#include "exec/vk/vk_memory.h"

typedef struct rota_vk_device rota_vk_device;

/* A host-written, device-read piece of memory for an argument block. */
typedef struct rota_vk_block {
    uint64_t address;
    uint64_t *words;
    const rota_vk_memory *memory; /* which it is in, from */
    uint64_t offset_bytes;
    uint32_t page, cell; /* place in the pool; page UINT32_MAX: none */
} rota_vk_block;

typedef struct rota_vk_block_page {
    rota_cell_page cells; /* first */
    rota_vk_memory *memory;
} rota_vk_block_page;

rota_status rota_vk_block_take(rota_vk_device *device, uint32_t words, rota_vk_block *out_block);
void rota_vk_block_give(rota_vk_device *device, rota_vk_block *block);
void rota_vk_blocks_free(rota_vk_device *device);

#endif
