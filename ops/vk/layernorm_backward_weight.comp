/* rota_kernel_layernorm_backward_weight, and with RMS rota_kernel_rmsnorm_backward_weight: sums over chunks of rows,
 * an invocation per chunk and four columns. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define VALUE_ID 2
#include "value.glsl"
#include "each.glsl"

layout(local_size_x = 64) in; /* a few wide rows are many workgroups */

ROTA_KERNEL_BEGIN(4) /* x, stats, dy, partial */
uint rows;
uint dim;
uint flags;
float eps;
uint chunk;
uint dtype;
ROTA_KERNEL_END

vec4 sum = vec4(0.0), sum_h = vec4(0.0);

void add_row(uint row, uint d, bool whole) {
    const uint64_t first = uint64_t(row) * pc.dim;
    const vec4 dy = get4(value_at(rota_operand(2), first), d, pc.dim, whole);
    const vec4 x = get4(value_at(rota_operand(0), first), d, pc.dim, whole);
#ifdef RMS
    sum_h += dy * x * load(rota_operand(1), row);
#else
    const uint64_t stats = element_at(rota_operand(1), uint64_t(row) * 2ul);
    sum_h += dy * (x - load(stats, 0u)) * load(stats, 1u);
    sum += dy;
#endif
}

void main() {
    const uint chunks = (pc.rows - 1u) / pc.chunk + 1u, fours = (pc.dim - 1u) / 4u + 1u;
    if (rota_beyond(chunks * fours)) return;
    const uint c = rota_index() / fours, d = rota_index() % fours * 4u, begin = c * pc.chunk;
    const uint end = pc.rows - begin < pc.chunk ? pc.rows : begin + pc.chunk;
    const bool whole = pc.dim % 4u == 0u && values_aligned(rota_operand(0) | rota_operand(2));
    ROTA_EACH(row, begin, end, 1u, { add_row(row, d, whole); })
    const uint64_t partial = element_at(rota_operand(3), uint64_t(c) * pc.dim);
    const bool aligned = pc.dim % 4u == 0u && aligned16(rota_operand(3));
    store4(partial, d, pc.dim, aligned, sum_h);
#ifndef RMS
    store4(element_at(partial, uint64_t(chunks) * pc.dim), d, pc.dim, aligned, sum);
#endif
}
