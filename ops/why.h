/* What the matrix products say of what runs them: rota_kernel.functions of matmul, matmul_f16, matmul_bf16. Internal;
 * not installed. */
#ifndef ROTA_OPS_WHY_H
#define ROTA_OPS_WHY_H

#include "base/text_out.h"
#include "graph/kernel_functions.h"
#include "ops/kernel_params.h"
#include "ops/tensor.h"

extern const rota_kernel_functions rota_why_matmul, rota_why_matmul_f16, rota_why_matmul_bf16,
    rota_why_scaled_matmul;

/* On CPU devices (cpu/matmul.c), and on Vulkan devices (vk/matmul_vk.c). */
void rota_cpu_why_matmul(rota_text_out *out, const rota_kernel_use *use, rota_dtype dtype);
void rota_vk_why_matmul(rota_text_out *out, const rota_kernel_use *use, rota_dtype dtype);
/* On a Vulkan device that launches CUDA images (cuda/matmul_bounded.c): which of them a product takes there and why,
 * and true; or why none, in one line, and false. */
bool rota_cuda_why_bounded(rota_text_out *out, const rota_matmul_params *params, rota_dtype dtype,
                           uint32_t slot_mask, const rota_cuda_target *target);

#endif
