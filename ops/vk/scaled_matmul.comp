/* rota_kernel_scaled_matmul: tiles of TILE x TILE results a workgroup, staged through shared memory as f32, an
 * invocation's PATCH x PATCH sums in registers, each over k in order. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ROTA_USE_F16
#define ROTA_USE_BYTES
#include "elements.glsl"
#include "half.glsl"
#include "f8.glsl"

const uint TILE = 64u, DEPTH = 16u, PATCH = 4u, SIDE = TILE / PATCH;
layout(local_size_x = 256) in;
layout(constant_id = 2) const uint A_DTYPE = 5u; /* rota_dtype */
layout(constant_id = 3) const uint B_DTYPE = 5u;
layout(constant_id = 4) const uint Y_DTYPE = 0u;
const uint SCALED_BIAS = 1u, SCALED_BY_ROWS = 2u;

ROTA_KERNEL_BEGIN(6)
uint m;
uint n;
uint k;
uint lda;
uint ldb;
uint flags;
uint a_dtype;
uint b_dtype;
uint y_dtype;
ROTA_KERNEL_END

shared float left[DEPTH * (TILE + 1u)], right[DEPTH * (TILE + 1u)];

/* Element [row, column] of a matrix; 0 beyond it. */
float fetch(uint dtype, uint64_t base, uint row, uint rows, uint ld, uint column) {
    if (row >= rows || column >= pc.k) return 0.0;
    return from_f8(dtype, uint(rota_u8(base + uint64_t(row) * ld + column).v[0]));
}

void main() {
    const uint columns = (pc.n - 1u) / TILE + 1u, group = rota_group_index();
    if (group / columns > (pc.m - 1u) / TILE) return; /* the padding of a folded grid */
    const uint row = group / columns * TILE, column = group % columns * TILE;
    const uint64_t a = rota_operand(0), b = rota_operand(1);
    const uint staged = gl_LocalInvocationIndex / (DEPTH / 4u), from = gl_LocalInvocationIndex % (DEPTH / 4u) * 4u;
    const uint y = gl_LocalInvocationIndex / SIDE, x = gl_LocalInvocationIndex % SIDE;
    float sum[PATCH * PATCH];
    [[unroll]] for (uint i = 0u; i < PATCH * PATCH; ++i) sum[i] = 0.0;
    /* Counted: k0 would wrap where k is near 2^32. */
    for (uint step = 0u, steps = pc.k > 0u ? (pc.k - 1u) / DEPTH + 1u : 0u; step < steps; ++step) {
        const uint k0 = step * DEPTH;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            const uint to = (from + j) * (TILE + 1u) + staged;
            left[to] = fetch(A_DTYPE, a, row + staged, pc.m, pc.lda, k0 + from + j);
            right[to] = fetch(B_DTYPE, b, column + staged, pc.n, pc.ldb, k0 + from + j);
        }
        barrier();
        for (uint k = 0u; k < DEPTH; ++k)
            [[unroll]] for (uint i = 0u; i < PATCH; ++i)
                [[unroll]] for (uint j = 0u; j < PATCH; ++j)
                    sum[i * PATCH + j] +=
                        left[k * (TILE + 1u) + y + i * SIDE] * right[k * (TILE + 1u) + x + j * SIDE];
        barrier();
    }
    const bool by_rows = (pc.flags & SCALED_BY_ROWS) != 0u, biased = (pc.flags & SCALED_BIAS) != 0u;
    [[unroll]] for (uint i = 0u; i < PATCH; ++i)
        [[unroll]] for (uint j = 0u; j < PATCH; ++j) {
            const uint r = row + y + i * SIDE, c = column + x + j * SIDE;
            if (r >= pc.m || c >= pc.n) continue;
            const float scale = load(rota_operand(2), by_rows ? r : 0u) * load(rota_operand(3), by_rows ? c : 0u);
            float value = scale * sum[i * PATCH + j];
            if (biased) value += load_as(Y_DTYPE, rota_operand(4), c);
            const uint64_t to = uint64_t(r) * pc.n + c;
            if (Y_DTYPE == DTYPE_F32)
                rota_f32(rota_operand(5) + to * 4ul).v[0] = value;
            else
                store_as(Y_DTYPE, rota_operand(5) + to * 2ul, 0u, value);
        }
}
