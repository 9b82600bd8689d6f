/* What the matrix products share: where a block's tile lies, how results are written, and a tile without matrix units:
 * staged k-major through two shared-memory buffers, each thread keeping ROWS x COLUMNS sums in registers. Sums run over
 * k in order.
 */
#ifndef ROTA_OPS_CUDA_MATMUL_CUH
#define ROTA_OPS_CUDA_MATMUL_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "ops/cuda/common.cuh"

ROTA_DEVICE float widen(float x) { return x; }
ROTA_DEVICE float widen(__half x) { return __half2float(x); }
ROTA_DEVICE float widen(__nv_bfloat16 x) { return __bfloat162float(x); }

/* A block's tile: the first row and column, and where the product's matrices begin. */
struct matmul_block {
    uint32_t row, column;
    uint64_t a, b, c; /* in elements */
    bool beyond;      /* the padding of a folded grid */
};

/* Rows of tiles that are worked through together, so that their operands stay in the L2 cache. */
constexpr uint32_t BAND = 8;

template <uint32_t TILE_M, uint32_t TILE_N> ROTA_DEVICE matmul_block block_of(const rota_matmul_params &p) {
    const uint32_t rows = (p.m - 1) / TILE_M + 1, columns = (p.n - 1) / TILE_N + 1;
    const uint64_t tiles = static_cast<uint64_t>(rows) * columns, group = rota_group_index();
    uint64_t product = group / tiles, id = group % tiles;
    const uint64_t band = id / (static_cast<uint64_t>(BAND) * columns);
    const uint32_t height = min(rows - static_cast<uint32_t>(band) * BAND, BAND);
    id %= static_cast<uint64_t>(BAND) * columns;
    matmul_block block = {};
    block.row = (static_cast<uint32_t>(band) * BAND + static_cast<uint32_t>(id % height)) * TILE_M;
    block.column = static_cast<uint32_t>(id / height) * TILE_N;
#pragma unroll
    for (int d = 2; d >= 0; d--) {
        const uint64_t i = product % p.batch[d];
        product /= p.batch[d];
        block.a += i * p.a_batch_stride[d];
        block.b += i * p.b_batch_stride[d];
        block.c += i * p.c_batch_stride[d];
    }
    block.beyond = product != 0;
    return block;
}

/* Writes COUNT neighbouring results (alpha times the sums) that begin at (row, column). T: what was multiplied; the
 * results of floats are floats. */
template <typename T, int COUNT>
ROTA_DEVICE void put(const rota_matmul_params &p, void *c, uint64_t base, uint32_t row, uint32_t column,
                     const float (&sum)[COUNT]) {
    if (row >= p.m) return;
    const uint64_t element = base + static_cast<uint64_t>(row) * p.ldc + column;
    const bool all = column + COUNT <= p.n;
    if (sizeof(T) == 4 || p.c_dtype == DTYPE_F32) {
        float *to = static_cast<float *>(c) + element;
        float value[COUNT];
        const bool vector = all && (reinterpret_cast<uint64_t>(to) & (4 * COUNT - 1)) == 0;
        const bool add = p.flags & ROTA_MATMUL_ACCUMULATE;
#pragma unroll
        for (int j = 0; j < COUNT; j++) {
            value[j] = p.alpha * sum[j];
            if (add && column + j < p.n) value[j] += to[j];
        }
        if (vector && COUNT == 4)
            *reinterpret_cast<float4 *>(to) = make_float4(value[0], value[1], value[COUNT - 2], value[COUNT - 1]);
        else if (vector && COUNT == 2)
            *reinterpret_cast<float2 *>(to) = make_float2(value[0], value[1]);
        else
#pragma unroll
            for (int j = 0; j < COUNT; j++)
                if (column + j < p.n) to[j] = value[j];
        return;
    }
    uint16_t *to = static_cast<uint16_t *>(c) + element, bits[COUNT];
#pragma unroll
    for (int j = 0; j < COUNT; j++)
        bits[j] = p.c_dtype == DTYPE_F16 ? __half_as_ushort(__float2half_rn(p.alpha * sum[j]))
                                         : __bfloat16_as_ushort(__float2bfloat16_rn(p.alpha * sum[j]));
    const bool pairs = all && (reinterpret_cast<uint64_t>(to) & 3) == 0;
#pragma unroll
    for (int j = 0; j < COUNT; j += 2)
        if (pairs)
            *reinterpret_cast<uint32_t *>(to + j) = bits[j] | static_cast<uint32_t>(bits[j + 1]) << 16;
        else {
            if (column + j < p.n) to[j] = bits[j];
            if (column + j + 1 < p.n) to[j + 1] = bits[j + 1];
        }
}

