/* Ops on scores and indices: embedding, softmax, log_softmax, causal_mask. */
#include "ops/kernel_objects.h"
#include "ops/op.h"
#include "ops/op_rules.h"
#include "ops/record.h"

#include <math.h>

enum { EMBEDDING, SOFTMAX, LOG_SOFTMAX, CAUSAL_MASK };

/* Examples in three dtypes: `count` small ones in each, and large ones in f32 and bf16. */
static bool example_of(uint32_t index, uint32_t size, uint32_t count, uint32_t *out_form,
                       rota_dtype *out_dtype) {
    static const rota_dtype dtypes[] = {ROTA_F32, ROTA_F16, ROTA_BF16};
    if (index >= (size ? 2 : 3 * count)) return false;
    *out_form = size ? 0 : index % count;
    *out_dtype = size ? (index ? ROTA_BF16 : ROTA_F32) : dtypes[index / count];
    return true;
}

/* ---- embedding ---- */

static rota_status shape_embedding(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *table = &use->inputs[0], *index = &use->inputs[1];
    char text[ROTA_TENSOR_TEXT_MAX], other[ROTA_TENSOR_TEXT_MAX];
    if (!rota_dtype_is_real(table->dtype) || table->rank != 2 || index->dtype != ROTA_I32 ||
        index->rank >= ROTA_RANK_MAX)
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT,
                            "table is %s, index is %s; expected f32, f16 or bf16 [classes, dim] and i32",
                            rota_tensor_describe(table, text, sizeof text),
                            rota_tensor_describe(index, other, sizeof other));
    const uint64_t first = use->attributes.start, all = use->attributes.length;
    if (all > INT32_MAX || (all ? first > all || table->shape[0] > all - first : first > 0))
        return rota_op_fail(
            use->op, ROTA_INVALID_ARGUMENT,
            "table is %s, whose first class is %llu of %llu; expected it to lie within 2^31 - 1 at most",
            rota_tensor_describe(table, text, sizeof text), (unsigned long long)first,
            (unsigned long long)all);
    uint64_t shape[ROTA_RANK_MAX];
    for (uint32_t i = 0; i < index->rank; i++) shape[i] = index->shape[i];
    shape[index->rank] = table->shape[1];
    return rota_tensor_of(NULL, 0, table->dtype, index->rank + 1, shape, out);
}

static rota_embedding_params embedding_params(const rota_op_use *use) {
    const rota_tensor *table = &use->inputs[0];
    return (rota_embedding_params){.rows = (uint32_t)rota_tensor_count(&use->inputs[1]),
                                   .dim = (uint32_t)table->shape[1],
                                   .classes = (uint32_t)table->shape[0],
                                   .dtype = table->dtype,
                                   .first = (uint32_t)use->attributes.start,
                                   .all = (uint32_t)use->attributes.length};
}

static rota_status record_embedding(rota_tape *tape, rota_op_use *use) {
    rota_tensor table, index;
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[0], &table));
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[1], &index));
    const rota_embedding_params params = embedding_params(use);
    rota_access accesses[] = {rota_tensor_access(&table, ROTA_READ), rota_tensor_access(&index, ROTA_READ),
                              rota_tensor_write(&use->outputs[0])};
    return rota_tape_kernel(tape, &rota_kernel_embedding, accesses, 3, &params, NULL, 0);
}

static rota_status gradient_embedding(rota_tape *tape, const rota_op_use *use) {
    const rota_tensor *table = &use->inputs[0];
    rota_tensor index, dy, dtable, to = {0};
    bool fresh = true;
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[1], &index));
    ROTA_TRY(rota_record_contiguous(tape, rota_gradient_output(tape, 0), &dy));
    rota_embedding_params params = embedding_params(use);
    if (rota_tensor_is_contiguous(table)) {
        ROTA_TRY(rota_gradient_target(tape, table, &to, &fresh));
        if (to.offset_bytes % 4 == 0) {
            params.accumulate = !fresh;
            rota_access accesses[] = {rota_tensor_access(&dy, ROTA_READ),
                                      rota_tensor_access(&index, ROTA_READ),
                                      rota_tensor_access(&to, fresh ? ROTA_WRITE : ROTA_READWRITE)};
            return rota_tape_kernel(tape, &rota_kernel_embedding_backward, accesses, 3, &params, NULL, 0);
        }
    }
    ROTA_TRY(rota_tape_temporary(tape, "gradient", table->dtype, 2, table->shape, &dtable));
    rota_access accesses[] = {rota_tensor_access(&dy, ROTA_READ), rota_tensor_access(&index, ROTA_READ),
                              rota_tensor_write(&dtable)};
    ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_embedding_backward, accesses, 3, &params, NULL, 0));
    if (to.buffer) return rota_record_strided(tape, &dtable, &to, 1.0f, !fresh);
    return rota_gradient_add(tape, table, &dtable, 1.0f);
}

