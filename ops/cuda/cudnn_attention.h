/* Attention by cuDNN: its graphs, and plans of them that are kept. Internal; not installed. */
#ifndef ROTA_OPS_CUDA_CUDNN_ATTENTION_H
#define ROTA_OPS_CUDA_CUDNN_ATTENTION_H

#include "graph/kernel.h"
#include "ops/cuda/cudnn_plan.h"

/* What a plan depends on; compared byte by byte, so clear it first. Strides of q, k, v and out by batch, head
 * and sequence, in elements; those of a gradient are its tensor's. */
typedef struct rota_cudnn_attention {
    uint32_t backward;
    uint32_t dtype; /* f16 or bf16 */
    uint32_t causal;
    uint32_t batch, heads, queries, keys, dim;
    float scale;
    uint32_t stride[4][3];
} rota_cudnn_attention;

/* Device addresses. lse: f32 [batch, heads, queries]. The second line is of backward alone; sums: f32 for as
 * many words as lse, which it overwrites. */
typedef struct rota_cudnn_attention_operands {
    uint64_t q, k, v, out, lse;
    uint64_t dout, dq, dk, dv, sums;
} rota_cudnn_attention_operands;

/* Whether cuDNN takes it on this device, which is found by making a plan when it is first asked for; that
 * takes from milliseconds to seconds. Any thread, whatever context is current. Not: no cuDNN, or one without
 * an engine for it; a word of why goes to `out_why` where that is not NULL. */
bool rota_cudnn_attention_takes(const rota_cudnn_attention *about, const rota_cuda_target *target,
                                char out_why[ROTA_ERROR_MESSAGE_MAX]);

/* Scratch memory of one that it takes. */
uint64_t rota_cudnn_attention_workspace(const rota_cudnn_attention *about, const rota_cuda_target *target);

/* Puts it on `stream`; the device's context is current. UNSUPPORTED: an operand is at no multiple of 16
 * bytes, or cuDNN fails to run it, which the log is told the first time; from then on it isn't asked. */
rota_status rota_cudnn_attention_run(const rota_cudnn_attention *about, const rota_cuda_target *target,
                                     const rota_cudnn_attention_operands *operands, uint64_t workspace,
                                     uint64_t workspace_bytes, void *stream);

#endif
