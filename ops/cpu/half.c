/* Arrays of 16-bit and 8-bit floats widened to f32 and narrowed, for CPU kernels of any real dtype. */
#include "cpu.h"
#include "half.h"

ROTA_VECTOR static void widen_f16(const uint16_t *restrict x, uint64_t count, float *restrict y) {
    for (uint64_t i = 0; i < count; i++) y[i] = rota_from_f16(x[i]);
}

ROTA_VECTOR static void widen_bf16(const uint16_t *restrict x, uint64_t count, float *restrict y) {
    for (uint64_t i = 0; i < count; i++) y[i] = rota_from_bf16(x[i]);
}

ROTA_VECTOR static void narrow_f16(const float *restrict x, uint64_t count, uint16_t *restrict y) {
    for (uint64_t i = 0; i < count; i++) y[i] = rota_to_f16(x[i]);
}

ROTA_VECTOR static void narrow_bf16(const float *restrict x, uint64_t count, uint16_t *restrict y) {
    for (uint64_t i = 0; i < count; i++) y[i] = rota_to_bf16(x[i]);
}

ROTA_VECTOR static void widen_f8(uint32_t dtype, const uint8_t *restrict x, uint64_t count,
                                 float *restrict y) {
    if (dtype == ROTA_F8_E4M3FN)
        for (uint64_t i = 0; i < count; i++) y[i] = rota_from_f8_e4m3fn(x[i]);
    else
        for (uint64_t i = 0; i < count; i++) y[i] = rota_from_f8_e5m2(x[i]);
}

ROTA_VECTOR static void narrow_f8(uint32_t dtype, const float *restrict x, uint64_t count,
                                  uint8_t *restrict y) {
    if (dtype == ROTA_F8_E4M3FN)
        for (uint64_t i = 0; i < count; i++) y[i] = rota_to_f8_e4m3fn(x[i]);
    else
        for (uint64_t i = 0; i < count; i++) y[i] = rota_to_f8_e5m2(x[i]);
}

const float *rota_cpu_widen(uint32_t dtype, const void *x, uint64_t from, uint64_t count, float *buffer) {
    if (dtype == ROTA_F32) return (const float *)x + from;
    if (rota_dtype_is_f8((rota_dtype)dtype))
        widen_f8(dtype, (const uint8_t *)x + from, count, buffer);
    else if (dtype == ROTA_F16)
        widen_f16((const uint16_t *)x + from, count, buffer);
    else
        widen_bf16((const uint16_t *)x + from, count, buffer);
    return buffer;
}

void rota_cpu_narrow(uint32_t dtype, const float *buffer, void *y, uint64_t first, uint64_t count) {
    if (dtype == ROTA_F16)
        narrow_f16(buffer, count, (uint16_t *)y + first);
    else if (dtype == ROTA_BF16)
        narrow_bf16(buffer, count, (uint16_t *)y + first);
    else if (rota_dtype_is_f8((rota_dtype)dtype))
        narrow_f8(dtype, buffer, count, (uint8_t *)y + first);
}
