/* CUDA kernels: matmul_f16, matmul_bf16, sums in f32. From compute capability 8.0 on by matrix units (mma.sync),
 * operands staged through several shared-memory buffers by copies that run beside the arithmetic; before, as matmul
 * does. ops/cuda/matmul_tiles.c chooses between the tiles. */
#include "ops/cuda/matmul.cuh"
#include "ops/cuda/mma.cuh"

extern __shared__ float4 shared_vectors[];

#if __CUDA_ARCH__ >= 800
constexpr int DEPTH = 32; /* of k, a step */

/* ---- Operands ---- */

/* One operand's side of a tile: EXTENT rows of a (or columns of b), DEPTH of k, as rows of memory lie, in chunks of 8
 * elements. ALONG_K: memory runs along k. The chunks of a row are permuted by the row's number, so that eight rows'
 * chunks of one column lie in different banks. */
template <typename T, int EXTENT, int THREADS, bool ALONG_K> struct mma_side {
    static constexpr int BYTES = EXTENT * DEPTH * 2;
    static constexpr int CHUNKS = (ALONG_K ? DEPTH : EXTENT) / 8; /* of a row */
    static constexpr int LOADS = BYTES / 16 / THREADS;
    const T *from;
    uint64_t stride;
    uint32_t first, rows_or_columns, depth;
    uint32_t unit; /* bytes that the addresses allow to copy at a time: 16, 4 or 2 */

    ROTA_DEVICE mma_side(const T *from, uint32_t stride, uint32_t first, uint32_t extent, uint32_t depth)
        : from(from), stride(stride), first(first), rows_or_columns(extent), depth(depth) {
        unit = copy_unit(from, stride);
    }
    ROTA_DEVICE static uint32_t chunk_offset(uint32_t row, uint32_t chunk) {
        return row * (CHUNKS * 16) + ((chunk ^ (ALONG_K ? row >> 1 & 3 : row & 7)) * 16);
    }
    /* Chunk number e of the tile at k0: how many of its elements there are, where they are, and where they go. */
    ROTA_DEVICE uint32_t chunk(uint32_t e, uint32_t k0, uint32_t tile, const T *&source, uint32_t &to) const {
        const uint32_t rows = ALONG_K ? rows_or_columns : depth, columns = ALONG_K ? depth : rows_or_columns;
        const uint32_t r = e / CHUNKS, row = (ALONG_K ? first : k0) + r;
        const uint32_t column = (ALONG_K ? k0 : first) + e % CHUNKS * 8;
        const uint32_t there = row < rows && column < columns ? min(columns - column, 8u) : 0;
        source = there ? from + row * stride + column : from;
        to = tile + chunk_offset(r, e % CHUNKS);
        return there;
    }
    ROTA_DEVICE void copy(uint32_t k0, uint32_t tile) const {
        const T *source;
        uint32_t to;
        if (unit == 16) {
#pragma unroll
            for (int l = 0; l < LOADS; l++) {
                const uint32_t there = chunk(l * THREADS + threadIdx.x, k0, tile, source, to);
                copy16(to, source, there * 2);
            }
            return;
        }
#pragma unroll 1
        for (int l = 0; l < LOADS; l++) {
            const uint32_t there = chunk(l * THREADS + threadIdx.x, k0, tile, source, to);
            copy_chunk(to, source, there, unit);
        }
    }
};

