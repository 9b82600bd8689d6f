/* Op: rope, rotary position embedding. */
#include "ops/kernel_objects.h"
#include "ops/op.h"
#include "ops/op_rules.h"

static rota_status shape_rope(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *x = &use->inputs[0];
    const uint64_t rotary = use->attributes.length;
    char text[ROTA_TENSOR_TEXT_MAX];
    rota_dtype dtype;
    ROTA_TRY(rota_shape_require_real(use, 1, &dtype));
    if (x->rank < 2 || rotary % 2 != 0 || rotary > x->shape[x->rank - 1])
        return rota_op_fail(
            use->op, ROTA_INVALID_ARGUMENT,
            "x is %s, and %llu columns are to be turned; expected [..., sequence, dim] and an even "
            "number up to dim",
            rota_tensor_describe(x, text, sizeof text), (unsigned long long)rotary);
    if (!(use->attributes.scale > 0.0f))
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "the base is %g; expected more than 0",
                            (double)use->attributes.scale);
    ROTA_TRY(rota_shape_require_u32(use, 0, "offset"));
    return rota_shape_like(x, dtype, out);
}

static rota_status run_rope(rota_tape *tape, const rota_op_use *use, const rota_tensor *x,
                            const rota_tensor *y, bool inverse) {
    const uint64_t dim = x->shape[x->rank - 1];
    const rota_op_attributes *a = &use->attributes;
    rota_tensor from;
    ROTA_TRY(rota_record_contiguous(tape, x, &from));
    rota_rope_params params = {
        .rows = (uint32_t)(rota_tensor_count(x) / dim),
        .sequence = (uint32_t)x->shape[x->rank - 2],
        .dim = (uint32_t)dim,
        .rotary = (uint32_t)(a->length ? a->length : dim / 2 * 2),
        .flags = (a->interleaved ? ROTA_ROPE_INTERLEAVED : 0) | (inverse ? ROTA_ROPE_INVERSE : 0),
        .base = a->scale,
        .offset = rota_value_u32(a->value[0]),
        .dtype = x->dtype,
    };
    rota_param_binding bindings[1];
    uint32_t count = 0;
    rota_value_bind(a->value[0], 0, bindings, &count);
    rota_access accesses[] = {rota_tensor_access(&from, ROTA_READ), rota_tensor_write(y)};
    return rota_tape_kernel(tape, &rota_kernel_rope, accesses, 2, &params, bindings, count);
}

static rota_status record_rope(rota_tape *tape, rota_op_use *use) {
    return run_rope(tape, use, &use->inputs[0], &use->outputs[0], false);
}

/* A rotation's transpose turns back. */
static rota_status gradient_rope(rota_tape *tape, const rota_op_use *use) {
    rota_gradient_write write;
    ROTA_TRY(rota_gradient_begin(tape, &use->inputs[0], &write));
    ROTA_TRY(run_rope(tape, use, rota_gradient_output(tape, 0), &write.dx, true));
    return rota_gradient_end(tape, &use->inputs[0], &write);
}

static bool example_rope(uint32_t index, uint32_t size, rota_op_example *out) {
    static const struct {
        const char *label;
        uint64_t shape[3], rotary;
        uint32_t offset;
        bool interleaved;
    } small[] = {{"halves", {3, 7, 8}, 0, 0, false},
                 {"interleaved, from position 40", {2, 9, 6}, 0, 40, true},
                 {"part of the columns", {2, 5, 11}, 4, 3, false}},
      large = {"64 x 1024 x 64", {64, 1024, 64}, 0, 0, false};
    static const rota_dtype dtypes[] = {ROTA_F32, ROTA_F16, ROTA_BF16};
    if (index >= (size ? 2 : 9)) return false;
    const uint32_t form = index % 3;
    *out = (rota_op_example){.label = size ? large.label : small[form].label};
    rota_example_input(out, 0, size ? (index ? ROTA_BF16 : ROTA_F32) : dtypes[index / 3], 3,
                       size ? large.shape : small[form].shape, ROTA_FILL_UNIFORM);
    out->use.attributes.length = size ? 0 : small[form].rotary;
    out->use.attributes.scale = 10000.0f;
    out->use.attributes.interleaved = !size && small[form].interleaved;
    out->use.attributes.value[0] = rota_value_constant(size ? 0 : small[form].offset);
    out->flops = 3.0 * (double)rota_tensor_count(&out->use.inputs[0]);
    rota_example_bytes(out, out->use.inputs, 1);
    return true;
}

static const rota_kernel *const rope_kernels[] = {&rota_kernel_rope, &rota_kernel_copy_strided, NULL};

const rota_op rota_ops_rope[] = {
    {
        .name = "rope",
        .input_count = 1,
        .output_count = 1,
        .input_names = {"x"},
        .output_names = {"y"},
        .attributes = ATTRIBUTES(ATTRIBUTE(offset, value[0]), ATTRIBUTE(rotary, length),
                                 ATTRIBUTE(base, scale), ATTRIBUTE(interleaved, interleaved)),
        .inplace_inputs = 1,
        .varies_by_step = 1,
        .kernels = rope_kernels,
        .shape = shape_rope,
        .record = record_rope,
        .gradient = gradient_rope,
        .differentiable = 1,
        .example = example_rope,
    },
    {0},
};
