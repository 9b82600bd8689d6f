/* Ops: add, sub, mul, div, neg, exp, log, sqrt, relu, gelu, silu, affine, dropout. */
#include "ops/op.h"

#include <math.h>

/* ---- Binary ---- */

static rota_status shape_binary(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *a = &use->inputs[0], *b = &use->inputs[1];
    ROTA_TRY(rota_shape_require(use, 3, ROTA_F32));
    const uint32_t rank = a->rank > b->rank ? a->rank : b->rank;
    uint64_t shape[ROTA_RANK_MAX] = {0};
    for (uint32_t i = 0; i < rank; i++) {
        uint64_t ea = i + a->rank >= rank ? a->shape[i + a->rank - rank] : 1;
        uint64_t eb = i + b->rank >= rank ? b->shape[i + b->rank - rank] : 1;
        if (ea != eb && ea != 1 && eb != 1) {
            char left[ROTA_TENSOR_TEXT_MAX], right[ROTA_TENSOR_TEXT_MAX];
            return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT,
                                "a is %s, b is %s; expected axes, counted from the last, to be alike or 1",
                                rota_tensor_describe(a, left, sizeof left),
                                rota_tensor_describe(b, right, sizeof right));
        }
        shape[i] = ea > eb ? ea : eb;
    }
    return rota_tensor_of(NULL, 0, ROTA_F32, rank, shape, out);
}

static rota_binary binary_of(const rota_op *op) {
    return (rota_binary)(op - rota_ops_elementwise);
}

static rota_status record_binary(rota_tape *tape, rota_op_use *use) {
    return rota_record_binary(tape, binary_of(use->op), &use->inputs[0], &use->inputs[1], &use->outputs[0]);
}

/* A new contiguous tensor a op b of y's shape. */
static rota_status combine(rota_tape *tape, rota_binary op, const rota_tensor *a, const rota_tensor *b,
                           const rota_tensor *y, rota_tensor *out) {
    ROTA_TRY(rota_tape_temporary(tape, "gradient", ROTA_F32, y->rank, y->shape, out));
    return rota_record_binary(tape, op, a, b, out);
}

static rota_status gradient_binary(rota_tape *tape, const rota_op_use *use) {
    const rota_tensor *a = &use->inputs[0], *b = &use->inputs[1], *y = &use->outputs[0];
    const rota_tensor *dy = rota_gradient_output(tape, 0);
    const rota_binary op = binary_of(use->op);
    rota_tensor da, db;
    if (op == ROTA_BINARY_ADD || op == ROTA_BINARY_SUB) {
        ROTA_TRY(rota_gradient_add(tape, a, dy, 1.0f));
        return rota_gradient_add(tape, b, dy, op == ROTA_BINARY_ADD ? 1.0f : -1.0f);
    }
    if (rota_gradient_wanted(tape, a)) {
        ROTA_TRY(combine(tape, op, dy, b, y, &da)); /* dy * b or dy / b */
        ROTA_TRY(rota_gradient_add(tape, a, &da, 1.0f));
    }
    if (!rota_gradient_wanted(tape, b)) return ROTA_OK;
    ROTA_TRY(combine(tape, ROTA_BINARY_MUL, dy, op == ROTA_BINARY_MUL ? a : y, y, &db));
    if (op == ROTA_BINARY_DIV) ROTA_TRY(rota_record_binary(tape, ROTA_BINARY_DIV, &db, b, &db));
    return rota_gradient_add(tape, b, &db, op == ROTA_BINARY_MUL ? 1.0f : -1.0f);
}

