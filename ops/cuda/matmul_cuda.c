/* Matrix products as library nodes: on the stream that they are given they put an algorithm of cuBLASLt or
 * one of rota's Hopper kernels, as measured (matmul_choice.c) or, where nothing was, by table: large products of uneven
 * rows by rota's kernels, others as cuBLASLt's heuristics have it. */
#include "ops/cuda/matmul_cuda.h"

#include "ops/cuda/matmul_choice.h"
#include "ops/cuda/matmul_tiles.h"

/* Multiplications of a launch that is worth its time, about 3 us, and a node. */
#define SMALL_LAUNCH (UINT64_C(1) << 24)
/* cuBLASLt's algorithms that split the sum want room for partial results. They pay where tiles of this side
 * leave multiprocessors idle. */
#define SPLIT_TILE 128u
#define SPLITS_MAX 16u
#define WORKSPACE_BYTES_MAX (UINT64_C(32) << 20)
#define WORKSPACE_STEP (UINT64_C(1) << 20)
#define HEURISTICS 8u
#define EVEN 16u /* bytes: ROTA_MATMUL_ALIGNED_16 */

static uint64_t workspace_of_cublaslt(const rota_matmul_params *p, const rota_cuda_target *target) {
    if (!rota_cublaslt_present()) return 0;
    const uint64_t batches = (uint64_t)p->batch[0] * p->batch[1] * p->batch[2];
    const uint64_t tiles =
        (uint64_t)((p->m + SPLIT_TILE - 1) / SPLIT_TILE) * ((p->n + SPLIT_TILE - 1) / SPLIT_TILE) * batches;
    if (tiles >= target->multiprocessors) return 0;
    const uint64_t partial = (uint64_t)p->m * p->n * batches * 4 * SPLITS_MAX;
    const uint64_t bytes = (partial + WORKSPACE_STEP - 1) / WORKSPACE_STEP * WORKSPACE_STEP;
    return bytes < WORKSPACE_BYTES_MAX ? bytes : WORKSPACE_BYTES_MAX;
}

/* Of whatever may yet be measured to be the fastest; by table, of what that takes. */
static uint64_t workspace_of_any(const rota_matmul_params *p, rota_dtype dtype,
                                 const rota_cuda_target *target) {
    const bool is_left_out = target->by_table && rota_cublaslt_present() && !rota_matmul_evened_by_table(p);
    const uint64_t by_cublaslt = workspace_of_cublaslt(p, target),
                   evened = is_left_out ? 0 : rota_matmul_evened_workspace(p, dtype, target);
    return by_cublaslt > evened ? by_cublaslt : evened;
}

uint64_t rota_cuda_product_workspace(const rota_matmul_params *p, rota_dtype dtype,
                                     const rota_cuda_target *target) {
    rota_matmul_params product = *p;
    rota_matmul_choice choice;
    bool measured = rota_matmul_choice_find(&product, dtype, target, &choice);
    if (measured && choice.way == ROTA_MATMUL_SEPARATELY) {
        product.flags &= ~(uint32_t)ROTA_LINEAR_EPILOGUE;
        measured = rota_matmul_choice_find(&product, dtype, target, &choice);
    }
    if (!measured) return workspace_of_any(&product, dtype, target);
    if (choice.way == ROTA_MATMUL_BY_CUBLASLT) return choice.algorithm.workspace_bytes;
    return choice.way == ROTA_MATMUL_BY_EVENED ? rota_matmul_evened_workspace(&product, dtype, target) : 0;
}

void rota_cuda_product_call_of(const rota_cuda_call *call, const rota_matmul_params *params,
                               const uint32_t indices[4], rota_cuda_product_call *out) {
    out->params = *params;
    out->call = *call;
    out->call.params = &out->params;
    out->call.operands = out->operands;
    out->call.operand_bytes = out->bytes;
    out->call.operand_count = call->operand_count > indices[3] ? 4 : 3;
    for (uint32_t i = 0; i < out->call.operand_count; i++) {
        out->operands[i] = call->operands[indices[i]];
        out->bytes[i] = call->operand_bytes[indices[i]];
    }
}

