/* Compiled images in the cache folder, a file each. Internal; not installed. */
#ifndef ROTA_OPS_CUDA_IMAGE_CACHE_H
#define ROTA_OPS_CUDA_IMAGE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/hash.h"

/* Everything that an image is made from, as two hashes of different kinds: one names the file, the other
 * stands in it. */
typedef struct rota_image_key {
    uint64_t name, check;
} rota_image_key;
#define ROTA_IMAGE_KEY_INIT                                                                                  \
    { ROTA_HASH_BEGIN, 1 }

void rota_image_key_add(rota_image_key *key, const void *data, size_t size_bytes);

/* The image of the key from `folder` (NULL: none); the caller frees it. A file that is damaged, cut short, of
 * another key, or that another user may have written counts as none. Any thread; may block. */
bool rota_image_cache_read(const char *folder, const rota_image_key *key, void **out_image,
                           size_t *out_size_bytes);

/* Keeps it; a reader sees a whole file or none. What can't be written is not kept, and that is no error. Any
 * thread; may block. */
void rota_image_cache_write(const char *folder, const rota_image_key *key, const void *image,
                            size_t size_bytes);

#endif
