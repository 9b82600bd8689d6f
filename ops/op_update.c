/* Ops of training that have no gradient: index_add, global_norm, check_finite. */
#include "ops/op_update.h"
#include "ops/kernel_objects.h"
#include "ops/op.h"
#include "ops/op_rules.h"
#include "ops/record.h"

static rota_status fail_operand(const rota_op_use *use, uint32_t input, const char *expected) {
    char text[ROTA_TENSOR_TEXT_MAX];
    return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "%s is %s; expected %s", use->op->input_names[input],
                        rota_tensor_describe(&use->inputs[input], text, sizeof text), expected);
}

/* ---- index_add ---- */

static rota_status shape_index_add(const rota_op_use *use, rota_tensor *out) {
    (void)out;
    const rota_tensor *index = &use->inputs[0], *y = &use->inputs[1];
    if (index->dtype != ROTA_I32) return fail_operand(use, 0, "i32");
    if (y->dtype != ROTA_I32 || y->rank != 1 || !rota_tensor_is_contiguous(y))
        return fail_operand(use, 1, "i32 [size], contiguous");
    return ROTA_OK;
}

static rota_status record_index_add(rota_tape *tape, rota_op_use *use) {
    rota_tensor index;
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[0], &index));
    rota_index_add_params params = {.rows = (uint32_t)rota_tensor_count(&index),
                                    .size = (uint32_t)use->inputs[1].shape[0],
                                    .value = use->attributes.integer};
    rota_access accesses[] = {rota_tensor_access(&index, ROTA_READ),
                              rota_tensor_access(&use->inputs[1], ROTA_ACCUMULATE)};
    return rota_tape_kernel(tape, &rota_kernel_index_add, accesses, 2, &params, NULL, 0);
}

static bool example_index_add(uint32_t index, uint32_t size, rota_op_example *out) {
    static const uint64_t small[][2] = {{65536, 1}, {777, 33}}, large[] = {1u << 20, 4096};
    if (index >= (size ? 1 : 2)) return false;
    const uint64_t *s = size ? large : small[index];
    *out = (rota_op_example){.label = size ? "a million" : "many on few", .classes = s[1]};
    rota_example_input(out, 0, ROTA_I32, 1, &s[0], ROTA_FILL_INDEX);
    rota_example_input(out, 1, ROTA_I32, 1, &s[1], ROTA_FILL_INDEX);
    out->use.attributes.integer = 3;
    rota_example_bytes(out, NULL, 0);
    return true;
}

/* ---- global_norm ---- */

/* Elements whose squares make one partial sum; of a tensor of more elements than NORM_LARGE there are enough sums
 * of more elements, and they are added up by one workgroup. */
#define NORM_CHUNK 4096
#define NORM_CHUNK_LARGE 32768
#define NORM_LARGE (UINT64_C(1) << 24)

static uint64_t norm_chunk(uint64_t elements) {
    return elements > NORM_LARGE ? NORM_CHUNK_LARGE : NORM_CHUNK;
}

static uint64_t norm_chunks(const rota_tensor *x) {
    const uint64_t elements = rota_tensor_count(x), chunk = norm_chunk(elements);
    return (elements + chunk - 1) / chunk;
}

rota_status rota_record_global_norm(rota_tape *tape, const rota_tensor *tensors, uint32_t count,
                                    float max_norm, const rota_tensor *out) {
    uint64_t chunks = 0, begin = 0;
    for (uint32_t i = 0; i < count; i++) chunks += norm_chunks(&tensors[i]);
    const bool nothing = chunks == 0; /* its norm is 0: a sum of one 0 */
    if (nothing) chunks = 1;
    rota_tensor partial;
    ROTA_TRY(rota_tape_temporary(tape, "squares", ROTA_F32, ROTA_SHAPE(chunks), &partial));
    if (nothing) ROTA_TRY(rota_record_zero(tape, partial.buffer, partial.offset_bytes, sizeof(float)));
    for (uint32_t i = 0; i < count; i++) {
        rota_tensor x, part;
        if (rota_tensor_is_empty(&tensors[i])) continue;
        ROTA_TRY(rota_record_contiguous(tape, &tensors[i], &x));
        const uint64_t elements = rota_tensor_count(&x), own = norm_chunks(&x);
        ROTA_TRY(rota_tensor_slice(&partial, 0, begin, own, &part));
        rota_reduce_params params = {.op = ROTA_REDUCE_SUM_SQUARES,
                                     .outer = 1,
                                     .n = (uint32_t)elements,
                                     .inner = 1,
                                     .chunk = (uint32_t)norm_chunk(elements),
                                     .scale = 1.0f,
                                     .from = x.dtype,
                                     .to = ROTA_F32};
        rota_access accesses[] = {rota_tensor_access(&x, ROTA_READ), rota_tensor_write(&part)};
        ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_reduce, accesses, 2, &params, NULL, 0));
        begin += own;
    }
    rota_global_norm_params params = {.count = (uint32_t)chunks, .max_norm = max_norm};
    rota_access accesses[] = {rota_tensor_access(&partial, ROTA_READ), rota_tensor_write(out)};
    return rota_tape_kernel(tape, &rota_kernel_global_norm, accesses, 2, &params, NULL, 0);
}

