/* Checkpoints of train_gpt: a safetensors file, or one of each rank. */
#include "examples/gpt/checkpoint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench/progress.h"
#include "examples/common/checkpoint.h"
#include "examples/gpt/checkpoint_files.h"
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

/* ---- Writing ---- */

/* Which of a checkpoint's files this is. */
typedef struct shard {
    uint32_t rank, size;
} shard;

/* Whole tensors, each in one file: the files have about as much each. `before`: elements of those before it. */
static uint32_t owner_of(const gpt_model *model, uint32_t size, uint64_t before, uint64_t count) {
    return (uint32_t)((before + count / 2) * size / (model->weight_count * GPT_PARTS));
}

static void name_tensor(char out[64], const gpt_parameter *p, int part) {
    snprintf(out, 64, "%s%s", p->name, part_suffixes[part]);
}

/* NULL with one sentence: no memory. */
static cJSON *make_header(const gpt_model *model, const gpt_text *text, gpt_progress progress, shard own) {
    cJSON *header = cJSON_CreateObject();
    cJSON *metadata = cJSON_AddObjectToObject(header, "__metadata__");
    cJSON_AddStringToObject(metadata, "format", "rota train_gpt 3");
    checkpoint_number sizes[SIZE_COUNT];
    list_sizes(model, text, sizes);
    checkpoint_add_numbers(metadata, sizes, SIZE_COUNT);
    const char *names[PROGRESS_COUNT];
    uint64_t *values[PROGRESS_COUNT], offset = 0, before = 0;
    list_progress(&progress, names, values);
    for (int i = 0; i < PROGRESS_COUNT; i++) safetensors_add_number(metadata, names[i], *values[i]);
    for (uint32_t i = 0; i < model->parameter_count; i++)
        for (int part = 0; part < GPT_PARTS; part++) {
            const gpt_parameter *p = &model->parameters[i];
            char name[64];
            name_tensor(name, p, part);
            if (owner_of(model, own.size, before, p->count) == own.rank)
                safetensors_add(header, name, ROTA_F32, p->rank, p->shape, &offset);
            before += p->count;
        }
    if (model->scale && own.rank + 1 == own.size)
        safetensors_add(header, GPT_LOSS_SCALE, ROTA_F32, 1, (const uint64_t[]){2}, &offset);
    const gpt_source none = {0}, *source = text->source ? text->source : &none;
    if (gpt_stored_add(metadata, &text->vocabulary, source->count, source->data, source->validation))
        return header;
    cJSON_Delete(header);
    return NULL;
}

static rota_status read_scale(const gpt_model *model, float scale[2]) {
    if (!model->kept_scale) return rota_buffer_read(model->scale, 0, scale, 2 * sizeof *scale);
    memcpy(scale, model->kept_scale, 2 * sizeof *scale);
    return ROTA_OK;
}

/* Tensors of this shard to the file, where there is one; of the others what other ranks need of this one. */
static rota_status put_tensors(const gpt_model *model, shard own, file_writer *file) {
    float *values = NULL, scale[2];
    uint64_t before = 0;
    rota_status status = ROTA_OK;
    for (uint32_t i = 0; i < model->parameter_count && status == ROTA_OK; i++) {
        const gpt_parameter *p = &model->parameters[i];
        const bool is_of_all = !model->kept && (model->groups || p->cut != GPT_CUT_NONE);
        float *larger = realloc(values, p->count * sizeof *values);
        if (larger) values = larger;
        if (!larger) status = rota_fail(ROTA_OUT_OF_MEMORY, "no memory for the values of '%s'", p->name);
        for (int part = 0; part < GPT_PARTS && status == ROTA_OK; part++, before += p->count) {
            const bool is_own = owner_of(model, own.size, before, p->count) == own.rank;
            if (!is_own && !is_of_all) continue;
            status = gpt_model_read(model, p, part, values);
            if (status == ROTA_OK && is_own && file) file_put(file, values, p->count * 4);
        }
    }
    if (status == ROTA_OK && model->scale && own.rank + 1 == own.size) {
        status = read_scale(model, scale);
        if (status == ROTA_OK && file) file_put(file, scale, sizeof scale);
    }
    free(values);
    return status;
}

