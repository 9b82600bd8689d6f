/* Elements of arrays whose dtype is a parameter: f32, or in the variant of a shader with HALF defined f16 or bf16,
 * whichever specialization constant VALUE_ID says. Include in the place of elements.glsl. */
#ifndef ROTA_OPS_VALUE_GLSL
#define ROTA_OPS_VALUE_GLSL

#ifdef HALF
#define ROTA_USE_F16
#include "elements.glsl"
#include "half.glsl"
layout(constant_id = VALUE_ID) const uint VALUE_DTYPE = 1u; /* rota_dtype */
const uint64_t VALUE_BYTES = 2ul;
float get(uint64_t base, uint i) { return load_as(VALUE_DTYPE == DTYPE_F16 ? DTYPE_F16 : DTYPE_BF16, base, i); }
void put(uint64_t base, uint i, float value) {
    store_as(VALUE_DTYPE == DTYPE_F16 ? DTYPE_F16 : DTYPE_BF16, base, i, value);
}

/* Whether groups of four may be read whole at an address, or several or'ed together. */
bool values_aligned(uint64_t address) { return half_aligned(address); }
vec4 get4(uint64_t base, uint i, uint count, bool whole) {
    if (whole) return half_load4(VALUE_DTYPE, base, i);
    vec4 value = vec4(0.0);
    [[unroll]] for (uint j = 0u; j < 4u; ++j) /* no loop of its own, which llvmpipe would count (turns.c) */
        if (j < count - i) value[j] = get(base, i + j);
    return value;
}
void put4(uint64_t base, uint i, uint count, bool whole, vec4 value) {
    if (whole) {
        half_store4(VALUE_DTYPE, base, i, value);
        return;
    }
    [[unroll]] for (uint j = 0u; j < 4u; ++j)
        if (j < count - i) put(base, i + j, value[j]);
}
float value_rounded(float value) { return half_widen(VALUE_DTYPE, half_narrow(VALUE_DTYPE, value)); }
#else
#include "elements.glsl"
const uint64_t VALUE_BYTES = 4ul;
float get(uint64_t base, uint i) { return load(base, i); }
void put(uint64_t base, uint i, float value) { store(base, i, value); }
bool values_aligned(uint64_t address) { return aligned16(address); }
vec4 get4(uint64_t base, uint i, uint count, bool whole) { return load4(base, i, count, whole); }
void put4(uint64_t base, uint i, uint count, bool whole, vec4 value) { store4(base, i, count, whole, value); }
float value_rounded(float value) { return value; }
#endif

/* Elements [i, i + 8), with 0 from `count` on. whole: all are there, at an address that values_aligned_8 takes. */
struct value8 {
    vec4 low, high;
};
bool values_aligned_8(uint64_t address) { return aligned16(address); }
value8 get8(uint64_t base, uint i, uint count, bool whole) {
#ifdef HALF
    if (whole) {
        const uvec4 w = rota_uvec4(base + uint64_t(i) * 2ul).v[0];
        return value8(half_unpack(VALUE_DTYPE, w.xy), half_unpack(VALUE_DTYPE, w.zw));
    }
#endif
    value8 value = value8(get4(base, i, count, whole), vec4(0.0));
    if (whole || count - i > 4u) value.high = get4(base, i + 4u, count, whole);
    return value;
}
void put8(uint64_t base, uint i, uint count, bool whole, value8 value) {
#ifdef HALF
    if (whole) {
        rota_uvec4(base + uint64_t(i) * 2ul).v[0] =
            uvec4(half_pack(VALUE_DTYPE, value.low), half_pack(VALUE_DTYPE, value.high));
        return;
    }
#endif
    put4(base, i, count, whole, value.low);
    if (whole || count - i > 4u) put4(base, i + 4u, count, whole, value.high);
}

/* Base moved by i elements. */
uint64_t value_at(uint64_t base, uint64_t i) { return base + i * VALUE_BYTES; }

#endif
