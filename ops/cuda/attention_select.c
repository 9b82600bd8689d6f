/* Attention on CUDA: how its kernels are launched, and which take 16-bit floats, for which cuDNN is asked
 * first, and results of more than 64 columns. */
#include "ops/cuda/attention_select.h"
#include "cuda/attention.h"
#include "cuda/attention_backward.h"
#include "cuda/attention_half.h"
#include "ops/cuda/attention_bounded.h"
#include "ops/cuda/attention_cudnn.h"
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
LAUNCH(attention_dropout, rota_attention_drop_params, blocks(p->queries, heads), ROTA_CUDA_ATTENTION_THREADS)
LAUNCH(attention_dropout_backward_query, rota_attention_drop_backward_params, blocks(p->queries, heads),
       ROTA_CUDA_ATTENTION_THREADS)
LAUNCH(attention_dropout_backward_key_value, rota_attention_drop_backward_params, blocks(p->keys, heads),
       ROTA_CUDA_ATTENTION_THREADS)
LAUNCH(attention_backward_prepare, rota_attention_backward_params, (heads * p->queries - 1) / 8 + 1,
       8 * 32) /* a warp per query */
LAUNCH(attention_backward_query, rota_attention_backward_params, blocks(p->queries, heads),
       ROTA_CUDA_ATTENTION_THREADS)
LAUNCH(attention_backward_key_value, rota_attention_backward_params, blocks(p->keys, heads),
       ROTA_CUDA_ATTENTION_THREADS)

void rota_cuda_launch_attention_draw(const void *params, const uint64_t *operand_bytes,
                                     const rota_cuda_target *target, rota_cuda_launch *out_launch) {
    (void)params, (void)operand_bytes, (void)target;
    *out_launch = rota_cuda_fold(1, 32);
}

#define WIDE(kernel, operands, type, image)                                                                  \
    static const rota_kernel kernel##_wide = {                                                               \
        .name = #kernel "_wide",                                                                             \
        .operand_count = (operands),                                                                         \
        .param_bytes = sizeof(type),                                                                         \
        .cuda = {ROTA_CUDA_IMAGE_##image, .entry = ROTA_CUDA_ENTRY_##image(kernel##_wide),                   \
                 .launch = rota_cuda_launch_##kernel},                                                       \
    };
WIDE(attention, 5, rota_attention_params, attention)
WIDE(attention_dropout, 6, rota_attention_drop_params, attention)
WIDE(attention_backward_query, 6, rota_attention_backward_params, attention_backward)
WIDE(attention_dropout_backward_query, 7, rota_attention_drop_backward_params, attention_backward)

/* ---- 16-bit floats, with matrix units ---- */

#define HALF_CAPABILITY 80u
#define HALF_DIM 128u

#define HALF_LAUNCH(name, type, block_count, shared)                                                         \
    static void launch_##name(const void *params, const uint64_t *operand_bytes,                             \
                              const rota_cuda_target *target, rota_cuda_launch *out_launch) {                \
        (void)operand_bytes;                                                                                 \
        (void)target;                                                                                        \
        const type *p = params;                                                                              \
        const uint64_t heads = (uint64_t)p->batch * p->heads;                                                \
        *out_launch = rota_cuda_fold((block_count), ROTA_CUDA_ATTENTION_THREADS);                            \
        out_launch->shared_bytes = (shared);                                                                 \
    }
static uint64_t parts(uint64_t rows, uint64_t of, uint64_t heads) {
    return heads * ((rows - 1) / of + 1);
}
HALF_LAUNCH(attention_64, rota_attention_params, parts(p->queries, ROTA_CUDA_ATTENTION_HALF_ROWS(64), heads),
            ROTA_CUDA_ATTENTION_HALF_SHARED(64))
HALF_LAUNCH(attention_128, rota_attention_params,
            parts(p->queries, ROTA_CUDA_ATTENTION_HALF_ROWS(128), heads),
            ROTA_CUDA_ATTENTION_HALF_SHARED(128))
HALF_LAUNCH(attention_backward_query_64, rota_attention_backward_params, blocks(p->queries, heads),
            ROTA_CUDA_ATTENTION_HALF_BACKWARD_SHARED(64))
HALF_LAUNCH(attention_backward_query_128, rota_attention_backward_params, blocks(p->queries, heads),
            ROTA_CUDA_ATTENTION_HALF_BACKWARD_SHARED(128))
