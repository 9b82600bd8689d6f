/* The linear kernels as library nodes: a product by cuBLASLt, or by rota's Hopper kernel, with all that follows it in
 * its epilogue, whichever was measured to be the faster; where neither can, or both were slower so, the fastest
 * product and rota's kernels after it. */
#include "ops/cuda/linear_cuda.h"

#include "ops/cuda/image.h"
#include "ops/cuda/matmul_cuda.h"
#include "ops/cuda/matmul_sm90.h"
#include "ops/linear.h"

bool rota_linear_by_library(const rota_linear_params *p) {
    return rota_cublaslt_present() && (uint64_t)p->m * p->n * p->k >= ROTA_CUDA_SMALL_MULTIPLICATIONS;
}

uint64_t rota_cuda_workspace_linear(const void *params, const uint64_t *operand_bytes,
                                    const rota_cuda_target *target) {
    (void)operand_bytes;
    const rota_matmul_params product = rota_linear_product(params);
    return rota_cuda_product_workspace(&product, (rota_dtype)((const rota_linear_params *)params)->dtype,
                                       target);
}

static bool is_gradient(const rota_linear_params *p) {
    return (p->flags & (ROTA_LINEAR_SUMS_A | ROTA_LINEAR_SUMS_B)) != 0;
}

/* alone: without the epilogue, to where the parts have it. */
static void product_of(const rota_cuda_call *call, bool alone, rota_cuda_product_call *out) {
    const rota_linear_params *p = call->params;
    const uint32_t own =
        is_gradient(p) ? (uint32_t)ROTA_LINEAR_GRADIENT_OPERANDS : (uint32_t)ROTA_LINEAR_OPERANDS;
    const bool keeps = (p->flags & ROTA_LINEAR_KEEP) != 0;
    const uint32_t c = is_gradient(p)   ? ROTA_LINEAR_GRADIENT_OPERAND_C
                       : alone && keeps ? ROTA_LINEAR_OPERAND_KEPT
                                        : ROTA_LINEAR_OPERAND_Y;
    rota_matmul_params params = rota_linear_product(p);
    if (alone) params.flags &= ~(uint32_t)ROTA_LINEAR_EPILOGUE;
    rota_cuda_product_call_of(call, &params, (const uint32_t[]){0, 1, c, own}, out);
}

static rota_cublaslt_extra extra_of(const rota_cuda_call *call) {
    const rota_linear_params *p = call->params;
    if (is_gradient(p))
        return (rota_cublaslt_extra){.bias = call->operands[ROTA_LINEAR_GRADIENT_OPERAND_SUMS]};
    return (rota_cublaslt_extra){.bias = call->operands[ROTA_LINEAR_OPERAND_BIAS],
                                 .kept = call->operands[ROTA_LINEAR_OPERAND_KEPT],
                                 .residual = call->operands[ROTA_LINEAR_OPERAND_RESIDUAL]};
}

/* The parts, one after the other: the product its own fastest way. */
static rota_status call_separately(const rota_cuda_call *call) {
    const rota_linear_params *p = call->params;
    rota_kernel_part parts[ROTA_KERNEL_PARTS_MAX] = {0};
    const uint32_t count =
        is_gradient(p) ? rota_linear_gradient_parts(p, parts) : rota_linear_parts(p, parts);
    rota_cuda_product_call product;
    product_of(call, true, &product);
    ROTA_TRY(rota_cuda_call_product(&product.call, (rota_dtype)p->dtype));
    for (uint32_t i = 1; i < count; i++) {
        uint64_t operands[ROTA_KERNEL_OPERANDS_MAX], bytes[ROTA_KERNEL_OPERANDS_MAX];
        for (uint32_t o = 0; o < parts[i].operand_count; o++) {
            operands[o] = call->operands[parts[i].operand[o]];
            bytes[o] = call->operand_bytes[parts[i].operand[o]];
        }
        ROTA_TRY(rota_cuda_image_run(parts[i].kernel, call, operands, bytes, parts[i].params));
    }
    return ROTA_OK;
}

/* For what rota_linear_sm90_takes takes. */
static rota_status call_by_sm90(const rota_cuda_call *call) {
    const rota_linear_params *p = call->params;
    const rota_matmul_params product = rota_linear_product(p);
    const rota_linear_sm90_operands operands = {.a = call->operands[ROTA_LINEAR_OPERAND_X],
                                                .b = call->operands[ROTA_LINEAR_OPERAND_W],
                                                .c = call->operands[ROTA_LINEAR_OPERAND_Y],
                                                .kept = call->operands[ROTA_LINEAR_OPERAND_KEPT],
                                                .other = call->operands[ROTA_LINEAR_OPERAND_BIAS]};
    if (!rota_linear_sm90_aligned(&operands))
        return rota_fail(ROTA_UNSUPPORTED, "an operand of a linear layer is at no multiple of 16 bytes");
    return rota_linear_sm90_run(call, &product, (rota_dtype)p->dtype, false, &operands);
}