static bool example_binary(uint32_t index, uint32_t size, rota_op_example *out) {
    static const struct {
        const char *label;
        uint32_t rank_a, rank_b;
        uint64_t a[4], b[4];
    } small[] = {
        {"one element", 1, 1, {1}, {1}},
        {"same shape", 2, 2, {37, 19}, {37, 19}},
        {"bias", 3, 1, {3, 7, 33}, {33}},
        {"column", 2, 2, {9, 65}, {9, 1}},
        {"scalar on the left", 1, 2, {1}, {5, 7}},
        {"both repeat", 2, 2, {11, 1}, {1, 13}},
        {"middle axis", 4, 4, {2, 3, 4, 5}, {2, 1, 4, 1}},
        {"more than one piece", 2, 2, {170, 200}, {170, 200}},
    };
    static const uint64_t million[] = {1024, 1024};
    if (index >= (size ? 2 : sizeof small / sizeof small[0])) return false;
    *out = (rota_op_example){0};
    rota_tensor y;
    if (size) {
        out->label = index == 0 ? "1024 x 1024" : "1024 x 1024, bias";
        rota_example_input(out, 0, ROTA_F32, 2, million, ROTA_FILL_UNIFORM);
        rota_example_input(out, 1, ROTA_F32, index == 0 ? 2 : 1, million, ROTA_FILL_POSITIVE);
    } else {
        out->label = small[index].label;
        rota_example_input(out, 0, ROTA_F32, small[index].rank_a, small[index].a, ROTA_FILL_UNIFORM);
        rota_example_input(out, 1, ROTA_F32, small[index].rank_b, small[index].b, ROTA_FILL_POSITIVE);
    }
    out->use.op = &rota_ops_elementwise[0];
    if (shape_binary(&out->use, &y) != ROTA_OK) return false;
    out->flops = (double)rota_tensor_count(&y);
    rota_example_bytes(out, &y, 1);
    return true;
}

/* ---- Unary ---- */

enum { FIRST_UNARY = 4, AFFINE = 11, DROPOUT = 12 };

static rota_unary unary_of(const rota_op *op) {
    uint64_t index = (uint64_t)(op - rota_ops_elementwise);
    return index == AFFINE ? ROTA_UNARY_AFFINE : (rota_unary)(index - FIRST_UNARY + ROTA_UNARY_NEG);
}

static rota_status shape_unary(const rota_op_use *use, rota_tensor *out) {
    ROTA_TRY(rota_shape_require(use, 1, ROTA_F32));
    return rota_shape_like(&use->inputs[0], ROTA_F32, out);
}

/* alpha and beta bound as the attributes say; beta only where it is asked for. */
static rota_status run_unary(rota_tape *tape, rota_unary op, const rota_op_attributes *attributes,
                             bool with_beta, const rota_tensor *x, const rota_tensor *y) {
    rota_tensor from;
    ROTA_TRY(rota_record_contiguous(tape, x, &from));
    rota_unary_params params = {.count = (uint32_t)rota_tensor_count(y), .op = op};
    rota_param_binding bindings[2];
    uint32_t count = 0;
    if (op == ROTA_UNARY_AFFINE) {
        params.alpha = rota_value_f32(attributes->value[0]);
        rota_value_bind(attributes->value[0], 0, bindings, &count);
        if (with_beta) {
            params.beta = rota_value_f32(attributes->value[1]);
            rota_value_bind(attributes->value[1], 1, bindings, &count);
        }
    }
    rota_access accesses[] = {rota_tensor_access(&from, ROTA_READ), rota_tensor_write(y)};
    return rota_tape_kernel(tape, &rota_kernel_unary, accesses, 2, &params, bindings, count);
}

static rota_status record_unary(rota_tape *tape, rota_op_use *use) {
    return run_unary(tape, unary_of(use->op), &use->attributes, true, &use->inputs[0], &use->outputs[0]);
}

