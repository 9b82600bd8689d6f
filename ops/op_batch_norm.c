/* Ops: batch_norm, in training (statistics of the batch, running ones updated) and in evaluation (running
 * ones); batch_norm_stats, those statistics alone; batch_norm_sums, what its gradients are made of. */
#include "base/divide.h"
#include "ops/kernel_objects.h"
#include "ops/layout.h"
#include "ops/op.h"
#include "ops/op_rules.h"
#include "ops/record.h"

/* Chunks of all channels, which run at once, those of one, whose moments one after another adds up, and the
 * elements that one has at least. */
#define CHUNKS 131072
#define CHUNKS_OF_CHANNEL 2048
#define CHUNK_MIN 16

static bool is_training(const rota_op_use *use) {
    return !use->attributes.evaluate;
}

static rota_status check_axis(const rota_op_use *use, const rota_tensor *x) {
    const uint32_t axis = use->attributes.axis[0];
    char text[ROTA_TENSOR_TEXT_MAX];
    if (axis >= x->rank)
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "x is %s, which has no axis %u",
                            rota_tensor_describe(x, text, sizeof text), axis);
    return ROTA_OK;
}

/* An input that has a number for each of x's channels. `plain`: it is what kernels read and write as it lies. */
static rota_status check_vector(const rota_op_use *use, uint32_t input, const rota_tensor *x, bool plain) {
    const rota_tensor *w = &use->inputs[input];
    const uint32_t axis = use->attributes.axis[0];
    char text[ROTA_TENSOR_TEXT_MAX], other[ROTA_TENSOR_TEXT_MAX];
    if (w->rank == 1 && w->shape[0] == x->shape[axis] && (!plain || rota_tensor_is_contiguous(w)))
        return ROTA_OK;
    return rota_op_fail(
        use->op, ROTA_INVALID_ARGUMENT, "%s is %s, x is %s with channels along axis %u; expected %s [%llu]%s",
        use->op->input_names[input], rota_tensor_describe(w, text, sizeof text),
        rota_tensor_describe(x, other, sizeof other), axis, plain ? "f32" : rota_dtype_name(x->dtype),
        (unsigned long long)x->shape[axis], plain ? ", contiguous" : "");
}

static rota_status check_variance(const rota_op_use *use, const rota_tensor *x) {
    char text[ROTA_TENSOR_TEXT_MAX];
    if (rota_tensor_count(x) < 2 * x->shape[use->attributes.axis[0]])
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "x is %s: one element a channel has no variance",
                            rota_tensor_describe(x, text, sizeof text));
    return ROTA_OK;
}

/* f32 [2, channels]. */
static rota_status pair_of(const rota_op_use *use, const rota_tensor *x, rota_tensor *out) {
    return rota_tensor_of(NULL, 0, ROTA_F32, ROTA_SHAPE(2, x->shape[use->attributes.axis[0]]), out);
}

static rota_status shape_batch_norm(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *x = &use->inputs[0];
    rota_dtype dtype;
    ROTA_TRY(rota_shape_require_real(use, 7, &dtype));
    ROTA_TRY(rota_shape_require(use, 24, ROTA_F32));
    ROTA_TRY(check_axis(use, x));
    for (uint32_t i = 1; i < use->input_count; i++)
        if (use->inputs[i].buffer || use->inputs[i].rank > 0) ROTA_TRY(check_vector(use, i, x, i > 2));
    if (is_training(use)) ROTA_TRY(check_variance(use, x));
    ROTA_TRY(rota_shape_like(x, dtype, &out[0]));
    return pair_of(use, x, &out[1]);
}

static rota_status shape_stats(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *x = &use->inputs[0];
    rota_dtype dtype;
    ROTA_TRY(rota_shape_require_real(use, 1, &dtype));
    ROTA_TRY(rota_shape_require(use, 6, ROTA_F32));
    ROTA_TRY(check_axis(use, x));
    for (uint32_t i = 1; i < 3; i++) ROTA_TRY(check_vector(use, i, x, true));
    ROTA_TRY(check_variance(use, x));
    return pair_of(use, x, out);
}

