/* The cache of Vulkan pipelines: any bytes as its file. */
#include "exec/vk/vk_cache.h"
#include "tests/fuzz/support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    FILE *file = fopen(fuzz_file("vk.bin", data, size), "rb");
    FUZZ_CHECK(file);
    size_t payload = 0;
    uint8_t *bytes = rota_vk_cache_read(file, &payload);
    fclose(file);
    FUZZ_CHECK(!bytes ||
               (payload > 0 && payload < size && memcmp(bytes, data + size - payload, payload) == 0));
    free(bytes);
    return 0;
}
