/* One element of a real dtype as f32 and back, and arrays of them. Internal. */
#ifndef ROTA_OPS_CPU_HALF_H
#define ROTA_OPS_CPU_HALF_H

#include "ops/cpu/cpu.h"

ROTA_INLINE float rota_cpu_from_bf16(uint16_t h) {
    return rota_cpu_float((uint32_t)h << 16);
}

ROTA_INLINE uint16_t rota_cpu_to_bf16(float x) {
    uint32_t u = rota_cpu_bits(x);
    uint32_t rounded = (u + 0x7FFFu + ((u >> 16) & 1u)) >> 16;
    uint32_t nan = (u >> 16) | 0x40u;
    return (uint16_t)((u & 0x7FFFFFFFu) > 0x7F800000u ? nan : rounded);
}

/* The exponent is moved by a multiplication with 2^112, which also makes subnormals right. */
ROTA_INLINE float rota_cpu_from_f16(uint16_t h) {
    uint32_t magnitude = ((uint32_t)h & 0x7FFFu) << 13;
    float scaled = rota_cpu_float(magnitude) * 0x1p112f;
    uint32_t u = rota_cpu_bits(scaled);
    u = magnitude >= 0x0F800000u ? magnitude | 0x7F800000u : u;
    return rota_cpu_float(u | ((uint32_t)h & 0x8000u) << 16);
}

/* Round to nearest even: normal numbers by an integer carry, subnormal ones by adding 0.5, whose last
 * mantissa bit is f16's smallest step. */
ROTA_INLINE uint16_t rota_cpu_to_f16(float x) {
    uint32_t u = rota_cpu_bits(x), magnitude = u & 0x7FFFFFFFu;
    uint32_t normal = (magnitude - 0x38000000u + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
    uint32_t subnormal = rota_cpu_bits(rota_cpu_float(magnitude) + 0.5f) - 0x3F000000u;
    uint32_t h = magnitude < 0x38800000u ? subnormal : normal;
    h = magnitude >= 0x47800000u ? 0x7C00u : h;
    h = magnitude > 0x7F800000u ? 0x7E00u : h;
    return (uint16_t)(h | (u >> 16 & 0x8000u));
}

/* Elements that widening and narrowing kernels take at a time. */
enum { ROTA_CPU_BLOCK = 1024 };

/* Elements [from, from + count) of a dtype of real numbers as f32: where they lie if they are that, else
 * widened into `buffer`. */
const float *rota_cpu_widen(uint32_t dtype, const void *x, uint64_t from, uint64_t count, float *buffer);
/* Where to put results for elements from `first` on: their own place if they are f32, else `buffer`, from where
 * rota_cpu_narrow rounds them to it. */
ROTA_INLINE float *rota_cpu_results(uint32_t dtype, void *y, uint64_t first, float *buffer) {
    return dtype == ROTA_F32 ? (float *)y + first : buffer;
}
void rota_cpu_narrow(uint32_t dtype, const float *buffer, void *y, uint64_t first, uint64_t count);

ROTA_INLINE float rota_cpu_get(uint32_t dtype, const void *x, uint64_t i) {
    if (dtype == ROTA_F32) return ((const float *)x)[i];
    const uint16_t half = ((const uint16_t *)x)[i];
    return dtype == ROTA_F16 ? rota_cpu_from_f16(half) : rota_cpu_from_bf16(half);
}
ROTA_INLINE void rota_cpu_put(uint32_t dtype, void *y, uint64_t i, float value) {
    if (dtype == ROTA_F32)
        ((float *)y)[i] = value;
    else
        ((uint16_t *)y)[i] = dtype == ROTA_F16 ? rota_cpu_to_f16(value) : rota_cpu_to_bf16(value);
}

#endif
