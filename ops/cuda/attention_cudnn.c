/* Attention by cuDNN as library nodes: parameters of the kernels as cuDNN wants them, pieces of what would
 * want too large a workspace, and what is left to rota's own kernels. */
#include "ops/cuda/attention_cudnn.h"

#include <string.h>
#include "ops/attention.h"
#include "ops/cuda/cudnn_attention.h"

/* Multiplications of a product of attention that are worth a plan, which takes up to half a second to make,
 * and cuDNN's launches, which are one or two more than rota's own. */
#define SMALL_MULTIPLICATIONS (UINT64_C(1) << 24)
/* Backward in a fixed order keeps 2 bytes for each score in its workspace (cuDNN pads both lengths to whole
 * tiles). What goes beyond this is computed piece by piece, one after the other. */
#define SCORES_BYTES_MAX (UINT64_C(1) << 28)
#define TILE 128u
#define ELEMENT_BYTES 2u

static bool is_worth_it(uint32_t flags, uint32_t slot_mask, uint64_t heads, uint64_t queries, uint64_t keys,
                        uint32_t dim) {
    return (flags & ROTA_ATTENTION_ALIGNED_16) && slot_mask == 0 &&
           flags >> ROTA_ATTENTION_DTYPE_SHIFT != ROTA_F32 &&
           heads * queries * keys * dim >= SMALL_MULTIPLICATIONS;
}

static rota_cudnn_attention forward_of(const rota_attention_params *p) {
    rota_cudnn_attention about;
    memset(&about, 0, sizeof about);
    about.dtype = p->flags >> ROTA_ATTENTION_DTYPE_SHIFT;
    about.causal = (p->flags & ROTA_ATTENTION_CAUSAL) != 0;
    about.batch = p->batch, about.heads = p->heads;
    about.queries = p->queries, about.keys = p->keys, about.dim = p->dim;
    about.scale = p->scale;
    memcpy(about.stride[0], p->q_stride, sizeof p->q_stride);
    memcpy(about.stride[1], p->k_stride, sizeof p->k_stride);
    memcpy(about.stride[2], p->v_stride, sizeof p->v_stride);
    memcpy(about.stride[3], p->out_stride, sizeof p->out_stride);
    return about;
}

static uint32_t largest_divisor(uint32_t of, uint64_t at_most) {
    uint32_t d = of < at_most ? of : (uint32_t)at_most;
    while (d > 1 && of % d != 0) d--;
    return d;
}

static uint64_t in_tiles(uint32_t rows) {
    return ((uint64_t)rows + TILE - 1) / TILE * TILE;
}

/* How many batches, and how many heads of them, a piece has: all the same. False: one head is too much. */
static bool piece_of(const rota_attention_backward_params *p, uint32_t *out_batch, uint32_t *out_heads) {
    const uint64_t fit = SCORES_BYTES_MAX / (in_tiles(p->queries) * in_tiles(p->keys) * ELEMENT_BYTES);
    if (fit == 0) return false;
    *out_heads = largest_divisor(p->heads, fit);
    *out_batch = *out_heads == p->heads ? largest_divisor(p->batch, fit / p->heads) : 1;
    /* A piece's lse lies at a multiple of 16 bytes as well. */
    return p->queries % 4 == 0 || (*out_batch == p->batch && *out_heads == p->heads);
}

/* A piece of it. */
static rota_cudnn_attention backward_of(const rota_attention_backward_params *p) {
    rota_cudnn_attention about;
    memset(&about, 0, sizeof about);
    about.backward = 1;
    about.dtype = p->flags >> ROTA_ATTENTION_DTYPE_SHIFT;
    about.causal = (p->flags & ROTA_ATTENTION_CAUSAL) != 0;
    (void)piece_of(p, &about.batch, &about.heads);
    about.queries = p->queries, about.keys = p->keys, about.dim = p->dim;
    about.scale = p->scale;
    memcpy(about.stride[0], p->q_stride, sizeof p->q_stride);
    memcpy(about.stride[1], p->kv_stride, sizeof p->kv_stride);
    memcpy(about.stride[2], p->kv_stride, sizeof p->kv_stride);
    memcpy(about.stride[3], p->out_stride, sizeof p->out_stride);
    return about;
}

/* The workspace comes after the kernel's own operands. */
static uint64_t scratch(const rota_cuda_call *call, uint32_t own, uint64_t *out_bytes) {
    const bool there = call->operand_count > own;
    *out_bytes = there ? call->operand_bytes[own] : 0;
    return there ? call->operands[own] : 0;
}

