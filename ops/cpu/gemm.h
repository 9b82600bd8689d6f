/* Matrix products of f32 on the calling thread. Internal. */
#ifndef ROTA_OPS_CPU_GEMM_H
#define ROTA_OPS_CPU_GEMM_H

#include "base/text_out.h"
#include "ops/cpu/cpu.h"

/* c [m, n] = alpha op(a) op(b) + beta c, row-major, on the calling thread only, by a BLAS, or by ours where
 * the BLAS does not know the CPU. beta 0: c is not read. */
void rota_cpu_sgemm(bool transpose_a, bool transpose_b, uint64_t m, uint64_t n, uint64_t k, float alpha,
                    const float *a, uint64_t lda, const float *b, uint64_t ldb, float beta, float *c,
                    uint64_t ldc);

/* By what that is, and why, as lines for rota_plan_explain_kernel. */
void rota_cpu_why_sgemm(rota_text_out *out, uint64_t longest);

/* The same by ours, with panels of `width` columns (32 or 16; 0: the widest that the CPU has); false, with
 * nothing done, on a CPU that has no kernels for it. */
bool rota_cpu_own_sgemm(uint64_t width, bool transpose_a, bool transpose_b, uint64_t m, uint64_t n,
                        uint64_t k, float alpha, const float *a, uint64_t lda, const float *b, uint64_t ldb,
                        float beta, float *c, uint64_t ldc);

#endif
