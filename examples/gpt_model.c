/* A GPT as rota graphs. */
#include "examples/gpt_model.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NORM_EPS 1e-5f
#define ADAM_EPS 1e-8f
/* The largest tensor the ops count: 2^32 - 1 elements. */
#define ELEMENTS_MAX 4294967295.0

/* Parameters by number: tokens, positions, then six a layer, then the last norm. */
enum { TOKEN_TABLE, POSITION_TABLE, FIRST_LAYER };
enum { NORM1, QKV, PROJECT, NORM2, WIDEN, NARROW };

double gpt_model_bytes(const gpt_config *c) {
    double rows = (double)c->batch * (double)c->block, dim = (double)c->dim;
    double weights = ((double)c->vocabulary + (double)c->block) * dim +
                     (double)c->layers * (12 * dim * dim + 2 * dim) + dim;
    /* Per layer, kept from forward to backward: two norms, qkv, attention, projection, residuals, the wide
     * layer twice. */
    double activations = rows * dim * (double)c->layers * 16 + rows * (double)c->vocabulary * 2;
    return 4 * (4 * weights + activations);
}

static rota_status check_sizes(const gpt_config *c, const rota_device_info *info) {
    const struct {
        const char *what;
        double elements;
    } tensors[] = {{"the token table", (double)c->vocabulary * (double)c->dim},
                   {"the logits", (double)c->batch * (double)c->block * (double)c->vocabulary},
                   {"a wide layer", (double)c->batch * (double)c->block * 4 * (double)c->dim},
                   {"a layer's weight", 4 * (double)c->dim * (double)c->dim}};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        if (tensors[i].elements > ELEMENTS_MAX)
            return rota_fail(ROTA_INVALID_ARGUMENT,
                             "%s would have %.0f elements, more than the %.0f that one tensor may have",
                             tensors[i].what, tensors[i].elements, ELEMENTS_MAX);
    double bytes = gpt_model_bytes(c);
    if (info->memory_bytes && bytes > (double)info->memory_bytes)
        return rota_fail(ROTA_OUT_OF_MEMORY, "training needs about %.0f bytes, and device %s has %" PRIu64,
                         bytes, info->id, info->memory_bytes);
    return ROTA_OK;
}

static void describe_parameters(gpt_model *model) {
    const gpt_config *c = &model->config;
    gpt_parameter *p = model->parameters;
    /* As in GPT-2: what adds to the residual stream starts smaller, the more layers there are. */
    const double plain = 0.02, residual = 0.02 / sqrt(2 * (double)c->layers);
    p[TOKEN_TABLE] =
        (gpt_parameter){.name = "token", .rank = 2, .shape = {c->vocabulary, c->dim}, .deviation = plain};
    p[POSITION_TABLE] =
        (gpt_parameter){.name = "position", .rank = 2, .shape = {c->block, c->dim}, .deviation = plain};
    const struct {
        const char *name;
        uint32_t rank;
        uint64_t shape[2];
        double deviation;
    } layer[GPT_LAYER_PARAMETERS] = {{"norm1", 1, {c->dim, 1}, -1},
                                     {"qkv", 2, {c->dim, 3 * c->dim}, plain},
                                     {"project", 2, {c->dim, c->dim}, residual},
                                     {"norm2", 1, {c->dim, 1}, -1},
                                     {"widen", 2, {c->dim, 4 * c->dim}, plain},
                                     {"narrow", 2, {4 * c->dim, c->dim}, residual}};
    for (uint64_t l = 0; l < c->layers; l++)
        for (uint32_t i = 0; i < GPT_LAYER_PARAMETERS; i++) {
            gpt_parameter *q = &p[FIRST_LAYER + l * GPT_LAYER_PARAMETERS + i];
            *q = (gpt_parameter){.rank = layer[i].rank,
                                 .shape = {layer[i].shape[0], layer[i].shape[1]},
                                 .deviation = layer[i].deviation};
            snprintf(q->name, sizeof q->name, "layer%" PRIu64 ".%s", l, layer[i].name);
        }
    p[model->parameter_count - 1] =
        (gpt_parameter){.name = "norm", .rank = 1, .shape = {c->dim, 1}, .deviation = -1};
    for (uint32_t i = 0; i < model->parameter_count; i++) {
        p[i].count = p[i].shape[0] * (p[i].rank == 2 ? p[i].shape[1] : 1);
        model->weight_count += p[i].count;
    }
}

