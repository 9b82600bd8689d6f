/* Optimizers, in place on f32 parameters: adamw (and Adam), momentum (SGD and Lion), ema; and loss_scale.
 *
 * One node updates one contiguous tensor. A model whose parameters are views of one buffer, sorted by groups
 * of like weight decay, is updated by one node a group: a node has a bounded number of operands, so a list of
 * tensors could not be one, and a table of ranges would be a search for every element. */
#include "ops/kernel_objects.h"
#include "ops/op.h"
#include "ops/op_rules.h"
#include "ops/record.h"
#include "ops/update_params.h"

#include <string.h>

enum { ADAMW, MOMENTUM };

/* Operands: p, g, state ..., factor, half. */
static uint32_t states_of(const rota_op_use *use) {
    return use->op == &rota_ops_optimizer[ADAMW] ? 2 : 1;
}

/* Whether adamw's factor has the learning rate and the step, too. */
static bool has_rates(const rota_op_use *use) {
    const rota_tensor *f = &use->inputs[2 + states_of(use)];
    return states_of(use) == 2 && f->buffer && f->dtype == ROTA_F32 && f->rank == 1 && f->shape[0] == 3 &&
           rota_tensor_is_contiguous(f);
}

static rota_status fail_operand(const rota_op_use *use, uint32_t input, const char *expected) {
    char text[ROTA_TENSOR_TEXT_MAX];
    return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "%s is %s; expected %s", use->op->input_names[input],
                        rota_tensor_describe(&use->inputs[input], text, sizeof text), expected);
}

static rota_status shape_update(const rota_op_use *use, rota_tensor *out) {
    (void)out;
    const uint32_t factor = 2 + states_of(use), half = factor + 1;
    const rota_tensor *p = &use->inputs[0];
    const bool has_half = use->inputs[half].buffer != NULL;
    for (uint32_t i = 0; i < factor + (has_half ? 2 : 0); i++) {
        if (i == factor) continue;
        const rota_tensor *x = &use->inputs[i];
        char text[ROTA_TENSOR_TEXT_MAX + 48] = "f32, contiguous, like p ";
        if (i == 1) strcpy(text, "f32, f16 or bf16, like p ");
        if (i == half) strcpy(text, "f16 or bf16, contiguous, like p ");
        const bool typed = i == half ? rota_dtype_is_real(x->dtype) && x->dtype != ROTA_F32
                           : i == 1  ? rota_dtype_is_real(x->dtype)
                                     : x->dtype == ROTA_F32;
        if (typed && rota_shapes_equal(x, p) && (i == 1 || rota_tensor_is_contiguous(x))) continue;
        rota_tensor_describe(p, text + strlen(text), ROTA_TENSOR_TEXT_MAX);
        return fail_operand(use, i, text);
    }
    const rota_tensor *f = &use->inputs[factor];
    const bool one = f->dtype == ROTA_F32 && rota_tensor_count(f) == 1;
    if (f->buffer && !one && !has_rates(use))
        return fail_operand(use, factor, states_of(use) == 2 ? "f32 [1], or f32 [3], contiguous" : "f32 [1]");
    return states_of(use) == 2 ? rota_shape_require_u32(use, 1, "step") : ROTA_OK;
}

static rota_status record_update(rota_tape *tape, const rota_op_use *use, const rota_kernel *kernel,
                                 const rota_tensor *g, const void *params, const rota_param_binding *bindings,
                                 uint32_t binding_count) {
    const uint32_t states = states_of(use), factor = 2 + states, half = factor + 1;
    rota_access accesses[6] = {rota_tensor_access(&use->inputs[0], ROTA_READWRITE),
                               rota_tensor_access(g, ROTA_READ)};
    for (uint32_t i = 0; i < states; i++)
        accesses[2 + i] = rota_tensor_access(&use->inputs[2 + i], ROTA_READWRITE);
    accesses[factor] = rota_tensor_access(use->inputs[factor].buffer ? &use->inputs[factor] : g, ROTA_READ);
    /* Kernels take addresses that are multiples of 4: a copy that begins at an odd element is made elsewhere.
     */
    const rota_tensor *asked = &use->inputs[half];
    const bool around = asked->buffer && asked->offset_bytes % 4 != 0;
    rota_tensor copy = *asked;
    if (around) ROTA_TRY(rota_tape_temporary(tape, "half", asked->dtype, asked->rank, asked->shape, &copy));
    accesses[half] = copy.buffer ? rota_tensor_access(&copy, ROTA_WRITE) : rota_tensor_access(g, ROTA_READ);
    ROTA_TRY(rota_tape_kernel(tape, kernel, accesses, half + 1, params, bindings, binding_count));
    return around ? rota_record_strided(tape, &copy, asked, 1.0f, false) : ROTA_OK;
}

