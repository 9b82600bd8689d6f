/* rota_kernel_rope: a pair, or a column that stays, an invocation. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define VALUE_ID 2
#include "value.glsl"
#include "activation.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(2) /* x, y */
uint rows;
uint sequence;
uint dim;
uint rotary;
uint flags;
float base;
uint offset;
uint dtype;
ROTA_KERNEL_END

const uint INTERLEAVED = 1u, INVERSE = 2u;

void main() {
    const uint pairs = pc.rotary / 2u, units = pc.dim - pairs; /* of a row */
    if (rota_beyond(pc.rows * units)) return;
    const uint row = rota_index() / units, i = rota_index() % units;
    const uint64_t x = value_at(rota_operand(0), uint64_t(row) * pc.dim),
                   y = value_at(rota_operand(1), uint64_t(row) * pc.dim);
    if (i >= pairs) {
        put(y, i + pairs, get(x, i + pairs));
        return;
    }
    const uint a = (pc.flags & INTERLEAVED) != 0u ? 2u * i : i, b = (pc.flags & INTERLEAVED) != 0u ? a + 1u : i + pairs;
    const float position = float(rota_param_u32(0, pc.offset) + row % pc.sequence);
    const float angle = position * exp2(-2.0 * float(i) / float(pc.rotary) * log2(pc.base));
    const float c = sine(angle, 1u), s = (pc.flags & INVERSE) != 0u ? -sine(angle, 0u) : sine(angle, 0u);
    const float u = get(x, a), v = get(x, b);
    put(y, a, u * c - v * s);
    put(y, b, v * c + u * s);
}
