/* rota_kernel_cross_entropy_mean: the mean of the losses of rows that are not ignored, and 1 / their number. One
 * workgroup. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "workgroup.glsl"

ROTA_KERNEL_BEGIN(4) /* loss, labels, mean, inverse */
uint rows;
uint classes;
int ignored;
float smoothing;
uint dtype;
uint pitch;
uint first;
uint all;
ROTA_KERNEL_END

shared uint counted;

void main() {
    const uint t = gl_LocalInvocationIndex;
    if (t == 0u) counted = 0u;
    barrier();
    float sum = 0.0;
    uint count = 0u;
    ROTA_EACH(i, t, pc.rows, gl_WorkGroupSize.x, {
        sum += load(rota_operand(0), i);
        count += load_i32(rota_operand(1), i) != pc.ignored ? 1u : 0u;
    })
    atomicAdd(counted, count); /* of integers: in any order */
    sum = workgroup_sum(sum);
    if (t != 0u) return;
    const float inverse = 1.0 / float(counted);
    store(rota_operand(2), 0u, sum * inverse);
    store(rota_operand(3), 0u, inverse);
}
