/* What the norms of f32 rows between products of 16 bits take. C and CUDA C++; see kernel_params.h. */
#ifndef ROTA_OPS_CUDA_NORM_MIXED_PARAMS_H
#define ROTA_OPS_CUDA_NORM_MIXED_PARAMS_H

#include "ops/kernel_params.h"

/* Beside those of rota_norm_params.flags. */
#define ROTA_MIXED_RESIDUAL 16u /* layernorm_mixed: r and sum are there */
#define ROTA_MIXED_ADDEND 32u   /* layernorm_mixed_gradient: addend is there */
#define ROTA_MIXED_NARROW 64u   /* ... and narrow is */

typedef struct rota_cuda_mixed_norm_params {
    rota_norm_params norm; /* dtype: of y, or of dy */
    uint32_t other;        /* dtype of r, or of narrow */
} rota_cuda_mixed_norm_params;

#endif
