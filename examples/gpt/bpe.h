/* Byte-pair encoding as GPT-2 does it, and learning it from a text.
 *
 * Tokens are numbered as in GPT-2: the 256 bytes (those that print first), then what the merges make, in
 * their order, then "<|endoftext|>". So the merges are all there is to keep: a file of them is GPT-2's
 * merges.txt. */
#ifndef ROTA_EXAMPLES_GPT_BPE_H
#define ROTA_EXAMPLES_GPT_BPE_H

#include <stdbool.h>
#include "bench/progress.h"
#include "examples/common/strings.h"

#define GPT_BPE_LEAST 257  /* bytes and end of text */
#define GPT_BPE_MOST 65536 /* a token fits 16 bits */

typedef struct gpt_merge {
    uint32_t left, right, result; /* strings */
} gpt_merge;

typedef struct gpt_bpe {
    string_set strings; /* what each token stands for, numbered as said above */
    string_set pairs;   /* number = rank: {left, right} of each merge, as 8 bytes */
    gpt_merge *merges;  /* by rank */
    size_t merge_room;
    uint32_t merge_count;
    uint32_t merged;      /* strings that bytes and merges make: the first ones */
    uint32_t end_of_text; /* a string; merges may make it, too */
    /* Where a vocab.json numbers the tokens otherwise: the token of each string and the string of each token.
     */
    uint32_t *token_of, *string_of;
    uint32_t count; /* tokens */
} gpt_bpe;

/* What fails prints one sentence on stderr, returns false and leaves `out` empty. */

/* Learns from a text until there are `count` tokens, or no pair of tokens comes twice any more. The pair that
 * comes most often is merged next, of equals that of the lower numbers. Time grows with the number of
 * different words and of merges done in them, not with their product. `progress`, which may be NULL, gets the tokens
 * there are. */
bool gpt_bpe_train(const unsigned char *text, size_t size, uint32_t count, progress_bar *progress,
                   gpt_bpe *out);

/* From merges.txt, and, where `vocabulary_path` isn't NULL, with the numbers of a vocab.json. */
bool gpt_bpe_load(const char *merges_path, const char *vocabulary_path, gpt_bpe *out);
/* Writes merges.txt. */
bool gpt_bpe_save(const gpt_bpe *bpe, const char *merges_path);
/* The same, for the user only; gpt_bpe_load_kept reads it back. False, with a sentence, where somebody else
 * may have written the file, where its first line doesn't say how many merges there are, or there are others,
 * or more tokens than `most`. */
bool gpt_bpe_keep(const gpt_bpe *bpe, const char *path);
bool gpt_bpe_load_kept(const char *path, uint64_t most, gpt_bpe *out);
/* What merges.txt says, and vocab.json where the tokens are numbered otherwise (token_of), as texts from malloc; and
 * from these texts (`numbers` may be NULL), which `name` has. */
char *gpt_bpe_print_merges(const gpt_bpe *bpe);
char *gpt_bpe_print_numbers(const gpt_bpe *bpe);
bool gpt_bpe_read(const char *name, const char *merges, const char *numbers, gpt_bpe *out);
void gpt_bpe_free(gpt_bpe *bpe);

/* Tokens of a text into out_tokens, which has room for `size`. `progress`, which may be NULL, gets the bytes done. */
bool gpt_bpe_encode(const gpt_bpe *bpe, const unsigned char *text, size_t size, progress_bar *progress,
                    int32_t *out_tokens, size_t *out_count);
/* The bytes that a token stands for. */
const unsigned char *gpt_bpe_bytes(const gpt_bpe *bpe, uint32_t token, size_t *out_size);

/* The token that stands between texts. */
static inline uint32_t gpt_bpe_end_of_text(const gpt_bpe *bpe) {
    uint32_t token = bpe->token_of ? bpe->token_of[bpe->end_of_text] : bpe->end_of_text;
    return token < bpe->count ? token : 0; /* a vocab.json may have none */
}

/* ---- For gpt_bpe_train ---- */

/* Only the 256 bytes. */
bool gpt_bpe_begin(gpt_bpe *bpe);
/* Adds a merge; its string may exist already. */
bool gpt_bpe_merge(gpt_bpe *bpe, uint32_t left, uint32_t right, uint32_t *out_result);
/* Adds "<|endoftext|>". */
bool gpt_bpe_finish(gpt_bpe *bpe);

#endif
