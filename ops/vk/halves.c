/* The shaders of kernels of any real dtype that stand in where it is f16 or bf16, which needs 16-bit storage.
 */
#include "ops/vk/dispatch.h"

#include "spv/binary_backward_half.h"
#include "spv/binary_half.h"
#include "spv/copy_strided_half.h"
#include "spv/dropout_half.h"
#include "spv/max_backward_half.h"
#include "spv/reduce_half.h"
#include "spv/unary_backward_half.h"
#include "spv/unary_half.h"
#include "spv/where_half.h"
#include "spv/gather_half.h"
#include "spv/scatter_add_half.h"
#include "spv/one_hot_half.h"
#include "spv/top_k_half.h"
#include "spv/cumulative_sum_half.h"
#include "spv/variance_half.h"
#include "spv/variance_backward_half.h"

/* The stand-in of a kernel, and its choice where `condition` on the parameters p holds. */
#define HALF(NAME, OPERANDS, PARAMS, GRID, SPEC, SPEC_COUNT, CONDITION)                                      \
    static const rota_kernel NAME##_half = {                                                                 \
        .name = #NAME,                                                                                       \
        .operand_count = (OPERANDS),                                                                         \
        .param_bytes = sizeof(PARAMS),                                                                       \
        .vk = {.words = rota_spv_##NAME##_half,                                                              \
               .size_bytes = sizeof rota_spv_##NAME##_half,                                                  \
               .grid = rota_vk_grid_##GRID,                                                                  \
               .spec_count = (SPEC_COUNT),                                                                   \
               .spec = rota_vk_spec_##SPEC,                                                                  \
               .required_features = ROTA_FEATURE_F16_STORAGE},                                               \
    };                                                                                                       \
    const rota_kernel *rota_vk_select_##NAME(const void *params, const uint64_t *operand_bytes,              \
                                             uint32_t features) {                                            \
        (void)operand_bytes;                                                                                 \
        (void)features;                                                                                      \
        const PARAMS *p = params;                                                                            \
        return (CONDITION) ? &NAME##_half : NULL;                                                            \
    }

static bool is_half(uint32_t dtype) {
    return dtype == ROTA_F16 || dtype == ROTA_BF16;
}

HALF(unary, 2, rota_unary_params, unary, unary, 2, is_half(p->dtype))
HALF(unary_backward, 3, rota_unary_params, unary, unary, 2, is_half(p->dtype))
HALF(binary, 3, rota_binary_params, binary, binary, 3, is_half(p->dtype))
HALF(binary_backward, 5, rota_binary_backward_params, binary_backward, binary_backward, 3, is_half(p->dtype))
HALF(where, 4, rota_where_params, where, where, 3, is_half(p->dtype))
HALF(copy_strided, 2, rota_copy_strided_params, copy_strided, copy_strided, 3, is_half(p->dtype))
HALF(reduce, 2, rota_reduce_params, reduce, reduce, 5, is_half(p->from) || is_half(p->to))
HALF(max_backward, 4, rota_max_backward_params, max_backward, max_backward, 1, is_half(p->dtype))
HALF(dropout, 3, rota_dropout_params, dropout, dropout, 1, is_half(p->dtype))
HALF(gather, 3, rota_gather_params, gather, gather, 1, is_half(p->dtype))
HALF(scatter_add, 3, rota_gather_params, scatter_add, scatter_add, 2, is_half(p->dtype))
HALF(one_hot, 2, rota_one_hot_params, one_hot, one_hot, 1, is_half(p->dtype))
HALF(top_k, 3, rota_top_k_params, top_k, top_k, 1, is_half(p->dtype))
HALF(cumulative_sum, 2, rota_cumulative_sum_params, cumulative_sum, cumulative_sum, 2, is_half(p->dtype))
HALF(variance, 3, rota_variance_params, variance, variance, 3, is_half(p->dtype))
HALF(variance_backward, 4, rota_variance_params, variance_backward, variance_backward, 1, is_half(p->dtype))