static rota_status shape_sums(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *dy = &use->inputs[0], *x = &use->inputs[1];
    char text[2][ROTA_TENSOR_TEXT_MAX];
    rota_dtype dtype;
    ROTA_TRY(rota_shape_require_real(use, 3, &dtype));
    ROTA_TRY(rota_shape_require(use, 12, ROTA_F32));
    ROTA_TRY(check_axis(use, x));
    for (uint32_t i = 2; i < 4; i++) ROTA_TRY(check_vector(use, i, x, true));
    if (!rota_shapes_equal(dy, x))
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "dy is %s, x is %s; expected them alike",
                            rota_tensor_describe(dy, text[0], sizeof text[0]),
                            rota_tensor_describe(x, text[1], sizeof text[1]));
    return pair_of(use, x, out);
}

static uint64_t at_least(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* What all three ops have, with the channels of x along an axis. */
static rota_batch_norm_params params_along(const rota_op_use *use, const rota_tensor *x) {
    const uint32_t axis = use->attributes.axis[0];
    uint64_t outer = 1, inner = 1;
    for (uint32_t d = 0; d < axis; d++) outer *= x->shape[d];
    for (uint32_t d = axis + 1; d < x->rank; d++) inner *= x->shape[d];
    const uint64_t n = outer * inner, of_channel = at_least(1, CHUNKS / at_least(1, x->shape[axis]));
    const uint64_t chunk = at_least(rota_divide_up(n, of_channel), rota_divide_up(n, CHUNKS_OF_CHANNEL));
    return (rota_batch_norm_params){
        .outer = (uint32_t)outer,
        .channels = (uint32_t)x->shape[axis],
        .inner = (uint32_t)inner,
        .chunk = (uint32_t)at_least(chunk, CHUNK_MIN),
        .dtype = x->dtype,
    };
}

/* ... and what those with statistics have. */
static rota_batch_norm_params params_with_eps(const rota_op_use *use) {
    rota_batch_norm_params params = params_along(use, &use->inputs[0]);
    params.eps = use->attributes.eps;
    params.momentum = use->attributes.beta1;
    return params;
}

static rota_batch_norm_params params_of(const rota_op_use *use) {
    rota_batch_norm_params params = params_with_eps(use);
    params.flags = (use->inputs[1].buffer ? ROTA_NORM_WEIGHT : 0) |
                   (use->inputs[2].buffer ? ROTA_NORM_BIAS : 0) |
                   (is_training(use) ? 0 : ROTA_BATCH_NORM_VARIANCE);
    return params;
}

static uint64_t chunks_of(const rota_batch_norm_params *p) {
    return rota_divide_up((uint64_t)p->outer * p->inner, p->chunk);
}

/* Sums [2, channels] of dy * h and of dy. */
static rota_status sums(rota_tape *tape, const rota_batch_norm_params *params, const rota_tensor *x,
                        const rota_tensor *mean, const rota_tensor *spread, const rota_tensor *dy,
                        const rota_tensor *out) {
    rota_tensor partial;
    ROTA_TRY(rota_tape_temporary(tape, "partial", ROTA_F32,
                                 ROTA_SHAPE(2, chunks_of(params), params->channels), &partial));
    rota_access accesses[] = {rota_tensor_access(x, ROTA_READ), rota_tensor_access(mean, ROTA_READ),
                              rota_tensor_access(spread, ROTA_READ), rota_tensor_access(dy, ROTA_READ),
                              rota_tensor_write(&partial)};
    ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_batch_norm_sums, accesses, 5, params, NULL, 0));
    return rota_record_reduce(tape, ROTA_REDUCE_SUM, 1.0f, 2, chunks_of(params), params->channels, &partial,
                              out);
}

/* A batch's statistics [2, channels], and with them the running ones. */
static rota_status statistics(rota_tape *tape, const rota_batch_norm_params *params, const rota_tensor *x,
                              const rota_tensor *running_mean, const rota_tensor *running_variance,
                              const rota_tensor *stats) {
    rota_tensor partial;
    ROTA_TRY(rota_tape_temporary(tape, "partial", ROTA_F32,
                                 ROTA_SHAPE(2, chunks_of(params), params->channels), &partial));
    rota_access moments[] = {rota_tensor_access(x, ROTA_READ), rota_tensor_write(&partial)};
    ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_batch_norm_moments, moments, 2, params, NULL, 0));
    rota_access finish[] = {rota_tensor_access(&partial, ROTA_READ),
                            rota_tensor_access(running_mean, ROTA_READWRITE),
                            rota_tensor_access(running_variance, ROTA_READWRITE), rota_tensor_write(stats)};
    return rota_tape_kernel(tape, &rota_kernel_batch_norm_finish, finish, 4, params, NULL, 0);
}

