/* The built-in kernel objects: operands, in-place rules, parameters that slots may fill, and their code on
 * each executor. */
#include "ops/kernels.h"

#include <stddef.h>
#include "ops/cpu/cpu.h"
#include "ops/cuda/kernels_cuda.h"
#include "ops/cuda/matmul_bounded.h"
#include "ops/kernel_objects.h"
#include "ops/table.h"
#include "ops/vk/kernels_vk.h"

/* Bits of operands. */
#define OPERAND(i) (1u << (i))
#define COUNT_OF(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

/* A kernel with `operands` accesses, a parameter struct, flags beyond PURE, the operands that may be in place
 * on which, and its bindables. */
#define KERNEL_WITH_WORK(NAME, OPERANDS, PARAMS, FLAGS, OUTPUTS, INPUTS, BINDABLES, BINDABLE_COUNT, WORK)    \
    _Static_assert(8 + 8 * (OPERANDS) + sizeof(PARAMS) <= 128, #NAME " passes Vulkan's push constants");     \
    const rota_kernel rota_kernel_##NAME = {                                                                 \
        .name = #NAME,                                                                                       \
        .operand_count = (OPERANDS),                                                                         \
        .param_bytes = sizeof(PARAMS),                                                                       \
        .flags = ROTA_KERNEL_PURE | (FLAGS),                                                                 \
        .inplace_outputs = (OUTPUTS),                                                                        \
        .inplace_inputs = (INPUTS),                                                                          \
        .bindables = (BINDABLES),                                                                            \
        .bindable_count = (BINDABLE_COUNT),                                                                  \
        .work = (WORK),                                                                                      \
        .cpu = {.fn = rota_cpu_##NAME, .items = rota_cpu_items_##NAME},                                      \
        .vk = ROTA_VK_##NAME,                                                                                \
        .cuda = {ROTA_CUDA_##NAME},                                                                          \
    };

#define KERNEL(NAME, OPERANDS, PARAMS, FLAGS, OUTPUTS, INPUTS, BINDABLES, BINDABLE_COUNT)                    \
    KERNEL_WITH_WORK(NAME, OPERANDS, PARAMS, FLAGS, OUTPUTS, INPUTS, BINDABLES, BINDABLE_COUNT, NULL)
#define WORK_KERNEL(NAME, OPERANDS, PARAMS, WORK)                                                            \
    KERNEL_WITH_WORK(NAME, OPERANDS, PARAMS, 0, 0, 0, NULL, 0, WORK)
#define PLAIN_KERNEL(NAME, OPERANDS, PARAMS) KERNEL(NAME, OPERANDS, PARAMS, 0, 0, 0, NULL, 0)
#define INPLACE_KERNEL(NAME, OPERANDS, PARAMS, OUTPUT, INPUT)                                                \
    KERNEL(NAME, OPERANDS, PARAMS, 0, OPERAND(OUTPUT), OPERAND(INPUT), NULL, 0)

static const rota_kernel_bindable unary_bindables[] = {
    {"alpha", offsetof(rota_unary_params, alpha), 4, false, ROTA_VALUE_F32},
    {"beta", offsetof(rota_unary_params, beta), 4, false, ROTA_VALUE_F32},
};
static const rota_kernel_bindable dropout_bindables[] = {
    {"seed", offsetof(rota_dropout_params, seed), 4, true, ROTA_VALUE_U32},
    {"step", offsetof(rota_dropout_params, step), 4, true, ROTA_VALUE_U32},
};
static const rota_kernel_bindable adamw_bindables[] = {
    {"lr", offsetof(rota_adamw_params, lr), 4, true, ROTA_VALUE_F32},
    {"step", offsetof(rota_adamw_params, step), 4, true, ROTA_VALUE_U32},
};

static double matmul_work(const void *params, const uint64_t *operand_bytes) {
    const rota_matmul_params *p = params;
    (void)operand_bytes;
    return 2.0 * p->m * p->n * p->k * p->batch[0] * p->batch[1] * p->batch[2];
}
static double attention_work(const void *params, const uint64_t *operand_bytes) {
    const rota_attention_params *p = params;
    (void)operand_bytes;
    return (p->flags & ROTA_ATTENTION_CAUSAL ? 2.0 : 4.0) * p->batch * p->heads * p->queries * p->keys *
           p->dim;
}

/* The scores and their gradient again, and one product more for queries, two for keys and values. */
static double attention_query_work(const void *params, const uint64_t *operand_bytes) {
    const rota_attention_backward_params *p = params;
    (void)operand_bytes;
    return (p->flags & ROTA_ATTENTION_CAUSAL ? 3.0 : 6.0) * p->batch * p->heads * p->queries * p->keys *
           p->dim;
}
static double attention_key_value_work(const void *params, const uint64_t *operand_bytes) {
    return attention_query_work(params, operand_bytes) * 4 / 3;
}

static const rota_kernel_bindable rope_bindables[] = {
    {"offset", offsetof(rota_rope_params, offset), 4, true, ROTA_VALUE_U32},
};
static const rota_kernel_bindable momentum_bindables[] = {
    {"lr", offsetof(rota_momentum_params, lr), 4, true, ROTA_VALUE_F32},
};

KERNEL(unary, 2, rota_unary_params, 0, OPERAND(1), OPERAND(0), unary_bindables, COUNT_OF(unary_bindables))
KERNEL(unary_backward, 3, rota_unary_params, 0, OPERAND(2), OPERAND(1), unary_bindables,
       COUNT_OF(unary_bindables))
INPLACE_KERNEL(binary, 3, rota_binary_params, 2, 0)
INPLACE_KERNEL(binary_backward, 5, rota_binary_backward_params, 3, 2)
INPLACE_KERNEL(where, 4, rota_where_params, 3, 1)
PLAIN_KERNEL(copy_strided, 2, rota_copy_strided_params)
PLAIN_KERNEL(cast, 2, rota_cast_params)
PLAIN_KERNEL(reduce, 2, rota_reduce_params)
PLAIN_KERNEL(max_backward, 4, rota_max_backward_params)
PLAIN_KERNEL(gather, 3, rota_gather_params)
PLAIN_KERNEL(scatter_add, 3, rota_gather_params)
PLAIN_KERNEL(one_hot, 2, rota_one_hot_params)
PLAIN_KERNEL(top_k, 3, rota_top_k_params)
PLAIN_KERNEL(cumulative_sum, 2, rota_cumulative_sum_params)
PLAIN_KERNEL(variance, 3, rota_variance_params)
PLAIN_KERNEL(variance_backward, 4, rota_variance_params)
WORK_KERNEL(matmul, 3, rota_matmul_params, matmul_work)
WORK_KERNEL(matmul_f16, 3, rota_matmul_params, matmul_work)
WORK_KERNEL(matmul_bf16, 3, rota_matmul_params, matmul_work)
PLAIN_KERNEL(embedding, 3, rota_embedding_params)
PLAIN_KERNEL(embedding_backward, 3, rota_embedding_params)
INPLACE_KERNEL(softmax, 2, rota_softmax_params, 1, 0)
INPLACE_KERNEL(softmax_backward, 3, rota_softmax_params, 2, 1)
INPLACE_KERNEL(causal_mask, 2, rota_causal_mask_params, 1, 0)
PLAIN_KERNEL(layernorm, 5, rota_norm_params)
INPLACE_KERNEL(layernorm_backward, 5, rota_norm_params, 4, 3)
PLAIN_KERNEL(layernorm_backward_weight, 4, rota_norm_params)
KERNEL(residual_layernorm, 7, rota_norm_params, 0, OPERAND(4), OPERAND(0) | OPERAND(1), NULL, 0)
PLAIN_KERNEL(rmsnorm, 4, rota_norm_params)
INPLACE_KERNEL(rmsnorm_backward, 5, rota_norm_params, 4, 3)
PLAIN_KERNEL(rmsnorm_backward_weight, 4, rota_norm_params)
PLAIN_KERNEL(batch_norm_sums, 5, rota_batch_norm_params)
PLAIN_KERNEL(batch_norm_update, 5, rota_batch_norm_params)
INPLACE_KERNEL(batch_norm, 6, rota_batch_norm_params, 5, 0)
INPLACE_KERNEL(batch_norm_backward, 7, rota_batch_norm_params, 6, 4)
KERNEL(rope, 2, rota_rope_params, 0, OPERAND(1), OPERAND(0), rope_bindables, COUNT_OF(rope_bindables))
PLAIN_KERNEL(cross_entropy, 4, rota_cross_entropy_params)
PLAIN_KERNEL(cross_entropy_mean, 4, rota_cross_entropy_params)
INPLACE_KERNEL(cross_entropy_backward, 6, rota_cross_entropy_params, 5, 0)
WORK_KERNEL(attention, 5, rota_attention_params, attention_work)
PLAIN_KERNEL(attention_backward_prepare, 4, rota_attention_backward_params)
WORK_KERNEL(attention_backward_query, 6, rota_attention_backward_params, attention_query_work)
WORK_KERNEL(attention_backward_key_value, 7, rota_attention_backward_params, attention_key_value_work)
KERNEL(dropout, 3, rota_dropout_params, 0, OPERAND(2), OPERAND(0) | OPERAND(1), dropout_bindables,
       COUNT_OF(dropout_bindables))
KERNEL(index_add, 2, rota_index_add_params, ROTA_KERNEL_ATOMIC_ACCUMULATE | ROTA_KERNEL_INTEGER_ACCUMULATE, 0,
       0, NULL, 0)
PLAIN_KERNEL(global_norm, 2, rota_global_norm_params)
KERNEL(adamw, 6, rota_adamw_params, 0, 0, 0, adamw_bindables, COUNT_OF(adamw_bindables))
KERNEL(momentum, 5, rota_momentum_params, 0, 0, 0, momentum_bindables, COUNT_OF(momentum_bindables))
PLAIN_KERNEL(loss_scale, 3, rota_loss_scale_params)
PLAIN_KERNEL(check_finite, 2, rota_check_finite_params)

const rota_kernel *const *rota_kernel_table(uint32_t *out_count) {
    static const rota_kernel *const table[] = {
#define KERNEL_ADDRESS(name) &rota_kernel_##name,
        ROTA_KERNEL_LIST(KERNEL_ADDRESS)
#undef KERNEL_ADDRESS
    };
    if (out_count) *out_count = COUNT_OF(table);
    return table;
}

bool rota_kernels_have_cuda_images(void) {
    return rota_kernel_unary.cuda.image != NULL;
}
