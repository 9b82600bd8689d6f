/* scaled_matmul as a library node: an algorithm of cuBLASLt, the one that was measured to be the fastest, or else the
 * first of its heuristics; and rota's kernel where at last it takes none of it. */
#include "ops/cuda/scaled_matmul_cuda.h"

#include "ops/cuda/image.h"
#include "ops/cuda/kernels_cuda.h"
#include "ops/cuda/matmul_cuda.h"

/* rota_kernel_scaled_matmul by its image alone. */
static const rota_kernel portable = {.name = "scaled_matmul",
                                     .operand_count = ROTA_SCALED_OPERANDS,
                                     .param_bytes = sizeof(rota_scaled_matmul_params),
                                     .cuda = {ROTA_CUDA_KERNEL(scaled_matmul, scaled_matmul)}};

/* What cuBLASLt's documentation asks of 8-bit floats: compute capability 8.9, operands whose rows are along the sum,
 * all at multiples of 16 bytes and of so many bytes; one of the two formats with less range; and for scales of rows 9.0
 * and version 12.9. */
#define CAPABILITY_LEAST 89u
#define CAPABILITY_BY_ROWS 90u
#define VERSION_BY_ROWS 120900u
#define EVEN 16u

static const char *refuses_layout(const rota_scaled_matmul_params *p, uint32_t slot_mask) {
    const uint32_t read =
        1u << ROTA_SCALED_A | 1u << ROTA_SCALED_B | 1u << ROTA_SCALED_BIAS_OPERAND | 1u << ROTA_SCALED_Y;
    if (!(p->flags & ROTA_SCALED_ALIGNED_16)) return "an operand begins at no multiple of 16 bytes";
    if (slot_mask & read) return "operands come from slots, and may lie uneven";
    if (p->k % EVEN != 0) return "k is not a multiple of 16";
    if (p->lda % EVEN != 0 || p->ldb % EVEN != 0)
        return "rows of an operand are not a multiple of 16 bytes apart";
    if ((uint64_t)p->n * rota_dtype_bytes((rota_dtype)p->y_dtype) % EVEN != 0)
        return "rows of the result are not a multiple of 16 bytes long";
    return NULL;
}

const char *rota_cuda_scaled_refuses(const rota_scaled_matmul_params *p, uint32_t slot_mask,
                                     const rota_cuda_target *target) {
    const bool by_rows = (p->flags & ROTA_SCALED_BY_ROWS) != 0;
    if (!rota_cublaslt_present()) return "cuBLASLt is not there";
    if (target->compute_capability < CAPABILITY_LEAST)
        return "the device is of a compute capability below 8.9";
    if (p->a_dtype == ROTA_F8_E5M2 && p->b_dtype == ROTA_F8_E5M2) return "both operands are f8_e5m2";
    if (by_rows && target->compute_capability != CAPABILITY_BY_ROWS)
        return "rows have their own scales, and the device is not of compute capability 9.0";
    if (by_rows && rota_cublaslt_version() < VERSION_BY_ROWS)
        return "rows have their own scales, which cuBLASLt takes from 12.9 on";
    if ((uint64_t)p->m * p->n * p->k < ROTA_CUDA_SMALL_MULTIPLICATIONS)
        return "it has too few multiplications to be worth a library's capture";
    return refuses_layout(p, slot_mask);
}

/* As a product that matmul_choice.c measures. */
static rota_matmul_params product_of(const rota_scaled_matmul_params *p) {
    return (rota_matmul_params){
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .lda = p->lda,
        .ldb = p->ldb,
        .ldc = p->n,
        .flags = ROTA_MATMUL_TRANSPOSE_B | ROTA_MATMUL_SCALED |
                 (p->flags & ROTA_SCALED_ALIGNED_16 ? ROTA_MATMUL_ALIGNED_16 : 0) |
                 (p->flags & ROTA_SCALED_BIAS ? ROTA_LINEAR_BIAS : 0) |
                 (p->flags & ROTA_SCALED_BY_ROWS ? ROTA_MATMUL_SCALED_BY_ROWS : 0) |
                 (p->a_dtype != p->b_dtype ? ROTA_MATMUL_OTHER_F8 : 0),
        .c_dtype = p->y_dtype,
        .alpha = 1.0f,
        .batch = {1, 1, 1},
    };
}

