/* The kernels many_adamw and many_cast, and their launches. */
#include "ops/cuda/many_cuda.h"

#include "base/divide.h"
#include "cuda/many.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/shapes.h"

bool rota_cuda_many_takes(const rota_cuda_target *target) {
    return target && rota_cuda_many_cast.cuda.image;
}

static rota_cuda_launch launch_of(const uint32_t *count, uint32_t tensors) {
    uint64_t blocks = 0;
    for (uint32_t t = 0; t < tensors; t++) blocks += rota_divide_up(count[t], ROTA_CUDA_ELEMENTS);
    return rota_cuda_fold(blocks, ROTA_CUDA_THREADS);
}

static void launch_adamw(const void *params, const uint64_t *operand_bytes, const rota_cuda_target *target,
                         rota_cuda_launch *out_launch) {
    (void)operand_bytes, (void)target;
    const rota_cuda_many_adamw_params *p = params;
    *out_launch = launch_of(p->count, p->tensors);
}

static void launch_cast(const void *params, const uint64_t *operand_bytes, const rota_cuda_target *target,
                        rota_cuda_launch *out_launch) {
    (void)operand_bytes, (void)target;
    const rota_cuda_many_cast_params *p = params;
    *out_launch = launch_of(p->count, p->tensors);
}

const rota_kernel rota_cuda_many_adamw = {
    .name = "many_adamw",
    .operand_count = ROTA_MANY_ADAMW * ROTA_MANY_ADAMW_EACH,
    .param_bytes = sizeof(rota_cuda_many_adamw_params),
    .flags = ROTA_KERNEL_PURE,
    .cuda = {ROTA_CUDA_IMAGE_many, .entry = ROTA_CUDA_ENTRY_many(many_adamw), .launch = launch_adamw},
};

const rota_kernel rota_cuda_many_cast = {
    .name = "many_cast",
    .operand_count = ROTA_MANY_CAST * ROTA_MANY_CAST_EACH,
    .param_bytes = sizeof(rota_cuda_many_cast_params),
    .flags = ROTA_KERNEL_PURE,
    .cuda = {ROTA_CUDA_IMAGE_many, .entry = ROTA_CUDA_ENTRY_many(many_cast), .launch = launch_cast},
};