template <typename T, int TILE_M, int TILE_N, int STAGES> struct mma_tile {
    static constexpr int THREADS = 128, WARPS_N = 2; /* two warps each way */
    static constexpr int ROWS = TILE_M / 2, COLUMNS = TILE_N / 2; /* of a warp */
    static constexpr int BLOCKS_M = ROWS / 16, BLOCKS_N = COLUMNS / 8;
    static constexpr int STAGE_BYTES = (TILE_M + TILE_N) * DEPTH * 2, SHARED_BYTES = STAGES * STAGE_BYTES;
    static constexpr int HEIGHT = TILE_M, WIDTH = TILE_N;

    float total[BLOCKS_M][BLOCKS_N][4] = {};

    template <bool TRANSPOSE_A, bool TRANSPOSE_B>
    ROTA_DEVICE void add(const rota_matmul_params &p, const matmul_block &block, const T *a, const T *b,
                         float *shared_memory) {
        using side_a = mma_side<T, TILE_M, THREADS, !TRANSPOSE_A>;
        using side_b = mma_side<T, TILE_N, THREADS, TRANSPOSE_B>;
        const side_a left(a, p.lda, block.row, p.m, p.k);
        const side_b right(b, p.ldb, block.column, p.n, p.k);
        const uint32_t shared = static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory));
        const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        const uint32_t warp_m = warp / WARPS_N * ROWS, warp_n = warp % WARPS_N * COLUMNS;
        const uint32_t steps = (p.k - 1) / DEPTH + 1;
        uint32_t fill = 0, use = 0; /* stages */
        for (uint32_t ahead = 0; ahead < steps + STAGES - 1; ahead++) {
            copies_wait<STAGES - 2>();
            __syncthreads(); /* the stage to use is there for all, and all have left the one to fill */
            if (ahead < steps) {
                left.copy(ahead * DEPTH, shared + fill * STAGE_BYTES);
                right.copy(ahead * DEPTH, shared + fill * STAGE_BYTES + side_a::BYTES);
            }
            copies_commit();
            fill = fill + 1 == STAGES ? 0 : fill + 1;
            if (ahead < STAGES - 1) continue;
            const uint32_t tile_a = shared + use * STAGE_BYTES, tile_b = tile_a + side_a::BYTES;
            use = use + 1 == STAGES ? 0 : use + 1;
#pragma unroll
            for (uint32_t k = 0; k < DEPTH; k += 16) {
                uint32_t u[BLOCKS_M][4], v[BLOCKS_N / 2][4];
#pragma unroll
                for (int i = 0; i < BLOCKS_M; i++) {
                    const uint32_t m = warp_m + i * 16;
                    load_matrices<TRANSPOSE_A>(
                        tile_a + (TRANSPOSE_A ? side_a::chunk_offset(k + lane % 8 + lane / 16 * 8, m / 8 + lane / 8 % 2)
                                              : side_a::chunk_offset(m + lane % 16, k / 8 + lane / 16)),
                        u[i]);
                }
#pragma unroll
                for (int j = 0; j < BLOCKS_N / 2; j++) {
                    const uint32_t n = warp_n + j * 16;
                    load_matrices<!TRANSPOSE_B>(
                        tile_b + (TRANSPOSE_B ? side_b::chunk_offset(n + lane % 8 + lane / 16 * 8, k / 8 + lane / 8 % 2)
                                              : side_b::chunk_offset(k + lane % 16, n / 8 + lane / 16)),
                        v[j]);
                }
#pragma unroll
                for (int i = 0; i < BLOCKS_M; i++)
#pragma unroll
                    for (int j = 0; j < BLOCKS_N; j++) multiply(T(), total[i][j], u[i], &v[j / 2][j % 2 * 2]);
            }
        }
        copies_wait<0>();
        __syncthreads();
    }

    /* Sixteen rows of a warp at a time go through shared memory, so that memory is written in long runs. */
    ROTA_DEVICE void write(const rota_matmul_params &p, const matmul_block &block, void *c, float *shared) const {
        constexpr uint32_t PITCH = COLUMNS + 4;
        static_assert(4 * 16 * PITCH * 4 <= SHARED_BYTES, "the strips of four warps");
        const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        const uint32_t row = block.row + warp / WARPS_N * ROWS, column = block.column + warp % WARPS_N * COLUMNS;
        float *strip = shared + warp * (16 * PITCH);
#pragma unroll
        for (int i = 0; i < BLOCKS_M; i++) {
            __syncwarp();
#pragma unroll
            for (int j = 0; j < BLOCKS_N; j++) {
                float *to = strip + lane / 4 * PITCH + j * 8 + lane % 4 * 2;
                *reinterpret_cast<float2 *>(to) = make_float2(total[i][j][0], total[i][j][1]);
                *reinterpret_cast<float2 *>(to + 8 * PITCH) = make_float2(total[i][j][2], total[i][j][3]);
            }
            __syncwarp();
#pragma unroll 1
            for (uint32_t e = lane; e < 16 * COLUMNS / 4; e += 32) {
                const uint32_t r = e / (COLUMNS / 4), offset = e % (COLUMNS / 4) * 4;
                const float4 q = *reinterpret_cast<const float4 *>(strip + r * PITCH + offset);
                put<T>(p, c, block.c, row + i * 16 + r, column + offset, {q.x, q.y, q.z, q.w});
            }
        }
    }
};

template <typename T> using large = mma_tile<T, 128, 128, 3>;
template <typename T> using small = mma_tile<T, 64, 64, 4>;
static_assert(large<__half>::SHARED_BYTES == ROTA_CUDA_MATMUL_HALF_LARGE_SHARED &&
                  small<__half>::SHARED_BYTES == ROTA_CUDA_MATMUL_HALF_SMALL_SHARED,
              "ops/cuda/shapes.h says how much shared memory a tile has");
#else
template <typename T> using large = simt_tile<T, 128, 128, 8, 8, 8>;
template <typename T> using small = simt_tile<T, 64, 64, 16, 4, 4>;
#endif

#define TILE(name, tile, type, blocks)                                                                       \
    ROTA_KERNEL_BLOCKS(name, 3, rota_matmul_params, tile<type>::THREADS, blocks) {                           \
        matmul_by<tile<type>, type>(args, reinterpret_cast<float *>(shared_vectors));                  \
    }

TILE(matmul_f16, small, __half, 3)
TILE(matmul_f16_large, large, __half, 2)
TILE(matmul_bf16, small, __nv_bfloat16, 3)
TILE(matmul_bf16_large, large, __nv_bfloat16, 2)
