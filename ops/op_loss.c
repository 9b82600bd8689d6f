/* Ops that end in a loss of class scores: cross_entropy, and classifier, which is the same with its gradient in the
 * place of the scores. */
#include "ops/op_loss.h"
#include "ops/gradient.h"
#include "ops/kernel_objects.h"
#include "ops/op.h"
#include "ops/op_rules.h"

static bool is_classifier(const rota_op_use *use) {
    return use->op->input_modes[0] != ROTA_READ;
}

static rota_status shape_cross_entropy(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *logits = &use->inputs[0], *labels = &use->inputs[1];
    const float smoothing = use->attributes.smoothing;
    bool fits =
        rota_dtype_is_real(logits->dtype) && labels->dtype == ROTA_I32 && logits->rank == labels->rank + 1;
    for (uint32_t i = 0; fits && i < labels->rank; i++) fits = logits->shape[i] == labels->shape[i];
    char text[ROTA_TENSOR_TEXT_MAX], other[ROTA_TENSOR_TEXT_MAX];
    if (!fits)
        return rota_op_fail(
            use->op, ROTA_INVALID_ARGUMENT,
            "logits are %s, labels are %s; expected f32, f16 or bf16 [..., classes] and i32 of "
            "the leading axes",
            rota_tensor_describe(logits, text, sizeof text),
            rota_tensor_describe(labels, other, sizeof other));
    if (!(smoothing >= 0.0f && smoothing <= 1.0f))
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "smoothing is %g; expected 0 to 1",
                            (double)smoothing);
    if (use->attributes.length > logits->shape[logits->rank - 1])
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "%llu classes in logits %s",
                            (unsigned long long)use->attributes.length,
                            rota_tensor_describe(logits, text, sizeof text));
    if (is_classifier(use) && !rota_tensor_is_contiguous(logits))
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT,
                            "logits %s are not contiguous, but their gradient is to take their place",
                            rota_tensor_describe(logits, text, sizeof text));
    ROTA_TRY(rota_tensor_of(NULL, 0, ROTA_F32, ROTA_SHAPE(1), &out[0]));
    ROTA_TRY(rota_tensor_of(NULL, 0, ROTA_F32, ROTA_SHAPE(rota_tensor_count(labels)), &out[1]));
    return rota_tensor_of(NULL, 0, ROTA_F32, ROTA_SHAPE(1), &out[2]);
}

static rota_cross_entropy_params params_of(const rota_op_use *use) {
    const rota_tensor *logits = &use->inputs[0];
    const uint64_t pitch = logits->shape[logits->rank - 1], classes = use->attributes.length;
    const rota_loss_part *of = use->op->user;
    return (rota_cross_entropy_params){
        .rows = (uint32_t)rota_tensor_count(&use->inputs[1]),
        .classes = (uint32_t)(classes ? classes : pitch),
        .pitch = (uint32_t)pitch,
        .ignored = use->attributes.integer,
        .smoothing = use->attributes.smoothing,
        .dtype = logits->dtype,
        .first = of ? (uint32_t)of->part.first : 0,
        .all = of ? (uint32_t)of->part.whole : 0,
    };
}

rota_status rota_loss_record_rows(rota_tape *tape, const rota_op_use *use, const rota_tensor *labels,
                                  const rota_tensor *losses, const rota_tensor *lse) {
    rota_tensor logits;
    const rota_cross_entropy_params params = params_of(use);
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[0], &logits));
    rota_access rows[] = {rota_tensor_access(&logits, ROTA_READ), rota_tensor_access(labels, ROTA_READ),
                          rota_tensor_write(losses), rota_tensor_write(lse)};
    return rota_tape_kernel(tape, &rota_kernel_cross_entropy, rows, 4, &params, NULL, 0);
}

rota_status rota_loss_record_mean(rota_tape *tape, const rota_op_use *use, const rota_tensor *labels,
                                  const rota_tensor *losses) {
    const rota_cross_entropy_params params = params_of(use);
    rota_access mean[] = {rota_tensor_access(losses, ROTA_READ), rota_tensor_access(labels, ROTA_READ),
                          rota_tensor_write(&use->outputs[0]), rota_tensor_write(&use->outputs[2])};
    return rota_tape_kernel(tape, &rota_kernel_cross_entropy_mean, mean, 4, &params, NULL, 0);
}

static rota_status record_cross_entropy(rota_tape *tape, rota_op_use *use) {
    rota_tensor labels, losses;
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[1], &labels));
    ROTA_TRY(rota_tape_temporary(tape, "losses", ROTA_F32, ROTA_SHAPE(rota_tensor_count(&labels)), &losses));
    ROTA_TRY(rota_loss_record_rows(tape, use, &labels, &losses, &use->outputs[1]));
    return rota_loss_record_mean(tape, use, &labels, &losses);
}

