/* Fused nodes: what a run of elementwise nodes computes stands in specialization constants (ops/vk/fused.c), from which
 * the driver's compiler makes straight-line code. Eight elements an invocation, in two groups of four. Compiled with
 * HALF for runs with 16-bit floats. */
#version 460
#extension GL_GOOGLE_include_directive : require
#ifdef HALF
#define ROTA_USE_F16
#endif
#include "elements.glsl"
#ifdef HALF
#include "half.glsl"
#endif

layout(local_size_x = 256) in;

/* A step: kind plus 1 : 3, op : 5, sources a, b, c : 4 each, result : 4, its dtype : 2, first word : 4. 0: none. */
layout(constant_id = 2) const uint STEP_0 = 0u;
layout(constant_id = 3) const uint STEP_1 = 0u;
layout(constant_id = 4) const uint STEP_2 = 0u;
layout(constant_id = 5) const uint STEP_3 = 0u;
layout(constant_id = 6) const uint STEP_4 = 0u;
layout(constant_id = 7) const uint STEP_5 = 0u;
layout(constant_id = 8) const uint STEP_6 = 0u;
layout(constant_id = 9) const uint STEP_7 = 0u;
/* An operand, four to a word: value : 4, dtype : 2, how : 2 (whole, repeated as the first or the second says,
 * result). */
layout(constant_id = 10) const uint OPERANDS_0 = 0u;
layout(constant_id = 11) const uint OPERANDS_1 = 0u;
layout(constant_id = 12) const uint OPERAND_COUNT = 1u;
layout(constant_id = 13) const uint DIV_0 = 1u;
layout(constant_id = 14) const uint MOD_0 = 1u;
layout(constant_id = 15) const uint DIV_1 = 1u;
layout(constant_id = 16) const uint MOD_1 = 1u;

/* How many operands stand before the parameters is not known here: all behind the first are words. */
ROTA_KERNEL_BEGIN(1)
uint raw[28];
ROTA_KERNEL_END

#include "activation.glsl"
#include "binary.glsl"
#include "philox.glsl"
#include "unary.glsl"
#include "unary_backward.glsl"

const uint UNARY = 1u, UNARY_BACKWARD = 2u, BINARY = 3u, WHERE = 4u, CAST = 5u; /* rota_fused_kind plus 1 */
const uint HOW_RESULT = 3u;

/* After the operands: the program's address, two words; the count; the words. */
uint parameter(uint i) { return pc.raw[min(2u * (OPERAND_COUNT - 1u) + i, 27u)]; }
uint word_u32(uint i) { return rota_param_u32(i, parameter(3u + i)); }
float word_f32(uint i) { return uintBitsToFloat(word_u32(i)); }

uint64_t operand_address(uint i) {
    if (i == 0u) return rota_operand(0);
    uint64_t value = uint64_t(pc.raw[2u * i - 1u]) << 32 | uint64_t(pc.raw[2u * i - 2u]);
    if ((ROTA_SLOT_MASK & (1u << i)) != 0u) value = rota_word(uint(value >> 48)) + (value & 0xFFFFFFFFFFFFul);
    return value;
}

#ifdef HALF
float rounded(uint dtype, float x) {
    return dtype == DTYPE_F32 ? x : half_widen(dtype, half_narrow(dtype, x));
}
float load_one(uint dtype, uint64_t base, uint i) { return load_as(dtype, base, i); }

