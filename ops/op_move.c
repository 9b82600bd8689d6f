/* Ops that move data: copy, transpose, slice, reshape, stop_gradient, cast, fill. */
#include "ops/op.h"

#include <string.h>
#include "ops/cpu/cpu.h"
#include "ops/cpu/half.h"
#include "ops/kernel_objects.h"
#include "ops/op_rules.h"
#include "ops/record.h"

enum { COPY, TRANSPOSE, SLICE, RESHAPE };

/* The elements of the input that the result holds, as a view with the result's shape (of RESHAPE: the input
 * itself). */
static rota_status view_of(const rota_op_use *use, const rota_tensor *x, const rota_tensor *y,
                           rota_tensor *out) {
    const rota_op_attributes *o = &use->attributes;
    switch (use->op - rota_ops_move) {
    case TRANSPOSE:
        return rota_tensor_transpose(x, o->axis[0], o->axis[1], out);
    case SLICE:
        return rota_tensor_slice(x, o->axis[0], o->start, o->length, out);
    case COPY:
        return rota_tensor_broadcast(x, y->rank, y->shape, out);
    default:
        *out = *x;
        return ROTA_OK;
    }
}

static rota_status shape_move(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *x = &use->inputs[0], *y = &use->outputs[0];
    rota_tensor view;
    if (use->op == &rota_ops_move[COPY] || use->op == &rota_ops_move[RESHAPE]) {
        /* The destination, if there is one, says the shape. */
        const rota_tensor *shaped = y->buffer || y->rank > 0 ? y : x;
        ROTA_TRY(rota_shape_like(shaped, x->dtype, out));
        if (use->op == &rota_ops_move[COPY] &&
            rota_tensor_broadcast(x, out->rank, out->shape, &view) == ROTA_OK)
            return ROTA_OK;
        if (use->op == &rota_ops_move[RESHAPE] && rota_tensor_count(x) == rota_tensor_count(out))
            return ROTA_OK;
        char from[ROTA_TENSOR_TEXT_MAX], to[ROTA_TENSOR_TEXT_MAX];
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "%s can't become %s",
                            rota_tensor_describe(x, from, sizeof from),
                            rota_tensor_describe(out, to, sizeof to));
    }
    rota_status status = view_of(use, x, x, &view);
    if (status != ROTA_OK) return rota_fail_context(status, "op '%s': ", use->op->name);
    return rota_shape_like(&view, x->dtype, out);
}

static rota_status record_move(rota_tape *tape, rota_op_use *use) {
    rota_tensor x = use->inputs[0], y = use->outputs[0];
    if (use->op == &rota_ops_move[RESHAPE]) {
        /* One side without gaps takes the other's shape. */
        if (rota_tensor_is_contiguous(&y)) {
            ROTA_TRY(rota_tensor_reshape(&y, x.rank, x.shape, &y));
        } else {
            ROTA_TRY(rota_record_contiguous(tape, &x, &x));
            ROTA_TRY(rota_tensor_reshape(&x, y.rank, y.shape, &x));
        }
    }
    ROTA_TRY(view_of(use, &x, &y, &x));
    if (rota_tensors_equal(&x, &y)) return ROTA_OK;
    return rota_record_strided(tape, &x, &y, 1.0f, false);
}

/* The gradient of the view is dy; the rest of the input gets nothing. */
static rota_status gradient_move(rota_tape *tape, const rota_op_use *use) {
    const rota_tensor *x = &use->inputs[0];
    rota_tensor dy = *rota_gradient_output(tape, 0), view;
    if (use->op == &rota_ops_move[COPY]) return rota_gradient_add(tape, x, &dy, 1.0f);
    if (use->op == &rota_ops_move[RESHAPE]) {
        ROTA_TRY(rota_record_contiguous(tape, &dy, &dy));
        ROTA_TRY(rota_tensor_reshape(&dy, x->rank, x->shape, &dy));
        return rota_gradient_add(tape, x, &dy, 1.0f);
    }
    ROTA_TRY(view_of(use, x, &dy, &view));
    return rota_gradient_add(tape, &view, &dy, 1.0f);
}

/* ---- cast ---- */

