/* The variants of shaders for 16-bit floats, which need 16-bit storage: one for f16 and bf16 each, by a
 * specialization constant. */
#include "ops/vk/dispatch.h"
#include "spv/adamw_half.h"
#include "spv/attention_backward_key_value_half.h"
#include "spv/attention_backward_prepare_half.h"
#include "spv/attention_backward_query_half.h"
#include "spv/attention_half.h"
#include "spv/batch_norm_backward_half.h"
#include "spv/batch_norm_half.h"
#include "spv/batch_norm_sums_half.h"
#include "spv/causal_mask_half.h"
#include "spv/cross_entropy_backward_half.h"
#include "spv/cross_entropy_half.h"
#include "spv/embedding_backward_half.h"
#include "spv/embedding_half.h"
#include "spv/layernorm_backward_half.h"
#include "spv/layernorm_backward_weight_half.h"
#include "spv/layernorm_half.h"
#include "spv/momentum_half.h"
#include "spv/residual_layernorm_half.h"
#include "spv/rmsnorm_backward_half.h"
#include "spv/rmsnorm_backward_weight_half.h"
#include "spv/rmsnorm_half.h"
#include "spv/rope_half.h"
#include "spv/softmax_backward_half.h"
#include "spv/softmax_half.h"

/* A variant that stands in where CONDITION holds of parameters `p`. */
#define VARIANT(NAME, OPERANDS, PARAMS, GRID, SPEC_COUNT, SPEC, CONDITION)                                   \
    const rota_kernel *rota_vk_select_##NAME(const void *params, const uint64_t *operand_bytes,              \
                                             uint32_t features) {                                            \
        (void)operand_bytes;                                                                                 \
        (void)features;                                                                                      \
        static const rota_kernel variant = {                                                                 \
            .name = #NAME,                                                                                   \
            .operand_count = (OPERANDS),                                                                     \
            .param_bytes = sizeof(PARAMS),                                                                   \
            .vk = {.words = rota_spv_##NAME##_half,                                                          \
                   .size_bytes = sizeof rota_spv_##NAME##_half,                                              \
                   .grid = rota_vk_grid_##GRID,                                                              \
                   .spec_count = (SPEC_COUNT),                                                               \
                   .spec = (SPEC),                                                                           \
                   .required_features = ROTA_FEATURE_F16_STORAGE},                                           \
        };                                                                                                   \
        const PARAMS *p = params;                                                                            \
        return (CONDITION) ? &variant : NULL;                                                                \
    }
#define BY_DTYPE(NAME, OPERANDS, PARAMS, GRID, SPEC_COUNT, SPEC)                                             \
    VARIANT(NAME, OPERANDS, PARAMS, GRID, SPEC_COUNT, SPEC, p->dtype != ROTA_F32)

BY_DTYPE(embedding, 3, rota_embedding_params, embedding, 1, rota_vk_spec_embedding)
BY_DTYPE(embedding_backward, 3, rota_embedding_params, embedding_backward, 1, rota_vk_spec_embedding)
BY_DTYPE(softmax, 2, rota_softmax_params, softmax, 2, rota_vk_spec_softmax)
BY_DTYPE(softmax_backward, 3, rota_softmax_params, softmax, 2, rota_vk_spec_softmax)
BY_DTYPE(causal_mask, 2, rota_causal_mask_params, causal_mask, 1, rota_vk_spec_causal_mask)
BY_DTYPE(layernorm, 5, rota_norm_params, norm, 2, rota_vk_spec_norm)
BY_DTYPE(layernorm_backward, 5, rota_norm_params, norm, 2, rota_vk_spec_norm)
BY_DTYPE(layernorm_backward_weight, 4, rota_norm_params, norm_backward_weight, 1,
         rota_vk_spec_norm_backward_weight)
BY_DTYPE(residual_layernorm, 7, rota_norm_params, norm, 2, rota_vk_spec_norm)
BY_DTYPE(rmsnorm, 4, rota_norm_params, norm, 2, rota_vk_spec_norm)
BY_DTYPE(rmsnorm_backward, 5, rota_norm_params, norm, 2, rota_vk_spec_norm)
BY_DTYPE(rmsnorm_backward_weight, 4, rota_norm_params, norm_backward_weight, 1,
         rota_vk_spec_norm_backward_weight)
BY_DTYPE(cross_entropy, 4, rota_cross_entropy_params, cross_entropy, 2, rota_vk_spec_cross_entropy)
BY_DTYPE(cross_entropy_backward, 6, rota_cross_entropy_params, cross_entropy_backward, 1,
         rota_vk_spec_cross_entropy_backward)
BY_DTYPE(batch_norm_sums, 5, rota_batch_norm_params, batch_norm_sums, 1, rota_vk_spec_batch_norm)
BY_DTYPE(batch_norm, 6, rota_batch_norm_params, batch_norm, 1, rota_vk_spec_batch_norm)
BY_DTYPE(batch_norm_backward, 7, rota_batch_norm_params, batch_norm, 1, rota_vk_spec_batch_norm)
BY_DTYPE(rope, 2, rota_rope_params, rope, 1, rota_vk_spec_rope)

static void attention_spec(const void *params, uint32_t *out_values) {
    out_values[0] = ((const rota_attention_params *)params)->flags >> ROTA_ATTENTION_DTYPE_SHIFT;
}
static void attention_backward_spec(const void *params, uint32_t *out_values) {
    out_values[0] = ((const rota_attention_backward_params *)params)->flags >> ROTA_ATTENTION_DTYPE_SHIFT;
}
#define ATTENTION(NAME, OPERANDS, PARAMS, SPEC)                                                              \
    VARIANT(NAME, OPERANDS, PARAMS, NAME, 1, SPEC, p->flags >> ROTA_ATTENTION_DTYPE_SHIFT != ROTA_F32)
ATTENTION(attention, 5, rota_attention_params, attention_spec)
ATTENTION(attention_backward_prepare, 4, rota_attention_backward_params, attention_backward_spec)
ATTENTION(attention_backward_query, 6, rota_attention_backward_params, attention_backward_spec)
ATTENTION(attention_backward_key_value, 7, rota_attention_backward_params, attention_backward_spec)

VARIANT(adamw, 6, rota_adamw_params, adamw, 0, NULL, p->g_dtype != ROTA_F32 || (p->flags & ROTA_UPDATE_HALF))
VARIANT(momentum, 5, rota_momentum_params, momentum, 0, NULL,
        p->g_dtype != ROTA_F32 || (p->flags & ROTA_UPDATE_HALF))