static bool example_embedding(uint32_t index, uint32_t size, rota_op_example *out) {
    static const uint64_t small[][4] = {{11, 5, 3, 4}, {7, 33, 40, 1}, {1, 1, 1, 1}},
                          large[] = {50257, 768, 8, 1024};
    uint32_t form;
    rota_dtype dtype;
    if (!example_of(index, size, 4, &form, &dtype)) return false;
    const bool part = form == 3;
    const uint64_t *s = size ? large : small[part ? 1 : form];
    *out = (rota_op_example){.label = size   ? "8192 of 50257 x 768"
                                      : part ? "some of the classes"
                                             : "odd sizes",
                             .classes = part ? s[0] + 9 : s[0]};
    if (part) out->use.attributes.start = 4, out->use.attributes.length = out->classes;
    rota_example_input(out, 0, dtype, 2, s, ROTA_FILL_UNIFORM);
    rota_example_input(out, 1, ROTA_I32, 2, s + 2, ROTA_FILL_INDEX);
    out->bytes = (double)(s[2] * s[3]) * (4.0 + 2.0 * rota_dtype_bytes(dtype) * (double)s[1]);
    return true;
}

/* ---- softmax ---- */

static rota_status shape_rows(const rota_op_use *use, rota_tensor *out) {
    rota_dtype dtype;
    ROTA_TRY(rota_shape_require_real(use, 1, &dtype));
    if (use->inputs[0].rank == 0) return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "x has no axis");
    return rota_shape_like(&use->inputs[0], dtype, out);
}

static rota_softmax_params softmax_params(const rota_op_use *use) {
    const rota_tensor *x = &use->inputs[0];
    const uint64_t n = x->shape[x->rank - 1], rows = rota_tensor_count(x) / n;
    return (rota_softmax_params){.rows = (uint32_t)rows,
                                 .n = (uint32_t)n,
                                 .queries = (uint32_t)rows,
                                 .scale = 1.0f,
                                 .log = use->op == &rota_ops_scores[LOG_SOFTMAX],
                                 .dtype = x->dtype};
}

static rota_status record_softmax(rota_tape *tape, rota_op_use *use) {
    rota_tensor x;
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[0], &x));
    rota_softmax_params params = softmax_params(use);
    rota_access accesses[] = {rota_tensor_access(&x, ROTA_READ), rota_tensor_write(&use->outputs[0])};
    return rota_tape_kernel(tape, &rota_kernel_softmax, accesses, 2, &params, NULL, 0);
}

static rota_status gradient_softmax(rota_tape *tape, const rota_op_use *use) {
    rota_tensor y, dy;
    rota_gradient_write write;
    ROTA_TRY(rota_record_contiguous(tape, &use->outputs[0], &y));
    ROTA_TRY(rota_record_contiguous(tape, rota_gradient_output(tape, 0), &dy));
    ROTA_TRY(rota_gradient_begin(tape, &use->inputs[0], &write));
    rota_softmax_params params = softmax_params(use);
    rota_access accesses[] = {rota_tensor_access(&y, ROTA_READ), rota_tensor_access(&dy, ROTA_READ),
                              rota_tensor_write(&write.dx)};
    ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_softmax_backward, accesses, 3, &params, NULL, 0));
    return rota_gradient_end(tape, &use->inputs[0], &write);
}

static bool example_softmax(uint32_t index, uint32_t size, rota_op_example *out) {
    static const uint64_t small[][2] = {{5, 37}, {300, 16}, {4, 1}, {1, 5000}}, large[] = {8192, 1024};
    static const char *const labels[] = {"odd rows", "many rows", "rows of one", "one long row"};
    uint32_t form;
    rota_dtype dtype;
    if (!example_of(index, size, 4, &form, &dtype)) return false;
    *out = (rota_op_example){.label = size ? "8192 x 1024" : labels[form]};
    rota_example_input(out, 0, dtype, 2, size ? large : small[form], ROTA_FILL_UNIFORM);
    out->flops = 5.0 * (double)rota_tensor_count(&out->use.inputs[0]);
    rota_example_bytes(out, out->use.inputs, 1);
    return true;
}

/* ---- causal mask ---- */

