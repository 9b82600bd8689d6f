/* Ops that choose element by element: where, masked_fill; dropout, residual_dropout. */
#include <inttypes.h>
#include "ops/kernel_objects.h"
#include "ops/op.h"
#include "ops/op_rules.h"
#include "ops/record.h"

#include <math.h>

enum { WHERE, MASKED_FILL, DROPOUT, RESIDUAL_DROPOUT };

/* ---- where, masked_fill ---- */

/* y = (c != 0) != invert ? a : b, or the number where b is NULL. y is contiguous; it may be exactly a or b.
 */
static rota_status choose(rota_tape *tape, const rota_tensor *c, const rota_tensor *a, const rota_tensor *b,
                          float number, bool invert, const rota_tensor *y) {
    rota_tensor left = *a, right = b ? *b : *c, condition;
    if (b && rota_record_fits(b, y) && (rota_tensors_equal(b, y) || !rota_record_fits(a, y))) {
        left = *b;
        right = *a;
        invert = !invert;
    } else if (!rota_record_fits(a, y)) {
        ROTA_TRY(rota_record_strided(tape, a, y, 1.0f, false));
        left = *y;
    }
    rota_where_params params = {
        .count = (uint32_t)rota_tensor_count(y),
        .flags = (invert ? ROTA_WHERE_INVERT : 0) | (b ? 0 : ROTA_WHERE_NUMBER),
        .number = number,
        .dtype = y->dtype,
    };
    /* Both are walked by one shape: that which the strides of both allow. */
    rota_walk walk;
    condition = *c;
    rota_tensor *both[] = {&condition, &right};
    for (uint32_t i = 0; i < (b ? 2u : 1u); i++) {
        if (both[i]->offset_bytes % 4 != 0) ROTA_TRY(rota_record_contiguous(tape, both[i], both[i]));
        ROTA_TRY(rota_tensor_broadcast(both[i], y->rank, y->shape, both[i]));
    }
    if (!b) right = condition;
    const uint64_t *strides[] = {condition.stride, right.stride, y->stride};
    rota_walk_of(y->rank, y->shape, 3, strides, &walk);
    uint64_t wide;
    if (walk.dims > ROTA_KERNEL_DIMS || !rota_walk_fits(&walk, 2, &wide)) {
        ROTA_TRY(rota_record_contiguous(tape, &condition, &condition));
        ROTA_TRY(rota_record_contiguous(tape, &right, &right));
        strides[0] = condition.stride;
        strides[1] = right.stride;
        rota_walk_of(y->rank, y->shape, 3, strides, &walk);
    }
    rota_walk_pad(walk.shape, walk.dims, ROTA_KERNEL_DIMS, 1, params.shape);
    rota_walk_pad(walk.stride[0], walk.dims, ROTA_KERNEL_DIMS, 0, params.c_stride);
    rota_walk_pad(walk.stride[1], walk.dims, ROTA_KERNEL_DIMS, 0, params.b_stride);
    rota_access accesses[] = {rota_tensor_access(&condition, ROTA_READ), rota_tensor_access(&left, ROTA_READ),
                              rota_tensor_access(&right, ROTA_READ), rota_tensor_write(y)};
    return rota_tape_kernel(tape, &rota_kernel_where, accesses, 4, &params, NULL, 0);
}

static rota_status shape_where(const rota_op_use *use, rota_tensor *out) {
    rota_dtype dtype;
    uint32_t rank;
    uint64_t shape[ROTA_RANK_MAX];
    ROTA_TRY(rota_shape_require_real(use, 7, &dtype));
    ROTA_TRY(rota_shape_broadcast(use, 7, &rank, shape));
    return rota_tensor_of(NULL, 0, dtype, rank, shape, out);
}

static rota_status record_where(rota_tape *tape, rota_op_use *use) {
    return choose(tape, &use->inputs[0], &use->inputs[1], &use->inputs[2], 0, false, &use->outputs[0]);
}

