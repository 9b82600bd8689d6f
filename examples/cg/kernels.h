/* What conjugate gradient's nodes run, on devices of each kind: all are of doubles, for which a Vulkan device needs
 * ROTA_FEATURE_F64. */
#ifndef ROTA_EXAMPLES_CG_KERNELS_H
#define ROTA_EXAMPLES_CG_KERNELS_H

#include "rota.h"

/* Rows of a sum's block; and how much of each is worth a task of its own on a CPU, some 4 microseconds. */
enum { CG_BLOCK_ROWS = 4096, CG_GRAIN_BLOCKS = 2, CG_GRAIN_ROWS = 8192, CG_GRAIN_ENTRIES = 4096 };

/* Of all of them; field by field as in cg.cu and cg.comp. */
typedef struct cg_params {
    uint64_t rows;
    uint64_t grain; /* of a product, and of what runs over rows */
    double factor;  /* the sign of an update; the tolerance of `begin` */
} cg_params;

uint64_t cg_blocks(uint64_t rows);

extern const rota_kernel cg_kernel_product, cg_kernel_dot, cg_kernel_update, cg_kernel_turn;
/* The steps between them, of one thread on a CPU and of one group on a GPU. What a CPU's ends with an error for, a GPU,
 * whose kernels have none, ends with a square that is not finite for. */
extern const rota_kernel cg_kernel_begin, cg_kernel_choose_step, cg_kernel_choose_mix;

#endif
