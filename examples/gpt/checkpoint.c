/* Checkpoints of train_gpt: a safetensors file. */
#include "examples/gpt/checkpoint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "bench/progress.h"
#include "examples/common/checkpoint.h"
#include "examples/gpt/weights.h"

static const char *const part_suffixes[GPT_PARTS] = {"", ".m", ".v"};

/* What must agree between a checkpoint and the model it is loaded into; then, what its tokens stand for. */
#define SIZE_COUNT 7
static void list_sizes(const gpt_model *model, const gpt_text *text, checkpoint_number out[SIZE_COUNT]) {
    const gpt_config *c = &model->config;
    const checkpoint_number sizes[SIZE_COUNT] = {{"vocabulary", c->vocabulary},
                                                 {"block", c->block},
                                                 {"layers", c->layers},
                                                 {"heads", c->heads},
                                                 {"dim", c->dim},
                                                 {"arch", (uint64_t)c->arch},
                                                 {"vocabulary_hash", gpt_vocabulary_hash(&text->vocabulary)}};
    memcpy(out, sizes, sizeof sizes);
}

/* How far training is. */
#define PROGRESS_COUNT 5
static void list_progress(gpt_progress *p, const char *names[PROGRESS_COUNT],
                          uint64_t *values[PROGRESS_COUNT]) {
    const char *const all_names[] = {"step", "generator", "seed", "best_val_loss_bits",
                                     "evaluations_since_best"};
    uint64_t *const all[] = {&p->step, &p->random.state, &p->seed, &p->best_bits, &p->since_best};
    memcpy(names, all_names, sizeof all_names);
    memcpy(values, all, sizeof all);
}

/* NULL with one sentence: no memory. */
static cJSON *make_header(const gpt_model *model, const gpt_text *text, gpt_progress progress) {
    cJSON *header = cJSON_CreateObject();
    cJSON *metadata = cJSON_AddObjectToObject(header, "__metadata__");
    cJSON_AddStringToObject(metadata, "format", "rota train_gpt 3");
    checkpoint_number sizes[SIZE_COUNT];
    list_sizes(model, text, sizes);
    checkpoint_add_numbers(metadata, sizes, SIZE_COUNT);
    const char *names[PROGRESS_COUNT];
    uint64_t *values[PROGRESS_COUNT], offset = 0;
    list_progress(&progress, names, values);
    for (int i = 0; i < PROGRESS_COUNT; i++) safetensors_add_number(metadata, names[i], *values[i]);
    for (uint32_t i = 0; i < model->parameter_count; i++)
        for (int part = 0; part < GPT_PARTS; part++) {
            const gpt_parameter *p = &model->parameters[i];
            char name[64];
            snprintf(name, sizeof name, "%s%s", p->name, part_suffixes[part]);
            safetensors_add(header, name, ROTA_F32, p->rank, p->shape, &offset);
        }
    if (model->scale) safetensors_add(header, GPT_LOSS_SCALE, ROTA_F32, 1, (const uint64_t[]){2}, &offset);
    const gpt_source none = {0}, *source = text->source ? text->source : &none;
    if (gpt_stored_add(metadata, &text->vocabulary, source->count, source->data, source->validation))
        return header;
    cJSON_Delete(header);
    return NULL;
}

