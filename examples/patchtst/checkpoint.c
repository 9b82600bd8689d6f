/* Checkpoints of train_patchtst: a safetensors file. */
#include "examples/patchtst/checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "examples/common/checkpoint.h"

/* ---- What is in a checkpoint ---- */

/* What must agree between a checkpoint and the model it is loaded into. */
#define SIZE_COUNT 10
static void list_sizes(const patchtst_config *c, checkpoint_number out[SIZE_COUNT]) {
    const checkpoint_number sizes[SIZE_COUNT] = {
        {"channels", c->channels}, {"look_back", c->look_back}, {"horizon", c->horizon}, {"patch", c->patch},
        {"stride", c->stride},     {"layers", c->layers},       {"heads", c->heads},     {"dim", c->dim},
        {"wide", c->wide},         {"batch", c->batch}};
    memcpy(out, sizes, sizeof sizes);
}

/* How far training is, each as 64 bits. */
#define PROGRESS_COUNT 6
static const char *const progress_names[PROGRESS_COUNT] = {
    "step", "generator", "seed", "loss_sum_bits", "best_val_error_bits", "best_epoch"};

static void progress_to_numbers(const patchtst_progress *p, uint64_t out[PROGRESS_COUNT]) {
    const uint64_t numbers[PROGRESS_COUNT] = {p->step, p->random.state, p->seed,
                                              0,       p->best_bits,    p->best_epoch};
    memcpy(out, numbers, sizeof numbers);
    memcpy(&out[3], &p->loss_sum, 8);
}

static void progress_of_numbers(const uint64_t numbers[PROGRESS_COUNT], patchtst_progress *p) {
    p->step = numbers[0];
    p->random.state = numbers[1];
    p->seed = numbers[2];
    memcpy(&p->loss_sum, &numbers[3], 8);
    p->best_bits = numbers[4];
    p->best_epoch = numbers[5];
}

/* The tensors are runs of four buffers and of the best values. Weights stand one by one, under their names.
 */
#define PART_COUNT 6
typedef struct part {
    const char *suffix; /* of the weights' names; NULL: not weights */
    const char *name;
    rota_buffer *buffer; /* NULL: host memory */
    float *host;
    uint64_t count;
} part;

static void list_parts(const patchtst_model *model, float *best, part out[PART_COUNT]) {
    const uint64_t weights = model->weight_count, statistics = model->statistic_count;
    const part parts[PART_COUNT] = {{"", NULL, model->weights, NULL, weights},
                                    {".m", NULL, model->m, NULL, weights},
                                    {".v", NULL, model->v, NULL, weights},
                                    {".best", NULL, NULL, best, weights},
                                    {NULL, "statistics", model->statistics, NULL, statistics},
                                    {NULL, "statistics.best", NULL, best + weights, statistics}};
    memcpy(out, parts, sizeof parts);
}

/* Tensor `i` of a part: its name and index. */
static uint32_t tensors_of(const patchtst_model *model, const part *p) {
    return p->suffix ? model->parameter_count : 1;
}

static patchtst_parameter tensor_of(const patchtst_model *model, const part *p, uint32_t i) {
    patchtst_parameter tensor = {.rank = 1, .shape = {p->count}, .count = p->count};
    if (p->suffix) tensor = model->parameters[i];
    snprintf(tensor.name, sizeof tensor.name, "%s%s", p->suffix ? model->parameters[i].name : p->name,
             p->suffix ? p->suffix : "");
    return tensor;
}

/* ---- Progress ---- */

rota_status patchtst_progress_create(const patchtst_model *model, uint64_t seed, patchtst_progress *out) {
    const double infinite = INFINITY;
    *out = (patchtst_progress){.random = {seed}, .seed = seed};
    memcpy(&out->best_bits, &infinite, sizeof infinite);
    out->best = calloc(model->weight_count + model->statistic_count, sizeof *out->best);
    return out->best ? ROTA_OK : rota_fail(ROTA_OUT_OF_MEMORY, "no memory for the best weights");
}

void patchtst_progress_free(patchtst_progress *progress) {
    free(progress->best);
    *progress = (patchtst_progress){0};
}

/* ---- Saving ---- */