/* Of dy where the condition says so, else 0. */
static rota_status give(rota_tape *tape, const rota_tensor *x, const rota_tensor *c, bool invert,
                        const rota_tensor *y) {
    rota_gradient_write write = {0};
    rota_tensor dy;
    if (!rota_gradient_wanted(tape, x)) return ROTA_OK;
    ROTA_TRY(rota_record_contiguous(tape, rota_gradient_output(tape, 0), &dy));
    if (rota_shapes_equal(x, y))
        ROTA_TRY(rota_gradient_begin(tape, x, &write));
    else
        ROTA_TRY(rota_tape_temporary(tape, "gradient", y->dtype, y->rank, y->shape, &write.dx));
    ROTA_TRY(choose(tape, c, &dy, NULL, 0, invert, &write.dx));
    return rota_gradient_end(tape, x, &write);
}

static rota_status gradient_where(rota_tape *tape, const rota_op_use *use) {
    const rota_tensor *c = &use->inputs[0], *y = &use->outputs[0];
    ROTA_TRY(give(tape, &use->inputs[1], c, false, y));
    return give(tape, &use->inputs[2], c, true, y);
}

static rota_status shape_masked_fill(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *x = &use->inputs[0], *mask = &use->inputs[1];
    char from[ROTA_TENSOR_TEXT_MAX], to[ROTA_TENSOR_TEXT_MAX];
    rota_dtype dtype;
    rota_tensor view;
    ROTA_TRY(rota_shape_require_real(use, 3, &dtype));
    if (rota_tensor_broadcast(mask, x->rank, x->shape, &view) != ROTA_OK)
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "mask is %s, which does not repeat to x, %s",
                            rota_tensor_describe(mask, from, sizeof from),
                            rota_tensor_describe(x, to, sizeof to));
    return rota_shape_like(x, dtype, out);
}

static rota_status record_masked_fill(rota_tape *tape, rota_op_use *use) {
    return choose(tape, &use->inputs[1], &use->inputs[0], NULL, (float)use->attributes.value[0].number, true,
                  &use->outputs[0]);
}

static rota_status gradient_masked_fill(rota_tape *tape, const rota_op_use *use) {
    return give(tape, &use->inputs[0], &use->inputs[1], true, &use->outputs[0]);
}

static bool example_choose(uint32_t index, uint32_t size, bool masked, rota_op_example *out) {
    static const struct {
        const char *label;
        uint32_t rank[3];
        uint64_t c[4], a[4], b[4];
        rota_dtype dtype;
    } small[] = {
        {"one element", {1, 1, 1}, {1}, {1}, {1}, ROTA_F32},
        {"same shape", {2, 2, 2}, {37, 19}, {37, 19}, {37, 19}, ROTA_F32},
        {"mask of the last axes", {2, 3, 3}, {7, 33}, {3, 7, 33}, {3, 7, 33}, ROTA_F32},
        {"mask of the first axis", {2, 2, 2}, {9, 1}, {9, 65}, {9, 65}, ROTA_F32},
        {"same shape, bf16", {2, 2, 2}, {171, 203}, {171, 203}, {171, 203}, ROTA_BF16},
        {"mask of the last axes, f16", {2, 3, 3}, {7, 33}, {3, 7, 33}, {3, 7, 33}, ROTA_F16},
        {"all repeat", {3, 2, 1}, {3, 1, 5}, {4, 1}, {5}, ROTA_F32},
        {"all repeat, bf16", {3, 2, 1}, {3, 1, 5}, {4, 1}, {5}, ROTA_BF16},
    };
    static const rota_dtype dtypes[] = {ROTA_F32, ROTA_BF16};
    static const uint64_t million[] = {1024, 1024};
    if (index >= (size ? 2u : masked ? 6u : 8u)) return false;
    *out = (rota_op_example){.label = size ? "1024 x 1024" : small[index].label, .classes = 2};
    const rota_dtype dtype = size ? dtypes[index] : small[index].dtype;
    const uint32_t order[2][3] = {{0, 1, 2}, {1, 0, 0}};
    rota_example_input(out, order[masked][0], dtype, size ? 2 : small[index].rank[0],
                       size ? million : small[index].c, ROTA_FILL_INDEX);
    rota_example_input(out, order[masked][1], dtype, size ? 2 : small[index].rank[1],
                       size ? million : small[index].a, ROTA_FILL_UNIFORM);
    if (!masked)
        rota_example_input(out, 2, dtype, size ? 2 : small[index].rank[2], size ? million : small[index].b,
                           ROTA_FILL_UNIFORM);
    out->use.attributes.value[0] = rota_value_plain(-3.5);
    rota_tensor y;
    out->use.op = &rota_ops_choose[masked ? MASKED_FILL : WHERE];
    if (out->use.op->shape(&out->use, &y) != ROTA_OK) return false;
    rota_example_bytes(out, &y, 1);
    return true;
}
static bool example_where(uint32_t index, uint32_t size, rota_op_example *out) {
    return example_choose(index, size, false, out);
}
static bool example_masked_fill(uint32_t index, uint32_t size, rota_op_example *out) {
    return example_choose(index, size, true, out);
}

