/* The Vulkan half of each built-in kernel: the initializer of rota_kernel.vk. Included by ops/kernels.c only,
 * which holds the kernel objects. {0}: not on Vulkan. */
#ifndef ROTA_OPS_VK_KERNELS_VK_H
#define ROTA_OPS_VK_KERNELS_VK_H

#include "ops/kernels.h"

#define ROTA_VK_unary                                                                                        \
    { 0 }
#define ROTA_VK_unary_backward                                                                               \
    { 0 }
#define ROTA_VK_binary                                                                                       \
    { 0 }
#define ROTA_VK_copy_strided                                                                                 \
    { 0 }
#define ROTA_VK_cast                                                                                         \
    { 0 }
#define ROTA_VK_reduce                                                                                       \
    { 0 }
#define ROTA_VK_max_backward                                                                                 \
    { 0 }
#define ROTA_VK_matmul                                                                                       \
    { 0 }
#define ROTA_VK_matmul_f16                                                                                   \
    { 0 }
#define ROTA_VK_matmul_bf16                                                                                  \
    { 0 }
#define ROTA_VK_embedding                                                                                    \
    { 0 }
#define ROTA_VK_embedding_backward                                                                           \
    { 0 }
#define ROTA_VK_softmax                                                                                      \
    { 0 }
#define ROTA_VK_softmax_backward                                                                             \
    { 0 }
#define ROTA_VK_causal_mask                                                                                  \
    { 0 }
#define ROTA_VK_layernorm                                                                                    \
    { 0 }
#define ROTA_VK_layernorm_backward                                                                           \
    { 0 }
#define ROTA_VK_layernorm_backward_weight                                                                    \
    { 0 }
#define ROTA_VK_rmsnorm                                                                                      \
    { 0 }
#define ROTA_VK_rmsnorm_backward                                                                             \
    { 0 }
#define ROTA_VK_rmsnorm_backward_weight                                                                      \
    { 0 }
#define ROTA_VK_cross_entropy                                                                                \
    { 0 }
#define ROTA_VK_cross_entropy_backward                                                                       \
    { 0 }
#define ROTA_VK_attention                                                                                    \
    { 0 }
#define ROTA_VK_attention_backward_prepare                                                                   \
    { 0 }
#define ROTA_VK_attention_backward_query                                                                     \
    { 0 }
#define ROTA_VK_attention_backward_key_value                                                                 \
    { 0 }
#define ROTA_VK_dropout                                                                                      \
    { 0 }
#define ROTA_VK_index_add                                                                                    \
    { 0 }
#define ROTA_VK_global_norm                                                                                  \
    { 0 }
#define ROTA_VK_adamw                                                                                        \
    { 0 }
#define ROTA_VK_check_finite                                                                                 \
    { 0 }

#endif
