/* Ops along an axis: gather, scatter_add, one_hot, argmax, top_k, cumulative_sum, variance. */
#include "ops/kernel_objects.h"
#include "ops/long_axis.h"
#include "ops/op.h"
#include "ops/op_rules.h"
#include "ops/record.h"

enum { GATHER, SCATTER_ADD, ONE_HOT, ARGMAX, TOP_K, CUMULATIVE_SUM, VARIANCE };

/* Extents before, along and after the axis. */
typedef struct extents {
    uint32_t outer, n, inner;
} extents;

static extents extents_of(const rota_tensor *x, uint32_t axis) {
    uint64_t outer = 1, inner = 1;
    for (uint32_t i = 0; i < axis; i++) outer *= x->shape[i];
    for (uint32_t i = axis + 1; i < x->rank; i++) inner *= x->shape[i];
    return (extents){(uint32_t)outer, (uint32_t)x->shape[axis], (uint32_t)inner};
}

static rota_status require_axis(const rota_op_use *use) {
    const rota_tensor *x = &use->inputs[0];
    char text[ROTA_TENSOR_TEXT_MAX];
    if (use->attributes.axis[0] < x->rank) return ROTA_OK;
    return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT,
                        "axis %u of %s, which is %s: expected an axis below %u", use->attributes.axis[0],
                        use->op->input_names[0], rota_tensor_describe(x, text, sizeof text), x->rank);
}

static rota_status require_index(const rota_op_use *use, uint32_t input) {
    return rota_shape_require(use, 1u << input, ROTA_I32);
}

/* `index` has x's shape but along the axis. */
static rota_status require_beside(const rota_op_use *use, const rota_tensor *x, const rota_tensor *index) {
    char text[ROTA_TENSOR_TEXT_MAX], other[ROTA_TENSOR_TEXT_MAX];
    bool fits = x->rank == index->rank;
    for (uint32_t i = 0; fits && i < x->rank; i++)
        fits = i == use->attributes.axis[0] || x->shape[i] == index->shape[i];
    if (fits) return ROTA_OK;
    return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT,
                        "%s is %s, index is %s; expected one shape but along axis %u",
                        use->op->input_names[0], rota_tensor_describe(x, text, sizeof text),
                        rota_tensor_describe(index, other, sizeof other), use->attributes.axis[0]);
}

/* What the chunks of a long axis give: `count` times f32 [outer, chunks, inner]. */
static rota_status chunk_sums(rota_tape *tape, extents e, uint32_t chunk, uint32_t count, rota_tensor *out) {
    for (uint32_t i = 0; i < count; i++)
        ROTA_TRY(rota_tape_temporary(tape, "chunks", ROTA_F32,
                                     ROTA_SHAPE(e.outer, (e.n - 1) / chunk + 1, e.inner), &out[i]));
    return ROTA_OK;
}

/* ---- gather, scatter_add ---- */

static rota_status run_gather(rota_tape *tape, const rota_tensor *x, const rota_tensor *index, uint32_t axis,
                              const rota_tensor *y) {
    rota_tensor from, indices;
    ROTA_TRY(rota_record_contiguous(tape, x, &from));
    ROTA_TRY(rota_record_contiguous(tape, index, &indices));
    const extents e = extents_of(x, axis);
    const rota_gather_params params = {e.outer, e.n, (uint32_t)index->shape[axis], e.inner, x->dtype};
    rota_access accesses[] = {rota_tensor_access(&from, ROTA_READ), rota_tensor_access(&indices, ROTA_READ),
                              rota_tensor_write(y)};
    return rota_tape_kernel(tape, &rota_kernel_gather, accesses, 3, &params, NULL, 0);
}

