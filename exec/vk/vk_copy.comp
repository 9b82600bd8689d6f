/* Copies operand 1 to operand 0 where one of them is in an argument slot, or the size is a count's: 16 or 4 bytes at a
 * time where addresses and size allow, else bytes (variant ROTA_COPY_BYTES, on devices with 8-bit storage). */
#version 460
#extension GL_GOOGLE_include_directive : require
#ifdef ROTA_COPY_BYTES
#extension GL_EXT_shader_8bit_storage : require
#endif
#include "rota_kernel.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(2)
    uint64_t size_bytes; // bindable 0
ROTA_KERNEL_END

#ifdef ROTA_COPY_BYTES
layout(buffer_reference, std430, buffer_reference_align = 1) buffer byte_array { uint8_t v[]; };
#endif

void main() {
    uint64_t size_bytes = rota_param_u64(0, pc.size_bytes);
    uint64_t target = rota_operand(0), source = rota_operand(1);
    uint64_t stride = uint64_t(gl_NumWorkGroups.x) * 256ul, start = uint64_t(gl_GlobalInvocationID.x);
    uint unaligned = uint(target | source);
    uint64_t done = 0ul;
    if ((unaligned & 15u) == 0u) {
        done = size_bytes & ~15ul;
        for (uint64_t i = start * 16ul; i < done; i += stride * 16ul)
            rota_uvec4(target + i).v[0] = rota_uvec4(source + i).v[0];
    }
    if ((unaligned & 3u) == 0u) {
        for (uint64_t i = done + start * 4ul; i + 4ul <= size_bytes; i += stride * 4ul)
            rota_u32(target + i).v[0] = rota_u32(source + i).v[0];
        done = size_bytes & ~3ul;
    }
#ifdef ROTA_COPY_BYTES
    for (uint64_t i = done + start; i < size_bytes; i += stride)
        byte_array(target + i).v[0] = byte_array(source + i).v[0];
#endif
}
