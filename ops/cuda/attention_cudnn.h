/* Attention by cuDNN as library nodes on CUDA devices (rota_kernel.cuda). Internal; not installed. */
#ifndef ROTA_OPS_CUDA_ATTENTION_CUDNN_H
#define ROTA_OPS_CUDA_ATTENTION_CUDNN_H

#include "graph/kernel.h"
#include "ops/kernel_params.h"

#ifdef ROTA_HAVE_CUDA
#include "ops/cuda/cudnn_attention.h"

/* The kernel that stands in for attention, and is whichever of cuDNN's and rota's is the faster; NULL: rota's
 * own takes it, since cuDNN is not there, or has no engine for it, or its operands may lie uneven. */
const rota_kernel *rota_cuda_attention_by_cudnn(const rota_attention_params *params, uint32_t slot_mask,
                                                const rota_cuda_target *target);
/* Whether a node has enough to do, in addresses and types that cuDNN can take. */
bool rota_attention_is_worth_it(uint32_t flags, uint32_t slot_mask, uint64_t heads, uint64_t queries,
                                uint64_t keys, uint32_t dim);
/* What cuDNN is asked, but for strides, with all bytes of it set. */
rota_cudnn_attention rota_attention_about(bool backward, uint32_t flags, float scale, uint32_t batch,
                                          uint32_t heads, uint32_t queries, uint32_t keys, uint32_t dim);
/* The workspace comes after the kernel's own operands; 0: there is none. */
uint64_t rota_attention_workspace(const rota_cuda_call *call, uint32_t own, uint64_t *out_bytes);

#else /* without the toolkit's headers there is no CUDA executor either */

static inline const rota_kernel *rota_cuda_attention_by_cudnn(const rota_attention_params *params,
                                                              uint32_t slot_mask,
                                                              const rota_cuda_target *target) {
    (void)params, (void)slot_mask, (void)target;
    return NULL;
}

#endif
#endif
