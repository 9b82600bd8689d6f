/* The kernels layernorm_gradient and rmsnorm_gradient, and those that sum dx's columns too: one pass on CUDA
 * devices where a warp's registers hold a row, and elsewhere the kernels that together compute the same.
 * ---- layernorm_gradient_sums: the operands of layernorm_gradient, then sums:WRITE f32 [chunks, dim]: the sums of
 * dx's columns, as dx is rounded, over chunks of rows (fuse_norm.c). rmsnorm_gradient_sums likewise. ---- */
#include "graph/graph.h"
#include "ops/cuda/kernels_cuda.h"
#include "ops/cuda/shapes.h"
#include "ops/kernel_objects.h" /* IWYU pragma: keep */
#include "ops/kernel_parts.h"

enum { X, WEIGHT, STATS, DY, DX, PARTIAL, SUMS, SUMS_OPERANDS };
#define OPERANDS SUMS /* of a gradient without sums */

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

static void add_sums(const rota_norm_params *p, rota_kernel_part *part) {
    static const uint8_t operands[] = {DX, SUMS};
    const rota_reduce_params params = {.op = ROTA_REDUCE_SUM,
                                       .outer = 1,
                                       .n = p->rows,
                                       .inner = p->dim,
                                       .chunk = p->chunk,
                                       .scale = 1.0f,
                                       .from = p->dtype,
                                       .to = ROTA_F32};
    rota_kernel_part_fill(&rota_kernel_reduce, &params, operands, 1, part);
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

#define SUMS_KERNEL(NORM)                                                                                    \
    static uint32_t parts_##NORM##_sums(                                                                     \
        rota_exec_kind kind, const void *params, const uint64_t *operand_bytes, uint32_t slot_mask,          \
        const rota_cuda_target *target, rota_kernel_part out_parts[ROTA_KERNEL_PARTS_MAX]) {                 \
        const uint32_t count = parts_##NORM(kind, params, operand_bytes, slot_mask, target, out_parts);      \
        if (count == 0) return 0;                                                                            \
        add_sums(params, &out_parts[count]);                                                                 \
        return count + 1;                                                                                    \
    }                                                                                                        \
    const rota_kernel rota_kernel_##NORM##_gradient_sums = {                                                 \
        .name = #NORM "_gradient_sums",                                                                      \
        .operand_count = SUMS_OPERANDS,                                                                      \
        .param_bytes = sizeof(rota_norm_params),                                                             \
        .flags = ROTA_KERNEL_PURE,                                                                           \
        .inplace_outputs = 1u << DX,                                                                         \
        .inplace_inputs = 1u << DY,                                                                          \
        .parts = parts_##NORM##_sums,                                                                        \
        .cuda = {ROTA_CUDA_KERNEL(NORM##_gradient_sums, norm)},                                              \
    };
SUMS_KERNEL(layernorm)
SUMS_KERNEL(rmsnorm)
