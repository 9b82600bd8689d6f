/* The gradient of attention with dropout by rota's kernels for Hopper, where they take it, else by its parts. */
#include "ops/cuda/attention_dropout_cuda.h"

#include "ops/attention.h"
#include "ops/cuda/attention_cudnn.h"
#include "ops/cuda/attention_sm90.h"
#include "ops/cuda/image.h"

bool rota_cuda_attention_dropout_backward_as_one(const rota_attention_backward_params *p, uint32_t slot_mask,
                                                 const rota_cuda_target *target) {
    return rota_attention_is_worth_it(p->flags, slot_mask, (uint64_t)p->batch * p->heads, p->queries, p->keys,
                                      p->dim) &&
           rota_attention_sm90_takes(p, target);
}

uint64_t rota_cuda_workspace_attention_dropout_backward(const void *params, const uint64_t *operand_bytes,
                                                        const rota_cuda_target *target) {
    (void)operand_bytes;
    return rota_attention_sm90_workspace(params, target);
}

rota_status rota_cuda_call_attention_dropout_backward(const rota_cuda_call *call) {
    uint64_t bytes;
    const uint64_t workspace = rota_attention_workspace(call, ROTA_ATTENTION_BACKWARD_DRAW + 1, &bytes);
    const rota_status status =
        call->again ? ROTA_UNSUPPORTED : rota_attention_sm90_run_dropout(call, workspace, bytes);
    if (status != ROTA_UNSUPPORTED) return status;
    rota_kernel_part parts[ROTA_KERNEL_PARTS_MAX] = {0};
    const uint32_t count = rota_attention_dropout_backward_parts(call->params, parts);
    for (uint32_t i = 0; i < count; i++)
        ROTA_TRY(rota_cuda_image_run_node(parts[i].kernel, call, parts[i].operand, parts[i].params));
    return ROTA_OK;
}
