// The Vulkan form of the kernels in search.c: which of them says a name that is defined.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rota_kernel.glsl"

#ifdef EXPAND
layout(local_size_x = 256) in;
ROTA_KERNEL_BEGIN(7)
    uint count; // bindable 0
ROTA_KERNEL_END
#else
layout(local_size_x = 1) in;
#ifdef ADVANCE
ROTA_KERNEL_BEGIN(1)
#else
ROTA_KERNEL_BEGIN(4)
#endif
ROTA_KERNEL_END
#endif

const uint VERTEX_THREADS = 32u, UNREACHED = 0xFFFFFFFFu;
// The fields of bfs_state.
const uint FRONTIER = 0u, NEXT = 1u, MORE = 2u, LEVEL = 3u, WIDEST = 4u, REACHED = 5u;

void main() {
#ifdef EXPAND
    // Some invocations a vertex, of whose edges each takes every so many. All invocations may be more than 2^32.
    uint i = rota_group_index() * (gl_WorkGroupSize.x / VERTEX_THREADS) + gl_LocalInvocationIndex / VERTEX_THREADS;
    if (i >= rota_param_u32(0, pc.count)) return;
    rota_u64 starts = rota_u64(rota_operand(0));
    uint64_t targets = rota_operand(1);
    uint vertex = rota_u32(rota_operand(2)).v[i], level = rota_u32(rota_operand(3)).v[0] + 1u;
    rota_u32 levels = rota_u32(rota_operand(4)), next = rota_u32(rota_operand(5)), found = rota_u32(rota_operand(6));
    uint64_t end = starts.v[vertex + 1u];
    for (uint64_t edge = starts.v[vertex] + uint64_t(gl_LocalInvocationIndex % VERTEX_THREADS); edge < end;
         edge += uint64_t(VERTEX_THREADS)) {
        uint other = rota_u32(targets + 4ul * edge).v[0];
        if (levels.v[other] == UNREACHED && atomicCompSwap(levels.v[other], UNREACHED, level) == UNREACHED)
            next.v[atomicAdd(found.v[0], 1u)] = other;
    }
#endif
#ifdef ADVANCE
    rota_u32 s = rota_u32(rota_operand(0));
    uint frontier = s.v[NEXT];
    s.v[FRONTIER] = frontier;
    s.v[NEXT] = 0u;
    s.v[MORE] = frontier > 0u ? 1u : 0u;
    s.v[LEVEL] += s.v[MORE];
    s.v[REACHED] += frontier;
    s.v[WIDEST] = max(s.v[WIDEST], frontier);
#endif
#ifdef BEGIN
    uint source = rota_u32(rota_operand(0)).v[0];
    rota_u32 s = rota_u32(rota_operand(1));
    s.v[FRONTIER] = s.v[MORE] = s.v[WIDEST] = s.v[REACHED] = 1u;
    s.v[NEXT] = s.v[LEVEL] = 0u;
    rota_u32(rota_operand(2)).v[0] = source;
    rota_u32(rota_operand(3)).v[source] = 0u;
#endif
}
