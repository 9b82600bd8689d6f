/* PatchTST's work as rota graphs: recording and compiling. */
#include "examples/patchtst/graph.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define INSTANCE_EPS 1e-5
#define NORM_EPS 1e-5f
#define NORM_MOMENTUM 0.1f
#define ADAM_EPS 1e-8f

/* What recording one graph needs at hand. */
typedef struct recording {
    patchtst_plan *plan;
    const patchtst_config *config;
    rota_tape *tape;
    rota_tensor *weights;   /* by index */
    uint64_t rows, patches; /* rows: channels of all windows of the batch, each for itself */
    uint32_t norms;         /* recorded so far */
} recording;

/* ---- Parts ---- */

static rota_status linear(recording *r, rota_tensor x, uint32_t parameter, rota_tensor *out_y) {
    ROTA_TRY(rota_op_matmul(r->tape, x, r->weights[parameter], false, false, out_y));
    return rota_op_add(r->tape, *out_y, r->weights[parameter + 1], out_y);
}

static rota_status drop(recording *r, rota_tensor *x) {
    if (!r->plan->train || !(r->config->dropout > 0)) return ROTA_OK;
    return rota_op_dropout(r->tape, *x, (float)r->config->dropout, ROTA_SLOT(r->plan->seed),
                           ROTA_SLOT(r->plan->step), x);
}

static rota_status add_dropped(recording *r, rota_tensor x, double p, rota_tensor *residual) {
    if (!r->plan->train || !(p > 0)) return rota_op_add(r->tape, *residual, x, residual);
    return rota_op_residual_dropout(r->tape, x, *residual, (float)p, ROTA_SLOT(r->plan->seed),
                                    ROTA_SLOT(r->plan->step), residual);
}

static rota_status norm(recording *r, uint32_t parameter, rota_tensor *x) {
    const uint64_t dim = r->config->dim;
    rota_batch_norm options =
        ROTA_BATCH_NORM(.axis = 2, .eps = NORM_EPS, .momentum = NORM_MOMENTUM, .evaluate = !r->plan->train,
                        .weight = r->weights[parameter], .bias = r->weights[parameter + 1]);
    rota_tensor *const running[] = {&options.running_mean, &options.running_variance};
    for (uint32_t i = 0; i < 2; i++)
        ROTA_TRY(rota_tensor_of(r->plan->model->statistics, (2 * r->norms + i) * dim * 4, ROTA_F32,
                                ROTA_SHAPE(dim), running[i]));
    r->norms++;
    return rota_op_batch_norm(r->tape, *x, &options, x);
}

/* ---- Forward ---- */

/* Each row's mean and deviation [rows, 1], and the row without them. */
static rota_status normalise(recording *r, rota_tensor x, rota_tensor *out_mean, rota_tensor *out_deviation,
                             rota_tensor *out_y) {
    ROTA_TRY(rota_tape_name(r->tape, "instance norm"));
    ROTA_TRY(rota_op_mean(r->tape, x, 1, true, out_mean));
    ROTA_TRY(rota_op_variance(r->tape, x, 1, 0, true, out_deviation));
    ROTA_TRY(rota_op_affine(r->tape, *out_deviation, ROTA_PLAIN(1), ROTA_PLAIN(INSTANCE_EPS), out_deviation));
    ROTA_TRY(rota_op_sqrt(r->tape, *out_deviation, out_deviation));
    ROTA_TRY(rota_op_sub(r->tape, x, *out_mean, out_y));
    return rota_op_div(r->tape, *out_y, *out_deviation, out_y);
}

/* [rows, look-back] as [rows, patches, patch]: a view whose patches overlap, of the rows with their last
 * value repeated. */
static rota_status cut_patches(recording *r, rota_tensor x, rota_tensor *out_patches) {
    const patchtst_config *c = r->config;
    rota_tensor last, padded;
    ROTA_TRY(rota_tape_name(r->tape, "patches"));
    ROTA_TRY(rota_tensor_slice(&x, 1, c->look_back - 1, 1, &last));
    ROTA_TRY(rota_tensor_broadcast(&last, ROTA_SHAPE(r->rows, c->stride), &last));
    ROTA_TRY(rota_op_concat(r->tape, (const rota_tensor[]){x, last}, 2, 1, &padded));
    *out_patches = padded;
    out_patches->rank = 3;
    out_patches->shape[1] = r->patches;
    out_patches->shape[2] = c->patch;
    out_patches->stride[1] = c->stride;
    out_patches->stride[2] = 1;
    return rota_op_copy(r->tape, *out_patches, out_patches);
}

