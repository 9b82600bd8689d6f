/* How the norms' kernels of 16-bit rows cut their work: what host and kernels must agree about. C and CUDA C++. */
#ifndef ROTA_OPS_CUDA_NORM_GROUPS_H
#define ROTA_OPS_CUDA_NORM_GROUPS_H

#include "ops/cuda/shapes.h"

enum {
    /* Of a block: twelve warps, of which a row has one to four. */
    ROTA_CUDA_NORM_THREADS = 384,
    /* Blocks that fit on a multiprocessor. */
    ROTA_CUDA_NORM_GROUP_BLOCKS = ROTA_CUDA_NORM_BLOCKS * ROTA_CUDA_THREADS / ROTA_CUDA_NORM_THREADS,
    /* ... of rows of f32 beside 16 bits, which take twice the registers on the way: forward, and the gradient's. */
    ROTA_CUDA_NORM_MIXED_BLOCKS = 3,
    ROTA_CUDA_NORM_MIXED_GRADIENT_BLOCKS = 2,
};

/* Warps of a row, for what rota_cuda_norm_by_vectors says: a block has as many rows at a time as it has groups of
 * them. */
ROTA_SHAPE_FN uint32_t rota_cuda_norm_warps(uint32_t dim) {
    return (dim + 255) / 256;
}

#endif
