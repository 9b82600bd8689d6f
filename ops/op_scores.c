/* Ops on scores and indices: embedding, softmax, causal_mask, cross_entropy. */
#include "ops/op.h"

#include <math.h>

/* ---- embedding ---- */

static rota_status shape_embedding(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *table = &use->inputs[0], *index = &use->inputs[1];
    char text[ROTA_TENSOR_TEXT_MAX], other[ROTA_TENSOR_TEXT_MAX];
    if (table->dtype != ROTA_F32 || table->rank != 2 || index->dtype != ROTA_I32 ||
        index->rank >= ROTA_RANK_MAX)
        return rota_op_fail(
            use->op, ROTA_INVALID_ARGUMENT, "table is %s, index is %s; expected f32 [classes, dim] and i32",
            rota_tensor_describe(table, text, sizeof text), rota_tensor_describe(index, other, sizeof other));
    uint64_t shape[ROTA_RANK_MAX];
    for (uint32_t i = 0; i < index->rank; i++) shape[i] = index->shape[i];
    shape[index->rank] = table->shape[1];
    return rota_tensor_of(NULL, 0, ROTA_F32, index->rank + 1, shape, out);
}

static rota_status record_embedding(rota_tape *tape, rota_op_use *use) {
    rota_tensor table, index;
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[0], &table));
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[1], &index));
    rota_embedding_params params = {.rows = (uint32_t)rota_tensor_count(&index),
                                    .dim = (uint32_t)table.shape[1],
                                    .classes = (uint32_t)table.shape[0]};
    rota_access accesses[] = {rota_tensor_access(&table, ROTA_READ), rota_tensor_access(&index, ROTA_READ),
                              rota_tensor_write(&use->outputs[0])};
    return rota_tape_kernel(tape, &rota_kernel_embedding, accesses, 3, &params, NULL, 0);
}

static rota_status gradient_embedding(rota_tape *tape, const rota_op_use *use) {
    const rota_tensor *table = &use->inputs[0];
    rota_tensor index, dy, dtable;
    bool fresh;
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[1], &index));
    ROTA_TRY(rota_record_contiguous(tape, rota_gradient_output(tape, 0), &dy));
    rota_embedding_params params = {.rows = (uint32_t)rota_tensor_count(&index),
                                    .dim = (uint32_t)table->shape[1],
                                    .classes = (uint32_t)table->shape[0]};
    if (!rota_tensor_is_contiguous(table)) {
        rota_gradient_write write;
        ROTA_TRY(rota_gradient_begin(tape, table, &write));
        rota_access accesses[] = {rota_tensor_access(&dy, ROTA_READ), rota_tensor_access(&index, ROTA_READ),
                                  rota_tensor_write(&write.dx)};
        ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_embedding_backward, accesses, 3, &params, NULL, 0));
        return rota_gradient_end(tape, table, &write);
    }
    ROTA_TRY(rota_gradient_target(tape, table, &dtable, &fresh));
    params.accumulate = !fresh;
    rota_access accesses[] = {rota_tensor_access(&dy, ROTA_READ), rota_tensor_access(&index, ROTA_READ),
                              rota_tensor_access(&dtable, fresh ? ROTA_WRITE : ROTA_READWRITE)};
    return rota_tape_kernel(tape, &rota_kernel_embedding_backward, accesses, 3, &params, NULL, 0);
}

static bool example_embedding(uint32_t index, uint32_t size, rota_op_example *out) {
    static const uint64_t small[][4] = {{11, 5, 3, 4}, {7, 33, 40, 1}, {1, 1, 1, 1}},
                          large[] = {50257, 768, 8, 1024};
    if (index >= (size ? 1 : 3)) return false;
    const uint64_t *s = size ? large : small[index];
    *out = (rota_op_example){.label = size ? "8192 of 50257 x 768" : "odd sizes", .classes = s[0]};
    rota_example_input(out, 0, ROTA_F32, 2, s, ROTA_FILL_UNIFORM);
    rota_example_input(out, 1, ROTA_I32, 2, s + 2, ROTA_FILL_INDEX);
    out->bytes = 4.0 * (double)(s[2] * s[3]) * (1.0 + 2.0 * (double)s[1]);
    return true;
}

/* ---- softmax ---- */

static rota_status shape_rows(const rota_op_use *use, rota_tensor *out) {
    ROTA_TRY(rota_shape_require(use, 1, ROTA_F32));
    if (use->inputs[0].rank == 0) return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "x has no axis");
    return rota_shape_like(&use->inputs[0], ROTA_F32, out);
}

