/* What tokens stand for. */
#include "examples/gpt/vocabulary.h"

#include <inttypes.h>
#include <stdlib.h>
#include "examples/common/utf8.h"

#define CODES (UTF8_RAW_BYTE + 256)

bool gpt_vocabulary_chars(gpt_vocabulary *vocabulary, const unsigned char *text, size_t size) {
    *vocabulary = (gpt_vocabulary){.kind = GPT_CHAR};
    unsigned char *occurs = calloc(CODES, 1);
    for (size_t offset = 0, length; occurs && offset < size; offset += length)
        occurs[utf8_decode(text + offset, size - offset, &length)] = 1;
    for (uint32_t code = 0; occurs && code < CODES; code++) vocabulary->count += occurs[code];
    vocabulary->codes = occurs ? malloc((vocabulary->count + 1) * sizeof *vocabulary->codes) : NULL;
    if (vocabulary->codes)
        for (uint32_t code = 0, next = 0; code < CODES; code++)
            if (occurs[code]) vocabulary->codes[next++] = code;
    free(occurs);
    if (!vocabulary->codes) fprintf(stderr, "no memory for the characters of %zu bytes\n", size);
    return vocabulary->codes != NULL;
}

bool gpt_vocabulary_bytes(gpt_vocabulary *vocabulary) {
    *vocabulary = (gpt_vocabulary){.kind = GPT_BYTE, .count = 256, .codes = malloc(256 * sizeof(uint32_t))};
    for (uint32_t i = 0; vocabulary->codes && i < 256; i++)
        vocabulary->codes[i] = i < 0x80 ? i : UTF8_RAW_BYTE + i;
    if (!vocabulary->codes) fprintf(stderr, "no memory for the numbers of 256 bytes\n");
    return vocabulary->codes != NULL;
}

void gpt_vocabulary_free(gpt_vocabulary *vocabulary) {
    free(vocabulary->codes);
    gpt_bpe_free(&vocabulary->bpe);
    *vocabulary = (gpt_vocabulary){0};
}

static bool encode_chars(const gpt_vocabulary *vocabulary, const unsigned char *text, size_t size,
                         progress_bar *progress, int32_t *out_tokens, size_t *out_count) {
    uint32_t *numbers = calloc(CODES, sizeof *numbers); /* 1 + the token of a code point */
    if (!numbers) {
        fprintf(stderr, "no memory for the numbers of characters\n");
        return false;
    }
    for (uint32_t i = 0; i < vocabulary->count; i++) numbers[vocabulary->codes[i]] = i + 1;
    size_t count = 0;
    bool good = true;
    for (size_t offset = 0, length; offset < size && good; offset += length) {
        uint32_t code = utf8_decode(text + offset, size - offset, &length);
        good = numbers[code] != 0;
        if (count % 65536 == 0) progress_at(progress, offset);
        if (good)
            out_tokens[count++] = (int32_t)numbers[code] - 1;
        else
            fprintf(stderr, "'%.*s' at byte %zu is not one of the vocabulary's %" PRIu32 " characters\n",
                    (int)length, (const char *)text + offset, offset, vocabulary->count);
    }
    free(numbers);
    *out_count = count;
    return good;
}

bool gpt_vocabulary_encode(const gpt_vocabulary *vocabulary, const unsigned char *text, size_t size,
                           progress_bar *progress, int32_t *out_tokens, size_t *out_count) {
    if (vocabulary->kind == GPT_CHAR)
        return encode_chars(vocabulary, text, size, progress, out_tokens, out_count);
    if (vocabulary->bpe.count)
        return gpt_bpe_encode(&vocabulary->bpe, text, size, progress, out_tokens, out_count);
    if (vocabulary->kind == GPT_BIN) {
        fprintf(stderr, "a token file says no words: text needs --merges FILE\n");
        return false;
    }
    for (size_t i = 0; i < size; i++) out_tokens[i] = text[i];
    *out_count = size;
    return true;
}

void gpt_vocabulary_print(const gpt_vocabulary *vocabulary, int32_t token, FILE *stream) {
    if (vocabulary->codes) {
        unsigned char utf8[4];
        fwrite(utf8, 1, utf8_encode(vocabulary->codes[token], utf8), stream);
    } else if ((uint32_t)token < vocabulary->bpe.count) {
        size_t size;
        const unsigned char *bytes = gpt_bpe_bytes(&vocabulary->bpe, (uint32_t)token, &size);
        fwrite(bytes, 1, size, stream);
    } else {
        fprintf(stream, "<%" PRId32 ">", token);
    }
}

uint64_t gpt_hash(uint64_t hash, const void *bytes, size_t size) {
    for (const unsigned char *b = bytes, *end = b + size; b < end; b++)
        hash = (hash ^ *b) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t gpt_vocabulary_hash(const gpt_vocabulary *vocabulary) {
    uint64_t hash = GPT_HASH_BEGIN;
    if (vocabulary->codes)
        for (uint32_t i = 0; i < vocabulary->count; i++) hash = gpt_hash(hash, &vocabulary->codes[i], 4);
    else if (vocabulary->bpe.count)
        for (uint32_t i = 0; i < vocabulary->bpe.count; i++) {
            size_t size;
            const unsigned char *bytes = gpt_bpe_bytes(&vocabulary->bpe, i, &size);
            hash = gpt_hash(gpt_hash(hash, &size, sizeof size), bytes, size);
        }
    else
        hash = 0;
    return hash;
}
