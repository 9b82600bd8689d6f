/* rota_kernel_global_norm: the norm from partial sums of squares, and the factor that clips it. One workgroup. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "workgroup.glsl"

ROTA_KERNEL_BEGIN(2)
uint count;
float max_norm;
ROTA_KERNEL_END

void main() {
    float sum = 0.0;
    ROTA_EACH(i, gl_LocalInvocationIndex, pc.count, gl_WorkGroupSize.x, { sum += load(rota_operand(0), i); })
    const float norm = sqrt(workgroup_sum(sum));
    if (gl_LocalInvocationIndex != 0u) return;
    store(rota_operand(1), 0u, norm);
    store(rota_operand(1), 1u, isnan(norm) ? norm : norm > pc.max_norm ? pc.max_norm / norm : 1.0);
}