bool gpt_checkpoint_save(const char *dir, const gpt_model *model, const gpt_text *text,
                         const gpt_progress *progress, uint64_t spared) {
    const shard all = {0, 1};
    if (!checkpoint_folder(dir)) return false;
    bool good = false, open = false;
    file_writer file;
    char *path = safetensors_path(dir, GPT_CHECKPOINT_FILE);
    cJSON *header = make_header(model, text, *progress, all);
    if (!path || !header) goto done;
    open = file_open(&file, path);
    if (!open || !safetensors_begin(&file, header)) goto done;
    if (put_tensors(model, all, &file) != ROTA_OK) {
        fprintf(stderr, "'%s' can't be saved: %s\n", path, rota_last_error());
        goto done;
    }
    open = false;
    good = file_commit(&file);
    if (good) gpt_checkpoint_files_sweep(dir, spared);
done:
    if (open) file_abandon(&file);
    cJSON_Delete(header);
    free(path);
    return good;
}

/* This rank's file. *out_written: it is there. */
static rota_status write_shard(const char *path, const gpt_model *model, const gpt_text *text,
                               const gpt_progress *progress, shard own, bool *out_written) {
    file_writer file;
    cJSON *header = make_header(model, text, *progress, own);
    const bool opened = header && file_open(&file, path);
    const bool begun = opened && safetensors_begin(&file, header);
    cJSON_Delete(header);
    /* Also where this rank can't write: the others need its part of theirs. */
    const rota_status status = put_tensors(model, own, begun ? &file : NULL);
    if (opened && begun && status == ROTA_OK)
        *out_written = file_commit(&file);
    else if (opened)
        file_abandon(&file);
    return status;
}

/* Which tensor is in which file. */
static cJSON *make_map(const gpt_model *model, uint64_t number, uint32_t size, uint64_t *out_bytes) {
    cJSON *map = cJSON_CreateObject();
    uint64_t before = 0;
    char name[64], file[GPT_CHECKPOINT_NAME];
    for (uint32_t i = 0; i < model->parameter_count; i++)
        for (int part = 0; part < GPT_PARTS; part++) {
            const gpt_parameter *p = &model->parameters[i];
            name_tensor(name, p, part);
            gpt_checkpoint_files_name(file, number, owner_of(model, size, before, p->count), size);
            cJSON_AddStringToObject(map, name, file);
            before += p->count;
        }
    gpt_checkpoint_files_name(file, number, size - 1, size);
    if (model->scale) cJSON_AddStringToObject(map, GPT_LOSS_SCALE, file);
    *out_bytes = 4 * before + (model->scale ? 8 : 0);
    return map;
}

/* How many ranks could not do something; all of them call it. */
static rota_status count_failures(const gpt_ranks *ranks, rota_runtime *runtime, bool failed,
                                  float *out_count) {
    *out_count = failed ? 1 : 0;
    return gpt_ranks_sum(ranks, runtime, out_count, 1);
}

