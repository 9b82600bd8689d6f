/* The files of a checkpoint. */
#include "examples/gpt/checkpoint_files.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_MOST = 65536 };

/* "dir/name", to be freed; NULL with one sentence. */
static char *join(const char *dir, const char *name) {
    const size_t length = strlen(dir) + strlen(name) + 2;
    char *path = malloc(length);
    if (path)
        snprintf(path, length, "%s/%s", dir, name);
    else
        fprintf(stderr, "out of memory for the name of a checkpoint\n");
    return path;
}

static bool is_there(const char *path) {
    struct stat status;
    return path && stat(path, &status) == 0;
}

void gpt_checkpoint_files_name(char out[GPT_CHECKPOINT_NAME], uint64_t number, uint32_t rank, uint32_t size) {
    snprintf(out, GPT_CHECKPOINT_NAME, "checkpoint-%" PRIu64 "-%05" PRIu32 "-of-%05" PRIu32 ".safetensors",
             number, rank + 1, size);
}

/* ---- The index ---- */

/* NULL, silently: there is none, or it is no JSON. */
static cJSON *read_index(const char *path) {
    size_t size;
    char *text = is_there(path) ? file_read(path, &size) : NULL;
    cJSON *index = text ? cJSON_ParseWithLength(text, size) : NULL;
    free(text);
    return index;
}

static bool read_numbers(const cJSON *index, uint64_t *out_number, uint64_t *out_files) {
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(index, "metadata");
    return safetensors_read_number(metadata, "number", out_number) &&
           safetensors_read_number(metadata, "files", out_files) && *out_files >= 1 &&
           *out_files <= FILES_MOST;
}

uint64_t gpt_checkpoint_files_number(const char *dir) {
    char *path = join(dir, GPT_CHECKPOINT_INDEX);
    cJSON *index = read_index(path);
    uint64_t number = 0, files;
    if (!read_numbers(index, &number, &files)) number = 0;
    cJSON_Delete(index);
    free(path);
    return number + 1;
}

/* The folder of a path, to be freed. */
static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? strndup(path, (size_t)(slash - path)) : strdup(".");
}

static bool list_shards(const char *path, gpt_checkpoint_files *out) {
    cJSON *index = read_index(path);
    uint64_t number, count = 0;
    char *folder = folder_of(path), name[GPT_CHECKPOINT_NAME];
    bool good = folder && read_numbers(index, &number, &count);
    if (!good) fprintf(stderr, "'%s' is damaged: it does not say of how many files a checkpoint is\n", path);
    out->paths = good ? calloc(count, sizeof *out->paths) : NULL;
    if (good && !out->paths) fprintf(stderr, "no memory for the names of %" PRIu64 " files\n", count);
    good = out->paths != NULL;
    while (good && out->count < count) {
        gpt_checkpoint_files_name(name, number, out->count, (uint32_t)count);
        good = (out->paths[out->count] = join(folder, name)) != NULL;
        out->count += good;
    }
    cJSON_Delete(index);
    free(folder);
    if (!good) gpt_checkpoint_files_free(out);
    return good;
}

/* ---- Which there are ---- */

static bool list_one(char *path, gpt_checkpoint_files *out) {
    out->paths = path ? malloc(sizeof *out->paths) : NULL;
    if (!out->paths) {
        fprintf(stderr, "out of memory for the name of a checkpoint\n");
        free(path);
        return false;
    }
    out->paths[0] = path;
    out->count = 1;
    return true;
}

/* 0: it doesn't say. */
static uint64_t step_of(const char *path) {
    safetensors_file file;
    uint64_t step = 0;
    if (!is_there(path) || !safetensors_read_metadata(path, &file)) return 0;
    if (!safetensors_read_number(file.metadata, "step", &step)) step = 0;
    safetensors_free(&file);
    return step;
}

static bool ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), own = strlen(end);
    return length >= own && strcmp(text + length - own, end) == 0;
}