static uint32_t flags_of(const rota_op_use *use) {
    const uint32_t factor = 2 + states_of(use);
    return use->attributes.flags | (use->inputs[factor].buffer ? ROTA_UPDATE_FACTOR : 0) |
           (use->inputs[factor + 1].buffer ? ROTA_UPDATE_HALF : 0) | (has_rates(use) ? ROTA_UPDATE_RATES : 0);
}

static rota_status record_adamw(rota_tape *tape, rota_op_use *use) {
    const rota_op_attributes *o = &use->attributes;
    rota_tensor g;
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[1], &g));
    rota_adamw_params params = {
        .count = (uint32_t)rota_tensor_count(&g),
        .flags = flags_of(use),
        .lr = rota_value_f32(o->value[0]),
        .step = rota_value_u32(o->value[1]),
        .beta1 = o->beta1,
        .beta2 = o->beta2,
        .eps = o->eps,
        .weight_decay = o->weight_decay,
        .g_dtype = g.dtype,
        .half_dtype = use->inputs[5].dtype,
    };
    rota_param_binding bindings[2];
    uint32_t count = 0;
    rota_value_bind(o->value[0], 0, bindings, &count);
    rota_value_bind(o->value[1], 1, bindings, &count);
    return record_update(tape, use, &rota_kernel_adamw, &g, &params, bindings, count);
}

static rota_status record_momentum(rota_tape *tape, rota_op_use *use) {
    const rota_op_attributes *o = &use->attributes;
    rota_tensor g;
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[1], &g));
    rota_momentum_params params = {
        .count = (uint32_t)rota_tensor_count(&g),
        .flags = flags_of(use),
        .lr = rota_value_f32(o->value[0]),
        .beta1 = o->beta1,
        .beta2 = o->beta2,
        .weight_decay = o->weight_decay,
        .g_dtype = g.dtype,
        .half_dtype = use->inputs[4].dtype,
    };
    rota_param_binding bindings[1];
    uint32_t count = 0;
    rota_value_bind(o->value[0], 0, bindings, &count);
    return record_update(tape, use, &rota_kernel_momentum, &g, &params, bindings, count);
}

/* Plain; with a factor; with one that skips the step; f16 or bf16 gradients and copies. */
static bool example_update(uint32_t states, const uint32_t *flags, uint32_t index, uint32_t size,
                           rota_op_example *out) {
    static const struct {
        const char *label;
        uint64_t count;
        rota_fill_kind factor; /* ROTA_FILL_KIND_COUNT: none */
        rota_dtype g, half;    /* ROTA_DTYPE_COUNT: none */
    } small[] = {{"one element", 1, ROTA_FILL_KIND_COUNT, ROTA_F32, ROTA_DTYPE_COUNT},
                 {"with a factor", 77, ROTA_FILL_POSITIVE, ROTA_F32, ROTA_DTYPE_COUNT},
                 {"many", 20000, ROTA_FILL_KIND_COUNT, ROTA_F32, ROTA_DTYPE_COUNT},
                 {"bf16 gradient and copy", 3001, ROTA_FILL_POSITIVE, ROTA_BF16, ROTA_BF16},
                 {"f16 copy", 4096, ROTA_FILL_KIND_COUNT, ROTA_F32, ROTA_F16},
                 {"f16 gradient", 515, ROTA_FILL_POSITIVE, ROTA_F16, ROTA_DTYPE_COUNT},
                 {"skipped", 100, ROTA_FILL_NEGATIVE, ROTA_BF16, ROTA_BF16}},
      large[] = {{"a million", 1u << 20, ROTA_FILL_KIND_COUNT, ROTA_F32, ROTA_DTYPE_COUNT},
                 {"16 million, bf16 gradient and copy", 1u << 24, ROTA_FILL_POSITIVE, ROTA_BF16, ROTA_BF16}};
    if (index >= (size ? sizeof large / sizeof *large : sizeof small / sizeof *small)) return false;
    const uint64_t count = size ? large[index].count : small[index].count;
    const rota_fill_kind factor = size ? large[index].factor : small[index].factor;
    const rota_dtype g = size ? large[index].g : small[index].g,
                     half = size ? large[index].half : small[index].half;
    *out = (rota_op_example){.label = size ? large[index].label : small[index].label};
    for (uint32_t i = 0; i < 2 + states; i++)
        rota_example_input(out, i, i == 1 ? g : ROTA_F32, 1, &count,
                           i == 3 ? ROTA_FILL_POSITIVE : ROTA_FILL_UNIFORM);
    if (factor != ROTA_FILL_KIND_COUNT)
        rota_example_input(out, 2 + states, ROTA_F32, 1, (const uint64_t[]){1}, factor);
    else
        rota_example_absent(out, 2 + states);
    if (half != ROTA_DTYPE_COUNT)
        rota_example_input(out, 3 + states, half, 1, &count, ROTA_FILL_ZERO);
    else
        rota_example_absent(out, 3 + states);
    out->use.attributes.value[0] = rota_value_constant(0.01);
    out->use.attributes.value[1] = rota_value_constant(3);
    out->use.attributes.beta1 = 0.9f;
    out->use.attributes.beta2 = 0.99f;
    out->use.attributes.eps = 1e-8f;
    out->use.attributes.weight_decay = 0.1f;
    out->use.attributes.flags = flags[index % 3];
    out->bytes =
        (double)count * (8.0 * (1 + states) + rota_dtype_bytes(g) + (half != ROTA_DTYPE_COUNT ? 2.0 : 0.0));
    return true;
}

