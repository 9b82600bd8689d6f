/* The files of a checkpoint: one, or one of each rank that wrote it, which an index names. The index is written last,
 * when all are there under names that no earlier checkpoint has: so a checkpoint is there whole, or the one before. */
#ifndef ROTA_EXAMPLES_GPT_CHECKPOINT_FILES_H
#define ROTA_EXAMPLES_GPT_CHECKPOINT_FILES_H

#include "examples/common/safetensors.h"

#define GPT_CHECKPOINT_FILE "checkpoint.safetensors"
/* As libraries for Hugging Face's models have it: {"metadata": ..., "weight_map": {tensor: file}}. */
#define GPT_CHECKPOINT_INDEX "checkpoint.safetensors.index.json"

typedef struct gpt_checkpoint_files {
    char **paths;
    uint32_t count;
} gpt_checkpoint_files;

/* Those of `from`: a folder with a checkpoint, of two the later one; an index; or a file, which is all. False with one
 * sentence: there is none, or the index makes no sense. */
bool gpt_checkpoint_files_find(const char *from, gpt_checkpoint_files *out);
void gpt_checkpoint_files_free(gpt_checkpoint_files *files);

/* The step of the checkpoint that is there, of two the later one's; 0: there is none, or it does not say. */
uint64_t gpt_checkpoint_files_step(const char *dir);

/* The number of the checkpoint of several files that is written next into a folder: 1 more than that of the index that
 * is there. */
uint64_t gpt_checkpoint_files_number(const char *dir);
/* "checkpoint-NUMBER-RANK-of-SIZE.safetensors", with ranks from 1 on. */
enum { GPT_CHECKPOINT_NAME = 80 };
void gpt_checkpoint_files_name(char out[GPT_CHECKPOINT_NAME], uint64_t number, uint32_t rank, uint32_t size);
/* The checkpoint in `dir` is from now on that number's, of so many files; `map` has each tensor's file. Takes the map.
 * Other checkpoints' files go. False with one sentence: the one before stays. */
bool gpt_checkpoint_files_commit(const char *dir, uint64_t number, uint32_t size, uint64_t bytes, cJSON *map);
/* Files of checkpoints of several files go, but for those of `number`; 0: all, the index too. */
void gpt_checkpoint_files_sweep(const char *dir, uint64_t number);

#endif
