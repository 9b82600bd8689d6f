/* rota_kernel_layernorm_backward, and with RMS rota_kernel_rmsnorm_backward: the gradient of x, a team per row. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define VALUE_ID 5
#include "value.glsl"
#include "teams.glsl"

ROTA_KERNEL_BEGIN(5) /* x, weight, stats, dy, dx */
uint rows;
uint dim;
uint flags;
float eps;
uint chunk;
uint dtype;
ROTA_KERNEL_END

const uint NORM_WEIGHT = 1u, NORM_ACCUMULATE = 4u;

/* dy * weight, and the normalized x. */
void take(uint64_t first, uint i, bool whole, vec2 stats, out value8 g, out value8 h) {
    g = get8(value_at(rota_operand(3), first), i, pc.dim, whole);
    if ((pc.flags & NORM_WEIGHT) != 0u) g = scaled(g, get8(rota_operand(1), i, pc.dim, whole));
    const value8 x = get8(value_at(rota_operand(0), first), i, pc.dim, whole);
    h = cut(scaled(added(x, filled(-stats.x)), filled(stats.y)), pc.dim - i);
}

vec2 of_both(value8 g, value8 h) { return vec2(summed(g), dot(g.low, h.low) + dot(g.high, h.high)); }

/* No compiler chooses what is rounded here: with its operands in slots, which is compiled apart, it gives the same
 * bits. */
float gradient(float g, float h, vec2 means, float rstd) {
    precise const float centred = g - means.x;
    precise const float value = rstd * fma(-h, means.y, centred);
    return value;
}

void put_gradient(uint64_t first, uint i, bool whole, value8 g, value8 h, vec2 means, float rstd) {
    const uint64_t dx = value_at(rota_operand(4), first);
    value8 value;
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        value.low[j] = gradient(g.low[j], h.low[j], means, rstd);
        value.high[j] = gradient(g.high[j], h.high[j], means, rstd);
    }
    if ((pc.flags & NORM_ACCUMULATE) != 0u) value = added(value, get8(dx, i, pc.dim, whole));
    put8(dx, i, pc.dim, whole, value);
}

vec2 stats_of(uint row) {
#ifdef RMS
    return vec2(0.0, load(rota_operand(2), row));
#else
    const uint64_t stats = element_at(rota_operand(2), uint64_t(row) * 2ul);
    return vec2(load(stats, 0u), load(stats, 1u));
#endif
}

vec2 means_of(vec2 sums) {
    vec2 means = team_sums(sums) / float(pc.dim);
#ifdef RMS
    means.x = 0.0;
#endif
    return means;
}

void backward_kept(uint row, uint64_t first, bool whole) {
    const uint lane = team_lane();
    const bool is_row = row < pc.rows;
    vec2 stats = vec2(0.0), sums = vec2(0.0);
    if (is_row) stats = stats_of(row);
    value8 g[KEPT_MOST], h[KEPT_MOST];
    [[unroll]] for (uint k = 0u; k < KEPT_MOST; ++k) {
        const uint i = (k * LANES + lane) * 8u;
        g[k] = h[k] = filled(0.0);
        if (k >= KEPT || !is_row || i >= pc.dim) continue;
        take(first, i, whole, stats, g[k], h[k]);
        sums += of_both(g[k], h[k]);
    }
    const vec2 means = means_of(sums);
    [[unroll]] for (uint k = 0u; k < KEPT_MOST; ++k) {
        const uint i = (k * LANES + lane) * 8u;
        if (k < KEPT && is_row && i < pc.dim) put_gradient(first, i, whole, g[k], h[k], means, stats.y);
    }
}

void backward_long(uint row, uint64_t first, bool whole) {
    const uint step = 8u * LANES, begin = 8u * team_lane();
    const vec2 stats = stats_of(row);
    vec2 sums = vec2(0.0);
    value8 g, h;
    for (uint i = begin; i < pc.dim; i += step) {
        take(first, i, whole, stats, g, h);
        sums += of_both(g, h);
    }
    const vec2 means = means_of(sums);
    for (uint i = begin; i < pc.dim; i += step) {
        take(first, i, whole, stats, g, h);
        put_gradient(first, i, whole, g, h, means, stats.y);
    }
}

void main() {
    const uint row = team_row();
    const uint64_t first = uint64_t(row) * pc.dim;
    uint64_t addresses = rota_operand(0) | rota_operand(3) | rota_operand(4);
    if ((pc.flags & NORM_WEIGHT) != 0u) addresses |= rota_operand(1);
    const bool whole = pc.dim % 8u == 0u && values_aligned_8(addresses);
    if (KEPT != 0u)
        backward_kept(row, first, whole);
    else if (row < pc.rows) /* a team is the workgroup */
        backward_long(row, first, whole);
}
