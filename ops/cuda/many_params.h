/* What nodes that do the same of several tensors take. C and CUDA C++; see kernel_params.h. */
#ifndef ROTA_OPS_CUDA_MANY_PARAMS_H
#define ROTA_OPS_CUDA_MANY_PARAMS_H

#include "ops/kernel_params.h"

/* Tensors of a node, by how many operands each has of those that a kernel may have. */
#define ROTA_MANY_ADAMW_EACH 6u
#define ROTA_MANY_ADAMW 4u
#define ROTA_MANY_CAST_EACH 2u
#define ROTA_MANY_CAST 12u

typedef struct rota_cuda_many_adamw_params {
    /* With RATES and without HALF; count and the dtypes are each tensor's. half_dtype: f32 where there is no half. */
    rota_adamw_params all;
    uint32_t tensors;
    uint32_t count[ROTA_MANY_ADAMW], g_dtype[ROTA_MANY_ADAMW], half_dtype[ROTA_MANY_ADAMW];
} rota_cuda_many_adamw_params;

typedef struct rota_cuda_many_cast_params {
    uint32_t tensors, to; /* from f32 to this dtype, of 16 bits */
    uint32_t count[ROTA_MANY_CAST];
} rota_cuda_many_cast_params;

#endif
