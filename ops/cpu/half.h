/* Arrays of a real dtype, or of 8-bit floats, as f32 and back, and elements of the former. Internal. */
#ifndef ROTA_OPS_CPU_HALF_H
#define ROTA_OPS_CPU_HALF_H

#include "ops/cpu/cpu.h"

/* Elements that widening and narrowing kernels take at a time. */
enum { ROTA_CPU_BLOCK = 1024 };

/* Elements [from, from + count) of a dtype of real numbers, or of 8-bit floats, as f32: where they lie if they are
 * that, else widened into `buffer`. */
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
    return dtype == ROTA_F16 ? rota_from_f16(half) : rota_from_bf16(half);
}
ROTA_INLINE void rota_cpu_put(uint32_t dtype, void *y, uint64_t i, float value) {
    if (dtype == ROTA_F32)
        ((float *)y)[i] = value;
    else
        ((uint16_t *)y)[i] = dtype == ROTA_F16 ? rota_to_f16(value) : rota_to_bf16(value);
}

#endif
