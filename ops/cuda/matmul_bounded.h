/* rota's products of 16-bit matrices on Hopper whose images exec/vk can launch (matmul_bounded.cu), and which
 * products take them there. Internal; not installed. */
#ifndef ROTA_OPS_CUDA_MATMUL_BOUNDED_H
#define ROTA_OPS_CUDA_MATMUL_BOUNDED_H

#include "graph/kernel.h"
#include "ops/kernel_params.h"

/* rota_kernel.vk.select_image of matmul_f16 and matmul_bf16. NULL, for the shaders: products with less than
 * a gibi of multiplications, operands that are both transposed, in slots, in several batches or not promised
 * to be aligned, results of another type or added to, and devices that aren't of compute capability 9.0. */
const rota_kernel *rota_cuda_select_image_matmul_f16(const void *params, const uint64_t *operand_bytes,
                                                     uint32_t slot_mask, const rota_cuda_target *target);
const rota_kernel *rota_cuda_select_image_matmul_bf16(const void *params, const uint64_t *operand_bytes,
                                                      uint32_t slot_mask, const rota_cuda_target *target);

/* ... of attention, with dropout or without, and its gradients (attention_select.c): of 16-bit floats and at most 64
 * columns, from compute capability 8.0 on. */
#define ROTA_CUDA_SELECT_IMAGE(kernel)                                                                       \
    const rota_kernel *rota_cuda_select_image_##kernel(const void *params, const uint64_t *operand_bytes,    \
                                                       uint32_t slot_mask, const rota_cuda_target *target);
ROTA_CUDA_SELECT_IMAGE(attention)
ROTA_CUDA_SELECT_IMAGE(attention_backward_prepare)
ROTA_CUDA_SELECT_IMAGE(attention_backward_query)
ROTA_CUDA_SELECT_IMAGE(attention_backward_key_value)
ROTA_CUDA_SELECT_IMAGE(attention_dropout)
ROTA_CUDA_SELECT_IMAGE(attention_dropout_backward_query)
ROTA_CUDA_SELECT_IMAGE(attention_dropout_backward_key_value)
#undef ROTA_CUDA_SELECT_IMAGE

#endif