/* ---- dropout, residual_dropout ---- */

static rota_status shape_dropout(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *x = &use->inputs[0], *residual = &use->inputs[1];
    const bool with_residual = use->op == &rota_ops_choose[RESIDUAL_DROPOUT];
    char text[ROTA_TENSOR_TEXT_MAX], other[ROTA_TENSOR_TEXT_MAX];
    rota_dtype dtype;
    ROTA_TRY(rota_shape_require_real(use, with_residual ? 3 : 1, &dtype));
    if (with_residual && !rota_shapes_equal(x, residual))
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "x is %s, residual is %s; expected one shape",
                            rota_tensor_describe(x, text, sizeof text),
                            rota_tensor_describe(residual, other, sizeof other));
    const float p = use->attributes.p;
    if (!(p >= 0.0f && p < 1.0f))
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "p is %g, expected 0 <= p < 1", (double)p);
    ROTA_TRY(rota_shape_require_u32(use, 0, "seed"));
    ROTA_TRY(rota_shape_require_u32(use, 1, "step"));
    const uint64_t first = use->attributes.start, whole = use->attributes.length;
    const uint32_t axis = use->attributes.axis[0];
    if (whole ? axis >= x->rank || first > whole || x->shape[axis] > whole - first : first > 0 || axis > 0)
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT,
                            "x is %s, from element %llu on of %llu along axis %u; expected it to lie within",
                            rota_tensor_describe(x, text, sizeof text), (unsigned long long)first,
                            (unsigned long long)whole, axis);
    return rota_shape_like(x, dtype, out);
}

/* Where the elements of x lie in a whole, of which this tape's rank, and along an axis x, may have a part: `pieces`
 * of `count` elements each, a piece of the whole's `step` elements behind the one before, from `first` on. */
typedef struct mask_range {
    uint64_t pieces, count, step, first;
} mask_range;

static rota_status mask_of_part(const rota_tape *tape, const rota_op_attributes *attributes,
                                const rota_tensor *x, mask_range *out) {
    const rota_tape_options *options = &tape->options;
    *out = (mask_range){.pieces = 1, .count = rota_tensor_count(x)};
    uint64_t inner = 1;
    if (attributes->length && out->count) {
        for (uint32_t d = attributes->axis[0] + 1; d < x->rank; d++) inner *= x->shape[d];
        out->count = x->shape[attributes->axis[0]] * inner;
        out->pieces = rota_tensor_count(x) / out->count;
    }
    out->step = attributes->length ? attributes->length * inner : out->count;
    out->first = attributes->start * inner + options->rank * out->pieces * out->step;
    const bool cut = attributes->length || options->ranks > 1;
    if (!cut || (out->count % 4 == 0 && out->step % 4 == 0 && out->first % 4 == 0)) return ROTA_OK;
    return rota_fail(ROTA_UNSUPPORTED,
                     "dropout: %" PRIu64 " elements of one of %u ranks, the part from %" PRIu64
                     " on of every %" PRIu64
                     ", expected multiples of 4: a mask of the whole is drawn four by four",
                     out->count, options->ranks ? options->ranks : 1, out->first, out->step);
}

