/* Attention by cuDNN as a library node: the kernel's parameters as cuDNN wants them, and what is left to
 * rota's own kernels. The gradient: attention_cudnn_backward.c. */
#include "ops/cuda/attention_cudnn.h"

#include <string.h>
#include "ops/cuda/attention_choice.h"
#include "ops/cuda/attention_select.h"
#include "ops/cuda/image.h"
#include "ops/kernels.h" /* IWYU pragma: keep */

/* Multiplications of a product of attention that are worth a plan, which takes up to half a second to make,
 * and cuDNN's launches, which are one or two more than rota's own. */
#define SMALL_MULTIPLICATIONS (UINT64_C(1) << 24)

bool rota_attention_is_worth_it(uint32_t flags, uint32_t slot_mask, uint64_t heads, uint64_t queries,
                                uint64_t keys, uint32_t dim) {
    return (flags & ROTA_ATTENTION_ALIGNED_16) && slot_mask == 0 &&
           flags >> ROTA_ATTENTION_DTYPE_SHIFT != ROTA_F32 &&
           heads * queries * keys * dim >= SMALL_MULTIPLICATIONS;
}

rota_cudnn_attention rota_attention_about(bool backward, uint32_t flags, float scale, uint32_t batch,
                                          uint32_t heads, uint32_t queries, uint32_t keys, uint32_t dim) {
    rota_cudnn_attention about;
    memset(&about, 0, sizeof about);
    about.backward = backward;
    about.dtype = flags >> ROTA_ATTENTION_DTYPE_SHIFT;
    about.causal = (flags & ROTA_ATTENTION_CAUSAL) != 0;
    about.batch = batch, about.heads = heads;
    about.queries = queries, about.keys = keys, about.dim = dim;
    about.scale = scale;
    return about;
}

static rota_cudnn_attention forward_of(const rota_attention_params *p) {
    rota_cudnn_attention about =
        rota_attention_about(false, p->flags, p->scale, p->batch, p->heads, p->queries, p->keys, p->dim);
    memcpy(about.stride[0], p->q_stride, sizeof p->q_stride);
    memcpy(about.stride[1], p->k_stride, sizeof p->k_stride);
    memcpy(about.stride[2], p->v_stride, sizeof p->v_stride);
    memcpy(about.stride[3], p->out_stride, sizeof p->out_stride);
    return about;
}

uint64_t rota_attention_workspace(const rota_cuda_call *call, uint32_t own, uint64_t *out_bytes) {
    const bool there = call->operand_count > own;
    *out_bytes = there ? call->operand_bytes[own] : 0;
    return there ? call->operands[own] : 0;
}

enum { OPERAND_OUT = 3, OPERANDS = 5 };

static rota_status forward_by_cudnn(const rota_cuda_call *call) {
    const rota_cudnn_attention about = forward_of(call->params);
    const rota_cudnn_attention_operands operands = {.q = call->operands[0],
                                                    .k = call->operands[1],
                                                    .v = call->operands[2],
                                                    .out = call->operands[OPERAND_OUT],
                                                    .lse = call->operands[4]};
    uint64_t bytes;
    const uint64_t workspace = rota_attention_workspace(call, OPERANDS, &bytes);
    return rota_cudnn_attention_run(&about, call->target, &operands, workspace, bytes, call->stream);
}

static rota_status forward_by_rota(const rota_cuda_call *call) {
    static const uint8_t operands[OPERANDS] = {0, 1, 2, 3, 4};
    const rota_attention_params *p = call->params;
    return rota_cuda_image_run_node(rota_cuda_attention_by_rota(p, call->target), call, operands, p);
}

static rota_status call_attention(const rota_cuda_call *call) {
    const rota_cudnn_attention about = forward_of(call->params);
    bool known;
    const rota_attention_way way =
        rota_attention_choice_find(&about, call->target, ROTA_ATTENTION_BY_ROTA, &known);
    rota_status status =
        way == ROTA_ATTENTION_BY_CUDNN && !call->again ? forward_by_cudnn(call) : ROTA_UNSUPPORTED;
    if (status == ROTA_UNSUPPORTED) return forward_by_rota(call);
    if (status == ROTA_OK && !known) rota_attention_choice_keep(&about, call->target, way);
    return status;
}

/* Lets cuDNN load its code, which it does when it first runs, and measures both ways if that was not done
 * before. */
static rota_status tune_attention(const rota_cuda_call *call) {
    const rota_attention_work work = {
        .about = forward_of(call->params), .first_result = OPERAND_OUT, .result_count = 2};
    bool known;
    rota_attention_way way =
        rota_attention_choice_find(&work.about, call->target, ROTA_ATTENTION_BY_ROTA, &known);
    if (way == ROTA_ATTENTION_BY_ROTA) return ROTA_OK;
    rota_status status = forward_by_cudnn(call);
    rota_attention_measuring *measuring;
    if (status == ROTA_OK && !known) {
        status = rota_attention_measure_begin(&work, call, &measuring);
        while (status == ROTA_OK && rota_attention_measure_next(measuring, &way))
            rota_attention_measure_ran(measuring, way == ROTA_ATTENTION_BY_CUDNN ? forward_by_cudnn(call)
                                                                                 : forward_by_rota(call));
        if (status == ROTA_OK) status = rota_attention_measure_end(measuring);
    }
    return status == ROTA_UNSUPPORTED ? ROTA_OK
                                      : status; /* the call goes the other way, or says why it can't */
}

static uint64_t workspace_attention(const void *params, const uint64_t *operand_bytes,
                                    const rota_cuda_target *target) {
    (void)operand_bytes;
    const rota_cudnn_attention about = forward_of(params);
    return rota_cudnn_attention_workspace(&about, target);
}

static const rota_kernel attention_by_cudnn = {
    .name = "attention_cudnn",
    .operand_count = OPERANDS,
    .param_bytes = sizeof(rota_attention_params),
    .flags = ROTA_KERNEL_PURE,
    .cuda = {.call = call_attention, .tune = tune_attention, .workspace = workspace_attention},
};

const rota_kernel *rota_cuda_attention_by_cudnn(const rota_attention_params *p, uint32_t slot_mask,
                                                const rota_cuda_target *target) {
    if (!rota_attention_is_worth_it(p->flags, slot_mask, (uint64_t)p->batch * p->heads, p->queries, p->keys,
                                    p->dim))
        return NULL;
    const rota_cudnn_attention about = forward_of(p);
    return rota_cudnn_attention_takes(&about, target, NULL) ? &attention_by_cudnn : NULL;
}
