/* What test_oracle.sh compares with an independent autodiff: one training step of a GPT and of a PatchTST, by
 * the very graphs that the trainers replay, from weights and data that are given. With beta1 = 0 the
 * optimizer's first moment is the gradient. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "examples/gpt/graph.h"
#include "examples/common/safetensors.h"
#include "examples/gpt/weights.h"
#include "examples/patchtst/graph.h"

#define LR 0.01f
#define GPT_NUMBERS 8
#define PATCHTST_NUMBERS 10

static int usage(void) {
    fprintf(
        stderr,
        "oracle_tool gpt DEVICE WEIGHTS OUT plain|gpt2 VOCABULARY BLOCK LAYERS HEADS DIM ROWS MICRO_BATCHES "
        "WEIGHT_DECAY_PERCENT TOKEN..."
        " | patchtst DEVICE IN OUT CHANNELS LOOK_BACK HORIZON PATCH STRIDE LAYERS HEADS DIM WIDE BATCH\n");
    return 1;
}

static uint64_t number(const char *text) {
    return strtoull(text, NULL, 10);
}

/* ---- Results: tensors of host values and of buffers, in one file ---- */

typedef struct result {
    char name[64];
    uint32_t rank;
    const uint64_t *shape;
    const float *host;   /* or */
    rota_buffer *buffer; /* from this byte on */
    uint64_t offset_bytes;
} result;

static bool write_results(const char *path, const result *results, size_t count) {
    file_writer file;
    uint64_t offset = 0;
    cJSON *header = cJSON_CreateObject();
    for (size_t i = 0; i < count; i++)
        safetensors_add(header, results[i].name, ROTA_F32, results[i].rank, results[i].shape, &offset);
    bool good = file_open(&file, path) && safetensors_begin(&file, header);
    for (size_t i = 0; good && i < count; i++) {
        const uint64_t bytes = rota_shape_bytes(ROTA_F32, results[i].rank, results[i].shape);
        float *values = malloc(bytes);
        good = values != NULL;
        if (good && results[i].host) memcpy(values, results[i].host, bytes);
        if (good && results[i].buffer)
            good = rota_buffer_read(results[i].buffer, results[i].offset_bytes, values, bytes) == ROTA_OK;
        if (good) file_put(&file, values, bytes);
        free(values);
    }
    cJSON_Delete(header);
    return good && file_commit(&file);
}

/* ---- A GPT's step ---- */

static rota_status gpt_step(gpt_model *model, const char *weights, const char *out_path, char **tokens) {
    const gpt_config *c = &model->config;
    const uint64_t rows = c->batch * c->accumulate;
    static const uint64_t one[] = {1};
    gpt_plan plan = {0};
    float loss = 0, norm = 0;
    random_state random = {1};
    ROTA_TRY(gpt_model_initialize(model, &random));
    if (!gpt_weights_load(weights, model)) return ROTA_INVALID_ARGUMENT;
    ROTA_TRY(gpt_plan_train(model, false, &plan));
    gpt_turn *turn = &plan.turns[1];
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t j = 0; j < c->block; j++) {
            turn->tokens[i * c->block + j] = atoi(tokens[i * (c->block + 1) + j]);
            turn->targets[i * c->block + j] = atoi(tokens[i * (c->block + 1) + j + 1]);
        }
    rota_status status = gpt_train_send(&plan, turn, NULL);
    if (status == ROTA_OK) status = gpt_train_submit(&plan, turn, LR, 1, 0);
    if (status == ROTA_OK) status = gpt_train_wait(&plan, turn, &loss, &norm);
    result *results = calloc(2 * (size_t)model->parameter_count + 2, sizeof *results);
    size_t count = 0;
    if (!results) status = rota_fail(ROTA_OUT_OF_MEMORY, "no memory for the results");
    if (status == ROTA_OK) {
        results[count++] = (result){"loss", 1, one, &loss, NULL, 0};
        results[count++] = (result){"norm", 1, one, &norm, NULL, 0};
        for (uint32_t i = 0; i < model->parameter_count; i++) {
            const gpt_parameter *p = &model->parameters[i];
            results[count] =
                (result){"", p->rank, p->shape, NULL, model->parts[GPT_FIRST_MOMENTS], p->first * 4};
            snprintf(results[count++].name, 64, "%s.gradient", p->name);
            results[count] = (result){"", p->rank, p->shape, NULL, model->parts[GPT_VALUES], p->first * 4};
            snprintf(results[count++].name, 64, "%s", p->name);
        }
        if (!write_results(out_path, results, count))
            status = rota_fail(ROTA_SYSTEM, "the results can't be written");
    }
    free(results);
    gpt_plan_free(&plan);
    return status;
}

