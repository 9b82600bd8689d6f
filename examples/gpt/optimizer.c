/* From a GPT's losses to its next weights. */
#include "examples/gpt/optimizer.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>

#include "examples/gpt/cuts.h"
#include "examples/gpt/groups.h"

#define ADAM_EPS 1e-8f
/* As PyTorch's GradScaler. */
#define SCALE_INTERVAL 2000
#define SCALE_GROWTH 2.0f
#define SCALE_BACKOFF 0.5f

rota_status gpt_part_tensor(const gpt_parameter *p, rota_buffer *buffer, rota_dtype dtype, rota_tensor *out) {
    return rota_tensor_of(buffer, p->first * rota_dtype_bytes(dtype), dtype, p->rank, p->own_shape, out);
}

rota_status gpt_table_tensor(const gpt_model *model, rota_buffer *buffer, rota_dtype dtype,
                             rota_tensor *out) {
    const gpt_parameter *p = &model->parameters[0]; /* by index: it is the first */
    return rota_tensor_of(buffer, p->first * rota_dtype_bytes(dtype), dtype,
                          ROTA_SHAPE(gpt_model_table_rows(model), p->shape[1]), out);
}

static rota_status describe_none(void) {
    return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for the parameters' descriptions");
}

/* The shards are the parameters. */
static rota_status list_shards(gpt_recording *r, gpt_gradients *g) {
    const gpt_model *model = r->plan->model;
    for (uint32_t i = 0; i < g->count; i++) {
        rota_buffer *values = r->dtype == ROTA_F32 ? model->parts[GPT_VALUES] : model->copies;
        ROTA_TRY(gpt_group_tensor(&model->groups[i], values, r->dtype, &g->params[i]));
        ROTA_TRY(gpt_group_tensor(&model->groups[i], g->all.buffer, r->dtype, &g->each[i]));
    }
    return ROTA_OK;
}

/* Gradients of a group as its shards lie, all ranks' one after the other: by parameter, and *out_all. */
static rota_status group_gradients(gpt_recording *r, const gpt_group *group, rota_dtype dtype,
                                   rota_tensor *by_parameter, rota_tensor *out_all) {
    rota_tensor members[GPT_GROUP_MOST];
    const uint64_t count = r->plan->model->config.shards * rota_sharding_elements(group->sharding);
    ROTA_TRY(rota_sharding_tensors(group->sharding, r->tape, dtype, group->count, members));
    for (uint32_t i = 0; i < group->count; i++) by_parameter[group->members[i]] = members[i];
    return rota_tensor_of(members[0].buffer, 0, dtype, ROTA_SHAPE(count), out_all);
}

static rota_status list_gathered(gpt_recording *r, gpt_gradients *g, bool adds) {
    const gpt_model *model = r->plan->model;
    g->whole = calloc(model->group_count, sizeof *g->whole);
    g->sums = adds ? calloc(model->group_count, sizeof *g->sums) : NULL;
    g->sum_each = adds ? calloc(g->count, sizeof *g->sum_each) : NULL;
    if (!g->whole || (adds && (!g->sums || !g->sum_each))) return describe_none();
    for (uint32_t i = 0; i < g->count; i++) g->params[i] = r->weights[model->parameters[i].index];
    g->params[0] = r->table;
    for (uint32_t n = 0; n < model->group_count; n++) {
        ROTA_TRY(group_gradients(r, &model->groups[n], r->dtype, g->each, &g->whole[n]));
        if (adds) ROTA_TRY(group_gradients(r, &model->groups[n], ROTA_F32, g->sum_each, &g->sums[n]));
    }
    return ROTA_OK;
}

static rota_status list_parameters(gpt_recording *r, gpt_gradients *g) {
    const gpt_model *model = r->plan->model;
    uint64_t written = gpt_model_table_rows(model) * model->config.dim - model->parameters[0].own_count;
    for (uint32_t i = 0; i < g->count; i++) {
        const gpt_parameter *p = &model->parameters[i];
        g->params[i] = r->weights[p->index];
        ROTA_TRY(gpt_part_tensor(p, g->all.buffer, r->dtype, &g->each[i]));
        written += p->own_count;
    }
    g->params[0] = r->table;
    ROTA_TRY(gpt_table_tensor(model, g->all.buffer, r->dtype, &g->each[0]));
    /* What lies between parameters: the norm is taken of all together. */
    return model->element_count > written ? rota_op_fill_into(r->tape, g->all, 0) : ROTA_OK;
}

