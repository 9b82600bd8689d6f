/* PatchTST's parameters. */
#include "examples/patchtst/model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define POSITION_BOUND 0.02

/* The largest tensor the ops count: 2^32 - 1 elements. */
#define ELEMENTS_MAX 4294967295.0

static rota_status check_sizes(const patchtst_config *c) {
    if (c->dim % c->heads != 0)
        return rota_fail(ROTA_INVALID_ARGUMENT, "--heads %" PRIu64 " does not divide --dim %" PRIu64,
                         c->heads, c->dim);
    const uint64_t longest = c->patch > c->stride ? c->patch : c->stride;
    if (longest > c->look_back)
        return rota_fail(ROTA_INVALID_ARGUMENT, "--%s %" PRIu64 " is longer than --look-back %" PRIu64,
                         c->patch >= c->stride ? "patch" : "stride", longest, c->look_back);
    return ROTA_OK;
}

/* The tensors that grow the fastest, and what has to fit in any case: weights, moments and gradients. */
static rota_status check_memory(const patchtst_model *model, const rota_device_info *info) {
    const patchtst_config *c = &model->config;
    const double rows = (double)c->batch * (double)c->channels, patches = (double)patchtst_patches(c),
                 weights = (double)model->weight_count;
    const struct {
        const char *what;
        double elements;
    } tensors[] = {{"a layer's scores", rows * (double)c->heads * patches * patches},
                   {"a layer's widened rows", rows * patches * (double)c->wide},
                   {"the weights", weights}};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        if (tensors[i].elements > ELEMENTS_MAX)
            return rota_fail(ROTA_INVALID_ARGUMENT,
                             "%s would have %.0f elements, more than the %.0f that one tensor may have",
                             tensors[i].what, tensors[i].elements, ELEMENTS_MAX);
    if (info->memory_bytes && 16 * weights > (double)info->memory_bytes)
        return rota_fail(ROTA_OUT_OF_MEMORY,
                         "weights, moments and gradients need %.0f bytes, and device %s has %" PRIu64,
                         16 * weights, info->id, info->memory_bytes);
    return ROTA_OK;
}

static void add_parameter(patchtst_model *model, const char *name, uint64_t rows, uint64_t columns,
                          double bound) {
    patchtst_parameter *p = &model->parameters[model->parameter_count++];
    *p = (patchtst_parameter){.rank = rows ? 2 : 1,
                              .shape = {rows ? rows : columns, rows ? columns : 1},
                              .offset = model->weight_count,
                              .count = (rows ? rows : 1) * columns,
                              .bound = bound};
    snprintf(p->name, sizeof p->name, "%s", name);
    model->weight_count += p->count;
}

/* y = x weight + bias, weight [in, out]. */
static void add_linear(patchtst_model *model, const char *name, uint64_t in, uint64_t out) {
    char full[48];
    snprintf(full, sizeof full, "%s.weight", name);
    add_parameter(model, full, in, out, 1 / sqrt((double)in));
    snprintf(full, sizeof full, "%s.bias", name);
    add_parameter(model, full, 0, out, 1 / sqrt((double)in));
}

static void add_norm(patchtst_model *model, const char *name) {
    char full[48];
    snprintf(full, sizeof full, "%s.weight", name);
    add_parameter(model, full, 0, model->config.dim, -1);
    snprintf(full, sizeof full, "%s.bias", name);
    add_parameter(model, full, 0, model->config.dim, 0);
}

static void describe_parameters(patchtst_model *model) {
    const patchtst_config *c = &model->config;
    add_linear(model, "embed", c->patch, c->dim);
    add_parameter(model, "positions", patchtst_patches(c), c->dim, POSITION_BOUND);
    for (uint64_t l = 0; l < c->layers; l++) {
        char names[6][40];
        static const char *const parts[6] = {"qkv", "project", "norm1", "widen", "narrow", "norm2"};
        for (int i = 0; i < 6; i++) snprintf(names[i], sizeof names[i], "layers.%" PRIu64 ".%s", l, parts[i]);
        add_linear(model, names[0], c->dim, 3 * c->dim);
        add_linear(model, names[1], c->dim, c->dim);
        add_norm(model, names[2]);
        add_linear(model, names[3], c->dim, c->wide);
        add_linear(model, names[4], c->wide, c->dim);
        add_norm(model, names[5]);
    }
    add_linear(model, "head", patchtst_patches(c) * c->dim, c->horizon);
}

rota_status patchtst_model_create(const patchtst_config *config, rota_runtime *runtime, rota_device *device,
                                  patchtst_model *out) {
    *out = (patchtst_model){.config = *config, .runtime = runtime, .device = device};
    ROTA_TRY(check_sizes(config));
    out->parameters = calloc(PATCHTST_PLACES(config->layers), sizeof *out->parameters);
    if (!out->parameters)
        return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for the parameters of %" PRIu64 " layers",
                         config->layers);
    describe_parameters(out);
    ROTA_TRY(check_memory(out, rota_device_get_info(device)));
    out->statistic_count = config->layers * 2 * 2 * config->dim;
    ROTA_TRY(rota_buffer_create_in(runtime, "weights", out->weight_count * 4, &out->weights));
    ROTA_TRY(rota_buffer_create_in(runtime, "weights.m", out->weight_count * 4, &out->m));
    ROTA_TRY(rota_buffer_create_in(runtime, "weights.v", out->weight_count * 4, &out->v));
    return rota_buffer_create_in(runtime, "statistics", out->statistic_count * 4, &out->statistics);
}

void patchtst_model_free(patchtst_model *model) {
    rota_buffer_release(model->weights);
    rota_buffer_release(model->m);
    rota_buffer_release(model->v);
    rota_buffer_release(model->statistics);
    free(model->parameters);
    *model = (patchtst_model){0};
}

rota_status patchtst_model_initialize(patchtst_model *model, random_state *random) {
    const uint64_t bytes = model->weight_count * 4, statistics = model->statistic_count,
                   dim = model->config.dim;
    float *values = calloc(model->weight_count + statistics, sizeof *values);
    if (!values)
        return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for %" PRIu64 " first values", model->weight_count);
    float *rest = values + model->weight_count;
    rota_status status = rota_buffer_write(model->m, model->device, 0, values, bytes, NULL);
    if (status == ROTA_OK) status = rota_buffer_write(model->v, model->device, 0, values, bytes, NULL);
    for (uint32_t i = 0; i < model->parameter_count; i++) {
        const patchtst_parameter *p = &model->parameters[i];
        for (uint64_t e = 0; e < p->count; e++)
            values[p->offset + e] =
                p->bound < 0 ? 1.0f : (float)(p->bound > 0 ? p->bound * (2 * random_uniform(random) - 1) : 0);
    }
    for (uint64_t e = 0; e < statistics; e++) rest[e] = e / dim % 2 ? 1.0f : 0.0f;
    if (status == ROTA_OK) status = rota_buffer_write(model->weights, model->device, 0, values, bytes, NULL);
    if (status == ROTA_OK)
        status = rota_buffer_write(model->statistics, model->device, 0, rest, statistics * 4, NULL);
    free(values);
    return status;
}
