/* 16-bit and 8-bit floats as f32 and back, to nearest, ties to even; NaN stays NaN. Inlined, so that loops of them are
 * vectorised. Internal; not installed. */
#ifndef ROTA_BASE_HALF_H
#define ROTA_BASE_HALF_H

#include <stdint.h>
#include <string.h>

#define ROTA_INLINE static inline __attribute__((always_inline, unused))

ROTA_INLINE uint32_t rota_f32_bits(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

ROTA_INLINE float rota_f32_of_bits(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

ROTA_INLINE float rota_from_bf16(uint16_t h) {
    return rota_f32_of_bits((uint32_t)h << 16);
}

ROTA_INLINE uint16_t rota_to_bf16(float x) {
    uint32_t u = rota_f32_bits(x);
    uint32_t rounded = (u + 0x7FFFu + ((u >> 16) & 1u)) >> 16;
    uint32_t nan = (u >> 16) | 0x40u;
    return (uint16_t)((u & 0x7FFFFFFFu) > 0x7F800000u ? nan : rounded);
}

/* The exponent is moved by a multiplication with 2^112, which also makes subnormals right. */
ROTA_INLINE float rota_from_f16(uint16_t h) {
    uint32_t magnitude = ((uint32_t)h & 0x7FFFu) << 13;
    float scaled = rota_f32_of_bits(magnitude) * 0x1p112f;
    uint32_t u = rota_f32_bits(scaled);
    u = magnitude >= 0x0F800000u ? magnitude | 0x7F800000u : u;
    return rota_f32_of_bits(u | ((uint32_t)h & 0x8000u) << 16);
}

/* Round to nearest even: normal numbers by an integer carry, subnormal ones by adding 0.5, whose last
 * mantissa bit is f16's smallest step. */
ROTA_INLINE uint16_t rota_to_f16(float x) {
    uint32_t u = rota_f32_bits(x), magnitude = u & 0x7FFFFFFFu;
    uint32_t normal = (magnitude - 0x38000000u + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
    uint32_t subnormal = rota_f32_bits(rota_f32_of_bits(magnitude) + 0.5f) - 0x3F000000u;
    uint32_t h = magnitude < 0x38800000u ? subnormal : normal;
    h = magnitude >= 0x47800000u ? 0x7C00u : h;
    h = magnitude > 0x7F800000u ? 0x7E00u : h;
    return (uint16_t)(h | (u >> 16 & 0x8000u));
}

/* To 8 bits of which `mantissa` are the mantissa's, with an exponent that is biased by `bias`, saturating: what lies
 * beyond the largest finite number, `largest` as the bits of an f32, becomes that, infinities too. A subnormal result
 * by adding a number whose last mantissa bit is the format's smallest step. */
ROTA_INLINE uint8_t rota_to_f8(float x, uint32_t mantissa, uint32_t bias, uint32_t largest) {
    const uint32_t u = rota_f32_bits(x), sign = u >> 24 & 0x80u, all = u & 0x7FFFFFFFu, cut = 23 - mantissa;
    const uint32_t magnitude = all < largest ? all : largest, step = (151 - bias - mantissa) << 23;
    const uint32_t rounded = magnitude + (1u << (cut - 1)) - 1 + (magnitude >> cut & 1u);
    const uint32_t normal = (rounded - ((127 - bias) << 23)) >> cut;
    const uint32_t subnormal = rota_f32_bits(rota_f32_of_bits(magnitude) + rota_f32_of_bits(step)) - step;
    const uint32_t h = magnitude < (128 - bias) << 23 ? subnormal : normal;
    return (uint8_t)(sign | (all > 0x7F800000u ? 0x7Fu : h));
}

#define ROTA_F8_E4M3FN_LARGEST 0x43E00000u /* 448 */
#define ROTA_F8_E5M2_LARGEST 0x47600000u   /* 57344 */

ROTA_INLINE uint8_t rota_to_f8_e4m3fn(float x) {
    return rota_to_f8(x, 3, 7, ROTA_F8_E4M3FN_LARGEST);
}

ROTA_INLINE uint8_t rota_to_f8_e5m2(float x) {
    return rota_to_f8(x, 2, 15, ROTA_F8_E5M2_LARGEST);
}

/* As of f16; all ones are a NaN, and nothing is infinite. */
ROTA_INLINE float rota_from_f8_e4m3fn(uint8_t h) {
    const uint32_t magnitude = h & 0x7Fu;
    const uint32_t u = rota_f32_bits(rota_f32_of_bits(magnitude << 20) * 0x1p120f);
    return rota_f32_of_bits((magnitude == 0x7Fu ? 0x7FC00000u : u) | (h & 0x80u) << 24);
}

/* The upper half of an f16. */
ROTA_INLINE float rota_from_f8_e5m2(uint8_t h) {
    return rota_from_f16((uint16_t)(h << 8));
}

#endif
