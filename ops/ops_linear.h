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
