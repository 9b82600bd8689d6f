/* The linear kernels as library nodes on CUDA devices (rota_kernel.cuda). Internal; not installed. */
#ifndef ROTA_OPS_CUDA_LINEAR_CUDA_H
#define ROTA_OPS_CUDA_LINEAR_CUDA_H

#include "base/text_out.h"
#include "graph/kernel.h"
#include "ops/kernel_params.h"

#ifdef ROTA_HAVE_CUDA

/* Whether a library node takes it: cuBLASLt is there, and the product is worth it. Where that turns out to
 * refuse the epilogue, the node puts the kernels on its stream that the parts are. */
bool rota_linear_by_library(const rota_linear_params *params);

rota_status rota_cuda_call_linear(const rota_cuda_call *call);
rota_status rota_cuda_tune_linear(const rota_cuda_call *call);
rota_status rota_cuda_call_linear_gradient(const rota_cuda_call *call);
rota_status rota_cuda_tune_linear_gradient(const rota_cuda_call *call);
uint64_t rota_cuda_workspace_linear(const void *params, const uint64_t *operand_bytes,
                                    const rota_cuda_target *target);

/* rota_kernel_functions.why of both. */
void rota_cuda_why_linear(rota_text_out *out, const rota_linear_params *params,
                          const rota_cuda_target *target);

#define ROTA_CUDA_LINEAR(name)                                                                               \
    { .call = rota_cuda_call_##name, .tune = rota_cuda_tune_##name, .workspace = rota_cuda_workspace_linear }

#else /* without the toolkit's headers there is no CUDA executor either */

static inline bool rota_linear_by_library(const rota_linear_params *params) {
    (void)params;
    return false;
}
static inline void rota_cuda_why_linear(rota_text_out *out, const rota_linear_params *params,
                                        const rota_cuda_target *target) {
    (void)out, (void)params, (void)target;
}
#define ROTA_CUDA_LINEAR(name)                                                                               \
    { .call = NULL }

#endif
#endif