/* [rows, patches, dim] as [rows, heads, patches, head dim]. */
static rota_status head_view(const recording *r, rota_tensor x, rota_tensor *out) {
    const patchtst_config *c = r->config;
    ROTA_TRY(rota_tensor_reshape(&x, ROTA_SHAPE(r->rows, r->patches, c->heads, c->dim / c->heads), out));
    return rota_tensor_transpose(out, 1, 2, out);
}

/* `scores` are those of the layer before, and become this one's. */
static rota_status layer(recording *r, uint64_t l, rota_tensor *scores, rota_tensor *x) {
    const patchtst_config *c = r->config;
    rota_tensor all, part[3], h;
    char name[48];
    snprintf(name, sizeof name, "layer %" PRIu64 " attention", l);
    ROTA_TRY(rota_tape_name(r->tape, name));
    ROTA_TRY(linear(r, *x, patchtst_parameter_index(l, PATCHTST_QKV), &all));
    for (uint32_t i = 0; i < 3; i++) {
        ROTA_TRY(rota_tensor_slice(&all, 2, i * c->dim, c->dim, &part[i]));
        ROTA_TRY(head_view(r, part[i], &part[i]));
    }
    ROTA_TRY(rota_op_attention_residual(r->tape, part[0], part[1], part[2], *scores, 0, &h, scores));
    ROTA_TRY(rota_tensor_transpose(&h, 1, 2, &h));
    ROTA_TRY(rota_op_reshape(r->tape, h, ROTA_SHAPE(r->rows, r->patches, c->dim), &h));
    ROTA_TRY(linear(r, h, patchtst_parameter_index(l, PATCHTST_PROJECT), &h));
    /* As published there are two dropouts, one after the other: together they keep what both keep. */
    ROTA_TRY(add_dropped(r, h, 1 - (1 - c->dropout) * (1 - c->dropout), x));
    ROTA_TRY(norm(r, patchtst_parameter_index(l, PATCHTST_NORM1), x));
    snprintf(name, sizeof name, "layer %" PRIu64 " wide", l);
    ROTA_TRY(rota_tape_name(r->tape, name));
    ROTA_TRY(linear(r, *x, patchtst_parameter_index(l, PATCHTST_WIDEN), &h));
    ROTA_TRY(rota_op_gelu_erf(r->tape, h, &h));
    ROTA_TRY(drop(r, &h));
    ROTA_TRY(linear(r, h, patchtst_parameter_index(l, PATCHTST_NARROW), &h));
    ROTA_TRY(add_dropped(r, h, c->dropout, x));
    return norm(r, patchtst_parameter_index(l, PATCHTST_NORM2), x);
}

/* From windows [rows, look-back + horizon] to the forecast [rows, horizon]. */
static rota_status forward(recording *r, rota_tensor windows, rota_tensor *out_forecast) {
    const patchtst_config *c = r->config;
    rota_tensor x, mean, deviation, scores = ROTA_TENSOR_NONE;
    ROTA_TRY(rota_tensor_slice(&windows, 1, 0, c->look_back, &x));
    ROTA_TRY(normalise(r, x, &mean, &deviation, &x));
    ROTA_TRY(cut_patches(r, x, &x));
    ROTA_TRY(rota_tape_name(r->tape, "embedding"));
    ROTA_TRY(linear(r, x, PATCHTST_EMBED, &x));
    ROTA_TRY(rota_op_add(r->tape, x, r->weights[PATCHTST_POSITIONS], &x));
    ROTA_TRY(drop(r, &x));
    for (uint64_t l = 0; l < c->layers; l++) ROTA_TRY(layer(r, l, &scores, &x));
    ROTA_TRY(rota_tape_name(r->tape, "head"));
    ROTA_TRY(rota_op_reshape(r->tape, x, ROTA_SHAPE(r->rows, r->patches * c->dim), &x));
    ROTA_TRY(linear(r, x, PATCHTST_HEAD(c->layers), &x));
    ROTA_TRY(rota_op_mul(r->tape, x, deviation, &x));
    return rota_op_add(r->tape, x, mean, out_forecast);
}

/* ---- The two graphs ---- */

static rota_status output(recording *r, uint64_t count, rota_tensor *out) {
    ROTA_TRY(rota_tape_tensor(r->tape, ROTA_BUFFER_OUTPUT, "out", ROTA_F32, ROTA_SHAPE(count), out));
    r->plan->out = out->buffer;
    r->plan->out_count = count;
    return ROTA_OK;
}

