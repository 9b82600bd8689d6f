/* vocab.json, any bytes as one: of the bytes alone, or of a few merges, as the first byte says. */
#include "examples/gpt/bpe.h"
#include "tests/fuzz/support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char merges[] = "#version: 0.2\nt h\nth e\n< |\n";
    char path[256];
    gpt_bpe bpe;
    if (!size) return 0;
    snprintf(path, sizeof path, "%s", fuzz_file("merges.txt", merges, data[0] % 2 ? sizeof merges - 1 : 0));
    if (gpt_bpe_load(path, fuzz_file("vocab.json", data + 1, size - 1), &bpe)) {
        int32_t tokens[8];
        size_t count;
        FUZZ_CHECK(gpt_bpe_encode(&bpe, (const unsigned char *)"the <|e", 7, NULL, tokens, &count) &&
                   count <= 7);
        for (size_t i = 0; i < count; i++) FUZZ_CHECK(tokens[i] >= 0 && (uint32_t)tokens[i] < bpe.count);
        gpt_bpe_free(&bpe);
    }
    return 0;
}
