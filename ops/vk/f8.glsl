/* Conversions between f32 and 8-bit floats, of which base/half.h says more: rounded to nearest even by integer
 * arithmetic, saturating. */
#ifndef ROTA_OPS_F8_GLSL
#define ROTA_OPS_F8_GLSL

const uint DTYPE_F8_E4M3FN = 5u, DTYPE_F8_E5M2 = 6u; /* rota_dtype */

bool is_f8(uint dtype) { return dtype == DTYPE_F8_E4M3FN || dtype == DTYPE_F8_E5M2; }

uint to_f8(uint dtype, float value) {
    const bool wide = dtype == DTYPE_F8_E5M2;
    const uint cut = wide ? 21u : 20u, bias = wide ? 15u : 7u; /* bits that are rounded off; of the exponent */
    const uint bits = floatBitsToUint(value), sign = (bits >> 24) & 0x80u;
    const uint magnitude = min(bits & 0x7FFFFFFFu, wide ? 0x47600000u : 0x43E00000u);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return sign | 0x7Fu;
    if (magnitude >= (128u - bias) << 23) {
        const uint rounded = magnitude + (1u << (cut - 1u)) - 1u + ((magnitude >> cut) & 1u);
        return sign | ((rounded - ((127u - bias) << 23)) >> cut);
    }
    /* A subnormal number: the mantissa with its leading one, in units of the smallest. */
    const uint shift = cut + 128u - bias - (magnitude >> 23);
    if (shift > 25u) return sign; /* below half of the smallest */
    const uint mantissa = (magnitude & 0x7FFFFFu) | 0x800000u, kept = mantissa >> shift;
    const uint lost = mantissa & ((1u << shift) - 1u), tie = 1u << (shift - 1u);
    return sign | (kept + (lost > tie || (lost == tie && (kept & 1u) != 0u) ? 1u : 0u));
}

float from_f8(uint dtype, uint code) {
    const bool wide = dtype == DTYPE_F8_E5M2;
    const uint cut = wide ? 21u : 20u, bias = wide ? 15u : 7u;
    const uint sign = (code & 0x80u) << 24, magnitude = code & 0x7Fu;
    if (wide && magnitude >= 0x7Cu) return uintBitsToFloat(sign | 0x7F800000u | (magnitude & 3u) << 21);
    if (!wide && magnitude == 0x7Fu) return uintBitsToFloat(sign | 0x7FC00000u);
    if (magnitude >> (23u - cut) != 0u) return uintBitsToFloat(sign | ((magnitude << cut) + ((127u - bias) << 23)));
    const float small = float(magnitude) * (wide ? 0.0000152587890625 : 0.001953125); /* 2^-16, 2^-9: exact */
    return sign != 0u ? -small : small;
}

#endif