rota_status gpt_model_create(const gpt_config *config, rota_runtime *runtime, rota_device *device,
                             gpt_model *out) {
    ROTA_TRY(check_sizes(config, rota_device_get_info(device)));
    *out = (gpt_model){.config = *config, .runtime = runtime, .device = device};
    out->parameter_count = (uint32_t)(FIRST_LAYER + config->layers * GPT_LAYER_PARAMETERS + 1);
    out->parameters = calloc(out->parameter_count, sizeof *out->parameters);
    if (!out->parameters) {
        out->parameter_count = 0;
        return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for the parameters of %" PRIu64 " layers",
                         config->layers);
    }
    describe_parameters(out);
    for (uint32_t i = 0; i < out->parameter_count; i++) {
        gpt_parameter *p = &out->parameters[i];
        rota_buffer **buffers[] = {&p->value, &p->m, &p->v};
        static const char *const suffixes[] = {"", ".m", ".v"};
        for (int b = 0; b < 3; b++) {
            char name[64];
            snprintf(name, sizeof name, "%s%s", p->name, suffixes[b]);
            ROTA_TRY(rota_runtime_buffer(runtime, name, p->count * 4, buffers[b]));
        }
    }
    return ROTA_OK;
}

void gpt_model_free(gpt_model *model) {
    for (uint32_t i = 0; i < model->parameter_count; i++) {
        rota_buffer_release(model->parameters[i].value);
        rota_buffer_release(model->parameters[i].m);
        rota_buffer_release(model->parameters[i].v);
    }
    free(model->parameters);
    *model = (gpt_model){0};
}

rota_status gpt_model_initialize(gpt_model *model, gpt_random *random) {
    uint64_t largest = 0;
    for (uint32_t i = 0; i < model->parameter_count; i++)
        if (model->parameters[i].count > largest) largest = model->parameters[i].count;
    float *values = malloc(largest * sizeof *values), *zeroes = calloc(largest, sizeof *zeroes);
    rota_status status = ROTA_OK;
    if (!values || !zeroes)
        status = rota_fail(ROTA_OUT_OF_MEMORY, "no memory for %" PRIu64 " first values", largest);
    for (uint32_t i = 0; i < model->parameter_count && status == ROTA_OK; i++) {
        gpt_parameter *p = &model->parameters[i];
        for (uint64_t e = 0; e < p->count; e++)
            values[e] = p->deviation < 0 ? 1.0f : (float)(p->deviation * gpt_random_normal(random));
        status = rota_buffer_write(p->value, model->device, 0, values, p->count * 4, NULL);
        if (status == ROTA_OK) status = rota_buffer_write(p->m, model->device, 0, zeroes, p->count * 4, NULL);
        if (status == ROTA_OK) status = rota_buffer_write(p->v, model->device, 0, zeroes, p->count * 4, NULL);
    }
    free(values);
    free(zeroes);
    return status;
}

/* ---- Graphs ---- */

/* What recording one graph needs at hand. */
typedef struct recording {
    gpt_model *model;
    gpt_plan *plan;
    rota_recorder *recorder;
    rota_tape *tape;
    rota_tensor *weights; /* a tensor for each parameter */
    bool dropout;
} recording;

static rota_status parameter_tensor(const gpt_parameter *p, rota_buffer *buffer, rota_tensor *out) {
    return rota_tensor_of(buffer, 0, ROTA_F32, p->rank, p->shape, out);
}

static rota_status drop(recording *r, rota_tensor *x) {
    if (!r->dropout) return ROTA_OK;
    return rota_op_dropout(r->tape, *x, (float)r->model->config.dropout, ROTA_SLOT(r->plan->seed),
                           ROTA_SLOT(r->plan->step), x);
}

/* Part `which` (query, key, value) of qkv [rows, length, 3 dim] as [rows, heads, length, head dim]. */
static rota_status head_view(const recording *r, const rota_tensor *qkv, uint64_t which, rota_tensor *out) {
    const gpt_config *c = &r->model->config;
    ROTA_TRY(rota_tensor_slice(qkv, 2, which * c->dim, c->dim, out));
    ROTA_TRY(rota_tensor_reshape(out, ROTA_SHAPE(r->plan->rows, r->plan->length, c->heads, c->dim / c->heads),
                                 out));
    return rota_tensor_transpose(out, 1, 2, out);
}

