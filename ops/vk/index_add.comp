/* rota_kernel_index_add: y[index[r]] += value, integer and atomic. Rows outside are skipped. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(2)
uint rows;
uint size;
int value;
ROTA_KERNEL_END

void main() {
    const uint row = rota_index();
    if (rota_beyond(pc.rows)) return;
    const uint index = uint(load_i32(rota_operand(0), row)); /* a negative one is far outside */
    if (index < pc.size) atomicAdd(rota_i32(element_at(rota_operand(1), index)).v[0], pc.value);
}
