/* The kernels layernorm_gradient and rmsnorm_gradient: one pass on CUDA devices where a warp's registers hold
 * a row, and elsewhere the two kernels that together compute the same. */
#include <string.h>
#include "graph/graph.h"
#include "ops/cuda/kernels_cuda.h"
#include "ops/cuda/shapes.h"
#include "ops/kernel_objects.h"

enum { X, WEIGHT, STATS, DY, DX, PARTIAL, OPERANDS };

static void add(rota_kernel_part *part, const rota_kernel *kernel, const rota_norm_params *params,
                const uint8_t *operands, rota_access_mode last) {
    part->kernel = kernel;
    part->operand_count = kernel->operand_count;
    memcpy(part->params, params, sizeof *params);
    for (uint32_t i = 0; i < kernel->operand_count; i++) {
        part->operand[i] = operands[i];
        part->mode[i] = (uint8_t)(i + 1 < kernel->operand_count ? ROTA_READ : last);
    }
}

/* The weights' first: dx may be in the place of dy. */
static uint32_t parts_of(rota_exec_kind kind, const rota_norm_params *p, const rota_cuda_target *target,
                         const rota_kernel *weights, const rota_kernel *rows, rota_kernel_part *parts) {
    static const uint8_t of_weights[] = {X, STATS, DY, PARTIAL}, of_rows[] = {X, WEIGHT, STATS, DY, DX};
    if (kind == ROTA_EXEC_CUDA && target && rota_cuda_norm_by_vectors(p)) return 0;
    rota_norm_params params = *p;
    params.flags &= ~ROTA_NORM_ACCUMULATE;
    add(&parts[0], weights, &params, of_weights, ROTA_WRITE);
    add(&parts[1], rows, p, of_rows, p->flags & ROTA_NORM_ACCUMULATE ? ROTA_READWRITE : ROTA_WRITE);
    return 2;
}

static uint32_t parts_layernorm(rota_exec_kind kind, const void *params, const uint64_t *operand_bytes,
                                uint32_t slot_mask, const rota_cuda_target *target,
                                rota_kernel_part out_parts[ROTA_KERNEL_PARTS_MAX]) {
    (void)operand_bytes, (void)slot_mask;
    return parts_of(kind, params, target, &rota_kernel_layernorm_backward_weight,
                    &rota_kernel_layernorm_backward, out_parts);
}

static uint32_t parts_rmsnorm(rota_exec_kind kind, const void *params, const uint64_t *operand_bytes,
                              uint32_t slot_mask, const rota_cuda_target *target,
                              rota_kernel_part out_parts[ROTA_KERNEL_PARTS_MAX]) {
    (void)operand_bytes, (void)slot_mask;
    return parts_of(kind, params, target, &rota_kernel_rmsnorm_backward_weight, &rota_kernel_rmsnorm_backward,
                    out_parts);
}

#define GRADIENT_KERNEL(NAME, PARTS)                                                                         \
    const rota_kernel rota_kernel_##NAME = {                                                                 \
        .name = #NAME,                                                                                       \
        .operand_count = OPERANDS,                                                                           \
        .param_bytes = sizeof(rota_norm_params),                                                             \
        .flags = ROTA_KERNEL_PURE,                                                                           \
        .inplace_outputs = 1u << DX,                                                                         \
        .inplace_inputs = 1u << DY,                                                                          \
        .parts = (PARTS),                                                                                    \
        .cuda = {ROTA_CUDA_##NAME},                                                                          \
    };
GRADIENT_KERNEL(layernorm_gradient, parts_layernorm)
GRADIENT_KERNEL(rmsnorm_gradient, parts_rmsnorm)
