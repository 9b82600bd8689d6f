/* Instances: command buffers recorded once. See vk_record.c. Internal to exec/vk. */
#ifndef ROTA_EXEC_VK_VK_RECORD_H
#define ROTA_EXEC_VK_VK_RECORD_H

#include <stdbool.h>
#include "base/atomic.h"
#include "exec/common/link.h"
#include "exec/exec.h"
#include "exec/vk/vk_block.h"
#include "exec/vk/vk_pieces.h"
#include "exec/vk/vk_program.h"
#include "exec/vk/vk_steady.h"
#include "exec/vk/vk_submit.h"
#include "exec/vk/vk_touch.h"

typedef struct rota_vk_device rota_vk_device;
typedef struct rota_vk_recorded rota_vk_recorded;

typedef struct rota_vk_timestamp {
    uint64_t ticks, available;
} rota_vk_timestamp;

struct rota_vk_recorded {
    rota_link link;
    rota_vk_program *program;
    VkCommandPool pools[ROTA_VK_REALS_MAX];
    VkCommandBuffer *buffers; /* per segment; VK_NULL_HANDLE where a segment has no commands */
    rota_vk_pieces **pieces; /* per segment: NULL, or what comes behind that; NULL: no segment is in pieces */
    uint32_t pieces_count;   /* segments: at close the program may be gone */
    _Atomic uint64_t going;  /* 1 + the piece that is gone on with, and above it the segment; 0: none */
    rota_vk_steady *steady;  /* per segment; NULL where the program has nothing in slots, or in touch mode */
    uint32_t steady_count;   /* segments: at close the program may be gone */
    const rota_vk_memory **memories; /* with steady */
    rota_vk_block block;
    uint64_t *block_copy; /* what the block holds, readable: the block itself may be write-combined */
    bool block_written;
    VkQueryPool queries;     /* diagnostics: two timestamps a command */
    rota_vk_memory *results; /* with queries_wait (vk_physical.h): segments copy theirs there at their ends */
    rota_vk_timestamp *looked_at; /* with queries: room for them, the completion thread's */
    _Atomic uint64_t stuck;       /* what its last look found: device->moves then, and 1 + the node, or 0 */
    rota_vk_touch_run touch;
};

rota_status rota_vk_instance_create(rota_exec_device *device, rota_exec_program *program,
                                    rota_exec_memory *const *memories, rota_exec_instance **out_instance);
void rota_vk_instance_destroy(rota_exec_device *device, rota_exec_instance *instance);
void rota_vk_recorded_free(rota_vk_device *device, rota_vk_recorded *recorded);

/* Touch mode: records the instance's command buffers again, with the addresses that its argument block holds
 * now. No submission of it may be in flight. */
rota_status rota_vk_recorded_anew(rota_vk_device *device, rota_vk_recorded *recorded);

/* A segment's commands with the values of words that are steady, into a buffer of the pool, or again into
 * *buffer, which is not in flight. */
rota_status rota_vk_record_steady(rota_vk_device *device, rota_vk_recorded *recorded, uint32_t segment,
                                  VkCommandPool pool, VkCommandBuffer *buffer);

/* A barrier: what came before and ran as `from` (kinds), before what follows and runs as `to`. */
void rota_vk_record_barrier(rota_vk_device *device, VkCommandBuffer buffer, uint32_t from, uint32_t to);
/* Makes what was written before visible to the host's reads. */
void rota_vk_record_host_barrier(rota_vk_device *device, VkCommandBuffer buffer, uint32_t from);

/* ---- For tests: in builds with hooks (base/hooks.h) ---- */

/* Leaves out barrier `index` (counted over the segments) of the instances created from now on; -1: none. */
void rota_vk_skip_barrier(rota_exec_device *device, int64_t index);
/* Barriers recorded between batches of the last instance created. */
uint32_t rota_vk_barriers_recorded(rota_exec_device *device);

#endif