bool gpt_checkpoint_files_find(const char *from, gpt_checkpoint_files *out) {
    *out = (gpt_checkpoint_files){0};
    if (ends_with(from, ".index.json")) return list_shards(from, out);
    char *one = safetensors_path(from, GPT_CHECKPOINT_FILE), *index = join(from, GPT_CHECKPOINT_INDEX);
    if (!one || !index || !is_there(index)) {
        free(index);
        return list_one(one, out);
    }
    /* Both are there where somebody was ended between writing one and taking the other away. */
    bool good = list_shards(index, out);
    if (is_there(one) && (!good || step_of(one) > step_of(out->paths[0]))) {
        gpt_checkpoint_files_free(out);
        good = list_one(one, out);
    } else {
        free(one);
    }
    free(index);
    return good;
}

void gpt_checkpoint_files_free(gpt_checkpoint_files *files) {
    for (uint32_t i = 0; i < files->count; i++) free(files->paths[i]);
    free(files->paths);
    *files = (gpt_checkpoint_files){0};
}

uint64_t gpt_checkpoint_files_step(const char *dir) {
    uint64_t step = 0;
    gpt_checkpoint_files found;
    char *one = safetensors_path(dir, GPT_CHECKPOINT_FILE), *index = join(dir, GPT_CHECKPOINT_INDEX);
    if ((is_there(one) || is_there(index)) && gpt_checkpoint_files_find(dir, &found)) {
        step = step_of(found.paths[0]);
        gpt_checkpoint_files_free(&found);
    }
    free(index);
    free(one);
    return step;
}

/* ---- Writing ---- */

static void remove_in(const char *dir, const char *name) {
    char *path = join(dir, name);
    if (path) (void)unlink(path);
    free(path);
}

/* The number in a name as gpt_checkpoint_files_name makes them; 0: it is none. */
static uint64_t number_in(const char *name) {
    static const char before[] = "checkpoint-", between[] = "-of-";
    char made[GPT_CHECKPOINT_NAME], *end;
    if (strncmp(name, before, sizeof before - 1) != 0) return 0;
    const uint64_t number = strtoull(name + sizeof before - 1, &end, 10);
    const uint64_t rank = *end == '-' ? strtoull(end + 1, &end, 10) : 0;
    if (!rank || rank > FILES_MOST || strncmp(end, between, sizeof between - 1) != 0) return 0;
    const uint64_t size = strtoull(end + sizeof between - 1, NULL, 10);
    if (!size || size > FILES_MOST) return 0;
    gpt_checkpoint_files_name(made, number, (uint32_t)rank - 1, (uint32_t)size);
    return strcmp(made, name) == 0 ? number : 0;
}

void gpt_checkpoint_files_sweep(const char *dir, uint64_t number) {
    DIR *folder = opendir(dir);
    if (!number) remove_in(dir, GPT_CHECKPOINT_INDEX);
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        const uint64_t of = number_in(entry->d_name);
        if (of && of != number) remove_in(dir, entry->d_name);
    }
    if (folder) closedir(folder);
}

bool gpt_checkpoint_files_commit(const char *dir, uint64_t number, uint32_t size, uint64_t bytes,
                                 cJSON *map) {
    cJSON *index = cJSON_CreateObject(), *metadata = cJSON_AddObjectToObject(index, "metadata");
    cJSON_AddNumberToObject(metadata, "total_size", (double)bytes);
    safetensors_add_number(metadata, "number", number);
    safetensors_add_number(metadata, "files", size);
    cJSON_AddItemToObject(index, "weight_map", map);
    char *text = cJSON_Print(index), *path = join(dir, GPT_CHECKPOINT_INDEX);
    if (!text) fprintf(stderr, "no memory for the index of a checkpoint\n");
    const bool good = text && path && file_write_text(path, text);
    cJSON_free(text);
    free(path);
    cJSON_Delete(index);
    if (!good) return false;
    remove_in(dir, GPT_CHECKPOINT_FILE);
    gpt_checkpoint_files_sweep(dir, number);
    return true;
}
