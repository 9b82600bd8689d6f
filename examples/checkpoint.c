/* What the trainers' checkpoints have in common. */
#include "examples/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>

void checkpoint_add_numbers(cJSON *metadata, const checkpoint_number *numbers, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) gpt_tensors_add_number(metadata, numbers[i].name, numbers[i].value);
}

bool checkpoint_read_number(const cJSON *metadata, const char *path, const char *program, const char *name,
                            uint64_t *out_value) {
    if (gpt_tensors_read_number(metadata, name, out_value)) return true;
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

const gpt_tensor *checkpoint_tensor(const gpt_tensor_file *file, const char *path, const char *name,
                                    uint64_t count) {
    const gpt_tensor *tensor = gpt_tensors_find(file, name);
    if (tensor && tensor->known && tensor->dtype == ROTA_F32 && tensor->count == count) return tensor;
    fprintf(stderr,
            "'%s' is truncated or damaged: tensor '%s' of %" PRIu64 " bytes is not whole in its %" PRIu64
            " bytes of data\n",
            path, name, count * 4, file->data_bytes);
    return NULL;
}
