/* gelu_product as a library node: rota's Hopper product with GELU's gradient behind it, or, where that was
 * measured to be faster, the fastest product alone and then the kernel linear_gelu_gradient in its place. */
#include "ops/cuda/gelu_product_cuda.h"

#include <string.h>

#include "ops/cuda/choices.h"
#include "ops/cuda/image.h"
#include "ops/cuda/linear_cuda.h"
#include "ops/cuda/matmul_choice.h"
#include "ops/cuda/matmul_cuda.h"
#include "ops/cuda/measure.h"
#include "ops/kernel_objects.h"
#include "ops/linear.h"

enum { A, B, KEPT, DZ, PARTIAL, OWN };
enum { AT_ONCE, SEPARATELY, WAYS };

/* Kept in files: plain bytes. */
typedef struct choice {
    uint32_t way;
} choice;

static void key_of(const rota_cuda_call *call, char out_key[ROTA_CHOICE_KEY_MAX]) {
    static const char prefix[] = "gelu of ";
    const rota_linear_params *p = call->params;
    const rota_matmul_params product = rota_linear_product(p);
    memcpy(out_key, prefix, sizeof prefix);
    rota_matmul_choice_key(&product, (rota_dtype)p->dtype, call->target, out_key + sizeof prefix - 1,
                           ROTA_CHOICE_KEY_MAX - sizeof prefix + 1);
}

static rota_status call_at_once(const rota_cuda_call *call) {
    const rota_linear_params *p = call->params;
    const rota_matmul_params product = rota_linear_product(p);
    const rota_linear_sm90_operands operands = {.a = call->operands[A],
                                                .b = call->operands[B],
                                                .c = call->operands[DZ],
                                                .kept = call->operands[KEPT],
                                                .other = call->operands[PARTIAL]};
    if (!rota_linear_sm90_aligned(&operands))
        return rota_fail(ROTA_UNSUPPORTED,
                         "an operand of a product with GELU's gradient is at no multiple of 16 bytes");
    return rota_linear_sm90_run(call, &product, (rota_dtype)p->dtype, true, &operands);
}

/* The product alone, to where dz is going to be. */
static void product_of(const rota_cuda_call *call, rota_cuda_product_call *out) {
    const rota_matmul_params params = rota_linear_product(call->params);
    rota_cuda_product_call_of(call, &params, (const uint32_t[]){A, B, DZ, OWN}, out);
}

static rota_status call_separately(const rota_cuda_call *call) {
    const rota_linear_params *p = call->params;
    const rota_linear_params gradient = {.m = p->m, .n = p->n, .dtype = p->dtype, .chunk = p->chunk};
    const uint32_t indices[ROTA_LINEAR_GELU_OPERANDS] = {KEPT, DZ, DZ, PARTIAL};
    uint64_t operands[ROTA_LINEAR_GELU_OPERANDS], bytes[ROTA_LINEAR_GELU_OPERANDS];
    rota_cuda_product_call product;
    product_of(call, &product);
    ROTA_TRY(rota_cuda_call_product(&product.call, (rota_dtype)p->dtype));
    for (uint32_t i = 0; i < ROTA_LINEAR_GELU_OPERANDS; i++) {
        operands[i] = call->operands[indices[i]];
        bytes[i] = call->operand_bytes[indices[i]];
    }
    return rota_cuda_image_run(&rota_kernel_linear_gelu_gradient, call, operands, bytes, &gradient);
}

static rota_status call_gelu_product(const rota_cuda_call *call) {
    char key[ROTA_CHOICE_KEY_MAX];
    choice chosen = {AT_ONCE};
    key_of(call, key);
    if (!rota_choices_find(call->target->cache_dir, key, &chosen, sizeof chosen))
        rota_choices_remember(NULL, key, &chosen, sizeof chosen); /* before a measurement as after it */
    rota_status status = chosen.way == AT_ONCE ? call_at_once(call) : ROTA_UNSUPPORTED;
    return status == ROTA_UNSUPPORTED ? call_separately(call) : status;
}

static rota_status tune_gelu_product(const rota_cuda_call *call) {
    const rota_dtype dtype = (rota_dtype)((const rota_linear_params *)call->params)->dtype;
    char key[ROTA_CHOICE_KEY_MAX];
    choice chosen;
    rota_cuda_product_call product;
    key_of(call, key);
    if (rota_choices_find(call->target->cache_dir, key, &chosen, sizeof chosen) && chosen.way == AT_ONCE)
        return ROTA_OK;
    product_of(call, &product);
    ROTA_TRY(rota_matmul_choice_measure(&product.call, dtype, NULL));
    if (rota_choices_find(call->target->cache_dir, key, &chosen, sizeof chosen)) return ROTA_OK;
    ROTA_TRY(rota_measure_fill((CUstream)call->stream, dtype, call->operands, call->operand_bytes, PARTIAL));
    rota_measure *measure;
    uint32_t way;
    ROTA_TRY(rota_measure_begin((CUstream)call->stream, WAYS, &measure));
    while (rota_measure_next(measure, &way))
        rota_measure_ran(measure, way == AT_ONCE ? call_at_once(call) : call_separately(call));
    ROTA_TRY(rota_measure_end(measure, &chosen.way));
    rota_choices_remember(call->target->cache_dir, key, &chosen, sizeof chosen);
    return ROTA_OK;
}

static double work(const void *params, const uint64_t *operand_bytes) {
    const rota_linear_params *p = params;
    (void)operand_bytes;
    return 2.0 * p->m * p->n * p->k;
}

const rota_kernel rota_cuda_gelu_product = {
    .name = "gelu_product",
    .operand_count = ROTA_CUDA_GELU_PRODUCT_OPERANDS,
    .param_bytes = sizeof(rota_linear_params),
    .flags = ROTA_KERNEL_PURE,
    .work = work,
    .cuda = {.call = call_gelu_product, .tune = tune_gelu_product, .workspace = rota_cuda_workspace_linear},
};

bool rota_cuda_gelu_product_takes(const rota_linear_params *p, const rota_cuda_target *target) {
    const rota_matmul_params product = rota_linear_product(p);
    return target && rota_linear_by_library(p) && rota_kernel_linear_gelu_gradient.cuda.image &&
           p->chunk == ROTA_LINEAR_SM90_ROWS &&
           rota_linear_sm90_takes_gradient(&product, (rota_dtype)p->dtype, target);
}