rota_status rota_cuda_call_cublaslt(const rota_cuda_call *call, rota_dtype dtype,
                                    const rota_cublaslt_extra *extra, const rota_matmul_choice *measured) {
    const uint64_t workspace = call->operand_count > 3 ? call->operands[3] : 0;
    const uint64_t bytes = call->operand_count > 3 ? call->operand_bytes[3] : 0;
    rota_cublaslt_product product;
    ROTA_TRY(rota_cublaslt_open(call->params, dtype, extra, &product));
    /* Where in memory a plan has its operands is no matter then: its parameters say when they lie unevenly. */
    if (call->target->by_table) product.alignment_max = EVEN;
    rota_status status = ROTA_UNSUPPORTED;
    if (measured)
        status =
            rota_cublaslt_run(&product, &measured->algorithm, call->operands, workspace, bytes, call->stream);
    /* Not measured, or these operands lie less even than those it was measured with. */
    if (status == ROTA_UNSUPPORTED) {
        rota_cublaslt_algorithm algorithms[HEURISTICS];
        uint32_t count;
        status = rota_cublaslt_candidates(&product, call->operands, bytes, algorithms, HEURISTICS, &count);
        if (status == ROTA_OK) status = ROTA_UNSUPPORTED;
        for (uint32_t i = 0; i < count && status == ROTA_UNSUPPORTED; i++) {
            status =
                rota_cublaslt_run(&product, &algorithms[i], call->operands, workspace, bytes, call->stream);
            if (status == ROTA_OK && !measured && rota_matmul_sm90_aligned(call->operands))
                rota_matmul_choice_keep(
                    call->params, dtype, call->target,
                    &(rota_matmul_choice){.way = ROTA_MATMUL_BY_CUBLASLT, .algorithm = algorithms[i]});
        }
    }
    rota_cublaslt_close(&product);
    return status;
}

static uint32_t cheapest_tile(const rota_matmul_params *p, const rota_cuda_target *target) {
    uint32_t best = 0;
    for (uint32_t t = 1; t < ROTA_MATMUL_SM90_TILE_COUNT; t++)
        if (rota_matmul_sm90_cost(p, target, t) < rota_matmul_sm90_cost(p, target, best)) best = t;
    return best;
}

rota_status rota_cuda_call_product(const rota_cuda_call *call, rota_dtype dtype) {
    const rota_matmul_params *p = call->params;
    rota_matmul_choice choice;
    const bool measured = rota_matmul_choice_find(p, dtype, call->target, &choice);
    const bool ours =
        rota_matmul_sm90_takes(p, dtype, call->target) && rota_matmul_sm90_aligned(call->operands);
    const bool evened = rota_matmul_evened_takes(p, dtype, call->target) && rota_matmul_evened_fits(call);
    if (measured && choice.way == ROTA_MATMUL_BY_SM90 && ours)
        return rota_matmul_sm90_run(call, dtype, choice.tile);
    if (measured && choice.way == ROTA_MATMUL_BY_EVENED && evened)
        return rota_matmul_evened_run(call, dtype, choice.tile);
    if (evened && call->target->by_table && rota_matmul_evened_by_table(p))
        return rota_matmul_evened_run(call, dtype, cheapest_tile(p, call->target));
    if (rota_cublaslt_present())
        return rota_cuda_call_cublaslt(call, dtype, NULL,
                                       measured && choice.way == ROTA_MATMUL_BY_CUBLASLT ? &choice : NULL);
    if (ours) return rota_matmul_sm90_run(call, dtype, cheapest_tile(p, call->target));
    if (evened) return rota_matmul_evened_run(call, dtype, cheapest_tile(p, call->target));
    return rota_fail(ROTA_UNSUPPORTED,
                     "a product %u x %u x %u of %s whose operands aren't at multiples of 16 bytes needs "
                     "cuBLASLt, which is "
                     "not there",
                     p->m, p->n, p->k, rota_dtype_name(dtype));
}

