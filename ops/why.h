/* What the matrix products say of what runs them: rota_kernel.functions of matmul, matmul_f16, matmul_bf16. Internal;
 * not installed. */
#ifndef ROTA_OPS_WHY_H
#define ROTA_OPS_WHY_H

#include "base/text_out.h"
#include "graph/kernel_functions.h"
#include "ops/tensor.h"

extern const rota_kernel_functions rota_why_matmul, rota_why_matmul_f16, rota_why_matmul_bf16,
    rota_why_linear, rota_why_linear_gradient;

/* On CPU devices (cpu/matmul.c), and on Vulkan devices (vk/matmul_vk.c). */
void rota_cpu_why_matmul(rota_text_out *out, const rota_kernel_use *use, rota_dtype dtype);
void rota_vk_why_matmul(rota_text_out *out, const rota_kernel_use *use, rota_dtype dtype);

#endif
