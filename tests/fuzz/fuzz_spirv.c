/* SPIR-V: any words as a module. */
#include "exec/vk/vk_interface.h"
#include "exec/vk/vk_spirv.h"
#include "tests/fuzz/support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint32_t *words = malloc(size + 1); /* a read past the end is the sanitizer's to see */
    FUZZ_CHECK(words);
    if (size) memcpy(words, data, size);
    const rota_status status = rota_spirv_check(words, size, "main");
    FUZZ_CHECK(status == ROTA_OK || (status == ROTA_INVALID_ARGUMENT && *rota_last_error()));
    for (uint32_t operands = 0; status == ROTA_OK && operands < 4; operands++) {
        const rota_status fits = rota_spirv_check_interface(words, size, operands, 8);
        FUZZ_CHECK(fits == ROTA_OK || (fits == ROTA_INVALID_ARGUMENT && *rota_last_error()));
    }
    free(words);
    return 0;
}
