/* A segment while it is recorded: what vk_record.c and vk_decide.c share. Internal to exec/vk. */
#ifndef ROTA_EXEC_VK_VK_RECORDING_H
#define ROTA_EXEC_VK_VK_RECORDING_H

#include <stdbool.h>
#include "exec/vk/vk_record.h"

/* The body that is recorded: see vk_decide.c. */
typedef struct rota_vk_inside {
    uint64_t on; /* address of a word that is on_value where the body is on; 0: it is none */
    uint64_t
        over; /* address of a word that is not 0 once the outermost command has failed; 0: there is none */
    uint64_t busy; /* address of that word of the command whose body it is; 0: it is none */
    uint32_t on_value;
} rota_vk_inside;

typedef struct rota_vk_recording {
    rota_vk_device *device;
    const rota_vk_program *program; /* the instance's, or the body's that is recorded */
    rota_vk_recorded *recorded;
    const rota_vk_memory *const *memories;
    const rota_steady *steady; /* NULL: whatever is in slots is read from the block */
    VkCommandPool pool;
    VkCommandBuffer buffer;
    VkPipeline bound;
    uint32_t segment; /* of the instance's program */
    uint32_t piece;   /* how often it was cut: vk_pieces.c */
    uint32_t barriers;
    /* Kinds that have not been ordered after the dispatches, or transfers, recorded so far. */
    uint32_t after_dispatch, after_transfer;
    bool writes_mapped; /* a command of the segment writes memory that the host may read */
    rota_vk_inside in;
} rota_vk_recording;

/* An operand as kernels take it; `told`: a slot's value is known. */
uint64_t rota_vk_record_operand(const rota_vk_recording *r, const rota_exec_operand *operand, bool told);
void rota_vk_record_bind(rota_vk_recording *r, VkPipeline pipeline);
/* Dispatches, direct and indirect, after all before. */
void rota_vk_record_whole_barrier(rota_vk_recording *r);
/* What the counted commands of the batch read. */
rota_status rota_vk_record_counts(rota_vk_recording *r, const rota_exec_batch *batch);
rota_status rota_vk_record_command(rota_vk_recording *r, uint32_t index);

#endif
