/* rota_kernel_dropout: Philox4x32-10 (Salmon et al., SC 2011), one counter and so four elements an invocation. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define DTYPE_ID 2
#include "typed.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(3)
uint count;
uint threshold;
float scale;
uint stream;
uint seed;
uint step;
uint has_residual;
uint dtype;
uint first;
ROTA_KERNEL_END

#include "philox.glsl"

void main() {
    const uint block = rota_index(), i = block * 4u;
    if (block > (pc.count - 1u) / 4u) return;
    const uint64_t x = rota_operand(0), residual = rota_operand(1), y = rota_operand(2);
    const uvec4 words = philox(uvec4(pc.first + block, pc.stream, rota_param_u32(1, pc.step), 0u),
                               uvec2(rota_param_u32(0, pc.seed), 0u));
    const bool whole = pc.count - i >= 4u && aligned_any(x | residual | y);
    const vec4 value = load4_any(x, i, pc.count, whole);
    vec4 result = vec4(0.0);
    if (pc.has_residual != 0u) result = load4_any(residual, i, pc.count, whole);
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        precise const float kept = words[j] >= pc.threshold ? value[j] * pc.scale : 0.0;
        result[j] = pc.has_residual != 0u ? result[j] + kept : kept;
    }
    store4_any(y, i, pc.count, whole, result);
}
