/* Which tiles a matrix product on CUDA has. Internal. */
#ifndef ROTA_OPS_CUDA_MATMUL_TILES_H
#define ROTA_OPS_CUDA_MATMUL_TILES_H

#include "graph/kernel.h"
#include "ops/kernel_params.h"

/* The portable matrix product whose tiles suit a shape; NULL: rota_kernel_matmul's own. */
#define ROTA_CUDA_TILE(name)                                                                                 \
    const rota_kernel *rota_cuda_tile_##name(const rota_matmul_params *params,                               \
                                             const rota_cuda_target *target);
ROTA_CUDA_TILE(matmul)
ROTA_CUDA_TILE(matmul_f16)
ROTA_CUDA_TILE(matmul_bf16)
#undef ROTA_CUDA_TILE

#endif
