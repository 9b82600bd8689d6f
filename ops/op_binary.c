/* Ops of two tensors, element by element, broadcast to each other. */
#include "ops/kernel_objects.h"
#include "ops/op.h"
#include "ops/op_rules.h"
#include "ops/record.h"

/* What each op of the table is to the kernel. */
static const rota_binary kinds[] = {
    ROTA_BINARY_ADD,     ROTA_BINARY_SUB, ROTA_BINARY_MUL,      ROTA_BINARY_DIV,      ROTA_BINARY_MINIMUM,
    ROTA_BINARY_MAXIMUM, ROTA_BINARY_POW, ROTA_BINARY_SILU_MUL, ROTA_BINARY_ADD_GELU, ROTA_BINARY_EQ,
    ROTA_BINARY_NE,      ROTA_BINARY_LT,  ROTA_BINARY_LE,       ROTA_BINARY_GT,       ROTA_BINARY_GE,
};

static rota_binary kind_of(const rota_op *op) {
    return kinds[op - rota_ops_binary];
}

static rota_status shape_binary(const rota_op_use *use, rota_tensor *out) {
    rota_dtype dtype;
    uint32_t rank;
    uint64_t shape[ROTA_RANK_MAX];
    ROTA_TRY(rota_shape_require_real(use, 3, &dtype));
    ROTA_TRY(rota_shape_broadcast(use, 3, &rank, shape));
    return rota_tensor_of(NULL, 0, dtype, rank, shape, out);
}

static rota_status record_binary(rota_tape *tape, rota_op_use *use) {
    return rota_record_binary(tape, kind_of(use->op), &use->inputs[0], &use->inputs[1], &use->outputs[0]);
}

/* ---- Gradients ---- */

/* Where an operand's gradient, of y's shape, is written: its own place if it has that shape. */
static rota_status begin_side(rota_tape *tape, const rota_tensor *x, const rota_tensor *y,
                              rota_gradient_write *out_write) {
    if (rota_shapes_equal(x, y)) return rota_gradient_begin(tape, x, out_write);
    out_write->direct = false;
    return rota_tape_temporary(tape, "gradient", y->dtype, y->rank, y->shape, &out_write->dx);
}

/* dx = a op b. */
static rota_status give(rota_tape *tape, const rota_tensor *x, rota_binary op, const rota_tensor *a,
                        const rota_tensor *b, const rota_tensor *y) {
    rota_gradient_write write;
    if (!rota_gradient_wanted(tape, x)) return ROTA_OK;
    ROTA_TRY(begin_side(tape, x, y, &write));
    ROTA_TRY(rota_record_binary(tape, op, a, b, &write.dx));
    return rota_gradient_end(tape, x, &write);
}

static rota_status gradient_arithmetic(rota_tape *tape, const rota_op_use *use) {
    const rota_tensor *a = &use->inputs[0], *b = &use->inputs[1], *y = &use->outputs[0];
    const rota_binary op = kind_of(use->op);
    rota_tensor dy = *rota_gradient_output(tape, 0), db;
    if (op == ROTA_BINARY_ADD || op == ROTA_BINARY_SUB) {
        ROTA_TRY(rota_gradient_add(tape, a, &dy, 1.0f));
        return rota_gradient_add(tape, b, &dy, op == ROTA_BINARY_ADD ? 1.0f : -1.0f);
    }
    ROTA_TRY(rota_record_contiguous(tape, &dy, &dy));
    ROTA_TRY(give(tape, a, op, &dy, b, y)); /* dy * b or dy / b */
    if (op == ROTA_BINARY_MUL) return give(tape, b, op, &dy, a, y);
    if (!rota_gradient_wanted(tape, b)) return ROTA_OK;
    ROTA_TRY(rota_tape_temporary(tape, "gradient", y->dtype, y->rank, y->shape, &db));
    ROTA_TRY(rota_record_binary(tape, ROTA_BINARY_MUL, &dy, y, &db));
    ROTA_TRY(rota_record_binary(tape, ROTA_BINARY_DIV, &db, b, &db));
    return rota_gradient_add(tape, b, &db, -1.0f);
}

