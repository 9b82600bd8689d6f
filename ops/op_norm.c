/* Ops: layernorm, rmsnorm, residual_layernorm. */
#include "ops/kernel_objects.h"
#include "ops/op.h"
#include "ops/op_norm.h"
#include "ops/op_rules.h"
#include "ops/record.h"
#include "ops/remember.h"

enum { LAYERNORM, RMSNORM, RESIDUAL_LAYERNORM };

/* Of the kernels that make x's gradient: its place among their operands. */
enum { DX = 4 };

/* Rows whose sums make one partial gradient of the weights: so few that a large device's threads, each of
 * which has some columns of a chunk, all have one, and as many as leave few partials to add up. */
#define CHUNK_LEAST 8
#define CHUNK_MOST 128
#define CHUNKS 256

uint64_t rota_norm_chunk(uint64_t rows) {
    const uint64_t chunk = rows / CHUNKS / CHUNK_LEAST * CHUNK_LEAST;
    return chunk < CHUNK_LEAST ? CHUNK_LEAST : chunk > CHUNK_MOST ? CHUNK_MOST : chunk;
}

static bool is_layernorm(const rota_op_use *use) {
    return use->op != &rota_ops_norm[RMSNORM];
}

/* The first of weight and bias among the inputs. */
static uint32_t first_weight(const rota_op_use *use) {
    return use->op == &rota_ops_norm[RESIDUAL_LAYERNORM] ? 2 : 1;
}

static rota_status shape_norm(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *x = &use->inputs[0];
    char text[ROTA_TENSOR_TEXT_MAX], other[ROTA_TENSOR_TEXT_MAX];
    rota_dtype dtype;
    ROTA_TRY(rota_shape_require_real(use, 15, &dtype));
    if (x->rank == 0) return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "x has no axis to normalize along");
    const uint64_t dim = x->shape[x->rank - 1];
    const uint32_t first = first_weight(use);
    if (first == 2 && !rota_shapes_equal(x, &use->inputs[1]))
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "x is %s, r is %s; expected one shape",
                            rota_tensor_describe(x, text, sizeof text),
                            rota_tensor_describe(&use->inputs[1], other, sizeof other));
    for (uint32_t i = first; i < use->input_count; i++) {
        const rota_tensor *w = &use->inputs[i];
        if ((w->buffer || w->rank > 0) && (w->rank != 1 || w->shape[0] != dim))
            return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "%s is %s, x is %s; expected %s [%llu]",
                                use->op->input_names[i], rota_tensor_describe(w, text, sizeof text),
                                rota_tensor_describe(x, other, sizeof other), rota_dtype_name(dtype),
                                (unsigned long long)dim);
    }
    ROTA_TRY(rota_shape_like(x, dtype, &out[0]));
    if (first == 2) ROTA_TRY(rota_shape_like(x, dtype, &out[2]));
    const uint64_t rows = rota_tensor_rows(x);
    return rota_tensor_of(NULL, 0, ROTA_F32, is_layernorm(use) ? 2 : 1, (const uint64_t[]){rows, 2}, &out[1]);
}

static rota_norm_params params_of(const rota_op_use *use) {
    const rota_tensor *x = &use->inputs[0];
    const uint64_t dim = x->shape[x->rank - 1], rows = rota_tensor_count(x) / dim;
    const uint32_t weight = first_weight(use);
    return (rota_norm_params){
        .rows = (uint32_t)rows,
        .dim = (uint32_t)dim,
        .flags = (use->inputs[weight].buffer ? ROTA_NORM_WEIGHT : 0) |
                 (is_layernorm(use) && use->inputs[weight + 1].buffer ? ROTA_NORM_BIAS : 0),
        .eps = use->attributes.eps,
        .chunk = (uint32_t)rota_norm_chunk(rows),
        .dtype = x->dtype,
    };
}

/* A vector as an operand: contiguous; absent: some operand that is read anyway. */
static rota_status vector(rota_tape *tape, const rota_tensor *given, const rota_tensor *instead,
                          rota_access *out) {
    rota_tensor w = *instead;
    if (given->buffer) ROTA_TRY(rota_record_contiguous(tape, given, &w));
    *out = rota_tensor_access(&w, ROTA_READ);
    return ROTA_OK;
}

