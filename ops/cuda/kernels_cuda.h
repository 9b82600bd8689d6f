/* The CUDA half of each built-in kernel: the initializer of rota_kernel.cuda. For ops/kernels.c, which holds
 * the kernel objects. */
#ifndef ROTA_OPS_CUDA_KERNELS_CUDA_H
#define ROTA_OPS_CUDA_KERNELS_CUDA_H

#include "cuda/along.h"
#include "cuda/attention.h"
#include "cuda/attention_backward.h"
#include "cuda/batch_norm.h"
#include "cuda/binary.h"
#include "cuda/copy.h"
#include "cuda/elementwise.h"
#include "cuda/embedding.h"
#include "cuda/matmul.h"
#include "cuda/matmul_half.h"
#include "cuda/norm.h"
#include "cuda/optimizer.h"
#include "cuda/reduce.h"
#include "cuda/rows.h"
#include "cuda/unary.h"
#include "ops/cuda/launch.h"

#ifdef ROTA_HAVE_CUDA
#include "ops/cuda/matmul_cuda.h"
#define ROTA_CUDA_SELECT_matmul .select = rota_cuda_select_matmul
#define ROTA_CUDA_SELECT_matmul_f16 .select = rota_cuda_select_matmul_f16
#define ROTA_CUDA_SELECT_matmul_bf16 .select = rota_cuda_select_matmul_bf16
#else /* without the toolkit's headers there is no CUDA executor either */
#define ROTA_CUDA_SELECT_matmul .select = NULL
#define ROTA_CUDA_SELECT_matmul_f16 .select = NULL
#define ROTA_CUDA_SELECT_matmul_bf16 .select = NULL
#endif

/* A kernel of an image; further members may follow. */
#define ROTA_CUDA_KERNEL(name, image_name)                                                                   \
    ROTA_CUDA_IMAGE_##image_name, .entry = ROTA_CUDA_ENTRY_##image_name(name),                               \
                                  .launch = rota_cuda_launch_##name