static rota_status gradient_cross_entropy(rota_tape *tape, const rota_op_use *use) {
    rota_tensor logits, labels;
    rota_gradient_write write;
    const rota_cross_entropy_params params = params_of(use);
    /* Where somebody asked for the gradient itself, or one is there already, it does not take their place. */
    bool in_place = false;
    if (is_classifier(use)) ROTA_TRY(rota_gradient_in_place(tape, &use->inputs[0], &in_place));
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[0], &logits));
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[1], &labels));
    ROTA_TRY(rota_gradient_begin(tape, &use->inputs[0], &write));
    rota_access accesses[] = {rota_tensor_access(&logits, ROTA_READ),
                              rota_tensor_access(&labels, ROTA_READ),
                              rota_tensor_access(&use->outputs[1], ROTA_READ),
                              rota_tensor_access(rota_gradient_output(tape, 0), ROTA_READ),
                              rota_tensor_access(&use->outputs[2], ROTA_READ),
                              rota_tensor_write(&write.dx)};
    ROTA_TRY(rota_tape_kernel(tape, &rota_kernel_cross_entropy_backward, accesses, 6, &params, NULL, 0));
    return rota_gradient_end(tape, &use->inputs[0], &write);
}

static bool example_cross_entropy(uint32_t index, uint32_t size, rota_op_example *out) {
    static const struct {
        const char *label;
        uint64_t shape[3];
        float smoothing;
        int32_t ignored;
        uint64_t classes; /* 0: all columns */
    } small[] = {{"odd sizes", {3, 5, 37}, 0.0f, ROTA_IGNORED_LABEL, 0},
                 {"one row", {1, 1, 2}, 0.0f, ROTA_IGNORED_LABEL, 0},
                 {"ignored labels", {40, 70, 9}, 0.0f, 3, 0},
                 {"smoothing, ignored labels", {2, 7, 1032}, 0.1f, 11, 0},
                 {"padded rows", {2, 7, 64}, 0.1f, ROTA_IGNORED_LABEL, 51}},
      large = {"8192 x 4096", {8, 1024, 4096}, 0.0f, ROTA_IGNORED_LABEL, 0},
      vocabulary = {"1024 x 50304", {1, 1024, 50304}, 0.0f, ROTA_IGNORED_LABEL, 0};
    static const rota_dtype dtypes[] = {ROTA_F32, ROTA_F16, ROTA_BF16};
    enum { SMALL = sizeof small / sizeof *small };
    if (index >= (size ? 2 : 3 * SMALL)) return false;
    const rota_dtype dtype = size ? (index ? ROTA_BF16 : ROTA_F32) : dtypes[index / SMALL];
    const uint64_t *s = size ? (index ? vocabulary.shape : large.shape) : small[index % SMALL].shape;
    const uint64_t classes = size ? 0 : small[index % SMALL].classes;
    *out = (rota_op_example){.label =
                                 size ? (index ? vocabulary.label : large.label) : small[index % SMALL].label,
                             .classes = classes ? classes : s[2]};
    out->use.attributes.length = classes;
    rota_example_input(out, 0, dtype, 3, s, ROTA_FILL_UNIFORM);
    rota_example_input(out, 1, ROTA_I32, 2, s, ROTA_FILL_INDEX);
    out->use.attributes.smoothing = size ? 0.0f : small[index % SMALL].smoothing;
    out->use.attributes.integer = size ? ROTA_IGNORED_LABEL : small[index % SMALL].ignored;
    out->flops = 4.0 * (double)rota_tensor_count(&out->use.inputs[0]);
    rota_example_bytes(out, NULL, 0);
    return true;
}

static const rota_kernel *const cross_entropy_kernels[] = {
    &rota_kernel_cross_entropy, &rota_kernel_cross_entropy_mean, &rota_kernel_copy_strided, NULL};

const rota_op rota_ops_loss[] = {
    {
        .name = "cross_entropy",
        .input_count = 2,
        .output_count = 3,
        .input_names = {"logits", "labels"},
        .output_names = {"loss", "lse", "inverse"},
        .attributes = ATTRIBUTES(ATTRIBUTE(ignored, integer), ATTRIBUTE(smoothing, smoothing),
                                 ATTRIBUTE(classes, length)),
        .kernels = cross_entropy_kernels,
        .shape = shape_cross_entropy,
        .record = record_cross_entropy,
        .gradient = gradient_cross_entropy,
        .differentiable = 1,
        .saved_inputs = 3,
        .saved_outputs = 6,
        .example = example_cross_entropy,
    },
    {
        .name = "classifier",
        .input_count = 2,
        .output_count = 3,
        .input_names = {"logits", "labels"},
        .output_names = {"loss", "lse", "inverse"},
        .input_modes = {ROTA_READWRITE, ROTA_READ},
        .attributes = ATTRIBUTES(ATTRIBUTE(ignored, integer), ATTRIBUTE(smoothing, smoothing),
                                 ATTRIBUTE(classes, length)),
        .kernels = cross_entropy_kernels,
        .shape = shape_cross_entropy,
        .record = record_cross_entropy,
        .gradient = gradient_cross_entropy,
        .differentiable = 1,
        .saved_inputs = 3,
        .saved_outputs = 6,
        .example = example_cross_entropy,
    },
    {0},
};
