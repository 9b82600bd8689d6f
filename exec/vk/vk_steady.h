/* Command buffers that know what stays the same in their argument blocks: see vk_steady.c. Internal to exec/vk. */
#ifndef ROTA_EXEC_VK_VK_STEADY_H
#define ROTA_EXEC_VK_VK_STEADY_H

#include "exec/common/steady.h"
#include "exec/vk/vk_loader.h"
#include "exec/vk/vk_program.h"

typedef struct rota_vk_device rota_vk_device;
typedef struct rota_vk_recorded rota_vk_recorded;

/* Of an instance's segment; the submit thread's. */
typedef struct rota_vk_steady {
    rota_steady words;      /* values NULL: nothing of the segment is in slots */
    uint64_t turned;        /* the launch that last made a word steady or loose */
    VkCommandPool pool;     /* its alone */
    VkCommandBuffer buffer; /* has the values of words that were steady when it was recorded */
    bool is_current;        /* those still are, and no others */
    bool is_given_up;       /* the driver had no memory for it */
} rota_vk_steady;

/* For each segment with something in slots. OUT_OF_MEMORY. */
rota_status rota_vk_readers_create(rota_vk_program *program);
void rota_vk_readers_free(rota_vk_program *program);

rota_status rota_vk_steady_create(rota_vk_recorded *recorded);
void rota_vk_steady_free(rota_vk_device *device, rota_vk_recorded *recorded);

/* The segment's command buffer for a submission with this block. The instance is not in flight. */
VkCommandBuffer rota_vk_steady_buffer(rota_vk_device *device, rota_vk_recorded *recorded, uint32_t segment,
                                      const uint64_t *block);

#endif
