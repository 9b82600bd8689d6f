/* The text that train_gpt learns: read, cut into tokens, split, sampled; and the one generator behind all
 * chance. */
#ifndef ROTA_EXAMPLES_GPT_DATA_H
#define ROTA_EXAMPLES_GPT_DATA_H

#include "examples/common/random.h"
#include "examples/gpt/stored.h"

/* Where tokens come from. Names are NULL where the user gave none. */
typedef struct gpt_source {
    const char *data;       /* a text; GPT_BIN: a token file */
    const char *validation; /* GPT_BIN: another token file, in place of the last tenth of the first */
    const char *merges, *vocabulary; /* GPT_BPE, GPT_BIN: GPT-2's merges.txt and vocab.json */
    const char *cache; /* GPT_BPE: folder where learned merges are kept; NULL: the user's cache folder */
    int tokenizer;     /* gpt_tokenizer */
    uint64_t count;    /* GPT_BPE: tokens to learn; GPT_BIN: how many there are, 0: as many as occur or the
                          merges make */
    uint64_t block;
    const gpt_stored
        *stored; /* a checkpoint whose tokens these are: nothing is learned. NULL: there is none */
} gpt_source;

typedef struct gpt_text {
    char *data; /* until gpt_text_tokenize */
    size_t size;
    int32_t *tokens;
    size_t count, train_count; /* the first 90 % are for training, the rest for validation */
    gpt_vocabulary vocabulary;
    const gpt_source *source; /* where it was read from */
} gpt_text;

/* Reads the file. One sentence on stderr and false for one that can't be read, is empty, or has too few bytes
 * to leave a block and one token for training or two for validation. GPT_BIN: merges and token files that are
 * damaged, or a token out of range (with its position), too. */
bool gpt_text_read(gpt_text *text, const gpt_source *source);
/* Cuts it into tokens. False with a sentence: merges that are damaged, too few tokens. Merges that are
 * learned are kept in a file named by the text's hash and the number of tokens. */
bool gpt_text_tokenize(gpt_text *text, const gpt_source *source);
/* Without data, only what its tokens stand for: from --merges, or all bytes. */
bool gpt_text_vocabulary(gpt_text *text, const gpt_source *source);
void gpt_text_free(gpt_text *text);

/* `rows` windows of `block` tokens from random positions in [first, end), and the tokens that follow each. */
void gpt_text_batch(const gpt_text *text, size_t first, size_t end, uint64_t rows, uint64_t block,
                    random_state *random, int32_t *out_tokens, int32_t *out_targets);
/* Of a step's micro-batches, each of `ranks` times `rows` windows of the text's training part, this rank's rows, micro-
 * batch after micro-batch. Each rank draws what all have: together it is the step of one rank with so many rows, and
 * leaves the generator as that does. */
void gpt_text_step(const gpt_text *text, uint64_t micro_batches, uint64_t rows, uint64_t block, uint32_t rank,
                   uint32_t ranks, random_state *random, int32_t *out_tokens, int32_t *out_targets);

#endif