static rota_status call_attention(const rota_cuda_call *call) {
    const rota_cudnn_attention about = forward_of(call->params);
    const rota_cudnn_attention_operands operands = {.q = call->operands[0],
                                                    .k = call->operands[1],
                                                    .v = call->operands[2],
                                                    .out = call->operands[3],
                                                    .lse = call->operands[4]};
    uint64_t bytes;
    const uint64_t workspace = scratch(call, 5, &bytes);
    return rota_cudnn_attention_run(&about, call->target, &operands, workspace, bytes, call->stream);
}

static uint64_t workspace_attention(const void *params, const uint64_t *operand_bytes,
                                    const rota_cuda_target *target) {
    (void)operand_bytes;
    const rota_cudnn_attention about = forward_of(params);
    return rota_cudnn_attention_workspace(&about, target);
}

static const rota_kernel attention_by_cudnn = {
    .name = "attention_cudnn",
    .operand_count = 5,
    .param_bytes = sizeof(rota_attention_params),
    .flags = ROTA_KERNEL_PURE,
    .cuda = {.call = call_attention, .workspace = workspace_attention},
};

const rota_kernel *rota_cuda_attention_by_cudnn(const rota_attention_params *p, uint32_t slot_mask,
                                                const rota_cuda_target *target) {
    if (!is_worth_it(p->flags, slot_mask, (uint64_t)p->batch * p->heads, p->queries, p->keys, p->dim))
        return NULL;
    const rota_cudnn_attention about = forward_of(p);
    return rota_cudnn_attention_takes(&about, target, NULL) ? &attention_by_cudnn : NULL;
}

bool rota_cuda_attention_backward_by_cudnn(const rota_attention_backward_params *p, uint32_t slot_mask,
                                           const rota_cuda_target *target) {
    uint32_t batch, heads;
    if (!is_worth_it(p->flags, slot_mask, (uint64_t)p->batch * p->heads, p->queries, p->keys, p->dim) ||
        !piece_of(p, &batch, &heads))
        return false;
    const rota_cudnn_attention about = backward_of(p);
    return rota_cudnn_attention_takes(&about, target, NULL);
}

uint64_t rota_cuda_workspace_attention_backward(const void *params, const uint64_t *operand_bytes,
                                                const rota_cuda_target *target) {
    (void)operand_bytes;
    const rota_cudnn_attention about = backward_of(params);
    return rota_cudnn_attention_workspace(&about, target);
}

static uint64_t place(const uint32_t stride[3], uint32_t batch, uint32_t head) {
    return ((uint64_t)batch * stride[0] + (uint64_t)head * stride[1]) * ELEMENT_BYTES;
}

rota_status rota_cuda_call_attention_backward(const rota_cuda_call *call) {
    const rota_attention_backward_params *p = call->params;
    const rota_cudnn_attention about = backward_of(p);
    const uint64_t *o = call->operands;
    uint64_t bytes;
    const uint64_t workspace = scratch(call, ROTA_ATTENTION_BACKWARD_OPERANDS, &bytes);
    for (uint32_t b = 0; b < p->batch; b += about.batch)
        for (uint32_t h = 0; h < p->heads; h += about.heads) {
            const uint64_t q = place(p->q_stride, b, h), kv = place(p->kv_stride, b, h),
                           out = place(p->out_stride, b, h), row = ((uint64_t)b * p->heads + h) * p->queries;
            const rota_cudnn_attention_operands operands = {
                .q = o[ROTA_ATTENTION_BACKWARD_Q] + q,
                .k = o[ROTA_ATTENTION_BACKWARD_K] + kv,
                .v = o[ROTA_ATTENTION_BACKWARD_V] + kv,
                .out = o[ROTA_ATTENTION_BACKWARD_OUT] + out,
                .lse = o[ROTA_ATTENTION_BACKWARD_LSE] + row * sizeof(float),
                .dout = o[ROTA_ATTENTION_BACKWARD_DOUT] + out,
                .dq = o[ROTA_ATTENTION_BACKWARD_DQ] + q,
                .dk = o[ROTA_ATTENTION_BACKWARD_DK] + kv,
                .dv = o[ROTA_ATTENTION_BACKWARD_DV] + kv,
                .sums = o[ROTA_ATTENTION_BACKWARD_STATS],
            };
            ROTA_TRY(
                rota_cudnn_attention_run(&about, call->target, &operands, workspace, bytes, call->stream));
        }
    return ROTA_OK;
}