static rota_status gradient_unary(rota_tape *tape, const rota_op_use *use) {
    const rota_unary op = unary_of(use->op);
    const rota_tensor *x = &use->inputs[0], *dy = rota_gradient_output(tape, 0);
    if (op == ROTA_UNARY_NEG) return rota_gradient_add(tape, x, dy, -1.0f);
    rota_gradient_write write;
    ROTA_TRY(rota_gradient_begin(tape, x, &write));
    if (op == ROTA_UNARY_AFFINE) {
        ROTA_TRY(run_unary(tape, op, &use->attributes, false, dy, &write.dx));
        return rota_gradient_end(tape, x, &write);
    }
    rota_tensor value, from;
    bool of_output = op == ROTA_UNARY_EXP || op == ROTA_UNARY_SQRT;
    ROTA_TRY(rota_record_contiguous(tape, of_output ? &use->outputs[0] : x, &value));
    ROTA_TRY(rota_record_contiguous(tape, dy, &from));
    rota_unary_params params = {.count = (uint32_t)rota_tensor_count(x), .op = op};
    rota_access accesses[] = {rota_tensor_access(&value, ROTA_READ), rota_tensor_access(&from, ROTA_READ),
                              rota_tensor_write(&write.dx)};
    ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_unary_backward, accesses, 3, &params, NULL, 0));
    return rota_gradient_end(tape, x, &write);
}

static bool example_filled(uint32_t index, uint32_t size, rota_fill_kind fill, double flops,
                           rota_op_example *out) {
    uint32_t rank;
    const uint64_t *shape;
    *out = (rota_op_example){0};
    if (!rota_example_shape(index, size, &out->label, &rank, &shape)) return false;
    rota_example_input(out, 0, ROTA_F32, rank, shape, fill);
    out->use.attributes.value[0] = rota_value_plain(-1.75);
    out->use.attributes.value[1] = rota_value_plain(0.5);
    out->flops = flops * (double)rota_tensor_count(&out->use.inputs[0]);
    rota_example_bytes(out, out->use.inputs, 1);
    return true;
}

static bool example_unary(uint32_t index, uint32_t size, rota_op_example *out) {
    return example_filled(index, size, ROTA_FILL_UNIFORM, 1, out);
}

static bool example_positive(uint32_t index, uint32_t size, rota_op_example *out) {
    return example_filled(index, size, ROTA_FILL_POSITIVE, 1, out);
}

static bool example_distinct(uint32_t index, uint32_t size, rota_op_example *out) {
    return example_filled(index, size, ROTA_FILL_DISTINCT, 1, out);
}

/* ---- Dropout ---- */

static rota_status shape_dropout(const rota_op_use *use, rota_tensor *out) {
    ROTA_TRY(rota_shape_require(use, 1, ROTA_F32));
    const float p = use->attributes.p;
    if (!(p >= 0.0f && p < 1.0f))
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "p is %g, expected 0 <= p < 1", (double)p);
    ROTA_TRY(rota_shape_require_u32(use, 0, "seed"));
    ROTA_TRY(rota_shape_require_u32(use, 1, "step"));
    return rota_shape_like(&use->inputs[0], ROTA_F32, out);
}

static rota_status run_dropout(rota_tape *tape, const rota_op_attributes *attributes, const rota_tensor *x,
                               const rota_tensor *y) {
    rota_tensor from;
    ROTA_TRY(rota_record_contiguous(tape, x, &from));
    const double threshold = rint((double)attributes->p * 0x1p32);
    rota_dropout_params params = {
        .count = (uint32_t)rota_tensor_count(y),
        .threshold = threshold < 4294967295.0 ? (uint32_t)threshold : UINT32_MAX,
        .scale = 1.0f / (1.0f - attributes->p),
        .stream = attributes->stream,
        .seed = rota_value_u32(attributes->value[0]),
        .step = rota_value_u32(attributes->value[1]),
    };
    rota_param_binding bindings[2];
    uint32_t count = 0;
    rota_value_bind(attributes->value[0], 0, bindings, &count);
    rota_value_bind(attributes->value[1], 1, bindings, &count);
    rota_access accesses[] = {rota_tensor_access(&from, ROTA_READ), rota_tensor_write(y)};
    return rota_tape_kernel(tape, &rota_kernel_dropout, accesses, 2, &params, bindings, count);
}

static rota_status record_dropout(rota_tape *tape, rota_op_use *use) {
    return run_dropout(tape, &use->attributes, &use->inputs[0], &use->outputs[0]);
}

