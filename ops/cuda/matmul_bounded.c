/* Which products of 16-bit matrices a Vulkan device takes by CUDA image, and in which tiles. */
#include "ops/cuda/matmul_bounded.h"

#include "cuda/matmul_bounded.h"
#include "ops/cuda/shapes.h"
#include "ops/tensor.h"
#include "ops/why.h"

/* From here on the images were the faster in all that was measured on an H200, 1.35 times at 1024^3; at 768^3
 * they and the shaders were even (docs/measurements.md). */
#define MULTIPLICATIONS_MIN (UINT64_C(1) << 30)
/* 16-byte copies and stores. */
#define ALIGNED_ELEMENTS 8u

static uint64_t tiles_of(const rota_matmul_params *p, uint32_t rows, uint32_t columns) {
    return (((uint64_t)p->m + rows - 1) / rows) * (((uint64_t)p->n + columns - 1) / columns);
}

static uint64_t blocks_at_once(const rota_cuda_target *target) {
    return target->multiprocessors ? target->multiprocessors : 1;
}

/* Blocks that stay: each works on one tile after another. A warpgroup multiplies 64 rows; beside them one
 * warp copies, or a warpgroup whose registers the others take. */
#define LAUNCH(name, rows, columns, copying)                                                                 \
    static void launch_##name(const void *params, const uint64_t *operand_bytes,                             \
                              const rota_cuda_target *target, rota_cuda_launch *out_launch) {                \
        (void)operand_bytes;                                                                                 \
        const uint64_t tiles = tiles_of(params, rows, columns), most = blocks_at_once(target);               \
        *out_launch = (rota_cuda_launch){.groups = {(uint32_t)(tiles < most ? tiles : most), 1, 1},          \
                                         .block = {(rows) / 64 * 128 + (copying), 1, 1},                     \
                                         .shared_bytes = ROTA_CUDA_MATMUL_BOUNDED_SHARED};                   \
    }
LAUNCH(128x256, 128, 256, 32)
LAUNCH(192x192, 192, 192, 32)
LAUNCH(128x192, 128, 192, 32)
LAUNCH(held_128x256, 128, 256, 128)
LAUNCH(held_192x192, 192, 192, 128)
LAUNCH(held_128x192, 128, 192, 128)

#define KERNEL(entry_name, launch_fn)                                                                        \
    {                                                                                                        \
        .name = #entry_name, .operand_count = 3, .param_bytes = sizeof(rota_matmul_params),                  \
        .flags = ROTA_KERNEL_PURE,                                                                           \
        .cuda = {ROTA_CUDA_IMAGE_matmul_bounded, .entry = ROTA_CUDA_ENTRY_matmul_bounded(entry_name),        \
                 .launch = (launch_fn)},                                                                     \
    }
#define TRANSPOSED (ROTA_MATMUL_TRANSPOSE_A | ROTA_MATMUL_TRANSPOSE_B)

