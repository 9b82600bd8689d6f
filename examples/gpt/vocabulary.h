/* What tokens stand for: characters, bytes, byte pairs, or nothing but their numbers. */
#ifndef ROTA_EXAMPLES_GPT_VOCABULARY_H
#define ROTA_EXAMPLES_GPT_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "examples/gpt/bpe.h"

/* In the order of --tokenizer. */
typedef enum gpt_tokenizer { GPT_CHAR, GPT_BYTE, GPT_BPE, GPT_BIN } gpt_tokenizer;

typedef struct gpt_vocabulary {
    gpt_tokenizer kind;
    uint32_t count;
    /* GPT_CHAR, GPT_BYTE: token i is the code point codes[i], or a byte that is not UTF-8 (utf8.h).
     * Ascending. */
    uint32_t *codes;
    gpt_bpe bpe; /* GPT_BPE; GPT_BIN: empty where no merges were given */
} gpt_vocabulary;

/* The characters that occur in a text. These print one sentence on stderr and return false on failure. */
bool gpt_vocabulary_chars(gpt_vocabulary *vocabulary, const unsigned char *text, size_t size);
bool gpt_vocabulary_bytes(gpt_vocabulary *vocabulary);
void gpt_vocabulary_free(gpt_vocabulary *vocabulary);

/* Tokens of a text into out_tokens, which has room for `size`. False: a character that the vocabulary doesn't
 * have, named with its position; or the vocabulary knows numbers only.
 * `progress`, which may be NULL, gets the bytes done. */
bool gpt_vocabulary_encode(const gpt_vocabulary *vocabulary, const unsigned char *text, size_t size,
                           progress_bar *progress, int32_t *out_tokens, size_t *out_count);
/* A token that stands for nothing known prints as its number between angle brackets. */
void gpt_vocabulary_print(const gpt_vocabulary *vocabulary, int32_t token, FILE *stream);

/* Of what the tokens stand for: another text with as many characters is another vocabulary. 0 where only
 * their numbers are known. */
uint64_t gpt_vocabulary_hash(const gpt_vocabulary *vocabulary);

/* The hash's step, FNV-1a, for others who name things by what is in them. */
#define GPT_HASH_BEGIN UINT64_C(0xcbf29ce484222325)
uint64_t gpt_hash(uint64_t hash, const void *bytes, size_t size);

#endif