static rota_status attention(recording *r, const rota_tensor *w, rota_tensor *x) {
    const gpt_config *c = &r->model->config;
    rota_tensor h, qkv, q, k, v, y;
    ROTA_TRY(rota_op_layernorm(r->tape, *x, w[NORM1], ROTA_TENSOR_NONE, NORM_EPS, &h));
    ROTA_TRY(rota_op_matmul(r->tape, h, w[QKV], false, false, &qkv));
    ROTA_TRY(head_view(r, &qkv, 0, &q));
    ROTA_TRY(head_view(r, &qkv, 1, &k));
    ROTA_TRY(head_view(r, &qkv, 2, &v));
    /* Written so that the heads stand side by side again. */
    rota_tensor merged, heads;
    ROTA_TRY(rota_tape_tensor(r->tape, ROTA_BUFFER_TRANSIENT, NULL, ROTA_F32,
                              ROTA_SHAPE(r->plan->rows, r->plan->length, c->dim), &merged));
    ROTA_TRY(rota_tensor_reshape(
        &merged, ROTA_SHAPE(r->plan->rows, r->plan->length, c->heads, c->dim / c->heads), &heads));
    ROTA_TRY(rota_tensor_transpose(&heads, 1, 2, &heads));
    ROTA_TRY(rota_op_attention_into(r->tape, q, k, v, true, 0, heads));
    ROTA_TRY(rota_op_matmul(r->tape, merged, w[PROJECT], false, false, &y));
    ROTA_TRY(drop(r, &y));
    return rota_op_add(r->tape, *x, y, x);
}

static rota_status wide_layer(recording *r, const rota_tensor *w, rota_tensor *x) {
    rota_tensor h;
    ROTA_TRY(rota_op_layernorm(r->tape, *x, w[NORM2], ROTA_TENSOR_NONE, NORM_EPS, &h));
    ROTA_TRY(rota_op_matmul(r->tape, h, w[WIDEN], false, false, &h));
    ROTA_TRY(rota_op_gelu(r->tape, h, &h));
    ROTA_TRY(rota_op_matmul(r->tape, h, w[NARROW], false, false, &h));
    ROTA_TRY(drop(r, &h));
    return rota_op_add(r->tape, *x, h, x);
}

/* From token numbers to logits [rows, length, vocabulary]. */
static rota_status forward(recording *r, rota_tensor tokens, rota_tensor *out_logits) {
    const gpt_config *c = &r->model->config;
    rota_tensor x, positions;
    ROTA_TRY(rota_tape_name(r->tape, "embedding"));
    ROTA_TRY(rota_op_embedding(r->tape, r->weights[TOKEN_TABLE], tokens, &x));
    ROTA_TRY(rota_tensor_slice(&r->weights[POSITION_TABLE], 0, 0, r->plan->length, &positions));
    ROTA_TRY(rota_op_add(r->tape, x, positions, &x));
    ROTA_TRY(drop(r, &x));
    for (uint64_t l = 0; l < c->layers; l++) {
        const rota_tensor *w = &r->weights[FIRST_LAYER + l * GPT_LAYER_PARAMETERS];
        char name[48];
        snprintf(name, sizeof name, "layer %" PRIu64 " attention", l);
        ROTA_TRY(rota_tape_name(r->tape, name));
        ROTA_TRY(attention(r, w, &x));
        snprintf(name, sizeof name, "layer %" PRIu64 " wide", l);
        ROTA_TRY(rota_tape_name(r->tape, name));
        ROTA_TRY(wide_layer(r, w, &x));
    }
    ROTA_TRY(rota_tape_name(r->tape, "head"));
    ROTA_TRY(rota_op_layernorm(r->tape, x, r->weights[r->model->parameter_count - 1], ROTA_TENSOR_NONE,
                               NORM_EPS, &x));
    return rota_op_matmul(r->tape, x, r->weights[TOKEN_TABLE], false, true, out_logits);
}

static rota_status input_tokens(recording *r, const char *name, rota_buffer **out_buffer, rota_tensor *out) {
    ROTA_TRY(rota_tape_tensor(r->tape, ROTA_BUFFER_INPUT, name, ROTA_I32,
                              ROTA_SHAPE(r->plan->rows, r->plan->length), out));
    *out_buffer = out->buffer;
    return ROTA_OK;
}