/* For what rota_linear_evened_takes takes. */
static rota_status call_by_evened(const rota_cuda_call *call) {
    rota_cuda_product_call product;
    rota_matmul_evened e;
    uint64_t moved[3];
    product_of(call, false, &product);
    if (!rota_matmul_evened_fits(&product.call) || call->operands[ROTA_LINEAR_OPERAND_KEPT] % 16 != 0)
        return rota_fail(ROTA_UNSUPPORTED, "an operand of a linear layer is at no multiple of 16 bytes, or "
                                           "there is no workspace to move it to");
    ROTA_TRY(rota_matmul_evened_move(&product.call, &e, moved));
    const rota_linear_sm90_operands operands = {.a = moved[0],
                                                .b = moved[1],
                                                .c = moved[2],
                                                .kept = call->operands[ROTA_LINEAR_OPERAND_KEPT],
                                                .other = call->operands[ROTA_LINEAR_OPERAND_BIAS]};
    return rota_linear_sm90_run(
        call, &e.params, (rota_dtype)((const rota_linear_params *)call->params)->dtype, false, &operands);
}

static rota_status call_linear(const rota_cuda_call *call) {
    const rota_linear_params *p = call->params;
    const rota_dtype dtype = (rota_dtype)p->dtype;
    if (!(p->flags & ROTA_LINEAR_EPILOGUE)) return call_separately(call); /* the product is all */
    rota_cuda_product_call fused;
    product_of(call, false, &fused);
    rota_matmul_choice choice;
    const bool measured = rota_matmul_choice_find(&fused.params, dtype, call->target, &choice);
    if (measured && choice.way == ROTA_MATMUL_SEPARATELY) return call_separately(call);
    if (measured && choice.way == ROTA_MATMUL_BY_SM90) {
        const rota_status done = call_by_sm90(call);
        if (done != ROTA_UNSUPPORTED) return done;
    }
    if (measured && choice.way == ROTA_MATMUL_BY_EVENED) {
        const rota_status done = call_by_evened(call);
        if (done != ROTA_UNSUPPORTED) return done;
    }
    const rota_cublaslt_extra extra = extra_of(call);
    rota_status status = rota_cuda_call_cublaslt(
        &fused.call, dtype, &extra, measured && choice.way == ROTA_MATMUL_BY_CUBLASLT ? &choice : NULL);
    return status == ROTA_UNSUPPORTED ? call_separately(call) : status;
}

static rota_status tune_linear(const rota_cuda_call *call) {
    const rota_dtype dtype = (rota_dtype)((const rota_linear_params *)call->params)->dtype;
    rota_cuda_product_call alone, fused;
    product_of(call, true, &alone);
    product_of(call, false, &fused);
    rota_matmul_choice choice;
    if (rota_matmul_choice_find(&fused.params, dtype, call->target, &choice) &&
        choice.way != ROTA_MATMUL_SEPARATELY)
        return ROTA_OK;
    ROTA_TRY(rota_matmul_choice_measure(&alone.call, dtype, NULL));
    if (!(fused.params.flags & ROTA_LINEAR_EPILOGUE)) return ROTA_OK;
    const rota_cublaslt_extra extra = extra_of(call);
    rota_matmul_measuring *measuring;
    ROTA_TRY(rota_matmul_measure_begin(&fused.call, dtype, &extra, call, &measuring));
    while (rota_matmul_measure_next(measuring, &choice))
        rota_matmul_measure_ran(measuring, choice.way == ROTA_MATMUL_SEPARATELY ? call_separately(call)
                                           : choice.way == ROTA_MATMUL_BY_SM90  ? call_by_sm90(call)
                                           : choice.way == ROTA_MATMUL_BY_EVENED
                                               ? call_by_evened(call)
                                               : rota_matmul_measure_put(measuring, &choice));
    return rota_matmul_measure_end(measuring);
}

void rota_cuda_why_linear(rota_text_out *out, const rota_linear_params *p, const rota_cuda_target *target) {
    const rota_dtype dtype = (rota_dtype)p->dtype;
    rota_matmul_params product = rota_linear_product(p);
    rota_matmul_choice choice;
    if (product.flags & ROTA_LINEAR_EPILOGUE) {
        rota_cuda_why_product(out, &product, dtype, target);
        if (rota_matmul_choice_find(&product, dtype, target, &choice) && choice.way != ROTA_MATMUL_SEPARATELY)
            return;
        rota_text_say(out, "the product by itself:\n");
    }
    product.flags &= ~(uint32_t)ROTA_LINEAR_EPILOGUE;
    rota_cuda_why_product(out, &product, dtype, target);
}

rota_status rota_cuda_call_linear(const rota_cuda_call *call) {
    return call_linear(call);
}

rota_status rota_cuda_tune_linear(const rota_cuda_call *call) {
    return tune_linear(call);
}

rota_status rota_cuda_call_linear_gradient(const rota_cuda_call *call) {
    return call_linear(call);
}

rota_status rota_cuda_tune_linear_gradient(const rota_cuda_call *call) {
    return tune_linear(call);
}
