/* 8-bit floats, read as f32 and rounded from it, to nearest even, saturating, by integer arithmetic: devices before 89
 * have no instruction for it, and all executors give the same bits so. */
#ifndef ROTA_OPS_CUDA_F8_CUH
#define ROTA_OPS_CUDA_F8_CUH

#include "ops/cuda/typed.cuh"

/* Names for their bits. */
struct f8_e4m3fn {
    uint8_t bits;
};
struct f8_e5m2 {
    uint8_t bits;
};
ROTA_DEVICE float from_f8(uint32_t code, uint32_t mantissa, uint32_t bias, float step) {
    const uint32_t sign = (code & 0x80u) << 24, magnitude = code & 0x7Fu;
    if (magnitude >> mantissa != 0)
        return __uint_as_float(sign | ((magnitude << (23 - mantissa)) + ((127 - bias) << 23)));
    return __uint_as_float(sign | __float_as_uint(__uint2float_rn(magnitude) * step));
}
ROTA_DEVICE float widen(f8_e4m3fn x) {
    if ((x.bits & 0x7Fu) == 0x7Fu) return __uint_as_float((x.bits & 0x80u) << 24 | 0x7FC00000u);
    return from_f8(x.bits, 3, 7, 0.001953125f); /* 2^-9 */
}
ROTA_DEVICE float widen(f8_e5m2 x) {
    if ((x.bits & 0x7Fu) >= 0x7Cu)
        return __uint_as_float((x.bits & 0x80u) << 24 | 0x7F800000u | (x.bits & 3u) << 21);
    return from_f8(x.bits, 2, 15, 0.0000152587890625f); /* 2^-16 */
}

/* rota_to_f8 of base/half.h. */
ROTA_DEVICE uint8_t to_f8(float x, uint32_t mantissa, uint32_t bias, uint32_t largest) {
    const uint32_t u = __float_as_uint(x), sign = u >> 24 & 0x80u, all = u & 0x7FFFFFFFu, cut = 23 - mantissa;
    const uint32_t magnitude = min(all, largest), step = (151 - bias - mantissa) << 23;
    const uint32_t rounded = magnitude + (1u << (cut - 1)) - 1 + (magnitude >> cut & 1u);
    const uint32_t normal = (rounded - ((127 - bias) << 23)) >> cut;
    const uint32_t subnormal = __float_as_uint(__fadd_rn(__uint_as_float(magnitude), __uint_as_float(step))) - step;
    const uint32_t h = magnitude < (128 - bias) << 23 ? subnormal : normal;
    return static_cast<uint8_t>(sign | (all > 0x7F800000u ? 0x7Fu : h));
}
template <> ROTA_DEVICE f8_e4m3fn narrow<f8_e4m3fn>(float x) { return {to_f8(x, 3, 7, 0x43E00000u)}; }
template <> ROTA_DEVICE f8_e5m2 narrow<f8_e5m2>(float x) { return {to_f8(x, 2, 15, 0x47600000u)}; }

#endif
