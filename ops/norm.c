/* The kernels layernorm_gradient and rmsnorm_gradient: one pass on CUDA devices where a warp's registers hold
 * a row, and elsewhere the two kernels that together compute the same. */
#include "graph/graph.h"
#include "ops/cuda/kernels_cuda.h"
#include "ops/cuda/shapes.h"
#include "ops/kernel_objects.h" /* IWYU pragma: keep */
#include "ops/kernel_parts.h"

enum { X, WEIGHT, STATS, DY, DX, PARTIAL, OPERANDS };

/* The weights' first: dx may be in the place of dy. */
static uint32_t parts_of(rota_exec_kind kind, const rota_norm_params *p, const rota_cuda_target *target,
                         const rota_kernel *weights, const rota_kernel *rows, rota_kernel_part *parts) {
    static const uint8_t of_weights[] = {X, STATS, DY, PARTIAL}, of_rows[] = {X, WEIGHT, STATS, DY, DX};
    if (kind == ROTA_EXEC_CUDA && target && rota_cuda_norm_by_vectors(p)) return 0;
    rota_norm_params params = *p;
    params.flags &= ~ROTA_NORM_ACCUMULATE;
    rota_kernel_part_fill(weights, &params, of_weights, 1, &parts[0]);
    rota_kernel_part_fill(rows, p, of_rows, 1, &parts[1]);
    if (p->flags & ROTA_NORM_ACCUMULATE) parts[1].mode[rows->operand_count - 1] = ROTA_READWRITE;
    return 2;
}

#define GRADIENT_KERNEL(NORM)                                                                                \
    static uint32_t parts_##NORM(rota_exec_kind kind, const void *params, const uint64_t *operand_bytes,     \
                                 uint32_t slot_mask, const rota_cuda_target *target,                         \
                                 rota_kernel_part out_parts[ROTA_KERNEL_PARTS_MAX]) {                        \
        (void)operand_bytes, (void)slot_mask;                                                                \
        return parts_of(kind, params, target, &rota_kernel_##NORM##_backward_weight,                         \
                        &rota_kernel_##NORM##_backward, out_parts);                                          \
    }                                                                                                        \
    const rota_kernel rota_kernel_##NORM##_gradient = {                                                      \
        .name = #NORM "_gradient",                                                                           \
        .operand_count = OPERANDS,                                                                           \
        .param_bytes = sizeof(rota_norm_params),                                                             \
        .flags = ROTA_KERNEL_PURE,                                                                           \
        .inplace_outputs = 1u << DX,                                                                         \
        .inplace_inputs = 1u << DY,                                                                          \
        .parts = parts_##NORM,                                                                               \
        .cuda = {ROTA_CUDA_KERNEL(NORM##_gradient, norm)},                                                   \
    };
GRADIENT_KERNEL(layernorm)
GRADIENT_KERNEL(rmsnorm)
