/* Which way attention takes on a CUDA device where cuDNN takes it: that or rota's own kernels, whichever was
 * measured to be faster, and rota's where cuDNN fails after all. Internal; not installed. */
#ifndef ROTA_OPS_CUDA_ATTENTION_CHOICE_H
#define ROTA_OPS_CUDA_ATTENTION_CHOICE_H

#include "ops/cuda/cudnn_attention.h"

/* A node's two ways. */
typedef struct rota_attention_ways {
    rota_cudnn_attention about; /* all of the node's work */
    rota_status (*by_cudnn)(const rota_cuda_call *call);
    rota_status (*by_rota)(const rota_cuda_call *call);
    uint32_t first_result, result_count; /* operands that are compared run with run */
} rota_attention_ways;

/* Puts the work on call->stream: the way that was measured, else by cuDNN. */
rota_status rota_attention_choice_call(const rota_attention_ways *ways, const rota_cuda_call *call);

/* Lets cuDNN load its code, which it does when it first runs, and measures both ways if that was not done
 * before. Overwrites the operands. A gradient of cuDNN's that isn't the same bits in two runs is not taken.
 */
rota_status rota_attention_choice_measure(const rota_attention_ways *ways, const rota_cuda_call *call);

/* A kernel of rota's CUDA images put on the stream, the one that `kernel` selects, with these of the call's
 * operands. */
rota_status rota_attention_run_image(const rota_kernel *kernel, const rota_cuda_call *call,
                                     const uint8_t *operands, const void *params);

#endif
