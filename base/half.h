/* 16-bit floats as f32 and back, to nearest, ties to even; NaN stays NaN. Inlined, so that loops of them are
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

#endif
