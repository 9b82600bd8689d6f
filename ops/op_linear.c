/* Ops: linear, linear_gelu, linear_relu: a matrix product and what follows it as one node. */
#include "ops/gradient.h"
#include "ops/kernel_objects.h"
#include "ops/linear.h"
#include "ops/op.h"
#include "ops/op_matmul.h"
#include "ops/op_rules.h"
#include "ops/record.h"

#include <string.h>

enum { LINEAR, GELU, RELU };
enum { X, W, BIAS, RESIDUAL };

static uint32_t inputs_of(const rota_op *op) {
    return op == &rota_ops_linear[LINEAR] ? 4 : 3;
}

static rota_status fail_shapes(const rota_op_use *use, uint32_t input, const char *expected) {
    char text[ROTA_TENSOR_TEXT_MAX], x[ROTA_TENSOR_TEXT_MAX], w[ROTA_TENSOR_TEXT_MAX];
    rota_tensor_describe(&use->inputs[X], x, sizeof x);
    rota_tensor_describe(&use->inputs[W], w, sizeof w);
    const char *transposed = use->attributes.transpose_b ? " transposed" : "";
    if (input <= W)
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "x is %s, w is %s%s; expected %s", x, w,
                            transposed, expected);
    return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "x is %s, w is %s%s, %s is %s; expected %s", x, w,
                        transposed, use->op->input_names[input],
                        rota_tensor_describe(&use->inputs[input], text, sizeof text), expected);
}

static rota_status shape_linear(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *x = &use->inputs[X], *w = &use->inputs[W], *bias = &use->inputs[BIAS];
    const bool transposed = use->attributes.transpose_b;
    rota_dtype dtype;
    ROTA_TRY(rota_shape_require_real(use, (1u << inputs_of(use->op)) - 1, &dtype));
    if (x->rank < 1 || w->rank != 2) return fail_shapes(use, W, "x [..., k] and w of two axes");
    if (x->shape[x->rank - 1] != w->shape[transposed])
        return fail_shapes(use, W, "the last axis of x to be as long as the one of w that is summed");
    uint64_t shape[ROTA_RANK_MAX];
    memcpy(shape, x->shape, sizeof shape);
    const uint64_t n = shape[x->rank - 1] = w->shape[!transposed];
    ROTA_TRY(rota_tensor_of(NULL, 0, dtype, x->rank, shape, out));
    if (rota_tensor_count(out) > UINT32_MAX || rota_tensor_count(x) > UINT32_MAX)
        return fail_shapes(use, X, "at most 2^32 - 1 elements of x and of the result");
    if (bias->buffer && (bias->rank != 1 || bias->shape[0] != n))
        return fail_shapes(use, BIAS, "a bias of one axis, as long as w has columns");
    if (inputs_of(use->op) > RESIDUAL && use->inputs[RESIDUAL].buffer &&
        !rota_shapes_equal(&use->inputs[RESIDUAL], out))
        return fail_shapes(use, RESIDUAL, "a residual of the shape of the result");
    return ROTA_OK;
}

/* All leading axes as rows, which may need a copy. */
static rota_status as_rows(rota_tape *tape, const rota_tensor *x, rota_tensor *out) {
    const uint64_t columns = x->shape[x->rank - 1];
    const uint64_t shape[] = {rota_tensor_count(x) / columns, columns};
    if (rota_tensor_reshape(x, 2, shape, out) == ROTA_OK) return ROTA_OK;
    rota_tensor whole;
    ROTA_TRY(rota_record_contiguous(tape, x, &whole));
    return rota_tensor_reshape(&whole, 2, shape, out);
}

static bool is_aligned(const rota_tensor *a, const rota_tensor *b, const rota_tensor *c) {
    return (a->offset_bytes | b->offset_bytes | c->offset_bytes) % 16 == 0;
}

