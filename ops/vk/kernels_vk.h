/* The Vulkan half of each built-in kernel: the initializer of rota_kernel.vk. Included by ops/kernels.c only,
 * which holds the kernel objects (the SPIR-V headers define arrays) and knows ops/cuda/matmul_bounded.h,
 * whose images run on Vulkan devices. */
#ifndef ROTA_OPS_VK_KERNELS_VK_H
#define ROTA_OPS_VK_KERNELS_VK_H

#include "ops/kernels.h"
#include "ops/vk/dispatch.h"
#include "spv/adamw.h"
#include "spv/attention.h"
#include "spv/attention_backward_key_value.h"
#include "spv/attention_backward_prepare.h"
#include "spv/attention_backward_query.h"
#include "spv/batch_norm.h"
#include "spv/batch_norm_backward.h"
#include "spv/batch_norm_sums.h"
#include "spv/batch_norm_update.h"
#include "spv/binary.h"
#include "spv/binary_backward.h"
#include "spv/cast.h"
#include "spv/causal_mask.h"
#include "spv/check_finite.h"
#include "spv/copy_strided.h"
#include "spv/cross_entropy.h"
#include "spv/cross_entropy_backward.h"
#include "spv/cross_entropy_mean.h"
#include "spv/dropout.h"
#include "spv/embedding.h"
#include "spv/embedding_backward.h"
#include "spv/global_norm.h"
#include "spv/index_add.h"
#include "spv/layernorm.h"
#include "spv/layernorm_backward.h"
#include "spv/layernorm_backward_weight.h"
#include "spv/loss_scale.h"
#include "spv/matmul.h"
#include "spv/matmul_bf16.h"
#include "spv/matmul_f16.h"
#include "spv/max_backward.h"
#include "spv/momentum.h"
#include "spv/reduce.h"
#include "spv/residual_layernorm.h"
#include "spv/rmsnorm.h"
#include "spv/rmsnorm_backward.h"
#include "spv/rmsnorm_backward_weight.h"
#include "spv/rope.h"
#include "spv/softmax.h"
#include "spv/softmax_backward.h"
#include "spv/gather.h"
#include "spv/scatter_add.h"
#include "spv/one_hot.h"
#include "spv/top_k.h"
#include "spv/cumulative_sum.h"
#include "spv/variance.h"
#include "spv/variance_backward.h"
#include "spv/unary.h"
#include "spv/unary_backward.h"
#include "spv/where.h"

/* A shader and its grid; further members may follow. */
#define ROTA_VK_SHADER(shader, grid_name)                                                                    \
    .words = rota_spv_##shader, .size_bytes = sizeof rota_spv_##shader, .grid = rota_vk_grid_##grid_name
/* ... with `count` specialization constants. */
#define ROTA_VK_SHADER_SPEC(shader, grid_name, spec_name, count)                                             \
    ROTA_VK_SHADER(shader, grid_name), .spec_count = (count), .spec = rota_vk_spec_##spec_name

