/* Products of matrices: operands, parameters, and what each computes. C and CUDA C++; see kernel_params.h. */
#ifndef ROTA_OPS_LINEAR_PARAMS_H
#define ROTA_OPS_LINEAR_PARAMS_H

#include <stdint.h>

/* ---- matmul, matmul_f16, matmul_bf16: a:READ, b:READ, c:WRITE (READWRITE with ACCUMULATE or gaps).
 * For each of batch[0] * batch[1] * batch[2] batches, c[i, j] = alpha * sum_p a(i, p) * b(p, j) (+ c[i, j]).
 * a(i, p) is a[i * lda + p], or a[p * lda + i] with TRANSPOSE_A; b(p, j) is b[p * ldb + j], or b[j * ldb + p]
 * with TRANSPOSE_B; c[i * ldc + j]. matmul: all f32. matmul_f16 and _bf16: a and b of that type, sums in f32,
 * c f32 or of that type (c_dtype). ---- */

#define ROTA_MATMUL_TRANSPOSE_A 1u
#define ROTA_MATMUL_TRANSPOSE_B 2u
#define ROTA_MATMUL_ACCUMULATE 4u /* c f32 only */
/* A promise: a, b and c begin at multiples of 16 bytes. Changes no result; lets a device take a kernel that
 * needs it. */
#define ROTA_MATMUL_ALIGNED_16 8u

typedef struct rota_matmul_params {
    uint32_t m, n, k;
    uint32_t lda, ldb, ldc;
    uint32_t flags;
    uint32_t c_dtype; /* rota_dtype */
    float alpha;
    uint32_t batch[3];
    uint32_t a_batch_stride[3], b_batch_stride[3], c_batch_stride[3];
} rota_matmul_params;

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

/* ---- scaled_matmul: a:READ [m, k], b:READ [n, k], scale_a:READ f32, scale_b:READ f32, bias:READ [n], y:WRITE [m, n].
 * a and b are 8-bit floats of a_dtype and b_dtype, with rows lda and ldb elements apart; y and bias of y_dtype,
 * contiguous. y[i, j] = (scale_a * scale_b) * sum_p a[i, p] * b[j, p] + bias[j], sums in f32, rounded once. A scale is
 * one for all, or with BY_ROWS, of both, scale_a[i] and scale_b[j]. Without BIAS its operand is bound to a's range.
 * ---- */

#define ROTA_SCALED_BIAS 1u
#define ROTA_SCALED_BY_ROWS 2u
#define ROTA_SCALED_ALIGNED_16 4u /* a promise of a, b, bias and y, as ROTA_MATMUL_ALIGNED_16 */
#define ROTA_SCALED_TILE 64       /* rows and columns of y that a GPU's workgroup makes */

/* Its operands, by position. */
enum {
    ROTA_SCALED_A,
    ROTA_SCALED_B,
    ROTA_SCALED_SCALE_A,
    ROTA_SCALED_SCALE_B,
    ROTA_SCALED_BIAS_OPERAND,
    ROTA_SCALED_Y,
    ROTA_SCALED_OPERANDS
};

typedef struct rota_scaled_matmul_params {
    uint32_t m, n, k;
    uint32_t lda, ldb;
    uint32_t flags;
    uint32_t a_dtype, b_dtype, y_dtype; /* rota_dtype */
} rota_scaled_matmul_params;

/* Of a product of matmul's that is one of these, for what calls a library. */
#define ROTA_MATMUL_SCALED 2048u         /* operands are 8-bit floats, with scales */
#define ROTA_MATMUL_SCALED_BY_ROWS 4096u /* a scale for each row */
#define ROTA_MATMUL_OTHER_F8 8192u       /* b is of the other 8-bit format than a */

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