#define LIBRARY_KERNEL(kernel, dtype)                                                                        \
    static rota_status call_##kernel(const rota_cuda_call *call) {                                           \
        return rota_cuda_call_product(call, dtype);                                                          \
    }                                                                                                        \
    static rota_status tune_##kernel(const rota_cuda_call *call) {                                           \
        return rota_matmul_choice_measure(call, dtype, NULL);                                                \
    }                                                                                                        \
    static uint64_t workspace_##kernel(const void *params, const uint64_t *operand_bytes,                    \
                                       const rota_cuda_target *target) {                                     \
        (void)operand_bytes;                                                                                 \
        return rota_cuda_product_workspace(params, dtype, target);                                           \
    }                                                                                                        \
    static const rota_kernel kernel = {                                                                      \
        .name = #kernel,                                                                                     \
        .operand_count = 3,                                                                                  \
        .param_bytes = sizeof(rota_matmul_params),                                                           \
        .flags = ROTA_KERNEL_PURE,                                                                           \
        .cuda = {.call = call_##kernel, .tune = tune_##kernel, .workspace = workspace_##kernel},             \
    };
LIBRARY_KERNEL(matmul_library, ROTA_F32)
LIBRARY_KERNEL(matmul_f16_library, ROTA_F16)
LIBRARY_KERNEL(matmul_bf16_library, ROTA_BF16)

/* cuBLASLt takes batches along one axis in one launch, and those along another in one after the other: where
 * each does little, the general kernel, which takes all at once, is much the faster. */
static bool is_many_small_launches(const rota_matmul_params *p) {
    uint32_t count, outer[2];
    uint64_t stride[3], outer_stride[3][2];
    rota_cublaslt_batches(p, &count, stride, outer, outer_stride);
    return outer[0] * outer[1] > 1 && (uint64_t)p->m * p->n * p->k * count < SMALL_LAUNCH;
}

rota_cuda_product_way rota_cuda_judge_product(const rota_matmul_params *p, rota_dtype dtype,
                                              uint32_t slot_mask, const rota_cuda_target *target) {
    const uint64_t batches = (uint64_t)p->batch[0] * p->batch[1] * p->batch[2];
    if (batches == 0 || (uint64_t)p->m * p->n * p->k < ROTA_CUDA_SMALL_MULTIPLICATIONS / batches)
        return ROTA_CUDA_PRODUCT_SMALL;
    if (is_many_small_launches(p)) return ROTA_CUDA_PRODUCT_MANY;
    if (rota_cublaslt_present()) return ROTA_CUDA_PRODUCT_BY_LIBRARY;
    /* Without it nothing takes operands that turn out to lie uneven. */
    const bool even = (p->flags & ROTA_MATMUL_ALIGNED_16) && slot_mask == 0;
    return even && (rota_matmul_sm90_takes(p, dtype, target) || rota_matmul_evened_takes(p, dtype, target))
               ? ROTA_CUDA_PRODUCT_BY_LIBRARY
               : ROTA_CUDA_PRODUCT_NO_ONE;
}

static const rota_kernel *select_product(const rota_kernel *library, const rota_matmul_params *p,
                                         rota_dtype dtype, uint32_t slot_mask,
                                         const rota_cuda_target *target) {
    return rota_cuda_judge_product(p, dtype, slot_mask, target) == ROTA_CUDA_PRODUCT_BY_LIBRARY ? library
                                                                                                : NULL;
}

const rota_kernel *rota_cuda_select_matmul(const void *params, const uint64_t *operand_bytes,
                                           uint32_t slot_mask, const rota_cuda_target *target) {
    (void)operand_bytes;
    const rota_kernel *library = select_product(&matmul_library, params, ROTA_F32, slot_mask, target);
    return library ? library : rota_cuda_tile_matmul(params, target);
}

const rota_kernel *rota_cuda_select_matmul_f16(const void *params, const uint64_t *operand_bytes,
                                               uint32_t slot_mask, const rota_cuda_target *target) {
    (void)operand_bytes;
    const rota_kernel *library = select_product(&matmul_f16_library, params, ROTA_F16, slot_mask, target);
    return library ? library : rota_cuda_tile_matmul_f16(params, target);
}

const rota_kernel *rota_cuda_select_matmul_bf16(const void *params, const uint64_t *operand_bytes,
                                                uint32_t slot_mask, const rota_cuda_target *target) {
    (void)operand_bytes;
    const rota_kernel *library = select_product(&matmul_bf16_library, params, ROTA_BF16, slot_mask, target);
    return library ? library : rota_cuda_tile_matmul_bf16(params, target);
}
