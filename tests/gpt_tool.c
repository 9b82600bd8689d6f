/* What the tests of the GPT example compare with independent programs, one command at a time. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "bench/files.h"
#include "examples/gpt_bpe.h"

static int usage(void) {
    fprintf(stderr, "gpt_tool learn TEXT COUNT MERGES | encode TEXT MERGES [VOCABULARY] | decode TOKENS "
                    "MERGES [VOCABULARY]\n");
    return 1;
}

/* Learns COUNT tokens and writes the merges. */
static int learn(const char *text_path, const char *count, const char *merges_path) {
    size_t size;
    gpt_bpe bpe;
    char *text = file_read(text_path, &size);
    if (!text) return 1;
    uint64_t begin = rota_clock_ns();
    bool good = gpt_bpe_train((unsigned char *)text, size, (uint32_t)atoi(count), &bpe);
    if (good) {
        printf("%" PRIu32 " tokens in %.2f s\n", bpe.count, (double)(rota_clock_ns() - begin) / 1e9);
        good = gpt_bpe_save(&bpe, merges_path);
    }
    gpt_bpe_free(&bpe);
    free(text);
    return !good;
}

/* One token a line. */
static int encode(const char *text_path, const char *merges_path, const char *vocabulary_path) {
    size_t size, count;
    gpt_bpe bpe;
    char *text = file_read(text_path, &size);
    int32_t *tokens = malloc((size + 1) * sizeof *tokens);
    bool good = text && tokens && gpt_bpe_load(merges_path, vocabulary_path, &bpe);
    if (good) {
        good = gpt_bpe_encode(&bpe, (unsigned char *)text, size, tokens, &count);
        for (size_t i = 0; good && i < count; i++) printf("%" PRId32 "\n", tokens[i]);
        gpt_bpe_free(&bpe);
    }
    free(text);
    free(tokens);
    return !good;
}

/* Token numbers, one a line, to bytes. */
static int decode(const char *tokens_path, const char *merges_path, const char *vocabulary_path) {
    size_t size;
    gpt_bpe bpe;
    char *text = file_read(tokens_path, &size);
    bool good = text && gpt_bpe_load(merges_path, vocabulary_path, &bpe);
    if (good) {
        for (char *at = strtok(text, "\n"); at; at = strtok(NULL, "\n")) {
            size_t length;
            const unsigned char *bytes = gpt_bpe_bytes(&bpe, (uint32_t)atoi(at), &length);
            fwrite(bytes, 1, length, stdout);
        }
        gpt_bpe_free(&bpe);
    }
    free(text);
    return !good;
}

int main(int argc, char **argv) {
    if (argc == 5 && strcmp(argv[1], "learn") == 0) return learn(argv[2], argv[3], argv[4]);
    if (argc >= 4 && strcmp(argv[1], "encode") == 0) return encode(argv[2], argv[3], argv[4]);
    if (argc >= 4 && strcmp(argv[1], "decode") == 0) return decode(argv[2], argv[3], argv[4]);
    return usage();
}
