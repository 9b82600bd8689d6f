/* Checkpoints of train_patchtst: one safetensors file with weights, moments, running statistics and the best
 * weights so far, and, as metadata, the step, the generator and the model's sizes. */
#ifndef ROTA_EXAMPLES_PATCHTST_CHECKPOINT_H
#define ROTA_EXAMPLES_PATCHTST_CHECKPOINT_H

#include "examples/patchtst/model.h"

#define PATCHTST_CHECKPOINT_FILE "checkpoint.safetensors"

typedef struct patchtst_progress {
    uint64_t step;       /* steps done */
    random_state random; /* when the order of the epoch at work had not been drawn */
    uint64_t seed;
    double loss_sum;    /* of the steps of the epoch at work */
    uint64_t best_bits; /* of the least validation error so far, a double; infinite before the first */
    uint64_t best_epoch;
    float *best; /* its weights, then its statistics */
} patchtst_progress;

/* Room for the best weights, before the first evaluation. */
rota_status patchtst_progress_create(const patchtst_model *model, uint64_t seed, patchtst_progress *out);
void patchtst_progress_free(patchtst_progress *progress);

/* Writes DIR/checkpoint.safetensors under a temporary name and renames it. On failure prints one sentence,
 * returns false, and an older checkpoint stays. */
bool patchtst_checkpoint_save(const char *dir, const patchtst_model *model,
                              const patchtst_progress *progress);

/* Reads it back into the model's buffers and `progress`. False with one sentence: unreadable, damaged, or of
 * other sizes (both numbers); nothing was changed then. */
bool patchtst_checkpoint_load(const char *dir, const patchtst_model *model, patchtst_progress *progress);

#endif