/* What stands before GELU is kept where the tape remembers, and else where the caller has it put, if anywhere. */
static rota_status keep(rota_tape *tape, rota_op_use *use) {
    const rota_tensor *y = &use->outputs[0];
    rota_tensor *kept = &use->attributes.kept;
    if (tape->remember) return rota_tape_temporary(tape, "before gelu", y->dtype, y->rank, y->shape, kept);
    char text[ROTA_TENSOR_TEXT_MAX], of_y[ROTA_TENSOR_TEXT_MAX];
    if (!kept->buffer) return ROTA_OK;
    if (kept->dtype != y->dtype || !rota_shapes_equal(kept, y) || !rota_tensor_is_contiguous(kept))
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT,
                            "kept is %s, the result is %s; expected one shape and dtype, contiguous",
                            rota_tensor_describe(kept, text, sizeof text),
                            rota_tensor_describe(y, of_y, sizeof of_y));
    bool apart = !rota_tensors_overlap(kept, y);
    for (uint32_t i = 0; i < use->input_count; i++)
        apart = apart && !(use->inputs[i].buffer && rota_tensors_overlap(kept, &use->inputs[i]));
    if (!apart)
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT,
                            "kept is %s; expected memory that neither the result nor an operand has",
                            rota_tensor_describe(kept, text, sizeof text));
    return ROTA_OK;
}

static rota_status record_linear(rota_tape *tape, rota_op_use *use) {
    const rota_tensor *bias = &use->inputs[BIAS], *y = &use->outputs[0];
    const rota_tensor *residual =
        inputs_of(use->op) > RESIDUAL && use->inputs[RESIDUAL].buffer ? &use->inputs[RESIDUAL] : NULL;
    rota_tensor x, w, even_bias, even_residual;
    bool x_transposed, w_transposed;
    uint64_t lda, ldb;
    ROTA_TRY(as_rows(tape, &use->inputs[X], &x));
    ROTA_TRY(rota_record_matrix(tape, &x, &x, &x_transposed, &lda));
    ROTA_TRY(rota_record_matrix(tape, &use->inputs[W], &w, &w_transposed, &ldb));
    if (use->attributes.transpose_b) w_transposed = !w_transposed;
    rota_access accesses[] = {rota_tensor_access(&x, ROTA_READ), rota_tensor_access(&w, ROTA_READ),
                              rota_tensor_access(&x, ROTA_READ), rota_tensor_access(&x, ROTA_READ),
                              rota_tensor_access(&x, ROTA_READ), rota_tensor_write(y)};
    rota_linear_params params = {
        .m = (uint32_t)x.shape[0],
        .n = (uint32_t)y->shape[y->rank - 1],
        .k = (uint32_t)x.shape[1],
        .lda = (uint32_t)lda,
        .ldb = (uint32_t)ldb,
        .flags = (x_transposed ? ROTA_MATMUL_TRANSPOSE_A : 0) | (w_transposed ? ROTA_MATMUL_TRANSPOSE_B : 0) |
                 (is_aligned(&x, &w, y) ? ROTA_MATMUL_ALIGNED_16 : 0),
        .dtype = y->dtype,
    };
    if (bias->buffer) {
        ROTA_TRY(rota_record_contiguous(tape, bias, &even_bias));
        accesses[2] = rota_tensor_access(&even_bias, ROTA_READ);
        params.flags |= ROTA_LINEAR_BIAS;
    }
    if (residual) {
        ROTA_TRY(rota_record_contiguous(tape, residual, &even_residual));
        accesses[3] = rota_tensor_access(&even_residual, ROTA_READ);
        params.flags |= ROTA_LINEAR_RESIDUAL;
    }
    if (use->op == &rota_ops_linear[RELU]) params.flags |= ROTA_LINEAR_RELU;
    if (use->op == &rota_ops_linear[GELU]) {
        params.flags |= ROTA_LINEAR_GELU;
        ROTA_TRY(keep(tape, use));
        if (use->attributes.kept.buffer) {
            accesses[4] = rota_tensor_write(&use->attributes.kept);
            params.flags |= ROTA_LINEAR_KEEP;
            if (use->attributes.kept.offset_bytes % 16 != 0) params.flags &= ~ROTA_MATMUL_ALIGNED_16;
        }
    }
    return rota_tape_kernel(tape, &rota_kernel_linear, accesses, 6, &params, NULL, 0);
}

/* ---- Gradient ---- */

/* Rows of a chunk whose columns gelu_gradient sums: of many, those of a tile of a product that has the sums with it
 * (ops/cuda/linear_sm90.cuh); of few, so that each of a large device's workers has a chunk; of very many, so that few
 * sums are to be added up. */
