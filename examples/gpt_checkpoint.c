/* Checkpoints of train_gpt. The safetensors format: 8 bytes little-endian header length, a JSON object from
 * tensor names to {dtype, shape, data_offsets} with "__metadata__" from strings to strings, then the data. */
#include "examples/gpt_checkpoint.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "bench/files.h"

#define PARTS 3
static const char *const part_suffixes[PARTS] = {"", ".m", ".v"};

static rota_buffer *part_buffer(const gpt_parameter *p, int part) {
    return part == 0 ? p->value : part == 1 ? p->m : p->v;
}

static char *checkpoint_path(const char *dir) {
    size_t length = strlen(dir) + sizeof "/" GPT_CHECKPOINT_FILE;
    char *path = malloc(length);
    if (path)
        snprintf(path, length, "%s/" GPT_CHECKPOINT_FILE, dir);
    else
        fprintf(stderr, "out of memory for the name of a checkpoint\n");
    return path;
}

/* What must agree between a checkpoint and the model it is loaded into. */
#define SIZE_COUNT 6
typedef struct named_number {
    const char *name;
    uint64_t value;
} named_number;

static void list_sizes(const gpt_model *model, const gpt_text *text, named_number out[SIZE_COUNT]) {
    const gpt_config *c = &model->config;
    const named_number sizes[SIZE_COUNT] = {{"vocabulary", c->vocabulary},
                                            {"block", c->block},
                                            {"layers", c->layers},
                                            {"heads", c->heads},
                                            {"dim", c->dim},
                                            {"vocabulary_hash", gpt_vocabulary_hash(&text->vocabulary)}};
    memcpy(out, sizes, sizeof sizes);
}

static void add_number(cJSON *object, const char *name, uint64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    cJSON_AddStringToObject(object, name, text);
}

static char *make_header(const gpt_model *model, const gpt_text *text, const gpt_progress *progress) {
    cJSON *header = cJSON_CreateObject();
    cJSON *metadata = cJSON_AddObjectToObject(header, "__metadata__");
    cJSON_AddStringToObject(metadata, "format", "rota train_gpt 1");
    named_number sizes[SIZE_COUNT];
    list_sizes(model, text, sizes);
    for (int i = 0; i < SIZE_COUNT; i++) add_number(metadata, sizes[i].name, sizes[i].value);
    add_number(metadata, "step", progress->step);
    add_number(metadata, "generator", progress->random.state);
    add_number(metadata, "seed", progress->seed);
    uint64_t offset = 0;
    for (uint32_t i = 0; i < model->parameter_count; i++)
        for (int part = 0; part < PARTS; part++) {
            const gpt_parameter *p = &model->parameters[i];
            char name[64];
            snprintf(name, sizeof name, "%s%s", p->name, part_suffixes[part]);
            cJSON *tensor = cJSON_AddObjectToObject(header, name);
            cJSON_AddStringToObject(tensor, "dtype", "F32");
            cJSON *shape = cJSON_AddArrayToObject(tensor, "shape");
            for (uint32_t d = 0; d < p->rank; d++)
                cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)p->shape[d]));
            cJSON *offsets = cJSON_AddArrayToObject(tensor, "data_offsets");
            cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)offset));
            offset += p->count * 4;
            cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)offset));
        }
    char *json = cJSON_PrintUnformatted(header);
    cJSON_Delete(header);
    return json;
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
    char *path = checkpoint_path(dir), *header = make_header(model, text, progress);
    float *values = NULL;
    if (!path) goto done;
    if (!header) {
        fprintf(stderr, "out of memory for '%s'\n", path);
        goto done;
    }
    open = file_open(&file, path);
    if (!open) goto done;
    /* The data starts at a multiple of 8; a header may end in spaces. */
    size_t length = strlen(header), padded = (length + 7) / 8 * 8;
    unsigned char prefix[8];
    for (int i = 0; i < 8; i++) prefix[i] = (unsigned char)((uint64_t)padded >> (8 * i));
    file_put(&file, prefix, sizeof prefix);
    file_put(&file, header, length);
    file_put(&file, "       ", padded - length);
    for (uint32_t i = 0; i < model->parameter_count; i++) {
        const gpt_parameter *p = &model->parameters[i];
        for (int part = 0; part < PARTS; part++) {
            float *larger = realloc(values, p->count * sizeof *values);
            if (!larger) {
                fprintf(stderr, "out of memory for '%s'\n", path);
                goto done;
            }
            values = larger;
            if (rota_buffer_read(part_buffer(p, part), 0, values, p->count * 4) != ROTA_OK) {
                fprintf(stderr, "'%s' can't be saved: %s\n", path, rota_last_error());
                goto done;
            }
            file_put(&file, values, p->count * 4);
        }
    }
    open = false;
    good = file_commit(&file);