vec4 load_whole(uint dtype, uint64_t base, uint i, uint count) {
    const bool all = count - i >= 4u;
    if (dtype == DTYPE_F32) return load4(base, i, count, all && aligned16(base));
    if (all && half_aligned(base)) return half_load4(dtype, base, i);
    vec4 value = vec4(0.0);
    for (uint j = 0u; j < 4u && j < count - i; ++j) value[j] = load_as(dtype, base, i + j);
    return value;
}
void store_whole(uint dtype, uint64_t base, uint i, uint count, vec4 value) {
    const bool all = count - i >= 4u;
    if (dtype == DTYPE_F32) {
        store4(base, i, count, all && aligned16(base), value);
    } else if (all && half_aligned(base)) {
        half_store4(dtype, base, i, value);
    } else {
        for (uint j = 0u; j < 4u && j < count - i; ++j) store_as(dtype, base, i + j, value[j]);
    }
}
#else
float rounded(uint dtype, float x) { return x; }
float load_one(uint dtype, uint64_t base, uint i) { return load(base, i); }
vec4 load_whole(uint dtype, uint64_t base, uint i, uint count) {
    return load4(base, i, count, count - i >= 4u && aligned16(base));
}
void store_whole(uint dtype, uint64_t base, uint i, uint count, vec4 value) {
    store4(base, i, count, count - i >= 4u && aligned16(base), value);
}
#endif

vec4 load_repeated(uint dtype, uint64_t base, uint i, uint count, uint div, uint mod_) {
    if (mod_ == 1u) return vec4(load_one(dtype, base, 0u));
    if (div == 1u && mod_ % 4u == 0u) return load_whole(dtype, base, i % mod_, mod_);
    vec4 value = vec4(0.0);
    for (uint j = 0u; j < 4u && j < count - i; ++j) value[j] = load_one(dtype, base, (i + j) / div % mod_);
    return value;
}

/* Of group g, value v is values[16 * g + v]. */
const uint GROUPS = 2u;
vec4 values[16u * GROUPS];

uint described(uint k) { return ((k < 4u ? OPERANDS_0 : OPERANDS_1) >> (k % 4u * 8u)) & 0xFFu; }

#ifdef HALF
/* Both groups at once: a 16-bit operand's are one vector. */
bool both_whole(uint dtype, uint64_t base, uint i, uint count) {
    return dtype != DTYPE_F32 && count - i >= 8u && aligned16(base + uint64_t(i) * 2ul);
}
#endif

void load_groups(uint v, uint dtype, uint64_t base, uint i, uint count) {
#ifdef HALF
    if (both_whole(dtype, base, i, count)) {
        const uvec4 w = rota_uvec4(base + uint64_t(i) * 2ul).v[0];
        values[v] = half_unpack(dtype, w.xy);
        values[16u + v] = half_unpack(dtype, w.zw);
        return;
    }
#endif
    values[v] = load_whole(dtype, base, i, count);
    values[16u + v] = count - i > 4u ? load_whole(dtype, base, i + 4u, count) : vec4(0.0);
}

void load_groups_repeated(uint v, uint dtype, uint64_t base, uint i, uint count, uint div, uint mod_) {
    if (div == 1u && mod_ % 8u == 0u) {
        load_groups(v, dtype, base, i % mod_, mod_);
        return;
    }
    values[v] = load_repeated(dtype, base, i, count, div, mod_);
    values[16u + v] = count - i > 4u ? load_repeated(dtype, base, i + 4u, count, div, mod_) : vec4(0.0);
}

void store_groups(uint v, uint dtype, uint64_t base, uint i, uint count) {
#ifdef HALF
    if (both_whole(dtype, base, i, count)) {
        rota_uvec4(base + uint64_t(i) * 2ul).v[0] =
            uvec4(half_pack(dtype, values[v]), half_pack(dtype, values[16u + v]));
        return;
    }
#endif
    store_whole(dtype, base, i, count, values[v]);
    if (count - i > 4u) store_whole(dtype, base, i + 4u, count, values[16u + v]);
}

void read_operand(uint k, uint i, uint count) {
    if (k >= OPERAND_COUNT) return;
    const uint about = described(k), how = about >> 6, dtype = about >> 4 & 3u, v = about & 15u;
    if (how == HOW_RESULT) return;
    if (how == 0u)
        load_groups(v, dtype, operand_address(k), i, count);
    else if (how == 1u)
        load_groups_repeated(v, dtype, operand_address(k), i, count, DIV_0, MOD_0);
    else
        load_groups_repeated(v, dtype, operand_address(k), i, count, DIV_1, MOD_1);
}