#define GELU_CHUNK 128u
#define GELU_ROWS_MANY 2048u
#define GELU_CHUNKS 128u
#define GELU_CHUNKS_MOST 1024u
#define GELU_CHUNK_LEAST 8u

static uint64_t gelu_chunk(uint64_t rows) {
    if (rows >= GELU_ROWS_MANY) {
        const uint64_t share = rows / GELU_CHUNKS_MOST / GELU_CHUNK * GELU_CHUNK;
        return share < GELU_CHUNK ? GELU_CHUNK : share;
    }
    const uint64_t share = rows / GELU_CHUNKS / GELU_CHUNK_LEAST * GELU_CHUNK_LEAST;
    return share < GELU_CHUNK_LEAST ? GELU_CHUNK_LEAST : share;
}

/* dz = dy through GELU at what was kept, with the bias' gradient, which is the sum of its rows. */
static rota_status gelu_gradient(rota_tape *tape, const rota_op_use *use, const rota_tensor *kept,
                                 const rota_tensor *dy, const rota_tensor *dz) {
    const rota_tensor *bias = &use->inputs[BIAS];
    rota_tensor partial;
    rota_gradient_write write;
    const uint64_t n = dz->shape[dz->rank - 1], rows = rota_tensor_count(dz) / n;
    const uint64_t chunk = gelu_chunk(rows), chunks = (rows + chunk - 1) / chunk;
    ROTA_TRY(rota_tape_temporary(tape, "partial", ROTA_F32, 2, (const uint64_t[]){chunks, n}, &partial));
    const rota_linear_params params = {
        .m = (uint32_t)rows, .n = (uint32_t)n, .dtype = dz->dtype, .chunk = (uint32_t)chunk};
    rota_access accesses[] = {rota_tensor_access(kept, ROTA_READ), rota_tensor_access(dy, ROTA_READ),
                              rota_tensor_write(dz), rota_tensor_write(&partial)};
    ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_linear_gelu_gradient, accesses, ROTA_LINEAR_GELU_OPERANDS,
                              &params, NULL, 0));
    ROTA_TRY(rota_gradient_begin(tape, bias, &write));
    ROTA_TRY(rota_record_partial_sums(tape, 1, chunks, n, &partial, &write.dx));
    return rota_gradient_end(tape, bias, &write);
}

/* The gradient of the product: of y through the activation. *out_bias_left: that of the bias is yet to be made. */
static rota_status product_gradient(rota_tape *tape, const rota_op_use *use, rota_tensor *out_dz,
                                    bool *out_bias_left) {
    const rota_tensor *y = &use->outputs[0];
    rota_tensor dy, dz, value;
    *out_bias_left = rota_gradient_wanted(tape, &use->inputs[BIAS]);
    ROTA_TRY(rota_record_contiguous(tape, rota_gradient_output(tape, 0), &dy));
    *out_dz = dy;
    if (use->op == &rota_ops_linear[LINEAR]) return ROTA_OK;
    const bool gelu = use->op == &rota_ops_linear[GELU];
    if (gelu && !use->attributes.kept.buffer)
        return rota_op_fail(use->op, ROTA_WRONG_STATE,
                            "its gradient needs what was not kept while the tape did not remember");
    ROTA_TRY(rota_tape_temporary(tape, "gradient", y->dtype, y->rank, y->shape, &dz));
    ROTA_TRY(rota_record_contiguous(tape, gelu ? &use->attributes.kept : y, &value));
    if (gelu && *out_bias_left && y->dtype != ROTA_F32) {
        *out_bias_left = false;
        *out_dz = dz;
        return gelu_gradient(tape, use, &value, &dy, &dz);
    }
    /* Of relu the result is as good as what it came from: both are above 0, or neither. */
    const rota_unary_params params = {.count = (uint32_t)rota_tensor_count(y),
                                      .op = gelu ? ROTA_UNARY_GELU : ROTA_UNARY_RELU,
                                      .dtype = y->dtype};
    rota_access accesses[] = {rota_tensor_access(&value, ROTA_READ), rota_tensor_access(&dy, ROTA_READ),
                              rota_tensor_write(&dz)};
    ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_unary_backward, accesses, 3, &params, NULL, 0));
    *out_dz = dz;
    return ROTA_OK;
}

