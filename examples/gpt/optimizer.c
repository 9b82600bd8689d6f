/* From a GPT's losses to its next weights. */
#include "examples/gpt/optimizer.h"

#include <float.h>
#include <stdlib.h>

#define ADAM_EPS 1e-8f
/* As PyTorch's GradScaler. */
#define SCALE_INTERVAL 2000
#define SCALE_GROWTH 2.0f
#define SCALE_BACKOFF 0.5f

rota_status gpt_part_tensor(const gpt_parameter *p, rota_buffer *buffer, rota_dtype dtype, rota_tensor *out) {
    return rota_tensor_of(buffer, p->first * rota_dtype_bytes(dtype), dtype, p->rank, p->shape, out);
}

rota_status gpt_table_tensor(const gpt_model *model, rota_buffer *buffer, rota_dtype dtype,
                             rota_tensor *out) {
    const gpt_parameter *p = &model->parameters[0]; /* by index: it is the first */
    return rota_tensor_of(buffer, p->first * rota_dtype_bytes(dtype), dtype,
                          ROTA_SHAPE(gpt_model_table_rows(model), p->shape[1]), out);
}

rota_status gpt_gradients_make(gpt_recording *r, gpt_gradients *out) {
    const gpt_model *model = r->plan->model;
    *out = (gpt_gradients){.each = calloc(model->parameter_count, sizeof *out->each)};
    if (!out->each) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for the gradients' descriptions");
    ROTA_TRY(rota_tape_tensor(r->tape, ROTA_BUFFER_TRANSIENT, "gradients", r->dtype,
                              ROTA_SHAPE(model->element_count), &out->all));
    /* What lies between parameters: the norm is taken of all together. */
    uint64_t written = gpt_model_table_rows(model) * model->config.dim - model->parameters[0].count;
    for (uint32_t i = 0; i < model->parameter_count; i++) {
        ROTA_TRY(gpt_part_tensor(&model->parameters[i], out->all.buffer, r->dtype, &out->each[i]));
        written += model->parameters[i].count;
    }
    if (model->element_count > written) ROTA_TRY(rota_op_fill_into(r->tape, out->all, 0));
    ROTA_TRY(gpt_table_tensor(model, out->all.buffer, r->dtype, &out->each[0]));
    if (r->plan->micro_batches == 1 || r->dtype == ROTA_F32) return ROTA_OK;
    return rota_tape_tensor(r->tape, ROTA_BUFFER_TRANSIENT, "sum of gradients", ROTA_F32,
                            ROTA_SHAPE(model->element_count), &out->sum);
}

rota_status gpt_gradients_gather(gpt_recording *r, gpt_gradients *g, uint64_t micro_batch) {
    rota_tensor wide;
    if (!g->sum.buffer) return ROTA_OK;
    ROTA_TRY(gpt_record_part(r, "sum of gradients"));
    if (micro_batch == 0) return rota_op_cast_into(r->tape, g->all, g->sum);
    ROTA_TRY(rota_op_cast(r->tape, g->all, ROTA_F32, &wide));
    return rota_op_add_into(r->tape, g->sum, wide, g->sum);
}

static rota_status scale_tensor(const gpt_recording *r, uint64_t count, rota_tensor *out) {
    return rota_tensor_of(r->plan->model->scale, 0, ROTA_F32, ROTA_SHAPE(count), out);
}

rota_status gpt_scale_loss(gpt_recording *r, rota_tensor *loss) {
    rota_tensor scale;
    if (!r->plan->model->scale) return ROTA_OK;
    ROTA_TRY(gpt_record_part(r, "loss scale"));
    ROTA_TRY(scale_tensor(r, 1, &scale));
    return rota_op_mul(r->tape, *loss, scale, loss);
}

/* The norm goes out without the scale; *out_factor, for AdamW, clips and takes the scale away. */
static rota_status record_norm(gpt_recording *r, const rota_tensor *all, rota_tensor *out_factor) {
    const double clip = r->plan->model->config.grad_clip;
    const float most = clip > 0 ? (float)clip : FLT_MAX;
    rota_tensor norm_factor, norm, scale, state;
    ROTA_TRY(gpt_record_part(r, "gradient norm"));
    ROTA_TRY(rota_op_global_norm(r->tape, all, 1, most, &norm_factor));
    ROTA_TRY(rota_tensor_slice(&norm_factor, 0, 1, 1, out_factor));
    if (!r->plan->model->scale) return gpt_record_output(r, "norm", norm_factor, &r->plan->norm);
    ROTA_TRY(scale_tensor(r, 1, &scale));
    ROTA_TRY(scale_tensor(r, 2, &state));
    ROTA_TRY(rota_tensor_slice(&norm_factor, 0, 0, 1, &norm));
    rota_tensor unscaled;
    ROTA_TRY(rota_op_div(r->tape, norm_factor, scale, &unscaled));
    ROTA_TRY(gpt_record_output(r, "norm", unscaled, &r->plan->norm));
    return rota_op_loss_scale(r->tape, norm, state,
                              &ROTA_LOSS_SCALE(.interval = SCALE_INTERVAL, .growth = SCALE_GROWTH,
                                               .backoff = SCALE_BACKOFF, .max_norm = most),
                              out_factor);
}

