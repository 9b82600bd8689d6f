/* How the built-in kernels are launched on CUDA: blocks and threads from the parameters. Internal. */
#ifndef ROTA_OPS_CUDA_LAUNCH_H
#define ROTA_OPS_CUDA_LAUNCH_H

#include "ops/kernels.h"

/* rota_cuda_launch_<name> (rota_cuda_launch_fn) for every built-in kernel. */
#define ROTA_CUDA_LAUNCH(name)                                                                               \
    void rota_cuda_launch_##name(const void *params, const uint64_t *operand_bytes,                          \
                                 const rota_cuda_target *target, rota_cuda_launch *out_launch);
#define KERNEL(NAME, ...) ROTA_CUDA_LAUNCH(NAME)
#include "ops/kernels.def"
ROTA_CUDA_LAUNCH(linear_gelu_gradient)
ROTA_CUDA_LAUNCH(layernorm_gradient)
ROTA_CUDA_LAUNCH(rmsnorm_gradient)
#undef ROTA_CUDA_LAUNCH

/* A launch of at least `blocks` blocks of `threads`, along y too where x alone would not hold them. Kernels
 * number them by rota_group_index() and leave where it is past the last. */
rota_cuda_launch rota_cuda_fold(uint64_t blocks, uint32_t threads);

/* The choice among the kernels of an op (rota_kernel.cuda.select). Of matmul: matmul_cuda.h. */
#define ROTA_CUDA_SELECT(name)                                                                               \
    const rota_kernel *rota_cuda_select_##name(const void *params, const uint64_t *operand_bytes,            \
                                               uint32_t slot_mask, const rota_cuda_target *target);
ROTA_CUDA_SELECT(attention)
ROTA_CUDA_SELECT(attention_backward_prepare)
ROTA_CUDA_SELECT(attention_backward_query)
ROTA_CUDA_SELECT(attention_backward_key_value)
ROTA_CUDA_SELECT(attention_dropout)
ROTA_CUDA_SELECT(attention_dropout_backward_query)
ROTA_CUDA_SELECT(attention_dropout_backward_key_value)
#undef ROTA_CUDA_SELECT

#endif