static rota_status run_gpt(rota_runtime *runtime, rota_device *device, int argc, char **argv) {
    char **n = argv + 3;
    const gpt_config config = {.arch = strcmp(argv[2], "gpt2") == 0 ? GPT_2 : GPT_PLAIN,
                               .vocabulary = number(n[0]),
                               .block = number(n[1]),
                               .layers = number(n[2]),
                               .heads = number(n[3]),
                               .dim = number(n[4]),
                               .batch = number(n[5]),
                               .accumulate = number(n[6]),
                               .weight_decay = (double)number(n[7]) / 100,
                               .beta1 = 0,
                               .beta2 = 0.99};
    gpt_model model = {0};
    if ((uint64_t)argc != 3 + GPT_NUMBERS + config.batch * config.accumulate * (config.block + 1))
        return rota_fail(ROTA_INVALID_ARGUMENT, "%d arguments are too few or too many", argc);
    rota_status status = gpt_model_create(&config, runtime, device, NULL, &model);
    if (status == ROTA_OK) status = gpt_step(&model, argv[0], argv[1], n + GPT_NUMBERS);
    gpt_model_free(&model);
    return status;
}

/* ---- A PatchTST's step ---- */

/* Every parameter, the statistics and the windows, as a file has them. */
static rota_status patchtst_load(const patchtst_model *model, const char *path, float *out_windows) {
    const patchtst_config *c = &model->config;
    safetensors_file file;
    rota_status status = ROTA_OK;
    if (!safetensors_read(path, &file)) return ROTA_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < model->parameter_count && status == ROTA_OK; i++) {
        const patchtst_parameter *p = &model->parameters[i];
        const safetensors_tensor *tensor = safetensors_find(&file, p->name);
        if (!tensor || !tensor->known || tensor->count != p->count)
            status = rota_fail(ROTA_INVALID_ARGUMENT, "'%s' lacks %s of %" PRIu64 " elements", path, p->name,
                               p->count);
        else
            status = rota_buffer_write(model->weights, model->device, p->offset * 4, tensor->data,
                                       p->count * 4, NULL);
    }
    const safetensors_tensor *statistics = safetensors_find(&file, "statistics"),
                             *windows = safetensors_find(&file, "windows");
    const uint64_t values = c->batch * c->channels * (c->look_back + c->horizon);
    if (status == ROTA_OK &&
        (!statistics || !windows || statistics->count != model->statistic_count || windows->count != values))
        status = rota_fail(ROTA_INVALID_ARGUMENT,
                           "'%s' lacks %" PRIu64 " statistics and %" PRIu64 " values of windows", path,
                           model->statistic_count, values);
    if (status == ROTA_OK)
        status = rota_buffer_write(model->statistics, model->device, 0, statistics->data,
                                   statistics->count * 4, NULL);
    if (status == ROTA_OK) memcpy(out_windows, windows->data, windows->count * 4);
    safetensors_free(&file);
    return status;
}

