/* rota_kernel_max_backward: the gradient goes to the first maximum (or minimum). An invocation per column. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define DTYPE_ID 2
#include "typed.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(4)
uint outer;
uint n;
uint inner;
uint dtype;
ROTA_KERNEL_END

void main() {
    if (rota_beyond(pc.outer * pc.inner)) return;
    const uint column = rota_index();
    const uint64_t first = uint64_t(column / pc.inner) * pc.n * pc.inner + column % pc.inner;
    const uint64_t x = rota_operand(0), dx = rota_operand(3);
    const float picked = load_any(rota_operand(1), column), gradient = load_any(rota_operand(2), column);
    bool found = false;
    for (uint k = 0u; k < pc.n; ++k) {
        const uint64_t element = first + uint64_t(k) * pc.inner;
        const bool here = !found && load_any(x, element) == picked;
        store_any(dx, element, here ? gradient : 0.0);
        found = found || here;
    }
}
