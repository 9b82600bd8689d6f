/* rota_kernel_variance_backward: dx = 2 scale dy (x - mean), an element an invocation. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define DTYPE_ID 2
#include "typed.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(4)
uint outer;
uint n;
uint inner;
float scale;
uint dtype;
ROTA_KERNEL_END

void main() {
    if (rota_beyond(pc.outer * pc.n * pc.inner)) return;
    const uint i = rota_index(), column = i / pc.inner / pc.n * pc.inner + i % pc.inner;
    const float d = load_any(rota_operand(0), i) - load(rota_operand(1), column);
    store_any(rota_operand(3), i, load_any(rota_operand(2), column) * (2.0 * pc.scale) * d);
}