/* Contiguous f32 y += x. */
static rota_status run_scatter(rota_tape *tape, const rota_tensor *x, const rota_tensor *index, uint32_t axis,
                               const rota_tensor *y) {
    rota_tensor from, indices;
    ROTA_TRY(rota_record_contiguous(tape, x, &from));
    ROTA_TRY(rota_record_contiguous(tape, index, &indices));
    const extents e = extents_of(y, axis);
    const rota_gather_params params = {e.outer, e.n, (uint32_t)index->shape[axis], e.inner, x->dtype};
    rota_access accesses[] = {rota_tensor_access(&from, ROTA_READ), rota_tensor_access(&indices, ROTA_READ),
                              rota_tensor_access(y, ROTA_READWRITE)};
    return rota_tape_kernel(tape, &rota_kernel_scatter_add, accesses, 3, &params, NULL, 0);
}

/* dx gets what a sum by index of zeroes and dy gives: in f32, and rounded once. */
static rota_status scatter_gradient(rota_tape *tape, const rota_tensor *x, const rota_tensor *dy,
                                    const rota_tensor *index, uint32_t axis) {
    rota_gradient_write write;
    rota_tensor sum;
    if (!rota_gradient_wanted(tape, x)) return ROTA_OK;
    ROTA_TRY(rota_gradient_begin(tape, x, &write));
    sum = write.dx;
    if (x->dtype != ROTA_F32)
        ROTA_TRY(rota_tape_temporary(tape, "gradient", ROTA_F32, x->rank, x->shape, &sum));
    ROTA_TRY(rota_record_zero(tape, sum.buffer, sum.offset_bytes, rota_tensor_extent_bytes(&sum)));
    ROTA_TRY(run_scatter(tape, dy, index, axis, &sum));
    if (x->dtype != ROTA_F32) ROTA_TRY(rota_record_cast(tape, &sum, &write.dx));
    return rota_gradient_end(tape, x, &write);
}

static rota_status shape_gather(const rota_op_use *use, rota_tensor *out) {
    rota_dtype dtype;
    ROTA_TRY(rota_shape_require_real(use, 1, &dtype));
    ROTA_TRY(require_index(use, 1));
    ROTA_TRY(require_axis(use));
    ROTA_TRY(require_beside(use, &use->inputs[0], &use->inputs[1]));
    return rota_shape_like(&use->inputs[1], dtype, out);
}

static rota_status record_gather(rota_tape *tape, rota_op_use *use) {
    return run_gather(tape, &use->inputs[0], &use->inputs[1], use->attributes.axis[0], &use->outputs[0]);
}

static rota_status gradient_gather(rota_tape *tape, const rota_op_use *use) {
    return scatter_gradient(tape, &use->inputs[0], rota_gradient_output(tape, 0), &use->inputs[1],
                            use->attributes.axis[0]);
}

static rota_status shape_scatter(const rota_op_use *use, rota_tensor *out) {
    rota_dtype dtype;
    ROTA_TRY(rota_shape_require_real(use, 5, &dtype));
    ROTA_TRY(require_index(use, 1));
    ROTA_TRY(require_axis(use));
    ROTA_TRY(require_beside(use, &use->inputs[0], &use->inputs[1]));
    if (!rota_shapes_equal(&use->inputs[1], &use->inputs[2])) {
        char text[ROTA_TENSOR_TEXT_MAX], other[ROTA_TENSOR_TEXT_MAX];
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "index is %s, x is %s; expected one shape",
                            rota_tensor_describe(&use->inputs[1], text, sizeof text),
                            rota_tensor_describe(&use->inputs[2], other, sizeof other));
    }
    return rota_shape_like(&use->inputs[0], dtype, out);
}

static rota_status record_scatter(rota_tape *tape, rota_op_use *use) {
    const rota_tensor *base = &use->inputs[0], *y = &use->outputs[0];
    rota_tensor sum = *y;
    if (y->dtype != ROTA_F32) {
        ROTA_TRY(rota_tape_temporary(tape, "sum", ROTA_F32, y->rank, y->shape, &sum));
        ROTA_TRY(rota_record_cast(tape, base, &sum));
    } else if (!rota_tensors_equal(base, y)) {
        ROTA_TRY(rota_record_strided(tape, base, y, 1.0f, false));
    }
    ROTA_TRY(run_scatter(tape, &use->inputs[2], &use->inputs[1], use->attributes.axis[0], &sum));
    return y->dtype == ROTA_F32 ? ROTA_OK : rota_record_cast(tape, &sum, y);
}

