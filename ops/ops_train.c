/* The optimizers by name, and what goes with them: each fills in a use and applies it. */
#include "base/sized_copy.h"
#include "base/given.h"
#include "ops/apply.h"
#include "ops/op.h"

/* The op `op` as the one that callers know as `name`. */
static rota_status apply(rota_tape *tape, uint32_t op, const char *name, rota_op_use *use) {
    use->op = rota_op_at(op);
    use->input_count = use->op->input_count;
    use->output_count = use->op->output_count;
    return rota_tape_apply(tape, use, name);
}

rota_status rota_op_adamw(rota_tape *tape, rota_tensor p, rota_tensor g, rota_tensor m, rota_tensor v,
                          const rota_adamw *options) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(options);
    rota_adamw room;
    if (!(options = ROTA_SIZED_IN(rota_adamw, options, &room))) return ROTA_INVALID_ARGUMENT;
    rota_op_use use = {.inputs = {p, g, m, v, options->factor, options->half},
                       .attributes = {.value = {options->lr, options->step},
                                      .beta1 = options->beta1,
                                      .beta2 = options->beta2,
                                      .eps = options->eps,
                                      .weight_decay = options->weight_decay,
                                      .flags = options->coupled ? ROTA_UPDATE_COUPLED : 0}};
    return apply(tape, ROTA_OP_adamw, "adamw", &use);
}

rota_status rota_op_sgd(rota_tape *tape, rota_tensor p, rota_tensor g, rota_tensor m,
                        const rota_sgd *options) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(options);
    rota_sgd room;
    if (!(options = ROTA_SIZED_IN(rota_sgd, options, &room))) return ROTA_INVALID_ARGUMENT;
    rota_op_use use = {.inputs = {p, g, m, options->factor, options->half},
                       .attributes = {.value = {options->lr},
                                      .beta1 = options->momentum,
                                      .weight_decay = options->weight_decay,
                                      .flags = options->nesterov ? ROTA_UPDATE_NESTEROV : 0}};
    return apply(tape, ROTA_OP_momentum, "sgd", &use);
}

rota_status rota_op_lion(rota_tape *tape, rota_tensor p, rota_tensor g, rota_tensor m,
                         const rota_lion *options) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(options);
    rota_lion room;
    if (!(options = ROTA_SIZED_IN(rota_lion, options, &room))) return ROTA_INVALID_ARGUMENT;
    rota_op_use use = {.inputs = {p, g, m, options->factor, options->half},
                       .attributes = {.value = {options->lr},
                                      .beta1 = options->beta1,
                                      .beta2 = options->beta2,
                                      .weight_decay = options->weight_decay,
                                      .flags = ROTA_UPDATE_SIGN}};
    return apply(tape, ROTA_OP_momentum, "lion", &use);
}

rota_status rota_op_ema(rota_tape *tape, rota_tensor x, rota_tensor average, float decay) {
    ROTA_GIVEN(tape);
    rota_op_use use = {.inputs = {x, average}, .attributes = {.beta1 = decay}};
    return apply(tape, ROTA_OP_ema, "ema", &use);
}

rota_status rota_op_loss_scale(rota_tape *tape, rota_tensor norm, rota_tensor state,
                               const rota_loss_scale *options, rota_tensor *out_factor) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(options);
    ROTA_GIVEN(out_factor);
    rota_loss_scale room;
    *out_factor = ROTA_TENSOR_NONE;
    if (!(options = ROTA_SIZED_IN(rota_loss_scale, options, &room))) return ROTA_INVALID_ARGUMENT;
    rota_op_use use = {.inputs = {norm, state},
                       .attributes = {.length = options->interval,
                                      .growth = options->growth,
                                      .backoff = options->backoff,
                                      .scale = options->max_norm}};
    ROTA_TRY(apply(tape, ROTA_OP_loss_scale, "loss_scale", &use));
    *out_factor = use.outputs[0];
    return ROTA_OK;
}
