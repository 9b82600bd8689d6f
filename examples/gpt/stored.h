/* What a checkpoint says of the run that made it: the model's sizes, what its tokens stand for, where they came
 * from. */
#ifndef ROTA_EXAMPLES_GPT_STORED_H
#define ROTA_EXAMPLES_GPT_STORED_H

#include "examples/common/safetensors.h"
#include "examples/gpt/vocabulary.h"

typedef struct gpt_stored {
    safetensors_file file; /* of which the header alone is read */
    char *path;
    uint64_t block, layers, heads, dim, arch, seed, vocabulary;
    uint64_t asked;              /* tokens that were asked for, by --vocab; 0: it doesn't say */
    int tokenizer;               /* gpt_tokenizer; -1: it is an older checkpoint, which doesn't say */
    const char *data, *val_data; /* files; NULL: it doesn't say, or there was none */
} gpt_stored;

/* False with one sentence: it can't be read, or is no checkpoint. `from` is a folder with a checkpoint, or its file. */
bool gpt_stored_read(const char *from, gpt_stored *out);
void gpt_stored_free(gpt_stored *stored);
/* The vocabulary of a checkpoint that says its tokenizer. False with one sentence: what it says makes no sense. */
bool gpt_stored_vocabulary(const gpt_stored *stored, gpt_vocabulary *out);

/* Adds it to the metadata of a checkpoint; names of files are NULL and `asked` 0 where there are none. False with one
 * sentence: no memory. */
bool gpt_stored_add(cJSON *metadata, const gpt_vocabulary *vocabulary, uint64_t asked, const char *data,
                    const char *val_data);

#endif
