/* Kernels along an axis: operands, parameters, and what each computes. C and CUDA C++; see kernel_params.h.
 */
#ifndef ROTA_OPS_REDUCE_PARAMS_H
#define ROTA_OPS_REDUCE_PARAMS_H

#include <stdint.h>

/* ---- reduce: x:READ, y:WRITE. x is [outer, n, inner], y is [outer, ceil(n / chunk), inner]:
 * y[o, c, i] = scale * (sum, maximum, minimum or sum of squares of x[o, k, i], k in [c * chunk, min(n, (c +
 * 1) * chunk))). A long axis is reduced in two nodes, f32 in between. MAX, MIN: NaN if any is NaN; scale
 * is 1. ---- */

typedef enum rota_reduce {
    ROTA_REDUCE_SUM,
    ROTA_REDUCE_MAX,
    ROTA_REDUCE_SUM_SQUARES,
    ROTA_REDUCE_MIN,
    ROTA_REDUCE_COUNT
} rota_reduce;

typedef struct rota_reduce_params {
    uint32_t op; /* rota_reduce */
    uint32_t outer, n, inner;
    uint32_t chunk;
    float scale;
    uint32_t from, to; /* dtypes of x and y */
} rota_reduce_params;

/* ---- max_backward, of MAX and MIN: x:READ, y:READ, dy:READ, dx:WRITE. y, dy [outer, inner]; dx[o, k, i] =
 * dy[o, i] at the first k with x == y, else 0. ---- */

typedef struct rota_max_backward_params {
    uint32_t outer, n, inner;
    uint32_t dtype;
} rota_max_backward_params;

/* ---- top_k: x:READ [outer, n, inner], values:WRITE [outer, k, inner], index:WRITE i32 likewise. The k
 * largest along the axis, in order; NaN is above all numbers, and of equal values the one with the smaller
 * index. Reads x k times: k is meant to be small. ---- */

typedef struct rota_top_k_params {
    uint32_t outer, n, inner, k;
    uint32_t dtype;
} rota_top_k_params;

/* ---- cumulative_sum: x:READ, y:WRITE [outer, n, inner]. y[o, k, i] = sum of x[o, 0..k, i]; reverse: of x[o,
 * k..n - 1, i] ---- */

typedef struct rota_cumulative_sum_params {
    uint32_t outer, n, inner;
    uint32_t reverse;
    uint32_t dtype;
} rota_cumulative_sum_params;

/* ---- variance: x:READ [outer, n, inner], y:WRITE [outer, inner], mean:WRITE f32 [outer, inner]. y = scale *
 * sum of (x - mean)^2, two passes
 * ---- variance_backward: x:READ, mean:READ, dy:READ, dx:WRITE. dx = 2 * scale * dy * (x - mean) ---- */

typedef struct rota_variance_params {
    uint32_t outer, n, inner;
    float scale; /* 1 / (n - correction) */
    uint32_t dtype;
} rota_variance_params;

#endif