static bool is_cast(rota_dtype dtype) {
    return rota_dtype_is_real(dtype) || rota_dtype_is_f8(dtype) || dtype == ROTA_I32;
}

static rota_status shape_cast(const rota_op_use *use, rota_tensor *out) {
    const rota_dtype from = use->inputs[0].dtype, to = use->attributes.dtype;
    const bool of_f8 = rota_dtype_is_f8(from) || rota_dtype_is_f8(to),
               of_i32 = from == ROTA_I32 || to == ROTA_I32;
    if (!is_cast(from) || !is_cast(to))
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT,
                            "from %s to %s; expected f32, f16, bf16, i32, f8_e4m3fn or f8_e5m2",
                            rota_dtype_name(from), rota_dtype_name(to));
    if (of_f8 && of_i32)
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT,
                            "from %s to %s; between 8-bit floats and integers it goes by f32",
                            rota_dtype_name(from), rota_dtype_name(to));
    return rota_shape_like(&use->inputs[0], to, out);
}

static rota_status record_cast(rota_tape *tape, rota_op_use *use) {
    const rota_tensor *x = &use->inputs[0], *y = &use->outputs[0];
    if (x->dtype == y->dtype && (x->dtype == ROTA_I32 || rota_dtype_is_f8(x->dtype)))
        return rota_record_strided(tape, x, y, 1.0f, false);
    return rota_record_cast(tape, x, y);
}

/* dy, in x's dtype. */
static rota_status gradient_cast(rota_tape *tape, const rota_op_use *use) {
    const rota_tensor *x = &use->inputs[0], *dy = rota_gradient_output(tape, 0);
    rota_gradient_write write;
    if (x->dtype == dy->dtype) return rota_gradient_add(tape, x, dy, 1.0f);
    ROTA_TRY(rota_gradient_begin(tape, x, &write));
    ROTA_TRY(rota_record_cast(tape, dy, &write.dx));
    return rota_gradient_end(tape, x, &write);
}

/* ---- fill ---- */

static rota_status shape_fill(const rota_op_use *use, rota_tensor *out) {
    const rota_dtype dtype = use->outputs[0].dtype;
    const double number = use->attributes.value[0].number;
    const bool integer = dtype == ROTA_I32 || dtype == ROTA_U32;
    /* Written so that NaN fails. */
    if (integer && !(number >= (dtype == ROTA_I32 ? INT32_MIN : 0) &&
                     number <= (dtype == ROTA_I32 ? INT32_MAX : UINT32_MAX)))
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "%.17g is no %s", number, rota_dtype_name(dtype));
    return rota_shape_like(&use->outputs[0], use->outputs[0].dtype, out);
}

static uint32_t pattern_of(rota_dtype dtype, double number) {
    switch (dtype) {
    case ROTA_F16:
        return rota_to_f16((float)number) * 0x10001u;
    case ROTA_BF16:
        return rota_to_bf16((float)number) * 0x10001u;
    case ROTA_F8_E4M3FN:
        return rota_to_f8_e4m3fn((float)number) * 0x1010101u;
    case ROTA_F8_E5M2:
        return rota_to_f8_e5m2((float)number) * 0x1010101u;
    case ROTA_I32:
        return (uint32_t)(int32_t)number;
    case ROTA_U32:
        return (uint32_t)number;
    default:
        return rota_f32_bits((float)number);
    }
}

static rota_status record_fill(rota_tape *tape, rota_op_use *use) {
    const rota_tensor *y = &use->outputs[0];
    const uint32_t pattern = pattern_of(y->dtype, use->attributes.value[0].number);
    uint64_t bytes = rota_tensor_extent_bytes(y);
    bool words = y->offset_bytes % 4 == 0 && bytes % 4 == 0;
    if (rota_tensor_is_dense(y) && words)
        return rota_tape_fill(tape, y->buffer, y->offset_bytes, bytes, pattern);
    /* Gaps or parts of words: one element, repeated. */
    rota_tensor one;
    ROTA_TRY(rota_tape_temporary(tape, "fill", y->dtype, 0, NULL, &one));
    ROTA_TRY(rota_tape_fill(tape, one.buffer, 0, 4, pattern));
    return rota_record_strided(tape, &one, y, 1.0f, false);
}

/* ---- Examples ---- */

