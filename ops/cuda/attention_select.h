/* Which kernel of rota's own takes an attention. Internal. */
#ifndef ROTA_OPS_CUDA_ATTENTION_SELECT_H
#define ROTA_OPS_CUDA_ATTENTION_SELECT_H

#include "graph/kernel.h"
#include "ops/kernel_params.h"

/* Rota's own kernel for attention of 16-bit floats; one without an image where there is none. */
const rota_kernel *rota_cuda_attention_by_rota(const rota_attention_params *params,
                                               const rota_cuda_target *target);

#endif