static rota_status record_optimizer(recording *r, rota_tensor grads) {
    const patchtst_model *model = r->plan->model;
    rota_tensor all[3];
    rota_buffer *const buffers[] = {model->weights, model->m, model->v};
    for (uint32_t i = 0; i < 3; i++)
        ROTA_TRY(rota_tensor_of(buffers[i], 0, ROTA_F32, ROTA_SHAPE(model->weight_count), &all[i]));
    ROTA_TRY(rota_tape_name(r->tape, "adam"));
    return rota_op_adamw(r->tape, all[0], grads, all[1], all[2],
                         &ROTA_ADAMW(.lr = ROTA_SLOT(r->plan->lr), .step = ROTA_SLOT(r->plan->step),
                                     .beta1 = (float)r->config->beta1, .beta2 = (float)r->config->beta2,
                                     .eps = ADAM_EPS));
}

static rota_status record_train(recording *r, rota_tensor forecast, rota_tensor target) {
    const patchtst_model *model = r->plan->model;
    const uint32_t count = model->parameter_count;
    rota_tensor loss, out, all;
    ROTA_TRY(rota_tape_name(r->tape, "loss"));
    ROTA_TRY(rota_op_mse(r->tape, forecast, target, &loss));
    ROTA_TRY(output(r, 1, &out));
    ROTA_TRY(rota_op_copy_into(r->tape, loss, out));
    ROTA_TRY(rota_tape_tensor(r->tape, ROTA_BUFFER_TRANSIENT, "gradients", ROTA_F32,
                              ROTA_SHAPE(model->weight_count), &all));
    rota_tensor *grads = calloc(count, sizeof *grads);
    if (!grads) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for the gradients' descriptions");
    rota_status status = rota_tape_name(r->tape, "backward");
    for (uint32_t i = 0; i < count && status == ROTA_OK; i++) {
        const patchtst_parameter *p = &model->parameters[i];
        status = rota_tensor_of(all.buffer, p->offset * 4, ROTA_F32, p->rank, p->shape, &grads[i]);
    }
    if (status == ROTA_OK) status = rota_backward(r->tape, loss, r->weights, count, grads, NULL);
    free(grads);
    return status == ROTA_OK ? record_optimizer(r, all) : status;
}

/* A window's mean squared and mean absolute error, over its channels and horizon. */
static rota_status record_errors(recording *r, rota_tensor forecast, rota_tensor target) {
    const uint64_t windows = r->config->batch;
    rota_tensor error, part, both, mine;
    ROTA_TRY(rota_tape_name(r->tape, "errors"));
    ROTA_TRY(output(r, 2 * windows, &both));
    ROTA_TRY(rota_op_sub(r->tape, forecast, target, &error));
    ROTA_TRY(
        rota_tensor_reshape(&error, ROTA_SHAPE(windows, r->config->channels * r->config->horizon), &error));
    for (uint32_t i = 0; i < 2; i++) {
        ROTA_TRY(rota_tensor_slice(&both, 0, i * windows, windows, &mine));
        ROTA_TRY((i ? rota_op_abs : rota_op_square)(r->tape, error, &part));
        ROTA_TRY(rota_op_mean_into(r->tape, part, 1, false, mine));
    }
    return ROTA_OK;
}

static rota_status record(recording *r) {
    patchtst_plan *plan = r->plan;
    const patchtst_config *c = r->config;
    const uint64_t window = c->look_back + c->horizon;
    rota_tensor windows, forecast, target;
    for (uint32_t i = 0; i < plan->model->parameter_count; i++) {
        const patchtst_parameter *p = &plan->model->parameters[i];
        ROTA_TRY(
            rota_tensor_of(plan->model->weights, p->offset * 4, ROTA_F32, p->rank, p->shape, &r->weights[i]));
    }
    if (plan->train) {
        ROTA_TRY(rota_graph_slot(plan->graph, "lr", 4, &plan->lr));
        ROTA_TRY(rota_graph_slot(plan->graph, "step", 4, &plan->step));
        if (c->dropout > 0) ROTA_TRY(rota_graph_slot(plan->graph, "seed", 4, &plan->seed));
    }
    ROTA_TRY(rota_graph_buffer(plan->graph, ROTA_BUFFER_SLOT, "windows", r->rows * window * 4, &plan->batch));
    ROTA_TRY(rota_tensor_of(plan->batch, 0, ROTA_F32, ROTA_SHAPE(r->rows, window), &windows));
    ROTA_TRY(rota_tensor_slice(&windows, 1, c->look_back, c->horizon, &target));
    ROTA_TRY(forward(r, windows, &forecast));
    return plan->train ? record_train(r, forecast, target) : record_errors(r, forecast, target);
}

