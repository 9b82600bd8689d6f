/* What top_p adds up: whole numbers, whose sums are the same in any order. C and CUDA C++; vk/top_p.glsl has it for
 * shaders. */
#ifndef ROTA_OPS_PROBABILITY_H
#define ROTA_OPS_PROBABILITY_H

#include <stdint.h>

#ifdef __CUDACC__
#define ROTA_PROBABILITY_FN static __host__ __device__ __forceinline__
#else
#define ROTA_PROBABILITY_FN static inline __attribute__((unused))
#endif

/* Of a key of ROTA_SORT_PROBABLE, the complement of a float's bits: the float in 2^-32ths, rounded down; below 2^32. */
ROTA_PROBABILITY_FN uint64_t rota_probability_weight(uint32_t key) {
    const uint32_t bits = ~key, exponent = bits >> 23, mantissa = (bits & 0x7FFFFFu) | 0x800000u;
    if (exponent >= 127u) return 0xFFFFFFFFu; /* 1 and more */
    if (exponent >= 118u) return mantissa << (exponent - 118u);
    return exponent > 94u ? mantissa >> (118u - exponent) : 0;
}

/* ceil(p * sum), of p in 2^-31ths, rounded down; all of it where p is not below 1. The sum is below 2^63. */
ROTA_PROBABILITY_FN uint64_t rota_probability_share(float p, uint64_t sum) {
    const uint32_t parts = p < 1.0f ? (p > 0.0f ? (uint32_t)(p * 2147483648.0f) : 0u) : 0x80000000u;
    return (sum >> 31) * parts + (((sum & 0x7FFFFFFFu) * parts + 0x7FFFFFFFu) >> 31);
}

#undef ROTA_PROBABILITY_FN
#endif