done:
    if (open) file_abandon(&file);
    free(values);
    cJSON_free(header);
    free(path);
    return good;
}

/* ---- Loading ---- */

static bool read_number(const cJSON *metadata, const char *name, uint64_t *out_value) {
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(metadata, name));
    if (!text || *text < '0' || *text > '9') return false;
    char *end;
    errno = 0;
    *out_value = strtoull(text, &end, 10);
    return !errno && !*end;
}

/* Checks the metadata against the model and reads the progress. */
static bool read_metadata(const cJSON *header, const char *path, const gpt_model *model, const gpt_text *text,
                          gpt_progress *out) {
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(header, "__metadata__");
    named_number sizes[SIZE_COUNT];
    list_sizes(model, text, sizes);
    for (int i = 0; i < SIZE_COUNT; i++) {
        uint64_t value;
        if (!read_number(metadata, sizes[i].name, &value)) {
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
    if (read_number(metadata, "step", &out->step) && read_number(metadata, "generator", &out->random.state) &&
        read_number(metadata, "seed", &out->seed))
        return true;
    fprintf(stderr, "'%s' doesn't say its step, generator and seed\n", path);
    return false;
}

/* Where a tensor's data begins, counted from the end of the header; false if it isn't there with this size
 * inside the file. */
static bool find_tensor(const cJSON *header, const char *name, uint64_t bytes, uint64_t data_bytes,
                        uint64_t *out_begin) {
    const cJSON *tensor = cJSON_GetObjectItemCaseSensitive(header, name);
    const char *dtype = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(tensor, "dtype"));
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(tensor, "data_offsets");
    const cJSON *begin = cJSON_GetArrayItem(offsets, 0), *end = cJSON_GetArrayItem(offsets, 1);
    if (!dtype || strcmp(dtype, "F32") != 0 || !cJSON_IsNumber(begin) || !cJSON_IsNumber(end)) return false;
    double from = begin->valuedouble, to = end->valuedouble;
    if (!(from >= 0) || to - from != (double)bytes || to > (double)data_bytes) return false;
    *out_begin = (uint64_t)from;
    return true;
}

bool gpt_checkpoint_load(const char *dir, gpt_model *model, const gpt_text *text,
                         gpt_progress *out_progress) {
    bool good = false;
    size_t size;
    cJSON *header = NULL;
    char *data = NULL, *path = checkpoint_path(dir);
    if (!path) goto done;
    data = file_read(path, &size);
    if (!data) goto done;
    uint64_t length = 0;
    for (int i = 0; i < 8 && size >= 8; i++) length |= (uint64_t)(unsigned char)data[i] << (8 * i);
    if (size < 8 || length > size - 8) {
        fprintf(stderr, "'%s' is truncated: its header needs %" PRIu64 " bytes, and it has %zu\n", path,
                length + 8, size);
        goto done;
    }
    header = cJSON_ParseWithLength(data + 8, length);
    if (!header) {
        fprintf(stderr, "'%s' is no safetensors file: its header is not JSON\n", path);
        goto done;
    }
    gpt_progress progress;
    if (!read_metadata(header, path, model, text, &progress)) goto done;
    /* All is checked before anything is written. */
    const char *payload = data + 8 + length;
    uint64_t payload_bytes = size - 8 - length;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < model->parameter_count; i++)
            for (int part = 0; part < PARTS; part++) {
                const gpt_parameter *p = &model->parameters[i];
                char name[64];
                uint64_t begin;
                snprintf(name, sizeof name, "%s%s", p->name, part_suffixes[part]);
                if (!find_tensor(header, name, p->count * 4, payload_bytes, &begin)) {
                    fprintf(stderr,
                            "'%s' is truncated or damaged: tensor '%s' of %" PRIu64
                            " bytes is not whole in its %" PRIu64 " bytes of data\n",
                            path, name, p->count * 4, payload_bytes);
                    goto done;
                }
                if (pass == 1 && rota_buffer_write(part_buffer(p, part), model->device, 0, payload + begin,
                                                   p->count * 4, NULL) != ROTA_OK) {
                    fprintf(stderr, "'%s' can't be loaded: %s\n", path, rota_last_error());
                    goto done;
                }
            }
    *out_progress = progress;
    good = true;
done:
    cJSON_Delete(header);
    free(data);
    free(path);
    return good;
}
