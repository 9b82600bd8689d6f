/* What the trainers' checkpoints have in common. */
#include "examples/common/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void checkpoint_add_numbers(cJSON *metadata, const checkpoint_number *numbers, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) safetensors_add_number(metadata, numbers[i].name, numbers[i].value);
}

bool checkpoint_read_number(const cJSON *metadata, const char *path, const char *program, const char *name,
                            uint64_t *out_value) {
    if (safetensors_read_number(metadata, name, out_value)) return true;
    fprintf(stderr, "'%s' is no checkpoint of %s: it doesn't say its %s\n", path, program, name);
    return false;
}

bool checkpoint_agrees(const cJSON *metadata, const char *path, const char *program, const char *what,
                       const checkpoint_number *numbers, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint64_t value;
        if (!checkpoint_read_number(metadata, path, program, numbers[i].name, &value)) return false;
        if (value == numbers[i].value) continue;
        fprintf(stderr, "'%s' has %s %" PRIu64 ", but %s has %" PRIu64 "\n", path, numbers[i].name, value,
                what, numbers[i].value);
        return false;
    }
    return true;
}

const safetensors_tensor *checkpoint_tensor(const safetensors_file *file, const char *path, const char *name,
                                            uint64_t count) {
    const safetensors_tensor *tensor = safetensors_find(file, name);
    if (tensor && tensor->known && tensor->dtype == ROTA_F32 && tensor->count == count) return tensor;
    fprintf(stderr,
            "'%s' is truncated or damaged: tensor '%s' of %" PRIu64 " bytes is not whole in its %" PRIu64
            " bytes of data\n",
            path, name, count * 4, file->data_bytes);
    return NULL;
}

bool checkpoint_folder(const char *dir) {
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