/* dw and the bias' gradient in one node, where dw is written whole; false: not recorded. */
static rota_status both_gradients(rota_tape *tape, const rota_tensor *x, const rota_tensor *dz,
                                  bool transposed, const rota_tensor *dw, bool accumulate,
                                  const rota_tensor *dbias) {
    rota_tensor left, partial;
    bool x_transposed;
    uint64_t ldx;
    ROTA_TRY(rota_record_matrix(tape, x, &left, &x_transposed, &ldx));
    const uint64_t rows = dz->shape[0], n = dz->shape[1], k = x->shape[1];
    const uint64_t chunk = rota_reduce_chunk(1, rows, n);
    const uint64_t partial_shape[] = {(rows + chunk - 1) / chunk, n};
    rota_linear_params params = {
        .m = (uint32_t)(transposed ? n : k),
        .n = (uint32_t)(transposed ? k : n),
        .k = (uint32_t)rows,
        .lda = (uint32_t)(transposed ? n : ldx),
        .ldb = (uint32_t)(transposed ? ldx : n),
        .flags = (accumulate ? ROTA_MATMUL_ACCUMULATE : 0) |
                 (is_aligned(&left, dz, dw) ? ROTA_MATMUL_ALIGNED_16 : 0),
        .dtype = dw->dtype,
        .chunk = (uint32_t)chunk,
    };
    /* dw = x^T dz, or its transpose dz^T x; x^T lies as x does, transposed once more. */
    if (transposed)
        params.flags |=
            ROTA_LINEAR_SUMS_A | ROTA_MATMUL_TRANSPOSE_A | (x_transposed ? ROTA_MATMUL_TRANSPOSE_B : 0);
    else
        params.flags |= ROTA_LINEAR_SUMS_B | (x_transposed ? 0 : ROTA_MATMUL_TRANSPOSE_A);
    rota_access read_x = rota_tensor_access(&left, ROTA_READ), read_dz = rota_tensor_access(dz, ROTA_READ);
    rota_access accesses[] = {transposed ? read_dz : read_x, transposed ? read_x : read_dz,
                              rota_tensor_write(dw), rota_tensor_write(dbias), read_dz};
    if (accumulate) accesses[2].mode = ROTA_READWRITE;
    if (chunk < rows) {
        ROTA_TRY(rota_tape_temporary(tape, "partial", ROTA_F32, 2, partial_shape, &partial));
        accesses[4] = rota_tensor_write(&partial);
    }
    return rota_tape_kernel(tape, &rota_kernel_linear_gradient, accesses, 5, &params, NULL, 0);
}

static rota_status weight_gradients(rota_tape *tape, const rota_op_use *use, const rota_tensor *dz,
                                    bool wants_bias) {
    const rota_tensor *w = &use->inputs[W], *bias = &use->inputs[BIAS];
    const bool transposed = use->attributes.transpose_b;
    const bool wants_w = rota_gradient_wanted(tape, w);
    rota_tensor x, rows, dw;
    bool fresh, begun = false;
    ROTA_TRY(as_rows(tape, dz, &rows));
    rota_gradient_write write;
    if (wants_w) {
        ROTA_TRY(as_rows(tape, &use->inputs[X], &x));
        /* One node writes both only where neither is part of the other. */
        if (wants_bias && !rota_tensors_overlap(w, bias) && rota_tensor_is_contiguous(w) &&
            !rota_gradient_of_rows_is_cut(w, rows.shape[0])) {
            ROTA_TRY(rota_gradient_begin(tape, bias, &write));
            begun = true;
            ROTA_TRY(rota_gradient_target(tape, w, &dw, &fresh));
            if (dw.offset_bytes % 4 == 0 && (fresh || dw.dtype == ROTA_F32)) {
                ROTA_TRY(both_gradients(tape, &x, &rows, transposed, &dw, !fresh, &write.dx));
                return rota_gradient_end(tape, bias, &write);
            }
            ROTA_TRY(rota_record_matmul(tape, transposed ? &rows : &x, transposed ? &x : &rows, true, false,
                                        &dw, !fresh));
        } else {
            ROTA_TRY(rota_gradient_of_rows(tape, w, transposed ? &rows : &x, transposed ? &x : &rows));
        }
    }
    if (!wants_bias) return ROTA_OK;
    if (!begun) ROTA_TRY(rota_gradient_begin(tape, bias, &write));
    ROTA_TRY(
        rota_record_reduce(tape, ROTA_REDUCE_SUM, 1.0f, 1, rows.shape[0], rows.shape[1], &rows, &write.dx));
    return rota_gradient_end(tape, bias, &write);
}

