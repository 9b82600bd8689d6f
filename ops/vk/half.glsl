/* Conversions between f32 and the 16-bit formats, rounded to nearest even by integer arithmetic: the rounding of a
 * driver's own conversion is not fixed by Vulkan. Needs ROTA_USE_F16. */
#ifndef ROTA_OPS_HALF_GLSL
#define ROTA_OPS_HALF_GLSL

const uint DTYPE_F32 = 0u, DTYPE_F16 = 1u, DTYPE_BF16 = 2u; /* rota_dtype */

uint to_f16(float value) {
    const uint bits = floatBitsToUint(value), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu);
    if (magnitude >= 0x477FF000u) return sign | 0x7C00u; /* rounds beyond 65504 */
    if (magnitude >= 0x38800000u) /* a normal number: exponent rebased, 13 bits rounded off */
        return sign | ((magnitude - 0x38000000u + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13);
    if (magnitude < 0x33000000u) return sign; /* below half of the smallest */
    const uint shift = 126u - (magnitude >> 23), mantissa = (magnitude & 0x7FFFFFu) | 0x800000u;
    const uint kept = mantissa >> shift, lost = mantissa & ((1u << shift) - 1u), tie = 1u << (shift - 1u);
    return sign | (kept + (lost > tie || (lost == tie && (kept & 1u) != 0u) ? 1u : 0u));
}

float from_f16(uint half_bits) {
    const uint sign = (half_bits & 0x8000u) << 16, magnitude = half_bits & 0x7FFFu;
    if (magnitude >= 0x7C00u) return uintBitsToFloat(sign | 0x7F800000u | ((magnitude & 0x3FFu) << 13));
    if (magnitude >= 0x400u) return uintBitsToFloat(sign | ((magnitude << 13) + 0x38000000u));
    const float small = float(magnitude) * 5.9604644775390625e-8; /* 2^-24, exact */
    return sign != 0u ? -small : small;
}

/* Of a 16-bit dtype. */
float half_widen(uint dtype, uint bits) { return dtype == DTYPE_F16 ? from_f16(bits) : rota_from_bf16(bits); }
uint half_narrow(uint dtype, float value) { return dtype == DTYPE_F16 ? to_f16(value) : rota_to_bf16(value); }

/* Four elements of a 16-bit dtype as two words. */
vec4 half_unpack(uint dtype, uvec2 words) {
    return vec4(half_widen(dtype, words.x & 0xFFFFu), half_widen(dtype, words.x >> 16),
                half_widen(dtype, words.y & 0xFFFFu), half_widen(dtype, words.y >> 16));
}
uvec2 half_pack(uint dtype, vec4 value) {
    return uvec2(half_narrow(dtype, value.x) | half_narrow(dtype, value.y) << 16,
                 half_narrow(dtype, value.z) | half_narrow(dtype, value.w) << 16);
}

/* Elements [i, i + 4) of a 16-bit dtype: all are there, i is divisible by 4, and half_aligned takes `base`. */
layout(buffer_reference, std430, buffer_reference_align = 8) buffer half_words { uvec2 v[]; };
vec4 half_load4(uint dtype, uint64_t base, uint i) {
    return half_unpack(dtype, half_words(base + uint64_t(i) * 2ul).v[0]);
}
void half_store4(uint dtype, uint64_t base, uint i, vec4 value) {
    half_words(base + uint64_t(i) * 2ul).v[0] = half_pack(dtype, value);
}
bool half_aligned(uint64_t address) { return (uint(address) & 7u) == 0u; }

float load_as(uint dtype, uint64_t base, uint i) {
    if (dtype == DTYPE_F32) return load(base, i);
    return half_widen(dtype, uint(rota_u16(base + uint64_t(i) * 2ul).v[0]));
}

float load_as64(uint dtype, uint64_t base, uint64_t i) {
    if (dtype == DTYPE_F32) return rota_f32(base + i * 4ul).v[0];
    return half_widen(dtype, uint(rota_u16(base + i * 2ul).v[0]));
}

void store_as(uint dtype, uint64_t base, uint i, float value) {
    if (dtype == DTYPE_F32)
        store(base, i, value);
    else
        rota_u16(base + uint64_t(i) * 2ul).v[0] = uint16_t(half_narrow(dtype, value));
}

#endif