static rota_status output_copy(recording *r, const char *name, rota_tensor x, rota_buffer **out_buffer) {
    rota_tensor y;
    ROTA_TRY(rota_tape_tensor(r->tape, ROTA_BUFFER_OUTPUT, name, ROTA_F32, x.rank, x.shape, &y));
    *out_buffer = y.buffer;
    return rota_op_copy_into(r->tape, x, y);
}

static rota_status record_loss(recording *r, rota_tensor *out_loss) {
    rota_tensor tokens, targets, logits;
    ROTA_TRY(input_tokens(r, "tokens", &r->plan->tokens, &tokens));
    ROTA_TRY(input_tokens(r, "targets", &r->plan->targets, &targets));
    ROTA_TRY(forward(r, tokens, &logits));
    ROTA_TRY(rota_op_cross_entropy(r->tape, logits, targets, out_loss));
    return output_copy(r, "loss", *out_loss, &r->plan->loss);
}

static rota_status record_optimizer(recording *r, const rota_tensor *grads) {
    const gpt_config *c = &r->model->config;
    rota_tensor norm_factor, factor;
    ROTA_TRY(rota_tape_name(r->tape, "gradient norm"));
    ROTA_TRY(rota_op_global_norm(r->tape, grads, r->model->parameter_count,
                                 c->grad_clip > 0 ? (float)c->grad_clip : FLT_MAX, &norm_factor));
    ROTA_TRY(output_copy(r, "norm", norm_factor, &r->plan->norm));
    ROTA_TRY(rota_tensor_slice(&norm_factor, 0, 1, 1, &factor));
    ROTA_TRY(rota_tape_name(r->tape, "adamw"));
    for (uint32_t i = 0; i < r->model->parameter_count; i++) {
        const gpt_parameter *p = &r->model->parameters[i];
        rota_tensor m, v;
        ROTA_TRY(parameter_tensor(p, p->m, &m));
        ROTA_TRY(parameter_tensor(p, p->v, &v));
        ROTA_TRY(rota_op_adamw(r->tape, r->weights[i], grads[i], m, v,
                               &(rota_adamw){.lr = ROTA_SLOT(r->plan->lr),
                                             .step = ROTA_SLOT(r->plan->step),
                                             .beta1 = (float)c->beta1,
                                             .beta2 = (float)c->beta2,
                                             .eps = ADAM_EPS,
                                             .weight_decay = p->rank == 2 ? (float)c->weight_decay : 0,
                                             .factor = factor}));
    }
    return ROTA_OK;
}

static rota_status record_train(recording *r) {
    ROTA_TRY(rota_graph_slot(r->plan->graph, "lr", 4, &r->plan->lr));
    ROTA_TRY(rota_graph_slot(r->plan->graph, "step", 4, &r->plan->step));
    if (r->dropout) ROTA_TRY(rota_graph_slot(r->plan->graph, "seed", 4, &r->plan->seed));
    rota_tensor loss;
    ROTA_TRY(record_loss(r, &loss));
    rota_tensor *grads = calloc(r->model->parameter_count, sizeof *grads);
    if (!grads) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for the gradients' descriptions");
    rota_status status = rota_tape_name(r->tape, "backward");
    if (status == ROTA_OK)
        status = rota_backward(r->tape, loss, r->weights, r->model->parameter_count, grads, NULL);
    if (status == ROTA_OK) status = record_optimizer(r, grads);
    free(grads);
    return status;
}

static rota_status record_logits(recording *r) {
    rota_tensor tokens, logits;
    ROTA_TRY(input_tokens(r, "tokens", &r->plan->tokens, &tokens));
    ROTA_TRY(forward(r, tokens, &logits));
    return output_copy(r, "logits", logits, &r->plan->logits);
}

static rota_status record_loss_only(recording *r) {
    rota_tensor loss;
    return record_loss(r, &loss);
}

