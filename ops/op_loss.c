/* Ops that end in a loss of class scores: cross_entropy; classifier, which is the same with its gradient in the place
 * of the scores; and classifier_of_ranks, the same of scores of which each rank has a part, whose uses have an op each,
 * as collectives have. */
#include "base/given.h"
#include "base/sized_copy.h"
#include "graph/record.h"
#include "ops/collective.h"
#include "ops/gradient.h"
#include "ops/kernel_objects.h"
#include "ops/op.h"
#include "ops/op_rules.h"
#include "ops/ops_tensor_parallel.h"

enum { CROSS_ENTROPY, CLASSIFIER };

typedef struct loss_of_ranks {
    rota_op op;
    rota_communicator *communicator;
    rota_rank_part part;
} loss_of_ranks;

/* NULL: of all classes. */
static const loss_of_ranks *of_ranks(const rota_op_use *use) {
    return use->op->user;
}

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
    const loss_of_ranks *op = of_ranks(use);
    return (rota_cross_entropy_params){
        .rows = (uint32_t)rota_tensor_count(&use->inputs[1]),
        .classes = (uint32_t)(classes ? classes : pitch),
        .pitch = (uint32_t)pitch,
        .ignored = use->attributes.integer,
        .smoothing = use->attributes.smoothing,
        .dtype = logits->dtype,
        .first = op ? (uint32_t)op->part.first : 0,
        .all = op ? (uint32_t)op->part.whole : 0,
    };
}

/* Of this rank's classes, in losses and lse [rows]. */
static rota_status record_rows(rota_tape *tape, const rota_op_use *use, const rota_tensor *labels,
                               const rota_tensor *losses, const rota_tensor *lse) {
    rota_tensor logits;
    const rota_cross_entropy_params params = params_of(use);
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[0], &logits));
    rota_access rows[] = {rota_tensor_access(&logits, ROTA_READ), rota_tensor_access(labels, ROTA_READ),
                          rota_tensor_write(losses), rota_tensor_write(lse)};
    return rota_tape_kernel(tape, &rota_kernel_cross_entropy, rows, 4, &params, NULL, 0);
}

/* Of all ranks' classes: what each has of a row goes round. */
static rota_status record_rows_of_ranks(rota_tape *tape, const rota_op_use *use, const rota_tensor *labels,
                                        const rota_tensor *losses, const rota_tensor *lse) {
    const loss_of_ranks *op = of_ranks(use);
    const uint32_t size = rota_communicator_size(op->communicator);
    const uint64_t rows = rota_tensor_count(labels);
    rota_tensor own, all, own_losses, own_lse;
    ROTA_TRY(rota_tape_temporary(tape, "losses of classes", ROTA_F32, ROTA_SHAPE(2, rows), &own));
    ROTA_TRY(rota_tensor_of(own.buffer, 0, ROTA_F32, ROTA_SHAPE(rows), &own_losses));
    ROTA_TRY(rota_tensor_of(own.buffer, rows * sizeof(float), ROTA_F32, ROTA_SHAPE(rows), &own_lse));
    ROTA_TRY(record_rows(tape, use, labels, &own_losses, &own_lse));
    all = own;
    if (size > 1) {
        ROTA_TRY(rota_tape_temporary(tape, "losses of all classes", ROTA_F32,
                                     ROTA_SHAPE(2 * (uint64_t)size, rows), &all));
        ROTA_TRY(rota_collective_record(tape, op->communicator, ROTA_COLLECTIVE_ALL_GATHER, &own, &all));
    }
    const rota_cross_entropy_join_params params = {
        .rows = (uint32_t)rows, .ranks = size, .ignored = use->attributes.integer};
    rota_access join[] = {rota_tensor_access(&all, ROTA_READ), rota_tensor_access(labels, ROTA_READ),
                          rota_tensor_write(losses), rota_tensor_write(lse)};
    return rota_tape_kernel(tape, &rota_kernel_cross_entropy_join, join, 4, &params, NULL, 0);
}

static rota_status record_cross_entropy(rota_tape *tape, rota_op_use *use) {
    rota_tensor labels, losses;
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[1], &labels));
    const rota_cross_entropy_params params = params_of(use);
    ROTA_TRY(rota_tape_temporary(tape, "losses", ROTA_F32, ROTA_SHAPE(params.rows), &losses));
    ROTA_TRY(
        (of_ranks(use) ? record_rows_of_ranks : record_rows)(tape, use, &labels, &losses, &use->outputs[1]));
    const rota_access read_labels = rota_tensor_access(&labels, ROTA_READ);
    rota_access mean[] = {rota_tensor_access(&losses, ROTA_READ), read_labels,
                          rota_tensor_write(&use->outputs[0]), rota_tensor_write(&use->outputs[2])};
    return rota_tape_kernel(tape, &rota_kernel_cross_entropy_mean, mean, 4, &params, NULL, 0);
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

/* ---- Of ranks ---- */

static rota_status check_part(const rota_rank_part *part) {
    if (part->count > 0 && part->whole <= INT32_MAX && part->first < part->whole &&
        part->count <= part->whole - part->first)
        return ROTA_OK;
    return rota_fail(
        ROTA_INVALID_ARGUMENT,
        "op 'classifier_of_ranks': classes from %llu on, %llu of %llu; expected one at least, within "
        "all, which are 2^31 - 1 at most",
        (unsigned long long)part->first, (unsigned long long)part->count, (unsigned long long)part->whole);
}

rota_status rota_op_classifier_of_ranks(rota_tape *tape, rota_communicator *communicator, rota_tensor logits,
                                        rota_tensor labels, rota_rank_part part,
                                        const rota_classifier *options, rota_tensor *out_loss) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(communicator);
    ROTA_GIVEN(out_loss);
    rota_classifier room = ROTA_CLASSIFIER(.ignored = ROTA_IGNORED_LABEL);
    *out_loss = ROTA_TENSOR_NONE;
    options = options ? ROTA_SIZED_IN(rota_classifier, options, &room) : &room;
    if (!options) return ROTA_INVALID_ARGUMENT;
    ROTA_TRY(check_part(&part));
    if (options->classes)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "op 'classifier_of_ranks': %llu classes, expected 0: the part says it",
                         (unsigned long long)options->classes);
    ROTA_TRY(rota_record_may_end_later(tape->recorder, tape->name ? tape->name : "classifier_of_ranks"));
    loss_of_ranks *op = rota_arena_alloc(&tape->recorder->arena, sizeof *op, 8);
    if (!op) return rota_fail(ROTA_OUT_OF_MEMORY, "op 'classifier_of_ranks': no host memory");
    *op = (loss_of_ranks){rota_ops_loss[options->in_place ? CLASSIFIER : CROSS_ENTROPY], communicator, part};
    op->op.name = "classifier_of_ranks";
    op->op.user = op;
    rota_op_use use = {
        .op = &op->op,
        .input_count = 2,
        .output_count = 3,
        .inputs = {logits, labels},
        .attributes = {.integer = options->ignored, .smoothing = options->smoothing, .length = part.count}};
    ROTA_TRY(rota_op_apply(tape, &use));
    *out_loss = use.outputs[0];
    return ROTA_OK;
}
