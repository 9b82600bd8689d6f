/* The kernels attention_backward and attention_dropout_backward: one call of a library on CUDA devices that have one
 * for it, and elsewhere the three kernels that together compute the same. */
#include "ops/attention.h"

#include <string.h>

#include "graph/graph.h"
#include "ops/cuda/attention_cudnn_backward.h"
#include "ops/cuda/attention_dropout_cuda.h"
#include "ops/kernel_objects.h"
#include "ops/kernel_parts.h"

uint32_t rota_attention_backward_parts(const rota_attention_backward_params *p, rota_kernel_part *parts) {
    static const uint8_t prepare[] = {ROTA_ATTENTION_BACKWARD_OUT, ROTA_ATTENTION_BACKWARD_DOUT,
                                      ROTA_ATTENTION_BACKWARD_LSE, ROTA_ATTENTION_BACKWARD_STATS};
    static const uint8_t query[] = {ROTA_ATTENTION_BACKWARD_Q,     ROTA_ATTENTION_BACKWARD_K,
                                    ROTA_ATTENTION_BACKWARD_V,     ROTA_ATTENTION_BACKWARD_DOUT,
                                    ROTA_ATTENTION_BACKWARD_STATS, ROTA_ATTENTION_BACKWARD_DQ};
    static const uint8_t key_value[] = {ROTA_ATTENTION_BACKWARD_Q,     ROTA_ATTENTION_BACKWARD_K,
                                        ROTA_ATTENTION_BACKWARD_V,     ROTA_ATTENTION_BACKWARD_DOUT,
                                        ROTA_ATTENTION_BACKWARD_STATS, ROTA_ATTENTION_BACKWARD_DK,
                                        ROTA_ATTENTION_BACKWARD_DV};
    rota_attention_backward_params own = *p;
    own.flags &= ~ROTA_ATTENTION_NODE_FLAGS;
    rota_kernel_part_fill(&rota_kernel_attention_backward_prepare, &own, prepare, 1, &parts[0]);
    rota_kernel_part_fill(&rota_kernel_attention_backward_query, &own, query, 1, &parts[1]);
    rota_kernel_part_fill(&rota_kernel_attention_backward_key_value, &own, key_value, 2, &parts[2]);
    if (p->flags & ROTA_ATTENTION_DQ_GAPS) parts[1].mode[5] = ROTA_READWRITE;
    if (p->flags & ROTA_ATTENTION_DK_GAPS) parts[2].mode[5] = ROTA_READWRITE;
    if (p->flags & ROTA_ATTENTION_DV_GAPS) parts[2].mode[6] = ROTA_READWRITE;
    return 3;
}

void rota_attention_drop_backward_params_of(const rota_attention_backward_params *p,
                                            rota_attention_drop_backward_params *out) {
    *out = (rota_attention_drop_backward_params){.batch = p->batch,
                                                 .heads = p->heads,
                                                 .queries = p->queries,
                                                 .keys = p->keys,
                                                 .dim = (uint16_t)p->dim,
                                                 .flags = (uint16_t)(p->flags & ~ROTA_ATTENTION_NODE_FLAGS)};
    memcpy(out->q_stride, p->q_stride, sizeof out->q_stride);
    memcpy(out->kv_stride, p->kv_stride, sizeof out->kv_stride);
    memcpy(out->out_stride, p->out_stride, sizeof out->out_stride);
}

/* The part takes what is drawn from as well, after what it has without dropout. */
static void part_drops(const rota_kernel *kernel, const rota_attention_drop_backward_params *params,
                       rota_kernel_part *part) {
    const uint32_t last = part->operand_count++;
    part->kernel = kernel;
    part->operand[last] = ROTA_ATTENTION_BACKWARD_DRAW;
    part->mode[last] = ROTA_READ;
    memset(part->params, 0, sizeof part->params);
    memcpy(part->params, params, sizeof *params);
}

uint32_t rota_attention_dropout_backward_parts(const rota_attention_backward_params *p,
                                               rota_kernel_part *parts) {
    rota_attention_drop_backward_params own;
    rota_attention_drop_backward_params_of(p, &own);
    const uint32_t count = rota_attention_backward_parts(p, parts);
    part_drops(&rota_kernel_attention_dropout_backward_query, &own, &parts[1]);
    part_drops(&rota_kernel_attention_dropout_backward_key_value, &own, &parts[2]);
    return count;
}

static uint32_t parts_backward(rota_exec_kind kind, const void *params, const uint64_t *operand_bytes,
                               uint32_t slot_mask, const rota_cuda_target *target,
                               rota_kernel_part out_parts[ROTA_KERNEL_PARTS_MAX]) {
    (void)operand_bytes;
    if (kind == ROTA_EXEC_CUDA && target && rota_cuda_attention_backward_as_one(params, slot_mask, target))
        return 0;
    return rota_attention_backward_parts(params, out_parts);
}

static uint32_t parts_dropout_backward(rota_exec_kind kind, const void *params, const uint64_t *operand_bytes,
                                       uint32_t slot_mask, const rota_cuda_target *target,
                                       rota_kernel_part out_parts[ROTA_KERNEL_PARTS_MAX]) {
    (void)operand_bytes;
    if (kind == ROTA_EXEC_CUDA && target &&
        rota_cuda_attention_dropout_backward_as_one(params, slot_mask, target))
        return 0;
    return rota_attention_dropout_backward_parts(params, out_parts);
}

/* The scores and their gradient, for queries and for keys and values, and three products more. */
static double work(const void *params, const uint64_t *operand_bytes) {
    const rota_attention_backward_params *p = params;
    (void)operand_bytes;
    return (p->flags & ROTA_ATTENTION_CAUSAL ? 7.0 : 14.0) * p->batch * p->heads * p->queries * p->keys *
           p->dim;
}

const rota_kernel rota_kernel_attention_backward = {
    .name = "attention_backward",
    .operand_count = ROTA_ATTENTION_BACKWARD_OPERANDS,
    .param_bytes = sizeof(rota_attention_backward_params),
    .flags = ROTA_KERNEL_PURE | ROTA_KERNEL_INTERLEAVED,
    .work = work,
    .parts = parts_backward,
    .cuda = ROTA_CUDA_ATTENTION_BACKWARD,
};

const rota_kernel rota_kernel_attention_dropout_backward = {
    .name = "attention_dropout_backward",
    .operand_count = ROTA_ATTENTION_BACKWARD_DRAW + 1,
    .param_bytes = sizeof(rota_attention_backward_params),
    .flags = ROTA_KERNEL_PURE | ROTA_KERNEL_INTERLEAVED,
    .work = work,
    .parts = parts_dropout_backward,
    .cuda = ROTA_CUDA_ATTENTION_DROPOUT_BACKWARD,
};
