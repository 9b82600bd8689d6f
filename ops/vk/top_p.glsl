/* Sums of weights, 64 bits each, over a workgroup of 256 invocations; probability.h in GLSL. */
#ifndef ROTA_OPS_TOP_P_GLSL
#define ROTA_OPS_TOP_P_GLSL

#include "sort.glsl"

#define GROUP 256u

shared uint64_t rota_weights[GROUP];

/* The sum of the weights of the invocations before this one, and of all. */
uint64_t weight_before(uint64_t weight, out uint64_t total) {
    const uint t = gl_LocalInvocationIndex;
    uint64_t sum = weight;
    rota_weights[t] = sum;
    barrier();
    for (uint step = 1u; step < GROUP; step <<= 1) {
        const uint64_t left = t >= step ? rota_weights[t - step] : 0ul;
        barrier();
        sum += left;
        rota_weights[t] = sum;
        barrier();
    }
    total = rota_weights[GROUP - 1u];
    barrier();
    return sum - weight;
}

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
