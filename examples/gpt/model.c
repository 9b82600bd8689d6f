/* A GPT's parameters. */
#include "examples/gpt/model.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "bench/launched.h"
#include "bench/progress.h"
#include "examples/common/safetensors.h"
#include "examples/gpt/cuts.h"
#include "examples/gpt/groups.h"
#include "examples/gpt/ranks.h"

/* The largest tensor the ops count: 2^32 - 1 elements. */
#define ELEMENTS_MAX 4294967295.0

double gpt_model_bytes(const gpt_config *c) {
    double rows = (double)c->batch * (double)c->block, dim = (double)c->dim;
    const double slices = c->slices ? (double)c->slices : 1;
    double weights = ((double)c->vocabulary / slices + (double)c->block) * dim +
                     (double)c->layers * (12 * dim * dim / slices + (c->arch == GPT_2 ? 13 : 2) * dim) +
                     2 * dim;
    double bytes = (double)rota_dtype_bytes((rota_dtype)c->dtype), copies = c->dtype == ROTA_F32 ? 0 : bytes;
    /* Per layer, kept from forward to backward: two norms, qkv, attention, projection, residuals, the wide
     * layer twice. Norms and residuals each rank has. */
    double activations =
        rows * dim * (double)c->layers * (4 + 12 / slices) + rows * (double)c->vocabulary / slices;
    if (!c->shards) return ((c->batch ? 12 + bytes : 4) + copies) * weights + bytes * activations;
    /* What is gathered, and its gradients: all of it, or the tables, twice, and a layer, three times. */
    const double tables = ((double)c->vocabulary + (double)c->block) * dim, layer = 12 * dim * dim;
    const double whole = c->gathers_once ? 2 * weights : 2 * tables + 3 * layer;
    return (12 + bytes + copies) * weights / (double)c->shards + bytes * (whole + activations);
}

static rota_status check_sizes(const gpt_config *c, const rota_device_info *info) {
    const double slices = c->slices ? (double)c->slices : 1;
    const struct {
        const char *what;
        double elements;
    } tensors[] = {{c->shards ? "the tables together" : "all weights together",
                    ((double)c->vocabulary / slices + (double)c->block +
                     (c->shards ? 0 : 12 * (double)c->layers * (double)c->dim / slices)) *
                        (double)c->dim},
                   {"the token table", (double)c->vocabulary * (double)c->dim / slices},
                   {"the logits", (double)c->batch * (double)c->block * (double)c->vocabulary / slices},
                   {"a wide layer", (double)c->batch * (double)c->block * 4 * (double)c->dim / slices},
                   {c->shards ? "a layer's weights together" : "a layer's weight",
                    (c->shards ? 12 : 4) * (double)c->dim * (double)c->dim / slices}};
    double bytes = gpt_model_bytes(c);
    if (info->memory_bytes && bytes > (double)info->memory_bytes)
        return rota_fail(ROTA_OUT_OF_MEMORY, "%s needs about %.0f bytes, and device %s has %" PRIu64,
                         c->batch ? "training" : "the model", bytes, info->id, info->memory_bytes);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        if (tensors[i].elements > ELEMENTS_MAX)
            return rota_fail(ROTA_INVALID_ARGUMENT,
                             "%s would have %.0f elements, more than the %.0f that one tensor may have",
                             tensors[i].what, tensors[i].elements, ELEMENTS_MAX);
    return ROTA_OK;
}

static void add_parameter(gpt_model *model, uint32_t index, const char *name, uint64_t rows, uint64_t columns,
                          double deviation) {
    const bool bias = strcmp(name + strlen(name) - 5, ".bias") == 0;
    if (bias && model->config.arch == GPT_PLAIN) return;
    gpt_parameter *p = &model->parameters[model->parameter_count++];
    *p = (gpt_parameter){.index = index,
                         .rank = rows ? 2 : 1,
                         .shape = {rows ? rows : columns, rows ? columns : 1},
                         .count = (rows ? rows : 1) * columns,
                         .deviation = deviation};
    snprintf(p->name, sizeof p->name, "transformer.%s", name);
    gpt_cut_describe(model, p);
    model->weight_count += p->count;
}

