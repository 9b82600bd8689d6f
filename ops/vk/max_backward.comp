/* rota_kernel_max_backward: the gradient goes to the first maximum. An invocation per column. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(4)
uint outer;
uint n;
uint inner;
ROTA_KERNEL_END

void main() {
    if (rota_beyond(pc.outer * pc.inner)) return;
    const uint column = rota_index();
    const uint64_t first = uint64_t(column / pc.inner) * pc.n * pc.inner + column % pc.inner;
    const uint64_t x = at(rota_operand(0), first), dx = at(rota_operand(3), first);
    const float maximum = load(rota_operand(1), column), gradient = load(rota_operand(2), column);
    bool found = false;
    for (uint k = 0u; k < pc.n; ++k) {
        const uint64_t place = uint64_t(k) * pc.inner;
        const bool here = !found && rota_f32(at(x, place)).v[0] == maximum;
        rota_f32(at(dx, place)).v[0] = here ? gradient : 0.0;
        found = found || here;
    }
}