/* The errors before the step, then the step. */
static rota_status patchtst_run(const patchtst_model *model, patchtst_plan *errors, patchtst_plan *train,
                                const char *in_path, const char *out_path) {
    const uint64_t one[] = {1}, two_batches[] = {2, model->config.batch},
                   statistics[] = {model->statistic_count};
    patchtst_turn *measured = &errors->turns[0], *trained = &train->turns[1];
    ROTA_TRY(patchtst_load(model, in_path, measured->windows));
    memcpy(trained->windows, measured->windows, rota_buffer_size(train->batch));
    ROTA_TRY(patchtst_send(errors, measured, NULL));
    ROTA_TRY(patchtst_submit(errors, measured, NULL));
    ROTA_TRY(patchtst_send(train, trained, NULL));
    ROTA_TRY(patchtst_submit(train, trained, &(patchtst_step){.lr = LR, .step = 1}));
    ROTA_TRY(patchtst_wait(measured));
    ROTA_TRY(patchtst_wait(trained));
    result *results = calloc(2 * (size_t)model->parameter_count + 3, sizeof *results);
    size_t count = 0;
    if (!results) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for the results");
    results[count++] = (result){"loss", 1, one, trained->out, NULL, 0};
    results[count++] = (result){"errors", 2, two_batches, measured->out, NULL, 0};
    results[count++] = (result){"statistics", 1, statistics, NULL, model->statistics, 0};
    for (uint32_t i = 0; i < model->parameter_count; i++) {
        const patchtst_parameter *p = &model->parameters[i];
        results[count] = (result){"", p->rank, p->shape, NULL, model->m, p->offset * 4};
        snprintf(results[count++].name, 64, "%s.gradient", p->name);
        results[count] = (result){"", p->rank, p->shape, NULL, model->weights, p->offset * 4};
        snprintf(results[count++].name, 64, "%s", p->name);
    }
    const bool good = write_results(out_path, results, count);
    free(results);
    return good ? ROTA_OK : rota_fail(ROTA_SYSTEM, "the results can't be written");
}

static rota_status run_patchtst(rota_runtime *runtime, rota_device *device, char **argv) {
    char **n = argv + 2;
    const patchtst_config config = {.channels = number(n[0]),
                                    .look_back = number(n[1]),
                                    .horizon = number(n[2]),
                                    .patch = number(n[3]),
                                    .stride = number(n[4]),
                                    .layers = number(n[5]),
                                    .heads = number(n[6]),
                                    .dim = number(n[7]),
                                    .wide = number(n[8]),
                                    .batch = number(n[9]),
                                    .beta1 = 0,
                                    .beta2 = 0.999};
    patchtst_model model = {0};
    patchtst_plan errors = {0}, train = {0};
    random_state random = {1};
    rota_status status = patchtst_model_create(&config, runtime, device, &model);
    if (status == ROTA_OK) status = patchtst_model_initialize(&model, &random);
    if (status == ROTA_OK) status = patchtst_plan_errors(&model, &errors);
    if (status == ROTA_OK) status = patchtst_plan_train(&model, &train);
    if (status == ROTA_OK) status = patchtst_run(&model, &errors, &train, argv[0], argv[1]);
    patchtst_plan_free(&errors);
    patchtst_plan_free(&train);
    patchtst_model_free(&model);
    return status;
}

int main(int argc, char **argv) {
    const bool gpt = argc >= 6 + GPT_NUMBERS && strcmp(argv[1], "gpt") == 0;
    if (!gpt && (argc != 5 + PATCHTST_NUMBERS || strcmp(argv[1], "patchtst") != 0)) return usage();
    rota_runtime *runtime = NULL;
    rota_device *device;
    rota_status status = rota_runtime_open(NULL, &runtime);
    if (status == ROTA_OK) status = rota_device_open(runtime, argv[2], &device);
    if (status == ROTA_OK)
        status = gpt ? run_gpt(runtime, device, argc - 3, argv + 3) : run_patchtst(runtime, device, argv + 3);
    if (status != ROTA_OK) fprintf(stderr, "%s\n", rota_last_error());
    if (runtime) (void)rota_runtime_close(runtime, 5000000000);
    return status == ROTA_OK ? 0 : status == ROTA_NOT_FOUND ? 3 : 1;
}
