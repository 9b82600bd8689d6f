/* The general matrix products on CUDA: how each tile is launched, and which one a product of a given shape
 * takes. */
#include "ops/cuda/matmul_tiles.h"
#include "cuda/matmul.h"
#include "cuda/matmul_half.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/shapes.h"

#define LARGE_TILE 128u
#define SMALL_TILE 64u
#define FINE_TILE 32u
/* Sums at least so long before the finest tiles, which read the most for their arithmetic, pay. */
#define FINE_K_MIN 256u

static uint64_t tiles(const rota_matmul_params *p, uint32_t side) {
    return (uint64_t)((p->m - 1) / side + 1) * ((p->n - 1) / side + 1) * p->batch[0] * p->batch[1] *
           p->batch[2];
}

#define LAUNCH(name, side, threads, shared)                                                                  \
    void rota_cuda_launch_##name(const void *params, const uint64_t *operand_bytes,                          \
                                 const rota_cuda_target *target, rota_cuda_launch *out_launch) {             \
        (void)operand_bytes;                                                                                 \
        (void)target;                                                                                        \
        *out_launch = rota_cuda_fold(tiles(params, (side)), (threads));                                      \
        out_launch->shared_bytes = (shared);                                                                 \
    }
/* Of 16-bit floats: the code for devices without the matrix units has more threads. */
#define LAUNCH_HALF(name, side, shared)                                                                      \
    LAUNCH(name, side, target->compute_capability < 80 ? ROTA_CUDA_THREADS : ROTA_CUDA_MATMUL_HALF_THREADS,  \
           shared)

LAUNCH(matmul, SMALL_TILE, ROTA_CUDA_THREADS, ROTA_CUDA_MATMUL_SMALL_SHARED)
LAUNCH_HALF(matmul_f16, SMALL_TILE, ROTA_CUDA_MATMUL_HALF_SMALL_SHARED)
LAUNCH_HALF(matmul_bf16, SMALL_TILE, ROTA_CUDA_MATMUL_HALF_SMALL_SHARED)
/* clang-format takes what comes one after the other without a semicolon for one. */
// clang-format off
static LAUNCH(matmul_large, LARGE_TILE, ROTA_CUDA_THREADS, ROTA_CUDA_MATMUL_LARGE_SHARED)
static LAUNCH(matmul_fine, FINE_TILE, ROTA_CUDA_THREADS, ROTA_CUDA_MATMUL_FINE_SHARED)
static LAUNCH_HALF(matmul_f16_large, LARGE_TILE, ROTA_CUDA_MATMUL_HALF_LARGE_SHARED)
static LAUNCH_HALF(matmul_bf16_large, LARGE_TILE, ROTA_CUDA_MATMUL_HALF_LARGE_SHARED)
// clang-format on

#define KERNEL(kernel, image_name)                                                                           \
    static const rota_kernel kernel = {                                                                      \
        .name = #kernel,                                                                                     \
        .operand_count = 3,                                                                                  \
        .param_bytes = sizeof(rota_matmul_params),                                                           \
        .cuda = {ROTA_CUDA_IMAGE_##image_name, .entry = ROTA_CUDA_ENTRY_##image_name(kernel),                \
                 .launch = rota_cuda_launch_##kernel},                                                       \
    }
    KERNEL(matmul_large, matmul);
KERNEL(matmul_fine, matmul);
KERNEL(matmul_f16_large, matmul_half);
KERNEL(matmul_bf16_large, matmul_half);

/* Whether large tiles leave few multiprocessors without one. */
static bool is_large(const rota_matmul_params *p, const rota_cuda_target *target) {
    return p->m > SMALL_TILE && p->n > SMALL_TILE &&
           tiles(p, LARGE_TILE) * 4 >= target->multiprocessors * UINT64_C(3);
}

const rota_kernel *rota_cuda_tile_matmul(const rota_matmul_params *p, const rota_cuda_target *target) {
    if (is_large(p, target)) return &matmul_large;
    return p->k >= FINE_K_MIN && tiles(p, SMALL_TILE) * 2 < target->multiprocessors ? &matmul_fine : NULL;
}

const rota_kernel *rota_cuda_tile_matmul_f16(const rota_matmul_params *p, const rota_cuda_target *target) {
    return is_large(p, target) ? &matmul_f16_large : NULL;
}

const rota_kernel *rota_cuda_tile_matmul_bf16(const rota_matmul_params *p, const rota_cuda_target *target) {
    return is_large(p, target) ? &matmul_bf16_large : NULL;
}