void write_operand(uint k, uint i, uint count) {
    if (k >= OPERAND_COUNT) return;
    const uint about = described(k);
    if (about >> 6 == HOW_RESULT) store_groups(about & 15u, about >> 4 & 3u, operand_address(k), i, count);
}

/* Results pass through an integer operation that no compiler sees through, so that a product and another step's sum are
 * not contracted to one rounding. `zero` is 0. */
void run_group(uint about, uint g, uint i, uint zero) {
    const uint kind = about & 7u, op = about >> 3 & 31u, dtype = about >> 24 & 3u, first = about >> 26;
    const vec4 a = values[16u * g + (about >> 8 & 15u)], b = values[16u * g + (about >> 12 & 15u)],
               c = values[16u * g + (about >> 16 & 15u)];
    vec4 y;
    if (kind == UNARY) {
        const float alpha = word_f32(first), beta = word_f32(first + 1u);
        [[unroll]] for (uint j = 0u; j < 4u; ++j) y[j] = unary(op, a[j], alpha, beta);
    } else if (kind == UNARY_BACKWARD) {
        const float alpha = word_f32(first), beta = word_f32(first + 1u);
        [[unroll]] for (uint j = 0u; j < 4u; ++j) y[j] = b[j] * derivative(op, a[j], alpha, beta);
    } else if (kind == BINARY) {
        [[unroll]] for (uint j = 0u; j < 4u; ++j) y[j] = binary(op, a[j], b[j]);
    } else if (kind == WHERE) { /* op: ROTA_WHERE_ flags */
        const vec4 other = (op & 2u) != 0u ? vec4(uintBitsToFloat(parameter(3u + first))) : c;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) y[j] =
            ((floatBitsToUint(a[j]) & 0x7FFFFFFFu) != 0u) != ((op & 1u) != 0u) ? b[j] : other[j];
    } else if (kind == CAST) {
        y = a;
    } else { /* dropout; op: whether there is a residual, b */
        const uvec4 random =
            philox(uvec4(word_u32(first + 5u) + i / 4u, word_u32(first + 2u), word_u32(first + 4u), 0u),
                   uvec2(word_u32(first + 3u), 0u));
        const uint threshold = word_u32(first);
        const float scale = word_f32(first + 1u);
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            precise const float kept = random[j] >= threshold ? a[j] * scale : 0.0;
            y[j] = op != 0u ? b[j] + kept : kept;
        }
    }
    [[unroll]] for (uint j = 0u; j < 4u; ++j) y[j] = uintBitsToFloat(floatBitsToUint(rounded(dtype, y[j])) ^ zero);
    values[16u * g + (about >> 20 & 15u)] = y;
}

void run_step(uint about, uint i, uint zero) {
    if ((about & 7u) == 0u) return;
    [[unroll]] for (uint g = 0u; g < GROUPS; ++g) run_group(about, g, i + 4u * g, zero);
}

void main() {
    const uint count = parameter(2u), i = rota_index() * 8u;
    if (rota_index() > (count - 1u) / 8u) return;
    const uint zero = parameter(1u) >> 31; /* the top bit of a host's address */
    [[unroll]] for (uint k = 0u; k < 8u; ++k) read_operand(k, i, count);
    run_step(STEP_0, i, zero);
    run_step(STEP_1, i, zero);
    run_step(STEP_2, i, zero);
    run_step(STEP_3, i, zero);
    run_step(STEP_4, i, zero);
    run_step(STEP_5, i, zero);
    run_step(STEP_6, i, zero);
    run_step(STEP_7, i, zero);
    [[unroll]] for (uint k = 0u; k < 8u; ++k) write_operand(k, i, count);
}
