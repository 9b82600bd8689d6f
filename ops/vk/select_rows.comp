/* rota_kernel_select_rows: an invocation per element of what the permutation goes through. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "bits.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(4)
uint rows;
uint width;
uint put;
uint dtype;
ROTA_KERNEL_END

void main() {
    if (rota_beyond(pc.rows * pc.width)) return;
    const uint i = rota_index(), j = i / pc.width, column = i % pc.width;
    const uint index = uint(load_i32(rota_operand(1), j)); /* a negative one is far outside */
    const bool is_selected = j < rota_u32(rota_operand(2)).v[0];
    const uint64_t other = uint64_t(index) * pc.width + column;
    if (pc.put != 0u) {
        if (index < pc.rows) store_bits(rota_operand(3), other, is_selected ? load_bits(rota_operand(0), i) : 0u);
        return;
    }
    store_bits(rota_operand(3), i, is_selected && index < pc.rows ? load_bits(rota_operand(0), other) : 0u);
}
