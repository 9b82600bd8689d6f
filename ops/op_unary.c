/* Ops of one tensor, element by element. */
#include "ops/kernel_objects.h"
#include "ops/op.h"
#include "ops/op_rules.h"

static rota_unary unary_of(const rota_op *op) {
    return (rota_unary)(op - rota_ops_unary);
}

static rota_status shape_unary(const rota_op_use *use, rota_tensor *out) {
    rota_dtype dtype;
    ROTA_TRY(rota_shape_require_real(use, 1, &dtype));
    return rota_shape_like(&use->inputs[0], dtype, out);
}

/* The op's parameters, alpha and beta bound as the attributes say. */
static rota_unary_params params_of(rota_unary op, const rota_op_attributes *attributes, const rota_tensor *y,
                                   rota_param_binding *bindings, uint32_t *count) {
    *count = 0;
    rota_value_bind(attributes->value[0], 0, bindings, count);
    rota_value_bind(attributes->value[1], 1, bindings, count);
    return (rota_unary_params){.count = (uint32_t)rota_tensor_count(y),
                               .op = op,
                               .alpha = rota_value_f32(attributes->value[0]),
                               .beta = rota_value_f32(attributes->value[1]),
                               .dtype = y->dtype};
}

static rota_status run_unary(rota_tape *tape, rota_unary op, const rota_op_attributes *attributes,
                             const rota_tensor *x, const rota_tensor *y) {
    rota_tensor from;
    rota_param_binding bindings[2];
    uint32_t count;
    const rota_unary_params params = params_of(op, attributes, y, bindings, &count);
    ROTA_TRY(rota_record_contiguous(tape, x, &from));
    rota_access accesses[] = {rota_tensor_access(&from, ROTA_READ), rota_tensor_write(y)};
    return rota_tape_kernel(tape, &rota_kernel_unary, accesses, 2, &params, bindings, count);
}

static rota_status record_unary(rota_tape *tape, rota_op_use *use) {
    return run_unary(tape, unary_of(use->op), &use->attributes, &use->inputs[0], &use->outputs[0]);
}

static rota_status gradient_unary(rota_tape *tape, const rota_op_use *use) {
    const rota_unary op = unary_of(use->op);
    const rota_tensor *x = &use->inputs[0], *dy = rota_gradient_output(tape, 0);
    rota_op_attributes attributes = use->attributes;
    if (op == ROTA_UNARY_NEG) return rota_gradient_add(tape, x, dy, -1.0f);
    rota_gradient_write write;
    ROTA_TRY(rota_gradient_begin(tape, x, &write));
    if (op == ROTA_UNARY_AFFINE) {
        attributes.value[1] = rota_value_plain(0);
        ROTA_TRY(run_unary(tape, op, &attributes, dy, &write.dx));
        return rota_gradient_end(tape, x, &write);
    }
    rota_tensor value, from;
    rota_param_binding bindings[2];
    uint32_t count;
    const rota_unary_params params = params_of(op, &attributes, x, bindings, &count);
    ROTA_TRY(rota_record_contiguous(tape, use->op->saved_outputs ? &use->outputs[0] : x, &value));
    ROTA_TRY(rota_record_contiguous(tape, dy, &from));
    rota_access accesses[] = {rota_tensor_access(&value, ROTA_READ), rota_tensor_access(&from, ROTA_READ),
                              rota_tensor_write(&write.dx)};
    ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_unary_backward, accesses, 3, &params, bindings, count));
    return rota_gradient_end(tape, x, &write);
}

/* Steps: 0 wherever they have a gradient. */
static rota_status gradient_zero(rota_tape *tape, const rota_op_use *use) {
    (void)tape;
    (void)use;
    return ROTA_OK;
}

/* ---- Examples ---- */

static bool example_filled(uint32_t index, uint32_t size, rota_fill_kind fill, double alpha, double beta,
                           rota_op_example *out) {
    uint32_t rank;
    const uint64_t *shape;
    rota_dtype dtype;
    *out = (rota_op_example){0};
    if (!rota_example_typed(index, size, &out->label, &dtype, &rank, &shape)) return false;
    rota_example_input(out, 0, dtype, rank, shape, fill);
    out->use.attributes.value[0] = rota_value_plain(alpha);
    out->use.attributes.value[1] = rota_value_plain(beta);
    out->flops = (double)rota_tensor_count(&out->use.inputs[0]);
    rota_example_bytes(out, out->use.inputs, 1);
    return true;
}

#define EXAMPLE(NAME, FILL, ALPHA, BETA)                                                                     \
    static bool example_##NAME(uint32_t index, uint32_t size, rota_op_example *out) {                        \
        return example_filled(index, size, ROTA_FILL_##FILL, ALPHA, BETA, out);                              \
    }
