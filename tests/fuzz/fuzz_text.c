/* A text to learn: merges out of it, and its characters; what either makes of the text is the text. */
#include "examples/gpt/vocabulary.h"
#include "tests/fuzz/support.h"

static void check(const gpt_vocabulary *vocabulary, const uint8_t *text, size_t size) {
    int32_t *tokens = malloc((size + 1) * sizeof *tokens);
    size_t count = 0, offset = 0, length = 0;
    char *written = NULL;
    FUZZ_CHECK(tokens && gpt_vocabulary_encode(vocabulary, text, size, NULL, tokens, &count) &&
               count <= size);
    FILE *stream = open_memstream(&written, &length);
    FUZZ_CHECK(stream);
    for (size_t i = 0; i < count; i++) {
        FUZZ_CHECK(tokens[i] >= 0 && (uint32_t)tokens[i] < vocabulary->count);
        gpt_vocabulary_print(vocabulary, tokens[i], stream);
    }
    fclose(stream);
    FUZZ_CHECK(length == size && (!size || memcmp(written + offset, text, size) == 0));
    free(written);
    free(tokens);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    gpt_vocabulary pairs = {.kind = GPT_BPE}, chars;
    const uint32_t most = GPT_BPE_LEAST + data[0];
    if (data[0] % 2 == 0 && gpt_bpe_train(data + 1, size - 1, most, NULL, &pairs.bpe)) {
        pairs.count = pairs.bpe.count;
        FUZZ_CHECK(pairs.count <= most);
        check(&pairs, data + 1, size - 1);
    }
    gpt_vocabulary_free(&pairs);
    if (data[0] % 2 == 0) return 0;
    FUZZ_CHECK(gpt_vocabulary_chars(&chars, data + 1, size - 1));
    check(&chars, data + 1, size - 1);
    gpt_vocabulary_free(&chars);
    return 0;
}