static rota_status gradient_scatter(rota_tape *tape, const rota_op_use *use) {
    const rota_tensor *x = &use->inputs[2], *dy = rota_gradient_output(tape, 0);
    rota_gradient_write write;
    ROTA_TRY(rota_gradient_add(tape, &use->inputs[0], dy, 1.0f));
    if (!rota_gradient_wanted(tape, x)) return ROTA_OK;
    ROTA_TRY(rota_gradient_begin(tape, x, &write));
    ROTA_TRY(run_gather(tape, dy, &use->inputs[1], use->attributes.axis[0], &write.dx));
    return rota_gradient_end(tape, x, &write);
}

/* ---- one_hot ---- */

static rota_status shape_one_hot(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *index = &use->inputs[0];
    const rota_dtype dtype = use->attributes.dtype;
    uint64_t shape[ROTA_RANK_MAX];
    ROTA_TRY(require_index(use, 0));
    if (!rota_dtype_is_real(dtype))
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "in %s; expected f32, f16 or bf16",
                            rota_dtype_name(dtype));
    if (index->rank == ROTA_RANK_MAX)
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "index has %u axes, at most %d", index->rank,
                            ROTA_RANK_MAX - 1);
    for (uint32_t i = 0; i < index->rank; i++) shape[i] = index->shape[i];
    shape[index->rank] = use->attributes.length;
    return rota_tensor_of(NULL, 0, dtype, index->rank + 1, shape, out);
}

static rota_status record_one_hot(rota_tape *tape, rota_op_use *use) {
    rota_tensor index;
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[0], &index));
    const rota_one_hot_params params = {(uint32_t)rota_tensor_count(&index), (uint32_t)use->attributes.length,
                                        use->attributes.dtype};
    rota_access accesses[] = {rota_tensor_access(&index, ROTA_READ), rota_tensor_write(&use->outputs[0])};
    return rota_tape_kernel(tape, &rota_kernel_one_hot, accesses, 2, &params, NULL, 0);
}

/* ---- argmax, top_k ---- */

static rota_status shape_top_k(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *x = &use->inputs[0];
    const uint32_t axis = use->attributes.axis[0];
    const uint64_t k = use->attributes.length;
    rota_dtype dtype;
    ROTA_TRY(rota_shape_require_real(use, 1, &dtype));
    ROTA_TRY(require_axis(use));
    if (k < 1 || k > x->shape[axis])
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "k is %llu, expected 1 to %llu, axis %u's extent",
                            (unsigned long long)k, (unsigned long long)x->shape[axis], axis);
    uint64_t shape[ROTA_RANK_MAX];
    for (uint32_t i = 0; i < x->rank; i++) shape[i] = i == axis ? k : x->shape[i];
    ROTA_TRY(rota_tensor_of(NULL, 0, dtype, x->rank, shape, &out[0]));
    return rota_tensor_of(NULL, 0, ROTA_I32, x->rank, shape, &out[1]);
}

static rota_status run_top_k(rota_tape *tape, const rota_tensor *x, uint32_t axis, uint32_t k,
                             const rota_tensor *values, const rota_tensor *index) {
    rota_tensor from;
    ROTA_TRY(rota_record_contiguous(tape, x, &from));
    const extents e = extents_of(x, axis);
    uint64_t keys;
    uint32_t chunk;
    rota_access accesses[4] = {rota_tensor_access(&from, ROTA_READ), rota_tensor_write(values),
                               rota_tensor_write(index)};
    if (!rota_long_top_k(e.n, k, &chunk, &keys)) {
        const rota_top_k_params params = {e.outer, e.n, e.inner, k, x->dtype};
        return rota_tape_kernel(tape, &rota_kernel_top_k, accesses, 3, &params, NULL, 0);
    }
    const rota_long_params params = {e.outer, e.n, e.inner, chunk, .k = k, .dtype = x->dtype};
    accesses[3] = accesses[0]; /* where there are no keys */
    if (keys == 0) return rota_tape_kernel(tape, &rota_kernel_top_k_long, accesses, 4, &params, NULL, 0);
    rota_tensor scratch;
    ROTA_TRY(rota_tape_temporary(tape, "keys", ROTA_U32, ROTA_SHAPE((uint64_t)e.outer * e.inner, keys, 2),
                                 &scratch));
    accesses[3] = rota_tensor_write(&scratch);
    return rota_tape_kernel(tape, &rota_kernel_top_k_long, accesses, 4, &params, NULL, 0);
}

