/* The text that train_gpt learns: read, cut into tokens, split, sampled. */
#include "examples/gpt_data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "bench/files.h"

/* The code point at s[0..left) and its length; a byte that does not begin valid UTF-8 stands for itself. */
static uint32_t decode(const unsigned char *s, size_t left, size_t *out_length) {
    static const struct {
        unsigned char mask, lead;
        size_t length;
        uint32_t least;
    } forms[] = {{0x80, 0x00, 1, 0}, {0xe0, 0xc0, 2, 0x80}, {0xf0, 0xe0, 3, 0x800}, {0xf8, 0xf0, 4, 0x10000}};
    *out_length = 1;
    for (size_t f = 0; f < 4; f++) {
        if ((s[0] & forms[f].mask) != forms[f].lead || left < forms[f].length) continue;
        uint32_t code = s[0] & (unsigned char)~forms[f].mask;
        for (size_t i = 1; i < forms[f].length; i++) {
            if ((s[i] & 0xc0) != 0x80) return GPT_RAW_BYTE + s[0];
            code = code << 6 | (s[i] & 0x3fu);
        }
        if (code < forms[f].least || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
            return GPT_RAW_BYTE + s[0];
        *out_length = forms[f].length;
        return code;
    }
    return GPT_RAW_BYTE + s[0];
}

/* Fills tokens with code points and the vocabulary with those that occur, then renumbers the tokens. */
static bool tokenize_chars(gpt_text *text, const unsigned char *data, size_t size) {
    uint32_t *number = calloc(GPT_RAW_BYTE + 256, sizeof *number);
    if (!number) return false;
    for (size_t at = 0, length; at < size; at += length) {
        uint32_t code = decode(data + at, size - at, &length);
        text->tokens[text->count++] = (int32_t)code;
        number[code] = 1;
    }
    for (uint32_t code = 0; code < GPT_RAW_BYTE + 256; code++) text->vocabulary_count += number[code];
    text->vocabulary = malloc(text->vocabulary_count * sizeof *text->vocabulary);
    if (text->vocabulary) {
        uint32_t next = 0;
        for (uint32_t code = 0; code < GPT_RAW_BYTE + 256; code++)
            if (number[code]) {
                number[code] = next;
                text->vocabulary[next++] = code;
            }
        for (size_t i = 0; i < text->count; i++) text->tokens[i] = (int32_t)number[text->tokens[i]];
    }
    free(number);
    return text->vocabulary != NULL;
}

static bool tokenize_bytes(gpt_text *text, const unsigned char *data, size_t size) {
    text->vocabulary_count = 256;
    text->vocabulary = malloc(256 * sizeof *text->vocabulary);
    if (!text->vocabulary) return false;
    for (uint32_t i = 0; i < 256; i++) text->vocabulary[i] = i < 0x80 ? i : GPT_RAW_BYTE + i;
    for (size_t i = 0; i < size; i++) text->tokens[i] = data[i];
    text->count = size;
    return true;
}

bool gpt_text_load(gpt_text *text, const char *path, gpt_tokenizer tokenizer, uint64_t block) {
    *text = (gpt_text){0};
    size_t size;
    char *data = file_read(path, &size);
    if (!data) return false;
    bool good = false;
    if (size == 0) {
        fprintf(stderr, "'%s' is empty: there is nothing to learn\n", path);
        goto done;
    }
    text->tokens = malloc(size * sizeof *text->tokens);
    if (!text->tokens || !(tokenizer == GPT_CHAR ? tokenize_chars(text, (const unsigned char *)data, size)
                                                 : tokenize_bytes(text, (const unsigned char *)data, size))) {
        fprintf(stderr, "no memory for the tokens of '%s' (%zu bytes)\n", path, size);
        goto done;
    }
    text->train_count = (size_t)((double)text->count * 0.9);
    size_t validation = text->count - text->train_count;
    if (text->train_count < block + 1 || validation < 2) {
        fprintf(stderr,
                "'%s' has %zu tokens, %zu for training and %zu for validation: too few for a block of %zu "
                "(training needs a block and one more, validation 2)\n",
                path, text->count, text->train_count, validation, (size_t)block);
        goto done;
    }
    good = true;
done:
    free(data);
    if (!good) gpt_text_free(text);
    return good;
}

void gpt_text_free(gpt_text *text) {
    free(text->tokens);
    free(text->vocabulary);
    *text = (gpt_text){0};
}

void gpt_text_print(const gpt_text *text, int32_t token, FILE *stream) {
    uint32_t code = text->vocabulary[token];
    if (code >= GPT_RAW_BYTE || code < 0x80) {
        fputc((int)(code & 0xff), stream);
    } else if (code < 0x800) {
        fprintf(stream, "%c%c", (int)(0xc0 | code >> 6), (int)(0x80 | (code & 0x3f)));
    } else if (code < 0x10000) {
        fprintf(stream, "%c%c%c", (int)(0xe0 | code >> 12), (int)(0x80 | (code >> 6 & 0x3f)),
                (int)(0x80 | (code & 0x3f)));
    } else {
        fprintf(stream, "%c%c%c%c", (int)(0xf0 | code >> 18), (int)(0x80 | (code >> 12 & 0x3f)),
                (int)(0x80 | (code >> 6 & 0x3f)), (int)(0x80 | (code & 0x3f)));
    }
}

uint64_t gpt_random_next(gpt_random *random) {
    uint64_t z = (random->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

double gpt_random_uniform(gpt_random *random) {
    return (double)(gpt_random_next(random) >> 11) * 0x1p-53;
}

/* Box-Muller; the second value is dropped so that the state stays one word. */
double gpt_random_normal(gpt_random *random) {
    double radius = sqrt(-2 * log(1 - gpt_random_uniform(random)));
    return radius * cos(6.283185307179586 * gpt_random_uniform(random));
}

void gpt_text_batch(const gpt_text *text, size_t first, size_t end, uint64_t rows, uint64_t block,
                    gpt_random *random, int32_t *out_tokens, int32_t *out_targets) {
    size_t places = end - first - block;
    for (uint64_t r = 0; r < rows; r++) {
        const int32_t *at = text->tokens + first + gpt_random_next(random) % places;
        memcpy(out_tokens + r * block, at, block * sizeof *at);
        memcpy(out_targets + r * block, at + 1, block * sizeof *at);
    }
}