static rota_status record_norm(rota_tape *tape, rota_op_use *use) {
    rota_norm_params params = params_of(use);
    const rota_kernel *kernel = is_layernorm(use) ? &rota_kernel_layernorm : &rota_kernel_rmsnorm;
    rota_tensor x, r;
    rota_access accesses[7];
    uint32_t count = 0;
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[0], &x));
    accesses[count++] = rota_tensor_access(&x, ROTA_READ);
    if (first_weight(use) == 2) {
        kernel = &rota_kernel_residual_layernorm;
        ROTA_TRY(rota_record_contiguous(tape, &use->inputs[1], &r));
        accesses[count++] = rota_tensor_access(&r, ROTA_READ);
    }
    for (uint32_t i = first_weight(use); i < use->input_count; i++)
        ROTA_TRY(vector(tape, &use->inputs[i], &x, &accesses[count++]));
    if (first_weight(use) == 2) accesses[count++] = rota_tensor_write(&use->outputs[2]);
    accesses[count++] = rota_tensor_write(&use->outputs[0]);
    accesses[count++] = rota_tensor_write(&use->outputs[1]);
    return rota_tape_kernel(tape, kernel, accesses, count, &params, NULL, 0);
}

/* Adds up one of the partial sums [chunks, dim], the half-th, into dw. */
static rota_status add_half(rota_tape *tape, const rota_tensor *partial, uint32_t half, uint64_t chunks,
                            uint64_t dim, const rota_tensor *dw) {
    rota_tensor sums;
    ROTA_TRY(rota_tensor_of(partial->buffer, partial->offset_bytes + half * chunks * dim * sizeof(float),
                            ROTA_F32, ROTA_SHAPE(chunks, dim), &sums));
    return rota_record_partial_sums(tape, 1, chunks, dim, &sums, dw);
}

static rota_status add_partial(rota_tape *tape, const rota_tensor *w, const rota_tensor *partial,
                               uint32_t half, uint64_t chunks, uint64_t dim) {
    rota_gradient_write write;
    ROTA_TRY(rota_gradient_begin(tape, w, &write));
    ROTA_TRY(add_half(tape, partial, half, chunks, dim, &write.dx));
    return rota_gradient_end(tape, w, &write);
}

static bool follows(const rota_tensor *a, const rota_tensor *b) {
    return a->buffer == b->buffer && a->dtype == b->dtype &&
           b->offset_bytes == a->offset_bytes + rota_tensor_count(a) * rota_dtype_bytes(a->dtype);
}

/* Adds up the partial sums of both: at once where the gradients lie one after the other. */
static rota_status add_both(rota_tape *tape, const rota_tensor *weight, const rota_tensor *bias,
                            const rota_tensor *partial, uint64_t chunks, uint64_t dim) {
    rota_gradient_write of_weight, of_bias;
    rota_tensor to;
    ROTA_TRY(rota_gradient_begin(tape, weight, &of_weight));
    ROTA_TRY(rota_gradient_begin(tape, bias, &of_bias));
    if (follows(&of_weight.dx, &of_bias.dx)) {
        ROTA_TRY(rota_tensor_of(of_weight.dx.buffer, of_weight.dx.offset_bytes, of_weight.dx.dtype,
                                ROTA_SHAPE(2, dim), &to));
        ROTA_TRY(rota_record_partial_sums(tape, 2, chunks, dim, partial, &to));
    } else {
        ROTA_TRY(add_half(tape, partial, 0, chunks, dim, &of_weight.dx));
        ROTA_TRY(add_half(tape, partial, 1, chunks, dim, &of_bias.dx));
    }
    ROTA_TRY(rota_gradient_end(tape, weight, &of_weight));
    return rota_gradient_end(tape, bias, &of_bias);
}

static rota_status add_partials(rota_tape *tape, const rota_op_use *use, const rota_tensor *partial,
                                uint64_t chunks, uint64_t dim) {
    const rota_tensor *weight = &use->inputs[1], *bias = &use->inputs[2];
    const bool wants_weight = weight->buffer && rota_gradient_wanted(tape, weight),
               wants_bias = is_layernorm(use) && bias->buffer && rota_gradient_wanted(tape, bias);
    if (wants_weight && wants_bias && !rota_tensors_overlap(weight, bias))
        return add_both(tape, weight, bias, partial, chunks, dim);
    if (wants_weight) ROTA_TRY(add_partial(tape, weight, partial, 0, chunks, dim));
    return wants_bias ? add_partial(tape, bias, partial, 1, chunks, dim) : ROTA_OK;
}

/* dx is added in place to what x's gradient holds already: a residual stream's is read and written once. It
 * is the one of the kernel's accesses that the caller leaves open. */
