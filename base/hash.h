/* Hashes for tables, for names of files and for checks against damage. Whoever wants two texts of one hash finds them:
 * they keep nobody out. Internal; not installed.
 *
 * Of bytes: FNV-1a, Fowler, Noll and Vo's, by draft-eastlake-fnv ("The FNV Non-Cryptographic Hash Algorithm"), whose
 * test vectors tests/base/test_base.c has. What it gives stands in files of caches and is compared between ranks: it
 * stays. */
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

/* One word whose bits are spread over all of another, one to one: the last step of splitmix64 (Steele, Lea and Flood,
 * "Fast splittable pseudorandom number generators", 2014). */
static inline uint64_t rota_hash_mix(uint64_t x) {
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* One word for a table: multiplied by 2^64 over the golden ratio (Knuth, "The Art of Computer Programming", 6.4), of
 * which the upper half has something of every bit. Cheaper than a mix, and a table of a power of two takes its lower
 * bits. */
static inline uint32_t rota_hash_word(uint64_t word) {
    return (uint32_t)(word * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

/* Of an object by its address: allocators give multiples of 16. */
static inline uint32_t rota_hash_pointer(const void *pointer) {
    return rota_hash_word((uintptr_t)pointer >> 4);
}

/* A treap's priority of a node: its address, mixed, as addresses of one allocator lie in rows. */
static inline uint32_t rota_hash_priority(const void *node) {
    return (uint32_t)(rota_hash_mix((uintptr_t)node) >> 32);
}

/* FNV-1a of 32 bits, for what people read and compare. */
#define ROTA_HASH32_BEGIN UINT32_C(0x811c9dc5)

static inline uint32_t rota_hash32_byte(uint32_t hash, uint8_t byte) {
    return (hash ^ byte) * UINT32_C(0x01000193);
}

#endif