/* ---- Without matrix units ---- */

/* One operand's side of a tile: EXTENT rows of a (or columns of b), DEPTH of k. ALONG_K: memory runs along k. */
template <typename T, int EXTENT, int DEPTH, int THREADS, bool ALONG_K> struct simt_side {
    static constexpr int PITCH = EXTENT + 4; /* against bank conflicts; whole vectors */
    static constexpr int LOADS = EXTENT * DEPTH / 4 / THREADS;
    static constexpr int BYTES = DEPTH * PITCH * 4;
    const T *from;
    uint64_t stride;
    uint32_t first, extent, depth;
    bool aligned;
    float next[LOADS][4];

    ROTA_DEVICE simt_side(const T *from, uint32_t stride, uint32_t first, uint32_t extent, uint32_t depth)
        : from(from), stride(stride), first(first), extent(extent), depth(depth) {
        aligned = stride % 4 == 0 && reinterpret_cast<uint64_t>(from) % (4 * sizeof(T)) == 0;
    }
    /* Where group number e of four elements lies in the tile. */
    ROTA_DEVICE static void position(int e, int &i, int &k) {
        i = ALONG_K ? e / (DEPTH / 4) : e % (EXTENT / 4) * 4;
        k = ALONG_K ? e % (DEPTH / 4) * 4 : e / (EXTENT / 4);
    }
    ROTA_DEVICE void fetch(uint32_t k0) {
#pragma unroll
        for (int l = 0; l < LOADS; l++) {
            int i, k;
            position(l * THREADS + threadIdx.x, i, k);
            const uint32_t row = ALONG_K ? first + i : k0 + k, column = ALONG_K ? k0 + k : first + i;
            const uint32_t rows = ALONG_K ? extent : depth, columns = ALONG_K ? depth : extent;
            const T *source = from + row * stride + column;
#pragma unroll
            for (int j = 0; j < 4; j++) next[l][j] = 0.0f;
            if (row >= rows) continue;
            if (aligned && column + 4 <= columns) {
                struct alignas(4 * sizeof(T)) vector {
                    T v[4];
                };
                const vector value = *reinterpret_cast<const vector *>(source);
#pragma unroll
                for (int j = 0; j < 4; j++) next[l][j] = widen(value.v[j]);
            } else
#pragma unroll
                for (int j = 0; j < 4; j++)
                    if (column + j < columns) next[l][j] = widen(source[j]);
        }
    }
    ROTA_DEVICE void stage(float *tile) const {
#pragma unroll
        for (int l = 0; l < LOADS; l++) {
            int i, k;
            position(l * THREADS + threadIdx.x, i, k);
            if (ALONG_K) {
#pragma unroll
                for (int j = 0; j < 4; j++) tile[(k + j) * PITCH + i] = next[l][j];
            } else
                *reinterpret_cast<float4 *>(tile + k * PITCH + i) =
                    make_float4(next[l][0], next[l][1], next[l][2], next[l][3]);
        }
    }
};

/* COUNT values of a thread in vectors of WIDTH: vector v holds elements v * SIDE * WIDTH + number * WIDTH and on. */
template <int COUNT, int SIDE> struct simt_share {
    static constexpr int WIDTH = COUNT < 4 ? COUNT : 4;
    ROTA_DEVICE static int element(int number, int i) { return i / WIDTH * SIDE * WIDTH + number * WIDTH + i % WIDTH; }
    ROTA_DEVICE static void read(const float *row, int number, float (&out)[COUNT]) {
#pragma unroll
        for (int i = 0; i < COUNT; i += WIDTH) {
            const float *from = row + element(number, i);
            if (WIDTH == 4) {
                const float4 q = *reinterpret_cast<const float4 *>(from);
                out[i] = q.x, out[i + 1] = q.y, out[i + WIDTH - 2] = q.z, out[i + WIDTH - 1] = q.w;
            } else {
                const float2 q = *reinterpret_cast<const float2 *>(from);
                out[i] = q.x, out[i + 1] = q.y;
            }
        }
    }
};

