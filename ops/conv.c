/* The kernel conv2d_weight_gradient: one call of a library on CUDA devices that have one for it, and elsewhere
 * the sums of chunks of positions, and their sum. */
#include "ops/conv.h"

#include "ops/cuda/conv_cudnn.h"
#include "ops/kernel_objects.h"
#include "ops/kernel_parts.h"

uint64_t rota_conv_chunks(const rota_conv_params *p) {
    return ((uint64_t)p->batch * p->out[0] * p->out[1] - 1) / p->chunk + 1;
}

uint32_t rota_conv_weight_parts(const rota_conv_params *p, rota_kernel_part *parts) {
    static const uint8_t chunks[] = {ROTA_CONV_WEIGHT_X, ROTA_CONV_WEIGHT_DY, ROTA_CONV_WEIGHT_PARTIAL};
    static const uint8_t sum[] = {ROTA_CONV_WEIGHT_PARTIAL, ROTA_CONV_WEIGHT_DW};
    const rota_reduce_params reduce = {.op = ROTA_REDUCE_SUM,
                                       .outer = 1,
                                       .n = (uint32_t)rota_conv_chunks(p),
                                       .inner = p->groups * p->out_channels * p->in_channels * p->window[0] *
                                                p->window[1],
                                       .chunk = (uint32_t)rota_conv_chunks(p),
                                       .scale = 1.0f,
                                       .from = ROTA_F32,
                                       .to = p->dtype};
    rota_kernel_part_fill(&rota_kernel_conv2d_backward_weight, p, chunks, 1, &parts[0]);
    rota_kernel_part_fill(&rota_kernel_reduce, &reduce, sum, 1, &parts[1]);
    return 2;
}

static uint32_t parts_of(rota_exec_kind kind, const void *params, const uint64_t *operand_bytes,
                         uint32_t slot_mask, const rota_cuda_target *target,
                         rota_kernel_part out_parts[ROTA_KERNEL_PARTS_MAX]) {
    (void)operand_bytes, (void)slot_mask;
    if (kind == ROTA_EXEC_CUDA && target && rota_cuda_conv_weight_by_cudnn(params, target)) return 0;
    return rota_conv_weight_parts(params, out_parts);
}

static double work(const void *params, const uint64_t *operand_bytes) {
    return rota_kernel_conv2d.work(params, operand_bytes);
}

const rota_kernel rota_kernel_conv2d_weight_gradient = {
    .name = "conv2d_weight_gradient",
    .operand_count = ROTA_CONV_WEIGHT_OPERANDS,
    .param_bytes = sizeof(rota_conv_params),
    .flags = ROTA_KERNEL_PURE,
    .work = work,
    .parts = parts_of,
    .cuda = ROTA_CUDA_CONV2D_WEIGHT_GRADIENT,
};
