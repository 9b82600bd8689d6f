/* The text that train_gpt learns: read, cut into tokens, split, sampled. */
#include "examples/gpt/data.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bench/files.h"
#include "examples/gpt/tokens.h"

static bool enough(const gpt_source *s, size_t count, size_t train_count, const char *what) {
    if (train_count >= s->block + 1 && count - train_count >= 2) return true;
    fprintf(stderr,
            "'%s' has %zu %s, %zu for training and %zu for validation: too few for a block of %" PRIu64
            " (training needs a block and one more, validation 2)\n",
            s->data, count, what, train_count, count - train_count, s->block);
    return false;
}

/* ---- Byte pairs ---- */

/* A name in the cache folder, from malloc; NULL: there is no such folder, and nothing is kept. */
static char *cached_name(const gpt_source *s, const gpt_text *text) {
    char name[64], *path = NULL, *folder = rota_cache_folder(s->cache);
    if (folder) rota_cache_make_folder(folder);
    snprintf(name, sizeof name, "bpe-%016" PRIx64 "-%" PRIu64 ".txt",
             gpt_hash(GPT_HASH_BEGIN, text->data, text->size), s->count);
    if (folder && access(folder, X_OK) == 0) path = rota_cache_path(folder, name);
    free(folder);
    return path;
}

static bool learn_or_load(gpt_bpe *bpe, const gpt_source *s, const gpt_text *text) {
    if (s->merges) return gpt_bpe_load(s->merges, s->vocabulary, bpe);
    char *name = cached_name(s, text);
    bool good = name && access(name, F_OK) == 0 && gpt_bpe_load_kept(name, s->count, bpe);
    if (!good) {
        progress_bar bar;
        progress_begin(&bar, "learning byte pairs", "tokens", s->count);
        good = gpt_bpe_train((const unsigned char *)text->data, text->size, (uint32_t)s->count, &bar, bpe);
        progress_end(&bar);
        /* Without the file it is learned again next time. */
        if (good && name) (void)gpt_bpe_keep(bpe, name);
    }
    free(name);
    return good;
}

static bool merges_vocabulary(gpt_vocabulary *vocabulary, const gpt_source *s, const gpt_text *text) {
    if (s->stored) return gpt_stored_vocabulary(s->stored, vocabulary);
    vocabulary->kind = (gpt_tokenizer)s->tokenizer;
    if (!learn_or_load(&vocabulary->bpe, s, text)) return false;
    vocabulary->count = vocabulary->bpe.count;
    return true;
}

/* ---- Tokens ---- */

/* A model may have more rows than there are tokens, not fewer. */
static bool enough_rows(const gpt_source *s, const gpt_vocabulary *vocabulary) {
    if (!s->count || s->count >= vocabulary->count) return true;
    fprintf(stderr, "--vocab %" PRIu64 " is too few: '%s' makes %" PRIu32 " tokens\n", s->count,
            s->merges ? s->merges : s->stored->path, vocabulary->count);
    return false;
}

/* A token file's numbers have no limit but the one that is given, or that of the merges. */
static bool check_tokens(gpt_text *text, const gpt_source *s) {
    int32_t most = 0;
    if (!enough_rows(s, &text->vocabulary)) return false;
    for (size_t i = 0; i < text->count; i++)
        if (text->tokens[i] > most) most = text->tokens[i];
    if (s->count)
        text->vocabulary.count = (uint32_t)s->count;
    else if (!text->vocabulary.count)
        text->vocabulary.count = (uint32_t)most + 1;
    for (size_t i = 0; i < text->count; i++)
        if (text->tokens[i] >= (int32_t)text->vocabulary.count) {
            fprintf(stderr, "'%s': token %zu is %" PRId32 ", but the vocabulary has %" PRIu32 "\n",
                    s->validation && i >= text->train_count ? s->validation : s->data,
                    s->validation && i >= text->train_count ? i - text->train_count : i, text->tokens[i],
                    text->vocabulary.count);
            return false;
        }
    return true;
}

