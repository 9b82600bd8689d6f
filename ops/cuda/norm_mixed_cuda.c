/* The kernels layernorm_mixed and layernorm_mixed_gradient: their launches, and what they take. */
#include "ops/cuda/norm_mixed_cuda.h"

#include "base/divide.h"
#include "cuda/norm_mixed.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/norm_groups.h"

bool rota_cuda_norm_mixed_takes(const rota_norm_params *p, const rota_access *accesses, uint32_t count,
                                const rota_cuda_target *target) {
    if (!target || !rota_cuda_layernorm_mixed.cuda.image || target->compute_capability < 80 || p->rows == 0 ||
        p->dim % 8 != 0 || p->dim > ROTA_CUDA_WARP_ROW)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (accesses[i].offset_bytes % 16 != 0) return false;
    return true;
}

/* Rows go to groups of warps in turns, of as many blocks as the device has room for. */
static void launch_rows(const void *params, const uint64_t *operand_bytes, const rota_cuda_target *target,
                        rota_cuda_launch *out_launch) {
    (void)operand_bytes;
    const rota_norm_params *p = &((const rota_cuda_mixed_norm_params *)params)->norm;
    const uint64_t groups = ROTA_CUDA_NORM_THREADS / 32 / rota_cuda_norm_warps(p->dim);
    const uint64_t blocks = rota_divide_up(p->rows, groups);
    const uint64_t most = (uint64_t)ROTA_CUDA_NORM_MIXED_BLOCKS * (target ? target->multiprocessors : 0);
    *out_launch = rota_cuda_fold(most && most < blocks ? most : blocks, ROTA_CUDA_NORM_THREADS);
}

static void launch_chunks(const void *params, const uint64_t *operand_bytes, const rota_cuda_target *target,
                          rota_cuda_launch *out_launch) {
    (void)operand_bytes, (void)target;
    const rota_norm_params *p = &((const rota_cuda_mixed_norm_params *)params)->norm;
    *out_launch = rota_cuda_fold(rota_divide_up(p->rows, p->chunk), ROTA_CUDA_NORM_THREADS);
}

const rota_kernel rota_cuda_layernorm_mixed = {
    .name = "layernorm_mixed",
    .operand_count = ROTA_MIXED_OPERANDS,
    .param_bytes = sizeof(rota_cuda_mixed_norm_params),
    .flags = ROTA_KERNEL_PURE,
    .cuda = {ROTA_CUDA_IMAGE_norm_mixed, .entry = ROTA_CUDA_ENTRY_norm_mixed(layernorm_mixed),
             .launch = launch_rows},
};

const rota_kernel rota_cuda_layernorm_mixed_gradient = {
    .name = "layernorm_mixed_gradient",
    .operand_count = ROTA_MIXED_GRADIENT_OPERANDS,
    .param_bytes = sizeof(rota_cuda_mixed_norm_params),
    .flags = ROTA_KERNEL_PURE,
    .cuda = {ROTA_CUDA_IMAGE_norm_mixed, .entry = ROTA_CUDA_ENTRY_norm_mixed(layernorm_mixed_gradient),
             .launch = launch_chunks},
};