/* A vector as an operand: contiguous; absent: some operand that is read anyway. */
static rota_status vector(rota_tape *tape, const rota_tensor *given, const rota_tensor *instead,
                          rota_access *out) {
    rota_tensor w = *instead;
    if (given->buffer) ROTA_TRY(rota_record_contiguous(tape, given, &w));
    *out = rota_tensor_access(&w, ROTA_READ);
    return ROTA_OK;
}

static rota_status halves_of(const rota_tensor *both, rota_tensor *first, rota_tensor *second) {
    const uint64_t channels = both->shape[1];
    ROTA_TRY(rota_tensor_of(both->buffer, both->offset_bytes, ROTA_F32, ROTA_SHAPE(channels), first));
    return rota_tensor_of(both->buffer, both->offset_bytes + channels * sizeof(float), ROTA_F32,
                          ROTA_SHAPE(channels), second);
}

static rota_status record_batch_norm(rota_tape *tape, rota_op_use *use) {
    const rota_batch_norm_params params = params_of(use);
    const rota_tensor *running_mean = &use->inputs[3], *running_variance = &use->inputs[4];
    rota_tensor x, mean, spread;
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[0], &x));
    ROTA_TRY(halves_of(&use->outputs[1], &mean, &spread));
    if (is_training(use)) {
        ROTA_TRY(statistics(tape, &params, &x, running_mean, running_variance, &use->outputs[1]));
    } else { /* what gradients will read: the next training step changes the running ones */
        ROTA_TRY(rota_record_strided(tape, running_mean, &mean, 1.0f, false));
        ROTA_TRY(rota_record_strided(tape, running_variance, &spread, 1.0f, false));
    }
    rota_access accesses[6] = {rota_tensor_access(&x, ROTA_READ), rota_tensor_access(&mean, ROTA_READ),
                               rota_tensor_access(&spread, ROTA_READ)};
    ROTA_TRY(vector(tape, &use->inputs[1], &x, &accesses[3]));
    ROTA_TRY(vector(tape, &use->inputs[2], &x, &accesses[4]));
    accesses[5] = rota_tensor_write(&use->outputs[0]);
    return rota_tape_kernel(tape, &rota_kernel_batch_norm, accesses, 6, &params, NULL, 0);
}

static rota_status record_stats(rota_tape *tape, rota_op_use *use) {
    const rota_batch_norm_params params = params_with_eps(use);
    rota_tensor x;
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[0], &x));
    return statistics(tape, &params, &x, &use->inputs[1], &use->inputs[2], &use->outputs[0]);
}

static rota_status record_sums(rota_tape *tape, rota_op_use *use) {
    const rota_batch_norm_params params = params_along(use, &use->inputs[1]);
    rota_tensor dy, x;
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[0], &dy));
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[1], &x));
    return sums(tape, &params, &x, &use->inputs[2], &use->inputs[3], &dy, &use->outputs[0]);
}

/* f32 sums become the gradient of a weight of any dtype. */
static rota_status gradient_of_weight(rota_tape *tape, const rota_tensor *w, const rota_tensor *sum) {
    if (!w->buffer || !rota_gradient_wanted(tape, w)) return ROTA_OK;
    if (w->dtype == ROTA_F32) return rota_gradient_add(tape, w, sum, 1.0f);
    rota_gradient_write write;
    ROTA_TRY(rota_gradient_begin(tape, w, &write));
    ROTA_TRY(rota_record_cast(tape, sum, &write.dx));
    return rota_gradient_end(tape, w, &write);
}