EXAMPLE(affine, UNIFORM, -1.75, 0.5)
EXAMPLE(uniform, UNIFORM, 0, 0)
EXAMPLE(positive, POSITIVE, 0, 0)
EXAMPLE(distinct, DISTINCT, 0, 0)
EXAMPLE(leaky, DISTINCT, 0.0625, 0)
EXAMPLE(elu, DISTINCT, 1.5, 0)
EXAMPLE(pow, POSITIVE, 2.5, 0)
EXAMPLE(clamp, DISTINCT, -0.4375, 0.3125)
EXAMPLE(softcap, UNIFORM, 0.75, 0)

/* ---- Table ---- */

static const rota_kernel *const unary_kernels[] = {&rota_kernel_unary, &rota_kernel_copy_strided, NULL};

#define UNARY(OP, NAME, TAKES, SAVED_INPUTS, SAVED_OUTPUTS, EXAMPLE, GRADIENT)                               \
    [ROTA_UNARY_##OP] = {.name = NAME,                                                                       \
                         .input_count = 1,                                                                   \
                         .output_count = 1,                                                                  \
                         .input_names = {"x"},                                                               \
                         .output_names = {"y"},                                                              \
                         .attributes = TAKES,                                                                \
                         .inplace_inputs = 1,                                                                \
                         .kernels = unary_kernels,                                                           \
                         .shape = shape_unary,                                                               \
                         .record = record_unary,                                                             \
                         .gradient = GRADIENT,                                                               \
                         .differentiable = 1,                                                                \
                         .saved_inputs = (SAVED_INPUTS),                                                     \
                         .saved_outputs = (SAVED_OUTPUTS),                                                   \
                         .example = EXAMPLE}
#define OF_INPUT(OP, NAME, EXAMPLE) UNARY(OP, NAME, NULL, 1, 0, EXAMPLE, gradient_unary)
#define OF_OUTPUT(OP, NAME, EXAMPLE) UNARY(OP, NAME, NULL, 0, 1, EXAMPLE, gradient_unary)
#define WITH_ALPHA(OP, NAME, TAKES, EXAMPLE) UNARY(OP, NAME, TAKES, 1, 0, EXAMPLE, gradient_unary)
#define STEPS(OP, NAME) UNARY(OP, NAME, NULL, 0, 0, example_uniform, gradient_zero)

/* At the place that rota_unary says. */
const rota_op rota_ops_unary[ROTA_UNARY_COUNT + 1] = {
    UNARY(AFFINE, "affine", ATTRIBUTES(ATTRIBUTE(alpha, value[0]), ATTRIBUTE(beta, value[1])), 0, 0,
          example_affine, gradient_unary),
    UNARY(NEG, "neg", NULL, 0, 0, example_uniform, gradient_unary),
    OF_OUTPUT(EXP, "exp", example_uniform),
    OF_INPUT(LOG, "log", example_positive),
    OF_OUTPUT(SQRT, "sqrt", example_positive),
    OF_INPUT(RELU, "relu", example_distinct),
    OF_INPUT(GELU, "gelu", example_uniform),
    OF_INPUT(SILU, "silu", example_uniform),
    OF_INPUT(ABS, "abs", example_distinct),
    OF_INPUT(SQUARE, "square", example_uniform),
    OF_OUTPUT(RECIPROCAL, "reciprocal", example_positive),
    OF_OUTPUT(RSQRT, "rsqrt", example_positive),
    OF_OUTPUT(TANH, "tanh", example_uniform),
    OF_OUTPUT(SIGMOID, "sigmoid", example_uniform),
    OF_INPUT(SIN, "sin", example_uniform),
    OF_INPUT(COS, "cos", example_uniform),
    STEPS(SIGN, "sign"),
    STEPS(FLOOR, "floor"),
    STEPS(CEIL, "ceil"),
    STEPS(ROUND, "round"),
    OF_INPUT(GELU_ERF, "gelu_erf", example_uniform),
    OF_INPUT(SOFTPLUS, "softplus", example_uniform),
    OF_INPUT(HARDSWISH, "hardswish", example_uniform),
    WITH_ALPHA(LEAKY_RELU, "leaky_relu", ATTRIBUTES(ATTRIBUTE(alpha, value[0])), example_leaky),
    WITH_ALPHA(ELU, "elu", ATTRIBUTES(ATTRIBUTE(alpha, value[0])), example_elu),
    WITH_ALPHA(POW, "pow_scalar", ATTRIBUTES(ATTRIBUTE(exponent, value[0])), example_pow),
    WITH_ALPHA(CLAMP, "clamp", ATTRIBUTES(ATTRIBUTE(low, value[0]), ATTRIBUTE(high, value[1])),
               example_clamp),
    WITH_ALPHA(SOFTCAP, "softcap", ATTRIBUTES(ATTRIBUTE(cap, value[0])), example_softcap),
    [ROTA_UNARY_COUNT] = {0},
};
