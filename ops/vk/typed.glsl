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

float widen(uint bits) { return half_widen(DTYPE, bits); }
uint narrow(float value) { return half_narrow(DTYPE, value); }

float load_any(uint64_t base, uint64_t i) { return widen(uint(rota_u16(base + i * 2ul).v[0])); }
void store_any(uint64_t base, uint64_t i, float value) { rota_u16(base + i * 2ul).v[0] = uint16_t(narrow(value)); }

/* Whether groups of four may be read whole at an address, or several or'ed together. */
bool aligned_any(uint64_t address) { return half_aligned(address); }

vec4 load4_any(uint64_t base, uint i, uint count, bool whole) {
    vec4 value = vec4(0.0);
    if (whole) return half_load4(DTYPE, base, i);
    [[unroll]] for (uint j = 0u; j < 4u; ++j)
        if (j < count - i) value[j] = load_any(base, uint64_t(i) + j);
    return value;
}

void store4_any(uint64_t base, uint i, uint count, bool whole, vec4 value) {
    if (whole) {
        half_store4(DTYPE, base, i, value);
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
