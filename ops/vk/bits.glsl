/* Elements of any dtype as their bits: of 4 bytes, or, in the variant of a shader with HALF defined, of 2. Include in
 * place of elements.glsl. */
#ifndef ROTA_OPS_BITS_GLSL
#define ROTA_OPS_BITS_GLSL

#ifdef HALF
#define ROTA_USE_F16
#endif
#include "elements.glsl"

#ifdef HALF
uint load_bits(uint64_t base, uint64_t i) { return uint(rota_u16(base + i * 2ul).v[0]); }
void store_bits(uint64_t base, uint64_t i, uint bits) { rota_u16(base + i * 2ul).v[0] = uint16_t(bits); }
#else
uint load_bits(uint64_t base, uint64_t i) { return rota_u32(base + i * 4ul).v[0]; }
void store_bits(uint64_t base, uint64_t i, uint bits) { rota_u32(base + i * 4ul).v[0] = bits; }
#endif

#endif