static rota_status piece_of(const rota_tensor *x, uint64_t piece, uint64_t count, rota_tensor *out) {
    return rota_tensor_of(x->buffer, x->offset_bytes + piece * count * rota_dtype_bytes(x->dtype), x->dtype,
                          ROTA_SHAPE(count), out);
}

/* residual may be NULL. */
static rota_status run_dropout(rota_tape *tape, const rota_op_attributes *attributes, const rota_tensor *x,
                               const rota_tensor *residual, const rota_tensor *y) {
    rota_tensor from, plus;
    ROTA_TRY(rota_record_contiguous(tape, x, &from));
    plus = from;
    if (residual) ROTA_TRY(rota_record_contiguous(tape, residual, &plus));
    const double threshold = rint((double)attributes->p * 0x1p32);
    rota_dropout_params params = {
        .threshold = threshold < 4294967295.0 ? (uint32_t)threshold : UINT32_MAX,
        .scale = 1.0f / (1.0f - attributes->p),
        .stream = attributes->stream,
        .seed = rota_value_u32(attributes->value[0]),
        .step = rota_value_u32(attributes->value[1]),
        .has_residual = residual != NULL,
        .dtype = y->dtype,
    };
    rota_param_binding bindings[2];
    uint32_t count = 0;
    rota_value_bind(attributes->value[0], 0, bindings, &count);
    rota_value_bind(attributes->value[1], 1, bindings, &count);
    mask_range range;
    ROTA_TRY(mask_of_part(tape, attributes, y, &range));
    params.count = (uint32_t)range.count;
    for (uint64_t i = 0; i < range.pieces; i++) {
        rota_tensor own[3];
        ROTA_TRY(piece_of(&from, i, range.count, &own[0]));
        ROTA_TRY(piece_of(&plus, i, range.count, &own[1]));
        ROTA_TRY(piece_of(y, i, range.count, &own[2]));
        params.first = (uint32_t)((range.first + i * range.step) / 4);
        rota_access accesses[] = {rota_tensor_access(&own[0], ROTA_READ),
                                  rota_tensor_access(&own[1], ROTA_READ), rota_tensor_write(&own[2])};
        ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_dropout, accesses, 3, &params, bindings, count));
    }
    return ROTA_OK;
}

static rota_status record_dropout(rota_tape *tape, rota_op_use *use) {
    return run_dropout(tape, &use->attributes, &use->inputs[0],
                       use->op == &rota_ops_choose[RESIDUAL_DROPOUT] ? &use->inputs[1] : NULL,
                       &use->outputs[0]);
}

static rota_status gradient_dropout(rota_tape *tape, const rota_op_use *use) {
    rota_gradient_write write;
    if (use->op == &rota_ops_choose[RESIDUAL_DROPOUT])
        ROTA_TRY(rota_gradient_add(tape, &use->inputs[1], rota_gradient_output(tape, 0), 1.0f));
    if (!rota_gradient_wanted(tape, &use->inputs[0])) return ROTA_OK;
    ROTA_TRY(rota_gradient_begin(tape, &use->inputs[0], &write));
    ROTA_TRY(run_dropout(tape, &use->attributes, rota_gradient_output(tape, 0), NULL, &write.dx));
    return rota_gradient_end(tape, &use->inputs[0], &write);
}

