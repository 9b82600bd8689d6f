/* rota_kernel_matmul, and with INPUT_F16 or INPUT_BF16 the 16-bit products on devices without cooperative matrices:
 * tiles of TILE x TILE results a workgroup, staged through two shared-memory buffers, each invocation keeping PATCH x
 * PATCH sums in registers. Sums run over k in order.
 *
 * TILE 128, PATCH 8: for large results, with twice the arithmetic for each value read from shared memory (H200, 4096^3,
 * f32: NN 31, NT 32, TN 38 TFLOP/s). TILE 64, PATCH 4: for the rest (25, 24, 32), and what lavapipe does best. TILE 32
 * with steps of 32, f32 only: for a GPU where 64 would leave most processors idle and k is long, as in the gradients of
 * weights (H200, 128 x 512 x 768: 26 us against 45). */
#version 460
#extension GL_GOOGLE_include_directive : require
#if defined(INPUT_F16) || defined(INPUT_BF16)
#define ROTA_USE_F16
#define ELEMENT_BYTES 2
#else
#define ELEMENT_BYTES 4
#endif
#include "elements.glsl"
#ifdef ROTA_USE_F16
#include "half.glsl"
#endif

#ifndef TILE
#define TILE 64
#define PATCH 4
#endif
#ifndef DEPTH
#define DEPTH 16 /* of k, a step */
#endif

const uint SIDE = TILE / PATCH;         /* invocations along each side */
const uint THREADS = SIDE * SIDE;
const uint LOADS = TILE * DEPTH / 4u / THREADS; /* groups of four that an invocation stages of each tile */
const uint PITCH = TILE / 4u + 1u; /* one more, against bank conflicts */
const uint BAND = 8u; /* rows of tiles that are worked through together, so that their operands stay in the L2 cache */

layout(local_size_x = (TILE / PATCH) * (TILE / PATCH)) in;
layout(constant_id = 2) const bool TRANSPOSE_A = false;
layout(constant_id = 3) const bool TRANSPOSE_B = false;
layout(constant_id = 4) const bool ADD = false;
layout(constant_id = 5) const uint C_DTYPE = 0u;

ROTA_KERNEL_BEGIN(3)
uint m;
uint n;
uint k;
uint lda;
uint ldb;
uint ldc;
uint flags;
uint c_dtype;
float alpha;
uint batch[3];
uint a_batch_stride[3];
uint b_batch_stride[3];
uint c_batch_stride[3];
ROTA_KERNEL_END

/* Both tiles k-major: elements (k, i) to (k, i + 3) at k * PITCH + i / 4. */
shared vec4 a_tile[2][DEPTH * PITCH];
shared vec4 b_tile[2][DEPTH * PITCH];

vec4 unpack(uint low, uint high) {
#ifdef INPUT_BF16
    return uintBitsToFloat(uvec4(low << 16, low & 0xFFFF0000u, high << 16, high & 0xFFFF0000u));
#else
    return vec4(unpackHalf2x16(low), unpackHalf2x16(high));
#endif
}

/* Four elements of a row of memory; zero beyond rows or columns. whole: all are there, and aligned. */
vec4 fetch(uint64_t base, uint stride, uint row, uint column, uint rows, uint columns, bool whole) {
    const uint64_t address = base + (uint64_t(row) * stride + column) * uint64_t(ELEMENT_BYTES);
#ifdef ROTA_USE_F16
    if (whole) {
        const uvec2 bits = unpackUint2x32(rota_u64(address).v[0]);
        return unpack(bits.x, bits.y);
    }
    uvec4 bits = uvec4(0u);
    if (row < rows)
        [[unroll]] for (uint j = 0u; j < 4u; ++j)
            if (column + j < columns) bits[j] = uint(rota_u16(address).v[j]);
    return unpack(bits.x | bits.y << 16, bits.z | bits.w << 16);
#else
    if (whole) return rota_vec4(address).v[0];
    vec4 value = vec4(0.0);
    if (row < rows)
        [[unroll]] for (uint j = 0u; j < 4u; ++j)
            if (column + j < columns) value[j] = rota_f32(address).v[j];
    return value;
#endif
}

/* Where group number e of four lies in a tile, as (i, k): along k if memory runs along k, else along i. */
uvec2 position_of(uint e, bool along_k) {
    return along_k ? uvec2(e / (DEPTH / 4u), e % (DEPTH / 4u) * 4u) : uvec2(e % (TILE / 4u) * 4u, e / (TILE / 4u));
}

void put(inout float total, uint64_t c, uint64_t element) {
    const float value = pc.alpha * total;
#ifdef ROTA_USE_F16
    if (C_DTYPE != DTYPE_F32) {
        rota_u16(c + element * 2ul).v[0] = uint16_t(C_DTYPE == DTYPE_F16 ? to_f16(value) : rota_to_bf16(value));
        return;
    }
#endif
    const uint64_t address = element_at(c, element);
    rota_f32(address).v[0] = ADD ? rota_f32(address).v[0] + value : value;
}

