/* The text that train_gpt learns: read, cut into tokens, split, sampled; and the one generator behind all
 * chance. */
#ifndef ROTA_EXAMPLES_GPT_DATA_H
#define ROTA_EXAMPLES_GPT_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef enum gpt_tokenizer { GPT_CHAR, GPT_BYTE } gpt_tokenizer;

typedef struct gpt_text {
    int32_t *tokens;
    size_t count, train_count; /* the first 90 % are for training, the rest for validation */
    /* Token i is the code point vocabulary[i]; a byte that is not UTF-8 is GPT_RAW_BYTE + its value.
     * Ascending. */
    uint32_t *vocabulary;
    uint32_t vocabulary_count;
} gpt_text;

#define GPT_RAW_BYTE 0x110000u

/* One sentence on stderr and false for a file that can't be read, is empty, or leaves less than a block and
 * one token for training or validation. */
bool gpt_text_load(gpt_text *text, const char *path, gpt_tokenizer tokenizer, uint64_t block);
void gpt_text_free(gpt_text *text);
void gpt_text_print(const gpt_text *text, int32_t token, FILE *stream);

/* splitmix64. The state is all of it, and is what a checkpoint keeps. */
typedef struct gpt_random {
    uint64_t state;
} gpt_random;
uint64_t gpt_random_next(gpt_random *random);
/* In [0, 1). */
double gpt_random_uniform(gpt_random *random);
double gpt_random_normal(gpt_random *random);

/* `rows` windows of `block` tokens from random places in [first, end), and the tokens that follow each. */
void gpt_text_batch(const gpt_text *text, size_t first, size_t end, uint64_t rows, uint64_t block,
                    gpt_random *random, int32_t *out_tokens, int32_t *out_targets);

#endif
