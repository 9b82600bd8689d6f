/* Parameters of built-in kernels by which their functions divide. */
#include "ops/kernel_divisors.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include "ops/kernel_objects.h" /* IWYU pragma: keep */

enum { DIVISORS_MAX = 12 };

typedef struct divisor {
    const char *name; /* NULL: the list ends before this */
    size_t offset_bytes;
    bool multiplies; /* functions divide by its product with the others that do */
} divisor;

/* By kernel_params.h's structs. */
#define E(PARAMS, MEMBER)                                                                                    \
    { #MEMBER, offsetof(PARAMS, MEMBER), true }
#define ALONE(PARAMS, MEMBER)                                                                                \
    { #MEMBER, offsetof(PARAMS, MEMBER), false }
#define SHAPE(PARAMS)                                                                                        \
    ALONE(PARAMS, shape[0]), ALONE(PARAMS, shape[1]), ALONE(PARAMS, shape[ROTA_KERNEL_DIMS - 2]),            \
        ALONE(PARAMS, shape[ROTA_KERNEL_DIMS - 1])
#define LIST(PARAMS, ...) static const divisor divisors_of_##PARAMS[DIVISORS_MAX + 1] = {__VA_ARGS__}
#define NONE                                                                                                 \
    { NULL, 0, false }

LIST(rota_unary_params, NONE);
LIST(rota_binary_params, SHAPE(rota_binary_params));
LIST(rota_binary_backward_params, SHAPE(rota_binary_backward_params));
LIST(rota_where_params, SHAPE(rota_where_params));
LIST(rota_copy_strided_params, SHAPE(rota_copy_strided_params));
LIST(rota_copy_row_params, NONE);
LIST(rota_cast_params, NONE);
LIST(rota_reduce_params, E(rota_reduce_params, n), E(rota_reduce_params, inner));
LIST(rota_max_backward_params, E(rota_max_backward_params, n), E(rota_max_backward_params, inner));
LIST(rota_gather_params, E(rota_gather_params, m), E(rota_gather_params, inner));
LIST(rota_one_hot_params, E(rota_one_hot_params, classes));
LIST(rota_top_k_params, E(rota_top_k_params, n), E(rota_top_k_params, inner));
LIST(rota_cumulative_sum_params, E(rota_cumulative_sum_params, n), E(rota_cumulative_sum_params, inner));
LIST(rota_variance_params, E(rota_variance_params, n), E(rota_variance_params, inner));
LIST(rota_nonzero_params, ALONE(rota_nonzero_params, chunk));
LIST(rota_exclusive_sum_params, E(rota_exclusive_sum_params, n));
LIST(rota_select_rows_params, E(rota_select_rows_params, width));
LIST(rota_sort_keys_params, NONE);
LIST(rota_sort_params, E(rota_sort_params, n), ALONE(rota_sort_params, chunk));
LIST(rota_unique_params, E(rota_unique_params, n), ALONE(rota_unique_params, chunk));
LIST(rota_top_p_params, E(rota_top_p_params, n), ALONE(rota_top_p_params, chunk));
LIST(rota_matmul_params, E(rota_matmul_params, m), E(rota_matmul_params, n), E(rota_matmul_params, k),
     ALONE(rota_matmul_params, batch[0]), ALONE(rota_matmul_params, batch[1]),
     ALONE(rota_matmul_params, batch[2]));
LIST(rota_scaled_matmul_params, E(rota_scaled_matmul_params, m), E(rota_scaled_matmul_params, n),
     E(rota_scaled_matmul_params, k));
LIST(rota_linear_params, E(rota_linear_params, m), E(rota_linear_params, n), E(rota_linear_params, k));
LIST(rota_embedding_params, E(rota_embedding_params, dim), E(rota_embedding_params, classes));
LIST(rota_softmax_params, E(rota_softmax_params, n));
LIST(rota_causal_mask_params, E(rota_causal_mask_params, n), E(rota_causal_mask_params, queries));
LIST(rota_norm_params, E(rota_norm_params, dim));
LIST(rota_batch_norm_params, E(rota_batch_norm_params, channels), E(rota_batch_norm_params, inner));
LIST(rota_conv_params, ALONE(rota_conv_params, groups), E(rota_conv_params, in_channels),
     E(rota_conv_params, out_channels), ALONE(rota_conv_params, in[0]), ALONE(rota_conv_params, in[1]),
     ALONE(rota_conv_params, out[0]), ALONE(rota_conv_params, out[1]), E(rota_conv_params, window[0]),
     E(rota_conv_params, window[1]), ALONE(rota_conv_params, stride[0]), ALONE(rota_conv_params, stride[1]));
LIST(rota_pool_params, E(rota_pool_params, channels), ALONE(rota_pool_params, out[0]),
     ALONE(rota_pool_params, out[1]), E(rota_pool_params, window[0]), E(rota_pool_params, window[1]),
     ALONE(rota_pool_params, stride[0]), ALONE(rota_pool_params, stride[1]));
LIST(rota_rope_params, E(rota_rope_params, sequence), E(rota_rope_params, dim));
LIST(rota_cross_entropy_params, E(rota_cross_entropy_params, classes));
LIST(rota_cross_entropy_join_params, ALONE(rota_cross_entropy_join_params, ranks));
LIST(rota_attention_params, ALONE(rota_attention_params, heads), E(rota_attention_params, queries),
     E(rota_attention_params, keys), E(rota_attention_params, dim));
LIST(rota_attention_backward_params, ALONE(rota_attention_backward_params, heads),
     E(rota_attention_backward_params, queries), E(rota_attention_backward_params, keys),
     E(rota_attention_backward_params, dim));
/* dim, of 16 bits, is looked at where it is divided by (cpu/attention.c). */
LIST(rota_attention_drop_params, ALONE(rota_attention_drop_params, heads),
     E(rota_attention_drop_params, queries), E(rota_attention_drop_params, keys));
LIST(rota_attention_drop_backward_params, ALONE(rota_attention_drop_backward_params, heads),
     E(rota_attention_drop_backward_params, queries), E(rota_attention_drop_backward_params, keys));
LIST(rota_attention_draw, NONE);
LIST(rota_dropout_params, NONE);
LIST(rota_index_add_params, NONE);
LIST(rota_global_norm_params, NONE);
LIST(rota_adamw_params, NONE);
LIST(rota_momentum_params, NONE);
LIST(rota_loss_scale_params, NONE);
LIST(rota_check_finite_params, NONE);

struct rota_kernel_divisors {
    const rota_kernel *kernel;
    const divisor *list;
    divisor chunk; /* of kernels that divide by it: others of the same parameters have no use for it */
};

#define CHUNKED(NAME, PARAMS)                                                                                \
    { &rota_kernel_##NAME, divisors_of_##PARAMS, ALONE(PARAMS, chunk) }
static const rota_kernel_divisors all[] = {
    CHUNKED(reduce, rota_reduce_params),
    CHUNKED(batch_norm_sums, rota_batch_norm_params),
    CHUNKED(batch_norm_moments, rota_batch_norm_params),
    CHUNKED(batch_norm_finish, rota_batch_norm_params),
    CHUNKED(layernorm_backward_weight, rota_norm_params),
    CHUNKED(rmsnorm_backward_weight, rota_norm_params),
    CHUNKED(layernorm_gradient, rota_norm_params),
    CHUNKED(rmsnorm_gradient, rota_norm_params),
    CHUNKED(conv2d_backward_weight, rota_conv_params),
    CHUNKED(conv2d_weight_gradient, rota_conv_params),
    CHUNKED(linear_gradient, rota_linear_params),
    CHUNKED(linear_gelu_gradient, rota_linear_params),
    {&rota_kernel_linear, divisors_of_rota_linear_params, NONE},
    {&rota_kernel_attention_backward, divisors_of_rota_attention_backward_params, NONE},
    {&rota_kernel_attention_dropout_backward, divisors_of_rota_attention_backward_params, NONE},
#define KERNEL(NAME, OPERANDS, PARAMS, ...) {&rota_kernel_##NAME, divisors_of_##PARAMS, NONE},
#include "ops/kernels.def"
};

const rota_kernel_divisors *rota_kernel_divisors_of(const rota_kernel *kernel) {
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].kernel == kernel) return &all[i];
    return NULL;
}

/* Multiplies *product by the parameter. */
static rota_status check_divisor(const divisor *checked, const rota_kernel *kernel, const void *params,
                                 double *product) {
    uint32_t value;
    memcpy(&value, (const uint8_t *)params + checked->offset_bytes, sizeof value);
    if (!value)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "parameter '%s' of built-in kernel '%s' is 0, expected 1 or more", checked->name,
                         kernel->name);
    if (checked->multiplies) *product *= value;
    return ROTA_OK;
}

rota_status rota_kernel_check_divisors(const rota_kernel_divisors *divisors, const rota_kernel *kernel,
                                       const void *params) {
    double product = 1;
    if (!divisors) return ROTA_OK;
    for (const divisor *e = divisors->list; e->name; e++)
        ROTA_TRY(check_divisor(e, kernel, params, &product));
    if (divisors->chunk.name) ROTA_TRY(check_divisor(&divisors->chunk, kernel, params, &product));
    if (product < 0x1p63) return ROTA_OK;
    return rota_fail(
        ROTA_INVALID_ARGUMENT,
        "parameters of built-in kernel '%s' that count something multiply to %g, expected less than 2^63",
        kernel->name, product);
}