static rota_status gradient_kernel(rota_tape *tape, const rota_op_use *use) {
    const rota_tensor *a = &use->inputs[0], *b = &use->inputs[1], *y = &use->outputs[0];
    rota_tensor left = *a, right, dy;
    const rota_binary op = kind_of(use->op);
    bool to_a = rota_gradient_wanted(tape, a), to_b = rota_gradient_wanted(tape, b);
    /* Of a sum both have the same. */
    const bool alike = op == ROTA_BINARY_ADD_GELU && to_a && to_b;
    if (alike) to_b = false;
    if (!to_a && !to_b) return ROTA_OK;
    rota_binary_backward_params params = {
        .count = (uint32_t)rota_tensor_count(y),
        .op = op,
        .flags = (to_a ? ROTA_BINARY_BACKWARD_A : 0) | (to_b ? ROTA_BINARY_BACKWARD_B : 0),
        .dtype = y->dtype,
    };
    if (!rota_record_fits(a, y)) {
        ROTA_TRY(rota_tape_temporary(tape, "broadcast", y->dtype, y->rank, y->shape, &left));
        ROTA_TRY(rota_record_strided(tape, a, &left, 1.0f, false));
    }
    ROTA_TRY(rota_record_operand(tape, b, y, &right, params.shape, params.b_stride));
    ROTA_TRY(rota_record_contiguous(tape, rota_gradient_output(tape, 0), &dy));
    rota_gradient_write da = {0}, db = {0};
    rota_tensor both;
    if (alike) {
        /* Not a's own place, which may hold more by the time b's is added. */
        ROTA_TRY(rota_tape_temporary(tape, "gradient", y->dtype, y->rank, y->shape, &both));
        da.dx = both;
    } else if (to_a) {
        ROTA_TRY(begin_side(tape, a, y, &da));
    }
    if (to_b) ROTA_TRY(begin_side(tape, b, y, &db));
    const rota_access absent = rota_tensor_access(&dy, ROTA_READ);
    rota_access accesses[] = {rota_tensor_access(&left, ROTA_READ), rota_tensor_access(&right, ROTA_READ),
                              absent, to_a ? rota_tensor_write(&da.dx) : absent,
                              to_b ? rota_tensor_write(&db.dx) : absent};
    ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_binary_backward, accesses, 5, &params, NULL, 0));
    if (alike) {
        ROTA_TRY(rota_gradient_add(tape, a, &both, 1.0f));
        return rota_gradient_add(tape, b, &both, 1.0f);
    }
    if (to_a) ROTA_TRY(rota_gradient_end(tape, a, &da));
    return to_b ? rota_gradient_end(tape, b, &db) : ROTA_OK;
}

/* ---- Examples ---- */

static bool example_filled(uint32_t index, uint32_t size, rota_fill_kind a, rota_fill_kind b,
                           uint64_t classes, rota_op_example *out) {
    static const struct {
        const char *label;
        uint32_t rank_a, rank_b;
        uint64_t a[4], b[4];
        rota_dtype dtype;
    } small[] = {
        {"one element", 1, 1, {1}, {1}, ROTA_F32},
        {"same shape", 2, 2, {37, 19}, {37, 19}, ROTA_F32},
        {"bias", 3, 1, {3, 7, 33}, {33}, ROTA_F32},
        {"column", 2, 2, {9, 65}, {9, 1}, ROTA_F32},
        {"scalar on the left", 1, 2, {1}, {5, 7}, ROTA_F32},
        {"both repeat", 2, 2, {11, 1}, {1, 13}, ROTA_F32},
        {"middle axis", 4, 4, {2, 3, 4, 5}, {2, 1, 4, 1}, ROTA_F32},
        {"more than one piece", 2, 2, {170, 200}, {170, 200}, ROTA_F32},
        {"same shape, f16", 2, 2, {37, 19}, {37, 19}, ROTA_F16},
        {"same shape, bf16", 2, 2, {171, 203}, {171, 203}, ROTA_BF16},
        {"bias, bf16", 3, 1, {3, 7, 33}, {33}, ROTA_BF16},
        {"bias of whole vectors, bf16", 2, 1, {40, 64}, {64}, ROTA_BF16},
        {"column, f16", 2, 2, {9, 65}, {9, 1}, ROTA_F16},
        {"both repeat, bf16", 2, 2, {11, 1}, {1, 13}, ROTA_BF16},
    };
    static const struct {
        const char *label;
        uint32_t rank_b;
        uint64_t a[2], b[2];
        rota_dtype dtype;
    } large[] = {{"1024 x 1024", 2, {1024, 1024}, {1024, 1024}, ROTA_F32},
                 {"1024 x 1024, bias", 1, {1024, 1024}, {1024}, ROTA_F32},
                 {"4096 x 1024, bf16", 2, {4096, 1024}, {4096, 1024}, ROTA_BF16},
                 {"4096 x 1024, bias, bf16", 1, {4096, 1024}, {1024}, ROTA_BF16}};
    if (index >= (size ? sizeof large / sizeof large[0] : sizeof small / sizeof small[0])) return false;
    *out = (rota_op_example){.label = size ? large[index].label : small[index].label, .classes = classes};
    const rota_dtype dtype = size ? large[index].dtype : small[index].dtype;
    rota_example_input(out, 0, dtype, size ? 2 : small[index].rank_a, size ? large[index].a : small[index].a,
                       a);
    rota_example_input(out, 1, dtype, size ? large[index].rank_b : small[index].rank_b,
                       size ? large[index].b : small[index].b, b);
    out->use.op = &rota_ops_binary[0];
    rota_tensor y;
    if (shape_binary(&out->use, &y) != ROTA_OK) return false;
    out->flops = (double)rota_tensor_count(&y);
    rota_example_bytes(out, &y, 1);
    return true;
}