static bool example_dropout(uint32_t index, uint32_t size, rota_op_example *out) {
    uint32_t rank;
    const uint64_t *shape;
    rota_dtype dtype;
    *out = (rota_op_example){0};
    if (!rota_example_typed(index, size, &out->label, &dtype, &rank, &shape)) return false;
    rota_example_input(out, 0, dtype, rank, shape, ROTA_FILL_UNIFORM);
    out->use.attributes.p = index % 2 ? 0.2f : 0.5f;
    out->use.attributes.value[0] = rota_value_constant(1234 + index);
    out->use.attributes.value[1] = rota_value_constant(7);
    out->use.attributes.stream = index;
    out->flops = (double)rota_tensor_count(&out->use.inputs[0]);
    rota_example_bytes(out, out->use.inputs, 1);
    return true;
}
static bool example_residual(uint32_t index, uint32_t size, rota_op_example *out) {
    if (!example_dropout(index, size, out)) return false;
    const rota_tensor x = out->use.inputs[0];
    rota_example_input(out, 1, x.dtype, x.rank, x.shape, ROTA_FILL_UNIFORM);
    rota_example_bytes(out, &x, 1);
    return true;
}

/* ---- Table ---- */

static const rota_kernel *const where_kernels[] = {&rota_kernel_where, &rota_kernel_copy_strided, NULL};
static const rota_kernel *const dropout_kernels[] = {&rota_kernel_dropout, &rota_kernel_copy_strided, NULL};

const rota_op rota_ops_choose[] = {
    {
        .name = "where",
        .input_count = 3,
        .output_count = 1,
        .input_names = {"condition", "a", "b"},
        .output_names = {"y"},
        .inplace_inputs = 6,
        .kernels = where_kernels,
        .shape = shape_where,
        .record = record_where,
        .gradient = gradient_where,
        .differentiable = 6,
        .saved_inputs = 1,
        .example = example_where,
    },
    {
        .name = "masked_fill",
        .input_count = 2,
        .output_count = 1,
        .input_names = {"x", "mask"},
        .output_names = {"y"},
        .attributes = ATTRIBUTES(ATTRIBUTE(number, value[0])),
        .inplace_inputs = 1,
        .kernels = where_kernels,
        .shape = shape_masked_fill,
        .record = record_masked_fill,
        .gradient = gradient_masked_fill,
        .differentiable = 1,
        .saved_inputs = 2,
        .example = example_masked_fill,
    },
    {
        .name = "dropout",
        .input_count = 1,
        .output_count = 1,
        .input_names = {"x"},
        .output_names = {"y"},
        .attributes = ATTRIBUTES(ATTRIBUTE(p, p), ATTRIBUTE(seed, value[0]), ATTRIBUTE(step, value[1]),
                                 ATTRIBUTE(stream, stream), ATTRIBUTE(axis, axis[0]), ATTRIBUTE(first, start),
                                 ATTRIBUTE(whole, length)),
        .inplace_inputs = 1,
        .varies_by_step = 3,
        .kernels = dropout_kernels,
        .shape = shape_dropout,
        .record = record_dropout,
        .gradient = gradient_dropout,
        .differentiable = 1,
        .example = example_dropout,
    },
    {
        .name = "residual_dropout",
        .input_count = 2,
        .output_count = 1,
        .input_names = {"x", "residual"},
        .output_names = {"y"},
        .attributes = ATTRIBUTES(ATTRIBUTE(p, p), ATTRIBUTE(seed, value[0]), ATTRIBUTE(step, value[1]),
                                 ATTRIBUTE(stream, stream), ATTRIBUTE(axis, axis[0]), ATTRIBUTE(first, start),
                                 ATTRIBUTE(whole, length)),
        .inplace_inputs = 3,
        .varies_by_step = 3,
        .kernels = dropout_kernels,
        .shape = shape_dropout,
        .record = record_dropout,
        .gradient = gradient_dropout,
        .differentiable = 3,
        .example = example_residual,
    },
    {0},
};
