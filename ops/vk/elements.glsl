/* Memory access for the built-in kernels: elements by 64-bit address, so that arrays beyond 2^31 elements work,
 * and groups of four as vectors where the addresses allow. Includes the kernel ABI. */
#ifndef ROTA_OPS_ELEMENTS_GLSL
#define ROTA_OPS_ELEMENTS_GLSL

#include "rota_kernel.glsl"
#extension GL_EXT_control_flow_attributes : enable

float load(uint64_t base, uint i) { return rota_f32(base + uint64_t(i) * 4ul).v[0]; }
void store(uint64_t base, uint i, float value) { rota_f32(base + uint64_t(i) * 4ul).v[0] = value; }
int load_i32(uint64_t base, uint i) { return rota_i32(base + uint64_t(i) * 4ul).v[0]; }

/* Base moved by i elements of 4 bytes. */
uint64_t element_at(uint64_t base, uint64_t i) { return base + i * 4ul; }

bool aligned16(uint64_t address) { return (uint(address) & 15u) == 0u; }

/* Elements [i, i + 4) of `count`; whole: all four are there and the address is a multiple of 16. */
vec4 load4(uint64_t base, uint i, uint count, bool whole) {
    if (whole) return rota_vec4(base + uint64_t(i) * 4ul).v[0];
    vec4 value = vec4(0.0);
    [[unroll]] for (uint j = 0u; j < 4u; ++j)
        if (j < count - i) value[j] = load(base, i + j);
    return value;
}

void store4(uint64_t base, uint i, uint count, bool whole, vec4 value) {
    if (whole) {
        rota_vec4(base + uint64_t(i) * 4ul).v[0] = value;
        return;
    }
    [[unroll]] for (uint j = 0u; j < 4u; ++j)
        if (j < count - i) store(base, i + j, value[j]);
}

/* Whether this invocation is past the last of `count`; the group first, since the padding of a folded grid may count
 * past 2^32. */
#define rota_beyond(count) (rota_group_index() > ((count) - 1u) / gl_WorkGroupSize.x || rota_index() >= (count))

#define ROTA_NAN uintBitsToFloat(0x7FC00000u)
#define ROTA_NEGATIVE_INFINITY uintBitsToFloat(0xFF800000u)

#endif