static rota_status gradient_of_x(rota_tape *tape, const rota_tensor *x, const rota_kernel *kernel,
                                 rota_norm_params params, rota_access *accesses) {
    const uint32_t count = kernel->operand_count;
    bool fresh = true;
    rota_tensor dx, whole;
    if (!rota_tensor_is_contiguous(x)) {
        rota_gradient_write write;
        ROTA_TRY(rota_gradient_begin(tape, x, &write));
        accesses[DX] = rota_tensor_write(&write.dx);
        ROTA_TRY(rota_tape_kernel(tape, kernel, accesses, count, &params, NULL, 0));
        return rota_gradient_end(tape, x, &write);
    }
    ROTA_TRY(rota_gradient_target(tape, x, &dx, &fresh));
    if (dx.offset_bytes % 4 == 0) {
        if (!fresh) params.flags |= ROTA_NORM_ACCUMULATE;
        accesses[DX] = rota_tensor_access(&dx, fresh ? ROTA_WRITE : ROTA_READWRITE);
        return rota_tape_kernel(tape, kernel, accesses, count, &params, NULL, 0);
    }
    ROTA_TRY(rota_tape_temporary(tape, "gradient", dx.dtype, dx.rank, dx.shape, &whole));
    accesses[DX] = rota_tensor_write(&whole);
    ROTA_TRY(rota_tape_kernel(tape, kernel, accesses, count, &params, NULL, 0));
    return rota_record_strided(tape, &whole, &dx, 1.0f, !fresh);
}

static rota_status gradient_norm(rota_tape *tape, const rota_op_use *use) {
    const bool layer = is_layernorm(use);
    const rota_norm_params params = params_of(use);
    const rota_tensor *stats = &use->outputs[1];
    rota_tensor x, dy, partial;
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[0], &x));
    ROTA_TRY(rota_record_contiguous(tape, rota_gradient_output(tape, 0), &dy));
    rota_access read_x = rota_tensor_access(&x, ROTA_READ), read_dy = rota_tensor_access(&dy, ROTA_READ);
    rota_access read_stats = rota_tensor_access(stats, ROTA_READ), read_weight;
    ROTA_TRY(vector(tape, &use->inputs[1], &x, &read_weight));
    rota_access of_x[6] = {read_x, read_weight, read_stats, read_dy};
    const bool wants_x = rota_gradient_wanted(tape, &use->inputs[0]);
    bool weights = false, apart = true;
    for (uint32_t i = 1; i < use->input_count; i++) {
        if (!use->inputs[i].buffer) continue;
        weights = weights || rota_gradient_wanted(tape, &use->inputs[i]);
        apart = apart && !rota_tensors_overlap(&use->inputs[0], &use->inputs[i]);
    }
    const uint64_t chunks = (params.rows + params.chunk - 1) / params.chunk, halves = layer ? 2 : 1;
    const bool at_once = weights && wants_x && apart;
    if (weights)
        ROTA_TRY(
            rota_tape_temporary(tape, "partial", ROTA_F32, ROTA_SHAPE(halves, chunks, params.dim), &partial));
    if (at_once) {
        of_x[5] = rota_tensor_write(&partial);
        ROTA_TRY(gradient_of_x(tape, &use->inputs[0],
                               layer ? &rota_kernel_layernorm_gradient : &rota_kernel_rmsnorm_gradient,
                               params, of_x));
    } else if (weights) {
        rota_access accesses[] = {read_x, read_stats, read_dy, rota_tensor_write(&partial)};
        ROTA_TRY(rota_tape_kernel(
            tape, layer ? &rota_kernel_layernorm_backward_weight : &rota_kernel_rmsnorm_backward_weight,
            accesses, 4, &params, NULL, 0));
    }
    if (weights) ROTA_TRY(add_partials(tape, use, &partial, chunks, params.dim));
    if (!wants_x || at_once) return ROTA_OK;
    return gradient_of_x(tape, &use->inputs[0],
                         layer ? &rota_kernel_layernorm_backward : &rota_kernel_rmsnorm_backward, params,
                         of_x);
}

/* For gradients it is the two ops that it is made of. */
static rota_status remember_residual(rota_tape *tape, const rota_op_use *use) {
    rota_op_use sum = {.op = rota_op_at(ROTA_OP_add), .input_count = 2, .output_count = 1};
    rota_op_use norm = {.op = &rota_ops_norm[LAYERNORM], .input_count = 3, .output_count = 2};
    sum.inputs[0] = use->inputs[0];
    sum.inputs[1] = use->inputs[1];
    sum.outputs[0] = norm.inputs[0] = use->outputs[2];
    norm.inputs[1] = use->inputs[2];
    norm.inputs[2] = use->inputs[3];
    norm.outputs[0] = use->outputs[0];
    norm.outputs[1] = use->outputs[1];
    norm.attributes = use->attributes;
    ROTA_TRY(rota_tape_remember_use(tape, &sum));
    return rota_tape_remember_use(tape, &norm);
}