HALF_LAUNCH(attention_backward_key_value_64, rota_attention_backward_params, blocks(p->keys, heads),
            ROTA_CUDA_ATTENTION_HALF_BACKWARD_SHARED(64))
HALF_LAUNCH(attention_backward_key_value_128, rota_attention_backward_params, blocks(p->keys, heads),
            ROTA_CUDA_ATTENTION_HALF_BACKWARD_SHARED(128))
HALF_LAUNCH(attention_dropout_64, rota_attention_drop_params,
            parts(p->queries, ROTA_CUDA_ATTENTION_HALF_ROWS(64), heads), ROTA_CUDA_ATTENTION_HALF_SHARED(64))
HALF_LAUNCH(attention_dropout_128, rota_attention_drop_params,
            parts(p->queries, ROTA_CUDA_ATTENTION_HALF_ROWS(128), heads),
            ROTA_CUDA_ATTENTION_HALF_SHARED(128))
HALF_LAUNCH(attention_dropout_backward_query_64, rota_attention_drop_backward_params,
            blocks(p->queries, heads), ROTA_CUDA_ATTENTION_HALF_BACKWARD_SHARED(64))
HALF_LAUNCH(attention_dropout_backward_query_128, rota_attention_drop_backward_params,
            blocks(p->queries, heads), ROTA_CUDA_ATTENTION_HALF_BACKWARD_SHARED(128))
HALF_LAUNCH(attention_dropout_backward_key_value_64, rota_attention_drop_backward_params,
            blocks(p->keys, heads), ROTA_CUDA_ATTENTION_HALF_BACKWARD_SHARED(64))
HALF_LAUNCH(attention_dropout_backward_key_value_128, rota_attention_drop_backward_params,
            blocks(p->keys, heads), ROTA_CUDA_ATTENTION_HALF_BACKWARD_SHARED(128))

#define BOUNDED_FORWARD_SHARED                                                                               \
    ROTA_CUDA_ATTENTION_FORWARD_SHARED(ROTA_CUDA_ATTENTION_BOUNDED_DIM, ROTA_CUDA_ATTENTION_BOUNDED_ROWS)
#define BOUNDED_BACKWARD_SHARED                                                                              \
    ROTA_CUDA_ATTENTION_BACKWARD_SHARED(ROTA_CUDA_ATTENTION_BOUNDED_DIM, ROTA_CUDA_ATTENTION_BOUNDED_LANES)
HALF_LAUNCH(attention_bounded, rota_attention_params,
            parts(p->queries, ROTA_CUDA_ATTENTION_BOUNDED_ROWS, heads), BOUNDED_FORWARD_SHARED)
HALF_LAUNCH(attention_backward_query_bounded, rota_attention_backward_params, blocks(p->queries, heads),
            BOUNDED_BACKWARD_SHARED)
HALF_LAUNCH(attention_backward_key_value_bounded, rota_attention_backward_params, blocks(p->keys, heads),
            BOUNDED_BACKWARD_SHARED)
HALF_LAUNCH(attention_dropout_bounded, rota_attention_drop_params,
            parts(p->queries, ROTA_CUDA_ATTENTION_BOUNDED_ROWS, heads), BOUNDED_FORWARD_SHARED)
HALF_LAUNCH(attention_dropout_backward_query_bounded, rota_attention_drop_backward_params,
            blocks(p->queries, heads), BOUNDED_BACKWARD_SHARED)
HALF_LAUNCH(attention_dropout_backward_key_value_bounded, rota_attention_drop_backward_params,
            blocks(p->keys, heads), BOUNDED_BACKWARD_SHARED)

#define HALF_KERNEL(entry_name, operands, type, launch_fn)                                                   \
    {                                                                                                        \
        .name = #entry_name, .operand_count = (operands), .param_bytes = sizeof(type),                       \
        .cuda = {ROTA_CUDA_IMAGE_attention_half, .entry = ROTA_CUDA_ENTRY_attention_half(entry_name),        \
                 .launch = (launch_fn)},                                                                     \
    }
