/* Programs: see vk_program.c. Internal to exec/vk. */
#ifndef ROTA_EXEC_VK_VK_PROGRAM_H
#define ROTA_EXEC_VK_VK_PROGRAM_H

#include <stdbool.h>
#include "exec/common/steady.h"
#include "exec/exec.h"
#include "exec/vk/vk_count.h"
#include "exec/vk/vk_decide.h"
#include "exec/vk/vk_image.h"
#include "exec/vk/vk_pipeline.h"

/* What recording needs of one kernel (or shader-made copy or fill) command: a pipeline or an image, and
 * neither for a copy or fill by the transfer commands. */
struct rota_vk_dispatch {
    const rota_vk_pipeline *pipeline;
    const rota_vk_pipeline *told; /* beside it, where something is in slots: reads nothing from the block */
    const rota_vk_image *image;
    uint32_t slot_mask, bind_mask; /* with an image */
    uint32_t count_plus_1;         /* of a counted command: its place in the program's counts */
    uint32_t decision_plus_1;      /* of one that decides: its place in the program's decisions */
    rota_cuda_launch launch;       /* with a pipeline, `groups` alone */
};

static inline bool rota_vk_is_dispatch(const rota_vk_dispatch *dispatch) {
    return dispatch->pipeline || dispatch->image || dispatch->decision_plus_1;
}

/* What commands run as: bits, since a batch or a segment may have both. Barriers name no more than they must:
 * see vk_record.c. */
enum { ROTA_VK_DISPATCH = 1, ROTA_VK_TRANSFER = 2, ROTA_VK_BOTH = 3 };

struct rota_vk_program {
    const rota_exec_program_desc *desc;
    rota_vk_dispatch *dispatches; /* per command */
    uint8_t *segment_real;        /* real queue of each segment */
    uint8_t *segment_kinds;       /* ROTA_VK_DISPATCH and ROTA_VK_TRANSFER bits of each segment */
    rota_readers *readers;        /* per segment (vk_steady.h) */
    rota_vk_counts_of counts;
    rota_vk_decisions_of decisions;
    uint32_t block_words; /* with those behind the argument words: vk_decide.c */
    uint32_t excess_word; /* the first of one for each segment: not 0 where something of its has failed */
    uint32_t table_word;  /* of a body: rota_vk_decided_groups of its commands */
};

/* Whether a command of the segment may fail by itself. */
static inline bool rota_vk_may_fail(const rota_vk_program *program, uint32_t segment) {
    const uint32_t *counts = program->counts.first, *decisions = program->decisions.first;
    return (counts && counts[segment] != counts[segment + 1]) ||
           (decisions && decisions[segment] != decisions[segment + 1]);
}

/* The kernels with which slot operands are copied and filled, whose addresses no transfer command takes. */
extern const rota_kernel rota_vk_copy_kernel, rota_vk_copy_bytes_kernel, rota_vk_fill_kernel;
typedef struct rota_vk_copy_params {
    uint64_t size_bytes;
} rota_vk_copy_params;
typedef struct rota_vk_fill_params {
    uint64_t size_bytes;
    uint32_t pattern;
    uint32_t reserved;
} rota_vk_fill_params;

rota_status rota_vk_program_create(rota_exec_device *device, const rota_exec_program_desc *desc,
                                   rota_exec_program **out_program);
void rota_vk_program_destroy(rota_exec_device *device, rota_exec_program *program);

#endif