static rota_status gradient_dropout(rota_tape *tape, const rota_op_use *use) {
    rota_gradient_write write;
    ROTA_TRY(rota_gradient_begin(tape, &use->inputs[0], &write));
    ROTA_TRY(run_dropout(tape, &use->attributes, rota_gradient_output(tape, 0), &write.dx));
    return rota_gradient_end(tape, &use->inputs[0], &write);
}

static bool example_dropout(uint32_t index, uint32_t size, rota_op_example *out) {
    if (!example_filled(index, size, ROTA_FILL_UNIFORM, 1, out)) return false;
    out->use.attributes.p = index % 2 ? 0.2f : 0.5f;
    out->use.attributes.value[0] = rota_value_constant(1234 + index);
    out->use.attributes.value[1] = rota_value_constant(7);
    out->use.attributes.stream = index;
    return true;
}

/* ---- Table ---- */

static const rota_kernel *const binary_kernels[] = {&rota_kernel_binary, &rota_kernel_copy_strided, NULL};
static const rota_kernel *const unary_kernels[] = {&rota_kernel_unary, &rota_kernel_copy_strided, NULL};
static const rota_kernel *const dropout_kernels[] = {&rota_kernel_dropout, &rota_kernel_copy_strided, NULL};

#define BINARY(NAME, SAVED_INPUTS, SAVED_OUTPUTS)                                                            \
    {                                                                                                        \
        .name = NAME, .input_count = 2, .output_count = 1, .input_names = {"a", "b"}, .output_names = {"y"}, \
        .attributes = "", .inplace_inputs = 3, .kernels = binary_kernels, .shape = shape_binary,             \
        .record = record_binary, .gradient = gradient_binary, .differentiable = 3,                           \
        .saved_inputs = (SAVED_INPUTS), .saved_outputs = (SAVED_OUTPUTS), .example = example_binary          \
    }

#define UNARY(NAME, ATTRIBUTES, SAVED_INPUTS, SAVED_OUTPUTS, EXAMPLE)                                        \
    {                                                                                                        \
        .name = NAME, .input_count = 1, .output_count = 1, .input_names = {"x"}, .output_names = {"y"},      \
        .attributes = ATTRIBUTES, .inplace_inputs = 1, .kernels = unary_kernels, .shape = shape_unary,       \
        .record = record_unary, .gradient = gradient_unary, .differentiable = 1,                             \
        .saved_inputs = (SAVED_INPUTS), .saved_outputs = (SAVED_OUTPUTS), .example = EXAMPLE                 \
    }

/* The binary ops in the order of rota_binary, then the unary ones in that of rota_unary from NEG on. */
const rota_op rota_ops_elementwise[] = {
    BINARY("add", 0, 0),
    BINARY("sub", 0, 0),
    BINARY("mul", 3, 0),
    BINARY("div", 2, 1),
    UNARY("neg", "", 0, 0, example_unary),
    UNARY("exp", "", 0, 1, example_unary),
    UNARY("log", "", 1, 0, example_positive),
    UNARY("sqrt", "", 0, 1, example_positive),
    UNARY("relu", "", 1, 0, example_distinct),
    UNARY("gelu", "", 1, 0, example_unary),
    UNARY("silu", "", 1, 0, example_unary),
    UNARY("affine", "value[0]=alpha value[1]=beta", 0, 0, example_unary),
    {
        .name = "dropout",
        .input_count = 1,
        .output_count = 1,
        .input_names = {"x"},
        .output_names = {"y"},
        .attributes = "p value[0]=seed value[1]=step stream",
        .inplace_inputs = 1,
        .varies_by_step = 3,
        .kernels = dropout_kernels,
        .shape = shape_dropout,
        .record = record_dropout,
        .gradient = gradient_dropout,
        .differentiable = 1,
        .example = example_dropout,
    },
    {0},
};

_Static_assert(DROPOUT == AFFINE + 1 && AFFINE == FIRST_UNARY + (int)ROTA_UNARY_COUNT - 1,
               "the table's order follows the enums");
