/* rota_kernel_layernorm_backward_weight, and with RMS rota_kernel_rmsnorm_backward_weight: sums over chunks of rows,
 * an invocation per chunk and column. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define VALUE_ID 2
#include "value.glsl"

layout(local_size_x = 128) in;

ROTA_KERNEL_BEGIN(4) /* x, stats, dy, partial */
uint rows;
uint dim;
uint flags;
float eps;
uint chunk;
uint dtype;
ROTA_KERNEL_END

void main() {
    const uint chunks = (pc.rows - 1u) / pc.chunk + 1u;
    if (rota_beyond(chunks * pc.dim)) return;
    const uint i = rota_index(), d = i % pc.dim, begin = i / pc.dim * pc.chunk;
    const uint end = pc.rows - begin < pc.chunk ? pc.rows : begin + pc.chunk;
    float sum = 0.0, sum_h = 0.0;
    for (uint row = begin; row < end; ++row) {
        const uint64_t element = uint64_t(row) * pc.dim + d;
        const float dy = get(value_at(rota_operand(2), element), 0u), x = get(value_at(rota_operand(0), element), 0u);
#ifdef RMS
        sum_h += dy * x * load(rota_operand(1), row);
#else
        const uint64_t stats = element_at(rota_operand(1), uint64_t(row) * 2ul);
        sum_h += dy * (x - load(stats, 0u)) * load(stats, 1u);
        sum += dy;
#endif
    }
    store(rota_operand(3), i, sum_h);
#ifndef RMS
    store(element_at(rota_operand(3), uint64_t(chunks) * pc.dim), i, sum);
#endif
}
