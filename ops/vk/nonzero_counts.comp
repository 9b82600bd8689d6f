/* rota_kernel_nonzero_counts: how many elements of each chunk are not zero. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "bits.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(2)
uint n;
uint chunk;
uint dtype;
ROTA_KERNEL_END

#include "nonzero.glsl"
#include "scan.glsl"

void main() {
    const uint c = rota_group_index();
    if (c > (pc.n - 1u) / pc.chunk) return;
    const uint begin = c * pc.chunk, end = chunk_end(begin), t = gl_LocalInvocationIndex;
    uint count = 0u, total;
    for (uint from = 0u; from < end - begin; from += SCAN_GROUP * EACH)
        count += bitCount(nonzero_of(rota_operand(0), begin + from + t * EACH, end));
    workgroup_sum_before(count, total);
    if (t == 0u) rota_u32(element_at(rota_operand(1), c)).v[0] = total;
}