rota_status gpt_gradients_make(gpt_recording *r, gpt_gradients *out) {
    const gpt_model *model = r->plan->model;
    const bool adds = r->plan->micro_batches > 1 && r->dtype != ROTA_F32, once = gpt_groups_add_whole(r);
    *out = (gpt_gradients){.count = model->groups && !once ? model->group_count : model->parameter_count};
    out->params = calloc(out->count, sizeof *out->params);
    out->each = calloc(out->count, sizeof *out->each);
    if (!out->params || !out->each) return describe_none();
    ROTA_TRY(rota_tape_tensor(r->tape, ROTA_BUFFER_TRANSIENT, "gradients", once && adds ? ROTA_F32 : r->dtype,
                              ROTA_SHAPE(model->element_count), &out->all));
    if (once) return list_gathered(r, out, adds);
    ROTA_TRY(model->groups ? list_shards(r, out) : list_parameters(r, out));
    if (!adds) return ROTA_OK;
    return rota_tape_tensor(r->tape, ROTA_BUFFER_TRANSIENT, "sum of gradients", ROTA_F32,
                            ROTA_SHAPE(model->element_count), &out->sum);
}

void gpt_gradients_free(gpt_gradients *g) {
    free(g->params);
    free(g->each);
    free(g->whole);
    free(g->sums);
    free(g->sum_each);
}

static rota_status add_up(gpt_recording *r, rota_tensor x, uint64_t micro_batch, rota_tensor sum) {
    rota_tensor wide;
    if (micro_batch == 0) return rota_op_cast_into(r->tape, x, sum);
    ROTA_TRY(rota_op_cast(r->tape, x, ROTA_F32, &wide));
    return rota_op_add_into(r->tape, sum, wide, sum);
}

rota_status gpt_gradients_gather(gpt_recording *r, gpt_gradients *g, uint64_t micro_batch) {
    if (!g->sum.buffer && !g->sums) return ROTA_OK;
    ROTA_TRY(gpt_record_part(r, "sum of gradients"));
    for (uint32_t i = 0; g->sums && i < r->plan->model->group_count; i++)
        ROTA_TRY(add_up(r, g->whole[i], micro_batch, g->sums[i]));
    return g->sums ? ROTA_OK : add_up(r, g->all, micro_batch, g->sum);
}

