/* The files in which compiled images are kept. */
#include "ops/cuda/image_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/hash.h"

#define MAGIC "rotaimag"
#define VERSION 1u

typedef struct file_header {
    char magic[8];
    uint32_t version, unused;
    uint64_t key_check, size_bytes, content;
} file_header;

void rota_image_key_add(rota_image_key *key, const void *data, size_t size_bytes) {
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size_bytes; i++) {
        key->name = rota_hash_byte(key->name, bytes[i]);
        key->check = (key->check + bytes[i] + 1) * UINT64_C(0x9E3779B97F4A7C15);
        key->check ^= key->check >> 29;
    }
}

static bool path_of(const char *folder, const rota_image_key *key, char *out_path, size_t capacity) {
    const int length =
        snprintf(out_path, capacity, "%s/fused-%016llx.cubin", folder, (unsigned long long)key->name);
    return length > 0 && (size_t)length < capacity;
}

static uint64_t content_of(const void *image, size_t size_bytes) {
    rota_image_key content = {1, 1};
    rota_image_key_add(&content, image, size_bytes);
    return content.name ^ content.check;
}

bool rota_image_cache_read(const char *folder, const rota_image_key *key, void **out_image,
                           size_t *out_size_bytes) {
    char path[4096];
    if (!folder || !path_of(folder, key, path, sizeof path)) return false;
    FILE *file = rota_cache_open(path, NULL);
    if (!file) return false;
    file_header header;
    void *image = NULL;
    bool good = fread(&header, sizeof header, 1, file) == 1 && memcmp(header.magic, MAGIC, 8) == 0 &&
                header.version == VERSION && header.key_check == key->check && header.size_bytes > 0 &&
                header.size_bytes < (uint64_t)1 << 28 &&
                rota_file_bytes(file) == sizeof header + header.size_bytes &&
                (image = malloc((size_t)header.size_bytes)) &&
                fread(image, (size_t)header.size_bytes, 1, file) == 1 && fgetc(file) == EOF &&
                content_of(image, (size_t)header.size_bytes) == header.content;
    fclose(file);
    if (!good) {
        free(image);
        return false;
    }
    *out_image = image;
    *out_size_bytes = (size_t)header.size_bytes;
    return true;
}

void rota_image_cache_write(const char *folder, const rota_image_key *key, const void *image,
                            size_t size_bytes) {
    char path[4096];
    if (!folder || !folder[0] || !path_of(folder, key, path, sizeof path)) return;
    const file_header header = {.magic = MAGIC, /* without its final 0 */
                                .version = VERSION,
                                .key_check = key->check,
                                .size_bytes = size_bytes,
                                .content = content_of(image, size_bytes)};
    (void)rota_cache_write(path, &header, sizeof header, image, size_bytes);
}
