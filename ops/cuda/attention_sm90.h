/* rota's own gradient of attention on Hopper (attention_sm90.cu), launched on a stream. Internal; not installed. */
#ifndef ROTA_OPS_CUDA_ATTENTION_SM90_H
#define ROTA_OPS_CUDA_ATTENTION_SM90_H

#include "graph/kernel.h"
#include "ops/kernel_params.h"

/* Whether the kernels take the gradient: f16 or bf16 and heads of at most 64 columns, a multiple of 8, on a device of
 * compute capability 9.0; rows at multiples of 16 bytes, none that repeat; the image was built. */
bool rota_attention_sm90_takes(const rota_attention_backward_params *params, const rota_cuda_target *target);

/* Bytes that it works with, at a multiple of 16; 0: it isn't taken. */
uint64_t rota_attention_sm90_workspace(const rota_attention_backward_params *params,
                                       const rota_cuda_target *target);

/* Puts the gradient, of rota_kernel_attention_backward's operands and parameters, on call->stream. UNSUPPORTED: it
 * isn't taken, an operand lies at no multiple of 16 bytes, or there is too little to work with. */
rota_status rota_attention_sm90_run(const rota_cuda_call *call, uint64_t workspace, uint64_t workspace_bytes);

/* The same of rota_kernel_attention_dropout_backward's. */
rota_status rota_attention_sm90_run_dropout(const rota_cuda_call *call, uint64_t workspace,
                                            uint64_t workspace_bytes);

#endif