rota_status gpt_gradients_reduce(gpt_recording *r, gpt_gradients *g) {
    const gpt_model *model = r->plan->model;
    /* As the backward pass finishes them: the last layer first, the tables last. */
    for (uint32_t n = model->group_count; n-- > 0;) {
        const gpt_group *group = &model->groups[n];
        char name[GPT_GROUP_NAME];
        rota_tensor shard, members[GPT_GROUP_MOST];
        for (uint32_t i = 0; i < group->count; i++)
            members[i] = (g->sum_each ? g->sum_each : g->each)[group->members[i]];
        gpt_group_name(n, name);
        ROTA_TRY(gpt_record_part(r, name));
        ROTA_TRY(gpt_group_tensor(group, g->all.buffer, g->all.dtype, &shard));
        ROTA_TRY(rota_sharding_reduce(group->sharding, r->tape, members, group->count, false, shard));
    }
    return ROTA_OK;
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
    const gpt_model *model = r->plan->model;
    if (model->groups) {
        ROTA_TRY(rota_op_global_norm_of_ranks(r->tape, model->communicator, all, 1, most, &norm_factor));
    } else if (model->one_model) {
        rota_tensor once[2];
        const uint32_t count = gpt_cut_once(model, all, once);
        ROTA_TRY(rota_op_global_norm_of_ranks(r->tape, model->one_model, once, count, most, &norm_factor));
    } else
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

/* Elements [first, first + count) of this rank's buffers. */
static rota_status record_adamw(gpt_recording *r, const rota_tensor *gradients, uint64_t first,
                                uint64_t count, double decay, rota_tensor factor) {
    const gpt_model *model = r->plan->model;
    const gpt_config *c = &model->config;
    rota_tensor parts[GPT_PARTS], half = ROTA_TENSOR_NONE, g;
    if (!count) return ROTA_OK;
    for (int i = 0; i < GPT_PARTS; i++)
        ROTA_TRY(rota_tensor_of(model->parts[i], first * 4, ROTA_F32, ROTA_SHAPE(count), &parts[i]));
    if (model->copies) ROTA_TRY(rota_tensor_of(model->copies, first * 2, r->dtype, ROTA_SHAPE(count), &half));
    ROTA_TRY(rota_tensor_slice(gradients, 0, first, count, &g));
    return rota_op_adamw(r->tape, parts[GPT_VALUES], g, parts[GPT_FIRST_MOMENTS], parts[GPT_SECOND_MOMENTS],
                         &ROTA_ADAMW(.lr = ROTA_SLOT(r->plan->lr), .step = ROTA_SLOT(r->plan->step),
                                     .beta1 = (float)c->beta1, .beta2 = (float)c->beta2, .eps = ADAM_EPS,
                                     .weight_decay = (float)decay, .factor = factor, .half = half));
}

/* Matrices decay; norms and biases don't. */
static rota_status record_updates(gpt_recording *r, const rota_tensor *all, rota_tensor factor) {
    const gpt_model *model = r->plan->model;
    const double decay = model->config.weight_decay;
    uint64_t decayed = model->decayed_count, first = 0, end = model->plain_end;
    for (uint32_t i = 0; i < (model->groups ? model->group_count : 1); i++) {
        if (model->groups) {
            const gpt_group *group = &model->groups[i];
            first = group->first;
            decayed = first + gpt_group_decayed(model, group);
            end = first + rota_sharding_elements(group->sharding);
        }
        ROTA_TRY(record_adamw(r, all, first, decayed - first, decay, factor));
        ROTA_TRY(record_adamw(r, all, decayed, end - decayed, 0, factor));
    }
    if (model->groups) return ROTA_OK;
    return record_adamw(r, all, end, model->element_count - end, decay, factor);
}

/* --find-nan: what is laid out as the model, in this order: that of parameters, or the other one. */
static rota_status watch_all(gpt_recording *r, rota_buffer *buffer, rota_dtype dtype, bool backwards) {
    const gpt_model *model = r->plan->model;
    const uint32_t count = model->groups ? model->group_count : model->parameter_count;
    rota_tensor value;
    for (uint32_t n = 0; n < count; n++) {
        const uint32_t i = backwards ? count - 1 - n : n;
        char name[GPT_GROUP_NAME];
        if (model->groups) {
            gpt_group_name(i, name);
            ROTA_TRY(gpt_group_tensor(&model->groups[i], buffer, dtype, &value));
        } else {
            snprintf(name, sizeof name, "%s", model->parameters[i].name);
            ROTA_TRY(gpt_part_tensor(&model->parameters[i], buffer, dtype, &value));
        }
        ROTA_TRY(gpt_record_watch(r, name, value));
    }
    return ROTA_OK;
}

rota_status gpt_record_optimizer(gpt_recording *r, const gpt_gradients *g) {
    const rota_tensor *all = g->sum.buffer ? &g->sum : &g->all;
    rota_tensor factor;
    /* From the last layer to the first, as they came about. Overflow in f16 is what the scale is for. */
    if (r->dtype != ROTA_F16) ROTA_TRY(watch_all(r, all->buffer, all->dtype, true));
    ROTA_TRY(record_norm(r, all, &factor));
    ROTA_TRY(gpt_record_part(r, "adamw"));
    ROTA_TRY(record_updates(r, all, factor));
    return watch_all(r, r->plan->model->parts[GPT_VALUES], ROTA_F32, false);
}