static rota_status shape_global_norm(const rota_op_use *use, rota_tensor *out) {
    for (uint32_t i = 0; i < use->input_count; i++)
        if (use->inputs[i].buffer && !rota_dtype_is_real(use->inputs[i].dtype))
            return fail_operand(use, i, "f32, f16 or bf16");
    return rota_tensor_of(NULL, 0, ROTA_F32, ROTA_SHAPE(2), out);
}

static rota_status record_global_norm(rota_tape *tape, rota_op_use *use) {
    rota_tensor tensors[ROTA_OP_INPUTS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < use->input_count; i++)
        if (use->inputs[i].buffer) tensors[count++] = use->inputs[i];
    return rota_record_global_norm(tape, tensors, count, use->attributes.scale, &use->outputs[0]);
}

static bool example_global_norm(uint32_t index, uint32_t size, rota_op_example *out) {
    static const uint64_t counts[] = {77, 1, 5000, 8192, 4097}, large = 1u << 20;
    static const rota_dtype dtypes[] = {ROTA_F32, ROTA_F16, ROTA_BF16};
    if (index >= (size ? 2 : 4)) return false;
    const bool mixed = size ? index == 1 : index == 3;
    *out = (rota_op_example){.label = size ? "a million" : mixed ? "of several dtypes" : "several tensors"};
    for (uint32_t i = 0; i < 5; i++) {
        if (size ? i == 0 : i <= 2 * index)
            rota_example_input(out, i, mixed ? dtypes[size ? 2 : i % 3] : ROTA_F32, 1,
                               size ? &large : &counts[i], ROTA_FILL_UNIFORM);
        else
            rota_example_absent(out, i);
    }
    out->use.attributes.scale = index == 0 ? 100.0f : 1.0f;
    rota_example_bytes(out, NULL, 0);
    return true;
}

/* ---- check_finite ---- */

static rota_status shape_check_finite(const rota_op_use *use, rota_tensor *out) {
    rota_dtype dtype;
    ROTA_TRY(rota_shape_require_real(use, 1, &dtype));
    return rota_tensor_of(NULL, 0, ROTA_U32, ROTA_SHAPE(2), out);
}

static rota_status record_check_finite(rota_tape *tape, rota_op_use *use) {
    rota_tensor x;
    const rota_tensor *found = &use->outputs[0];
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[0], &x));
    ROTA_TRY(rota_tape_fill(tape, found->buffer, found->offset_bytes, 4, 0));
    ROTA_TRY(rota_tape_fill(tape, found->buffer, found->offset_bytes + 4, 4, UINT32_MAX));
    if (rota_tensor_is_empty(&x)) return ROTA_OK;
    rota_check_finite_params params = {.count = (uint32_t)rota_tensor_count(&x), .dtype = x.dtype};
    rota_access accesses[] = {rota_tensor_access(&x, ROTA_READ), rota_tensor_access(found, ROTA_READWRITE)};
    return rota_tape_kernel(tape, &rota_kernel_check_finite, accesses, 2, &params, NULL, 0);
}

static bool example_check_finite(uint32_t index, uint32_t size, rota_op_example *out) {
    static const uint64_t counts[] = {1, 40001, 777, 4097, 1u << 20};
    static const rota_dtype dtypes[] = {ROTA_F32, ROTA_F32, ROTA_F16, ROTA_BF16, ROTA_F32};
    if (index >= (size ? 1 : 4)) return false;
    *out = (rota_op_example){.label = size ? "a million" : "odd sizes"};
    rota_example_input(out, 0, dtypes[size ? 4 : index], 1, &counts[size ? 4 : index], ROTA_FILL_UNIFORM);
    rota_example_bytes(out, NULL, 0);
    return true;
}

static const rota_kernel *const index_add_kernels[] = {&rota_kernel_index_add, NULL};
static const rota_kernel *const global_norm_kernels[] = {&rota_kernel_reduce, &rota_kernel_global_norm, NULL};
static const rota_kernel *const check_finite_kernels[] = {&rota_kernel_check_finite, NULL};

const rota_op rota_ops_update[] = {
    {
        .name = "index_add",
        .of_nothing = ROTA_OF_NOTHING_UNCHANGED,
        .input_count = 2,
        .input_names = {"index", "y"},
        .input_modes = {ROTA_READ, ROTA_ACCUMULATE},
        .attributes = ATTRIBUTES(ATTRIBUTE(integer, integer)),
        .kernels = index_add_kernels,
        .shape = shape_index_add,
        .record = record_index_add,
        .example = example_index_add,
    },
    {
        .name = "global_norm",
        .of_nothing = ROTA_OF_NOTHING_RECORDED,
        .input_count = 5,
        .optional_inputs = 30,
        .output_count = 1,
        .input_names = {"x0", "x1", "x2", "x3", "x4"},
        .output_names = {"norm_factor"},
        .attributes = ATTRIBUTES(ATTRIBUTE(max_norm, scale)),
        .kernels = global_norm_kernels,
        .shape = shape_global_norm,
        .record = record_global_norm,
        .example = example_global_norm,
    },
    {
        .name = "check_finite",
        .of_nothing = ROTA_OF_NOTHING_RECORDED,
        .input_count = 1,
        .output_count = 1,
        .input_names = {"x"},
        .output_names = {"found"},
        .kernels = check_finite_kernels,
        .shape = shape_check_finite,
        .record = record_check_finite,
        .example = example_check_finite,
    },
    {0},
};