/* A kernel of each type (f16, bf16) and what it works on. */
typedef struct way {
    uint32_t rows, columns; /* of a tile */
    uint32_t transposed;    /* of TRANSPOSED */
    uint32_t k_multiple;
    uint32_t cost; /* of a multiplication, to the others; of those alike the first is taken */
    rota_kernel kernels[2];
} way;
#define WAY(orientation, m, n, flags, multiple, price, launch_fn)                                            \
    {                                                                                                        \
        m, n, flags, multiple, price, {                                                                      \
            KERNEL(matmul_bounded_##orientation##_f16_##m##x##n, launch_fn),                                 \
                KERNEL(matmul_bounded_##orientation##_bf16_##m##x##n, launch_fn)                             \
        }                                                                                                    \
    }
static const way ways[] = {
    WAY(held, 128, 256, 0, 32, 100, launch_held_128x256),
    WAY(held, 192, 192, 0, 32, 100, launch_held_192x192),
    WAY(held, 128, 192, 0, 32, 100, launch_held_128x192),
    WAY(nn, 128, 256, 0, 1, 110, launch_128x256),
    WAY(nn, 192, 192, 0, 1, 110, launch_192x192),
    WAY(nn, 128, 192, 0, 1, 110, launch_128x192),
    WAY(nt, 128, 256, ROTA_MATMUL_TRANSPOSE_B, 1, 100, launch_128x256),
    WAY(nt, 128, 192, ROTA_MATMUL_TRANSPOSE_B, 1, 100, launch_128x192),
    WAY(tn, 128, 256, ROTA_MATMUL_TRANSPOSE_A, 1, 100, launch_128x256),
    WAY(tn, 128, 192, ROTA_MATMUL_TRANSPOSE_A, 1, 100, launch_128x192),
};

/* Why they don't take it, as the rest of a sentence; NULL: they do. */
static const char *refuses(const rota_matmul_params *p, rota_dtype dtype, uint32_t slot_mask,
                           const rota_cuda_target *target) {
    if (!ways[0].kernels[0].cuda.image) return "rota was built without them (ROTA_CUDA, architecture 90a)";
    if (target->compute_capability != 90) return "the device is not of compute capability 9.0";
    if (ROTA_CUDA_MATMUL_BOUNDED_SHARED > target->shared_bytes_max)
        return "a block of the device has too little shared memory";
    if (slot_mask) return "operands come from slots, and may lie uneven";
    if (!(p->flags & ROTA_MATMUL_ALIGNED_16)) return "operands are not at multiples of 16 bytes";
    if ((p->flags & ~TRANSPOSED) != ROTA_MATMUL_ALIGNED_16)
        return "something follows the product, or it is added";
    if (p->c_dtype != (uint32_t)dtype) return "results are not of the operands' type";
    if (p->batch[0] != 1 || p->batch[1] != 1 || p->batch[2] != 1) return "there are several batches";
    if (p->m > INT32_MAX || p->n > INT32_MAX || p->k > INT32_MAX) /* the copies' coordinates */
        return "an extent has more than 31 bits";
    if (p->lda % ALIGNED_ELEMENTS || p->ldb % ALIGNED_ELEMENTS || p->ldc % ALIGNED_ELEMENTS)
        return "a leading dimension is not a multiple of 8 elements";
    if (tiles_of(p, 128, 192) > INT32_MAX) return "there are 2^31 tiles or more"; /* the kernels count so */
    if (!p->n || !p->k) return "the product is empty";
    if ((uint64_t)p->m * p->n < (MULTIPLICATIONS_MIN + p->k - 1) / p->k)
        return "it has fewer than 2^30 multiplications, below which shaders are as fast";
    return NULL;
}

static bool takes(const rota_matmul_params *p, rota_dtype dtype, uint32_t slot_mask,
                  const rota_cuda_target *target) {
    return !refuses(p, dtype, slot_mask, target);
}

/* Multiplications in a step of the sum, counting the multiprocessors that idle in the last round. */
static uint64_t cost_of(const way *w, const rota_matmul_params *p, const rota_cuda_target *target) {
    const uint64_t most = blocks_at_once(target);
    return (tiles_of(p, w->rows, w->columns) + most - 1) / most * w->rows * w->columns * w->cost;
}

static const rota_kernel *choose(const rota_matmul_params *p, rota_dtype dtype, uint32_t slot_mask,
                                 const rota_cuda_target *target) {
    if (!takes(p, dtype, slot_mask, target)) return NULL;
    const way *best = NULL;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const way *w = &ways[i];
        if (w->transposed != (p->flags & TRANSPOSED) || p->k % w->k_multiple) continue;
        if (!best || cost_of(w, p, target) < cost_of(best, p, target)) best = w;
    }
    return best ? &best->kernels[dtype == ROTA_BF16] : NULL;
}

const rota_kernel *rota_cuda_select_image_matmul_f16(const void *params, const uint64_t *operand_bytes,
                                                     uint32_t slot_mask, const rota_cuda_target *target) {
    (void)operand_bytes;
    return choose(params, ROTA_F16, slot_mask, target);
}

const rota_kernel *rota_cuda_select_image_matmul_bf16(const void *params, const uint64_t *operand_bytes,
                                                      uint32_t slot_mask, const rota_cuda_target *target) {
    (void)operand_bytes;
    return choose(params, ROTA_BF16, slot_mask, target);
}

bool rota_cuda_why_bounded(rota_text_out *out, const rota_matmul_params *p, rota_dtype dtype,
                           uint32_t slot_mask, const rota_cuda_target *target) {
    const char *why_not = refuses(p, dtype, slot_mask, target);
    const rota_kernel *chosen = choose(p, dtype, slot_mask, target);
    if (!chosen) {
        rota_text_say(out, "left out: CUDA images: %s\n",
                      why_not ? why_not : "none has both operands transposed");
        return false;
    }
    rota_text_say(
        out,
        "runs: CUDA image '%s'\nwhy: by table, not measured: of those below it costs the least, with idle "
        "multiprocessors (of %u) counted\n",
        chosen->name, target->multiprocessors);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const way *w = &ways[i];
        if (w->transposed != (p->flags & TRANSPOSED)) continue;
        rota_text_say(out, "  cost %14llu  '%s'%s\n", (unsigned long long)cost_of(w, p, target),
                      w->kernels[dtype == ROTA_BF16].name,
                      p->k % w->k_multiple ? ": left out, k is not a multiple of 32" : "");
    }
    return true;
}