static rota_status record_top_k(rota_tape *tape, rota_op_use *use) {
    return run_top_k(tape, &use->inputs[0], use->attributes.axis[0], (uint32_t)use->attributes.length,
                     &use->outputs[0], &use->outputs[1]);
}

static rota_status gradient_top_k(rota_tape *tape, const rota_op_use *use) {
    return scatter_gradient(tape, &use->inputs[0], rota_gradient_output(tape, 0), &use->outputs[1],
                            use->attributes.axis[0]);
}

/* x's shape without the axis, or with extent 1. */
static rota_status reduced(const rota_op_use *use, rota_dtype dtype, rota_tensor *out) {
    const rota_tensor *x = &use->inputs[0];
    uint64_t shape[ROTA_RANK_MAX];
    uint32_t rank = 0;
    for (uint32_t i = 0; i < x->rank; i++) {
        if (i != use->attributes.axis[0])
            shape[rank++] = x->shape[i];
        else if (use->attributes.keep)
            shape[rank++] = 1;
    }
    return rota_tensor_of(NULL, 0, dtype, rank, shape, out);
}

static rota_status shape_argmax(const rota_op_use *use, rota_tensor *out) {
    rota_dtype dtype;
    ROTA_TRY(rota_shape_require_real(use, 1, &dtype));
    ROTA_TRY(require_axis(use));
    return reduced(use, ROTA_I32, out);
}

static rota_status record_argmax(rota_tape *tape, rota_op_use *use) {
    const rota_tensor *y = &use->outputs[0];
    rota_tensor values;
    ROTA_TRY(rota_tape_temporary(tape, "maximum", use->inputs[0].dtype, y->rank, y->shape, &values));
    return run_top_k(tape, &use->inputs[0], use->attributes.axis[0], 1, &values, y);
}

/* ---- cumulative_sum ---- */

static rota_status shape_cumulative(const rota_op_use *use, rota_tensor *out) {
    rota_dtype dtype;
    ROTA_TRY(rota_shape_require_real(use, 1, &dtype));
    ROTA_TRY(require_axis(use));
    return rota_shape_like(&use->inputs[0], dtype, out);
}

static rota_status run_cumulative(rota_tape *tape, const rota_tensor *x, uint32_t axis, bool reverse,
                                  const rota_tensor *y) {
    rota_tensor from;
    ROTA_TRY(rota_record_contiguous(tape, x, &from));
    const extents e = extents_of(x, axis);
    const uint32_t chunk = rota_long_chunk(e.n);
    if (chunk < e.n) {
        const rota_long_params params = {e.outer, e.n, e.inner, chunk, .reverse = reverse, .dtype = x->dtype};
        rota_tensor sums[2];
        ROTA_TRY(chunk_sums(tape, e, chunk, 2, sums));
        rota_access accesses[] = {rota_tensor_access(&from, ROTA_READ), rota_tensor_write(y),
                                  rota_tensor_write(&sums[0]), rota_tensor_write(&sums[1])};
        return rota_tape_kernel(tape, &rota_kernel_cumulative_sum_long, accesses, 4, &params, NULL, 0);
    }
    const rota_cumulative_sum_params params = {e.outer, e.n, e.inner, reverse, x->dtype};
    rota_access accesses[] = {rota_tensor_access(&from, ROTA_READ), rota_tensor_write(y)};
    return rota_tape_kernel(tape, &rota_kernel_cumulative_sum, accesses, 2, &params, NULL, 0);
}