static void describe_parameters(gpt_model *model) {
    const gpt_config *c = &model->config;
    const uint64_t dim = c->dim;
    /* As in GPT-2: what adds to the residual stream starts smaller, the more layers there are. */
    const double plain = 0.02, residual = 0.02 / sqrt(2 * (double)c->layers), one = -1;
    /* Matrices are [in, out], as GPT-2's are there. */
    const struct {
        const char *name;
        uint64_t rows, columns;
        double deviation;
    } layer[GPT_LAYER_PLACES] = {[GPT_NORM1] = {"ln_1.weight", 0, dim, one},
                                 [GPT_NORM1_BIAS] = {"ln_1.bias", 0, dim, 0},
                                 [GPT_QKV] = {"attn.c_attn.weight", dim, 3 * dim, plain},
                                 [GPT_QKV_BIAS] = {"attn.c_attn.bias", 0, 3 * dim, 0},
                                 [GPT_PROJECT] = {"attn.c_proj.weight", dim, dim, residual},
                                 [GPT_PROJECT_BIAS] = {"attn.c_proj.bias", 0, dim, 0},
                                 [GPT_NORM2] = {"ln_2.weight", 0, dim, one},
                                 [GPT_NORM2_BIAS] = {"ln_2.bias", 0, dim, 0},
                                 [GPT_WIDEN] = {"mlp.c_fc.weight", dim, 4 * dim, plain},
                                 [GPT_WIDEN_BIAS] = {"mlp.c_fc.bias", 0, 4 * dim, 0},
                                 [GPT_NARROW] = {"mlp.c_proj.weight", 4 * dim, dim, residual},
                                 [GPT_NARROW_BIAS] = {"mlp.c_proj.bias", 0, dim, 0}};
    add_parameter(model, GPT_TOKENS, "wte.weight", c->vocabulary, dim, plain);
    add_parameter(model, GPT_POSITIONS, "wpe.weight", c->block, dim, plain);
    for (uint64_t l = 0; l < c->layers; l++)
        for (uint32_t i = 0; i < GPT_LAYER_PLACES; i++) {
            char name[36];
            snprintf(name, sizeof name, "h.%" PRIu64 ".%s", l, layer[i].name);
            add_parameter(model, gpt_parameter_index(l, i), name, layer[i].rows, layer[i].columns,
                          layer[i].deviation);
        }
    add_parameter(model, GPT_LAST_NORM(c->layers), "ln_f.weight", 0, dim, one);
    add_parameter(model, GPT_LAST_NORM(c->layers) + 1, "ln_f.bias", 0, dim, 0);
}

static uint64_t round_up(uint64_t count, uint64_t unit) {
    return (count + unit - 1) / unit * unit;
}

uint64_t gpt_model_table_rows(const gpt_model *model) {
    const uint64_t rows = gpt_cut_vocabulary(model).count;
    return round_up(rows, rows >= (uint64_t)16 * GPT_VOCABULARY_LINES ? GPT_VOCABULARY_LINES
                                                                      : GPT_VOCABULARY_ALIGNMENT);
}

/* Matrices in the order in which the backward pass finishes their gradients, the tables last. Norms and biases in their
 * own: the gradients of a norm's weight and bias, side by side so, are added up by one node. */
static void lay_out(gpt_model *model, uint32_t rank, bool is_cut) {
    for (uint32_t n = model->parameter_count; n-- > 0;) {
        gpt_parameter *p = &model->parameters[rank == 1 ? model->parameter_count - 1 - n : n];
        if (p->rank != rank || (p->cut != GPT_CUT_NONE) != is_cut) continue;
        const uint64_t own =
            p->index == GPT_TOKENS ? gpt_model_table_rows(model) * p->shape[1] : p->own_count;
        p->first = model->element_count;
        p->room = round_up(own, GPT_ALIGNMENT);
        model->element_count += p->room;
    }
}

/* Norms and biases are side by side with the tables: what the ranks reduce last is then one collective. */
static void lay_out_parameters(gpt_model *model) {
    lay_out(model, 2, true);
    model->shared_first = model->element_count;
    lay_out(model, 2, false);
    model->decayed_count = model->element_count;
    lay_out(model, 1, false);
    model->shared_end = model->element_count;
    lay_out(model, 1, true);
}

/* What no parameter lies at, the optimizer's state, and the copies until there are values. */
static rota_status clear(gpt_model *model, rota_buffer *buffer, uint64_t bytes) {
    const uint64_t piece = bytes < 1 << 24 ? bytes : 1 << 24;
    void *zeroes = calloc(1, piece);
    if (!zeroes) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for %" PRIu64 " zeroes", piece);
    rota_status status = ROTA_OK;
    for (uint64_t offset = 0; offset < bytes && status == ROTA_OK; offset += piece)
        status = rota_buffer_write(buffer, model->device, offset, zeroes,
                                   bytes - offset < piece ? bytes - offset : piece, NULL);
    free(zeroes);
    return status;
}

