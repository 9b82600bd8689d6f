/* Attention by cuDNN as library nodes on CUDA devices (rota_kernel.cuda). Internal; not installed. */
#ifndef ROTA_OPS_CUDA_ATTENTION_CUDNN_H
#define ROTA_OPS_CUDA_ATTENTION_CUDNN_H

#include "graph/kernel.h"
#include "ops/kernel_params.h"

/* Rota's own kernel for attention of 16-bit floats; one without an image where there is none. */
const rota_kernel *rota_cuda_attention_by_rota(const rota_attention_params *params,
                                               const rota_cuda_target *target);

#ifdef ROTA_HAVE_CUDA

/* The kernel that stands in for attention, and is whichever of cuDNN's and rota's is the faster; NULL: rota's
 * own takes it, since cuDNN is not there, or has no engine for it, or its operands may lie uneven. */
const rota_kernel *rota_cuda_attention_by_cudnn(const rota_attention_params *params, uint32_t slot_mask,
                                                const rota_cuda_target *target);
/* Whether a node has enough to do, in addresses and types that cuDNN can take. */
bool rota_attention_is_worth_it(uint32_t flags, uint32_t slot_mask, uint64_t heads, uint64_t queries,
                                uint64_t keys, uint32_t dim);
/* The workspace comes after the kernel's own operands; 0: there is none. */
uint64_t rota_attention_workspace(const rota_cuda_call *call, uint32_t own, uint64_t *out_bytes);

/* Whether cuDNN takes attention_backward. */
bool rota_cuda_attention_backward_by_cudnn(const rota_attention_backward_params *params, uint32_t slot_mask,
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

static inline const rota_kernel *rota_cuda_attention_by_cudnn(const rota_attention_params *params,
                                                              uint32_t slot_mask,
                                                              const rota_cuda_target *target) {
    (void)params, (void)slot_mask, (void)target;
    return NULL;
}
static inline bool rota_cuda_attention_backward_by_cudnn(const rota_attention_backward_params *params,
                                                         uint32_t slot_mask, const rota_cuda_target *target) {
    (void)params, (void)slot_mask, (void)target;
    return false;
}
#define ROTA_CUDA_ATTENTION_BACKWARD                                                                         \
    { .call = NULL }

#endif
#endif
