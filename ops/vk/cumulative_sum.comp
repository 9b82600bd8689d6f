/* rota_kernel_cumulative_sum: a workgroup per row, 64 elements at a time, or, of columns, an invocation each
 * (neighbours read neighbours). */
#version 460
#extension GL_GOOGLE_include_directive : require
#define DTYPE_ID 3
#include "typed.glsl"

layout(local_size_x = 64) in;
layout(constant_id = 2) const bool PER_INVOCATION = false;

ROTA_KERNEL_BEGIN(2)
uint outer;
uint n;
uint inner;
uint reverse;
uint dtype;
ROTA_KERNEL_END

shared float sums[64];

uint64_t element(uint64_t base, uint k) { return base + uint64_t(pc.reverse != 0u ? pc.n - 1u - k : k) * pc.inner; }

void main() {
    const uint t = gl_LocalInvocationIndex, item = PER_INVOCATION ? rota_index() : rota_group_index();
    if (PER_INVOCATION ? rota_beyond(pc.outer * pc.inner) : item >= pc.outer * pc.inner) return;
    const uint64_t base = uint64_t(item / pc.inner) * pc.n * pc.inner + item % pc.inner;
    float carry = 0.0;
    if (PER_INVOCATION) {
        for (uint k = 0u; k < pc.n; ++k) {
            carry += load_any(rota_operand(0), element(base, k));
            store_any(rota_operand(1), element(base, k), carry);
        }
        return;
    }
    for (uint first = 0u; first < pc.n; first += 64u) {
        const uint k = first + t;
        float sum = k < pc.n ? load_any(rota_operand(0), element(base, k)) : 0.0;
        sums[t] = sum;
        barrier();
        for (uint step = 1u; step < 64u; step <<= 1) {
            const float left = t >= step ? sums[t - step] : 0.0;
            barrier();
            sum += left;
            sums[t] = sum;
            barrier();
        }
        if (k < pc.n) store_any(rota_operand(1), element(base, k), carry + sum);
        carry += sums[63];
        barrier();
    }
}