static rota_status gradient_batch_norm(rota_tape *tape, const rota_op_use *use) {
    const rota_batch_norm_params params = params_of(use);
    rota_tensor x, dy, mean, spread, both, dweight, dbias;
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[0], &x));
    ROTA_TRY(rota_record_contiguous(tape, rota_gradient_output(tape, 0), &dy));
    ROTA_TRY(halves_of(&use->outputs[1], &mean, &spread));
    ROTA_TRY(rota_tape_temporary(tape, "sums", ROTA_F32, ROTA_SHAPE(2, params.channels), &both));
    ROTA_TRY(sums(tape, &params, &x, &mean, &spread, &dy, &both));
    ROTA_TRY(halves_of(&both, &dweight, &dbias));
    ROTA_TRY(gradient_of_weight(tape, &use->inputs[1], &dweight));
    ROTA_TRY(gradient_of_weight(tape, &use->inputs[2], &dbias));
    if (!rota_gradient_wanted(tape, &use->inputs[0])) return ROTA_OK;
    rota_gradient_write write;
    ROTA_TRY(rota_gradient_begin(tape, &use->inputs[0], &write));
    rota_access accesses[7] = {rota_tensor_access(&x, ROTA_READ), rota_tensor_access(&mean, ROTA_READ),
                               rota_tensor_access(&spread, ROTA_READ)};
    ROTA_TRY(vector(tape, &use->inputs[1], &x, &accesses[3]));
    accesses[4] = rota_tensor_access(&dy, ROTA_READ);
    accesses[5] = rota_tensor_access(&both, ROTA_READ);
    accesses[6] = rota_tensor_write(&write.dx);
    ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_batch_norm_backward, accesses, 7, &params, NULL, 0));
    return rota_gradient_end(tape, &use->inputs[0], &write);
}

/* What the ops' examples are of. */
typedef struct form {
    const char *label;
    uint32_t rank, axis;
    uint64_t shape[4];
    bool weights, evaluate;
} form;

static const form forms[] = {{"channels last", 2, 1, {301, 16}, true, false},
                             {"channels first", 4, 1, {3, 5, 7, 6}, true, false},
                             {"plain", 3, 2, {4, 9, 3}, false, false},
                             {"evaluation", 3, 1, {4, 9, 5}, true, true}},
                  large_form = {"128 x 7 x 42 patches of 16", 2, 1, {37632, 16}, true, false};
#define FORMS 4
/* Those in training. */
#define FORMS_OF_BATCH 3

/* An example by its number, of so many forms in each dtype. */
static bool form_at(uint32_t index, uint32_t size, uint32_t count, const form **out, rota_dtype *out_dtype) {
    static const rota_dtype dtypes[] = {ROTA_F32, ROTA_F16, ROTA_BF16};
    if (index >= (size ? 1 : 3 * count)) return false;
    *out = size ? &large_form : &forms[index % count];
    *out_dtype = size ? ROTA_F32 : dtypes[index / count];
    return true;
}

static void end_example(const form *f, uint32_t x, double flops_of_element, rota_op_example *out) {
    out->label = f->label;
    out->use.attributes.axis[0] = f->axis;
    out->flops = flops_of_element * (double)rota_tensor_count(&out->use.inputs[x]);
    rota_example_bytes(out, out->use.inputs, x + 1);
}

static bool example_batch_norm(uint32_t index, uint32_t size, rota_op_example *out) {
    const form *f;
    rota_dtype dtype;
    if (!form_at(index, size, FORMS, &f, &dtype)) return false;
    const uint64_t *channels = &f->shape[f->axis];
    *out = (rota_op_example){0};
    rota_example_input(out, 0, dtype, f->rank, f->shape, ROTA_FILL_UNIFORM);
    if (f->weights) {
        rota_example_input(out, 1, dtype, 1, channels, ROTA_FILL_POSITIVE);
        rota_example_input(out, 2, dtype, 1, channels, ROTA_FILL_UNIFORM);
    } else {
        rota_example_absent(out, 1);
        rota_example_absent(out, 2);
    }
    rota_example_input(out, 3, ROTA_F32, 1, channels, ROTA_FILL_UNIFORM);
    rota_example_input(out, 4, ROTA_F32, 1, channels, ROTA_FILL_POSITIVE);
    out->use.attributes.eps = 1e-5f;
    out->use.attributes.beta1 = 0.1f;
    out->use.attributes.evaluate = f->evaluate;
    end_example(f, 0, 8, out);
    return true;
}

