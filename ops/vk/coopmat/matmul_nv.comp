/* Products of 16-bit matrices with f32 sums through VK_NV_cooperative_matrix2: a workgroup holds a tile of TILE_M x
 * TILE_N results as one matrix, and the driver stages the operands, which it reads by tensor layout.
 *
 * The loop over k carries no unrolling hint: with [[dont_unroll]] the driver does not overlap the loads of one step
 * with the products of the last (H200, 4096^3, 128 x 256 x 32: 180 TFLOP/s against 263). Tiles of 128 x 128 x 32 by 128
 * invocations did best there of some twenty shapes (260; NT 239, TN 288), 64 x 64 x 64 where a large tile would leave
 * processors idle (1024^3: 112 against 78).
 *
 * Written for float16; build.sh makes the bfloat16 module from it by retyping every 16-bit float, so nothing here may
 * depend on which of the two it is. */
#version 460
#pragma use_vulkan_memory_model
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#define ROTA_USE_F16
#include "rota_kernel.glsl"

#ifndef TILE_M
#define TILE_M 128
#define TILE_N 128
#define TILE_K 32
#define THREADS 128
#endif

layout(local_size_x = THREADS) in;
#include "matmul_params.glsl"

layout(buffer_reference, std430, buffer_reference_align = 16) buffer half_rows { float16_t v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer float_rows { float v[]; };

#define MATRIX(type, rows, columns, use) coopmat<type, gl_ScopeWorkgroup, rows, columns, gl_MatrixUse##use>
#define CLAMPED gl_CooperativeMatrixClampModeConstantNV

/* total += the tile's products, k in steps. `half_type` and the layouts' types differ between the two uses. */
#define WALK(half_type, a_layout, b_layout, depth)                                                           \
    for (uint k = 0u; k < (depth); k += TILE_K) {                                                            \
        MATRIX(float16_t, TILE_M, TILE_K, A) a;                                                              \
        MATRIX(float16_t, TILE_K, TILE_N, B) b;                                                              \
        if (TRANSPOSE_A)                                                                                     \
            coopMatLoadTensorNV(a, half_type(tile.a).v, 0,                                                   \
                                sliceTensorLayoutNV(a_layout, k, TILE_K, tile.row, TILE_M), turned);         \
        else                                                                                                 \
            coopMatLoadTensorNV(a, half_type(tile.a).v, 0,                                                   \
                                sliceTensorLayoutNV(a_layout, tile.row, TILE_M, k, TILE_K));                 \
        if (TRANSPOSE_B)                                                                                     \
            coopMatLoadTensorNV(b, half_type(tile.b).v, 0,                                                   \
                                sliceTensorLayoutNV(b_layout, tile.column, TILE_N, k, TILE_K), turned);      \
        else                                                                                                 \
            coopMatLoadTensorNV(b, half_type(tile.b).v, 0,                                                   \
                                sliceTensorLayoutNV(b_layout, k, TILE_K, tile.column, TILE_N));              \
        total = coopMatMulAdd(a, b, total);                                                                  \
    }

/* A function of each element, since a loop over them takes longer than the products (H200, bf16, 4096 x 50304 x 768, b
 * transposed: 5.8 ms, with this 1.9). */
float element_as_stored(const in uint row, const in uint column, const in float value) { return as_stored(value); }

/* The result, scaled, added where asked, into rows of 32-bit or 16-bit floats. */
#define PUT(half_type, float_type, c_layout)                                                                 \
    {                                                                                                        \
        total = total * pc.alpha;                                                                            \
        if (ADD) {                                                                                           \
            MATRIX(float, TILE_M, TILE_N, Accumulator) before;                                               \
            coopMatLoadTensorNV(before, float_type(tile.c).v, 0, c_layout);                                  \
            total = total + before;                                                                          \
        }                                                                                                    \
        if (C_DTYPE == 2u) coopMatPerElementNV(total, total, element_as_stored);                             \
        if (C_DTYPE == 0u)                                                                                   \
            coopMatStoreTensorNV(total, float_type(tile.c).v, 0, c_layout);                                  \
        else                                                                                                 \
            coopMatStoreTensorNV(MATRIX(float16_t, TILE_M, TILE_N, Accumulator)(total), half_type(tile.c).v, \
                                 0, c_layout);                                                               \
    }

void main() {
    const rota_tile tile = tile_of_group();
    if (!tile.there) return;
    MATRIX(float, TILE_M, TILE_N, Accumulator) total = MATRIX(float, TILE_M, TILE_N, Accumulator)(0.0);
    tensorViewNV<2, false, 1, 0> turned = createTensorViewNV(2, false, 1, 0);

    /* Whole tiles whose rows are multiples of 16 bytes need no clamping and load 16 bytes at a time; the driver sees
     * that from the masked strides. */
    const bool whole = tile.row + TILE_M <= pc.m && tile.column + TILE_N <= pc.n && (pc.k % TILE_K) == 0u &&
                       ((pc.lda | pc.ldb) & 7u) == 0u && (uint(tile.a | tile.b) & 15u) == 0u;
    if (whole) {
        tensorLayoutNV<2> a_layout = createTensorLayoutNV(2), b_layout = createTensorLayoutNV(2);
        a_layout = setTensorLayoutDimensionNV(a_layout, TRANSPOSE_A ? pc.k : pc.m, TRANSPOSE_A ? pc.m : pc.k);
        b_layout = setTensorLayoutDimensionNV(b_layout, TRANSPOSE_B ? pc.n : pc.k, TRANSPOSE_B ? pc.k : pc.n);
        a_layout = setTensorLayoutStrideNV(a_layout, pc.lda & ~7u, 1);
        b_layout = setTensorLayoutStrideNV(b_layout, pc.ldb & ~7u, 1);
        WALK(half_rows, a_layout, b_layout, pc.k & ~(TILE_K - 1u))
    } else {
        tensorLayoutNV<2, CLAMPED> a_layout = createTensorLayoutNV(2, CLAMPED);
        tensorLayoutNV<2, CLAMPED> b_layout = createTensorLayoutNV(2, CLAMPED);
        a_layout = setTensorLayoutDimensionNV(a_layout, TRANSPOSE_A ? pc.k : pc.m, TRANSPOSE_A ? pc.m : pc.k);
        b_layout = setTensorLayoutDimensionNV(b_layout, TRANSPOSE_B ? pc.n : pc.k, TRANSPOSE_B ? pc.k : pc.n);
        a_layout = setTensorLayoutStrideNV(a_layout, pc.lda, 1);
        b_layout = setTensorLayoutStrideNV(b_layout, pc.ldb, 1);
        [[dont_unroll]] WALK(rota_f16, a_layout, b_layout, pc.k)
    }
    tensorLayoutNV<2, CLAMPED> c_layout = createTensorLayoutNV(2, CLAMPED);
    c_layout = setTensorLayoutDimensionNV(c_layout, pc.m, pc.n);
    if (((pc.ldc & 7u) | (uint(tile.c) & 15u)) == 0u) {
        c_layout = setTensorLayoutStrideNV(c_layout, pc.ldc & ~7u, 1);
        c_layout = sliceTensorLayoutNV(c_layout, tile.row, TILE_M, tile.column, TILE_N);
        PUT(half_rows, float_rows, c_layout)
    } else {
        c_layout = setTensorLayoutStrideNV(c_layout, pc.ldc, 1);
        c_layout = sliceTensorLayoutNV(c_layout, tile.row, TILE_M, tile.column, TILE_N);
        PUT(rota_f16, rota_f32, c_layout)
    }
}