static rota_status record_cumulative(rota_tape *tape, rota_op_use *use) {
    return run_cumulative(tape, &use->inputs[0], use->attributes.axis[0], false, &use->outputs[0]);
}

/* Each element is in all sums from its own on. */
static rota_status gradient_cumulative(rota_tape *tape, const rota_op_use *use) {
    rota_gradient_write write;
    ROTA_TRY(rota_gradient_begin(tape, &use->inputs[0], &write));
    ROTA_TRY(run_cumulative(tape, rota_gradient_output(tape, 0), use->attributes.axis[0], true, &write.dx));
    return rota_gradient_end(tape, &use->inputs[0], &write);
}

/* ---- variance ---- */

static rota_status shape_variance(const rota_op_use *use, rota_tensor *out) {
    rota_dtype dtype;
    ROTA_TRY(rota_shape_require_real(use, 1, &dtype));
    ROTA_TRY(require_axis(use));
    const int64_t n = (int64_t)use->inputs[0].shape[use->attributes.axis[0]];
    if (use->attributes.integer < 0 || use->attributes.integer >= n)
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT,
                            "correction is %d, expected 0 to %lld, less than axis %u's extent",
                            use->attributes.integer, (long long)n - 1, use->attributes.axis[0]);
    ROTA_TRY(reduced(use, dtype, &out[0]));
    return reduced(use, ROTA_F32, &out[1]);
}

static rota_variance_params variance_params(const rota_op_use *use) {
    const rota_tensor *x = &use->inputs[0];
    const extents e = extents_of(x, use->attributes.axis[0]);
    return (rota_variance_params){e.outer, e.n, e.inner,
                                  (float)(1.0 / ((double)e.n - (double)use->attributes.integer)), x->dtype};
}

static rota_status record_variance(rota_tape *tape, rota_op_use *use) {
    rota_tensor x;
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[0], &x));
    const rota_variance_params params = variance_params(use);
    const extents e = {params.outer, params.n, params.inner};
    const uint32_t chunk = rota_long_chunk(e.n);
    if (chunk < e.n) {
        const rota_long_params of_chunks = {e.outer,         e.n, e.inner, chunk, .scale = params.scale,
                                            .dtype = x.dtype};
        rota_tensor sums;
        ROTA_TRY(chunk_sums(tape, e, chunk, 1, &sums));
        rota_access accesses[] = {rota_tensor_access(&x, ROTA_READ), rota_tensor_write(&use->outputs[0]),
                                  rota_tensor_write(&use->outputs[1]), rota_tensor_write(&sums)};
        return rota_tape_kernel(tape, &rota_kernel_variance_long, accesses, 4, &of_chunks, NULL, 0);
    }
    rota_access accesses[] = {rota_tensor_access(&x, ROTA_READ), rota_tensor_write(&use->outputs[0]),
                              rota_tensor_write(&use->outputs[1])};
    return rota_tape_kernel(tape, &rota_kernel_variance, accesses, 3, &params, NULL, 0);
}

static rota_status gradient_variance(rota_tape *tape, const rota_op_use *use) {
    rota_tensor x, dy;
    rota_gradient_write write;
    ROTA_TRY(rota_gradient_begin(tape, &use->inputs[0], &write));
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[0], &x));
    ROTA_TRY(rota_record_contiguous(tape, rota_gradient_output(tape, 0), &dy));
    const rota_variance_params params = variance_params(use);
    rota_access accesses[] = {rota_tensor_access(&x, ROTA_READ),
                              rota_tensor_access(&use->outputs[1], ROTA_READ),
                              rota_tensor_access(&dy, ROTA_READ), rota_tensor_write(&write.dx)};
    ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_variance_backward, accesses, 4, &params, NULL, 0));
    return rota_gradient_end(tape, &use->inputs[0], &write);
}

