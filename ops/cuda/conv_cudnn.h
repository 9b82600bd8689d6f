/* Convolutions by cuDNN as library nodes on CUDA devices (rota_kernel.cuda). Internal; not installed. */
#ifndef ROTA_OPS_CUDA_CONV_CUDNN_H
#define ROTA_OPS_CUDA_CONV_CUDNN_H

#include "graph/kernel.h"
#include "ops/window_params.h"

#ifdef ROTA_HAVE_CUDA

/* The kernel that stands in for one of conv.cu's, and is whichever of cuDNN's engines and that one is the fastest;
 * NULL: that one takes it, since there is too little to do, or cuDNN is not there or has no engine for it. */
const rota_kernel *rota_cuda_select_conv2d(const void *params, const uint64_t *operand_bytes,
                                           uint32_t slot_mask, const rota_cuda_target *target);
const rota_kernel *rota_cuda_select_conv2d_backward_input(const void *params, const uint64_t *operand_bytes,
                                                          uint32_t slot_mask, const rota_cuda_target *target);
const rota_kernel *rota_cuda_select_conv2d_backward_weight(const void *params, const uint64_t *operand_bytes,
                                                           uint32_t slot_mask,
                                                           const rota_cuda_target *target);
#define ROTA_CUDA_SELECT_CONV(name) .cuda.select = rota_cuda_select_##name

/* Whether conv2d_weight_gradient is a library node. */
bool rota_cuda_conv_weight_by_cudnn(const rota_conv_params *params, const rota_cuda_target *target);

rota_status rota_cuda_call_conv2d_weight_gradient(const rota_cuda_call *call);
rota_status rota_cuda_tune_conv2d_weight_gradient(const rota_cuda_call *call);
uint64_t rota_cuda_workspace_conv2d_weight_gradient(const void *params, const uint64_t *operand_bytes,
                                                    const rota_cuda_target *target);
#define ROTA_CUDA_CONV2D_WEIGHT_GRADIENT                                                                     \
    {                                                                                                        \
        .call = rota_cuda_call_conv2d_weight_gradient, .tune = rota_cuda_tune_conv2d_weight_gradient,        \
        .workspace = rota_cuda_workspace_conv2d_weight_gradient                                              \
    }

#else /* without the toolkit's headers there is no CUDA executor either */

#define ROTA_CUDA_SELECT_CONV(name) .cuda.select = NULL
static inline bool rota_cuda_conv_weight_by_cudnn(const rota_conv_params *params,
                                                  const rota_cuda_target *target) {
    (void)params, (void)target;
    return false;
}
#define ROTA_CUDA_CONV2D_WEIGHT_GRADIENT                                                                     \
    { .call = NULL }

#endif
#endif