static rota_softmax_params softmax_params(const rota_tensor *x) {
    const uint64_t n = x->shape[x->rank - 1], rows = rota_tensor_count(x) / n;
    return (rota_softmax_params){
        .rows = (uint32_t)rows, .n = (uint32_t)n, .queries = (uint32_t)rows, .scale = 1.0f};
}

static rota_status record_softmax(rota_tape *tape, rota_op_use *use) {
    rota_tensor x;
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[0], &x));
    rota_softmax_params params = softmax_params(&x);
    rota_access accesses[] = {rota_tensor_access(&x, ROTA_READ), rota_tensor_write(&use->outputs[0])};
    return rota_tape_kernel(tape, &rota_kernel_softmax, accesses, 2, &params, NULL, 0);
}

static rota_status gradient_softmax(rota_tape *tape, const rota_op_use *use) {
    rota_tensor y, dy;
    rota_gradient_write write;
    ROTA_TRY(rota_record_contiguous(tape, &use->outputs[0], &y));
    ROTA_TRY(rota_record_contiguous(tape, rota_gradient_output(tape, 0), &dy));
    ROTA_TRY(rota_gradient_begin(tape, &use->inputs[0], &write));
    rota_softmax_params params = softmax_params(&y);
    rota_access accesses[] = {rota_tensor_access(&y, ROTA_READ), rota_tensor_access(&dy, ROTA_READ),
                              rota_tensor_write(&write.dx)};
    ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_softmax_backward, accesses, 3, &params, NULL, 0));
    return rota_gradient_end(tape, &use->inputs[0], &write);
}

static bool example_softmax(uint32_t index, uint32_t size, rota_op_example *out) {
    static const uint64_t small[][2] = {{5, 37}, {300, 16}, {4, 1}, {1, 5000}}, large[] = {8192, 1024};
    static const char *const labels[] = {"odd rows", "many rows", "rows of one", "one long row"};
    if (index >= (size ? 1 : 4)) return false;
    *out = (rota_op_example){.label = size ? "8192 x 1024" : labels[index]};
    rota_example_input(out, 0, ROTA_F32, 2, size ? large : small[index], ROTA_FILL_UNIFORM);
    out->flops = 5.0 * (double)rota_tensor_count(&out->use.inputs[0]);
    rota_example_bytes(out, out->use.inputs, 1);
    return true;
}

/* ---- causal mask ---- */

static rota_status shape_mask(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *x = &use->inputs[0];
    ROTA_TRY(rota_shape_require(use, 1, ROTA_F32));
    if (x->rank < 2 || x->shape[x->rank - 1] < x->shape[x->rank - 2]) {
        char text[ROTA_TENSOR_TEXT_MAX];
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT,
                            "x is %s; expected [..., queries, keys], keys >= queries",
                            rota_tensor_describe(x, text, sizeof text));
    }
    return rota_shape_like(x, ROTA_F32, out);
}

static rota_status run_mask(rota_tape *tape, const rota_tensor *x, const rota_tensor *y, float value) {
    rota_tensor from;
    ROTA_TRY(rota_record_contiguous(tape, x, &from));
    const uint64_t n = y->shape[y->rank - 1];
    rota_causal_mask_params params = {.rows = (uint32_t)(rota_tensor_count(y) / n),
                                      .n = (uint32_t)n,
                                      .queries = (uint32_t)y->shape[y->rank - 2],
                                      .value = value};
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
    if (index >= (size ? 1 : 3)) return false;
    *out = (rota_op_example){.label = size ? "64 x 512 x 512" : "odd sizes"};
    rota_example_input(out, 0, ROTA_F32, 3, size ? large : small[index], ROTA_FILL_UNIFORM);
    rota_example_bytes(out, out->use.inputs, 1);
    return true;
}

/* ---- cross entropy ---- */

static rota_status shape_cross_entropy(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *logits = &use->inputs[0], *labels = &use->inputs[1];
    bool fits = logits->dtype == ROTA_F32 && labels->dtype == ROTA_I32 && logits->rank == labels->rank + 1;
    for (uint32_t i = 0; fits && i < labels->rank; i++) fits = logits->shape[i] == labels->shape[i];
    if (!fits) {
        char text[ROTA_TENSOR_TEXT_MAX], other[ROTA_TENSOR_TEXT_MAX];
        return rota_op_fail(
            use->op, ROTA_INVALID_ARGUMENT,
            "logits are %s, labels are %s; expected f32 [..., classes] and i32 of the leading axes",
            rota_tensor_describe(logits, text, sizeof text),
            rota_tensor_describe(labels, other, sizeof other));
    }
    ROTA_TRY(rota_tensor_of(NULL, 0, ROTA_F32, ROTA_SHAPE(1), &out[0]));
    return rota_tensor_of(NULL, 0, ROTA_F32, ROTA_SHAPE(rota_tensor_count(labels)), &out[1]);
}

