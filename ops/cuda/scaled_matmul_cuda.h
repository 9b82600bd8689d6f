/* scaled_matmul on CUDA devices beyond the portable kernel. Internal; not installed. */
#ifndef ROTA_OPS_CUDA_SCALED_MATMUL_CUDA_H
#define ROTA_OPS_CUDA_SCALED_MATMUL_CUDA_H

#include "base/text_out.h"
#include "graph/kernel_functions.h"
#include "ops/kernel_params.h"

/* rota_kernel.cuda.select: a library node where cuBLASLt takes the product, else NULL. */
const rota_kernel *rota_cuda_select_scaled_matmul(const void *params, const uint64_t *operand_bytes,
                                                  uint32_t slot_mask, const rota_cuda_target *target);

/* Why cuBLASLt doesn't take the product; NULL: it does. */
const char *rota_cuda_scaled_refuses(const rota_scaled_matmul_params *params, uint32_t slot_mask,
                                     const rota_cuda_target *target);

/* rota_kernel_functions.why of it on CUDA devices. */
void rota_cuda_why_scaled_matmul(rota_text_out *out, const rota_kernel_use *use);

/* rota_kernel.cuda of the library node, for tests of its own. */
rota_status rota_cuda_call_scaled_matmul(const rota_cuda_call *call);
rota_status rota_cuda_tune_scaled_matmul(const rota_cuda_call *call);

#endif
