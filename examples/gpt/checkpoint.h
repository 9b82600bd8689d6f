/* Checkpoints of train_gpt: a safetensors file with parameters, optimizer state, and, as metadata, the
 * step, the generator, the model's sizes, what its tokens stand for and where they came from (stored.h); or one of
 * each rank, with all of the metadata and some of the tensors each, and an index (checkpoint_files.h). */
#ifndef ROTA_EXAMPLES_GPT_CHECKPOINT_H
#define ROTA_EXAMPLES_GPT_CHECKPOINT_H

#include "examples/gpt/data.h"
#include "examples/gpt/model.h"
#include "examples/gpt/ranks.h"

typedef struct gpt_progress {
    uint64_t step; /* steps done */
    random_state random;
    uint64_t seed;
    uint64_t best_bits;  /* of the least validation loss so far, a double; infinite before the first */
    uint64_t since_best; /* evaluations since then */
} gpt_progress;

/* Writes DIR/checkpoint.safetensors under a temporary name and renames it; makes DIR. Other ranks follow, by
 * gpt_model_follow of all parts. Files of ranks go, but for those of checkpoint `spared`, which others may be about to
 * commit, or have; 0: none is. On failure prints one sentence, returns false, and an older checkpoint stays. */
bool gpt_checkpoint_save(const char *dir, const gpt_model *model, const gpt_text *text,
                         const gpt_progress *progress, uint64_t spared);

/* The same in a file of each rank, which all of them call. *out_saved, the same on all: it is there; else a rank that
 * could not write has printed why, and an older checkpoint stays, as it does where a rank is lost meanwhile: then
 * another one may have it whole, as *out_number. Errors of collectives; INVALID_ARGUMENT: ranks see several folders. */
rota_status gpt_checkpoint_save_shards(const char *dir, const gpt_model *model, const gpt_text *text,
                                       const gpt_progress *progress, const gpt_ranks *ranks,
                                       uint64_t *out_number, bool *out_saved);

/* Reads it back, in whichever form, into the model's buffers. False with one sentence: unreadable, truncated, or of a
 * model or text of other sizes (both numbers); the buffers are then as before. */
bool gpt_checkpoint_load(const char *dir, gpt_model *model, const gpt_text *text, gpt_progress *out_progress);

#endif
