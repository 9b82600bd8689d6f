/* What cross_entropy_piece takes. C and CUDA C++; see kernel_params.h. */
#ifndef ROTA_OPS_CUDA_LOSS_PARAMS_H
#define ROTA_OPS_CUDA_LOSS_PARAMS_H

#include "ops/kernel_params.h"

typedef struct rota_cuda_loss_piece_params {
    rota_cross_entropy_params all; /* as of all rows in one node */
    uint32_t first, count;         /* rows of the piece */
} rota_cuda_loss_piece_params;

#endif
