/* rota_kernel_attention_backward_prepare: {lse, out . dout} of each query, an invocation per query. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define DTYPE_ID 2
#include "typed.glsl"

layout(local_size_x = 64) in;

ROTA_KERNEL_BEGIN(4) /* out, dout, lse, stats */
uint batch;
uint heads;
uint queries;
uint keys;
uint dim;
uint flags;
float scale;
uint q_stride[3];
uint kv_stride[3];
uint out_stride[3];
ROTA_KERNEL_END

void main() {
    if (rota_beyond(pc.batch * pc.heads * pc.queries)) return;
    const uint i = rota_index(), pair = i / pc.queries;
    const uint64_t element = uint64_t(pair / pc.heads) * pc.out_stride[0] +
                             uint64_t(pair % pc.heads) * pc.out_stride[1] + uint64_t(i % pc.queries) * pc.out_stride[2];
#ifdef HALF
    const uint64_t bytes = 2ul;
#else
    const uint64_t bytes = 4ul;
#endif
    const uint64_t y = rota_operand(0) + element * bytes, dy = rota_operand(1) + element * bytes;
    float sum = 0.0;
    for (uint d = 0u; d < pc.dim; ++d) sum = fma(load_any(y, d), load_any(dy, d), sum);
    const uint64_t stats = element_at(rota_operand(3), uint64_t(i) * 2ul);
    store(stats, 0u, load(rota_operand(2), i));
    store(stats, 1u, sum);
}