/* ---- Examples ---- */

typedef struct shaped {
    const char *label;
    uint32_t rank;
    uint64_t shape[3];
    uint32_t axis;
    uint64_t m; /* along the axis in the index, or k */
    rota_dtype dtype;
} shaped;

static bool shape_at(uint32_t index, uint32_t size, shaped *out) {
    static const shaped small[] = {
        {"one element", 1, {1}, 0, 1, ROTA_F32},
        {"last axis", 2, {9, 37}, 1, 5, ROTA_F32},
        {"first axis", 2, {13, 9}, 0, 4, ROTA_F32},
        {"middle axis", 3, {3, 17, 70}, 1, 3, ROTA_F32},
        {"long rows", 2, {3, 301}, 1, 7, ROTA_F32},
        {"last axis, f16", 2, {9, 37}, 1, 5, ROTA_F16},
        {"middle axis, bf16", 3, {3, 11, 7}, 1, 3, ROTA_BF16},
    };
    static const shaped large[] = {{"rows of 1024 x 1024", 2, {1024, 1024}, 1, 8, ROTA_F32},
                                   {"columns of 1024 x 1024", 2, {1024, 1024}, 0, 8, ROTA_F32}};
    if (index >= (size ? sizeof large / sizeof large[0] : sizeof small / sizeof small[0])) return false;
    *out = size ? large[index] : small[index];
    return true;
}

/* The inputs of op number `which`, and the bytes of what it reads and writes. */
static bool example_of(uint32_t which, uint32_t index, uint32_t size, rota_op_example *out) {
    shaped s;
    rota_tensor outputs[ROTA_OP_OUTPUTS_MAX] = {{0}};
    if (!shape_at(index, size, &s)) return false;
    *out = (rota_op_example){.label = s.label, .classes = s.shape[s.axis]};
    rota_op_attributes *a = &out->use.attributes;
    uint64_t beside[3] = {s.shape[0], s.shape[1], s.shape[2]};
    beside[s.axis] = s.m;
    a->axis[0] = s.axis;
    a->keep = index % 2;
    a->dtype = s.dtype;
    a->integer = index % 2 && s.shape[s.axis] > 1;
    a->length = which == ONE_HOT ? s.shape[s.axis] : s.m;
    if (which == ONE_HOT) {
        rota_example_input(out, 0, ROTA_I32, 1, beside, ROTA_FILL_INDEX);
    } else {
        rota_example_input(out, 0, s.dtype, s.rank, s.shape,
                           which == TOP_K || which == ARGMAX ? ROTA_FILL_DISTINCT : ROTA_FILL_UNIFORM);
    }
    if (which == GATHER || which == SCATTER_ADD)
        rota_example_input(out, 1, ROTA_I32, s.rank, beside, ROTA_FILL_INDEX);
    if (which == SCATTER_ADD) rota_example_input(out, 2, s.dtype, s.rank, beside, ROTA_FILL_UNIFORM);
    out->use.op = &rota_ops_along[which];
    out->use.output_count = out->use.op->output_count;
    if (out->use.op->shape(&out->use, outputs) != ROTA_OK) return false;
    rota_example_bytes(out, outputs, out->use.op->output_count);
    return true;
}

#define EXAMPLE(NAME, WHICH)                                                                                 \
    static bool example_##NAME(uint32_t index, uint32_t size, rota_op_example *out) {                        \
        return example_of(WHICH, index, size, out);                                                          \
    }
EXAMPLE(gather, GATHER)
EXAMPLE(scatter, SCATTER_ADD)
EXAMPLE(one_hot, ONE_HOT)
EXAMPLE(argmax, ARGMAX)
EXAMPLE(top_k, TOP_K)
EXAMPLE(cumulative, CUMULATIVE_SUM)
EXAMPLE(variance, VARIANCE)

/* ---- Table ---- */

#define KERNELS(NAME, ...)                                                                                   \
    static const rota_kernel *const NAME[] = {__VA_ARGS__, &rota_kernel_copy_strided, NULL}