rota_status gpt_checkpoint_save_shards(const char *dir, const gpt_model *model, const gpt_text *text,
                                       const gpt_progress *progress, const gpt_ranks *ranks,
                                       uint64_t *out_number, bool *out_saved) {
    const shard own = {ranks->rank, ranks->size};
    char name[GPT_CHECKPOINT_NAME];
    bool written = false;
    float failures;
    *out_saved = false;
    const bool has_folder = checkpoint_folder(dir);
    const uint64_t number = *out_number = gpt_checkpoint_files_number(dir);
    /* As all see it: else they would write files of different checkpoints. */
    ROTA_TRY(gpt_ranks_agree(ranks, model->runtime, "the checkpoint's folder", number));
    gpt_checkpoint_files_name(name, number, own.rank, own.size);
    char *path = has_folder ? safetensors_path(dir, name) : NULL;
    rota_status status =
        path ? write_shard(path, model, text, progress, own, &written) : put_tensors(model, own, NULL);
    if (status == ROTA_OK) status = count_failures(ranks, model->runtime, !written, &failures);
    /* Not where a rank was lost: the first may have heard before that all is there. */
    if (status == ROTA_OK && failures != 0 && written) (void)unlink(path);
    free(path);
    ROTA_TRY(status);
    /* All files are there: with the index they are the checkpoint. */
    if (failures == 0 && own.rank == 0) {
        uint64_t bytes;
        cJSON *map = make_map(model, number, own.size, &bytes);
        written = gpt_checkpoint_files_commit(dir, number, own.size, bytes, map);
    }
    if (failures == 0) ROTA_TRY(count_failures(ranks, model->runtime, !written, &failures));
    *out_saved = failures == 0;
    return ROTA_OK;
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

/* The files of a checkpoint, read. */
typedef struct source {
    gpt_checkpoint_files paths;
    safetensors_file *files;
} source;

static void free_source(source *from) {
    for (uint32_t i = 0; from->files && i < from->paths.count; i++) safetensors_free(&from->files[i]);
    free(from->files);
    gpt_checkpoint_files_free(&from->paths);
}

/* Files that ranks wrote are of one step. */
static bool read_source(const char *dir, const gpt_model *model, const gpt_text *text, source *out,
                        gpt_progress *out_progress) {
    *out = (source){.files = NULL};
    if (!gpt_checkpoint_files_find(dir, &out->paths)) return false;
    out->files = calloc(out->paths.count, sizeof *out->files);
    if (!out->files) fprintf(stderr, "no memory for %" PRIu32 " files of a checkpoint\n", out->paths.count);
    bool good = out->files != NULL;
    for (uint32_t i = 0; i < out->paths.count && good; i++) {
        gpt_progress progress;
        const char *path = out->paths.paths[i];
        good = safetensors_read(path, &out->files[i]) &&
               read_metadata(out->files[i].metadata, path, model, text, &progress);
        if (good && i == 0) *out_progress = progress;
        if (good && progress.step != out_progress->step) {
            fprintf(stderr, "'%s' is of step %" PRIu64 ", but '%s' of step %" PRIu64 "\n", path,
                    progress.step, out->paths.paths[0], out_progress->step);
            good = false;
        }
    }
    return good;
}

static const safetensors_tensor *find_tensor(const source *from, const char *name, uint64_t count) {
    uint32_t i = 0;
    while (i + 1 < from->paths.count && !safetensors_find(&from->files[i], name)) i++;
    return checkpoint_tensor(&from->files[i], from->paths.paths[i], name, count);
}

static const safetensors_tensor *find_scale(const source *from) {
    const safetensors_tensor *found = NULL;
    for (uint32_t i = 0; i < from->paths.count && !found; i++)
        found = safetensors_find(&from->files[i], GPT_LOSS_SCALE);
    return found && found->known && found->dtype == ROTA_F32 && found->count == 2 ? found : NULL;
}

bool gpt_checkpoint_load(const char *dir, gpt_model *model, const gpt_text *text,
                         gpt_progress *out_progress) {
    bool good = false;
    source from = {.files = NULL};
    gpt_progress progress;
    progress_bar bar;
    bool loads = false;
    uint64_t largest = 1, values_done = 0;
    for (uint32_t i = 0; i < model->parameter_count; i++)
        if (model->parameters[i].count > largest) largest = model->parameters[i].count;
    float *values = malloc(largest * sizeof *values);
    if (!values) fprintf(stderr, "no memory for %" PRIu64 " values of a checkpoint\n", largest);
    if (!values || !read_source(dir, model, text, &from, &progress)) goto done;
    progress_begin(&bar, "loading the checkpoint", "values", model->weight_count * GPT_PARTS);
    loads = true;
    /* All is checked before anything is written. */
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < model->parameter_count; i++)
            for (int part = 0; part < GPT_PARTS; part++) {
                const gpt_parameter *p = &model->parameters[i];
                if (!model->parts[part]) continue; /* no training: no optimizer's state */
                char name[64];
                name_tensor(name, p, part);
                const safetensors_tensor *tensor = find_tensor(&from, name, p->count);
                if (!tensor) goto done;
                if (pass == 0) continue;
                memcpy(values, tensor->data, p->count * 4); /* aligned for floats */
                if (gpt_model_write(model, p, part, values) != ROTA_OK) {
                    fprintf(stderr, "'%s' can't be loaded: %s\n", dir, rota_last_error());
                    goto done;
                }
                progress_at(&bar, values_done += p->count);
            }
    /* A checkpoint of another dtype has none: the scale then begins anew. */
    const safetensors_tensor *scale = model->scale ? find_scale(&from) : NULL;
    if (scale && rota_buffer_write(model->scale, model->device, 0, scale->data, 8, NULL) != ROTA_OK) {
        fprintf(stderr, "'%s' can't be loaded: %s\n", dir, rota_last_error());
        goto done;
    }
    *out_progress = progress;
    good = true;
done:
    if (loads) progress_end(&bar);
    free_source(&from);
    free(values);
    return good;
}
