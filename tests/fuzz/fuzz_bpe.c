/* Byte pairs: merges, a vocabulary and a text, 0xff between them. What they make of the text is the text. */
#include "examples/gpt/bpe.h"
#include "tests/fuzz/support.h"

static void encode(const gpt_bpe *bpe, const uint8_t *text, size_t size) {
    int32_t *tokens = malloc((size + 1) * sizeof *tokens);
    size_t count = 0, offset = 0, length;
    FUZZ_CHECK(tokens);
    FUZZ_CHECK(gpt_bpe_encode(bpe, text, size, NULL, tokens, &count) && count <= size);
    for (size_t i = 0; i < count; i++, offset += length) {
        FUZZ_CHECK(tokens[i] >= 0 && (uint32_t)tokens[i] < bpe->count);
        const unsigned char *bytes = gpt_bpe_bytes(bpe, (uint32_t)tokens[i], &length);
        FUZZ_CHECK(length <= size - offset && (!length || memcmp(bytes, text + offset, length) == 0));
    }
    FUZZ_CHECK(offset == size);
    free(tokens);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char merges[256], vocabulary[256];
    const uint8_t *bytes = data;
    size_t part = fuzz_part(&data, &size);
    snprintf(merges, sizeof merges, "%s", fuzz_file("merges.txt", bytes, part));
    bytes = data;
    part = fuzz_part(&data, &size);
    snprintf(vocabulary, sizeof vocabulary, "%s", fuzz_file("vocab.json", bytes, part));
    gpt_bpe bpe;
    if (gpt_bpe_load(merges, part ? vocabulary : NULL, &bpe)) {
        encode(&bpe, data, size);
        for (uint32_t token = 0; token < bpe.count; token++) (void)gpt_bpe_bytes(&bpe, token, &part);
        FUZZ_CHECK(gpt_bpe_end_of_text(&bpe) < bpe.count);
        gpt_bpe_free(&bpe);
    }
    return 0;
}
