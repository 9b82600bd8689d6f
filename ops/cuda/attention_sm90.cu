/* The kernels of attention_sm90.cuh, for f16 and bf16. */
#include "ops/kernel_params.h"
#include "ops/cuda/attention_sm90.cuh"

#define GRADIENT(TYPE, BF16)                                                                                         \
    ROTA_KERNEL(attention_sm90_prepare_##TYPE, 5, rota_attention_backward_params, ROTA_ATTENTION_SM90_ROW_THREADS) { \
        attention_sm90_prepare<BF16>(args);                                                                          \
    }                                                                                                                \
    ROTA_KERNEL_PREPARED(attention_sm90_##TYPE, 3, rota_attention_backward_params, attention_prepared,               \
                         ROTA_ATTENTION_SM90_THREADS) {                                                              \
        attention_sm90<BF16, false>(args, prepared);                                                                 \
    }                                                                                                                \
    ROTA_KERNEL_PREPARED(attention_sm90_dropout_##TYPE, 4, rota_attention_backward_params, attention_prepared,       \
                         ROTA_ATTENTION_SM90_THREADS) {                                                              \
        attention_sm90<BF16, true>(args, prepared);                                                                  \
    }
GRADIENT(f16, false)
GRADIENT(bf16, true)