/* Every combination of weight and bias in each dtype. */
static bool example_norm(uint32_t kind, uint32_t index, uint32_t size, rota_op_example *out) {
    static const uint64_t small[][2] = {{5, 37}, {130, 24}, {3, 64}, {1, 1000}}, large[] = {8192, 768};
    static const char *const labels[] = {"weight and bias", "weight", "plain", "bias, long rows"};
    static const rota_dtype dtypes[] = {ROTA_F32, ROTA_F16, ROTA_BF16};
    if (index >= (size ? 2 : 12)) return false;
    const uint32_t form = size ? 0 : index % 4;
    const rota_dtype dtype = size ? (index ? ROTA_BF16 : ROTA_F32) : dtypes[index / 4];
    const uint64_t *shape = size ? large : small[form];
    const bool residual = kind == RESIDUAL_LAYERNORM;
    uint32_t input = 0;
    *out = (rota_op_example){.label = size ? "8192 x 768" : labels[form]};
    rota_example_input(out, input++, dtype, 2, shape, ROTA_FILL_UNIFORM);
    if (residual) rota_example_input(out, input++, dtype, 2, shape, ROTA_FILL_UNIFORM);
    if (form < 2)
        rota_example_input(out, input++, dtype, 1, &shape[1], ROTA_FILL_POSITIVE);
    else
        rota_example_absent(out, input++);
    if (kind != RMSNORM && (form == 0 || form == 3))
        rota_example_input(out, input++, dtype, 1, &shape[1], ROTA_FILL_UNIFORM);
    else if (kind != RMSNORM)
        rota_example_absent(out, input++);
    out->use.attributes.eps = 1e-5f;
    out->flops = 8.0 * (double)(shape[0] * shape[1]);
    rota_example_bytes(out, out->use.inputs, residual ? 2 : 1);
    return true;
}

static bool example_layernorm(uint32_t index, uint32_t size, rota_op_example *out) {
    return example_norm(LAYERNORM, index, size, out);
}

static bool example_rmsnorm(uint32_t index, uint32_t size, rota_op_example *out) {
    return example_norm(RMSNORM, index, size, out);
}

static bool example_residual_layernorm(uint32_t index, uint32_t size, rota_op_example *out) {
    return example_norm(RESIDUAL_LAYERNORM, index, size, out);
}

static const rota_kernel *const layernorm_kernels[] = {&rota_kernel_layernorm, &rota_kernel_copy_strided,
                                                       NULL};
static const rota_kernel *const residual_layernorm_kernels[] = {&rota_kernel_residual_layernorm,
                                                                &rota_kernel_copy_strided, NULL};
static const rota_kernel *const rmsnorm_kernels[] = {&rota_kernel_rmsnorm, &rota_kernel_copy_strided, NULL};

const rota_op rota_ops_norm[] = {
    {
        .name = "layernorm",
        .input_count = 3,
        .optional_inputs = 6,
        .output_count = 2,
        .input_names = {"x", "weight", "bias"},
        .output_names = {"y", "stats"},
        .attributes = ATTRIBUTES(ATTRIBUTE(eps, eps)),
        .kernels = layernorm_kernels,
        .shape = shape_norm,
        .record = record_norm,
        .gradient = gradient_norm,
        .differentiable = 7,
        .saved_inputs = 3,
        .saved_outputs = 2,
        .example = example_layernorm,
    },
    {
        .name = "rmsnorm",
        .input_count = 2,
        .optional_inputs = 2,
        .output_count = 2,
        .input_names = {"x", "weight"},
        .output_names = {"y", "stats"},
        .attributes = ATTRIBUTES(ATTRIBUTE(eps, eps)),
        .kernels = rmsnorm_kernels,
        .shape = shape_norm,
        .record = record_norm,
        .gradient = gradient_norm,
        .differentiable = 3,
        .saved_inputs = 3,
        .saved_outputs = 2,
        .example = example_rmsnorm,
    },
    {
        .name = "residual_layernorm",
        .input_count = 4,
        .optional_inputs = 12,
        .output_count = 3,
        .input_names = {"x", "r", "weight", "bias"},
        .output_names = {"y", "stats", "sum"},
        .attributes = ATTRIBUTES(ATTRIBUTE(eps, eps)),
        .kernels = residual_layernorm_kernels,
        .shape = shape_norm,
        .record = record_norm,
        .remember = remember_residual,
        .differentiable = 15,
        .example = example_residual_layernorm,
    },
    {0},
};
