/* Ops: sum, mean, max, min along an axis; sum_squares of everything. */
#include "ops/kernel_objects.h"
#include "ops/long_axis.h"
#include "ops/op.h"
#include "ops/op_rules.h"
#include "ops/record.h"

enum { SUM, MEAN, MAX, MIN };

/* What comes out of x is x's elements, the largest or the smallest. */
static bool picks(const rota_op *op) {
    return op == &rota_ops_reduce[MAX] || op == &rota_ops_reduce[MIN];
}

static rota_status shape_reduce(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *x = &use->inputs[0];
    const uint32_t axis = use->attributes.axis[0];
    rota_dtype dtype;
    ROTA_TRY(rota_shape_require_real(use, 1, &dtype));
    if (axis >= x->rank) {
        char text[ROTA_TENSOR_TEXT_MAX];
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT,
                            "axis %u of x, which is %s: expected an axis below %u", axis,
                            rota_tensor_describe(x, text, sizeof text), x->rank);
    }
    uint64_t shape[ROTA_RANK_MAX];
    uint32_t rank = 0;
    for (uint32_t i = 0; i < x->rank; i++) {
        if (i != axis)
            shape[rank++] = x->shape[i];
        else if (use->attributes.keep)
            shape[rank++] = 1;
    }
    return rota_tensor_of(NULL, 0, dtype, rank, shape, out);
}

static void sizes(const rota_tensor *x, uint32_t axis, uint64_t *outer, uint64_t *n, uint64_t *inner) {
    *outer = *inner = 1;
    *n = x->shape[axis];
    for (uint32_t i = 0; i < axis; i++) *outer *= x->shape[i];
    for (uint32_t i = axis + 1; i < x->rank; i++) *inner *= x->shape[i];
}

static rota_status record_reduce(rota_tape *tape, rota_op_use *use) {
    rota_tensor x;
    uint64_t outer, n, inner;
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[0], &x));
    sizes(&x, use->attributes.axis[0], &outer, &n, &inner);
    const bool mean = use->op == &rota_ops_reduce[MEAN];
    static const rota_reduce kinds[] = {ROTA_REDUCE_SUM, ROTA_REDUCE_SUM, ROTA_REDUCE_MAX, ROTA_REDUCE_MIN};
    return rota_record_reduce(tape, kinds[use->op - rota_ops_reduce], mean ? 1.0f / (float)n : 1.0f, outer, n,
                              inner, &x, &use->outputs[0]);
}

static rota_status gradient_reduce(rota_tape *tape, const rota_op_use *use) {
    const rota_tensor *x = &use->inputs[0];
    uint64_t outer, n, inner;
    sizes(x, use->attributes.axis[0], &outer, &n, &inner);
    rota_tensor dy, value, result;
    ROTA_TRY(rota_record_contiguous(tape, rota_gradient_output(tape, 0), &dy));
    if (!picks(use->op)) {
        uint64_t shape[ROTA_RANK_MAX];
        for (uint32_t i = 0; i < x->rank; i++) shape[i] = i == use->attributes.axis[0] ? 1 : x->shape[i];
        ROTA_TRY(rota_tensor_reshape(&dy, x->rank, shape, &dy));
        ROTA_TRY(rota_tensor_broadcast(&dy, x->rank, x->shape, &dy));
        return rota_gradient_add(tape, x, &dy, use->op == &rota_ops_reduce[MEAN] ? 1.0f / (float)n : 1.0f);
    }
    rota_gradient_write write;
    ROTA_TRY(rota_gradient_begin(tape, x, &write));
    ROTA_TRY(rota_record_contiguous(tape, x, &value));
    ROTA_TRY(rota_record_contiguous(tape, &use->outputs[0], &result));
    rota_max_backward_params params = {(uint32_t)outer, (uint32_t)n, (uint32_t)inner, x->dtype};
    rota_access accesses[] = {rota_tensor_access(&value, ROTA_READ), rota_tensor_access(&result, ROTA_READ),
                              rota_tensor_access(&dy, ROTA_READ), rota_tensor_write(&write.dx)};
    const uint32_t chunk = rota_long_chunk(params.n);
    if (chunk == params.n) {
        ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_max_backward, accesses, 4, &params, NULL, 0));
        return rota_gradient_end(tape, x, &write);
    }
    const rota_long_params of_chunks = {params.outer, params.n, params.inner, chunk, .dtype = x->dtype};
    rota_tensor first;
    ROTA_TRY(
        rota_tape_temporary(tape, "first", ROTA_U32, ROTA_SHAPE(outer, (n - 1) / chunk + 1, inner), &first));
    rota_access with_first[] = {accesses[0], accesses[1], accesses[2], accesses[3],
                                rota_tensor_write(&first)};
    ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_max_backward_long, with_first, 5, &of_chunks, NULL, 0));
    return rota_gradient_end(tape, x, &write);
}

static rota_status shape_squares(const rota_op_use *use, rota_tensor *out) {
    rota_dtype dtype;
    ROTA_TRY(rota_shape_require_real(use, 1, &dtype));
    return rota_tensor_of(NULL, 0, ROTA_F32, ROTA_SHAPE(1), out);
}

static rota_status record_squares(rota_tape *tape, rota_op_use *use) {
    rota_tensor x;
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[0], &x));
    return rota_record_reduce(tape, ROTA_REDUCE_SUM_SQUARES, 1.0f, 1, rota_tensor_count(&x), 1, &x,
                              &use->outputs[0]);
}

