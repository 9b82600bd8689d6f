/* Op: batch_norm, in training (statistics of the batch, running ones updated) and in evaluation (running
 * ones). */
#include "ops/kernel_objects.h"
#include "ops/op.h"
#include "ops/op_rules.h"
#include "ops/record.h"

/* Elements of a channel in one partial sum. */
#define CHUNK 128

static bool is_training(const rota_op_use *use) {
    return !use->attributes.evaluate;
}

static rota_status shape_batch_norm(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *x = &use->inputs[0];
    const uint32_t axis = use->attributes.axis[0];
    char text[ROTA_TENSOR_TEXT_MAX], other[ROTA_TENSOR_TEXT_MAX];
    rota_dtype dtype;
    ROTA_TRY(rota_shape_require_real(use, 7, &dtype));
    ROTA_TRY(rota_shape_require(use, 24, ROTA_F32));
    if (axis >= x->rank)
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "x is %s, which has no axis %u",
                            rota_tensor_describe(x, text, sizeof text), axis);
    for (uint32_t i = 1; i < use->input_count; i++) {
        const rota_tensor *w = &use->inputs[i];
        if (!w->buffer && w->rank == 0) continue;
        if (w->rank != 1 || w->shape[0] != x->shape[axis] || (i > 2 && !rota_tensor_is_contiguous(w)))
            return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT,
                                "%s is %s, x is %s with channels along axis %u; expected %s [%llu]%s",
                                use->op->input_names[i], rota_tensor_describe(w, text, sizeof text),
                                rota_tensor_describe(x, other, sizeof other), axis,
                                i > 2 ? "f32" : rota_dtype_name(dtype), (unsigned long long)x->shape[axis],
                                i > 2 ? ", contiguous" : "");
    }
    if (is_training(use) && rota_tensor_count(x) < 2 * x->shape[axis])
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "x is %s: one element a channel has no variance",
                            rota_tensor_describe(x, text, sizeof text));
    ROTA_TRY(rota_shape_like(x, dtype, &out[0]));
    return rota_tensor_of(NULL, 0, ROTA_F32, ROTA_SHAPE(2, x->shape[axis]), &out[1]);
}

static rota_batch_norm_params params_of(const rota_op_use *use) {
    const rota_tensor *x = &use->inputs[0];
    const uint32_t axis = use->attributes.axis[0];
    uint64_t outer = 1, inner = 1;
    for (uint32_t d = 0; d < axis; d++) outer *= x->shape[d];
    for (uint32_t d = axis + 1; d < x->rank; d++) inner *= x->shape[d];
    return (rota_batch_norm_params){
        .outer = (uint32_t)outer,
        .channels = (uint32_t)x->shape[axis],
        .inner = (uint32_t)inner,
        .flags = (use->inputs[1].buffer ? ROTA_NORM_WEIGHT : 0) |
                 (use->inputs[2].buffer ? ROTA_NORM_BIAS : 0) |
                 (is_training(use) ? 0 : ROTA_BATCH_NORM_VARIANCE),
        .chunk = CHUNK,
        .eps = use->attributes.eps,
        .momentum = use->attributes.beta1,
        .dtype = x->dtype,
    };
}

static uint64_t elements_of(const rota_batch_norm_params *p) {
    return (uint64_t)p->outer * p->inner;
}

/* Means over the batch, or of squares around `mean`, into `out` [channels]; with dy, sums [2, channels] of dy
 * * h and of dy. */
