/* rota_kernel_variance: mean and variance in two passes, by a workgroup per row, or, of columns, an invocation each. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define DTYPE_ID 4
#include "typed.glsl"
#include "workgroup.glsl"

layout(constant_id = 3) const bool PER_INVOCATION = false;

ROTA_KERNEL_BEGIN(3)
uint outer;
uint n;
uint inner;
float scale;
uint dtype;
ROTA_KERNEL_END

void main() {
    const uint item = PER_INVOCATION ? rota_index() : rota_group_index();
    if (PER_INVOCATION ? rota_beyond(pc.outer * pc.inner) : item >= pc.outer * pc.inner) return;
    const uint64_t base = uint64_t(item / pc.inner) * pc.n * pc.inner + item % pc.inner;
    const uint start = PER_INVOCATION ? 0u : gl_LocalInvocationIndex, stride = PER_INVOCATION ? 1u : gl_WorkGroupSize.x;
    float sum = 0.0, squares = 0.0;
    for (uint k = start; k < pc.n; k += stride) sum += load_any(rota_operand(0), base + uint64_t(k) * pc.inner);
    if (!PER_INVOCATION) sum = workgroup_sum(sum);
    const float mean = sum / float(pc.n);
    for (uint k = start; k < pc.n; k += stride) {
        const float d = load_any(rota_operand(0), base + uint64_t(k) * pc.inner) - mean;
        squares += d * d;
    }
    if (!PER_INVOCATION) squares = workgroup_sum(squares);
    if (!PER_INVOCATION && gl_LocalInvocationIndex != 0u) return;
    store_any(rota_operand(1), item, squares * pc.scale);
    store(rota_operand(2), item, mean);
}
