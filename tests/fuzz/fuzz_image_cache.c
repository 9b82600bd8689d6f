/* Kept CUDA images: any bytes as a file of one. */
#include "ops/cuda/image_cache.h"
#include "tests/fuzz/support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    rota_image_key key = ROTA_IMAGE_KEY_INIT;
    char name[64];
    void *image;
    size_t bytes;
    rota_image_key_add(&key, "fuzz", 4);
    snprintf(name, sizeof name, "fused-%016llx.cubin", (unsigned long long)key.name);
    (void)fuzz_file(name, data, size);
    if (rota_image_cache_read(fuzz_folder(), &key, &image, &bytes)) {
        FUZZ_CHECK(bytes > 0 && bytes < size && memcmp(image, data + size - bytes, bytes) == 0);
        free(image);
    }
    return 0;
}
