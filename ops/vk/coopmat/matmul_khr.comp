/* Products of 16-bit matrices with f32 sums through VK_KHR_cooperative_matrix: a workgroup makes TILE_M x TILE_N
 * results, each of its subgroups of 32 a part of PART_M x PART_N as 16 x 16 matrices. Operands go through two
 * shared-memory buffers: while one step of TILE_K is multiplied, the next is on its way from memory in registers.
 *
 * Written for float16; build.sh makes the bfloat16 module from it by retyping every 16-bit float: elements are moved as
 * bits, and only cooperative matrices are of that type. */
#version 460
#pragma use_vulkan_memory_model
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
#define ROTA_USE_F16
#include "rota_kernel.glsl"

#ifndef TILE_M
#define TILE_M 128
#define TILE_N 128
#define TILE_K 16
#define PART_M 64
#define PART_N 64
#endif
#define THREADS ((TILE_M / PART_M) * (TILE_N / PART_N) * 32)

layout(local_size_x = THREADS) in;
#include "matmul_params.glsl"

/* A tile as it lies in memory: rows of 8-element groups, one group more between rows against bank conflicts. The pitch
 * serves both orientations, whichever the specialization constant says. */
const uint A_ROWS = TRANSPOSE_A ? TILE_K : TILE_M, A_GROUPS = (TRANSPOSE_A ? TILE_M : TILE_K) / 8u;
const uint B_ROWS = TRANSPOSE_B ? TILE_N : TILE_K, B_GROUPS = (TRANSPOSE_B ? TILE_K : TILE_N) / 8u;
const uint A_PITCH = A_GROUPS + 1u, B_PITCH = B_GROUPS + 1u;
const uint A_LOADS = TILE_M * TILE_K / 8u / THREADS, B_LOADS = TILE_N * TILE_K / 8u / THREADS;
/* Room for either orientation. */
const uint A_SIZE = TILE_M * (TILE_K / 8u + 1u), B_SIZE = TILE_N * (TILE_K / 8u + 1u);
shared uvec4 a_tile[2][A_SIZE];
shared uvec4 b_tile[2][B_SIZE];

#define MATRIX(type, use) coopmat<type, gl_ScopeSubgroup, 16, 16, gl_MatrixUse##use>

/* Eight elements of a row of memory, as bits; zero beyond rows or columns. whole: all are there, and aligned. */
uvec4 fetch(uint64_t base, uint stride, uint row, uint column, uint rows, uint columns, bool whole) {
    const uint64_t address = base + (uint64_t(row) * stride + column) * 2ul;
    if (whole) return rota_uvec4(address).v[0];
    uvec4 bits = uvec4(0u);
    if (row < rows)
        for (uint j = 0u; j < 8u && column + j < columns; ++j)
            bits[j / 2u] |= uint(rota_u16(address).v[j]) << (j % 2u * 16u);
    return bits;
}

