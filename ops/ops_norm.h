/* Norms. f32, f16 or bf16, calculated in f32 and rounded when stored; weights have x's dtype, statistics are
 * f32. The rules that hold for all ops are in ops.h. */
#ifndef ROTA_OPS_OPS_NORM_H
#define ROTA_OPS_OPS_NORM_H

#include "ops_tape.h"

/* Along the last axis; weight and bias [dim], or ROTA_TENSOR_NONE. layernorm: (x - mean) / sqrt(variance +
 * eps) * weight + bias (Ba, Kiros and Hinton, Layer normalization, 2016); rmsnorm: x / sqrt(mean(x^2) + eps)
 * * weight (Zhang and Sennrich, Root mean square layer normalization, 2019). */
ROTA_API rota_status rota_op_layernorm(rota_tape *tape, rota_tensor x, rota_tensor weight, rota_tensor bias,
                                       float eps, rota_tensor *out_y);
ROTA_API rota_status rota_op_layernorm_into(rota_tape *tape, rota_tensor x, rota_tensor weight,
                                            rota_tensor bias, float eps, rota_tensor y);
ROTA_API rota_status rota_op_rmsnorm(rota_tape *tape, rota_tensor x, rota_tensor weight, float eps,
                                     rota_tensor *out_y);
ROTA_API rota_status rota_op_rmsnorm_into(rota_tape *tape, rota_tensor x, rota_tensor weight, float eps,
                                          rota_tensor y);

/* sum = x + r and y = layernorm(sum), in one pass over memory. The gradients of both are those of add and
 * layernorm. */
ROTA_API rota_status rota_op_residual_layernorm(rota_tape *tape, rota_tensor x, rota_tensor r,
                                                rota_tensor weight, rota_tensor bias, float eps,
                                                rota_tensor *out_y, rota_tensor *out_sum);

typedef struct rota_batch_norm {
    size_t struct_size;                         /* sizeof, by ROTA_BATCH_NORM() */
    uint32_t axis;                              /* of the channels */
    float eps, momentum;                        /* 1e-5 and 0.1 in PyTorch */
    bool evaluate;                              /* with the running statistics, which stay as they are */
    rota_tensor weight, bias;                   /* [channels] of x's dtype, or ROTA_TENSOR_NONE */
    rota_tensor running_mean, running_variance; /* f32 [channels], contiguous */
} rota_batch_norm;
#define ROTA_BATCH_NORM(...) ROTA_SIZED(rota_batch_norm, __VA_ARGS__)

/* y = (x - mean) / sqrt(variance + eps) * weight + bias, over all axes but that of the channels (Ioffe and
 * Szegedy, Batch normalization, 2015). In training mean and variance (divisor n) are the batch's, and the
 * running ones become (1 - momentum) * running + momentum * the batch's, of the variance with divisor n - 1,
 * as in PyTorch; at least 2 elements a channel. */
ROTA_API rota_status rota_op_batch_norm(rota_tape *tape, rota_tensor x, const rota_batch_norm *options,
                                        rota_tensor *out_y);

/* x [batch, channels, ...]: layernorm over each of `groups` groups of channels, then weight and bias
 * [channels] (or ROTA_TENSOR_NONE) per channel (Wu and He, Group normalization, 2018). Made of other ops. */
ROTA_API rota_status rota_op_group_norm(rota_tape *tape, rota_tensor x, uint32_t groups, rota_tensor weight,
                                        rota_tensor bias, float eps, rota_tensor *out_y);

#endif
