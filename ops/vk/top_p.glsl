/* Weights of probabilities, 64 bits each, and their sums over a workgroup; sort_keys.h in GLSL. */
#ifndef ROTA_OPS_TOP_P_GLSL
#define ROTA_OPS_TOP_P_GLSL

#include "sort.glsl"
#define SCAN_NUMBER uint64_t
#include "scan.glsl"

/* Of a key of ORDER_PROBABLE, in 2^-32ths. */
uint64_t weight_of(uint key) {
    const uint bits = ~key, exponent = bits >> 23, mantissa = bits & 0x7FFFFFu | 0x800000u;
    if (exponent >= 127u) return 0xFFFFFFFFul;
    if (exponent >= 118u) return uint64_t(mantissa << exponent - 118u);
    return exponent > 94u ? uint64_t(mantissa >> 118u - exponent) : 0ul;
}

/* What lies in two words, at a multiple of 4. */
uint64_t load_wide(uint64_t base, uint64_t i) {
    rota_u32 words = rota_u32(base + i * 8ul);
    return uint64_t(words.v[0]) | uint64_t(words.v[1]) << 32;
}

#endif
