/* How the CUDA kernels of windows cut their work: what host (ops/cuda/launch.c) and kernels must agree about.
 * C and CUDA C++. */
#ifndef ROTA_OPS_CUDA_WINDOW_SHAPES_H
#define ROTA_OPS_CUDA_WINDOW_SHAPES_H

#include "ops/cuda/shapes.h"
#include "ops/window_params.h"

/* Channels of a pool that are a thread's: those of 16 bytes, where they lie next to one another and come out even. */
ROTA_SHAPE_FN uint32_t rota_cuda_pool_width(const rota_pool_params *p) {
    const uint32_t width = p->dtype == 0 ? 4 : 8; /* ROTA_F32 */
    return p->channels % width == 0 ? width : 1;
}

#endif
