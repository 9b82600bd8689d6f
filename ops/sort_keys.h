/* Keys, whole numbers that are in order as what is sorted is (length_params.h), and what of a number is in one; of
 * probabilities what top_p adds up: whole numbers, too, whose sums are the same in any order. C and CUDA C++;
 * vk/sort_keys.comp, unique.comp and top_p.glsl have it for shaders. */
#ifndef ROTA_OPS_SORT_KEYS_H
#define ROTA_OPS_SORT_KEYS_H

#include <stdint.h>

#ifdef __CUDACC__
#define ROTA_KEY_FN static __host__ __device__ __forceinline__
#else
#define ROTA_KEY_FN static inline __attribute__((unused))
#endif

enum { ROTA_KEY_I32 = 3, ROTA_KEY_U32 = 4 }; /* of rota_dtype; all else is f32 */

/* ROTA_SORT_RISING, of a number's bits: -0 is 0, and NaN is one value above all others. */
ROTA_KEY_FN uint32_t rota_key_rising(uint32_t dtype, uint32_t bits) {
    if (dtype == ROTA_KEY_U32) return bits;
    if (dtype == ROTA_KEY_I32) return bits ^ 0x80000000u;
    const uint32_t magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return 0xFFC00000u;
    return magnitude == 0 ? 0x80000000u : bits >> 31 ? ~bits : bits | 0x80000000u;
}

/* The bits of such a key's number. */
ROTA_KEY_FN uint32_t rota_key_number(uint32_t dtype, uint32_t key) {
    if (dtype == ROTA_KEY_U32) return key;
    if (dtype == ROTA_KEY_I32) return key ^ 0x80000000u;
    return key >> 31 ? key & 0x7FFFFFFFu : ~key;
}

/* ROTA_SORT_PROBABLE, of a float's bits: what is above 0, so neither that nor NaN, comes before all else. */
ROTA_KEY_FN uint32_t rota_key_probable(uint32_t bits) {
    return bits - 1u < 0x7F800000u ? ~bits : 0xFFFFFFFFu;
}

/* Of a key of ROTA_SORT_PROBABLE, the complement of a float's bits: the float in 2^-32ths, rounded down; below 2^32. */
ROTA_KEY_FN uint64_t rota_key_weight(uint32_t key) {
    const uint32_t bits = ~key, exponent = bits >> 23, mantissa = (bits & 0x7FFFFFu) | 0x800000u;
    if (exponent >= 127u) return 0xFFFFFFFFu; /* 1 and more */
    if (exponent >= 118u) return mantissa << (exponent - 118u);
    return exponent > 94u ? mantissa >> (118u - exponent) : 0;
}

/* ceil(p * sum), of p in 2^-31ths, rounded down; all of it where p is not below 1. The sum is below 2^63. */
ROTA_KEY_FN uint64_t rota_key_share(float p, uint64_t sum) {
    const uint32_t parts = p < 1.0f ? (p > 0.0f ? (uint32_t)(p * 2147483648.0f) : 0u) : 0x80000000u;
    return (sum >> 31) * parts + (((sum & 0x7FFFFFFFu) * parts + 0x7FFFFFFFu) >> 31);
}

#undef ROTA_KEY_FN
#endif
