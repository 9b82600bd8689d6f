/* A GPT's parameters. */
#include "examples/gpt_model.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The largest tensor the ops count: 2^32 - 1 elements. */
#define ELEMENTS_MAX 4294967295.0

double gpt_model_bytes(const gpt_config *c) {
    double rows = (double)c->batch * (double)c->block, dim = (double)c->dim;
    double weights = ((double)c->vocabulary + (double)c->block) * dim +
                     (double)c->layers * (12 * dim * dim + (c->arch == GPT_2 ? 13 : 2) * dim) + 2 * dim;
    /* Per layer, kept from forward to backward: two norms, qkv, attention, projection, residuals, the wide
     * layer twice. */
    double activations = rows * dim * (double)c->layers * 16 + rows * (double)c->vocabulary * 2;
    return 4 * ((c->batch ? 4 : 1) * weights + activations);
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
        return rota_fail(ROTA_OUT_OF_MEMORY, "%s needs about %.0f bytes, and device %s has %" PRIu64,
                         c->batch ? "training" : "the model", bytes, info->id, info->memory_bytes);
    return ROTA_OK;
}

static void add_parameter(gpt_model *model, uint32_t place, const char *name, uint64_t rows, uint64_t columns,
                          double deviation) {
    const bool bias = strcmp(name + strlen(name) - 5, ".bias") == 0;
    if (bias && model->config.arch == GPT_PLAIN) return;
    gpt_parameter *p = &model->parameters[model->parameter_count++];
    *p = (gpt_parameter){.place = place,
                         .rank = rows ? 2 : 1,
                         .shape = {rows ? rows : columns, rows ? columns : 1},
                         .count = (rows ? rows : 1) * columns,
                         .deviation = deviation};
    snprintf(p->name, sizeof p->name, "transformer.%s", name);
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
            add_parameter(model, gpt_place(l, i), name, layer[i].rows, layer[i].columns, layer[i].deviation);
        }
    add_parameter(model, GPT_LAST_NORM(c->layers), "ln_f.weight", 0, dim, one);
    add_parameter(model, GPT_LAST_NORM(c->layers) + 1, "ln_f.bias", 0, dim, 0);
}

rota_status gpt_model_create(const gpt_config *config, rota_runtime *runtime, rota_device *device,
                             gpt_model *out) {
    ROTA_TRY(check_sizes(config, rota_device_get_info(device)));
    *out = (gpt_model){.config = *config, .runtime = runtime, .device = device};
    out->parameters = calloc(GPT_PLACES(config->layers), sizeof *out->parameters);
    if (!out->parameters)
        return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for the parameters of %" PRIu64 " layers",
                         config->layers);
    describe_parameters(out);
    for (uint32_t i = 0; i < out->parameter_count; i++) {
        gpt_parameter *p = &out->parameters[i];
        rota_buffer **buffers[] = {&p->value, &p->m, &p->v};
        static const char *const suffixes[] = {"", ".m", ".v"};
        for (int b = 0; b < (config->batch ? 3 : 1); b++) {
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
            values[e] = p->deviation < 0    ? 1.0f
                        : p->deviation == 0 ? 0.0f
                                            : (float)(p->deviation * gpt_random_normal(random));
        status = rota_buffer_write(p->value, model->device, 0, values, p->count * 4, NULL);
        if (status == ROTA_OK && p->m)
            status = rota_buffer_write(p->m, model->device, 0, zeroes, p->count * 4, NULL);
        if (status == ROTA_OK && p->v)
            status = rota_buffer_write(p->v, model->device, 0, zeroes, p->count * 4, NULL);
    }
    free(values);
    free(zeroes);
    return status;
}
