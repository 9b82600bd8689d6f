/* Segments that are recorded in pieces: see vk_pieces.c. Internal to exec/vk. */
#ifndef ROTA_EXEC_VK_VK_PIECES_H
#define ROTA_EXEC_VK_VK_PIECES_H

#include <stdbool.h>
#include "exec/vk/vk_decide.h"
#include "exec/vk/vk_loader.h"

typedef struct rota_vk_recorded rota_vk_recorded;
typedef struct rota_vk_recording rota_vk_recording;

/* A segment's, in the order of its outermost commands that are gone on with. */
typedef struct rota_vk_pieces {
    uint32_t count;
    const rota_vk_decision **decisions;
    VkCommandBuffer *runs;  /* the turns of each: submitted again and again */
    VkCommandBuffer *leads; /* count + 1: what stands before each, and behind the last */
    bool has_tail;          /* leads[count] has something in it */
} rota_vk_pieces;

/* Before the instance is recorded: for each segment, NULL where it is one piece. Not in touch mode. OUT_OF_MEMORY. */
rota_status rota_vk_pieces_create(rota_vk_recorded *recorded);
void rota_vk_pieces_free(rota_vk_recorded *recorded);
/* NULL: the segment is one command buffer. */
const rota_vk_pieces *rota_vk_pieces_of(const rota_vk_recorded *recorded, uint32_t segment);

/* Whether the segment's recording is to be cut for that command. */
bool rota_vk_pieces_cuts(const rota_vk_recording *r, uint32_t command);

#endif