static rota_status record_cross_entropy(rota_tape *tape, rota_op_use *use) {
    rota_tensor logits, labels, losses;
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[0], &logits));
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[1], &labels));
    const uint64_t rows = rota_tensor_count(&labels);
    ROTA_TRY(rota_tape_temporary(tape, "losses", ROTA_F32, ROTA_SHAPE(rows), &losses));
    rota_cross_entropy_params params = {.rows = (uint32_t)rows,
                                        .classes = (uint32_t)logits.shape[logits.rank - 1]};
    rota_access accesses[] = {rota_tensor_access(&logits, ROTA_READ), rota_tensor_access(&labels, ROTA_READ),
                              rota_tensor_write(&losses), rota_tensor_write(&use->outputs[1])};
    ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_cross_entropy, accesses, 4, &params, NULL, 0));
    return rota_record_reduce(tape, ROTA_REDUCE_SUM, 1.0f / (float)rows, 1, rows, 1, &losses,
                              &use->outputs[0]);
}

static rota_status gradient_cross_entropy(rota_tape *tape, const rota_op_use *use) {
    rota_tensor logits, labels;
    rota_gradient_write write;
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[0], &logits));
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[1], &labels));
    ROTA_TRY(rota_gradient_begin(tape, &use->inputs[0], &write));
    const uint64_t rows = rota_tensor_count(&labels);
    rota_cross_entropy_params params = {.rows = (uint32_t)rows,
                                        .classes = (uint32_t)logits.shape[logits.rank - 1],
                                        .scale = 1.0f / (float)rows};
    rota_access accesses[] = {rota_tensor_access(&logits, ROTA_READ), rota_tensor_access(&labels, ROTA_READ),
                              rota_tensor_access(&use->outputs[1], ROTA_READ),
                              rota_tensor_access(rota_gradient_output(tape, 0), ROTA_READ),
                              rota_tensor_write(&write.dx)};
    ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_cross_entropy_backward, accesses, 5, &params, NULL, 0));
    return rota_gradient_end(tape, &use->inputs[0], &write);
}

static bool example_cross_entropy(uint32_t index, uint32_t size, rota_op_example *out) {
    static const uint64_t small[][3] = {{3, 5, 37}, {1, 1, 2}, {40, 70, 9}}, large[] = {8, 1024, 4096};
    if (index >= (size ? 1 : 3)) return false;
    const uint64_t *s = size ? large : small[index];
    *out = (rota_op_example){.label = size ? "8192 x 4096" : "odd sizes", .classes = s[2]};
    rota_example_input(out, 0, ROTA_F32, 3, s, ROTA_FILL_UNIFORM);
    rota_example_input(out, 1, ROTA_I32, 2, s, ROTA_FILL_INDEX);
    out->flops = 4.0 * (double)rota_tensor_count(&out->use.inputs[0]);
    rota_example_bytes(out, NULL, 0);
    return true;
}

static const rota_kernel *const embedding_kernels[] = {&rota_kernel_embedding, &rota_kernel_copy_strided,
                                                       NULL};
static const rota_kernel *const softmax_kernels[] = {&rota_kernel_softmax, &rota_kernel_copy_strided, NULL};
static const rota_kernel *const mask_kernels[] = {&rota_kernel_causal_mask, &rota_kernel_copy_strided, NULL};
static const rota_kernel *const cross_entropy_kernels[] = {&rota_kernel_cross_entropy, &rota_kernel_reduce,
                                                           &rota_kernel_copy_strided, NULL};

const rota_op rota_ops_scores[] = {
    {
        .name = "embedding",
        .input_count = 2,
        .output_count = 1,
        .input_names = {"table", "index"},
        .output_names = {"y"},
        .attributes = "",
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
        .attributes = "",
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
        .attributes = "",
        .inplace_inputs = 1,
        .kernels = mask_kernels,
        .shape = shape_mask,
        .record = record_mask,
        .gradient = gradient_mask,
        .differentiable = 1,
        .example = example_mask,
    },
    {
        .name = "cross_entropy",
        .input_count = 2,
        .output_count = 2,
        .input_names = {"logits", "labels"},
        .output_names = {"loss", "lse"},
        .attributes = "",
        .kernels = cross_entropy_kernels,
        .shape = shape_cross_entropy,
        .record = record_cross_entropy,
        .gradient = gradient_cross_entropy,
        .differentiable = 1,
        .saved_inputs = 3,
        .saved_outputs = 2,
        .example = example_cross_entropy,
    },
    {0},
};
