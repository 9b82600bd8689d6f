/* Rows, each by a team of LANES invocations that keeps it in registers, KEPT groups of eight elements an invocation;
 * as many teams as the workgroup has room for. Where a row is longer than that, KEPT is 0, and the workgroup, one team,
 * reads it again. Specialization constants: 2 the workgroup's size, 3 LANES, a power of two, 4 KEPT (dispatch.c:
 * team_lanes). Sums are in an order by those alone, and need nothing of subgroups: two barriers at the most, not one
 * for each level of a tree. */
#ifndef ROTA_OPS_TEAMS_GLSL
#define ROTA_OPS_TEAMS_GLSL

#include "each.glsl"

layout(local_size_x_id = 2) in;
layout(constant_id = 3) const uint LANES = 32u;
layout(constant_id = 4) const uint KEPT = 1u;

const uint KEPT_MOST = 4u, BLOCK = 32u;
shared vec2 team_values[gl_WorkGroupSize.x];
shared vec2 team_blocks[gl_WorkGroupSize.x / BLOCK];

uint team_lane() { return gl_LocalInvocationIndex % LANES; }
uint team_row() { return rota_group_index() * (gl_WorkGroupSize.x / LANES) + gl_LocalInvocationIndex / LANES; }

/* The sums over the team. All invocations of the workgroup call it together, and between two calls is a barrier. */
vec2 team_sums(vec2 value) {
    const uint t = gl_LocalInvocationIndex;
    team_values[t] = value;
    barrier();
    const uint size = min(LANES, BLOCK), first = t / size * size;
    vec2 even = vec2(0.0), odd = vec2(0.0);
    [[unroll]] for (uint i = 0u; i < BLOCK; i += 2u) {
        if (i < size) even += team_values[first + i];
        if (i + 1u < size) odd += team_values[first + i + 1u];
    }
    value = even + odd;
    if (LANES <= BLOCK) return value;
    if (t % BLOCK == 0u) team_blocks[t / BLOCK] = value;
    barrier();
    value = vec2(0.0);
    [[unroll]] for (uint i = 0u; i < 8u; ++i)
        if (i < LANES / BLOCK) value += team_blocks[t / LANES * (LANES / BLOCK) + i];
    return value;
}

value8 filled(float x) { return value8(vec4(x), vec4(x)); }
value8 added(value8 a, value8 b) { return value8(a.low + b.low, a.high + b.high); }
value8 scaled(value8 a, value8 b) { return value8(a.low * b.low, a.high * b.high); }
float summed(value8 a) { return dot(a.low + a.high, vec4(1.0)); }
/* 0 from the `left`-th on. */
value8 cut(value8 a, uint left) {
    if (left >= 8u) return a;
    return value8(mix(a.low, vec4(0.0), greaterThanEqual(uvec4(0u, 1u, 2u, 3u), uvec4(left))),
                  mix(a.high, vec4(0.0), greaterThanEqual(uvec4(4u, 5u, 6u, 7u), uvec4(left))));
}

#endif