/* Elements [first, first + count) of the model, of which this rank updates those of its shard. */
static rota_status record_adamw(gpt_recording *r, const rota_tensor *gradients, uint64_t first,
                                uint64_t count, double decay, rota_tensor factor) {
    const gpt_model *model = r->plan->model;
    const gpt_config *c = &model->config;
    rota_tensor parts[GPT_PARTS], half = ROTA_TENSOR_NONE, g;
    const uint64_t shard_end = model->shard_first + model->shard_count, end = first + count;
    if (first < model->shard_first) first = model->shard_first;
    if (first >= (end < shard_end ? end : shard_end)) return ROTA_OK;
    count = (end < shard_end ? end : shard_end) - first;
    for (int i = 0; i < GPT_PARTS; i++)
        ROTA_TRY(rota_tensor_of(model->parts[i], (i == GPT_VALUES ? first : first - model->shard_first) * 4,
                                ROTA_F32, ROTA_SHAPE(count), &parts[i]));
    if (model->copies && c->shards < 2)
        ROTA_TRY(rota_tensor_of(model->copies, first * 2, r->dtype, ROTA_SHAPE(count), &half));
    ROTA_TRY(rota_tensor_slice(gradients, 0, first, count, &g));
    return rota_op_adamw(r->tape, parts[GPT_VALUES], g, parts[GPT_FIRST_MOMENTS], parts[GPT_SECOND_MOMENTS],
                         &ROTA_ADAMW(.lr = ROTA_SLOT(r->plan->lr), .step = ROTA_SLOT(r->plan->step),
                                     .beta1 = (float)c->beta1, .beta2 = (float)c->beta2, .eps = ADAM_EPS,
                                     .weight_decay = (float)decay, .factor = factor, .half = half));
}

/* Each rank's shard of the values comes to all. */
static rota_status share_values(gpt_recording *r) {
    const gpt_model *model = r->plan->model;
    rota_tensor own, sent, all, half;
    if (model->config.shards < 2) return ROTA_OK;
    ROTA_TRY(gpt_record_part(r, "weights of all ranks"));
    ROTA_TRY(rota_tensor_of(model->parts[GPT_VALUES], model->shard_first * 4, ROTA_F32,
                            ROTA_SHAPE(model->shard_count), &own));
    ROTA_TRY(rota_tensor_of(model->parts[GPT_VALUES], 0, ROTA_F32, ROTA_SHAPE(model->element_count), &all));
    ROTA_TRY(rota_tape_tensor(r->tape, ROTA_BUFFER_TRANSIENT, "shard", ROTA_F32,
                              ROTA_SHAPE(model->shard_count), &sent));
    ROTA_TRY(rota_op_copy_into(r->tape, own, sent));
    ROTA_TRY(rota_op_all_gather_into(r->tape, model->communicator, sent, all));
    if (!model->copies) return ROTA_OK;
    ROTA_TRY(rota_tensor_of(model->copies, 0, r->dtype, ROTA_SHAPE(model->element_count), &half));
    return rota_op_cast_into(r->tape, all, half);
}

rota_status gpt_record_optimizer(gpt_recording *r, const gpt_gradients *g) {
    const gpt_model *model = r->plan->model;
    const rota_tensor *all = g->sum.buffer ? &g->sum : &g->all;
    rota_tensor factor, value;
    /* From the last layer to the first, as they came about. Overflow in f16 is what the scale is for. */
    for (uint32_t i = r->dtype == ROTA_F16 ? 0 : model->parameter_count; i-- > 0;) {
        ROTA_TRY(gpt_part_tensor(&model->parameters[i], all->buffer, all->dtype, &value));
        ROTA_TRY(gpt_record_watch(r, model->parameters[i].name, value));
    }
    ROTA_TRY(record_norm(r, all, &factor));
    ROTA_TRY(gpt_record_part(r, "adamw"));
    /* Matrices decay; norms and biases don't. */
    ROTA_TRY(record_adamw(r, all, 0, model->decayed_count, model->config.weight_decay, factor));
    ROTA_TRY(
        record_adamw(r, all, model->decayed_count, model->element_count - model->decayed_count, 0, factor));
    ROTA_TRY(share_values(r));
    for (uint32_t i = 0; i < model->parameter_count; i++) {
        const gpt_parameter *p = &model->parameters[i];
        ROTA_TRY(gpt_part_tensor(p, model->parts[GPT_VALUES], ROTA_F32, &value));
        ROTA_TRY(gpt_record_watch(r, p->name, value));
    }
    return ROTA_OK;
}