static bool example_copy(uint32_t index, uint32_t size, rota_op_example *out) {
    static const struct {
        const char *label;
        uint32_t rank;
        uint64_t x[3], y[3];
        rota_dtype dtype;
    } small[] = {
        {"same shape", 2, {17, 5}, {17, 5}, ROTA_F32},
        {"repeats", 3, {1, 7, 1}, {4, 7, 9}, ROTA_F32},
        {"integers", 1, {33}, {33}, ROTA_I32},
        {"odd f16", 1, {7}, {7}, ROTA_F16},
        {"repeats, bf16", 3, {1, 7, 1}, {4, 7, 9}, ROTA_BF16},
        {"repeats, f8", 3, {1, 7, 1}, {4, 7, 9}, ROTA_F8_E5M2},
    };
    if (index >= (size ? 1 : sizeof small / sizeof *small)) return false;
    static const uint64_t million[] = {1024, 1024};
    *out = (rota_op_example){.label = size ? "1024 x 1024" : small[index].label};
    rota_dtype dtype = size ? ROTA_F32 : small[index].dtype;
    rota_example_input(out, 0, dtype, size ? 2 : small[index].rank, size ? million : small[index].x,
                       dtype == ROTA_I32 ? ROTA_FILL_INDEX : ROTA_FILL_UNIFORM);
    out->classes = 100;
    out->use.output_count = 1;
    if (rota_tensor_of(NULL, 0, dtype, size ? 2 : small[index].rank, size ? million : small[index].y,
                       &out->use.outputs[0]) != ROTA_OK)
        return false;
    rota_example_bytes(out, out->use.outputs, 1);
    return true;
}

static bool example_stop_gradient(uint32_t index, uint32_t size, rota_op_example *out) {
    static const rota_dtype dtypes[] = {ROTA_F32, ROTA_BF16, ROTA_I32};
    if (index >= (size ? 1 : 3)) return false;
    *out = (rota_op_example){.label = rota_dtype_name(dtypes[index]), .classes = 100};
    rota_example_input(out, 0, dtypes[index], 2,
                       size ? (const uint64_t[]){1024, 1024} : (const uint64_t[]){7, 33},
                       dtypes[index] == ROTA_I32 ? ROTA_FILL_INDEX : ROTA_FILL_UNIFORM);
    rota_example_bytes(out, out->use.inputs, 1);
    return true;
}

static bool example_transpose(uint32_t index, uint32_t size, rota_op_example *out) {
    static const struct {
        const char *label;
        uint32_t rank;
        uint64_t shape[4];
        uint32_t a, b;
        rota_dtype dtype;
    } small[] =
        {
            {"matrix", 2, {37, 19}, 0, 1, ROTA_F32},
            {"heads", 4, {2, 5, 3, 4}, 1, 2, ROTA_F32},
            {"small", 2, {3, 2}, 0, 1, ROTA_F32},
            {"batched matrices", 3, {3, 17, 33}, 1, 2, ROTA_F32},
            {"outermost with innermost", 3, {9, 4, 10}, 0, 2, ROTA_F32},
            {"matrix, f16", 2, {37, 19}, 0, 1, ROTA_F16},
            {"batched matrices, bf16", 3, {3, 17, 33}, 1, 2, ROTA_BF16},
            {"matrix, f8", 2, {37, 19}, 0, 1, ROTA_F8_E4M3FN},
        },
      large = {"1024 x 1024", 2, {1024, 1024}, 0, 1, ROTA_F32};
    if (index >= (size ? 1 : sizeof small / sizeof small[0])) return false;
    *out = (rota_op_example){.label = size ? large.label : small[index].label};
    rota_example_input(out, 0, size ? large.dtype : small[index].dtype, size ? large.rank : small[index].rank,
                       size ? large.shape : small[index].shape, ROTA_FILL_UNIFORM);
    out->use.attributes.axis[0] = size ? large.a : small[index].a;
    out->use.attributes.axis[1] = size ? large.b : small[index].b;
    rota_example_bytes(out, out->use.inputs, 1);
    return true;
}