static rota_status gradient_linear(rota_tape *tape, const rota_op_use *use) {
    const rota_tensor *x = &use->inputs[X], *w = &use->inputs[W];
    rota_tensor dz, dx;
    bool fresh, bias_left;
    if (inputs_of(use->op) > RESIDUAL)
        ROTA_TRY(rota_gradient_add(tape, &use->inputs[RESIDUAL], rota_gradient_output(tape, 0), 1.0f));
    ROTA_TRY(product_gradient(tape, use, &dz, &bias_left));
    ROTA_TRY(weight_gradients(tape, use, &dz, bias_left));
    if (!rota_gradient_wanted(tape, x)) return ROTA_OK;
    const bool transposed = use->attributes.transpose_b;
    if (x->rank >= 2 && !rota_gradient_folds(x)) {
        ROTA_TRY(rota_gradient_target(tape, x, &dx, &fresh));
        return rota_record_matmul(tape, &dz, w, false, !transposed, &dx, !fresh);
    }
    rota_tensor rows, all;
    const uint64_t columns = x->shape[x->rank - 1];
    const uint64_t shape[] = {rota_tensor_count(x) / columns, columns};
    ROTA_TRY(as_rows(tape, &dz, &rows));
    ROTA_TRY(rota_tape_temporary(tape, "gradient", x->dtype, 2, shape, &all));
    ROTA_TRY(rota_record_matmul(tape, &rows, w, false, !transposed, &all, false));
    ROTA_TRY(rota_tensor_reshape(&all, x->rank, x->shape, &all));
    return rota_gradient_add(tape, x, &all, 1.0f);
}

/* ---- Examples ---- */

typedef struct linear_example {
    const char *label;
    uint32_t rank;
    uint64_t x[3], n;
    bool transposed, bias, residual;
    rota_dtype dtype;
} linear_example;

static const linear_example small[] = {
    {"nothing but the product", 2, {7, 5}, 9, false, false, false, ROTA_F32},
    {"odd", 2, {33, 17}, 65, false, true, false, ROTA_F32},
    {"a row", 1, {37}, 19, false, true, true, ROTA_F32},
    {"one element", 2, {1, 1}, 1, true, true, true, ROTA_F32},
    {"three axes, transposed", 3, {2, 3, 40}, 24, true, true, true, ROTA_F32},
    {"residual alone", 2, {20, 30}, 40, false, false, true, ROTA_F32},
    {"f16", 2, {35, 66}, 34, false, true, true, ROTA_F16},
    {"f16, odd columns", 2, {16, 64}, 33, true, true, true, ROTA_F16},
    {"bf16", 2, {40, 48}, 56, false, true, true, ROTA_BF16},
    {"bf16, transposed", 3, {2, 32, 80}, 96, true, true, true, ROTA_BF16},
    /* Just enough for a library. */
    {"64 x 64 x 64, bf16", 2, {64, 64}, 64, false, true, true, ROTA_BF16},
    {"64 x 64 x 64, f16, transposed", 2, {64, 64}, 64, true, true, true, ROTA_F16},
    {"64 x 64 x 72, f32", 2, {64, 64}, 72, false, true, true, ROTA_F32},
    {"64 x 64 x 65, bf16", 2, {64, 64}, 65, false, true, true, ROTA_BF16},
};
/* The products of GPT-2 124M, 4096 tokens. */
static const linear_example large[] = {
    {"4096 x 768 x 2304, bf16", 2, {4096, 768}, 2304, false, true, false, ROTA_BF16},
    {"4096 x 768 x 768 + residual, bf16", 2, {4096, 768}, 768, false, true, true, ROTA_BF16},
    {"4096 x 768 x 3072, bf16", 2, {4096, 768}, 3072, false, true, false, ROTA_BF16},
    {"4096 x 3072 x 768 + residual, bf16", 2, {4096, 3072}, 768, false, true, true, ROTA_BF16},
};