template <typename T, int TILE_M, int TILE_N, int DEPTH, int ROWS, int COLUMNS> struct simt_tile {
    static constexpr int SIDE_M = TILE_M / ROWS, SIDE_N = TILE_N / COLUMNS, THREADS = SIDE_M * SIDE_N;
    static constexpr int SHARED_BYTES = 2 * DEPTH * (TILE_M + 4 + TILE_N + 4) * 4, HEIGHT = TILE_M, WIDTH = TILE_N;
    using share_m = simt_share<ROWS, SIDE_M>;
    using share_n = simt_share<COLUMNS, SIDE_N>;

    float total[ROWS][COLUMNS] = {};

    template <bool TRANSPOSE_A, bool TRANSPOSE_B>
    ROTA_DEVICE void add(const rota_matmul_params &p, const matmul_block &block, const T *a, const T *b,
                         float *shared) {
        simt_side<T, TILE_M, DEPTH, THREADS, !TRANSPOSE_A> left(a, p.lda, block.row, p.m, p.k);
        simt_side<T, TILE_N, DEPTH, THREADS, TRANSPOSE_B> right(b, p.ldb, block.column, p.n, p.k);
        constexpr int A_FLOATS = left.BYTES / 4, STAGE = (left.BYTES + right.BYTES) / 4;
        const int x = threadIdx.x % SIDE_N, y = threadIdx.x / SIDE_N;
        int current = 1;
        for (uint64_t ahead = 0; ahead < static_cast<uint64_t>(p.k) + DEPTH;
             ahead += DEPTH, current ^= 1) { /* fetched; used a step later */
            if (ahead < p.k) {
                left.fetch(static_cast<uint32_t>(ahead));
                right.fetch(static_cast<uint32_t>(ahead));
            }
            const float *tile = shared + current * STAGE;
            if (ahead > 0) {
#pragma unroll 8
                for (int k = 0; k < DEPTH; k++) {
                    float u[ROWS], v[COLUMNS];
                    share_m::read(tile + k * left.PITCH, y, u);
                    share_n::read(tile + A_FLOATS + k * right.PITCH, x, v);
#pragma unroll
                    for (int i = 0; i < ROWS; i++)
#pragma unroll
                        for (int j = 0; j < COLUMNS; j++) total[i][j] = fmaf(u[i], v[j], total[i][j]);
                }
            }
            if (ahead < p.k) {
                left.stage(shared + (current ^ 1) * STAGE);
                right.stage(shared + (current ^ 1) * STAGE + A_FLOATS);
            }
            __syncthreads();
        }
    }

    ROTA_DEVICE void write(const rota_matmul_params &p, const matmul_block &block, void *c, float *) const {
        const int x = threadIdx.x % SIDE_N, y = threadIdx.x / SIDE_N;
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j += share_n::WIDTH) {
                float sum[share_n::WIDTH];
#pragma unroll
                for (int w = 0; w < share_n::WIDTH; w++) sum[w] = total[i][j + w];
                put<T>(p, c, block.c, block.row + share_m::element(y, i), block.column + share_n::element(x, j), sum);
            }
    }
};

/* A product by a tile type: its sums, as the flags say, then its results. */
template <typename TILE, typename T, typename A> ROTA_DEVICE void matmul_by(const A &args, float *shared) {
    const rota_matmul_params &p = args.params;
    const matmul_block block = block_of<TILE::HEIGHT, TILE::WIDTH>(p);
    if (block.beyond) return;
    const T *a = rota_operand<const T>(args, 0) + block.a, *b = rota_operand<const T>(args, 1) + block.b;
    TILE tile;
    switch (p.flags & (ROTA_MATMUL_TRANSPOSE_A | ROTA_MATMUL_TRANSPOSE_B)) {
    case 0:
        tile.template add<false, false>(p, block, a, b, shared);
        break;
    case ROTA_MATMUL_TRANSPOSE_A:
        tile.template add<true, false>(p, block, a, b, shared);
        break;
    case ROTA_MATMUL_TRANSPOSE_B:
        tile.template add<false, true>(p, block, a, b, shared);
        break;
    default:
        tile.template add<true, true>(p, block, a, b, shared);
        break;
    }
    tile.write(p, block, rota_operand<void>(args, 2), shared);
}

#endif
