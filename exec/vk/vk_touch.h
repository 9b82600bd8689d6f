/* The touch mode of the tests: see vk_touch.c. Internal to exec/vk. */
#ifndef ROTA_EXEC_VK_VK_TOUCH_H
#define ROTA_EXEC_VK_VK_TOUCH_H

#include <stdbool.h>
#include "base/hooks.h"
#include "exec/exec.h"
#include "exec/vk/vk_loader.h"
#include "exec/vk/vk_memory.h"

typedef struct rota_vk_device rota_vk_device;
typedef struct rota_vk_recorded rota_vk_recorded;

typedef struct rota_vk_touch {
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout pipeline_layout;
    VkPipeline pipelines[2]; /* that read; that read and write */
} rota_vk_touch;

/* An atomic ACCUMULATE of a program, with a word of its own: see vk_touch.c. */
typedef struct rota_vk_touch_sum {
    const rota_vk_memory *memory;
    uint64_t begin, end;
    uint32_t operand; /* in program->operands */
} rota_vk_touch_sum;

/* What an instance has for the touch mode. */
typedef struct rota_vk_touch_run {
    bool has_slots;                  /* recorded anew at each submission with other arguments */
    const rota_vk_memory **memories; /* of the instance */
    VkDescriptorPool *pools;
    uint32_t pool_count, pools_used, sets_left;
    rota_vk_touch_sum *sums;
    uint32_t sum_count;
    uint32_t word_count, words_used;
    rota_exec_memory *words; /* one word a sum, one for each copy of each sum, one last */
} rota_vk_touch_run;

#if ROTA_TEST_HOOKS
rota_status rota_vk_touch_open(rota_vk_device *device);
void rota_vk_touch_close(rota_vk_device *device);
/* Makes the touch mode's part of an instance. */
rota_status rota_vk_touch_run_create(rota_vk_recorded *recorded, const rota_vk_memory *const *memories);
void rota_vk_touch_run_free(rota_vk_device *device, rota_vk_recorded *recorded);
/* Before all of an instance is recorded, for the first time or anew. */
rota_status rota_vk_touch_begin(rota_vk_device *device, rota_vk_recorded *recorded);
/* At the start of a segment. */
rota_status rota_vk_touch_segment(rota_vk_device *device, rota_vk_recorded *recorded, VkCommandBuffer buffer);
/* Records a command's declared ranges as dispatches that touch them. */
rota_status rota_vk_touch_record(rota_vk_device *device, rota_vk_recorded *recorded, VkCommandBuffer buffer,
                                 const rota_exec_command *command);
/* In the place of the count shader of a command whose count the operand is, and whose words stand in the block. */
rota_status rota_vk_touch_count(rota_vk_device *device, rota_vk_recorded *recorded, VkCommandBuffer buffer,
                                const rota_exec_operand *operand, uint32_t block_word);
/* After a copy by the transfer commands: what it reads of sums. */
rota_status rota_vk_touch_copied(rota_vk_device *device, rota_vk_recorded *recorded, VkCommandBuffer buffer,
                                 const rota_exec_command *command);
#else /* no device is in touch mode */
static inline rota_status rota_vk_touch_open(rota_vk_device *device) {
    (void)device;
    return ROTA_OK;
}
static inline void rota_vk_touch_close(rota_vk_device *device) {
    (void)device;
}
static inline rota_status rota_vk_touch_run_create(rota_vk_recorded *recorded,
                                                   const rota_vk_memory *const *memories) {
    (void)recorded, (void)memories;
    return ROTA_OK;
}
static inline void rota_vk_touch_run_free(rota_vk_device *device, rota_vk_recorded *recorded) {
    (void)device, (void)recorded;
}
static inline rota_status rota_vk_touch_begin(rota_vk_device *device, rota_vk_recorded *recorded) {
    (void)device, (void)recorded;
    return ROTA_OK;
}
static inline rota_status rota_vk_touch_segment(rota_vk_device *device, rota_vk_recorded *recorded,
                                                VkCommandBuffer buffer) {
    (void)device, (void)recorded, (void)buffer;
    return ROTA_OK;
}
static inline rota_status rota_vk_touch_record(rota_vk_device *device, rota_vk_recorded *recorded,
                                               VkCommandBuffer buffer, const rota_exec_command *command) {
    (void)device, (void)recorded, (void)buffer, (void)command;
    return ROTA_OK;
}
static inline rota_status rota_vk_touch_count(rota_vk_device *device, rota_vk_recorded *recorded,
                                              VkCommandBuffer buffer, const rota_exec_operand *operand,
                                              uint32_t block_word) {
    (void)device, (void)recorded, (void)buffer, (void)operand, (void)block_word;
    return ROTA_OK;
}
static inline rota_status rota_vk_touch_copied(rota_vk_device *device, rota_vk_recorded *recorded,
                                               VkCommandBuffer buffer, const rota_exec_command *command) {
    (void)device, (void)recorded, (void)buffer, (void)command;
    return ROTA_OK;
}
#endif

#endif