static bool example_slice(uint32_t index, uint32_t size, rota_op_example *out) {
    static const struct {
        const char *label;
        uint32_t rank;
        uint64_t shape[3];
        uint32_t axis;
        uint64_t start, length;
        rota_dtype dtype;
    } small[] =
        {
            {"rows", 2, {9, 5}, 0, 2, 4, ROTA_F32},
            {"columns", 2, {9, 15}, 1, 5, 5, ROTA_F32},
            {"middle", 3, {3, 7, 5}, 1, 6, 1, ROTA_F32},
            {"odd columns, bf16", 2, {9, 15}, 1, 5, 5, ROTA_BF16},
            {"odd rows, f16", 2, {9, 5}, 0, 3, 4, ROTA_F16},
            {"odd columns, f8", 2, {9, 15}, 1, 5, 6, ROTA_F8_E5M2},
        },
      large = {"a third of the columns", 2, {1024, 3072}, 1, 1024, 1024, ROTA_F32};
    if (index >= (size ? 1 : sizeof small / sizeof small[0])) return false;
    *out = (rota_op_example){.label = size ? large.label : small[index].label};
    rota_example_input(out, 0, size ? large.dtype : small[index].dtype, size ? large.rank : small[index].rank,
                       size ? large.shape : small[index].shape, ROTA_FILL_UNIFORM);
    out->use.attributes.axis[0] = size ? large.axis : small[index].axis;
    out->use.attributes.start = size ? large.start : small[index].start;
    out->use.attributes.length = size ? large.length : small[index].length;
    rota_tensor y;
    if (rota_tensor_slice(&out->use.inputs[0], out->use.attributes.axis[0], out->use.attributes.start,
                          out->use.attributes.length, &y) != ROTA_OK)
        return false;
    out->bytes = 8.0 * (double)rota_tensor_count(&y);
    return true;
}

static bool example_reshape(uint32_t index, uint32_t size, rota_op_example *out) {
    static const struct {
        const char *label;
        rota_dtype dtype;
        uint64_t from[2], to[2];
    } small[] = {
        {"[4, 4] to [2, 8]", ROTA_F32, {4, 4}, {2, 8}},
        {"[4, 4] to [2, 8], f16", ROTA_F16, {4, 4}, {2, 8}},
        {"[3, 5] to [5, 3]", ROTA_F32, {3, 5}, {5, 3}},
    };
    if (index >= sizeof small / sizeof *small || size > 0) return false;
    *out = (rota_op_example){.label = small[index].label};
    rota_example_input(out, 0, small[index].dtype, 2, small[index].from, ROTA_FILL_UNIFORM);
    out->use.output_count = 1;
    if (rota_tensor_of(NULL, 0, small[index].dtype, 2, small[index].to, &out->use.outputs[0]) != ROTA_OK)
        return false;
    rota_example_bytes(out, out->use.outputs, 1);
    return true;
}

static bool example_cast(uint32_t index, uint32_t size, rota_op_example *out) {
    static const rota_dtype pairs[][2] = {{ROTA_F32, ROTA_F16},           {ROTA_F32, ROTA_BF16},
                                          {ROTA_F16, ROTA_F32},           {ROTA_BF16, ROTA_F32},
                                          {ROTA_F16, ROTA_BF16},          {ROTA_F32, ROTA_F32},
                                          {ROTA_I32, ROTA_F32},           {ROTA_I32, ROTA_BF16},
                                          {ROTA_I32, ROTA_I32},           {ROTA_F32, ROTA_I32},
                                          {ROTA_F16, ROTA_I32},           {ROTA_F32, ROTA_F8_E4M3FN},
                                          {ROTA_F32, ROTA_F8_E5M2},       {ROTA_BF16, ROTA_F8_E4M3FN},
                                          {ROTA_F16, ROTA_F8_E5M2},       {ROTA_F8_E4M3FN, ROTA_F32},
                                          {ROTA_F8_E5M2, ROTA_BF16},      {ROTA_F8_E4M3FN, ROTA_F16},
                                          {ROTA_F8_E5M2, ROTA_F8_E4M3FN}, {ROTA_F8_E4M3FN, ROTA_F8_E4M3FN}};
    static const char *const labels[] = {
        "f32 to f16",      "f32 to bf16",       "f16 to f32",           "bf16 to f32",
        "f16 to bf16",     "f32 to f32",        "i32 to f32",           "i32 to bf16",
        "i32 to i32",      "f32 to i32",        "f16 to i32",           "f32 to f8_e4m3fn",
        "f32 to f8_e5m2",  "bf16 to f8_e4m3fn", "f16 to f8_e5m2",       "f8_e4m3fn to f32",
        "f8_e5m2 to bf16", "f8_e4m3fn to f16",  "f8_e5m2 to f8_e4m3fn", "f8_e4m3fn to f8_e4m3fn"};
    if (index >= (size ? 4 : sizeof pairs / sizeof *pairs)) return false;
    *out = (rota_op_example){.label = labels[index]};
    rota_example_input(
        out, 0, pairs[index][0], 2, size ? (const uint64_t[]){1024, 1024} : (const uint64_t[]){7, 33},
        pairs[index][0] == ROTA_I32 || pairs[index][1] == ROTA_I32 ? ROTA_FILL_INDEX : ROTA_FILL_UNIFORM);
    out->classes = 100;
    out->use.attributes.dtype = pairs[index][1];
    rota_tensor y = out->use.inputs[0];
    y.dtype = pairs[index][1];
    rota_example_bytes(out, &y, 1);
    return true;
}