static bool example_of(const rota_op *op, uint32_t index, uint32_t size, rota_op_example *out) {
    if (index >= (size ? sizeof large / sizeof large[0] : sizeof small / sizeof small[0])) return false;
    const linear_example *e = size ? &large[index] : &small[index];
    const uint64_t k = e->x[e->rank - 1], w[] = {e->transposed ? e->n : k, e->transposed ? k : e->n};
    uint64_t y[3] = {0};
    memcpy(y, e->x, sizeof y);
    y[e->rank - 1] = e->n;
    *out = (rota_op_example){.label = e->label, .use = {.op = op}};
    /* Among so many results of 16 bits are some that are rounded over relu's corner: they are all on one side
     * of it. */
    const bool one_side = op == &rota_ops_linear[RELU] && e->dtype != ROTA_F32 && e->x[0] == 64;
    rota_example_input(out, X, e->dtype, e->rank, e->x, one_side ? ROTA_FILL_POSITIVE : ROTA_FILL_UNIFORM);
    rota_example_input(out, W, e->dtype, 2, w,
                       !one_side       ? ROTA_FILL_UNIFORM
                       : e->transposed ? ROTA_FILL_NEGATIVE
                                       : ROTA_FILL_POSITIVE);
    if (e->bias)
        rota_example_input(out, BIAS, e->dtype, 1, &e->n, ROTA_FILL_UNIFORM);
    else
        rota_example_absent(out, BIAS);
    if (inputs_of(op) > RESIDUAL) {
        if (e->residual)
            rota_example_input(out, RESIDUAL, e->dtype, e->rank, y, ROTA_FILL_UNIFORM);
        else
            rota_example_absent(out, RESIDUAL);
    }
    out->use.attributes.transpose_b = e->transposed;
    rota_tensor result;
    if (rota_tensor_of(NULL, 0, e->dtype, e->rank, y, &result) != ROTA_OK) return false;
    out->flops = 2.0 * (double)rota_tensor_count(&result) * (double)k;
    rota_example_bytes(out, &result, 1);
    return true;
}

static bool example_linear(uint32_t index, uint32_t size, rota_op_example *out) {
    return example_of(&rota_ops_linear[LINEAR], index, size, out);
}
static bool example_gelu(uint32_t index, uint32_t size, rota_op_example *out) {
    return example_of(&rota_ops_linear[GELU], index, size, out);
}
static bool example_relu(uint32_t index, uint32_t size, rota_op_example *out) {
    return example_of(&rota_ops_linear[RELU], index, size, out);
}

static const rota_kernel *const linear_kernels[] = {
    &rota_kernel_linear, &rota_kernel_matmul, &rota_kernel_matmul_f16,   &rota_kernel_matmul_bf16,
    &rota_kernel_binary, &rota_kernel_unary,  &rota_kernel_copy_strided, NULL};

#define LINEAR_OP(NAME, INPUTS, OPTIONAL, SAVED_OUTPUTS, EXAMPLE)                                            \
    {                                                                                                        \
        .name = NAME, .input_count = (INPUTS), .optional_inputs = (OPTIONAL), .output_count = 1,             \
        .input_names = {"x", "w", "bias", (INPUTS) > RESIDUAL ? "residual" : NULL}, .output_names = {"y"},   \
        .attributes = ATTRIBUTES(ATTRIBUTE(transpose_b, transpose_b)), .kernels = linear_kernels,            \
        .shape = shape_linear, .record = record_linear, .gradient = gradient_linear,                         \
        .differentiable = (1u << (INPUTS)) - 1, .saved_inputs = 1u << X | 1u << W,                           \
        .saved_outputs = (SAVED_OUTPUTS), .example = EXAMPLE                                                 \
    }

const rota_op rota_ops_linear[] = {
    LINEAR_OP("linear", 4, 1u << BIAS | 1u << RESIDUAL, 0, example_linear),
    LINEAR_OP("linear_gelu", 3, 1u << BIAS, 0, example_gelu),
    LINEAR_OP("linear_relu", 3, 1u << BIAS, 1, example_relu),
    {0},
};