static cJSON *make_header(const patchtst_model *model, const patchtst_progress *progress,
                          const part parts[PART_COUNT]) {
    cJSON *header = cJSON_CreateObject();
    cJSON *metadata = cJSON_AddObjectToObject(header, "__metadata__");
    checkpoint_number sizes[SIZE_COUNT];
    uint64_t numbers[PROGRESS_COUNT], offset = 0;
    cJSON_AddStringToObject(metadata, "format", "rota train_patchtst 1");
    list_sizes(&model->config, sizes);
    checkpoint_add_numbers(metadata, sizes, SIZE_COUNT);
    progress_to_numbers(progress, numbers);
    for (int i = 0; i < PROGRESS_COUNT; i++) safetensors_add_number(metadata, progress_names[i], numbers[i]);
    for (int p = 0; p < PART_COUNT; p++)
        for (uint32_t i = 0; i < tensors_of(model, &parts[p]); i++) {
            const patchtst_parameter tensor = tensor_of(model, &parts[p], i);
            safetensors_add(header, tensor.name, ROTA_F32, tensor.rank, tensor.shape, &offset);
        }
    return header;
}

bool patchtst_checkpoint_save(const char *dir, const patchtst_model *model,
                              const patchtst_progress *progress) {
    bool good = false, open = false;
    file_writer file;
    part parts[PART_COUNT];
    list_parts(model, progress->best, parts);
    char *path = safetensors_path(dir, PATCHTST_CHECKPOINT_FILE);
    cJSON *header = make_header(model, progress, parts);
    float *values = malloc((model->weight_count + model->statistic_count) * sizeof *values);
    if (!path) goto done;
    if (!values) {
        fprintf(stderr, "out of memory for '%s'\n", path);
        goto done;
    }
    open = file_open(&file, path);
    if (!open || !safetensors_begin(&file, header)) goto done;
    for (int p = 0; p < PART_COUNT; p++) {
        if (parts[p].buffer && rota_buffer_read(parts[p].buffer, 0, values, parts[p].count * 4) != ROTA_OK) {
            fprintf(stderr, "'%s' can't be saved: %s\n", path, rota_last_error());
            goto done;
        }
        file_put(&file, parts[p].buffer ? values : parts[p].host, parts[p].count * 4);
    }
    open = false;
    good = file_commit(&file);
done:
    if (open) file_abandon(&file);
    free(values);
    cJSON_Delete(header);
    free(path);
    return good;
}

/* ---- Loading ---- */

/* Checks the metadata against the model and reads the progress. */
static bool read_metadata(const cJSON *metadata, const char *path, const patchtst_model *model,
                          uint64_t out_numbers[PROGRESS_COUNT]) {
    checkpoint_number sizes[SIZE_COUNT];
    list_sizes(&model->config, sizes);
    static const char program[] = "train_patchtst";
    if (!checkpoint_agrees(metadata, path, program, "this training", sizes, SIZE_COUNT)) return false;
    for (int i = 0; i < PROGRESS_COUNT; i++)
        if (!checkpoint_read_number(metadata, path, program, progress_names[i], &out_numbers[i]))
            return false;
    return true;
}

/* All of a part, put together in `out`. */
static bool read_part(const safetensors_file *file, const char *path, const patchtst_model *model,
                      const part *p, float *out) {
    for (uint32_t i = 0; i < tensors_of(model, p); i++) {
        const patchtst_parameter wanted = tensor_of(model, p, i);
        const safetensors_tensor *tensor = checkpoint_tensor(file, path, wanted.name, wanted.count);
        if (!tensor) return false;
        safetensors_to_f32(tensor, wanted.count, out + wanted.offset);
    }
    return true;
}

bool patchtst_checkpoint_load(const char *dir, const patchtst_model *model, patchtst_progress *progress) {
    bool good = false;
    safetensors_file file = {0};
    uint64_t numbers[PROGRESS_COUNT], total = 0, offset = 0;
    part parts[PART_COUNT];
    list_parts(model, progress->best, parts);
    for (int p = 0; p < PART_COUNT; p++) total += parts[p].count;
    float *values = calloc(total, sizeof *values);
    char *path = safetensors_path(dir, PATCHTST_CHECKPOINT_FILE);
    if (!values) fprintf(stderr, "out of memory for a checkpoint\n");
    if (!path || !values || !safetensors_read(path, &file) ||
        !read_metadata(file.metadata, path, model, numbers))
        goto done;
    /* All is read before anything is written. */
    for (int p = 0; p < PART_COUNT; offset += parts[p++].count)
        if (!read_part(&file, path, model, &parts[p], values + offset)) goto done;
    offset = 0;
    for (int p = 0; p < PART_COUNT; offset += parts[p++].count) {
        if (parts[p].host) memcpy(parts[p].host, values + offset, parts[p].count * 4);
        if (parts[p].buffer && rota_buffer_write(parts[p].buffer, model->device, 0, values + offset,
                                                 parts[p].count * 4, NULL) != ROTA_OK) {
            fprintf(stderr, "'%s' can't be loaded: %s\n", path, rota_last_error());
            goto done;
        }
    }
    progress_of_numbers(numbers, progress);
    good = true;
done:
    safetensors_free(&file);
    free(values);
    free(path);
    return good;
}