/* dx = 2 x dy. */
static rota_status gradient_squares(rota_tape *tape, const rota_op_use *use) {
    const rota_tensor *x = &use->inputs[0];
    rota_tensor product;
    ROTA_TRY(rota_tape_temporary(tape, "gradient", x->dtype, x->rank, x->shape, &product));
    rota_tensor dy = *rota_gradient_output(tape, 0), narrow;
    ROTA_TRY(rota_tensor_reshape(&dy, 0, NULL, &dy));
    if (x->dtype != ROTA_F32) {
        ROTA_TRY(rota_tape_temporary(tape, "gradient", x->dtype, 0, NULL, &narrow));
        ROTA_TRY(rota_record_cast(tape, &dy, &narrow));
        dy = narrow;
    }
    ROTA_TRY(rota_record_binary(tape, ROTA_BINARY_MUL, x, &dy, &product));
    return rota_gradient_add(tape, x, &product, 2.0f);
}

static bool example_reduce(uint32_t index, uint32_t size, rota_op_example *out) {
    static const struct {
        const char *label;
        uint32_t rank;
        uint64_t shape[4];
        uint32_t axis;
        bool keep;
        rota_dtype dtype;
    } small[] =
        {
            {"last axis", 2, {9, 37}, 1, false, ROTA_F32},
            {"first axis", 2, {37, 9}, 0, false, ROTA_F32},
            {"middle axis, kept", 3, {3, 17, 70}, 1, true, ROTA_F32},
            {"one axis", 1, {5}, 0, false, ROTA_F32},
            {"long axis", 1, {5000}, 0, true, ROTA_F32},
            {"long columns", 2, {1001, 5}, 0, false, ROTA_F32},
            {"length one", 3, {4, 1, 3}, 1, false, ROTA_F32},
            {"last axis, f16", 2, {9, 37}, 1, false, ROTA_F16},
            {"last axis, bf16", 2, {9, 48}, 1, false, ROTA_BF16},
            {"middle axis, kept, bf16", 3, {3, 17, 70}, 1, true, ROTA_BF16},
            {"long axis, f16", 1, {301}, 0, true, ROTA_F16},
            {"long columns, bf16", 2, {151, 6}, 0, false, ROTA_BF16},
        },
      large[] = {{"rows of 1024 x 1024", 2, {1024, 1024}, 1, false, ROTA_F32},
                 {"columns of 1024 x 1024", 2, {1024, 1024}, 0, false, ROTA_F32},
                 {"a million", 1, {1048576}, 0, false, ROTA_F32},
                 {"columns of 32768 x 768, bf16", 2, {32768, 768}, 0, false, ROTA_BF16},
                 {"rows of 32768 x 768, bf16", 2, {32768, 768}, 1, false, ROTA_BF16}};
    if (index >= (size ? sizeof large / sizeof large[0] : sizeof small / sizeof small[0])) return false;
    *out = (rota_op_example){.label = size ? large[index].label : small[index].label};
    rota_example_input(out, 0, size ? large[index].dtype : small[index].dtype,
                       size ? large[index].rank : small[index].rank,
                       size ? large[index].shape : small[index].shape, ROTA_FILL_DISTINCT);
    out->use.attributes.axis[0] = size ? large[index].axis : small[index].axis;
    out->use.attributes.keep = size ? large[index].keep : small[index].keep;
    out->flops = (double)rota_tensor_count(&out->use.inputs[0]);
    out->use.op = &rota_ops_reduce[SUM];
    rota_tensor y;
    if (shape_reduce(&out->use, &y) != ROTA_OK) return false;
    rota_example_bytes(out, &y, 1);
    return true;
}

static bool example_squares(uint32_t index, uint32_t size, rota_op_example *out) {
    static const uint64_t counts[] = {1, 77, 5001, 77, 5001, 1u << 20};
    static const rota_dtype dtypes[] = {ROTA_F32, ROTA_F32, ROTA_F32, ROTA_F16, ROTA_BF16, ROTA_F32};
    if (index >= (size ? 1 : 5)) return false;
    if (size) index = 5;
    *out = (rota_op_example){.label = size ? "a million" : "odd"};
    rota_example_input(out, 0, dtypes[index], 1, &counts[index], ROTA_FILL_UNIFORM);
    out->flops = 2.0 * (double)rota_tensor_count(&out->use.inputs[0]);
    rota_example_bytes(out, NULL, 0);
    return true;
}

static const rota_kernel *const reduce_kernels[] = {&rota_kernel_reduce, &rota_kernel_copy_strided, NULL};

#define REDUCE(NAME, OF_NOTHING, SAVED_INPUTS, SAVED_OUTPUTS)                                                \
    {                                                                                                        \
        .name = NAME, .input_count = 1, .output_count = 1, .input_names = {"x"}, .output_names = {"y"},      \
        .attributes = ATTRIBUTES(ATTRIBUTE(axis, axis[0]), ATTRIBUTE(keep, keep)),                           \
        .of_nothing = ROTA_OF_NOTHING_##OF_NOTHING, .kernels = reduce_kernels, .shape = shape_reduce,        \
        .record = record_reduce, .gradient = gradient_reduce, .differentiable = 1,                           \
        .saved_inputs = (SAVED_INPUTS), .saved_outputs = (SAVED_OUTPUTS), .example = example_reduce          \
    }

const rota_op rota_ops_reduce[] = {
    REDUCE("sum", ZERO, 0, 0),
    REDUCE("mean", REFUSED, 0, 0),
    REDUCE("max", REFUSED, 1, 1),
    REDUCE("min", REFUSED, 1, 1),
    {
        .name = "sum_squares",
        .of_nothing = ROTA_OF_NOTHING_ZERO,
        .input_count = 1,
        .output_count = 1,
        .input_names = {"x"},
        .output_names = {"y"},
        .kernels = reduce_kernels,
        .shape = shape_squares,
        .record = record_squares,
        .gradient = gradient_squares,
        .differentiable = 1,
        .saved_inputs = 1,
        .example = example_squares,
    },
    {0},
};
