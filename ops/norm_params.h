/* Norms: operands, parameters, and what each computes. C and CUDA C++; see kernel_params.h. */
#ifndef ROTA_OPS_NORM_PARAMS_H
#define ROTA_OPS_NORM_PARAMS_H

#include <stdint.h>

/* ---- layernorm: x:READ [rows, dim], weight:READ [dim], bias:READ [dim], y:WRITE [rows, dim], stats:WRITE
 * [rows, 2]. y = (x - mean) * rstd * weight + bias, rstd = 1 / sqrt(variance + eps), variance over dim
 * (divisor dim), two passes; stats[r] = {mean, rstd}.
 * ---- layernorm_backward: x:READ, weight:READ, stats:READ, dy:READ, dx:WRITE (READWRITE with ACCUMULATE); in
 * place dx on dy. With g = dy * weight, h = (x - mean) * rstd: dx = (dx +) rstd * (g - mean(g) - h * mean(g *
 * h)) ----
 * ---- layernorm_backward_weight: x:READ, stats:READ, dy:READ, partial:WRITE [2, chunks, dim], chunks =
 * ceil(rows / chunk): partial[0, c] = sum over the rows of chunk c of dy * h, partial[1, c] = of dy; then
 * summed over c by reduce ----
 * ---- layernorm_gradient: x:READ, weight:READ, stats:READ, dy:READ, dx:WRITE (READWRITE with ACCUMULATE),
 * partial:WRITE; in place dx on dy. layernorm_backward and layernorm_backward_weight in one pass over x and
 * dy where a device has that, else as those two (rota_kernel.parts). rmsnorm_gradient likewise ----
 * ---- rmsnorm: x:READ, weight:READ, y:WRITE, stats:WRITE [rows]. rstd = 1 / sqrt(mean(x^2) + eps),
 * y = x * rstd * weight ----
 * ---- rmsnorm_backward: x:READ, weight:READ, stats:READ, dy:READ, dx:WRITE (READWRITE with ACCUMULATE); in
 * place dx on dy. g = dy * weight, h = x * rstd: dx = (dx +) rstd * (g - h * mean(g * h)) ----
 * ---- rmsnorm_backward_weight: x:READ, stats:READ, dy:READ, partial:WRITE [chunks, dim] ----
 * ---- residual_layernorm: x:READ, r:READ, weight:READ, bias:READ, sum:WRITE, y:WRITE, stats:WRITE; in place
 * sum on x or r. sum = x + r, rounded to its dtype; y and stats: layernorm of that ---- */

#define ROTA_NORM_WEIGHT 1u
#define ROTA_NORM_BIAS 2u
#define ROTA_NORM_ACCUMULATE 4u /* backward only */

typedef struct rota_norm_params {
    uint32_t rows, dim;
    uint32_t flags; /* which of weight and bias are there; absent: 1 and 0 */
    float eps;
    uint32_t chunk; /* rows a partial sum covers; _backward_weight and _gradient only */
    uint32_t dtype;
} rota_norm_params;

/* ---- Batch norm of x [outer, channels, inner]; mean and spread f32 [channels], spread being 1 /
 * sqrt(variance + eps), or with VARIANCE the variance; h = (x - mean) / sqrt(variance + eps). An absent
 * operand is bound to another that is read.
 * ---- batch_norm_moments: x:READ, partial:WRITE [2, chunks, channels], chunks = ceil(outer * inner / chunk).
 * Of the elements [c * chunk, ...) of each channel the mean, and the sum of (x - that mean)^2 ----
 * ---- batch_norm_finish: partial:READ, running_mean:READWRITE, running_variance:READWRITE, stats:WRITE [2,
 * channels]. The chunks' moments as those of all (Chan, Golub and LeVeque, Updating formulae and a pairwise
 * algorithm for computing sample variances, 1979): stats = mean, 1 / sqrt(variance + eps); running = (1 -
 * momentum) * running + momentum * (mean, or variance * n / (n - 1)), n = outer * inner ----
 * ---- batch_norm_sums: x:READ, mean:READ, spread:READ, dy:READ, partial:WRITE [2, chunks, channels]. Sums
 * over the elements [c * chunk, ...) of each channel of dy * h and of dy ----
 * ---- batch_norm: x:READ, mean:READ, spread:READ, weight:READ, bias:READ, y:WRITE; in place y on x. y = h *
 * weight + bias
 * ---- batch_norm_backward: x:READ, mean:READ, spread:READ, weight:READ, dy:READ, sums:READ [2, channels],
 * dx:WRITE; in place dx on dy. dx = weight * rstd * (dy - sums[1] / n - h * sums[0] / n); with VARIANCE
 * weight * rstd * dy ---- */

#define ROTA_BATCH_NORM_VARIANCE 4u

typedef struct rota_batch_norm_params {
    uint32_t outer, channels, inner;
    uint32_t flags; /* ROTA_NORM_WEIGHT, ROTA_NORM_BIAS, and those above */
    uint32_t chunk;
    float eps, momentum;
    uint32_t dtype;
} rota_batch_norm_params;

#endif
