/* How the built-in kernels are dispatched on Vulkan: workgroup counts and specialization constants from the
 * parameters, and the choice among the shaders of one kernel. */
#ifndef ROTA_OPS_VK_DISPATCH_H
#define ROTA_OPS_VK_DISPATCH_H

#include "exec/device.h"
#include "ops/kernels.h"

/* Grids (rota_grid_fn) and specialization constants (rota_kernel.vk.spec), named after the shader. */
#define ROTA_VK_DISPATCH(name)                                                                               \
    void rota_vk_grid_##name(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]);
#define ROTA_VK_DISPATCH_SPEC(name)                                                                          \
    ROTA_VK_DISPATCH(name)                                                                                   \
    void rota_vk_spec_##name(const void *params, uint32_t *out_values);

ROTA_VK_DISPATCH_SPEC(unary)
ROTA_VK_DISPATCH_SPEC(binary)
ROTA_VK_DISPATCH_SPEC(binary_backward)
ROTA_VK_DISPATCH_SPEC(where)
ROTA_VK_DISPATCH_SPEC(copy_strided)
ROTA_VK_DISPATCH_SPEC(cast)
ROTA_VK_DISPATCH_SPEC(reduce)
ROTA_VK_DISPATCH_SPEC(max_backward)
ROTA_VK_DISPATCH_SPEC(gather)
ROTA_VK_DISPATCH_SPEC(scatter_add)
ROTA_VK_DISPATCH_SPEC(one_hot)
ROTA_VK_DISPATCH_SPEC(top_k)
ROTA_VK_DISPATCH_SPEC(cumulative_sum)
ROTA_VK_DISPATCH_SPEC(variance)
ROTA_VK_DISPATCH_SPEC(variance_backward)
ROTA_VK_DISPATCH_SPEC(embedding)
ROTA_VK_DISPATCH(embedding_backward)
ROTA_VK_DISPATCH_SPEC(softmax)
ROTA_VK_DISPATCH_SPEC(causal_mask)
ROTA_VK_DISPATCH_SPEC(norm)
ROTA_VK_DISPATCH_SPEC(norm_backward_weight)
ROTA_VK_DISPATCH(batch_norm_sums)
ROTA_VK_DISPATCH(batch_norm_update)
ROTA_VK_DISPATCH_SPEC(batch_norm)
ROTA_VK_DISPATCH_SPEC(rope)
ROTA_VK_DISPATCH_SPEC(cross_entropy)
ROTA_VK_DISPATCH_SPEC(cross_entropy_backward)
ROTA_VK_DISPATCH(attention)
ROTA_VK_DISPATCH(attention_backward_prepare)
ROTA_VK_DISPATCH(attention_backward_query)
ROTA_VK_DISPATCH(attention_backward_key_value)
ROTA_VK_DISPATCH_SPEC(dropout)
ROTA_VK_DISPATCH(index_add)
ROTA_VK_DISPATCH_SPEC(global_norm)
ROTA_VK_DISPATCH(adamw)
ROTA_VK_DISPATCH(momentum)
ROTA_VK_DISPATCH(check_finite)
#undef ROTA_VK_DISPATCH
#undef ROTA_VK_DISPATCH_SPEC

/* Turns of loops (rota_kernel.vk.turns; turns.c). */
#define ROTA_VK_TURNS(name) uint64_t rota_vk_turns_##name(const void *params);
ROTA_VK_TURNS(max_backward)
ROTA_VK_TURNS(scatter_add)
ROTA_VK_TURNS(top_k)
ROTA_VK_TURNS(cumulative_sum)
ROTA_VK_TURNS(variance)
ROTA_VK_TURNS(softmax)
ROTA_VK_TURNS(norm)
ROTA_VK_TURNS(cross_entropy)
ROTA_VK_TURNS(cross_entropy_mean)
ROTA_VK_TURNS(global_norm)
ROTA_VK_TURNS(embedding_backward)
ROTA_VK_TURNS(attention)
ROTA_VK_TURNS(attention_backward_query)
ROTA_VK_TURNS(attention_backward_key_value)
ROTA_VK_TURNS(matmul)
ROTA_VK_TURNS(matmul_large)
#undef ROTA_VK_TURNS

/* A grid of at least `groups` workgroups along x, and y where x alone would pass Vulkan's guaranteed 65535.
 * Shaders number them by rota_group_index() and leave where it is past the last. */
void rota_vk_fold(uint64_t groups, uint32_t out_groups[3]);

/* Matmul: the small tile's grid and constants, and the choice of shader by dtype, shape and device. */
void rota_vk_grid_matmul_small(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]);
void rota_vk_spec_matmul(const void *params, uint32_t *out_values);
const rota_kernel *rota_vk_select_matmul(const void *params, const uint64_t *operand_bytes,
                                         uint32_t features);
const rota_kernel *rota_vk_select_matmul_f16(const void *params, const uint64_t *operand_bytes,
                                             uint32_t features);
const rota_kernel *rota_vk_select_matmul_bf16(const void *params, const uint64_t *operand_bytes,
                                              uint32_t features);

/* Where the dtype is f16 or bf16, the shader for those (halves.c), which needs 16-bit storage. */
#define ROTA_VK_HALF(name)                                                                                   \
    const rota_kernel *rota_vk_select_##name(const void *params, const uint64_t *operand_bytes,              \
                                             uint32_t features);
ROTA_VK_HALF(unary)
ROTA_VK_HALF(unary_backward)
ROTA_VK_HALF(binary)
ROTA_VK_HALF(binary_backward)
ROTA_VK_HALF(where)
ROTA_VK_HALF(copy_strided)
ROTA_VK_HALF(reduce)
ROTA_VK_HALF(max_backward)
ROTA_VK_HALF(dropout)
ROTA_VK_HALF(gather)
ROTA_VK_HALF(scatter_add)
ROTA_VK_HALF(one_hot)
ROTA_VK_HALF(top_k)
ROTA_VK_HALF(cumulative_sum)
ROTA_VK_HALF(variance)
ROTA_VK_HALF(variance_backward)
#undef ROTA_VK_HALF

/* The variants for 16-bit floats of kernels that have one (half_variants.c). */
#define ROTA_VK_HALF_LIST(X)                                                                                 \
    X(embedding)                                                                                             \
    X(embedding_backward)                                                                                    \
    X(softmax)                                                                                               \
    X(softmax_backward)                                                                                      \
    X(causal_mask)                                                                                           \
    X(layernorm)                                                                                             \
    X(layernorm_backward)                                                                                    \
    X(layernorm_backward_weight)                                                                             \
    X(residual_layernorm)                                                                                    \
    X(rmsnorm)                                                                                               \
    X(rmsnorm_backward)                                                                                      \
    X(rmsnorm_backward_weight)                                                                               \
    X(cross_entropy)                                                                                         \
    X(cross_entropy_backward)                                                                                \
    X(attention)                                                                                             \
    X(attention_backward_prepare)                                                                            \
    X(attention_backward_query)                                                                              \
    X(attention_backward_key_value)                                                                          \
    X(batch_norm_sums)                                                                                       \
    X(batch_norm)                                                                                            \
    X(batch_norm_backward)                                                                                   \
    X(rope)                                                                                                  \
    X(adamw)                                                                                                 \
    X(momentum)
#define ROTA_VK_HALF_SELECT(name)                                                                            \
    const rota_kernel *rota_vk_select_##name(const void *params, const uint64_t *operand_bytes,              \
                                             uint32_t features);
ROTA_VK_HALF_LIST(ROTA_VK_HALF_SELECT)
#undef ROTA_VK_HALF_SELECT

#endif