static bool example_adamw(uint32_t index, uint32_t size, rota_op_example *out) {
    return example_update(2, (const uint32_t[]){0, 0, ROTA_UPDATE_COUPLED}, index, size, out);
}

static bool example_momentum(uint32_t index, uint32_t size, rota_op_example *out) {
    return example_update(1, (const uint32_t[]){0, ROTA_UPDATE_NESTEROV, ROTA_UPDATE_SIGN}, index, size, out);
}

/* ---- ema ---- */

static rota_status shape_ema(const rota_op_use *use, rota_tensor *out) {
    (void)out;
    ROTA_TRY(rota_shape_require(use, 3, ROTA_F32));
    if (!rota_shapes_equal(&use->inputs[0], &use->inputs[1])) return fail_operand(use, 1, "of x's shape");
    return rota_tensor_is_contiguous(&use->inputs[1]) ? ROTA_OK : fail_operand(use, 1, "contiguous");
}

/* average += (1 - decay) (x - average), in two nodes. */
static rota_status record_ema(rota_tape *tape, rota_op_use *use) {
    const float decay = use->attributes.beta1;
    const rota_tensor *average = &use->inputs[1];
    rota_tensor difference;
    ROTA_TRY(rota_tape_temporary(tape, "ema", ROTA_F32, average->rank, average->shape, &difference));
    ROTA_TRY(rota_record_binary(tape, ROTA_BINARY_SUB, &use->inputs[0], average, &difference));
    return rota_record_strided(tape, &difference, average, 1.0f - decay, true);
}

static bool example_ema(uint32_t index, uint32_t size, rota_op_example *out) {
    static const uint64_t counts[] = {1, 777, 1u << 20};
    if (index >= (size ? 1 : 2)) return false;
    *out = (rota_op_example){.label = size ? "a million" : "odd sizes"};
    for (uint32_t i = 0; i < 2; i++)
        rota_example_input(out, i, ROTA_F32, 1, &counts[size ? 2 : index], ROTA_FILL_UNIFORM);
    out->use.attributes.beta1 = 0.99f;
    rota_example_bytes(out, NULL, 0);
    return true;
}

/* ---- loss_scale ---- */

static rota_status shape_loss_scale(const rota_op_use *use, rota_tensor *out) {
    ROTA_TRY(rota_shape_require(use, 3, ROTA_F32));
    if (rota_tensor_count(&use->inputs[0]) != 1) return fail_operand(use, 0, "f32 [1]");
    if (rota_tensor_count(&use->inputs[1]) != 2 || !rota_tensor_is_contiguous(&use->inputs[1]))
        return fail_operand(use, 1, "f32 [2], contiguous");
    return rota_tensor_of(NULL, 0, ROTA_F32, ROTA_SHAPE(1), out);
}

