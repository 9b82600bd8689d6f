/* What the linear kernels are made of where no library does all of it. Internal. */
#ifndef ROTA_OPS_LINEAR_H
#define ROTA_OPS_LINEAR_H

#include "ops/kernels.h"

/* Places of the operands of rota_kernel_linear and rota_kernel_linear_gradient. */
enum {
    ROTA_LINEAR_OPERAND_X,
    ROTA_LINEAR_OPERAND_W,
    ROTA_LINEAR_OPERAND_BIAS,
    ROTA_LINEAR_OPERAND_RESIDUAL,
    ROTA_LINEAR_OPERAND_KEPT,
    ROTA_LINEAR_OPERAND_Y,
    ROTA_LINEAR_OPERANDS
};
enum {
    ROTA_LINEAR_GRADIENT_OPERAND_A,
    ROTA_LINEAR_GRADIENT_OPERAND_B,
    ROTA_LINEAR_GRADIENT_OPERAND_C,
    ROTA_LINEAR_GRADIENT_OPERAND_SUMS,
    ROTA_LINEAR_GRADIENT_OPERAND_PARTIAL,
    ROTA_LINEAR_GRADIENT_OPERANDS
};

/* A flag of linear_gradient beside those of linear_params.h: partial is READ and has the partial sums already. */
#define ROTA_LINEAR_SUMS_MADE 2048u

enum {
    ROTA_LINEAR_GELU_OPERAND_KEPT,
    ROTA_LINEAR_GELU_OPERAND_DY,
    ROTA_LINEAR_GELU_OPERAND_DZ,
    ROTA_LINEAR_GELU_OPERAND_PARTIAL,
    ROTA_LINEAR_GELU_OPERANDS
};

/* ---- linear_gelu_gradient, with rota_linear_params of which m, n, dtype and chunk count: kept:READ [m, n],
 * dy:READ [m, n], dz:WRITE [m, n], partial:WRITE f32 [ceil(m / chunk), n]; in place dz on dy. dz = dy times the
 * derivative of GELU at kept, rounded to dtype, and partial the sums of its columns over chunks of rows. In one
 * pass over 16-bit rows of whole vectors on CUDA devices, where exp is one instruction's; elsewhere as
 * unary_backward and reduce. ---- */

/* The product alone, as matmul has it, with all of the flags. */
rota_matmul_params rota_linear_product(const rota_linear_params *params);

/* The product first, then what follows it; the count. */
uint32_t rota_linear_parts(const rota_linear_params *params, rota_kernel_part *out_parts);
uint32_t rota_linear_gradient_parts(const rota_linear_params *params, rota_kernel_part *out_parts);

#endif
