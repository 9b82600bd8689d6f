/* Counted commands: see vk_count.c. Internal to exec/vk. */
#ifndef ROTA_EXEC_VK_VK_COUNT_H
#define ROTA_EXEC_VK_VK_COUNT_H

#include "exec/exec.h"
#include "exec/vk/vk_loader.h"
#include "exec/vk/vk_pipeline.h"

typedef struct rota_vk_recorded rota_vk_recorded;
typedef struct rota_vk_program rota_vk_program;

/* What the count shader leaves in an instance's block for one command. */
typedef struct rota_vk_count_words {
    uint64_t
        value; /* what the command takes in the place of a parameter: items, or bytes of a copy; at most the
                        maximum */
    uint32_t excess; /* the count where it is above the maximum, else 0 */
    uint32_t reserved;
    VkDispatchIndirectCommand groups; /* where a descriptor may begin, for the touch mode */
    uint32_t reserved_too;
} rota_vk_count_words;
#define ROTA_VK_COUNT_BLOCK_WORDS (sizeof(rota_vk_count_words) / 8)

/* Of vk_count.comp, field by field. */
typedef struct rota_vk_count_params {
    uint64_t words, any_excess; /* addresses: set where the command is recorded */
    uint64_t unit, per_group;
    uint64_t on, over; /* in a body: rota_vk_inside */
    uint32_t max, groups_max, groups_y, groups_z, on_value, reserved;
} rota_vk_count_params;
extern const rota_kernel rota_vk_count_kernel;

/* A counted command's, beside its dispatch. */
typedef struct rota_vk_count {
    uint32_t command;
    uint32_t param_offset;                   /* of the parameter that gets the value's place */
    const rota_vk_pipeline *pipeline, *told; /* of the count shader; as rota_vk_dispatch has them */
    rota_vk_count_params params;             /* without addresses */
} rota_vk_count;

/* A program's, in the order of its commands. */
typedef struct rota_vk_counts_of {
    rota_vk_count *list;
    uint32_t count;
    uint32_t word;   /* of a block: where the words of the first are */
    uint32_t *first; /* segment_count + 1: which are each segment's; NULL where there are none */
} rota_vk_counts_of;

/* Where the words of one are in a block. */
uint32_t rota_vk_count_word(const rota_vk_program *program, uint32_t index);

#endif
