/* The kernels cross_entropy_in_place and cross_entropy_piece: their launches, and what they take. */
#include "ops/cuda/loss_cuda.h"
#include "cuda/loss.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/shapes.h"
#include "ops/tensor.h"

#define VECTOR 8u
/* Of a multiprocessor: what its blocks have beside dynamic shared memory, 1 KiB each of it the system's. */
#define BLOCKS 2u
#define OWN_BYTES 1536u

static uint32_t row_bytes(const rota_cross_entropy_params *p) {
    return p->pitch * (uint32_t)sizeof(uint16_t);
}

bool rota_cuda_loss_takes(const rota_cross_entropy_params *p, const rota_access *logits,
                          const rota_cuda_target *target) {
    return target && rota_cuda_cross_entropy_in_place.cuda.image && target->compute_capability >= 80 &&
           p->dtype != ROTA_F32 && p->pitch % VECTOR == 0 && logits->offset_bytes % 16 == 0 && p->rows > 0 &&
           p->classes <= p->pitch &&
           BLOCKS * ((uint64_t)row_bytes(p) + OWN_BYTES) <= target->shared_bytes_max;
}

static rota_cuda_launch launch_of(const rota_cross_entropy_params *p, uint64_t rows,
                                  const rota_cuda_target *target) {
    const uint64_t most = (uint64_t)BLOCKS * (target ? target->multiprocessors : 1);
    rota_cuda_launch launch = rota_cuda_fold(rows < most ? rows : most, ROTA_CUDA_LOSS_THREADS);
    launch.shared_bytes = row_bytes(p);
    return launch;
}

static void launch_in_place(const void *params, const uint64_t *operand_bytes, const rota_cuda_target *target,
                            rota_cuda_launch *out_launch) {
    (void)operand_bytes;
    const rota_cross_entropy_params *p = params;
    *out_launch = launch_of(p, p->rows, target);
}

static void launch_piece(const void *params, const uint64_t *operand_bytes, const rota_cuda_target *target,
                         rota_cuda_launch *out_launch) {
    (void)operand_bytes;
    const rota_cuda_loss_piece_params *p = params;
    *out_launch = launch_of(&p->all, p->count, target);
}

const rota_kernel rota_cuda_cross_entropy_in_place = {
    .name = "cross_entropy_in_place",
    .operand_count = 4,
    .param_bytes = sizeof(rota_cross_entropy_params),
    .flags = ROTA_KERNEL_PURE,
    .cuda = {ROTA_CUDA_IMAGE_loss, .entry = ROTA_CUDA_ENTRY_loss(cross_entropy_in_place),
             .launch = launch_in_place},
};

const rota_kernel rota_cuda_cross_entropy_piece = {
    .name = "cross_entropy_piece",
    .operand_count = 4,
    .param_bytes = sizeof(rota_cuda_loss_piece_params),
    .flags = ROTA_KERNEL_PURE,
    .cuda = {ROTA_CUDA_IMAGE_loss, .entry = ROTA_CUDA_ENTRY_loss(cross_entropy_piece),
             .launch = launch_piece},
};
