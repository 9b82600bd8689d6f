/* Elements of arrays whose dtype is a parameter: f32, or in the variant of a shader with HALF defined f16 or bf16, whichever
 * specialization constant VALUE_ID says. Include in the place of elements.glsl. */
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
#else
#include "elements.glsl"
const uint64_t VALUE_BYTES = 4ul;
float get(uint64_t base, uint i) { return load(base, i); }
void put(uint64_t base, uint i, float value) { store(base, i, value); }
#endif

/* Base moved by i elements. */
uint64_t value_at(uint64_t base, uint64_t i) { return base + i * VALUE_BYTES; }

#endif
