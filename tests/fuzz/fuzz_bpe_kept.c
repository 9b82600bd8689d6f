/* The cache of byte pairs: any bytes as the kept file. What is believed can be kept again and is the same. */
#include "examples/gpt/bpe.h"
#include "tests/fuzz/support.h"

#define MOST (GPT_BPE_LEAST + 1)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[256];
    gpt_bpe bpe, again;
    snprintf(path, sizeof path, "%s", fuzz_file("kept.txt", data, size));
    if (!gpt_bpe_load_kept(path, MOST, &bpe)) return 0;
    FUZZ_CHECK(bpe.count <= MOST && gpt_bpe_keep(&bpe, path));
    FUZZ_CHECK(gpt_bpe_load_kept(path, MOST, &again));
    FUZZ_CHECK(again.merge_count == bpe.merge_count && again.count == bpe.count);
    for (uint32_t i = 0; i < bpe.merge_count; i++)
        FUZZ_CHECK(again.merges[i].left == bpe.merges[i].left &&
                   again.merges[i].right == bpe.merges[i].right &&
                   again.merges[i].result == bpe.merges[i].result);
    gpt_bpe_free(&bpe);
    gpt_bpe_free(&again);
    return 0;
}