static rota_status record_loss_scale(rota_tape *tape, rota_op_use *use) {
    const rota_op_attributes *o = &use->attributes;
    rota_loss_scale_params params = {
        .interval = (uint32_t)o->length, .growth = o->growth, .backoff = o->backoff, .max_norm = o->scale};
    rota_access accesses[] = {rota_tensor_access(&use->inputs[0], ROTA_READ),
                              rota_tensor_access(&use->inputs[1], ROTA_READWRITE),
                              rota_tensor_write(&use->outputs[0])};
    return rota_tape_kernel(tape, &rota_kernel_loss_scale, accesses, 3, &params, NULL, 0);
}

static bool example_loss_scale(uint32_t index, uint32_t size, rota_op_example *out) {
    if (index >= (size ? 0 : 2)) return false;
    *out = (rota_op_example){.label = index ? "at the interval" : "before it"};
    rota_example_input(out, 0, ROTA_F32, 1, (const uint64_t[]){1}, ROTA_FILL_POSITIVE);
    rota_example_input(out, 1, ROTA_F32, 1, (const uint64_t[]){2}, ROTA_FILL_POSITIVE);
    out->use.attributes.length = index ? 1 : 1000;
    out->use.attributes.growth = 2.0f;
    out->use.attributes.backoff = 0.5f;
    out->use.attributes.scale = index ? 0.25f : 1000.0f;
    rota_example_bytes(out, NULL, 0);
    return true;
}

static const rota_kernel *const adamw_kernels[] = {&rota_kernel_adamw, &rota_kernel_copy_strided, NULL};
static const rota_kernel *const momentum_kernels[] = {&rota_kernel_momentum, &rota_kernel_copy_strided, NULL};
static const rota_kernel *const ema_kernels[] = {&rota_kernel_binary, &rota_kernel_copy_strided, NULL};
static const rota_kernel *const loss_scale_kernels[] = {&rota_kernel_loss_scale, NULL};

const rota_op rota_ops_optimizer[] = {
    {
        .name = "adamw",
        .input_count = 6,
        .optional_inputs = 48,
        .input_names = {"p", "g", "m", "v", "factor", "half"},
        .input_modes = {ROTA_READWRITE, ROTA_READ, ROTA_READWRITE, ROTA_READWRITE, ROTA_READ, ROTA_READWRITE},
        .attributes = ATTRIBUTES(ATTRIBUTE(lr, value[0]), ATTRIBUTE(step, value[1]), ATTRIBUTE(beta1, beta1),
                                 ATTRIBUTE(beta2, beta2), ATTRIBUTE(eps, eps),
                                 ATTRIBUTE(weight_decay, weight_decay), ATTRIBUTE(flags, flags)),
        .varies_by_step = 3,
        .kernels = adamw_kernels,
        .shape = shape_update,
        .record = record_adamw,
        .example = example_adamw,
    },
    {
        .name = "momentum",
        .input_count = 5,
        .optional_inputs = 24,
        .input_names = {"p", "g", "m", "factor", "half"},
        .input_modes = {ROTA_READWRITE, ROTA_READ, ROTA_READWRITE, ROTA_READ, ROTA_READWRITE},
        .attributes = ATTRIBUTES(ATTRIBUTE(lr, value[0]), ATTRIBUTE(beta1, beta1), ATTRIBUTE(beta2, beta2),
                                 ATTRIBUTE(weight_decay, weight_decay), ATTRIBUTE(flags, flags)),
        .varies_by_step = 1,
        .kernels = momentum_kernels,
        .shape = shape_update,
        .record = record_momentum,
        .example = example_momentum,
    },
    {
        .name = "ema",
        .input_count = 2,
        .input_names = {"x", "average"},
        .input_modes = {ROTA_READ, ROTA_READWRITE},
        .attributes = ATTRIBUTES(ATTRIBUTE(decay, beta1)),
        .kernels = ema_kernels,
        .shape = shape_ema,
        .record = record_ema,
        .example = example_ema,
    },
    {
        .name = "loss_scale",
        .input_count = 2,
        .output_count = 1,
        .input_names = {"norm", "state"},
        .output_names = {"factor"},
        .input_modes = {ROTA_READ, ROTA_READWRITE},
        .attributes = ATTRIBUTES(ATTRIBUTE(interval, length), ATTRIBUTE(growth, growth),
                                 ATTRIBUTE(backoff, backoff), ATTRIBUTE(max_norm, scale)),
        .kernels = loss_scale_kernels,
        .shape = shape_loss_scale,
        .record = record_loss_scale,
        .example = example_loss_scale,
    },
    {0},
};
