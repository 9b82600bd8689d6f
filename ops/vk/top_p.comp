/* rota_kernel_top_p: a workgroup per row finds the chunk in which the weights reach the share, and in it the key. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(3)
uint rows;
uint n;
uint chunk;
uint p;
ROTA_KERNEL_END

#include "top_p.glsl"

shared uint found;
shared uint64_t carried;

uint64_t weight_at(bool of_chunks, uint64_t first, uint i) {
    return of_chunks ? load_wide(rota_operand(1), first + i)
                     : weight_of(rota_u32(element_at(rota_operand(0), first + i)).v[0]);
}

/* The first of `count` with which the sum, from `before` on, reaches `wanted`; then `before` is that without it. The
 * last where none does. */
uint reaching(bool of_chunks, uint64_t first, uint count, uint64_t wanted, inout uint64_t before) {
    const uint t = gl_LocalInvocationIndex;
    if (t == 0u) found = 0xFFFFFFFFu;
    for (uint from = 0u; from < count; from += SCAN_GROUP) {
        const uint i = from + t;
        const uint64_t weight = i < count ? weight_at(of_chunks, first, i) : 0ul;
        uint64_t total;
        const uint64_t sum = before + workgroup_sum_before(weight, total);
        if (i < count && (sum + weight >= wanted || i == count - 1u)) atomicMin(found, i);
        barrier();
        const uint result = found;
        if (result == i) carried = sum;
        barrier();
        if (result != 0xFFFFFFFFu) {
            before = carried;
            return result;
        }
        before += total;
    }
    return 0u; /* of none */
}

/* Of all weights: rota_key_share. */
uint64_t share_of(float p, uint64_t total) {
    const uint parts = p < 1.0 ? p > 0.0 ? uint(p * 2147483648.0) : 0u : 0x80000000u;
    return (total >> 31) * parts + ((total & 0x7FFFFFFFul) * parts + 0x7FFFFFFFul >> 31);
}

void main() {
    const uint row = rota_group_index(), t = gl_LocalInvocationIndex;
    if (row >= pc.rows) return;
    const uint chunks = (pc.n - 1u) / pc.chunk + 1u;
    const uint64_t sums = uint64_t(row) * chunks, keys = uint64_t(row) * pc.n;
    uint64_t sum = 0ul, total, before = 0ul;
    for (uint c = t; c < chunks; c += SCAN_GROUP) sum += load_wide(rota_operand(1), sums + c);
    workgroup_sum_before(sum, total);
    const uint64_t wanted = share_of(rota_param_f32(0, pc.p), total);
    const uint c = reaching(true, sums, chunks, wanted, before), begin = c * pc.chunk;
    barrier();
    const uint i = reaching(false, keys + begin, min(pc.chunk, pc.n - begin), wanted, before);
    if (t == 0u) rota_u32(element_at(rota_operand(2), row)).v[0] = begin + i + 1u;
}
