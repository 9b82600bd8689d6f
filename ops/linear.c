/* The kernels linear and linear_gradient: one call of a library on CUDA devices, and elsewhere the kernels
 * that together compute the same. */
#include "ops/linear.h"

#include "graph/graph.h"
#include "ops/cuda/kernels_cuda.h"
#include "ops/cuda/linear_cuda.h"
#include "ops/kernel_objects.h"
#include "ops/kernel_parts.h"

rota_matmul_params rota_linear_product(const rota_linear_params *p) {
    return (rota_matmul_params){
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .lda = p->lda,
        .ldb = p->ldb,
        .ldc = p->n,
        .flags = p->flags,
        .c_dtype = p->dtype,
        .alpha = 1.0f,
        .batch = {1, 1, 1},
    };
}

static const rota_kernel *product_kernel(uint32_t dtype) {
    return dtype == ROTA_F16    ? &rota_kernel_matmul_f16
           : dtype == ROTA_BF16 ? &rota_kernel_matmul_bf16
                                : &rota_kernel_matmul;
}

/* One more part: a kernel on these of the node's operands, of which it writes the last. */
#define ADD(KERNEL, PARAMS, ...)                                                                             \
    rota_kernel_part_fill((KERNEL), (PARAMS), (const uint8_t[]){__VA_ARGS__}, 1, &parts[(*count)++])

static void add_product(const rota_linear_params *p, uint8_t to, rota_kernel_part *parts, uint32_t *count) {
    rota_matmul_params params = rota_linear_product(p);
    params.flags &= ~(uint32_t)ROTA_LINEAR_EPILOGUE;
    ADD(product_kernel(p->dtype), &params, 0, 1, to);
    if (p->flags & ROTA_MATMUL_ACCUMULATE) parts[*count - 1].mode[2] = ROTA_READWRITE;
}

/* to = from (op) operand: with a bias, which repeats by rows, or with a residual. */
static void add_binary(const rota_linear_params *p, rota_binary op, uint8_t from, uint8_t operand, uint8_t to,
                       rota_kernel_part *parts, uint32_t *count) {
    const bool by_rows = operand == ROTA_LINEAR_OPERAND_BIAS;
    const rota_binary_params params = {
        .count = p->m * p->n,
        .op = op,
        .shape = {1, 1, 1, 1, by_rows ? p->m : 1, by_rows ? p->n : p->m * p->n},
        .b_stride = {[ROTA_KERNEL_DIMS - 1] = 1},
        .dtype = p->dtype,
    };
    ADD(&rota_kernel_binary, &params, from, operand, to);
}

uint32_t rota_linear_parts(const rota_linear_params *p, rota_kernel_part *parts) {
    uint32_t count = 0;
    const bool keeps = (p->flags & ROTA_LINEAR_KEEP) != 0, has_bias = (p->flags & ROTA_LINEAR_BIAS) != 0;
    const uint8_t y = ROTA_LINEAR_OPERAND_Y, product = keeps ? ROTA_LINEAR_OPERAND_KEPT : y;
    const bool is_gelu = (p->flags & ROTA_LINEAR_GELU) != 0;
    add_product(p, product, parts, &count);
    const bool at_once = is_gelu && has_bias && !keeps;
    if (has_bias)
        add_binary(p, at_once ? ROTA_BINARY_ADD_GELU : ROTA_BINARY_ADD, product, ROTA_LINEAR_OPERAND_BIAS,
                   product, parts, &count);
    if (p->flags & ROTA_LINEAR_RELU || (is_gelu && !at_once)) {
        const rota_unary_params params = {
            .count = p->m * p->n, .op = is_gelu ? ROTA_UNARY_GELU : ROTA_UNARY_RELU, .dtype = p->dtype};
        rota_kernel_part_fill(&rota_kernel_unary, &params, (const uint8_t[]){product, y}, 1, &parts[count++]);
    }
    if (p->flags & ROTA_LINEAR_RESIDUAL)
        add_binary(p, ROTA_BINARY_ADD, y, ROTA_LINEAR_OPERAND_RESIDUAL, y, parts, &count);
    return count;
}

static void add_reduce(uint32_t n, uint32_t inner, uint32_t chunk, uint32_t from_dtype, uint32_t to_dtype,
                       uint8_t from, uint8_t to, rota_kernel_part *parts, uint32_t *count) {
    const rota_reduce_params params = {.op = ROTA_REDUCE_SUM,
                                       .outer = 1,
                                       .n = n,
                                       .inner = inner,
                                       .chunk = chunk,
                                       .scale = 1.0f,
                                       .from = from_dtype,
                                       .to = to_dtype};
    ADD(&rota_kernel_reduce, &params, from, to);
}

uint32_t rota_linear_gradient_parts(const rota_linear_params *p, rota_kernel_part *parts) {
    uint32_t count = 0;
    const bool of_a = (p->flags & ROTA_LINEAR_SUMS_A) != 0;
    const uint8_t summed = of_a ? ROTA_LINEAR_GRADIENT_OPERAND_A : ROTA_LINEAR_GRADIENT_OPERAND_B;
    const uint32_t columns = of_a ? p->m : p->n;
    add_product(p, ROTA_LINEAR_GRADIENT_OPERAND_C, parts, &count);
    const uint8_t sums = ROTA_LINEAR_GRADIENT_OPERAND_SUMS, partial = ROTA_LINEAR_GRADIENT_OPERAND_PARTIAL;
    if (p->chunk >= p->k) {
        add_reduce(p->k, columns, p->k, p->dtype, p->dtype, summed, sums, parts, &count);
        return count;
    }
    const uint32_t pieces = (p->k - 1) / p->chunk + 1;
    add_reduce(p->k, columns, p->chunk, p->dtype, ROTA_F32, summed, partial, parts, &count);
    add_reduce(pieces, columns, pieces, ROTA_F32, p->dtype, partial, sums, parts, &count);
    return count;
}

