/* Token files. What is read can be written, and is the same. */
#include "examples/gpt/tokens.h"
#include "tests/fuzz/support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int32_t *tokens = NULL, *again = NULL;
    size_t count = 0, count_again = 0;
    char path[256];
    snprintf(path, sizeof path, "%s", fuzz_file("tokens.bin", data, size));
    if (gpt_tokens_read(path, &tokens, &count)) {
        FUZZ_CHECK(gpt_tokens_write(path, tokens, count) && gpt_tokens_read(path, &again, &count_again));
        FUZZ_CHECK(count == count_again && (!count || memcmp(tokens, again, count * sizeof *tokens) == 0));
    }
    free(tokens);
    free(again);
    return 0;
}
