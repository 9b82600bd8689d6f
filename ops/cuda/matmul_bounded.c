/* Which products of 16-bit matrices a Vulkan device takes by CUDA image, and in which tiles. */
#include "ops/cuda/matmul_bounded.h"

#include "cuda/matmul_bounded.h"
#include "ops/cuda/shapes.h"
#include "ops/tensor.h"

/* From here on the images were the faster in all that was measured on an H200, 1.35 times at 1024^3; at 768^3
 * they and the shaders were even (docs/measurements.md). Only products of operands as they lie were measured.
 */
#define MULTIPLICATIONS_MIN (UINT64_C(1) << 30)
/* 16-byte copies and stores. */
#define ALIGNED_ELEMENTS 8u

static uint64_t tiles_of(const rota_matmul_params *p, uint32_t rows, uint32_t columns) {
    return (((uint64_t)p->m + rows - 1) / rows) * (((uint64_t)p->n + columns - 1) / columns);
}

static uint64_t blocks_at_once(const rota_cuda_target *target) {
    return target->multiprocessors ? target->multiprocessors : 1;
}

/* Blocks that stay: each works on one tile after another. */
static void launch(const rota_matmul_params *p, const rota_cuda_target *target, uint32_t rows,
                   uint32_t columns, uint32_t threads, rota_cuda_launch *out_launch) {
    const uint64_t tiles = tiles_of(p, rows, columns), most = blocks_at_once(target);
    *out_launch = (rota_cuda_launch){.groups = {(uint32_t)(tiles < most ? tiles : most), 1, 1},
                                     .block = {threads, 1, 1},
                                     .shared_bytes = ROTA_CUDA_MATMUL_BOUNDED_SHARED};
}

static void launch_128x256(const void *params, const uint64_t *operand_bytes, const rota_cuda_target *target,
                           rota_cuda_launch *out_launch) {
    (void)operand_bytes;
    launch(params, target, 128, 256, 2 * 128 + 32, out_launch);
}

static void launch_192x192(const void *params, const uint64_t *operand_bytes, const rota_cuda_target *target,
                           rota_cuda_launch *out_launch) {
    (void)operand_bytes;
    launch(params, target, 192, 192, 3 * 128 + 32, out_launch);
}

#define KERNEL(type, tile)                                                                                   \
    static const rota_kernel matmul_bounded_##type##_##tile = {                                              \
        .name = "matmul_bounded_" #type "_" #tile,                                                           \
        .operand_count = 3,                                                                                  \
        .param_bytes = sizeof(rota_matmul_params),                                                           \
        .flags = ROTA_KERNEL_PURE,                                                                           \
        .cuda = {ROTA_CUDA_IMAGE_matmul_bounded,                                                             \
                 .entry = ROTA_CUDA_ENTRY_matmul_bounded(matmul_bounded_##type##_##tile),                    \
                 .launch = launch_##tile},                                                                   \
    };
KERNEL(f16, 128x256)
KERNEL(f16, 192x192)
KERNEL(bf16, 128x256)
KERNEL(bf16, 192x192)

static bool takes(const rota_matmul_params *p, rota_dtype dtype, uint32_t slot_mask,
                  const rota_cuda_target *target) {
    if (!matmul_bounded_f16_128x256.cuda.image || target->compute_capability != 90) return false;
    if (ROTA_CUDA_MATMUL_BOUNDED_SHARED > target->shared_bytes_max) return false;
    if (p->flags != ROTA_MATMUL_ALIGNED_16 || slot_mask != 0 || p->c_dtype != (uint32_t)dtype) return false;
    if (p->batch[0] != 1 || p->batch[1] != 1 || p->batch[2] != 1) return false;
    if (p->m > INT32_MAX || p->n > INT32_MAX || p->k > INT32_MAX) return false; /* the copies' coordinates */
    if (p->lda % ALIGNED_ELEMENTS || p->ldb % ALIGNED_ELEMENTS || p->ldc % ALIGNED_ELEMENTS) return false;
    if (tiles_of(p, 128, 192) > INT32_MAX) return false; /* the kernels count them in 32 bits */
    return p->n && p->k && (uint64_t)p->m * p->n >= (MULTIPLICATIONS_MIN + p->k - 1) / p->k;
}

/* Multiplications in a step of the sum, counting the multiprocessors that idle in the last round. */
static uint64_t cost(const rota_matmul_params *p, const rota_cuda_target *target, uint32_t rows,
                     uint32_t columns) {
    const uint64_t most = blocks_at_once(target);
    return (tiles_of(p, rows, columns) + most - 1) / most * rows * columns;
}

static bool is_square_cheaper(const rota_matmul_params *p, const rota_cuda_target *target) {
    return cost(p, target, 192, 192) < cost(p, target, 128, 256);
}

const rota_kernel *rota_cuda_select_image_matmul_f16(const void *params, const uint64_t *operand_bytes,
                                                     uint32_t slot_mask, const rota_cuda_target *target) {
    (void)operand_bytes;
    if (!takes(params, ROTA_F16, slot_mask, target)) return NULL;
    return is_square_cheaper(params, target) ? &matmul_bounded_f16_192x192 : &matmul_bounded_f16_128x256;
}

const rota_kernel *rota_cuda_select_image_matmul_bf16(const void *params, const uint64_t *operand_bytes,
                                                      uint32_t slot_mask, const rota_cuda_target *target) {
    (void)operand_bytes;
    if (!takes(params, ROTA_BF16, slot_mask, target)) return NULL;
    return is_square_cheaper(params, target) ? &matmul_bounded_bf16_192x192 : &matmul_bounded_bf16_128x256;
}
