/* f16 and bf16 on the host, rounded to nearest even: for operands and references of checks. */
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

/* Element i of an array of the dtype (f32, f16 or bf16). */
static inline void element_set(void *array, rota_dtype dtype, uint64_t i, float value) {
    if (dtype == ROTA_F16)
        ((uint16_t *)array)[i] = f16_from_float(value);
    else if (dtype == ROTA_BF16)
        ((uint16_t *)array)[i] = bf16_from_float(value);
    else
        ((float *)array)[i] = value;
}

static inline float element_get(const void *array, rota_dtype dtype, uint64_t i) {
    if (dtype == ROTA_F16) return f16_to_float(((const uint16_t *)array)[i]);
    if (dtype == ROTA_BF16) return bf16_to_float(((const uint16_t *)array)[i]);
    return ((const float *)array)[i];
}

#endif