static rota_status make_buffers(gpt_model *model) {
    static const char *const names[] = {"weights", "first moments", "second moments"};
    const gpt_config *c = &model->config;
    for (int i = 0; i < (c->batch ? GPT_PARTS : 1); i++) {
        const uint64_t bytes = 4 * model->element_count;
        ROTA_TRY(rota_buffer_create_in(model->runtime, names[i], bytes, &model->parts[i]));
        ROTA_TRY(clear(model, model->parts[i], bytes));
    }
    if (c->dtype == ROTA_F32) return ROTA_OK;
    ROTA_TRY(
        rota_buffer_create_in(model->runtime, "16-bit weights", model->element_count * 2, &model->copies));
    ROTA_TRY(clear(model, model->copies, model->element_count * 2));
    if (c->dtype != ROTA_F16 || !c->batch) return ROTA_OK;
    const float first_scale[] = {65536, 0};
    ROTA_TRY(rota_buffer_create_in(model->runtime, "loss scale", sizeof first_scale, &model->scale));
    return rota_buffer_write(model->scale, model->device, 0, first_scale, sizeof first_scale, NULL);
}

rota_status gpt_model_create(const gpt_config *config, rota_runtime *runtime, rota_device *device,
                             const gpt_ranks *ranks, gpt_model *out) {
    ROTA_TRY(gpt_cuts_check(config));
    ROTA_TRY(check_sizes(config, rota_device_get_info(device)));
    *out = (gpt_model){.config = *config, .runtime = runtime, .device = device};
    if (ranks) {
        out->communicator = ranks->communicator;
        out->one_model = ranks->one_model;
        out->one_part = ranks->one_part;
    }
    out->parameters = calloc(GPT_PLACES(config->layers), sizeof *out->parameters);
    if (!out->parameters)
        return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for the parameters of %" PRIu64 " layers",
                         config->layers);
    describe_parameters(out);
    if (config->shards)
        ROTA_TRY(gpt_groups_create(out));
    else
        lay_out_parameters(out);
    return make_buffers(out);
}

void gpt_model_free(gpt_model *model) {
    for (int i = 0; i < GPT_PARTS; i++) rota_buffer_release(model->parts[i]);
    rota_buffer_release(model->copies);
    rota_buffer_release(model->scale);
    gpt_groups_free(model);
    free(model->parameters);
    *model = (gpt_model){0};
}

static rota_status write_own(gpt_model *model, const gpt_parameter *p, int part, const float *values) {
    ROTA_TRY(
        rota_buffer_write(model->parts[part], model->device, p->first * 4, values, p->own_count * 4, NULL));
    if (part != GPT_VALUES || !model->copies) return ROTA_OK;
    return gpt_model_write_copies(model, p->first, values, p->own_count);
}

rota_status gpt_model_write(gpt_model *model, const gpt_parameter *p, int part, const float *values) {
    if (model->groups) return gpt_groups_write(model, p, part, values);
    if (p->cut == GPT_CUT_NONE) return write_own(model, p, part, values);
    float *own = malloc(p->own_count * sizeof *own);
    if (!own)
        return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for %" PRIu64 " values of '%s'", p->own_count,
                         p->name);
    gpt_cut_take(p, values, own);
    const rota_status status = write_own(model, p, part, own);
    free(own);
    return status;
}

rota_status gpt_model_write_copies(gpt_model *model, uint64_t first, const float *values, uint64_t count) {
    float *rounded = malloc(count * sizeof *rounded);
    if (!rounded) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for %" PRIu64 " rounded values", count);
    memcpy(rounded, values, count * sizeof *rounded);
    const size_t bytes = safetensors_from_f32(rounded, count, (rota_dtype)model->config.dtype);
    const rota_status status =
        rota_buffer_write(model->copies, model->device, first * 2, rounded, bytes, NULL);
    free(rounded);
    return status;
}

static rota_status read_cut(const gpt_model *model, const gpt_parameter *p, int part, float *out_values) {
    float *own = malloc(p->own_count * sizeof *own);
    if (!own)
        return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for %" PRIu64 " values of '%s'", p->own_count,
                         p->name);
    rota_status status = rota_buffer_read(model->parts[part], p->first * 4, own, p->own_count * 4);
    memset(out_values, 0, p->count * sizeof *out_values);
    gpt_cut_put(p, own, out_values);
    free(own);
    const gpt_ranks ranks = {.communicator = model->one_model,
                             .size = rota_communicator_size(model->one_model)};
    return status == ROTA_OK ? gpt_ranks_sum(&ranks, model->runtime, out_values, p->count) : status;
}

