/* rota_kernel_gather: elements along an axis by index, one an invocation. An index outside gives NaN. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define DTYPE_ID 2
#include "typed.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(3)
uint outer;
uint n;
uint m;
uint inner;
uint dtype;
ROTA_KERNEL_END

void main() {
    if (rota_beyond(pc.outer * pc.m * pc.inner)) return;
    const uint i = rota_index(), index = uint(load_i32(rota_operand(1), i)); /* a negative one is far outside */
    const uint64_t from = (uint64_t(i / pc.inner / pc.m) * pc.n + index) * pc.inner + i % pc.inner;
    float value = ROTA_NAN;
    if (index < pc.n) value = load_any(rota_operand(0), from);
    store_any(rota_operand(2), i, value);
}
