/* rota_kernel_causal_mask: keys that a query must not see get `value`. An element an invocation. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define VALUE_ID 2
#include "value.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(2)
uint rows;
uint n;
uint queries;
float value;
uint dtype;
ROTA_KERNEL_END

void main() {
    if (rota_beyond(pc.rows * pc.n)) return;
    const uint i = rota_index(), query = i / pc.n % pc.queries;
    const bool masked = i % pc.n > query + pc.n - pc.queries;
    put(rota_operand(1), i, masked ? pc.value : get(rota_operand(0), i));
}