rota_status gpt_model_read(const gpt_model *model, const gpt_parameter *p, int part, float *out_values) {
    if (model->kept) {
        memcpy(out_values, model->kept[part] + p->first, p->count * sizeof *out_values);
        return ROTA_OK;
    }
    if (p->cut != GPT_CUT_NONE) return read_cut(model, p, part, out_values);
    if (!model->groups) return rota_buffer_read(model->parts[part], p->first * 4, out_values, p->count * 4);
    memset(out_values, 0, p->count * sizeof *out_values);
    ROTA_TRY(gpt_groups_read(model, p, part, out_values));
    const gpt_ranks ranks = {.communicator = model->communicator, .size = (uint32_t)model->config.shards};
    return gpt_ranks_sum(&ranks, model->runtime, out_values, p->count);
}

rota_status gpt_model_follow(const gpt_model *model, int parts) {
    rota_status status = ROTA_OK;
    float *values = NULL;
    for (uint32_t i = 0; i < model->parameter_count && status == ROTA_OK; i++)
        for (int part = 0; part < parts && status == ROTA_OK; part++) {
            const gpt_parameter *p = &model->parameters[i];
            if (!model->groups && p->cut == GPT_CUT_NONE) continue; /* the other has it */
            float *larger = realloc(values, p->count * sizeof *values);
            status = larger ? ROTA_OK : rota_fail(ROTA_OUT_OF_MEMORY, "no memory for parts of '%s'", p->name);
            if (larger) values = larger;
            if (status == ROTA_OK) status = gpt_model_read(model, p, part, values);
        }
    free(values);
    return status;
}

/* ---- First values ---- */

enum { DRAWERS_MOST = 16, DRAWN_ALONE = 1 << 16 };

/* Normal values of a parameter, a range of them: each is two numbers of the generator, so every range knows its own. */
typedef struct drawing {
    float *values;
    uint64_t count;
    double deviation;
    random_state random;
    pthread_t thread;
    bool runs;
} drawing;

static void *draw(void *user) {
    drawing *own = user;
    for (uint64_t e = 0; e < own->count; e++)
        own->values[e] = (float)(own->deviation * random_normal(&own->random));
    return NULL;
}

/* The same values by however many threads. */
static void draw_all(float *values, uint64_t count, double deviation, random_state *random) {
    drawing parts[DRAWERS_MOST];
    const uint64_t processors = launched_workers(1);
    uint64_t drawers = processors > DRAWERS_MOST ? DRAWERS_MOST : processors ? processors : 1;
    if (count < DRAWN_ALONE) drawers = 1;
    for (uint64_t i = 0, first = 0; i < drawers; i++) {
        const uint64_t end = count * (i + 1) / drawers;
        parts[i] = (drawing){values + first, end - first, deviation, *random, .runs = false};
        random_skip(&parts[i].random, 2 * first);
        first = end;
        if (i + 1 < drawers) parts[i].runs = pthread_create(&parts[i].thread, NULL, draw, &parts[i]) == 0;
        if (!parts[i].runs) (void)draw(&parts[i]);
    }
    for (uint64_t i = 0; i < drawers; i++)
        if (parts[i].runs) (void)pthread_join(parts[i].thread, NULL);
    random_skip(random, 2 * count);
}

rota_status gpt_model_initialize(gpt_model *model, random_state *random) {
    uint64_t largest = 0;
    for (uint32_t i = 0; i < model->parameter_count; i++)
        if (model->parameters[i].count > largest) largest = model->parameters[i].count;
    float *values = malloc(largest * sizeof *values);
    rota_status status = ROTA_OK;
    if (!values) status = rota_fail(ROTA_OUT_OF_MEMORY, "no memory for %" PRIu64 " first values", largest);
    progress_bar bar;
    progress_begin(&bar, "first weights", "values", model->weight_count);
    uint64_t done = 0;
    for (uint32_t i = 0; i < model->parameter_count && status == ROTA_OK; i++) {
        const gpt_parameter *p = &model->parameters[i];
        if (p->deviation > 0)
            draw_all(values, p->count, p->deviation, random);
        else
            for (uint64_t e = 0; e < p->count; e++) values[e] = p->deviation < 0 ? 1.0f : 0.0f;
        status = gpt_model_write(model, p, GPT_VALUES, values);
        progress_at(&bar, done += p->count);
    }
    progress_end(&bar);
    free(values);
    return status;
}