static rota_status sums(rota_tape *tape, rota_batch_norm_params params, uint32_t what, const rota_tensor *x,
                        const rota_tensor *mean, const rota_tensor *spread, const rota_tensor *dy,
                        const rota_tensor *out) {
    const uint64_t n = elements_of(&params), chunks = (n + CHUNK - 1) / CHUNK, parts = dy ? 2 : 1;
    rota_tensor partial;
    params.flags |= what;
    ROTA_TRY(
        rota_tape_temporary(tape, "partial", ROTA_F32, ROTA_SHAPE(parts, chunks, params.channels), &partial));
    rota_access accesses[] = {rota_tensor_access(x, ROTA_READ),
                              rota_tensor_access(mean ? mean : x, ROTA_READ),
                              rota_tensor_access(spread ? spread : x, ROTA_READ),
                              rota_tensor_access(dy ? dy : x, ROTA_READ), rota_tensor_write(&partial)};
    ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_batch_norm_sums, accesses, 5, &params, NULL, 0));
    return rota_record_reduce(tape, ROTA_REDUCE_SUM, dy ? 1.0f : 1.0f / (float)n, parts, chunks,
                              params.channels, &partial, out);
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
        rota_tensor variance;
        ROTA_TRY(rota_tape_temporary(tape, "variance", ROTA_F32, ROTA_SHAPE(params.channels), &variance));
        ROTA_TRY(sums(tape, params, ROTA_BATCH_NORM_MEAN, &x, NULL, NULL, NULL, &mean));
        ROTA_TRY(sums(tape, params, ROTA_BATCH_NORM_SQUARES, &x, &mean, NULL, NULL, &variance));
        rota_access update[] = {
            rota_tensor_access(&mean, ROTA_READ), rota_tensor_access(&variance, ROTA_READ),
            rota_tensor_access(running_mean, ROTA_READWRITE),
            rota_tensor_access(running_variance, ROTA_READWRITE), rota_tensor_write(&spread)};
        ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_batch_norm_update, update, 5, &params, NULL, 0));
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
    ROTA_TRY(sums(tape, params, ROTA_BATCH_NORM_BACKWARD, &x, &mean, &spread, &dy, &both));
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

static bool example_batch_norm(uint32_t index, uint32_t size, rota_op_example *out) {
    static const struct {
        const char *label;
        uint32_t rank, axis;
        uint64_t shape[4];
        bool weights, evaluate;
    } small[] = {{"channels last", 2, 1, {301, 16}, true, false},
                 {"channels first", 4, 1, {3, 5, 7, 6}, true, false},
                 {"plain", 3, 2, {4, 9, 3}, false, false},
                 {"evaluation", 3, 1, {4, 9, 5}, true, true}},
      large = {"128 x 7 x 42 patches of 16", 2, 1, {37632, 16}, true, false};
    static const rota_dtype dtypes[] = {ROTA_F32, ROTA_F16, ROTA_BF16};
    if (index >= (size ? 1 : 12)) return false;
    const rota_dtype dtype = size ? ROTA_F32 : dtypes[index / 4];
    const uint32_t form = index % 4, axis = size ? large.axis : small[form].axis;
    const uint64_t *shape = size ? large.shape : small[form].shape;
    *out = (rota_op_example){.label = size ? large.label : small[form].label};
    rota_example_input(out, 0, dtype, size ? large.rank : small[form].rank, shape, ROTA_FILL_UNIFORM);
    if (size || small[form].weights) {
        rota_example_input(out, 1, dtype, 1, &shape[axis], ROTA_FILL_POSITIVE);
        rota_example_input(out, 2, dtype, 1, &shape[axis], ROTA_FILL_UNIFORM);
    } else {
        rota_example_absent(out, 1);
        rota_example_absent(out, 2);
    }
    rota_example_input(out, 3, ROTA_F32, 1, &shape[axis], ROTA_FILL_UNIFORM);
    rota_example_input(out, 4, ROTA_F32, 1, &shape[axis], ROTA_FILL_POSITIVE);
    out->use.attributes.axis[0] = axis;
    out->use.attributes.eps = 1e-5f;
    out->use.attributes.beta1 = 0.1f;
    out->use.attributes.evaluate = !size && small[form].evaluate;
    out->flops = 8.0 * (double)rota_tensor_count(&out->use.inputs[0]);
    rota_example_bytes(out, out->use.inputs, 1);
    return true;
}

static const rota_kernel *const batch_norm_kernels[] = {
    &rota_kernel_batch_norm_sums, &rota_kernel_reduce,       &rota_kernel_batch_norm_update,
    &rota_kernel_batch_norm,      &rota_kernel_copy_strided, NULL};

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
    {0},
};