/* Records with `record` into a new graph and compiles it for the model's device. */
static rota_status make_plan(gpt_model *model, const char *name, uint64_t rows, uint64_t length, bool train,
                             rota_status (*record)(recording *r), gpt_plan *out) {
    *out = (gpt_plan){.rows = rows, .length = length};
    recording r = {.model = model, .plan = out, .dropout = train && model->config.dropout > 0};
    r.weights = calloc(model->parameter_count, sizeof *r.weights);
    if (!r.weights) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory to record '%s'", name);
    rota_status status = ROTA_OK;
    for (uint32_t i = 0; i < model->parameter_count && status == ROTA_OK; i++)
        status = parameter_tensor(&model->parameters[i], model->parameters[i].value, &r.weights[i]);
    if (status == ROTA_OK) status = rota_graph_create(&(rota_graph_options){.name = name}, &out->graph);
    if (status == ROTA_OK) status = rota_recorder_open(out->graph, 0, "main", &r.recorder);
    if (status == ROTA_OK)
        status = rota_tape_create(r.recorder, &(rota_tape_options){.no_gradients = !train}, &r.tape);
    if (status == ROTA_OK) status = record(&r);
    rota_tape_destroy(r.tape);
    rota_recorder_close(r.recorder);
    free(r.weights);
    if (status == ROTA_OK)
        status =
            rota_compile(model->runtime, out->graph,
                         &(rota_compile_options){.devices = &model->device, .device_count = 1}, &out->plan);
    if (status == ROTA_OK) status = rota_args_create(out->plan, &out->args);
    if (status != ROTA_OK) gpt_plan_free(out);
    return status;
}

rota_status gpt_plan_train(gpt_model *model, gpt_plan *out) {
    return make_plan(model, "train", model->config.batch, model->config.block, true, record_train, out);
}

rota_status gpt_plan_loss(gpt_model *model, uint64_t rows, uint64_t length, gpt_plan *out) {
    return make_plan(model, "loss", rows, length, false, record_loss_only, out);
}

rota_status gpt_plan_logits(gpt_model *model, gpt_plan *out) {
    return make_plan(model, "logits", 1, model->config.block, false, record_logits, out);
}

void gpt_plan_free(gpt_plan *plan) {
    rota_args_release(plan->args);
    rota_plan_release(plan->plan);
    rota_graph_release(plan->graph);
    *plan = (gpt_plan){0};
}

/* ---- Replays ---- */

static rota_status replay(gpt_plan *plan) {
    rota_ticket ticket;
    ROTA_TRY(rota_submit_wait(plan->plan, plan->args, 0, &ticket));
    return rota_wait(ticket, 0);
}

rota_status gpt_train_step(gpt_plan *plan, const int32_t *tokens, const int32_t *targets, float lr,
                           uint32_t step, uint32_t seed, float *out_loss, float *out_norm) {
    uint64_t bytes = plan->rows * plan->length * sizeof *tokens;
    ROTA_TRY(rota_args_set_input(plan->args, plan->tokens, tokens, bytes, false));
    ROTA_TRY(rota_args_set_input(plan->args, plan->targets, targets, bytes, false));
    ROTA_TRY(rota_args_set_output(plan->args, plan->loss, &plan->loss_value, sizeof plan->loss_value));
    ROTA_TRY(rota_args_set_output(plan->args, plan->norm, plan->norm_value, sizeof plan->norm_value));
    ROTA_TRY(rota_args_set_f32(plan->args, plan->lr, lr));
    ROTA_TRY(rota_args_set_u32(plan->args, plan->step, step));
    if (plan->seed.index) ROTA_TRY(rota_args_set_u32(plan->args, plan->seed, seed));
    ROTA_TRY(replay(plan));
    *out_loss = plan->loss_value;
    *out_norm = plan->norm_value[0];
    return ROTA_OK;
}

rota_status gpt_loss(gpt_plan *plan, const int32_t *tokens, const int32_t *targets, float *out_loss) {
    uint64_t bytes = plan->rows * plan->length * sizeof *tokens;
    ROTA_TRY(rota_args_set_input(plan->args, plan->tokens, tokens, bytes, false));
    ROTA_TRY(rota_args_set_input(plan->args, plan->targets, targets, bytes, false));
    ROTA_TRY(rota_args_set_output(plan->args, plan->loss, &plan->loss_value, sizeof plan->loss_value));
    ROTA_TRY(replay(plan));
    *out_loss = plan->loss_value;
    return ROTA_OK;
}

rota_status gpt_logits(gpt_plan *plan, const int32_t *tokens, float *out_logits) {
    ROTA_TRY(rota_args_set_input(plan->args, plan->tokens, tokens, plan->length * sizeof *tokens, false));
    ROTA_TRY(rota_args_set_output(plan->args, plan->logits, out_logits, rota_buffer_size(plan->logits)));
    return replay(plan);
}
