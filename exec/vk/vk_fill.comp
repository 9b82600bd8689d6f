/* Fills operand 0 with a 32-bit pattern where it is in an argument slot. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rota_kernel.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(1)
    uint64_t size_bytes;
    uint pattern;
ROTA_KERNEL_END

void main() {
    uint64_t target = rota_operand(0);
    uint64_t stride = uint64_t(gl_NumWorkGroups.x) * 256ul;
    for (uint64_t i = uint64_t(gl_GlobalInvocationID.x); i * 4ul < pc.size_bytes; i += stride)
        rota_u32(target + i * 4ul).v[0] = pc.pattern;
}