static bool example_stats(uint32_t index, uint32_t size, rota_op_example *out) {
    const form *f;
    rota_dtype dtype;
    if (!form_at(index, size, FORMS_OF_BATCH, &f, &dtype)) return false;
    *out = (rota_op_example){0};
    rota_example_input(out, 0, dtype, f->rank, f->shape, ROTA_FILL_UNIFORM);
    rota_example_input(out, 1, ROTA_F32, 1, &f->shape[f->axis], ROTA_FILL_UNIFORM);
    rota_example_input(out, 2, ROTA_F32, 1, &f->shape[f->axis], ROTA_FILL_POSITIVE);
    out->use.attributes.eps = 1e-5f;
    out->use.attributes.beta1 = 0.1f;
    end_example(f, 0, 4, out);
    return true;
}

static bool example_sums(uint32_t index, uint32_t size, rota_op_example *out) {
    const form *f;
    rota_dtype dtype;
    if (!form_at(index, size, FORMS_OF_BATCH, &f, &dtype)) return false;
    *out = (rota_op_example){0};
    rota_example_input(out, 0, dtype, f->rank, f->shape, ROTA_FILL_UNIFORM);
    rota_example_input(out, 1, dtype, f->rank, f->shape, ROTA_FILL_UNIFORM);
    rota_example_input(out, 2, ROTA_F32, 1, &f->shape[f->axis], ROTA_FILL_UNIFORM);
    rota_example_input(out, 3, ROTA_F32, 1, &f->shape[f->axis], ROTA_FILL_POSITIVE);
    end_example(f, 1, 5, out);
    return true;
}

static const rota_kernel *const batch_norm_kernels[] = {
    &rota_kernel_batch_norm_moments, &rota_kernel_batch_norm_finish, &rota_kernel_batch_norm,
    &rota_kernel_copy_strided, NULL};
static const rota_kernel *const stats_kernels[] = {
    &rota_kernel_batch_norm_moments, &rota_kernel_batch_norm_finish, &rota_kernel_copy_strided, NULL};
static const rota_kernel *const sums_kernels[] = {&rota_kernel_batch_norm_sums, &rota_kernel_reduce,
                                                  &rota_kernel_copy_strided, NULL};

const rota_op rota_ops_batch_norm[] = {
    {
        .name = "batch_norm",
        .input_count = 5,
        .optional_inputs = 6,
        .output_count = 2,
        .input_names = {"x", "weight", "bias", "running_mean", "running_variance"},
        .output_names = {"y", "stats"},
        .input_modes = {ROTA_READ, ROTA_READ, ROTA_READ, ROTA_READWRITE, ROTA_READWRITE},
        .attributes = ATTRIBUTES(ATTRIBUTE(channels, axis[0]), ATTRIBUTE(eps, eps),
                                 ATTRIBUTE(momentum, beta1), ATTRIBUTE(evaluate, evaluate)),
        .kernels = batch_norm_kernels,
        .shape = shape_batch_norm,
        .record = record_batch_norm,
        .gradient = gradient_batch_norm,
        .differentiable = 7,
        .saved_inputs = 3,
        .saved_outputs = 2,
        .example = example_batch_norm,
    },
    {
        .name = "batch_norm_stats",
        .input_count = 3,
        .output_count = 1,
        .input_names = {"x", "running_mean", "running_variance"},
        .output_names = {"stats"},
        .input_modes = {ROTA_READ, ROTA_READWRITE, ROTA_READWRITE},
        .attributes =
            ATTRIBUTES(ATTRIBUTE(channels, axis[0]), ATTRIBUTE(eps, eps), ATTRIBUTE(momentum, beta1)),
        .kernels = stats_kernels,
        .shape = shape_stats,
        .record = record_stats,
        .example = example_stats,
    },
    {
        .name = "batch_norm_sums",
        .input_count = 4,
        .output_count = 1,
        .input_names = {"dy", "x", "mean", "rstd"},
        .output_names = {"sums"},
        .input_modes = {ROTA_READ, ROTA_READ, ROTA_READ, ROTA_READ},
        .attributes = ATTRIBUTES(ATTRIBUTE(channels, axis[0])),
        .of_nothing = ROTA_OF_NOTHING_ZERO,
        .kernels = sums_kernels,
        .shape = shape_sums,
        .record = record_sums,
        .example = example_sums,
    },
    {0},
};