/* By dtype (f16, bf16), then by dim. */
#define HALF_KERNELS(kernel, operands, type)                                                                 \
    static const rota_kernel kernel##_half[2][2] = {                                                         \
        {HALF_KERNEL(kernel##_f16_64, operands, type, launch_##kernel##_64),                                 \
         HALF_KERNEL(kernel##_f16_128, operands, type, launch_##kernel##_128)},                              \
        {HALF_KERNEL(kernel##_bf16_64, operands, type, launch_##kernel##_64),                                \
         HALF_KERNEL(kernel##_bf16_128, operands, type, launch_##kernel##_128)}};
HALF_KERNELS(attention, 5, rota_attention_params)
HALF_KERNELS(attention_backward_query, 6, rota_attention_backward_params)
HALF_KERNELS(attention_backward_key_value, 7, rota_attention_backward_params)
HALF_KERNELS(attention_dropout, 6, rota_attention_drop_params)
HALF_KERNELS(attention_dropout_backward_query, 7, rota_attention_drop_backward_params)
HALF_KERNELS(attention_dropout_backward_key_value, 8, rota_attention_drop_backward_params)
static const rota_kernel attention_backward_prepare_half[2] = {
    HALF_KERNEL(attention_backward_prepare_f16, 4, rota_attention_backward_params,
                rota_cuda_launch_attention_backward_prepare),
    HALF_KERNEL(attention_backward_prepare_bf16, 4, rota_attention_backward_params,
                rota_cuda_launch_attention_backward_prepare)};
/* Neither image nor call: what asks for it is refused, with this name. */
static const rota_kernel none = {
    .name = "attention of 16-bit floats (which needs compute capability 8.0 and at most 128 columns)"};

static rota_dtype dtype_of(uint32_t flags) {
    return (rota_dtype)(flags >> ROTA_ATTENTION_DTYPE_SHIFT);
}
static const rota_kernel *half_of(const rota_kernel kernels[2][2], uint32_t flags, uint32_t dim,
                                  const rota_cuda_target *target) {
    if (target->compute_capability < HALF_CAPABILITY || dim > HALF_DIM) return &none;
    return &kernels[dtype_of(flags) == ROTA_BF16][dim > NARROW_DIM];
}

const rota_kernel *rota_cuda_attention_by_rota(const rota_attention_params *p,
                                               const rota_cuda_target *target) {
    return half_of(attention_half, p->flags, p->dim, target);
}

/* ---- The choice ---- */

const rota_kernel *rota_cuda_select_attention(const void *params, const uint64_t *operand_bytes,
                                              uint32_t slot_mask, const rota_cuda_target *target) {
    (void)operand_bytes;
    const rota_attention_params *p = params;
    if (dtype_of(p->flags) != ROTA_F32) {
        const rota_kernel *library = rota_cuda_attention_by_cudnn(p, slot_mask, target);
        return library ? library : rota_cuda_attention_by_rota(p, target);
    }
    return p->dim > NARROW_DIM ? &attention_wide : NULL;
}

const rota_kernel *rota_cuda_select_attention_backward_prepare(const void *params,
                                                               const uint64_t *operand_bytes,
                                                               uint32_t slot_mask,
                                                               const rota_cuda_target *target) {
    (void)operand_bytes, (void)slot_mask;
    const rota_attention_backward_params *p = params;
    if (dtype_of(p->flags) == ROTA_F32) return NULL;
    if (target->compute_capability < HALF_CAPABILITY) return &none;
    return &attention_backward_prepare_half[dtype_of(p->flags) == ROTA_BF16];
}

const rota_kernel *rota_cuda_select_attention_backward_query(const void *params,
                                                             const uint64_t *operand_bytes,
                                                             uint32_t slot_mask,
                                                             const rota_cuda_target *target) {
    (void)operand_bytes, (void)slot_mask;
    const rota_attention_backward_params *p = params;
    if (dtype_of(p->flags) != ROTA_F32)
        return half_of(attention_backward_query_half, p->flags, p->dim, target);
    return p->dim > NARROW_DIM ? &attention_backward_query_wide : NULL;
}

const rota_kernel *rota_cuda_select_attention_backward_key_value(const void *params,
                                                                 const uint64_t *operand_bytes,
                                                                 uint32_t slot_mask,
                                                                 const rota_cuda_target *target) {
    (void)operand_bytes, (void)slot_mask;
    const rota_attention_backward_params *p = params;
    if (dtype_of(p->flags) == ROTA_F32) return NULL;
    return half_of(attention_backward_key_value_half, p->flags, p->dim, target);
}

#define SELECT_DROPOUT(kernel, type, wide)                                                                   \
    const rota_kernel *rota_cuda_select_##kernel(const void *params, const uint64_t *operand_bytes,          \
                                                 uint32_t slot_mask, const rota_cuda_target *target) {       \
        (void)operand_bytes, (void)slot_mask;                                                                \
        const type *p = params;                                                                              \
        if (dtype_of(p->flags) != ROTA_F32) return half_of(kernel##_half, p->flags, p->dim, target);         \
        return p->dim > NARROW_DIM ? (wide) : NULL;                                                          \
    }
SELECT_DROPOUT(attention_dropout, rota_attention_drop_params, &attention_dropout_wide)
SELECT_DROPOUT(attention_dropout_backward_query, rota_attention_drop_backward_params,
               &attention_dropout_backward_query_wide)
SELECT_DROPOUT(attention_dropout_backward_key_value, rota_attention_drop_backward_params, NULL)

/* ---- On Vulkan: what fits in its blocks ---- */

#define BOUNDED_KERNELS(kernel, operands, type)                                                              \
    static const rota_kernel kernel##_bounded[2] = {                                                         \
        HALF_KERNEL(kernel##_f16_bounded, operands, type, launch_##kernel##_bounded),                        \
        HALF_KERNEL(kernel##_bf16_bounded, operands, type, launch_##kernel##_bounded)};
BOUNDED_KERNELS(attention, 5, rota_attention_params)
BOUNDED_KERNELS(attention_backward_query, 6, rota_attention_backward_params)
BOUNDED_KERNELS(attention_backward_key_value, 7, rota_attention_backward_params)
BOUNDED_KERNELS(attention_dropout, 6, rota_attention_drop_params)
BOUNDED_KERNELS(attention_dropout_backward_query, 7, rota_attention_drop_backward_params)
BOUNDED_KERNELS(attention_dropout_backward_key_value, 8, rota_attention_drop_backward_params)

static const rota_kernel *bounded_of(const rota_kernel kernels[2], uint32_t flags, uint32_t dim,
                                     uint32_t slot_mask, uint32_t shared_bytes,
                                     const rota_cuda_target *target) {
    if (dtype_of(flags) == ROTA_F32 || dim > ROTA_CUDA_ATTENTION_BOUNDED_DIM || slot_mask) return NULL;
    if (!kernels[0].cuda.image || target->compute_capability < HALF_CAPABILITY ||
        shared_bytes > target->shared_bytes_max)
        return NULL;
    return &kernels[dtype_of(flags) == ROTA_BF16];
}

#define SELECT_IMAGE(kernel, type, shared)                                                                   \
    const rota_kernel *rota_cuda_select_image_##kernel(const void *params, const uint64_t *operand_bytes,    \
                                                       uint32_t slot_mask, const rota_cuda_target *target) { \
        (void)operand_bytes;                                                                                 \
        const type *p = params;                                                                              \
        return bounded_of(kernel##_bounded, p->flags, p->dim, slot_mask, (shared), target);                  \
    }
SELECT_IMAGE(attention, rota_attention_params, BOUNDED_FORWARD_SHARED)
SELECT_IMAGE(attention_backward_query, rota_attention_backward_params, BOUNDED_BACKWARD_SHARED)
SELECT_IMAGE(attention_backward_key_value, rota_attention_backward_params, BOUNDED_BACKWARD_SHARED)
SELECT_IMAGE(attention_dropout, rota_attention_drop_params, BOUNDED_FORWARD_SHARED)
SELECT_IMAGE(attention_dropout_backward_query, rota_attention_drop_backward_params, BOUNDED_BACKWARD_SHARED)
SELECT_IMAGE(attention_dropout_backward_key_value, rota_attention_drop_backward_params,
             BOUNDED_BACKWARD_SHARED)

const rota_kernel *rota_cuda_select_image_attention_backward_prepare(const void *params,
                                                                     const uint64_t *operand_bytes,
                                                                     uint32_t slot_mask,
                                                                     const rota_cuda_target *target) {
    (void)operand_bytes;
    const rota_attention_backward_params *p = params;
    return bounded_of(attention_backward_prepare_half, p->flags, 1, slot_mask, 0, target);
}