static rota_status shape_mask(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *x = &use->inputs[0];
    rota_dtype dtype;
    ROTA_TRY(rota_shape_require_real(use, 1, &dtype));
    if (x->rank < 2 || x->shape[x->rank - 1] < x->shape[x->rank - 2]) {
        char text[ROTA_TENSOR_TEXT_MAX];
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT,
                            "x is %s; expected [..., queries, keys], keys >= queries",
                            rota_tensor_describe(x, text, sizeof text));
    }
    return rota_shape_like(x, dtype, out);
}

static rota_status run_mask(rota_tape *tape, const rota_tensor *x, const rota_tensor *y, float value) {
    rota_tensor from;
    ROTA_TRY(rota_record_contiguous(tape, x, &from));
    const uint64_t n = y->shape[y->rank - 1];
    rota_causal_mask_params params = {.rows = (uint32_t)(rota_tensor_count(y) / n),
                                      .n = (uint32_t)n,
                                      .queries = (uint32_t)y->shape[y->rank - 2],
                                      .value = value,
                                      .dtype = y->dtype};
    rota_access accesses[] = {rota_tensor_access(&from, ROTA_READ), rota_tensor_write(y)};
    return rota_tape_kernel(tape, &rota_kernel_causal_mask, accesses, 2, &params, NULL, 0);
}

static rota_status record_mask(rota_tape *tape, rota_op_use *use) {
    return run_mask(tape, &use->inputs[0], &use->outputs[0], -INFINITY);
}

/* What was masked has no influence. */
static rota_status gradient_mask(rota_tape *tape, const rota_op_use *use) {
    rota_gradient_write write;
    ROTA_TRY(rota_gradient_begin(tape, &use->inputs[0], &write));
    ROTA_TRY(run_mask(tape, rota_gradient_output(tape, 0), &write.dx, 0.0f));
    return rota_gradient_end(tape, &use->inputs[0], &write);
}

static bool example_mask(uint32_t index, uint32_t size, rota_op_example *out) {
    static const uint64_t small[][3] = {{3, 7, 7}, {2, 5, 9}, {1, 1, 1}}, large[] = {64, 512, 512};
    uint32_t form;
    rota_dtype dtype;
    if (!example_of(index, size, 3, &form, &dtype)) return false;
    *out = (rota_op_example){.label = size ? "64 x 512 x 512" : "odd sizes"};
    rota_example_input(out, 0, dtype, 3, size ? large : small[form], ROTA_FILL_UNIFORM);
    rota_example_bytes(out, out->use.inputs, 1);
    return true;
}

static const rota_kernel *const embedding_kernels[] = {&rota_kernel_embedding, &rota_kernel_copy_strided,
                                                       NULL};
static const rota_kernel *const softmax_kernels[] = {&rota_kernel_softmax, &rota_kernel_copy_strided, NULL};
static const rota_kernel *const mask_kernels[] = {&rota_kernel_causal_mask, &rota_kernel_copy_strided, NULL};
const rota_op rota_ops_scores[] = {
    {
        .name = "embedding",
        .input_count = 2,
        .output_count = 1,
        .input_names = {"table", "index"},
        .output_names = {"y"},
        .attributes = ATTRIBUTES(ATTRIBUTE(first, start), ATTRIBUTE(all, length)),
        .kernels = embedding_kernels,
        .shape = shape_embedding,
        .record = record_embedding,
        .gradient = gradient_embedding,
        .differentiable = 1,
        .saved_inputs = 2,
        .example = example_embedding,
    },
    {
        .name = "softmax",
        .input_count = 1,
        .output_count = 1,
        .input_names = {"x"},
        .output_names = {"y"},
        .inplace_inputs = 1,
        .kernels = softmax_kernels,
        .shape = shape_rows,
        .record = record_softmax,
        .gradient = gradient_softmax,
        .differentiable = 1,
        .saved_outputs = 1,
        .example = example_softmax,
    },
    {
        .name = "log_softmax",
        .input_count = 1,
        .output_count = 1,
        .input_names = {"x"},
        .output_names = {"y"},
        .inplace_inputs = 1,
        .kernels = softmax_kernels,
        .shape = shape_rows,
        .record = record_softmax,
        .gradient = gradient_softmax,
        .differentiable = 1,
        .saved_outputs = 1,
        .example = example_softmax,
    },
    {
        .name = "causal_mask",
        .input_count = 1,
        .output_count = 1,
        .input_names = {"x"},
        .output_names = {"y"},
        .inplace_inputs = 1,
        .kernels = mask_kernels,
        .shape = shape_mask,
        .record = record_mask,
        .gradient = gradient_mask,
        .differentiable = 1,
        .example = example_mask,
    },
    {0},
};
