/* Choices found by measuring: any bytes as a file of one. */
#include "ops/cuda/choices.h"
#include "tests/fuzz/support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[512];
    uint8_t value[16];
    FUZZ_CHECK(rota_choices_path(fuzz_folder(), "key", path, sizeof path));
    (void)fuzz_file(strrchr(path, '/') + 1, data, size);
    rota_choices_forget();
    if (rota_choices_find(fuzz_folder(), "key", value, sizeof value))
        FUZZ_CHECK(size > sizeof value && memcmp(value, data + size - sizeof value, sizeof value) == 0);
    rota_choices_forget();
    return 0;
}
