/* Attention's gradient by cuDNN, or by rota's kernels for Hopper, as library nodes on CUDA devices
 * (rota_kernel.cuda). Internal. */
#ifndef ROTA_OPS_CUDA_ATTENTION_CUDNN_BACKWARD_H
#define ROTA_OPS_CUDA_ATTENTION_CUDNN_BACKWARD_H

#include "graph/kernel.h"
#include "ops/kernel_params.h"

#ifdef ROTA_HAVE_CUDA

/* Whether cuDNN takes attention_backward. */
bool rota_cuda_attention_backward_by_cudnn(const rota_attention_backward_params *params, uint32_t slot_mask,
                                           const rota_cuda_target *target);

/* Whether one of the two takes it: the node then is one call, of whichever way is the fastest. */
bool rota_cuda_attention_backward_as_one(const rota_attention_backward_params *params, uint32_t slot_mask,
                                         const rota_cuda_target *target);

rota_status rota_cuda_call_attention_backward(const rota_cuda_call *call);
rota_status rota_cuda_tune_attention_backward(const rota_cuda_call *call);
uint64_t rota_cuda_workspace_attention_backward(const void *params, const uint64_t *operand_bytes,
                                                const rota_cuda_target *target);
#define ROTA_CUDA_ATTENTION_BACKWARD                                                                         \
    {                                                                                                        \
        .call = rota_cuda_call_attention_backward, .tune = rota_cuda_tune_attention_backward,                \
        .workspace = rota_cuda_workspace_attention_backward                                                  \
    }

#else /* without the toolkit's headers there is no CUDA executor either */

static inline bool rota_cuda_attention_backward_as_one(const rota_attention_backward_params *params,
                                                       uint32_t slot_mask, const rota_cuda_target *target) {
    (void)params, (void)slot_mask, (void)target;
    return false;
}
#define ROTA_CUDA_ATTENTION_BACKWARD                                                                         \
    { .call = NULL }

#endif

#endif