static void product_call_of(const rota_cuda_call *call, rota_cuda_product_call *out) {
    const rota_matmul_params params = product_of(call->params);
    rota_cuda_product_call_of(
        call, &params, (const uint32_t[]){ROTA_SCALED_A, ROTA_SCALED_B, ROTA_SCALED_Y, ROTA_SCALED_OPERANDS},
        out);
}

static rota_cublaslt_extra extra_of(const rota_cuda_call *call) {
    return (rota_cublaslt_extra){.bias = call->operands[ROTA_SCALED_BIAS_OPERAND],
                                 .scale_a = call->operands[ROTA_SCALED_SCALE_A],
                                 .scale_b = call->operands[ROTA_SCALED_SCALE_B]};
}

static rota_dtype dtype_of(const rota_cuda_call *call) {
    return (rota_dtype)((const rota_scaled_matmul_params *)call->params)->a_dtype;
}

rota_status rota_cuda_call_scaled_matmul(const rota_cuda_call *call) {
    const rota_cublaslt_extra extra = extra_of(call);
    rota_cuda_product_call product;
    rota_matmul_choice choice;
    product_call_of(call, &product);
    const bool measured = rota_matmul_choice_find(&product.params, dtype_of(call), call->target, &choice) &&
                          choice.way == ROTA_MATMUL_BY_CUBLASLT;
    const rota_status status = call->again ? ROTA_UNSUPPORTED
                                           : rota_cuda_call_cublaslt(&product.call, dtype_of(call), &extra,
                                                                     measured ? &choice : NULL);
    if (status != ROTA_UNSUPPORTED) return status;
    return rota_cuda_image_run(&portable, call, call->operands, call->operand_bytes, call->params);
}

rota_status rota_cuda_tune_scaled_matmul(const rota_cuda_call *call) {
    const rota_cublaslt_extra extra = extra_of(call);
    rota_cuda_product_call product;
    product_call_of(call, &product);
    return rota_matmul_choice_measure(&product.call, dtype_of(call), &extra);
}

static uint64_t workspace_bytes(const void *params, const uint64_t *operand_bytes,
                                const rota_cuda_target *target) {
    const rota_matmul_params product = product_of(params);
    (void)operand_bytes;
    return rota_cuda_product_workspace(
        &product, (rota_dtype)((const rota_scaled_matmul_params *)params)->a_dtype, target);
}

const rota_kernel *rota_cuda_select_scaled_matmul(const void *params, const uint64_t *operand_bytes,
                                                  uint32_t slot_mask, const rota_cuda_target *target) {
    static const rota_kernel library = {
        .name = "scaled_matmul_library",
        .operand_count = ROTA_SCALED_OPERANDS,
        .param_bytes = sizeof(rota_scaled_matmul_params),
        .flags = ROTA_KERNEL_PURE,
        .cuda = {.call = rota_cuda_call_scaled_matmul,
                 .tune = rota_cuda_tune_scaled_matmul,
                 .workspace = workspace_bytes},
    };
    (void)operand_bytes;
    return rota_cuda_scaled_refuses(params, slot_mask, target) ? NULL : &library;
}

void rota_cuda_why_scaled_matmul(rota_text_out *out, const rota_kernel_use *use) {
    const rota_scaled_matmul_params *p = use->params;
    const char *refuses = rota_cuda_scaled_refuses(p, use->slot_mask, use->target);
    if (!refuses) {
        const rota_matmul_params product = product_of(p);
        rota_cuda_why_product(out, &product, (rota_dtype)p->a_dtype, use->target);
        return;
    }
    rota_text_say(out,
                  "runs: rota's portable CUDA kernel 'scaled_matmul', which uses no matrix units\n"
                  "left out: cuBLASLt: %s\n",
                  refuses);
}