/* ... and of f16 and bf16 another (halves.c). */
#define ROTA_VK_TYPED(shader, grid_name, spec_name, count)                                                   \
    { ROTA_VK_SHADER_SPEC(shader, grid_name, spec_name, count), .select = rota_vk_select_##shader }

/* ... whose loops are as long as an axis. */
#define ROTA_VK_TYPED_LONG(shader, grid_name, spec_name, count)                                              \
    {                                                                                                        \
        ROTA_VK_SHADER_SPEC(shader, grid_name, spec_name, count), .select = rota_vk_select_##shader,         \
                                                                  .turns = rota_vk_turns_##shader            \
    }

#define ROTA_VK_unary ROTA_VK_TYPED(unary, unary, unary, 2)
#define ROTA_VK_unary_backward ROTA_VK_TYPED(unary_backward, unary, unary, 2)
#define ROTA_VK_binary ROTA_VK_TYPED(binary, binary, binary, 3)
#define ROTA_VK_binary_backward ROTA_VK_TYPED(binary_backward, binary_backward, binary_backward, 3)
#define ROTA_VK_where ROTA_VK_TYPED(where, where, where, 3)
#define ROTA_VK_copy_strided ROTA_VK_TYPED(copy_strided, copy_strided, copy_strided, 3)
#define ROTA_VK_cast                                                                                         \
    { ROTA_VK_SHADER_SPEC(cast, cast, cast, 2), .required_features = ROTA_FEATURE_F16_STORAGE }
#define ROTA_VK_reduce ROTA_VK_TYPED(reduce, reduce, reduce, 5)
#define ROTA_VK_max_backward ROTA_VK_TYPED_LONG(max_backward, max_backward, max_backward, 1)
#define ROTA_VK_gather ROTA_VK_TYPED(gather, gather, gather, 1)
#define ROTA_VK_scatter_add ROTA_VK_TYPED_LONG(scatter_add, scatter_add, scatter_add, 2)
#define ROTA_VK_one_hot ROTA_VK_TYPED(one_hot, one_hot, one_hot, 1)
#define ROTA_VK_top_k ROTA_VK_TYPED_LONG(top_k, top_k, top_k, 1)
#define ROTA_VK_cumulative_sum ROTA_VK_TYPED_LONG(cumulative_sum, cumulative_sum, cumulative_sum, 2)
#define ROTA_VK_variance ROTA_VK_TYPED_LONG(variance, variance, variance, 3)
#define ROTA_VK_variance_backward ROTA_VK_TYPED(variance_backward, variance_backward, variance_backward, 1)
#define ROTA_VK_matmul                                                                                       \
    {                                                                                                        \
        ROTA_VK_SHADER_SPEC(matmul, matmul_small, matmul, 4), .select = rota_vk_select_matmul,               \
                                                              .turns = rota_vk_turns_matmul                  \
    }
#define ROTA_VK_matmul_f16                                                                                   \
    {                                                                                                        \
        ROTA_VK_SHADER_SPEC(matmul_f16, matmul_small, matmul, 4),                                            \
            .required_features = ROTA_FEATURE_F16_STORAGE, .select = rota_vk_select_matmul_f16,              \
            .turns = rota_vk_turns_matmul, .select_image = rota_cuda_select_image_matmul_f16                 \
    }
#define ROTA_VK_matmul_bf16                                                                                  \
    {                                                                                                        \
        ROTA_VK_SHADER_SPEC(matmul_bf16, matmul_small, matmul, 4),                                           \
            .required_features = ROTA_FEATURE_F16_STORAGE, .select = rota_vk_select_matmul_bf16,             \
            .turns = rota_vk_turns_matmul, .select_image = rota_cuda_select_image_matmul_bf16                \
    }
#define ROTA_VK_embedding                                                                                    \
    { ROTA_VK_SHADER(embedding, embedding), .select = rota_vk_select_embedding }
#define ROTA_VK_embedding_backward                                                                           \
    {                                                                                                        \
        ROTA_VK_SHADER(embedding_backward, embedding_backward), .select = rota_vk_select_embedding_backward, \
                                                                .turns = rota_vk_turns_embedding_backward    \
    }
#define ROTA_VK_softmax                                                                                      \
    {                                                                                                        \
        ROTA_VK_SHADER_SPEC(softmax, softmax, softmax, 1), .select = rota_vk_select_softmax,                 \
                                                           .turns = rota_vk_turns_softmax                    \
    }
#define ROTA_VK_softmax_backward                                                                             \
    {                                                                                                        \
        ROTA_VK_SHADER_SPEC(softmax_backward, softmax, softmax, 1),                                          \
            .select = rota_vk_select_softmax_backward, .turns = rota_vk_turns_softmax                        \
    }
#define ROTA_VK_causal_mask                                                                                  \
    { ROTA_VK_SHADER(causal_mask, causal_mask), .select = rota_vk_select_causal_mask }
#define ROTA_VK_layernorm                                                                                    \
    {                                                                                                        \
        ROTA_VK_SHADER_SPEC(layernorm, norm, norm, 1), .select = rota_vk_select_layernorm,                   \
                                                       .turns = rota_vk_turns_norm                           \
    }
#define ROTA_VK_layernorm_backward                                                                           \
    {                                                                                                        \
        ROTA_VK_SHADER_SPEC(layernorm_backward, norm, norm, 1), .select = rota_vk_select_layernorm_backward, \
                                                                .turns = rota_vk_turns_norm                  \
    }
#define ROTA_VK_layernorm_backward_weight                                                                    \
    {                                                                                                        \
        ROTA_VK_SHADER(layernorm_backward_weight, norm_backward_weight),                                     \
            .select = rota_vk_select_layernorm_backward_weight                                               \
    }
#define ROTA_VK_rmsnorm                                                                                      \
    {                                                                                                        \
        ROTA_VK_SHADER_SPEC(rmsnorm, norm, norm, 1), .select = rota_vk_select_rmsnorm,                       \
                                                     .turns = rota_vk_turns_norm                             \
    }
#define ROTA_VK_rmsnorm_backward                                                                             \
    {                                                                                                        \
        ROTA_VK_SHADER_SPEC(rmsnorm_backward, norm, norm, 1), .select = rota_vk_select_rmsnorm_backward,     \
                                                              .turns = rota_vk_turns_norm                    \
    }
#define ROTA_VK_rmsnorm_backward_weight                                                                      \
    {                                                                                                        \
        ROTA_VK_SHADER(rmsnorm_backward_weight, norm_backward_weight),                                       \
            .select = rota_vk_select_rmsnorm_backward_weight                                                 \
    }
#define ROTA_VK_cross_entropy                                                                                \
    {                                                                                                        \
        ROTA_VK_SHADER_SPEC(cross_entropy, cross_entropy, cross_entropy, 1),                                 \
            .select = rota_vk_select_cross_entropy, .turns = rota_vk_turns_cross_entropy                     \
    }
#define ROTA_VK_cross_entropy_backward                                                                       \
    {                                                                                                        \
        ROTA_VK_SHADER(cross_entropy_backward, cross_entropy_backward),                                      \
            .select = rota_vk_select_cross_entropy_backward                                                  \
    }
#define ROTA_VK_attention                                                                                    \
    {                                                                                                        \
        ROTA_VK_SHADER(attention, attention), .select = rota_vk_select_attention,                            \
                                              .turns = rota_vk_turns_attention,                              \
                                              .select_image = rota_cuda_select_image_attention               \
    }
#define ROTA_VK_attention_backward_prepare                                                                   \
    {                                                                                                        \
        ROTA_VK_SHADER(attention_backward_prepare, attention_backward_prepare),                              \
            .select = rota_vk_select_attention_backward_prepare,                                             \
            .select_image = rota_cuda_select_image_attention_backward_prepare                                \
    }
#define ROTA_VK_attention_backward_query                                                                     \
    {                                                                                                        \
        ROTA_VK_SHADER(attention_backward_query, attention_backward_query),                                  \
            .select = rota_vk_select_attention_backward_query,                                               \
            .turns = rota_vk_turns_attention_backward_query,                                                 \
            .select_image = rota_cuda_select_image_attention_backward_query                                  \
    }
#define ROTA_VK_attention_backward_key_value                                                                 \
    {                                                                                                        \
        ROTA_VK_SHADER(attention_backward_key_value, attention_backward_key_value),                          \
            .select = rota_vk_select_attention_backward_key_value,                                           \
            .turns = rota_vk_turns_attention_backward_key_value,                                             \
            .select_image = rota_cuda_select_image_attention_backward_key_value                              \
    }
#define ROTA_VK_dropout ROTA_VK_TYPED(dropout, dropout, dropout, 1)
#define ROTA_VK_index_add                                                                                    \
    { ROTA_VK_SHADER(index_add, index_add) }
#define ROTA_VK_global_norm                                                                                  \
    { ROTA_VK_SHADER_SPEC(global_norm, global_norm, global_norm, 1), .turns = rota_vk_turns_global_norm }
#define ROTA_VK_adamw                                                                                        \
    { ROTA_VK_SHADER(adamw, adamw), .select = rota_vk_select_adamw }
#define ROTA_VK_batch_norm_sums                                                                              \
    { ROTA_VK_SHADER(batch_norm_sums, batch_norm_sums), .select = rota_vk_select_batch_norm_sums }
#define ROTA_VK_batch_norm_update                                                                            \
    { ROTA_VK_SHADER(batch_norm_update, batch_norm_update) }
#define ROTA_VK_batch_norm                                                                                   \
    { ROTA_VK_SHADER(batch_norm, batch_norm), .select = rota_vk_select_batch_norm }
#define ROTA_VK_batch_norm_backward                                                                          \
    { ROTA_VK_SHADER(batch_norm_backward, batch_norm), .select = rota_vk_select_batch_norm_backward }
#define ROTA_VK_rope                                                                                         \
    { ROTA_VK_SHADER(rope, rope), .select = rota_vk_select_rope }
#define ROTA_VK_residual_layernorm                                                                           \
    {                                                                                                        \
        ROTA_VK_SHADER_SPEC(residual_layernorm, norm, norm, 1), .select = rota_vk_select_residual_layernorm, \
                                                                .turns = rota_vk_turns_norm                  \
    }
#define ROTA_VK_cross_entropy_mean                                                                           \
    {                                                                                                        \
        ROTA_VK_SHADER_SPEC(cross_entropy_mean, global_norm, global_norm, 1),                                \
            .turns = rota_vk_turns_cross_entropy_mean                                                        \
    }
#define ROTA_VK_momentum                                                                                     \
    { ROTA_VK_SHADER(momentum, momentum), .select = rota_vk_select_momentum }
#define ROTA_VK_loss_scale                                                                                   \
    { ROTA_VK_SHADER(loss_scale, global_norm) }
#define ROTA_VK_check_finite                                                                                 \
    { ROTA_VK_SHADER(check_finite, check_finite) }

#endif
