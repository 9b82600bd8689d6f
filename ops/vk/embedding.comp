/* rota_kernel_embedding: rows of a table by index, an element an invocation. An index outside gives NaN, and one of
 * another part of the table 0. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define VALUE_ID 2
#include "value.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(3)
uint rows;
uint dim;
uint classes;
uint accumulate;
uint dtype;
uint first;
uint all;
ROTA_KERNEL_END

void main() {
    if (rota_beyond(pc.rows * pc.dim)) return;
    const uint i = rota_index();
    const uint given = uint(load_i32(rota_operand(1), i / pc.dim)); /* a negative one is far outside */
    const uint row = given - pc.first;
    float value = given < pc.all ? 0.0 : ROTA_NAN;
    if (row < pc.classes) value = get(value_at(rota_operand(0), uint64_t(row) * pc.dim), i % pc.dim);
    put(rota_operand(2), i, value);
}
