/* f16, bf16 and 8-bit floats on the host, rounded to nearest even: for operands and references of checks. */
#ifndef ROTA_BENCH_HALF_H
#define ROTA_BENCH_HALF_H

#include <stdint.h>
#include <string.h>
#include "ops/tensor.h"

static inline uint32_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float bits_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Shifts right, rounding to nearest even. */
static inline uint32_t shift_even(uint32_t value, uint32_t shift) {
    if (shift > 31) return 0;
    uint32_t kept = value >> shift, rest = value & ((UINT32_C(1) << shift) - 1),
             half = UINT32_C(1) << (shift - 1);
    return kept + (rest > half || (rest == half && (kept & 1)));
}

static inline uint16_t f16_from_float(float value) {
    uint32_t bits = float_bits(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x47800000) return (uint16_t)(sign | 0x7c00);
    if (magnitude >= 0x38800000) return (uint16_t)(sign | shift_even(magnitude - 0x38000000, 13));
    /* Subnormal: the mantissa with its leading one, shifted to units of 2^-24. */
    uint32_t exponent = magnitude >> 23;
    return (uint16_t)(sign | shift_even((magnitude & 0x7fffff) | 0x800000, 126 - exponent));
}

static inline float f16_to_float(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, mantissa = half & 0x3ff;
    if (exponent == 31) return bits_float(sign | 0x7f800000 | mantissa << 13);
    if (exponent) return bits_float(sign | (exponent + 112) << 23 | mantissa << 13);
    float value = (float)mantissa * 0x1p-24f;
    return sign ? -value : value;
}

static inline uint16_t bf16_from_float(float value) {
    uint32_t bits = float_bits(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)shift_even(bits, 16);
}

static inline float bf16_to_float(uint16_t half) {
    return bits_float((uint32_t)half << 16);
}

/* 8-bit floats of so many bits of mantissa, the exponent biased by `bias`; saturating. */
static inline uint8_t f8_from_float(float value, uint32_t mantissa, uint32_t bias, float largest) {
    uint32_t bits = float_bits(value), sign = bits >> 24 & 0x80, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return (uint8_t)(sign | 0x7f);
    if (magnitude > float_bits(largest)) magnitude = float_bits(largest);
    uint32_t exponent = magnitude >> 23, cut = 23 - mantissa;
    if (exponent >= 128 - bias) return (uint8_t)(sign | shift_even(magnitude - ((127 - bias) << 23), cut));
    return (uint8_t)(sign | shift_even((magnitude & 0x7fffff) | 0x800000, cut + 128 - bias - exponent));
}

static inline float f8_to_float(uint8_t code, uint32_t mantissa, uint32_t bias) {
    uint32_t exponent = (code & 0x7fu) >> mantissa, fraction = code & ((1u << mantissa) - 1);
    uint32_t sign = (code & 0x80u) << 24, cut = 23 - mantissa;
    if (mantissa == 3 ? (code & 0x7f) == 0x7f : exponent == 31)
        return bits_float(sign | 0x7f800000 | fraction << cut);
    if (exponent) return bits_float(sign | (exponent + 127 - bias) << 23 | fraction << cut);
    float value = (float)fraction * bits_float((128 - bias - mantissa) << 23);
    return sign ? -value : value;
}

/* Element i of an array of the dtype (f32, f16, bf16, or one of 8 bits). */
static inline void element_set(void *array, rota_dtype dtype, uint64_t i, float value) {
    if (dtype == ROTA_F16)
        ((uint16_t *)array)[i] = f16_from_float(value);
    else if (dtype == ROTA_BF16)
        ((uint16_t *)array)[i] = bf16_from_float(value);
    else if (dtype == ROTA_F8_E4M3FN)
        ((uint8_t *)array)[i] = f8_from_float(value, 3, 7, 448);
    else if (dtype == ROTA_F8_E5M2)
        ((uint8_t *)array)[i] = f8_from_float(value, 2, 15, 57344);
    else
        ((float *)array)[i] = value;
}

static inline float element_get(const void *array, rota_dtype dtype, uint64_t i) {
    if (dtype == ROTA_F16) return f16_to_float(((const uint16_t *)array)[i]);
    if (dtype == ROTA_BF16) return bf16_to_float(((const uint16_t *)array)[i]);
    if (dtype == ROTA_F8_E4M3FN) return f8_to_float(((const uint8_t *)array)[i], 3, 7);
    if (dtype == ROTA_F8_E5M2) return f8_to_float(((const uint8_t *)array)[i], 2, 15);
    return ((const float *)array)[i];
}

#endif