bool gpt_checkpoint_save(const char *dir, const gpt_model *model, const gpt_text *text,
                         const gpt_progress *progress) {
    if (!checkpoint_folder(dir)) return false;
    bool good = false, open = false;
    file_writer file;
    char *path = safetensors_path(dir, GPT_CHECKPOINT_FILE);
    cJSON *header = make_header(model, text, *progress);
    float *values = NULL;
    if (!path || !header) goto done;
    open = file_open(&file, path);
    if (!open || !safetensors_begin(&file, header)) goto done;
    for (uint32_t i = 0; i < model->parameter_count; i++) {
        const gpt_parameter *p = &model->parameters[i];
        for (int part = 0; part < GPT_PARTS; part++) {
            float *larger = realloc(values, p->count * sizeof *values);
            if (!larger) {
                fprintf(stderr, "out of memory for '%s'\n", path);
                goto done;
            }
            values = larger;
            if (gpt_model_read(model, p, part, values) != ROTA_OK) {
                fprintf(stderr, "'%s' can't be saved: %s\n", path, rota_last_error());
                goto done;
            }
            file_put(&file, values, p->count * 4);
        }
    }
    if (model->scale) {
        float scale[2];
        if (model->kept_scale) {
            memcpy(scale, model->kept_scale, sizeof scale);
        } else if (rota_buffer_read(model->scale, 0, scale, sizeof scale) != ROTA_OK) {
            fprintf(stderr, "'%s' can't be saved: %s\n", path, rota_last_error());
            goto done;
        }
        file_put(&file, scale, sizeof scale);
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
static bool read_metadata(const cJSON *metadata, const char *path, const gpt_model *model,
                          const gpt_text *text, gpt_progress *out) {
    static const char program[] = "train_gpt";
    checkpoint_number sizes[SIZE_COUNT];
    uint64_t tokens;
    list_sizes(model, text, sizes);
    const checkpoint_number *hash = &sizes[SIZE_COUNT - 1];
    if (!checkpoint_agrees(metadata, path, program, "this model", sizes, SIZE_COUNT - 1) ||
        !checkpoint_read_number(metadata, path, program, hash->name, &tokens))
        return false;
    if (tokens != hash->value) {
        fprintf(stderr, "'%s' was trained with other tokens: another text's characters, or other merges\n",
                path);
        return false;
    }
    const char *names[PROGRESS_COUNT];
    uint64_t *values[PROGRESS_COUNT];
    list_progress(out, names, values);
    for (int i = 0; i < PROGRESS_COUNT; i++)
        if (!checkpoint_read_number(metadata, path, program, names[i], values[i])) return false;
    return true;
}

bool gpt_checkpoint_load(const char *dir, gpt_model *model, const gpt_text *text,
                         gpt_progress *out_progress) {
    bool good = false;
    safetensors_file file = {0};
    gpt_progress progress;
    progress_bar bar;
    bool loads = false;
    uint64_t largest = 1, values_done = 0;
    for (uint32_t i = 0; i < model->parameter_count; i++)
        if (model->parameters[i].count > largest) largest = model->parameters[i].count;
    float *values = malloc(largest * sizeof *values);
    char *path = safetensors_path(dir, GPT_CHECKPOINT_FILE);
    if (!values) fprintf(stderr, "no memory for %" PRIu64 " values of a checkpoint\n", largest);
    if (!path || !values || !safetensors_read(path, &file) ||
        !read_metadata(file.metadata, path, model, text, &progress))
        goto done;
    progress_begin(&bar, "loading the checkpoint", "values", model->weight_count * GPT_PARTS);
    loads = true;
    /* All is checked before anything is written. */
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < model->parameter_count; i++)
            for (int part = 0; part < GPT_PARTS; part++) {
                const gpt_parameter *p = &model->parameters[i];
                if (!model->parts[part]) continue; /* no training: no optimizer's state */
                char name[64];
                snprintf(name, sizeof name, "%s%s", p->name, part_suffixes[part]);
                const safetensors_tensor *tensor = checkpoint_tensor(&file, path, name, p->count);
                if (!tensor) goto done;
                if (pass == 0) continue;
                memcpy(values, tensor->data, p->count * 4); /* aligned for floats */
                if (gpt_model_write(model, p, part, values) != ROTA_OK) {
                    fprintf(stderr, "'%s' can't be loaded: %s\n", path, rota_last_error());
                    goto done;
                }
                progress_at(&bar, values_done += p->count);
            }
    /* A checkpoint of another dtype has none: the scale then begins anew. */
    const safetensors_tensor *scale = model->scale ? safetensors_find(&file, GPT_LOSS_SCALE) : NULL;
    if (scale && scale->known && scale->dtype == ROTA_F32 && scale->count == 2 &&
        rota_buffer_write(model->scale, model->device, 0, scale->data, 8, NULL) != ROTA_OK) {
        fprintf(stderr, "'%s' can't be loaded: %s\n", path, rota_last_error());
        goto done;
    }
    *out_progress = progress;
    good = true;
done:
    if (loads) progress_end(&bar);
    safetensors_free(&file);
    free(values);
    free(path);
    return good;
}
