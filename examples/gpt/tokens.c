/* Token files as llm.c writes them. */
#include "examples/gpt/tokens.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/files.h"

#define HEADER_BYTES 1024
#define MAGIC 20240520u
#define VERSION 1u

static uint32_t word_at(const char *data, size_t index) {
    const unsigned char *b = (const unsigned char *)data + 4 * index;
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

bool gpt_tokens_read(const char *path, int32_t **tokens, size_t *count) {
    size_t size;
    bool good = false;
    char *data = file_read(path, &size);
    if (!data) return false;
    if (size < HEADER_BYTES || word_at(data, 0) != MAGIC || word_at(data, 1) != VERSION) {
        fprintf(stderr, "'%s' is no token file: it doesn't begin with %u, %u in a header of %d bytes\n", path,
                MAGIC, VERSION, HEADER_BYTES);
        goto done;
    }
    const size_t more = word_at(data, 2), has = (size - HEADER_BYTES) / 2;
    if (has < more) {
        fprintf(stderr, "'%s' is truncated: it has %zu tokens of %zu\n", path, has, more);
        goto done;
    }
    int32_t *all = realloc(*tokens, (*count + more + 1) * sizeof *all);
    if (!all) {
        fprintf(stderr, "no memory for the %zu tokens of '%s'\n", more, path);
        goto done;
    }
    const unsigned char *bytes = (const unsigned char *)data + HEADER_BYTES;
    for (size_t i = 0; i < more; i++, bytes += 2) all[*count + i] = bytes[0] | bytes[1] << 8;
    *tokens = all;
    *count += more;
    good = true;
done:
    free(data);
    return good;
}

bool gpt_tokens_write(const char *path, const int32_t *tokens, size_t count) {
    file_writer file;
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || tokens[i] > 0xffff) {
            fprintf(stderr, "token %zu is %" PRId32 ": a token file holds 0 to 65535\n", i, tokens[i]);
            return false;
        }
    if (count > UINT32_MAX) {
        fprintf(stderr, "%zu tokens are more than a token file can count\n", count);
        return false;
    }
    if (!file_open(&file, path)) return false;
    unsigned char header[HEADER_BYTES] = {0};
    const uint32_t words[] = {MAGIC, VERSION, (uint32_t)count};
    for (size_t i = 0; i < 12; i++) header[i] = (unsigned char)(words[i / 4] >> (i % 4 * 8));
    file_put(&file, header, sizeof header);
    for (size_t i = 0; i < count; i++) {
        const unsigned char two[2] = {(unsigned char)tokens[i], (unsigned char)(tokens[i] >> 8)};
        file_put(&file, two, 2);
    }
    return file_commit(&file);
}
