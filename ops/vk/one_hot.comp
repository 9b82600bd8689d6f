/* rota_kernel_one_hot: 1 at each row's index, else 0, an element an invocation. An index outside makes its row NaN. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define DTYPE_ID 2
#include "typed.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(2)
uint rows;
uint classes;
uint dtype;
ROTA_KERNEL_END

void main() {
    if (rota_beyond(pc.rows * pc.classes)) return;
    const uint i = rota_index(), index = uint(load_i32(rota_operand(0), i / pc.classes));
    store_any(rota_operand(1), i, index >= pc.classes ? ROTA_NAN : index == i % pc.classes ? 1.0 : 0.0);
}