static bool example_fill(uint32_t index, uint32_t size, rota_op_example *out) {
    static const rota_dtype dtypes[] = {ROTA_F32, ROTA_I32, ROTA_F16};
    if (index >= (size ? 1 : 3)) return false;
    *out = (rota_op_example){.label = rota_dtype_name(dtypes[index])};
    out->use.attributes.value[0] = rota_value_plain(3);
    out->use.output_count = 1;
    if (rota_tensor_of(NULL, 0, dtypes[index], 1, (const uint64_t[]){size ? 1u << 20 : 77},
                       &out->use.outputs[0]) != ROTA_OK)
        return false;
    rota_example_bytes(out, out->use.outputs, 1);
    return true;
}

static const rota_kernel *const move_kernels[] = {&rota_kernel_copy_strided, NULL};
static const rota_kernel *const cast_kernels[] = {&rota_kernel_cast, &rota_kernel_copy_strided, NULL};

#define MOVE(NAME, TAKES, EXAMPLE)                                                                           \
    {                                                                                                        \
        .name = NAME, .input_count = 1, .output_count = 1, .input_names = {"x"}, .output_names = {"y"},      \
        .attributes = TAKES, .strided_output = true, .kernels = move_kernels, .shape = shape_move,           \
        .record = record_move, .gradient = gradient_move, .differentiable = 1, .example = EXAMPLE            \
    }

const rota_op rota_ops_move[] = {
    MOVE("copy", NULL, example_copy),
    MOVE("transpose", ATTRIBUTES(ATTRIBUTE(axis_a, axis[0]), ATTRIBUTE(axis_b, axis[1])), example_transpose),
    MOVE("slice", ATTRIBUTES(ATTRIBUTE(axis, axis[0]), ATTRIBUTE(start, start), ATTRIBUTE(length, length)),
         example_slice),
    MOVE("reshape", NULL, example_reshape),
    {
        .name = "stop_gradient",
        .input_count = 1,
        .output_count = 1,
        .input_names = {"x"},
        .output_names = {"y"},
        .inplace_inputs = 1,
        .strided_output = true,
        .kernels = move_kernels,
        .shape = shape_move,
        .record = record_move,
        .stops_gradient = true,
        .example = example_stop_gradient,
    },
    {
        .name = "cast",
        .input_count = 1,
        .output_count = 1,
        .input_names = {"x"},
        .output_names = {"y"},
        .attributes = ATTRIBUTES(ATTRIBUTE_DTYPE),
        .kernels = cast_kernels,
        .shape = shape_cast,
        .record = record_cast,
        .gradient = gradient_cast,
        .differentiable = 1,
        .example = example_cast,
    },
    {
        .name = "fill",
        .output_count = 1,
        .output_names = {"y"},
        .attributes = ATTRIBUTES(ATTRIBUTE(number, value[0])),
        .strided_output = true,
        .kernels = move_kernels,
        .shape = shape_fill,
        .record = record_fill,
        .example = example_fill,
    },
    {0},
};