static uint32_t parts_linear(rota_exec_kind kind, const void *params, const uint64_t *operand_bytes,
                             uint32_t slot_mask, const rota_cuda_target *target,
                             rota_kernel_part out_parts[ROTA_KERNEL_PARTS_MAX]) {
    (void)operand_bytes, (void)slot_mask;
    if (kind == ROTA_EXEC_CUDA && target && rota_linear_by_library(params)) return 0;
    return rota_linear_parts(params, out_parts);
}

/* Sums in the epilogue of a product read nothing anew, but slow it down; those of what the second level's cache
 * doesn't hold are kernels of their own, which run beside the product. */
static bool sums_run_beside(const rota_linear_params *p, const rota_cuda_target *target) {
    const uint64_t columns = p->flags & ROTA_LINEAR_SUMS_A ? p->m : p->n,
                   bytes = (uint64_t)p->k * columns * rota_dtype_bytes((rota_dtype)p->dtype);
    return target->l2_bytes && bytes > target->l2_bytes / 2;
}

static uint32_t parts_gradient(rota_exec_kind kind, const void *params, const uint64_t *operand_bytes,
                               uint32_t slot_mask, const rota_cuda_target *target,
                               rota_kernel_part out_parts[ROTA_KERNEL_PARTS_MAX]) {
    (void)operand_bytes, (void)slot_mask;
    if (kind == ROTA_EXEC_CUDA && target && rota_linear_by_library(params) &&
        !sums_run_beside(params, target))
        return 0;
    return rota_linear_gradient_parts(params, out_parts);
}

static double work(const void *params, const uint64_t *operand_bytes) {
    const rota_linear_params *p = params;
    (void)operand_bytes;
    return 2.0 * p->m * p->n * p->k;
}

static uint32_t parts_gelu(rota_exec_kind kind, const void *params, const uint64_t *operand_bytes,
                           uint32_t slot_mask, const rota_cuda_target *target,
                           rota_kernel_part out_parts[ROTA_KERNEL_PARTS_MAX]) {
    (void)operand_bytes, (void)slot_mask;
    const rota_linear_params *p = params;
    const rota_unary_params unary = {.count = p->m * p->n, .op = ROTA_UNARY_GELU, .dtype = p->dtype};
    static const uint8_t operands[] = {ROTA_LINEAR_GELU_OPERAND_KEPT, ROTA_LINEAR_GELU_OPERAND_DY,
                                       ROTA_LINEAR_GELU_OPERAND_DZ};
    uint32_t count = 1;
    if (kind == ROTA_EXEC_CUDA && target && p->dtype != ROTA_F32 && p->n % 8 == 0) return 0;
    rota_kernel_part_fill(&rota_kernel_unary_backward, &unary, operands, 1, &out_parts[0]);
    add_reduce(p->m, p->n, p->chunk, p->dtype, ROTA_F32, ROTA_LINEAR_GELU_OPERAND_DZ,
               ROTA_LINEAR_GELU_OPERAND_PARTIAL, out_parts, &count);
    return count;
}

/* A product and what follows it: on CUDA devices one library node. A plan has the parts themselves elsewhere. */
static uint64_t why_linear(void *user, const rota_kernel_use *use, char *text, uint64_t capacity) {
    rota_text_out out = {text, capacity, 0};
    (void)user;
    if (use->kind == ROTA_EXEC_CUDA) rota_cuda_why_linear(&out, use->params, use->target);
    return out.length;
}
static const rota_kernel_functions functions = {.struct_size = sizeof(rota_kernel_functions),
                                                .why = why_linear};

const rota_kernel rota_kernel_linear = {
    .name = "linear",
    .operand_count = ROTA_LINEAR_OPERANDS,
    .param_bytes = sizeof(rota_linear_params),
    .flags = ROTA_KERNEL_PURE | ROTA_KERNEL_HAS_FUNCTIONS,
    .work = work,
    .parts = parts_linear,
    .cuda = ROTA_CUDA_LINEAR(linear),
    .functions = &functions,
};
const rota_kernel rota_kernel_linear_gradient = {
    .name = "linear_gradient",
    .operand_count = ROTA_LINEAR_GRADIENT_OPERANDS,
    .param_bytes = sizeof(rota_linear_params),
    .flags = ROTA_KERNEL_PURE | ROTA_KERNEL_HAS_FUNCTIONS,
    .work = work,
    .parts = parts_gradient,
    .cuda = ROTA_CUDA_LINEAR(linear_gradient),
    .functions = &functions,
};
const rota_kernel rota_kernel_linear_gelu_gradient = {
    .name = "linear_gelu_gradient",
    .operand_count = ROTA_LINEAR_GELU_OPERANDS,
    .param_bytes = sizeof(rota_linear_params),
    .flags = ROTA_KERNEL_PURE,
    .inplace_outputs = 1u << ROTA_LINEAR_GELU_OPERAND_DZ,
    .inplace_inputs = 1u << ROTA_LINEAR_GELU_OPERAND_DY,
    .parts = parts_gelu,
    .cuda = {ROTA_CUDA_KERNEL(linear_gelu_gradient, gelu)},
};