void main() {
    const uint rows = (pc.m - 1u) / TILE + 1u, columns = (pc.n - 1u) / TILE + 1u;
    const uint product = rota_group_index() / (rows * columns), id = rota_group_index() % (rows * columns);
    if (product >= pc.batch[0] * pc.batch[1] * pc.batch[2]) return;
    const uint band = id / (BAND * columns), height = min(rows - band * BAND, BAND), in_band = id % (BAND * columns);
    const uint row = (band * BAND + in_band % height) * TILE, column = in_band / height * TILE;
    const uvec3 index = uvec3(product / pc.batch[2] / pc.batch[1], product / pc.batch[2] % pc.batch[1],
                              product % pc.batch[2]);
    uint64_t a = 0ul, b = 0ul, c = 0ul;
    for (uint i = 0u; i < 3u; ++i) {
        a += uint64_t(index[i]) * pc.a_batch_stride[i];
        b += uint64_t(index[i]) * pc.b_batch_stride[i];
        c += uint64_t(index[i]) * pc.c_batch_stride[i];
    }
    a = rota_operand(0) + a * uint64_t(ELEMENT_BYTES);
    b = rota_operand(1) + b * uint64_t(ELEMENT_BYTES);
    const bool inside = row + TILE <= pc.m && column + TILE <= pc.n && ((pc.lda | pc.ldb) & 3u) == 0u &&
                        (uint(a | b) & (4u * ELEMENT_BYTES - 1u)) == 0u;
    const uint t = gl_LocalInvocationIndex, x = t % SIDE * 4u, y = t / SIDE * 4u;

    float total[PATCH][PATCH];
    [[unroll]] for (uint i = 0u; i < PATCH; ++i) [[unroll]] for (uint j = 0u; j < PATCH; ++j) total[i][j] = 0.0;
    vec4 a_next[LOADS], b_next[LOADS];
    uint current = 0u;
    for (uint step = 0u, steps = (pc.k - 1u) / DEPTH + 1u; step <= steps; ++step) {
        const uint k = step * DEPTH;
        if (step < steps) { /* global loads of the next tiles are in flight during the arithmetic on this one */
            const bool whole = inside && k + DEPTH <= pc.k;
            [[unroll]] for (uint i = 0u; i < LOADS; ++i) {
                const uvec2 p = position_of(i * THREADS + t, !TRANSPOSE_A),
                            q = position_of(i * THREADS + t, TRANSPOSE_B);
                a_next[i] = TRANSPOSE_A ? fetch(a, pc.lda, k + p.y, row + p.x, pc.k, pc.m, whole)
                                        : fetch(a, pc.lda, row + p.x, k + p.y, pc.m, pc.k, whole);
                b_next[i] = TRANSPOSE_B ? fetch(b, pc.ldb, column + q.x, k + q.y, pc.n, pc.k, whole)
                                        : fetch(b, pc.ldb, k + q.y, column + q.x, pc.k, pc.n, whole);
            }
        }
        if (step > 0u) {
            [[unroll]] for (uint kk = 0u; kk < DEPTH; ++kk) {
                vec4 left[PATCH / 4], right[PATCH / 4];
                [[unroll]] for (uint i = 0u; i < PATCH / 4u; ++i) {
                    left[i] = a_tile[current][kk * PITCH + i * SIDE + y / 4u];
                    right[i] = b_tile[current][kk * PITCH + i * SIDE + x / 4u];
                }
                [[unroll]] for (uint i = 0u; i < PATCH; ++i)
                    [[unroll]] for (uint j = 0u; j < PATCH; ++j)
                        total[i][j] = fma(left[i / 4u][i % 4u], right[j / 4u][j % 4u], total[i][j]);
            }
            current ^= 1u;
        }
        if (step < steps) {
            [[unroll]] for (uint i = 0u; i < LOADS; ++i) {
                const uvec2 p = position_of(i * THREADS + t, !TRANSPOSE_A),
                            q = position_of(i * THREADS + t, TRANSPOSE_B);
                if (TRANSPOSE_A)
                    a_tile[current][p.y * PITCH + p.x / 4u] = a_next[i];
                else
                    [[unroll]] for (uint j = 0u; j < 4u; ++j)
                        a_tile[current][(p.y + j) * PITCH + p.x / 4u][p.x % 4u] = a_next[i][j];
                if (TRANSPOSE_B)
                    [[unroll]] for (uint j = 0u; j < 4u; ++j)
                        b_tile[current][(q.y + j) * PITCH + q.x / 4u][q.x % 4u] = b_next[i][j];
                else
                    b_tile[current][q.y * PITCH + q.x / 4u] = b_next[i];
            }
        }
        barrier();
    }

    [[unroll]] for (uint i = 0u; i < PATCH; ++i)
        [[unroll]] for (uint j = 0u; j < PATCH; ++j) {
            const uint to_row = row + i / 4u * (SIDE * 4u) + y + i % 4u;
            const uint to_column = column + j / 4u * (SIDE * 4u) + x + j % 4u;
            if (to_row < pc.m && to_column < pc.n)
                put(total[i][j], rota_operand(2), c + uint64_t(to_row) * pc.ldc + to_column);
        }
}
