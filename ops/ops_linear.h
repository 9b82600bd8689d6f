/* Products of matrices. The rules that hold for all ops are in ops.h. */
#ifndef ROTA_OPS_OPS_LINEAR_H
#define ROTA_OPS_OPS_LINEAR_H

#include "ops_tape.h"

/* ---- Products ---- */

/* a [..., m, k] (or [..., k, m] with transpose_a) times b [..., k, n] (or [..., n, k] with transpose_b):
 * [..., m, n]. Leading axes broadcast right-aligned. f32, f16 or bf16, both alike; sums in f32. The result
 * has the inputs' dtype, or, into a destination, that of the destination: the inputs' or f32. */
ROTA_API rota_status rota_op_matmul(rota_tape *tape, rota_tensor a, rota_tensor b, bool transpose_a,
                                    bool transpose_b, rota_tensor *out_c);
ROTA_API rota_status rota_op_matmul_into(rota_tape *tape, rota_tensor a, rota_tensor b, bool transpose_a,
                                         bool transpose_b, rota_tensor c);
/* out[b, h, q, d] = sum over k of weight[b, h, q, k] * value[b, h, k, d]. */
ROTA_API rota_status rota_op_weighted_matmul(rota_tape *tape, rota_tensor weight, rota_tensor value,
                                             rota_tensor *out_y);
ROTA_API rota_status rota_op_weighted_matmul_into(rota_tape *tape, rota_tensor weight, rota_tensor value,
                                                  rota_tensor y);

/* y [..., n] = (scale_a * scale_b) * (a b^T) + bias of 8-bit floats a [..., k] and b [n, k], each f8_e4m3fn or
 * f8_e5m2: `torch._scaled_mm` with b as it lies in memory. A scale is f32 in the device's memory: one element for all
 * of its operand, or one for each of its rows. y has `dtype`: f32, f16 or bf16; sums are f32 (where a device's matrix
 * units add them, as theirs are), and rounded once. bias [n] of y's dtype, or ROTA_TENSOR_NONE, as it must be with an
 * f32 result. INVALID_ARGUMENT names what has another dtype or shape. No gradient: rota_backward refuses a loss that
 * depends on a parameter by it.
 *
 * On CUDA devices of compute capability 8.9 and more it is one call of cuBLASLt where that takes it: k a multiple of
 * 16, rows of a, b and y a multiple of 16 bytes apart, all at multiples of 16 bytes, none from a slot but scales, not
 * both f8_e5m2, at least 2^18 multiplications; scales of rows on 9.0 alone. Else, as on Vulkan devices, a kernel in f32
 * that uses no matrix units; rota_plan_explain_kernel says which and why. Those units keep some 14 bits of a sum. */
ROTA_API rota_status rota_op_scaled_matmul(rota_tape *tape, rota_tensor a, rota_tensor b, rota_tensor scale_a,
                                           rota_tensor scale_b, rota_tensor bias, rota_dtype dtype,
                                           rota_tensor *out_y);
ROTA_API rota_status rota_op_scaled_matmul_into(rota_tape *tape, rota_tensor a, rota_tensor b,
                                                rota_tensor scale_a, rota_tensor scale_b, rota_tensor bias,
                                                rota_tensor y);

/* scale f32 [1], or with by_rows [..., 1], of the rows along the last axis: the largest magnitude of x over the largest
 * number of the 8-bit format `dtype`, and no less than 2^-100. So x / scale fills that format's range. Of a NaN NaN, of
 * an infinity infinite: what is quantized by it is then 0, and NaN where x is infinite. x is f32, f16 or bf16 and has
 * elements (INVALID_ARGUMENT). To gradients the scale is a constant. */
ROTA_API rota_status rota_op_f8_scale(rota_tape *tape, rota_tensor x, rota_dtype dtype, bool by_rows,
                                      rota_tensor *out_scale);
/* y = x / scale in the 8-bit format `dtype`, and the scale, which is that of rota_op_f8_scale: what
 * rota_op_scaled_matmul takes. Divided in f32, and the quotient rounded to nearest even. */
ROTA_API rota_status rota_op_quantize(rota_tape *tape, rota_tensor x, rota_dtype dtype, bool by_rows,
                                      rota_tensor *out_y, rota_tensor *out_scale);

typedef enum rota_activation {
    ROTA_ACTIVATION_NONE,
    ROTA_ACTIVATION_GELU, /* the tanh form */
    ROTA_ACTIVATION_RELU
} rota_activation;

typedef struct rota_linear {
    size_t struct_size;   /* sizeof, by ROTA_LINEAR() */
    rota_tensor bias;     /* [n], or ROTA_TENSOR_NONE */
    rota_tensor residual; /* of y's shape, or ROTA_TENSOR_NONE */
    rota_activation activation;
    bool transposed; /* w is [n, k], as in PyTorch */
} rota_linear;
#define ROTA_LINEAR(...) ROTA_SIZED(rota_linear, __VA_ARGS__)

/* y [..., n] = act(x w + bias) + residual; x [..., k], w [k, n]; all of one dtype: f32, f16 or bf16. One
 * node, and on CUDA devices one call of cuBLASLt, unless a residual follows an activation, or cuBLASLt does
 * not take the product; then, as on other devices, the product and what follows are kernels of their own, and
 * what is between them is rounded to the dtype. Its gradient sums up the bias' in the product for w's, and
 * reads x w + bias, which is kept (GELU), or y (RELU). `options` may be NULL: neither. */
ROTA_API rota_status rota_op_linear(rota_tape *tape, rota_tensor x, rota_tensor w, const rota_linear *options,
                                    rota_tensor *out_y);
ROTA_API rota_status rota_op_linear_into(rota_tape *tape, rota_tensor x, rota_tensor w,
                                         const rota_linear *options, rota_tensor y);

#endif
