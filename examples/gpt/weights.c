/* A model's weights in the files of the Hugging Face GPT-2. */
#include "examples/gpt/weights.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "bench/progress.h"
#include "examples/common/safetensors.h"

#define PREFIX "transformer."
#define NAMES_SHOWN 5

void gpt_differs(gpt_differences *differences, const char *name, const char *format, ...) {
    if (differences->count++ >= NAMES_SHOWN) return;
    char *end = differences->text + differences->length;
    const size_t room = sizeof differences->text - differences->length;
    va_list list;
    va_start(list, format);
    int length = snprintf(end, room, "%s'%.64s' ", differences->count > 1 ? "; " : "", name);
    length += vsnprintf(end + length, room - (size_t)length, format, list);
    va_end(list);
    differences->length += (size_t)length;
}

bool gpt_differences_none(const gpt_differences *differences, const char *path) {
    if (!differences->count) return true;
    fprintf(stderr, "'%s' has the weights of another model: %s", path, differences->text);
    if (differences->count > NAMES_SHOWN)
        fprintf(stderr, "; and %" PRIu32 " more", differences->count - NAMES_SHOWN);
    fputc('\n', stderr);
    return false;
}

/* Under its name here, or without the prefix, as the first published files have it. */
static const safetensors_tensor *find(const safetensors_file *file, const char *name) {
    const safetensors_tensor *found = safetensors_find(file, name);
    return found ? found : safetensors_find(file, name + strlen(PREFIX));
}

static void shape_text(const uint64_t *shape, uint32_t rank, char text[64]) {
    size_t length = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < rank && length < 48; i++)
        length += (size_t)snprintf(text + length, 64 - length, "%s%" PRIu64, i ? "x" : "", shape[i]);
}

static void compare(gpt_differences *d, const gpt_parameter *p, const safetensors_tensor *tensor,
                    bool *out_truncated) {
    if (!tensor) {
        gpt_differs(d, p->name, "is missing");
        return;
    }
    if (!tensor->known) {
        *out_truncated = true;
        return;
    }
    /* Of the positions, as many as the model has are taken. */
    bool same =
        tensor->rank == p->rank && (p->rank == 1 || tensor->shape[1] == p->shape[1]) &&
        (p->index == GPT_POSITIONS ? tensor->shape[0] >= p->shape[0] : tensor->shape[0] == p->shape[0]);
    char theirs[64], ours[64];
    shape_text(tensor->shape, tensor->rank, theirs);
    shape_text(p->shape, p->rank, ours);
    if (!same) gpt_differs(d, p->name, "is %s there, %s here", theirs, ours);
}

/* Masks that old files hold are no weights, the head is the token table, and .m, .v and the loss scale are a
 * checkpoint's. */
static bool ends_with(const char *name, const char *end) {
    size_t length = strlen(name), size = strlen(end);
    return length >= size && strcmp(name + length - size, end) == 0;
}

static bool is_weight(const char *name) {
    return !ends_with(name, ".attn.bias") && !ends_with(name, ".attn.masked_bias") &&
           !ends_with(name, "lm_head.weight") && !ends_with(name, ".m") && !ends_with(name, ".v") &&
           strcmp(name, GPT_LOSS_SCALE) != 0;
}

static bool check(const safetensors_file *file, const char *path, const gpt_model *model) {
    gpt_differences differences = {0};
    string_set ours = {0};
    bool truncated = false;
    for (uint32_t i = 0; i < model->parameter_count; i++) {
        const char *name = model->parameters[i].name;
        string_set_add(&ours, name, strlen(name));
        string_set_add(&ours, name + strlen(PREFIX), strlen(name + strlen(PREFIX)));
        compare(&differences, &model->parameters[i], find(file, name), &truncated);
    }
    for (uint32_t i = 0; i < file->names.count; i++) {
        const char *name = file->tensors[i].name;
        if (is_weight(name) && string_set_find(&ours, name, strlen(name)) == STRING_SET_NONE)
            gpt_differs(&differences, name, "is not in this model");
    }
    string_set_free(&ours);
    if (!gpt_differences_none(&differences, path)) return false;
    if (truncated)
        fprintf(stderr,
                "'%s' is truncated or damaged: not every tensor is whole in its %" PRIu64 " bytes of data\n",
                path, file->data_bytes);
    return !truncated;
}

bool gpt_weights_load(const char *path, gpt_model *model) {
    safetensors_file file;
    if (!safetensors_read(path, &file)) return false;
    bool good = check(&file, path, model);
    progress_bar bar;
    progress_begin(&bar, "loading weights", "values", model->weight_count);
    uint64_t done = 0;
    for (uint32_t i = 0; i < model->parameter_count && good; i++) {
        const gpt_parameter *p = &model->parameters[i];
        float *values = malloc(p->count * sizeof *values);
        if (values) safetensors_to_f32(find(&file, p->name), p->count, values);
        good = values && gpt_model_write(model, p, GPT_VALUES, values) == ROTA_OK;
        if (!good)
            fprintf(stderr, "'%s' can't be loaded: %s\n", path, values ? rota_last_error() : "out of memory");
        free(values);
        progress_at(&bar, done += p->count);
    }
    progress_end(&bar);
    safetensors_free(&file);
    return good;
}

bool gpt_weights_save(const char *path, const gpt_model *model, rota_dtype dtype) {
    file_writer file;
    cJSON *header = cJSON_CreateObject();
    cJSON_AddStringToObject(cJSON_AddObjectToObject(header, "__metadata__"), "format", "pt");
    uint64_t offset = 0;
    for (uint32_t i = 0; i < model->parameter_count; i++) {
        const gpt_parameter *p = &model->parameters[i];
        safetensors_add(header, p->name, dtype, p->rank, p->shape, &offset);
    }
    bool open = file_open(&file, path), good = open && safetensors_begin(&file, header);
    for (uint32_t i = 0; i < model->parameter_count && good; i++) {
        const gpt_parameter *p = &model->parameters[i];
        float *values = malloc(p->count * sizeof *values);
        good = values && gpt_model_read(model, p, GPT_VALUES, values) == ROTA_OK;
        if (good)
            file_put(&file, values, safetensors_from_f32(values, p->count, dtype));
        else
            fprintf(stderr, "'%s' can't be saved: %s\n", path, values ? rota_last_error() : "out of memory");
        free(values);
    }
    cJSON_Delete(header);
    if (good) return file_commit(&file);
    if (open) file_abandon(&file);
    return false;
}