#define EXAMPLE(NAME, A, B, CLASSES)                                                                         \
    static bool example_##NAME(uint32_t index, uint32_t size, rota_op_example *out) {                        \
        return example_filled(index, size, ROTA_FILL_##A, ROTA_FILL_##B, CLASSES, out);                      \
    }
EXAMPLE(arithmetic, UNIFORM, POSITIVE, 0)
EXAMPLE(uniform, UNIFORM, UNIFORM, 0)
EXAMPLE(power, POSITIVE, UNIFORM, 0)
EXAMPLE(whole, INDEX, INDEX, 3)

/* ---- Table ---- */

static const rota_kernel *const binary_kernels[] = {&rota_kernel_binary, &rota_kernel_copy_strided, NULL};

#define BINARY(NAME, INPLACE, SAVED_INPUTS, SAVED_OUTPUTS, DIFFERENTIABLE, GRADIENT, EXAMPLE)                \
    {                                                                                                        \
        .name = NAME, .input_count = 2, .output_count = 1, .input_names = {"a", "b"}, .output_names = {"y"}, \
        .inplace_inputs = INPLACE, .kernels = binary_kernels, .shape = shape_binary,                         \
        .record = record_binary, .gradient = GRADIENT, .differentiable = DIFFERENTIABLE,                     \
        .stops_gradient = !(DIFFERENTIABLE), .saved_inputs = (SAVED_INPUTS),                                 \
        .saved_outputs = (SAVED_OUTPUTS), .example = EXAMPLE                                                 \
    }
/* 0 wherever they have a gradient. */
#define COMPARISON(NAME) BINARY(NAME, 3, 0, 0, 0, NULL, example_whole)

/* In the order of `kinds`. */
const rota_op rota_ops_binary[] = {
    BINARY("add", 3, 0, 0, 3, gradient_arithmetic, example_arithmetic),
    BINARY("sub", 3, 0, 0, 3, gradient_arithmetic, example_arithmetic),
    BINARY("mul", 3, 3, 0, 3, gradient_arithmetic, example_arithmetic),
    BINARY("div", 3, 2, 1, 3, gradient_arithmetic, example_arithmetic),
    BINARY("minimum", 3, 3, 0, 3, gradient_kernel, example_uniform),
    BINARY("maximum", 3, 3, 0, 3, gradient_kernel, example_uniform),
    BINARY("pow", 1, 3, 0, 3, gradient_kernel, example_power),
    BINARY("silu_mul", 1, 3, 0, 3, gradient_kernel, example_uniform),
    BINARY("bias_gelu", 3, 3, 0, 3, gradient_kernel, example_uniform),
    COMPARISON("eq"),
    COMPARISON("ne"),
    COMPARISON("lt"),
    COMPARISON("le"),
    COMPARISON("gt"),
    COMPARISON("ge"),
    {0},
};

_Static_assert(sizeof kinds / sizeof kinds[0] + 1 == sizeof rota_ops_binary / sizeof rota_ops_binary[0],
               "every op of the table has its kind");
