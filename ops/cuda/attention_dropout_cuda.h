/* The gradient of attention with dropout as a library node on CUDA devices: rota's kernels for Hopper. Internal; not
 * installed. */
#ifndef ROTA_OPS_CUDA_ATTENTION_DROPOUT_CUDA_H
#define ROTA_OPS_CUDA_ATTENTION_DROPOUT_CUDA_H

#include "ops/kernels.h"

#ifdef ROTA_HAVE_CUDA

/* Whether they take it: the node then is one call. */
bool rota_cuda_attention_dropout_backward_as_one(const rota_attention_backward_params *params,
                                                 uint32_t slot_mask, const rota_cuda_target *target);

rota_status rota_cuda_call_attention_dropout_backward(const rota_cuda_call *call);
uint64_t rota_cuda_workspace_attention_dropout_backward(const void *params, const uint64_t *operand_bytes,
                                                        const rota_cuda_target *target);
#define ROTA_CUDA_ATTENTION_DROPOUT_BACKWARD                                                                 \
    {                                                                                                        \
        .call = rota_cuda_call_attention_dropout_backward,                                                   \
        .workspace = rota_cuda_workspace_attention_dropout_backward                                          \
    }

#else /* without the toolkit's headers there is no CUDA executor either */

static inline bool rota_cuda_attention_dropout_backward_as_one(const rota_attention_backward_params *params,
                                                               uint32_t slot_mask,
                                                               const rota_cuda_target *target) {
    (void)params, (void)slot_mask, (void)target;
    return false;
}
#define ROTA_CUDA_ATTENTION_DROPOUT_BACKWARD                                                                 \
    { .call = NULL }

#endif

#endif