/* ---- Plans ---- */

static rota_status make_turn(patchtst_plan *plan, patchtst_turn *turn) {
    const uint64_t bytes = rota_buffer_size(plan->batch);
    ROTA_TRY(rota_args_create(plan->plan, &turn->args));
    turn->out = calloc(plan->out_count, sizeof *turn->out);
    turn->windows = calloc(1, bytes);
    if (!turn->out || !turn->windows)
        return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for a batch of %" PRIu64 " windows",
                         plan->model->config.batch);
    ROTA_TRY(rota_args_set_output(turn->args, plan->out, turn->out, plan->out_count * sizeof *turn->out));
    ROTA_TRY(rota_buffer_create_in(plan->model->runtime, "windows", bytes, &turn->batch));
    ROTA_TRY(rota_buffer_prepare(turn->batch, plan->model->device));
    return rota_args_set_buffer(turn->args, plan->batch, turn->batch);
}

static rota_status make_plan(const patchtst_model *model, bool train, patchtst_plan *out) {
    const patchtst_config *c = &model->config;
    rota_device *device = model->device;
    rota_recorder *recorder = NULL;
    *out = (patchtst_plan){.model = model, .train = train};
    recording r = {.plan = out, .config = c, .rows = c->batch * c->channels, .patches = patchtst_patches(c)};
    r.weights = calloc(model->parameter_count, sizeof *r.weights);
    rota_status status = r.weights ? ROTA_OK : rota_fail(ROTA_OUT_OF_MEMORY, "no memory to record a graph");
    if (status == ROTA_OK)
        status = rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = train ? "train" : "errors"), &out->graph);
    if (status == ROTA_OK) status = rota_recorder_open(out->graph, 0, "main", &recorder);
    if (status == ROTA_OK)
        status = rota_tape_create(recorder, &ROTA_TAPE_OPTIONS(.no_gradients = !train), &r.tape);
    if (status == ROTA_OK) status = record(&r);
    rota_tape_destroy(r.tape);
    rota_recorder_close(recorder);
    free(r.weights);
    if (status == ROTA_OK && c->fuse) status = rota_graph_fuse(out->graph);
    if (status == ROTA_OK)
        status = rota_compile(model->runtime, out->graph,
                              &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &out->plan);
    for (int t = 0; t < PATCHTST_TURNS && status == ROTA_OK; t++) status = make_turn(out, &out->turns[t]);
    if (status != ROTA_OK) patchtst_plan_free(out);
    return status;
}

rota_status patchtst_plan_train(const patchtst_model *model, patchtst_plan *out) {
    return make_plan(model, true, out);
}

rota_status patchtst_plan_errors(const patchtst_model *model, patchtst_plan *out) {
    return make_plan(model, false, out);
}

/* Who asks has waited for the ticket before, unless something went wrong, and a device that hangs has had its
 * deadline. */
static bool is_over(const patchtst_turn *turn) {
    if (!turn->ticket.id) return true;
    (void)rota_wait(turn->ticket, UINT64_C(250000000));
    return rota_poll(turn->ticket) != ROTA_BUSY;
}

void patchtst_plan_free(patchtst_plan *plan) {
    for (int t = 0; t < PATCHTST_TURNS; t++) {
        patchtst_turn *turn = &plan->turns[t];
        const bool over = is_over(turn);
        rota_args_release(turn->args);
        rota_buffer_release(turn->batch);
        /* What a device that doesn't answer may still write is never freed. */
        if (over) free(turn->out);
        free(turn->windows);
    }
    rota_plan_release(plan->plan);
    rota_graph_release(plan->graph);
    *plan = (patchtst_plan){0};
}

/* ---- Replays ---- */

rota_status patchtst_send(patchtst_plan *plan, patchtst_turn *turn, rota_ticket *out_ticket) {
    return rota_buffer_write(turn->batch, plan->model->device, 0, turn->windows,
                             rota_buffer_size(plan->batch), out_ticket);
}

rota_status patchtst_submit(patchtst_plan *plan, patchtst_turn *turn, const patchtst_step *step) {
    if (step) {
        ROTA_TRY(rota_args_set_f32(turn->args, plan->lr, step->lr));
        ROTA_TRY(rota_args_set_u32(turn->args, plan->step, step->step));
        if (plan->seed.index) ROTA_TRY(rota_args_set_u32(turn->args, plan->seed, step->seed));
    }
    return rota_submit_wait(plan->plan, turn->args, 0, &turn->ticket);
}

rota_status patchtst_wait(patchtst_turn *turn) {
    return rota_wait(turn->ticket, 0);
}
