/* Matrix products on CUDA devices beyond the portable kernels: rota_kernel.cuda.select of matmul, matmul_f16
 * and matmul_bf16. Internal; not installed. */
#ifndef ROTA_OPS_CUDA_MATMUL_CUDA_H
#define ROTA_OPS_CUDA_MATMUL_CUDA_H

#include "base/text_out.h"
#include "graph/kernel_functions.h"
#include "ops/cuda/matmul_choice.h"

const rota_kernel *rota_cuda_select_matmul(const void *params, const uint64_t *operand_bytes,
                                           uint32_t slot_mask, const rota_cuda_target *target);
const rota_kernel *rota_cuda_select_matmul_f16(const void *params, const uint64_t *operand_bytes,
                                               uint32_t slot_mask, const rota_cuda_target *target);
const rota_kernel *rota_cuda_select_matmul_bf16(const void *params, const uint64_t *operand_bytes,
                                                uint32_t slot_mask, const rota_cuda_target *target);

/* Products with less arithmetic than this gain nothing from a vendor's kernels, and cost a capture each. */
#define ROTA_CUDA_SMALL_MULTIPLICATIONS (UINT64_C(1) << 18)

/* Whether a product becomes a library node, or why not. */
typedef enum rota_cuda_product_way {
    ROTA_CUDA_PRODUCT_BY_LIBRARY,
    ROTA_CUDA_PRODUCT_SMALL, /* fewer than ROTA_CUDA_SMALL_MULTIPLICATIONS */
    ROTA_CUDA_PRODUCT_MANY,  /* batches that cuBLASLt would take in many small launches */
    ROTA_CUDA_PRODUCT_NO_ONE /* no cuBLASLt, and none of rota's Hopper kernels takes it */
} rota_cuda_product_way;
rota_cuda_product_way rota_cuda_judge_product(const rota_matmul_params *params, rota_dtype dtype,
                                              uint32_t slot_mask, const rota_cuda_target *target);

/* rota_kernel_functions.why of matmul, matmul_f16, matmul_bf16 on CUDA devices (matmul_why.c). */
void rota_cuda_why_matmul(rota_text_out *out, const rota_kernel_use *use, rota_dtype dtype);
/* The same of a product that is a library node, with an epilogue where the flags name one. */
void rota_cuda_why_product(rota_text_out *out, const rota_matmul_params *params, rota_dtype dtype,
                           const rota_cuda_target *target);

/* Puts the product (parameters of matmul) on the call's stream, the measured way or another. */
rota_status rota_cuda_call_product(const rota_cuda_call *call, rota_dtype dtype);
/* By cuBLASLt, with an epilogue where the parameters' flags name one (`extra` may be NULL else); `measured`
 * may be NULL. UNSUPPORTED: it takes none of it. */
rota_status rota_cuda_call_cublaslt(const rota_cuda_call *call, rota_dtype dtype,
                                    const rota_cublaslt_extra *extra, const rota_matmul_choice *measured);
/* The call of a product that is part of a kernel's: of those of its operands, a, b, c, and the workspace where it
 * has that. Points into itself. */
typedef struct rota_cuda_product_call {
    rota_matmul_params params;
    uint64_t operands[4], bytes[4];
    rota_cuda_call call;
} rota_cuda_product_call;
void rota_cuda_product_call_of(const rota_cuda_call *call, const rota_matmul_params *params,
                               const uint32_t indices[4], rota_cuda_product_call *out_product);

/* Bytes of workspace that a product's library node asks for: where its way is known, what that wants; before it is
 * measured, the most that any of them wants. */
uint64_t rota_cuda_product_workspace(const rota_matmul_params *params, rota_dtype dtype,
                                     const rota_cuda_target *target);

#endif