KERNELS(gather_kernels, &rota_kernel_gather);
KERNELS(scatter_kernels, &rota_kernel_scatter_add, &rota_kernel_cast);
KERNELS(one_hot_kernels, &rota_kernel_one_hot);
KERNELS(top_k_kernels, &rota_kernel_top_k);
KERNELS(cumulative_kernels, &rota_kernel_cumulative_sum);
KERNELS(variance_kernels, &rota_kernel_variance);

const rota_op rota_ops_along[] = {
    {
        .name = "gather",
        .input_count = 2,
        .output_count = 1,
        .input_names = {"x", "index"},
        .output_names = {"y"},
        .attributes = ATTRIBUTES(ATTRIBUTE(axis, axis[0])),
        .kernels = gather_kernels,
        .shape = shape_gather,
        .record = record_gather,
        .gradient = gradient_gather,
        .differentiable = 1,
        .saved_inputs = 2,
        .example = example_gather,
    },
    {
        .name = "scatter_add",
        .of_nothing = ROTA_OF_NOTHING_FIRST,
        .input_count = 3,
        .output_count = 1,
        .input_names = {"base", "index", "x"},
        .output_names = {"y"},
        .attributes = ATTRIBUTES(ATTRIBUTE(axis, axis[0])),
        .inplace_inputs = 1,
        .kernels = scatter_kernels,
        .shape = shape_scatter,
        .record = record_scatter,
        .gradient = gradient_scatter,
        .differentiable = 5,
        .saved_inputs = 2,
        .example = example_scatter,
    },
    {
        .name = "one_hot",
        .input_count = 1,
        .output_count = 1,
        .input_names = {"index"},
        .output_names = {"y"},
        .attributes = ATTRIBUTES(ATTRIBUTE(classes, length), ATTRIBUTE_DTYPE),
        .kernels = one_hot_kernels,
        .shape = shape_one_hot,
        .record = record_one_hot,
        .example = example_one_hot,
    },
    {
        .name = "argmax",
        .input_count = 1,
        .output_count = 1,
        .input_names = {"x"},
        .output_names = {"index"},
        .attributes = ATTRIBUTES(ATTRIBUTE(axis, axis[0]), ATTRIBUTE(keep, keep)),
        .kernels = top_k_kernels,
        .shape = shape_argmax,
        .record = record_argmax,
        .example = example_argmax,
    },
    {
        .name = "top_k",
        .input_count = 1,
        .output_count = 2,
        .input_names = {"x"},
        .output_names = {"values", "index"},
        .attributes = ATTRIBUTES(ATTRIBUTE(axis, axis[0]), ATTRIBUTE(k, length)),
        .kernels = top_k_kernels,
        .shape = shape_top_k,
        .record = record_top_k,
        .gradient = gradient_top_k,
        .differentiable = 1,
        .saved_outputs = 2,
        .example = example_top_k,
    },
    {
        .name = "cumulative_sum",
        .input_count = 1,
        .output_count = 1,
        .input_names = {"x"},
        .output_names = {"y"},
        .attributes = ATTRIBUTES(ATTRIBUTE(axis, axis[0])),
        .kernels = cumulative_kernels,
        .shape = shape_cumulative,
        .record = record_cumulative,
        .gradient = gradient_cumulative,
        .differentiable = 1,
        .example = example_cumulative,
    },
    {
        .name = "variance",
        .input_count = 1,
        .output_count = 2,
        .input_names = {"x"},
        .output_names = {"y", "mean"},
        .attributes =
            ATTRIBUTES(ATTRIBUTE(axis, axis[0]), ATTRIBUTE(correction, integer), ATTRIBUTE(keep, keep)),
        .kernels = variance_kernels,
        .shape = shape_variance,
        .record = record_variance,
        .gradient = gradient_variance,
        .differentiable = 1,
        .saved_inputs = 1,
        .saved_outputs = 2,
        .example = example_variance,
    },
    {0},
};
