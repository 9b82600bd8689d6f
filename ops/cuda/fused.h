/* Fused nodes on CUDA devices. Internal. */
#ifndef ROTA_OPS_CUDA_FUSED_H
#define ROTA_OPS_CUDA_FUSED_H

#include "ops/fusion.h"

void rota_cuda_launch_fused(const void *params, const uint64_t *operand_bytes, const rota_cuda_target *target,
                            rota_cuda_launch *out_launch);
/* The kernel with the image for the device, compiled if it has none yet; NULL: none can be had. */
const rota_kernel *rota_cuda_select_fused(const void *params, const uint64_t *operand_bytes,
                                          uint32_t slot_mask, const rota_cuda_target *target);
bool rota_cuda_fused_prepare(const rota_fused_program *program, const rota_cuda_target *target,
                             char *out_reason, size_t capacity);
/* The program as CUDA C++ into text[0, capacity); the length that it has. */
size_t rota_cuda_fused_source(const rota_fused_program *program, char *out_text, size_t capacity);

#endif
