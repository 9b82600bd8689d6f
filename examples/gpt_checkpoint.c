/* Checkpoints of train_gpt: a safetensors file. */
#include "examples/gpt_checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "examples/gpt_safetensors.h"
#include "examples/gpt_weights.h"

static const char *const part_suffixes[GPT_PARTS] = {"", ".m", ".v"};

typedef struct named_number {
    const char *name;
    uint64_t value;
} named_number;

/* What must agree between a checkpoint and the model it is loaded into. */
#define SIZE_COUNT 7
static void list_sizes(const gpt_model *model, const gpt_text *text, named_number out[SIZE_COUNT]) {
    const gpt_config *c = &model->config;
    const named_number sizes[SIZE_COUNT] = {{"vocabulary", c->vocabulary},
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

static cJSON *make_header(const gpt_model *model, const gpt_text *text, gpt_progress progress) {
    cJSON *header = cJSON_CreateObject();
    cJSON *metadata = cJSON_AddObjectToObject(header, "__metadata__");
    cJSON_AddStringToObject(metadata, "format", "rota train_gpt 2");
    named_number sizes[SIZE_COUNT];
    list_sizes(model, text, sizes);
    for (int i = 0; i < SIZE_COUNT; i++) gpt_tensors_add_number(metadata, sizes[i].name, sizes[i].value);
    const char *names[PROGRESS_COUNT];
    uint64_t *values[PROGRESS_COUNT], offset = 0;
    list_progress(&progress, names, values);
    for (int i = 0; i < PROGRESS_COUNT; i++) gpt_tensors_add_number(metadata, names[i], *values[i]);
    for (uint32_t i = 0; i < model->parameter_count; i++)
        for (int part = 0; part < GPT_PARTS; part++) {
            const gpt_parameter *p = &model->parameters[i];
            char name[64];
            snprintf(name, sizeof name, "%s%s", p->name, part_suffixes[part]);
            gpt_tensors_add(header, name, ROTA_F32, p->rank, p->shape, &offset);
        }
    if (model->scale) gpt_tensors_add(header, GPT_LOSS_SCALE, ROTA_F32, 1, (const uint64_t[]){2}, &offset);
    return header;
}

bool gpt_checkpoint_folder(const char *dir) {
    struct stat status;
    if (mkdir(dir, 0777) != 0 && errno != EEXIST) {
        fprintf(stderr, "'%s' can't be made: %s\n", dir, strerror(errno));
        return false;
    }
    if (stat(dir, &status) == 0 && !S_ISDIR(status.st_mode))
        errno = ENOTDIR;
    else if (access(dir, W_OK | X_OK) == 0)
        return true;
    fprintf(stderr, "'%s' can't be written to: %s\n", dir, strerror(errno));
    return false;
}

bool gpt_checkpoint_save(const char *dir, const gpt_model *model, const gpt_text *text,
                         const gpt_progress *progress) {
    if (!gpt_checkpoint_folder(dir)) return false;
    bool good = false, open = false;
    file_writer file;
    char *path = gpt_tensors_path(dir, GPT_CHECKPOINT_FILE);
    cJSON *header = make_header(model, text, *progress);
    float *values = NULL;
    if (!path) goto done;
    open = file_open(&file, path);
    if (!open || !gpt_tensors_begin(&file, header)) goto done;
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
        if (rota_buffer_read(model->scale, 0, scale, sizeof scale) != ROTA_OK) {
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
    named_number sizes[SIZE_COUNT];
    list_sizes(model, text, sizes);
    for (int i = 0; i < SIZE_COUNT; i++) {
        uint64_t value;
        if (!gpt_tensors_read_number(metadata, sizes[i].name, &value)) {
            fprintf(stderr, "'%s' is no checkpoint of train_gpt: it doesn't say its %s\n", path,
                    sizes[i].name);
            return false;
        }
        if (value == sizes[i].value) continue;
        if (strcmp(sizes[i].name, "vocabulary_hash") == 0)
            fprintf(stderr,
                    "'%s' was trained with other tokens: another text's characters, or other merges\n", path);
        else
            fprintf(stderr, "'%s' has %s %" PRIu64 ", but this model has %" PRIu64 "\n", path, sizes[i].name,
                    value, sizes[i].value);
        return false;
    }
    const char *names[PROGRESS_COUNT];
    uint64_t *values[PROGRESS_COUNT];
    list_progress(out, names, values);
    for (int i = 0; i < PROGRESS_COUNT; i++)
        if (!gpt_tensors_read_number(metadata, names[i], values[i])) {
            fprintf(stderr, "'%s' is no checkpoint of train_gpt: it doesn't say its %s\n", path, names[i]);
            return false;
        }
    return true;
}

static const gpt_tensor *find_part(const gpt_tensor_file *file, const gpt_parameter *p, int part) {
    char name[64];
    snprintf(name, sizeof name, "%s%s", p->name, part_suffixes[part]);
    const gpt_tensor *tensor = gpt_tensors_find(file, name);
    return tensor && tensor->known && tensor->dtype == ROTA_F32 && tensor->count == p->count ? tensor : NULL;
}

bool gpt_checkpoint_load(const char *dir, gpt_model *model, const gpt_text *text,
                         gpt_progress *out_progress) {
    bool good = false;
    gpt_tensor_file file = {0};
    gpt_progress progress;
    uint64_t largest = 1;
    for (uint32_t i = 0; i < model->parameter_count; i++)
        if (model->parameters[i].count > largest) largest = model->parameters[i].count;
    float *values = malloc(largest * sizeof *values);
    char *path = gpt_tensors_path(dir, GPT_CHECKPOINT_FILE);
    if (!values) fprintf(stderr, "no memory for %" PRIu64 " values of a checkpoint\n", largest);
    if (!path || !values || !gpt_tensors_read(path, &file) ||
        !read_metadata(file.metadata, path, model, text, &progress))
        goto done;
    /* All is checked before anything is written. */
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < model->parameter_count; i++)
            for (int part = 0; part < GPT_PARTS; part++) {
                const gpt_parameter *p = &model->parameters[i];
                if (!model->parts[part]) continue; /* no training: no optimizer's state */
                const gpt_tensor *tensor = find_part(&file, p, part);
                if (!tensor) {
                    fprintf(stderr,
                            "'%s' is truncated or damaged: tensor '%s%s' of %" PRIu64
                            " bytes is not whole in its %" PRIu64 " bytes of data\n",
                            path, p->name, part_suffixes[part], p->count * 4, file.data_bytes);
                    goto done;
                }
                if (pass == 0) continue;
                memcpy(values, tensor->data, p->count * 4); /* aligned for floats */
                if (gpt_model_write(model, p, part, values) != ROTA_OK) {
                    fprintf(stderr, "'%s' can't be loaded: %s\n", path, rota_last_error());
                    goto done;
                }
            }
    /* A checkpoint of another dtype has none: the scale then begins anew. */
    const gpt_tensor *scale = model->scale ? gpt_tensors_find(&file, GPT_LOSS_SCALE) : NULL;
    if (scale && scale->known && scale->dtype == ROTA_F32 && scale->count == 2 &&
        rota_buffer_write(model->scale, model->device, 0, scale->data, 8, NULL) != ROTA_OK) {
        fprintf(stderr, "'%s' can't be loaded: %s\n", path, rota_last_error());
        goto done;
    }
    *out_progress = progress;
    good = true;
done:
    gpt_tensors_free(&file);
    free(values);
    free(path);
    return good;
}
