/* rota_kernel_layernorm, with RMS rota_kernel_rmsnorm, with RESIDUAL rota_kernel_residual_layernorm: a team per row;
 * mean, then variance, then result. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define VALUE_ID 5
#include "value.glsl"
#include "teams.glsl"

#if defined(RMS)
const uint WEIGHT = 1u, BIAS = 1u, Y = 2u, STATS = 3u; /* operands: x, weight, y, stats */
ROTA_KERNEL_BEGIN(4)
#elif defined(RESIDUAL)
const uint WEIGHT = 2u, BIAS = 3u, SUM = 4u, Y = 5u, STATS = 6u; /* operands: x, r, weight, bias, sum, y, stats */
ROTA_KERNEL_BEGIN(7)
#else
const uint WEIGHT = 1u, BIAS = 2u, Y = 3u, STATS = 4u; /* operands: x, weight, bias, y, stats */
ROTA_KERNEL_BEGIN(5)
#endif
uint rows;
uint dim;
uint flags;
float eps;
uint chunk;
uint dtype;
ROTA_KERNEL_END

const uint NORM_WEIGHT = 1u, NORM_BIAS = 2u;

/* Eight elements of the normalized row, from the i-th. */
value8 weighted(value8 value, uint i, bool whole) {
    if ((pc.flags & NORM_WEIGHT) != 0u) value = scaled(value, get8(rota_operand(WEIGHT), i, pc.dim, whole));
#ifndef RMS
    if ((pc.flags & NORM_BIAS) != 0u) value = added(value, get8(rota_operand(BIAS), i, pc.dim, whole));
#endif
    return value;
}

/* Eight elements of the row that is normalized; of RESIDUAL they are x + r, rounded as what is stored of them. */
value8 take(uint64_t first, uint i, bool whole) {
    value8 value = get8(value_at(rota_operand(0), first), i, pc.dim, whole);
#ifdef RESIDUAL
    value = added(value, get8(value_at(rota_operand(1), first), i, pc.dim, whole));
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        value.low[j] = value_rounded(value.low[j]);
        value.high[j] = value_rounded(value.high[j]);
    }
    put8(value_at(rota_operand(SUM), first), i, pc.dim, whole, value);
#endif
    return value;
}
value8 take_again(uint64_t first, uint i, bool whole) {
#ifdef RESIDUAL
    return get8(value_at(rota_operand(SUM), first), i, pc.dim, whole); /* what the invocation wrote itself */
#else
    return get8(value_at(rota_operand(0), first), i, pc.dim, whole);
#endif
}

void put_stats(uint row, float mean, float rstd) {
#ifdef RMS
    store(rota_operand(STATS), row, rstd);
#else
    store(element_at(rota_operand(STATS), uint64_t(row) * 2ul), 0u, mean);
    store(element_at(rota_operand(STATS), uint64_t(row) * 2ul), 1u, rstd);
#endif
}

float mean_of(float sum) {
#ifdef RMS
    return 0.0;
#else
    const float mean = team_sums(vec2(sum, 0.0)).x / float(pc.dim);
    barrier();
    return mean;
#endif
}
float rstd_of(float squares) { return 1.0 / sqrt(team_sums(vec2(squares, 0.0)).x / float(pc.dim) + pc.eps); }
value8 deviation_of(value8 value, float mean, uint i) { return cut(added(value, filled(-mean)), pc.dim - i); }

void norm_kept(uint row, uint64_t first, bool whole) {
    const uint lane = team_lane();
    const bool is_row = row < pc.rows;
    value8 kept[KEPT_MOST];
    float sum = 0.0, squares = 0.0;
    [[unroll]] for (uint k = 0u; k < KEPT_MOST; ++k) {
        const uint i = (k * LANES + lane) * 8u;
        kept[k] = filled(0.0);
        if (k < KEPT && is_row && i < pc.dim) kept[k] = take(first, i, whole);
        sum += summed(kept[k]);
    }
    const float mean = mean_of(sum);
    [[unroll]] for (uint k = 0u; k < KEPT_MOST; ++k) {
        const uint i = (k * LANES + lane) * 8u;
        if (k >= KEPT || i >= pc.dim) continue;
        kept[k] = deviation_of(kept[k], mean, i);
        squares += summed(scaled(kept[k], kept[k]));
    }
    const float rstd = rstd_of(squares);
    if (!is_row) return;
    [[unroll]] for (uint k = 0u; k < KEPT_MOST; ++k) {
        const uint i = (k * LANES + lane) * 8u;
        if (k < KEPT && i < pc.dim)
            put8(value_at(rota_operand(Y), first), i, pc.dim, whole, weighted(scaled(kept[k], filled(rstd)), i, whole));
    }
    if (lane == 0u) put_stats(row, mean, rstd);
}

void norm_long(uint row, uint64_t first, bool whole) {
    const uint step = 8u * LANES, begin = 8u * team_lane();
    float sum = 0.0, squares = 0.0;
#ifndef RMS
    for (uint i = begin; i < pc.dim; i += step) sum += summed(take(first, i, whole));
#endif
    const float mean = mean_of(sum);
    for (uint i = begin; i < pc.dim; i += step) {
        const value8 deviation = deviation_of(take_again(first, i, whole), mean, i);
        squares += summed(scaled(deviation, deviation));
    }
    const float rstd = rstd_of(squares);
    for (uint i = begin; i < pc.dim; i += step)
        put8(value_at(rota_operand(Y), first), i, pc.dim, whole,
             weighted(scaled(added(take_again(first, i, whole), filled(-mean)), filled(rstd)), i, whole));
    if (begin == 0u) put_stats(row, mean, rstd);
}

void main() {
    const uint row = team_row();
    const uint64_t first = uint64_t(row) * pc.dim;
    uint64_t addresses = rota_operand(0) | rota_operand(Y);
    if ((pc.flags & NORM_WEIGHT) != 0u) addresses |= rota_operand(WEIGHT);
#ifndef RMS
    if ((pc.flags & NORM_BIAS) != 0u) addresses |= rota_operand(BIAS);
#endif
#ifdef RESIDUAL
    addresses |= rota_operand(1) | rota_operand(SUM);
#endif
    const bool whole = pc.dim % 8u == 0u && values_aligned_8(addresses);
    if (KEPT != 0u)
        norm_kept(row, first, whole);
    else if (row < pc.rows) /* a team is the workgroup */
        norm_long(row, first, whole);
}
