/* FNV-1a: a hash for tables, for names of files and for checks against damage. Whoever wants two texts of one hash
 * finds them: it keeps nobody out. Internal; not installed.
 *
 * Fowler, Noll and Vo's, by draft-eastlake-fnv ("The FNV Non-Cryptographic Hash Algorithm"), whose test vectors
 * tests/base/test_base.c has. What it gives stands in files of caches and is compared between ranks: it stays. */
#ifndef ROTA_BASE_HASH_H
#define ROTA_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* What a hash begins with (with a seed: ROTA_HASH_BEGIN ^ seed), and what each step multiplies by. */
#define ROTA_HASH_BEGIN UINT64_C(0xcbf29ce484222325)
#define ROTA_HASH_PRIME UINT64_C(0x100000001b3)

static inline uint64_t rota_hash_byte(uint64_t hash, uint8_t byte) {
    return (hash ^ byte) * ROTA_HASH_PRIME;
}

/* `hash` is that of what came before: a text may be given in pieces. */
static inline uint64_t rota_hash_bytes(uint64_t hash, const void *data, size_t size_bytes) {
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size_bytes; i++) hash = rota_hash_byte(hash, bytes[i]);
    return hash;
}

/* Without its final 0. */
static inline uint64_t rota_hash_text(uint64_t hash, const char *text) {
    for (; *text; text++) hash = rota_hash_byte(hash, (uint8_t)*text);
    return hash;
}

/* The same of 32 bits, for what people read and compare. */
#define ROTA_HASH32_BEGIN UINT32_C(0x811c9dc5)

static inline uint32_t rota_hash32_byte(uint32_t hash, uint8_t byte) {
    return (hash ^ byte) * UINT32_C(0x01000193);
}

#endif
