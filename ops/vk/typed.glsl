/* Elements of a kernel's real dtype, read as f32 and rounded once where they are stored. A shader that includes this is
 * compiled twice (variants.cmake): as it is for f32, and with HALF for f16 and bf16, by specialization constant
 * DTYPE_ID; that needs 16-bit storage. */
#ifndef ROTA_OPS_TYPED_GLSL
#define ROTA_OPS_TYPED_GLSL

#ifdef HALF
#define ROTA_USE_F16
#endif
#include "elements.glsl"

#ifdef HALF
#include "half.glsl"

layout(constant_id = DTYPE_ID) const uint DTYPE = 1u; /* rota_dtype */
layout(buffer_reference, std430, buffer_reference_align = 8) buffer rota_words2 { uvec2 v[]; };

float widen(uint bits) { return DTYPE == DTYPE_F16 ? from_f16(bits) : rota_from_bf16(bits); }
uint narrow(float value) { return DTYPE == DTYPE_F16 ? to_f16(value) : rota_to_bf16(value); }

float load_any(uint64_t base, uint64_t i) { return widen(uint(rota_u16(base + i * 2ul).v[0])); }
void store_any(uint64_t base, uint64_t i, float value) { rota_u16(base + i * 2ul).v[0] = uint16_t(narrow(value)); }

/* Whether groups of four may be read whole at an address, or several or'ed together. */
bool aligned_any(uint64_t address) { return (uint(address) & 7u) == 0u; }

vec4 load4_any(uint64_t base, uint i, uint count, bool whole) {
    vec4 value = vec4(0.0);
    if (whole) {
        const uvec2 words = rota_words2(base + uint64_t(i) * 2ul).v[0];
        return vec4(widen(words.x & 0xFFFFu), widen(words.x >> 16), widen(words.y & 0xFFFFu), widen(words.y >> 16));
    }
    [[unroll]] for (uint j = 0u; j < 4u; ++j)
        if (j < count - i) value[j] = load_any(base, uint64_t(i) + j);
    return value;
}

void store4_any(uint64_t base, uint i, uint count, bool whole, vec4 value) {
    if (whole) {
        rota_words2(base + uint64_t(i) * 2ul).v[0] =
            uvec2(narrow(value.x) | narrow(value.y) << 16, narrow(value.z) | narrow(value.w) << 16);
        return;
    }
    for (uint j = 0u; j < 4u && j < count - i; ++j) store_any(base, uint64_t(i) + j, value[j]);
}
#else
float load_any(uint64_t base, uint64_t i) { return rota_f32(base + i * 4ul).v[0]; }
void store_any(uint64_t base, uint64_t i, float value) { rota_f32(base + i * 4ul).v[0] = value; }
bool aligned_any(uint64_t address) { return aligned16(address); }
vec4 load4_any(uint64_t base, uint i, uint count, bool whole) { return load4(base, i, count, whole); }
void store4_any(uint64_t base, uint i, uint count, bool whole, vec4 value) { store4(base, i, count, whole, value); }
#endif

#endif
