/* rota_kernel_copy_row: a row whose number is in memory, a word an invocation. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(3)
uint words;
uint rows;
uint x_step;
uint y_step;
ROTA_KERNEL_END

void main() {
    if (rota_beyond(pc.words)) return;
    const uint i = rota_index(), row = uint(load_i32(rota_operand(0), 0)); /* a negative one is far outside */
    if (row >= pc.rows) return;
    const uint64_t x = element_at(rota_operand(1), uint64_t(row) * pc.x_step + i);
    rota_u32(element_at(rota_operand(2), uint64_t(row) * pc.y_step + i)).v[0] = rota_u32(x).v[0];
}