bool gpt_text_read(gpt_text *text, const gpt_source *s) {
    *text = (gpt_text){.source = s};
    if (s->tokenizer == GPT_BIN) {
        bool good = gpt_tokens_read(s->data, &text->tokens, &text->count);
        text->train_count = (size_t)((double)text->count * 0.9);
        if (good && s->validation) {
            text->train_count = text->count;
            good = gpt_tokens_read(s->validation, &text->tokens, &text->count);
        }
        good = good && enough(s, text->count, text->train_count, "tokens") &&
               ((!s->merges && !s->stored) || merges_vocabulary(&text->vocabulary, s, text));
        text->vocabulary.kind = GPT_BIN;
        if (good && check_tokens(text, s)) return true;
        gpt_text_free(text);
        return false;
    }
    text->data = file_read(s->data, &text->size);
    if (text->data && text->size == 0) fprintf(stderr, "'%s' is empty: there is nothing to learn\n", s->data);
    if (text->data && text->size && enough(s, text->size, (size_t)((double)text->size * 0.9), "bytes"))
        return true;
    gpt_text_free(text);
    return false;
}

bool gpt_text_vocabulary(gpt_text *text, const gpt_source *s) {
    *text = (gpt_text){.source = s};
    if (s->tokenizer == GPT_CHAR && s->stored) return gpt_stored_vocabulary(s->stored, &text->vocabulary);
    if (s->tokenizer == GPT_BYTE) return gpt_vocabulary_bytes(&text->vocabulary);
    if (!s->merges && !s->stored) {
        fprintf(stderr,
                "without --data, what tokens stand for must be known: --tokenizer byte, or --merges FILE\n");
        return false;
    }
    const bool good = merges_vocabulary(&text->vocabulary, s, text) && enough_rows(s, &text->vocabulary);
    /* A text that was learned from may have had fewer than were asked for. */
    if (good && s->count && !(s->stored && s->tokenizer == GPT_BPE))
        text->vocabulary.count = (uint32_t)s->count;
    if (!good) gpt_text_free(text);
    return good;
}

bool gpt_text_tokenize(gpt_text *text, const gpt_source *s) {
    if (s->tokenizer == GPT_BIN) return true; /* read as tokens */
    const unsigned char *data = (const unsigned char *)text->data;
    gpt_vocabulary *vocabulary = &text->vocabulary;
    bool good = true;
    if (s->tokenizer == GPT_CHAR)
        good = s->stored ? gpt_stored_vocabulary(s->stored, vocabulary)
                         : gpt_vocabulary_chars(vocabulary, data, text->size);
    if (s->tokenizer == GPT_BYTE) good = gpt_vocabulary_bytes(vocabulary);
    if (s->tokenizer == GPT_BPE) good = merges_vocabulary(vocabulary, s, text);
    if (good) {
        text->tokens = malloc(text->size * sizeof *text->tokens);
        if (!text->tokens)
            fprintf(stderr, "no memory for the tokens of '%s' (%zu bytes)\n", s->data, text->size);
        progress_bar bar;
        progress_begin(&bar, "tokenising", "bytes", text->size);
        good = text->tokens &&
               gpt_vocabulary_encode(vocabulary, data, text->size, &bar, text->tokens, &text->count);
        progress_end(&bar);
        text->train_count = (size_t)((double)text->count * 0.9);
        good = good && enough(s, text->count, text->train_count, "tokens");
    }
    free(text->data);
    text->data = NULL;
    if (!good) gpt_text_free(text);
    return good;
}

void gpt_text_free(gpt_text *text) {
    free(text->data);
    free(text->tokens);
    gpt_vocabulary_free(&text->vocabulary);
    *text = (gpt_text){0};
}

void gpt_text_batch(const gpt_text *text, size_t first, size_t end, uint64_t rows, uint64_t block,
                    random_state *random, int32_t *out_tokens, int32_t *out_targets) {
    size_t starts = end - first - block;
    for (uint64_t r = 0; r < rows; r++) {
        const int32_t *window = text->tokens + first + random_next(random) % starts;
        memcpy(out_tokens + r * block, window, block * sizeof *window);
        memcpy(out_targets + r * block, window + 1, block * sizeof *window);
    }
}

void gpt_text_step(const gpt_text *text, uint64_t micro_batches, uint64_t rows, uint64_t block, uint32_t rank,
                   uint32_t ranks, random_state *random, int32_t *out_tokens, int32_t *out_targets) {
    for (uint64_t m = 0; m < micro_batches; m++)
        for (uint32_t k = 0; k < ranks; k++) {
            if (k == rank)
                gpt_text_batch(text, 0, text->train_count, rows, block, random, out_tokens + m * rows * block,
                               out_targets + m * rows * block);
            else
                for (uint64_t r = 0; r < rows; r++) (void)random_next(random);
        }
}
