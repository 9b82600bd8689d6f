/* The linear kernels' operands, parameters, and what they compute. Apart from kernel_params.h, since no CUDA
 * image reads them. */
#ifndef ROTA_OPS_LINEAR_PARAMS_H
#define ROTA_OPS_LINEAR_PARAMS_H

#include <stdint.h>

/* ---- linear: x:READ, w:READ, bias:READ [n], residual:READ [m, n], kept:WRITE [m, n], y:WRITE [m, n]. All of
 * `dtype`; x is a and w is b of a matmul without batches; the rest contiguous. y = act(x w + bias) +
 * residual, act with GELU or RELU; KEEP (with GELU): kept = x w + bias. An operand without its flag is bound
 * to x's range and READ. A device may round x w, and x w + bias, to `dtype` on its way. Runs as one call of a
 * library where there is one that does, else as other kernels of this list (rota_kernel.parts).
 * ---- linear_gradient: a:READ, b:READ, c:WRITE (READWRITE with ACCUMULATE, f32 only; contiguous),
 * sums:WRITE, partial:WRITE f32 [ceil(k / chunk), length of sums]. c = a b (+ c) as of matmul; sums [n] are
 * those over the rows of b with SUMS_B, [m] over the rows of the transposed a, as it lies, with SUMS_A; what
 * is summed is contiguous.
 * ---- */

/* Beside those of matmul. */
#define ROTA_LINEAR_BIAS 16u
#define ROTA_LINEAR_RESIDUAL 32u
#define ROTA_LINEAR_GELU 64u
#define ROTA_LINEAR_RELU 128u
#define ROTA_LINEAR_KEEP 256u
#define ROTA_LINEAR_SUMS_A 512u
#define ROTA_LINEAR_SUMS_B 1024u
#define ROTA_LINEAR_EPILOGUE                                                                                 \
    (ROTA_LINEAR_BIAS | ROTA_LINEAR_RESIDUAL | ROTA_LINEAR_GELU | ROTA_LINEAR_RELU | ROTA_LINEAR_KEEP |      \
     ROTA_LINEAR_SUMS_A | ROTA_LINEAR_SUMS_B)

typedef struct rota_linear_params {
    uint32_t m, n, k;
    uint32_t lda, ldb;
    uint32_t flags;
    uint32_t dtype; /* of everything but partial */
    uint32_t chunk; /* linear_gradient: rows of a partial sum; k: sums are made at once */
} rota_linear_params;

#endif