#define ROTA_CUDA_unary ROTA_CUDA_KERNEL(unary, unary)
#define ROTA_CUDA_unary_backward ROTA_CUDA_KERNEL(unary_backward, unary)
#define ROTA_CUDA_binary ROTA_CUDA_KERNEL(binary, binary)
#define ROTA_CUDA_binary_backward ROTA_CUDA_KERNEL(binary_backward, binary)
#define ROTA_CUDA_where ROTA_CUDA_KERNEL(where, binary)
#define ROTA_CUDA_copy_strided ROTA_CUDA_KERNEL(copy_strided, copy)
#define ROTA_CUDA_cast ROTA_CUDA_KERNEL(cast, elementwise)
#define ROTA_CUDA_reduce ROTA_CUDA_KERNEL(reduce, reduce)
#define ROTA_CUDA_max_backward ROTA_CUDA_KERNEL(max_backward, reduce)
#define ROTA_CUDA_gather ROTA_CUDA_KERNEL(gather, along)
#define ROTA_CUDA_scatter_add ROTA_CUDA_KERNEL(scatter_add, along)
#define ROTA_CUDA_one_hot ROTA_CUDA_KERNEL(one_hot, along)
#define ROTA_CUDA_top_k ROTA_CUDA_KERNEL(top_k, along)
#define ROTA_CUDA_cumulative_sum ROTA_CUDA_KERNEL(cumulative_sum, along)
#define ROTA_CUDA_variance ROTA_CUDA_KERNEL(variance, along)
#define ROTA_CUDA_variance_backward ROTA_CUDA_KERNEL(variance_backward, along)
#define ROTA_CUDA_matmul ROTA_CUDA_KERNEL(matmul, matmul), ROTA_CUDA_SELECT_matmul
#define ROTA_CUDA_matmul_f16 ROTA_CUDA_KERNEL(matmul_f16, matmul_half), ROTA_CUDA_SELECT_matmul_f16
#define ROTA_CUDA_matmul_bf16 ROTA_CUDA_KERNEL(matmul_bf16, matmul_half), ROTA_CUDA_SELECT_matmul_bf16
#define ROTA_CUDA_embedding ROTA_CUDA_KERNEL(embedding, embedding)
#define ROTA_CUDA_embedding_backward ROTA_CUDA_KERNEL(embedding_backward, embedding)
#define ROTA_CUDA_softmax ROTA_CUDA_KERNEL(softmax, rows)
#define ROTA_CUDA_softmax_backward ROTA_CUDA_KERNEL(softmax_backward, rows)
#define ROTA_CUDA_causal_mask ROTA_CUDA_KERNEL(causal_mask, rows)
#define ROTA_CUDA_layernorm ROTA_CUDA_KERNEL(layernorm, norm)
#define ROTA_CUDA_layernorm_backward ROTA_CUDA_KERNEL(layernorm_backward, norm)
#define ROTA_CUDA_layernorm_backward_weight ROTA_CUDA_KERNEL(layernorm_backward_weight, norm)
#define ROTA_CUDA_layernorm_gradient ROTA_CUDA_KERNEL(layernorm_gradient, norm)
#define ROTA_CUDA_rmsnorm_gradient ROTA_CUDA_KERNEL(rmsnorm_gradient, norm)
#define ROTA_CUDA_batch_norm_sums ROTA_CUDA_KERNEL(batch_norm_sums, batch_norm)
#define ROTA_CUDA_batch_norm_update ROTA_CUDA_KERNEL(batch_norm_update, batch_norm)
#define ROTA_CUDA_batch_norm ROTA_CUDA_KERNEL(batch_norm, batch_norm)
#define ROTA_CUDA_batch_norm_backward ROTA_CUDA_KERNEL(batch_norm_backward, batch_norm)
#define ROTA_CUDA_rope ROTA_CUDA_KERNEL(rope, batch_norm)
#define ROTA_CUDA_residual_layernorm ROTA_CUDA_KERNEL(residual_layernorm, norm)
#define ROTA_CUDA_rmsnorm ROTA_CUDA_KERNEL(rmsnorm, norm)
#define ROTA_CUDA_rmsnorm_backward ROTA_CUDA_KERNEL(rmsnorm_backward, norm)
#define ROTA_CUDA_rmsnorm_backward_weight ROTA_CUDA_KERNEL(rmsnorm_backward_weight, norm)
#define ROTA_CUDA_cross_entropy ROTA_CUDA_KERNEL(cross_entropy, rows)
#define ROTA_CUDA_cross_entropy_mean ROTA_CUDA_KERNEL(cross_entropy_mean, rows)
#define ROTA_CUDA_cross_entropy_backward ROTA_CUDA_KERNEL(cross_entropy_backward, rows)
#define ROTA_CUDA_attention ROTA_CUDA_KERNEL(attention, attention), .select = rota_cuda_select_attention
#define ROTA_CUDA_attention_backward_prepare                                                                 \
    ROTA_CUDA_KERNEL(attention_backward_prepare, attention_backward),                                        \
        .select = rota_cuda_select_attention_backward_prepare
#define ROTA_CUDA_attention_backward_query                                                                   \
    ROTA_CUDA_KERNEL(attention_backward_query, attention_backward),                                          \
        .select = rota_cuda_select_attention_backward_query
#define ROTA_CUDA_attention_backward_key_value                                                               \
    ROTA_CUDA_KERNEL(attention_backward_key_value, attention_backward),                                      \
        .select = rota_cuda_select_attention_backward_key_value
#define ROTA_CUDA_dropout ROTA_CUDA_KERNEL(dropout, elementwise)
#define ROTA_CUDA_index_add ROTA_CUDA_KERNEL(index_add, embedding)
#define ROTA_CUDA_global_norm ROTA_CUDA_KERNEL(global_norm, reduce)
#define ROTA_CUDA_adamw ROTA_CUDA_KERNEL(adamw, optimizer)
#define ROTA_CUDA_momentum ROTA_CUDA_KERNEL(momentum, optimizer)
#define ROTA_CUDA_loss_scale ROTA_CUDA_KERNEL(loss_scale, optimizer)
#define ROTA_CUDA_check_finite ROTA_CUDA_KERNEL(check_finite, elementwise)

#endif
