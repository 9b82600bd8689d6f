/* Layer norms of f32 rows whose neighbours are of 16 bits, as one node with what stands around them (fuse_norm.c). On
 * CUDA devices alone. Internal. */
#ifndef ROTA_OPS_CUDA_NORM_MIXED_CUDA_H
#define ROTA_OPS_CUDA_NORM_MIXED_CUDA_H

#include "graph/graph.h"
#include "ops/cuda/norm_mixed_params.h"

/* Absent operands are bound to x, to be read. What is no dtype's by the parameters is f32.
 *
 * ---- layernorm_mixed: x:READ, r:READ, weight:READ, bias:READ, sum:WRITE, y:WRITE, stats:WRITE. What
 * layernorm does of x, or, with r and sum, of sum = x + r, and then a conversion of y to its dtype. ----
 * ---- layernorm_mixed_gradient: x:READ, weight:READ, stats:READ, dy:READ, addend:READ, dx:WRITE, narrow:WRITE,
 * partial:WRITE. What layernorm_gradient does of dy converted to f32; dx, with addend plus that; narrow: dx
 * converted to its dtype. ---- */
enum {
    ROTA_MIXED_X,
    ROTA_MIXED_R,
    ROTA_MIXED_OF,
    ROTA_MIXED_BIAS,
    ROTA_MIXED_SUM,
    ROTA_MIXED_Y,
    ROTA_MIXED_STATS,
    ROTA_MIXED_OPERANDS
};
enum {
    ROTA_MIXED_GRADIENT_X,
    ROTA_MIXED_GRADIENT_OF,
    ROTA_MIXED_GRADIENT_STATS,
    ROTA_MIXED_GRADIENT_DY,
    ROTA_MIXED_GRADIENT_ADDEND,
    ROTA_MIXED_GRADIENT_DX,
    ROTA_MIXED_GRADIENT_NARROW,
    ROTA_MIXED_GRADIENT_PARTIAL,
    ROTA_MIXED_GRADIENT_OPERANDS
};

extern const rota_kernel rota_cuda_layernorm_mixed, rota_cuda_layernorm_mixed_gradient;

/* Rows of whole vectors, of f32 beside 16 bits, that a group of warps holds; operands at multiples of 16 bytes. */
bool rota_cuda_norm_mixed_takes(const rota_norm_params *params, const rota_access *accesses, uint32_t count,
                                const rota_cuda_target *target);

#endif
