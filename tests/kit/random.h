/* A small seeded generator (splitmix64, public domain algorithm of S. Vigna) for reproducible tests. */
#ifndef ROTA_TESTS_RANDOM_H
#define ROTA_TESTS_RANDOM_H

#include <stdint.h>

static inline uint64_t test_random(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Uniform enough in [0, bound). */
static inline uint32_t test_below(uint64_t *state, uint32_t bound) {
    return (uint32_t)(((test_random(state) >> 32) * bound) >> 32);
}

#endif
