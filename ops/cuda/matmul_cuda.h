/* Matrix products on CUDA devices beyond the portable kernels: rota_kernel.cuda.select of matmul, matmul_f16
 * and matmul_bf16. Internal; not installed. */
#ifndef ROTA_OPS_CUDA_MATMUL_CUDA_H
#define ROTA_OPS_CUDA_MATMUL_CUDA_H

#include "graph/kernel.h"

const rota_kernel *rota_cuda_select_matmul(const void *params, const uint64_t *operand_bytes,
                                           uint32_t slot_mask, const rota_cuda_target *target);
const rota_kernel *rota_cuda_select_matmul_f16(const void *params, const uint64_t *operand_bytes,
                                               uint32_t slot_mask, const rota_cuda_target *target);
const rota_kernel *rota_cuda_select_matmul_bf16(const void *params, const uint64_t *operand_bytes,
                                                uint32_t slot_mask, const rota_cuda_target *target);

#endif
