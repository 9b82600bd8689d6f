/* What the trainers' checkpoints have in common: numbers that must be there or agree, and tensors that must
 * be whole. Each failure is one sentence on stderr. */
#ifndef ROTA_EXAMPLES_COMMON_CHECKPOINT_H
#define ROTA_EXAMPLES_COMMON_CHECKPOINT_H

#include "examples/common/safetensors.h"

typedef struct checkpoint_number {
    const char *name;
    uint64_t value;
} checkpoint_number;

void checkpoint_add_numbers(cJSON *metadata, const checkpoint_number *numbers, uint32_t count);
/* False: the file at `path` is none of `program`'s, since it lacks the number. */
bool checkpoint_read_number(const cJSON *metadata, const char *path, const char *program, const char *name,
                            uint64_t *out_value);
/* False: one is missing, or another than in `what` ("this model"). */
bool checkpoint_agrees(const cJSON *metadata, const char *path, const char *program, const char *what,
                       const checkpoint_number *numbers, uint32_t count);
/* An f32 tensor with all its elements; NULL: it isn't there or is cut off. */
const safetensors_tensor *checkpoint_tensor(const safetensors_file *file, const char *path, const char *name,
                                            uint64_t count);

/* Makes DIR where it is missing. False with one sentence: it can't be made, isn't a folder, or can't be
 * written to; asked before training starts, so that hours of it aren't lost to a wrong name. */
bool checkpoint_folder(const char *dir);

#endif
