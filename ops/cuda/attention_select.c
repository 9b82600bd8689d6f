/* Attention on CUDA: how its kernels are launched, and which take results of more than 64 columns. */
#include "cuda/attention.h"
#include "cuda/attention_backward.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/shapes.h"

/* Columns of results that the kernels without `_wide` keep at a time; for more they would walk twice. */
#define NARROW_DIM 64u

static uint64_t blocks(uint64_t rows, uint64_t heads) {
    return heads * ((rows - 1) / ROTA_CUDA_ATTENTION_ROWS + 1);
}

#define LAUNCH(name, type, block_count, threads)                                                             \
    void rota_cuda_launch_##name(const void *params, const uint64_t *operand_bytes,                          \
                                 const rota_cuda_target *target, rota_cuda_launch *out_launch) {             \
        (void)operand_bytes;                                                                                 \
        (void)target;                                                                                        \
        const type *p = params;                                                                              \
        const uint64_t heads = (uint64_t)p->batch * p->heads;                                                \
        *out_launch = rota_cuda_fold((block_count), (threads));                                              \
    }
LAUNCH(attention, rota_attention_params, blocks(p->queries, heads), ROTA_CUDA_ATTENTION_THREADS)
LAUNCH(attention_backward_prepare, rota_attention_backward_params, (heads * p->queries - 1) / 8 + 1,
       8 * 32) /* a warp per query */
LAUNCH(attention_backward_query, rota_attention_backward_params, blocks(p->queries, heads),
       ROTA_CUDA_ATTENTION_THREADS)
LAUNCH(attention_backward_key_value, rota_attention_backward_params, blocks(p->keys, heads),
       ROTA_CUDA_ATTENTION_THREADS)

static const rota_kernel attention_wide = {
    .name = "attention_wide",
    .operand_count = 5,
    .param_bytes = sizeof(rota_attention_params),
    .cuda = {ROTA_CUDA_IMAGE_attention, .entry = ROTA_CUDA_ENTRY_attention(attention_wide),
             .launch = rota_cuda_launch_attention},
};
static const rota_kernel attention_backward_query_wide = {
    .name = "attention_backward_query_wide",
    .operand_count = 6,
    .param_bytes = sizeof(rota_attention_backward_params),
    .cuda = {ROTA_CUDA_IMAGE_attention_backward,
             .entry = ROTA_CUDA_ENTRY_attention_backward(attention_backward_query_wide),
             .launch = rota_cuda_launch_attention_backward_query},
};

const rota_kernel *rota_cuda_select_attention(const void *params, const uint64_t *operand_bytes,
                                              uint32_t slot_mask, const rota_cuda_target *target) {
    (void)operand_bytes, (void)slot_mask, (void)target;
    return ((const rota_attention_params *)params)->dim > NARROW_DIM ? &attention_wide : NULL;
}

const rota_kernel *rota_cuda_select_attention_backward_query(const void *params,
                                                             const uint64_t *operand_bytes,
                                                             uint32_t slot_mask,
                                                             const rota_cuda_target *target) {
    (void)operand_bytes, (void)slot_mask, (void)target;
    const rota_attention_backward_params *p = params;
    return p->dim > NARROW_DIM ? &attention_backward_query_wide : NULL;
}