void main() {
    const rota_tile tile = tile_of_group();
    if (!tile.there) return;
    const uint t = gl_LocalInvocationIndex;
    const uint part_row = gl_SubgroupID / (TILE_N / PART_N) * PART_M,
               part_column = gl_SubgroupID % (TILE_N / PART_N) * PART_N;
    const bool inside = tile.row + TILE_M <= pc.m && tile.column + TILE_N <= pc.n &&
                        ((pc.lda | pc.ldb) & 7u) == 0u && (uint(tile.a | tile.b) & 15u) == 0u;

    MATRIX(float, Accumulator) total[PART_M / 16][PART_N / 16];
    [[unroll]] for (uint i = 0u; i < PART_M / 16u; ++i)
        [[unroll]] for (uint j = 0u; j < PART_N / 16u; ++j) total[i][j] = MATRIX(float, Accumulator)(0.0);

    uvec4 a_next[A_LOADS], b_next[B_LOADS];
    uint current = 0u;
    for (uint step = 0u, steps = (pc.k - 1u) / TILE_K + 1u; step <= steps; ++step) {
        const uint k = step * TILE_K;
        if (step < steps) {
            const bool whole = inside && k + TILE_K <= pc.k;
            [[unroll]] for (uint i = 0u; i < A_LOADS; ++i) {
                const uint e = i * THREADS + t, r = e / A_GROUPS, g = e % A_GROUPS * 8u;
                a_next[i] = TRANSPOSE_A ? fetch(tile.a, pc.lda, k + r, tile.row + g, pc.k, pc.m, whole)
                                        : fetch(tile.a, pc.lda, tile.row + r, k + g, pc.m, pc.k, whole);
            }
            [[unroll]] for (uint i = 0u; i < B_LOADS; ++i) {
                const uint e = i * THREADS + t, r = e / B_GROUPS, g = e % B_GROUPS * 8u;
                b_next[i] = TRANSPOSE_B ? fetch(tile.b, pc.ldb, tile.column + r, k + g, pc.n, pc.k, whole)
                                        : fetch(tile.b, pc.ldb, k + r, tile.column + g, pc.k, pc.n, whole);
            }
        }
        if (step > 0u) {
            [[unroll]] for (uint kk = 0u; kk < TILE_K; kk += 16u) {
                MATRIX(float16_t, A) a[PART_M / 16];
                [[unroll]] for (uint i = 0u; i < PART_M / 16u; ++i) {
                    const uint row = part_row + i * 16u;
                    if (TRANSPOSE_A)
                        coopMatLoad(a[i], a_tile[current], kk * A_PITCH + row / 8u, A_PITCH,
                                    gl_CooperativeMatrixLayoutColumnMajor);
                    else
                        coopMatLoad(a[i], a_tile[current], row * A_PITCH + kk / 8u, A_PITCH,
                                    gl_CooperativeMatrixLayoutRowMajor);
                }
                [[unroll]] for (uint j = 0u; j < PART_N / 16u; ++j) {
                    const uint column = part_column + j * 16u;
                    MATRIX(float16_t, B) b;
                    if (TRANSPOSE_B)
                        coopMatLoad(b, b_tile[current], column * B_PITCH + kk / 8u, B_PITCH,
                                    gl_CooperativeMatrixLayoutColumnMajor);
                    else
                        coopMatLoad(b, b_tile[current], kk * B_PITCH + column / 8u, B_PITCH,
                                    gl_CooperativeMatrixLayoutRowMajor);
                    [[unroll]] for (uint i = 0u; i < PART_M / 16u; ++i)
                        total[i][j] = coopMatMulAdd(a[i], b, total[i][j]);
                }
            }
            current ^= 1u;
        }
        if (step < steps) {
            [[unroll]] for (uint i = 0u; i < A_LOADS; ++i) {
                const uint e = i * THREADS + t;
                a_tile[current][e / A_GROUPS * A_PITCH + e % A_GROUPS] = a_next[i];
            }
            [[unroll]] for (uint i = 0u; i < B_LOADS; ++i) {
                const uint e = i * THREADS + t;
                b_tile[current][e / B_GROUPS * B_PITCH + e % B_GROUPS] = b_next[i];
            }
        }
        barrier();
    }

    [[unroll]] for (uint i = 0u; i < PART_M / 16u; ++i)
        [[unroll]] for (uint j = 0u; j < PART_N / 16u; ++j) {
            const uint row = tile.row + part_row + i * 16u, column = tile.column + part_column + j * 16u;
            if (row >= pc.m || column >= pc.n) continue;
            total[i][j] = total[i][j] * pc.alpha;
            if (C_DTYPE == 2u)
                [[unroll]] for (uint e = 0u; e < total[i][j].length(); ++e) total[i][j][e] = as_stored(total[i][j][e]);
            const uint64_t element = uint64_t(row) * pc.ldc + column;
            if (row + 16u <= pc.m && column + 16u <= pc.n) {
                if (ADD) {
                    MATRIX(float, Accumulator) before;
                    coopMatLoad(before, rota_f32(tile.c + element * 4ul).v, 0, pc.ldc,
                                gl_CooperativeMatrixLayoutRowMajor);
                    total[i][j] = total[i][j] + before;
                }
                if (C_DTYPE == 0u)
                    coopMatStore(total[i][j], rota_f32(tile.c + element * 4ul).v, 0, pc.ldc,
                                 gl_CooperativeMatrixLayoutRowMajor);
                else
                    coopMatStore(MATRIX(float16_t, Accumulator)(total[i][j]), rota_u16(tile.c + element * 2ul).v, 0,
                                 pc.ldc, gl_CooperativeMatrixLayoutRowMajor);
                continue;
            }
            /* A matrix over the edge goes through this subgroup's piece of shared memory (the tiles are done with). */
            const uint piece = gl_SubgroupID * 64u, lane = gl_SubgroupInvocationID;
            if (C_DTYPE == 0u)
                coopMatStore(total[i][j], a_tile[0], piece, 4, gl_CooperativeMatrixLayoutRowMajor);
            else
                coopMatStore(MATRIX(float16_t, Accumulator)(total[i][j]), a_tile[0], piece, 2,
                             gl_CooperativeMatrixLayoutRowMajor);
            controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
            const uint to_row = row + lane / 2u, to_column = column + lane % 2u * 8u;
            const uint64_t to = tile.c + (uint64_t(to_row) * pc.ldc + to_column) * (C_DTYPE == 0u ? 4ul : 2ul);
            for (uint e = 0u; e < 8u && to_row < pc.m && to_column + e < pc.n; ++e) {
                if (C_DTYPE == 0u) {
                    const float value = uintBitsToFloat(a_tile[0][piece + lane * 2u + e / 4u][e % 4u]);
                    rota_f32(to).v[e] = ADD ? rota_f32(to).v[e] + value : value;
                } else {
                    rota_u16(to).v[e] = uint16_t(a_tile[0][piece + lane][e / 2u] >> (e % 2u * 16u));
                }
            }
            controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
        }
}
