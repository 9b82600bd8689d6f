/* Convolutions by cuDNN: their graphs, and plans of them that are kept. Internal; not installed. */
#ifndef ROTA_OPS_CUDA_CUDNN_CONV_H
#define ROTA_OPS_CUDA_CUDNN_CONV_H

#include "graph/kernel.h"
#include "ops/cuda/cudnn_plan.h"
#include "ops/window_params.h"

/* Which of the three tensors is computed of the other two. */
typedef enum rota_cudnn_conv_result {
    ROTA_CUDNN_CONV_NARROW, /* conv2d */
    ROTA_CUDNN_CONV_WIDE,   /* conv2d_backward_input */
    ROTA_CUDNN_CONV_W       /* conv2d_backward_weight, all positions in one sum */
} rota_cudnn_conv_result;

/* What plans depend on; compared byte by byte, so clear it first. Of the parameters' flags CHANNELS_LAST alone may be
 * set, and their chunk is 0. */
typedef struct rota_cudnn_conv {
    uint32_t result; /* rota_cudnn_conv_result */
    uint32_t tf32;   /* whether products of f32 may be of numbers rounded to TF32 */
    rota_conv_params p;
} rota_cudnn_conv;

/* Device addresses: the side that windows slide over, the weights, the side with an element per window. */
typedef struct rota_cudnn_conv_operands {
    uint64_t wide, w, narrow;
} rota_cudnn_conv_operands;

/* What it is, for a log. */
#define ROTA_CUDNN_CONV_TEXT_MAX 192
void rota_cudnn_conv_describe(const rota_cudnn_conv *about, char out_text[ROTA_CUDNN_CONV_TEXT_MAX]);

/* In how many ways cuDNN does it on this device, best guess first: engines whose sums have a fixed order, in f32,
 * of operands as they are. Found by making plans when it is first asked for; that takes from milliseconds to
 * seconds. Any thread, whatever context is current. 0: no cuDNN, or one without an engine for it; a word of why
 * goes to `out_why` where that is not NULL. */
uint32_t rota_cudnn_conv_ways(const rota_cudnn_conv *about, const rota_cuda_target *target,
                              char out_why[ROTA_ERROR_MESSAGE_MAX]);

/* The number of a way's engine; -1: there is no such way. */
int64_t rota_cudnn_conv_engine(const rota_cudnn_conv *about, const rota_cuda_target *target, uint32_t way);

/* Scratch memory of a way, or the most that any of them wants. */
#define ROTA_CUDNN_CONV_ANY UINT32_MAX
uint64_t rota_cudnn_conv_workspace(const rota_cudnn_conv *about, const rota_cuda_target *target,
                                   uint32_t way);

/* Puts it on `stream`, this way; the device's context is current. UNSUPPORTED: an operand is at no multiple of 16
 * bytes, the workspace is too small for this way, or cuDNN fails to run it, which the log is told the first time;
 * from then on it isn't asked for this way. */
rota_status rota_cudnn_conv_run(const rota_cudnn_conv *about, const rota_cuda_target *target, uint32_t way,
                                const rota_cudnn_conv_operands *operands, uint64_t workspace,
                                uint64_t workspace_bytes, void *stream);

#endif
