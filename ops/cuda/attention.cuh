/* What the attention kernels share. A block of 128 threads owns 64 rows (queries, or keys for their gradients) and
 * walks over the others 64 at a time ("lanes"). Scores never leave the multiprocessor. Any dim: what is multiplied goes
 * through shared memory in pieces of 32 columns; results are kept for OUT columns at a time, and the walk is repeated
 * for more.
 *
 * A thread has 8 rows, y + 8 i, and 4 lanes, x + 16 j: twelve vectors read for 128 multiply-adds. */
#ifndef ROTA_OPS_CUDA_ATTENTION_CUH
#define ROTA_OPS_CUDA_ATTENTION_CUH

#include "ops/cuda/common.cuh"

constexpr uint32_t ROWS = ROTA_CUDA_ATTENTION_ROWS, LANES = 64, THREADS = ROTA_CUDA_ATTENTION_THREADS;
constexpr uint32_t PIECE = 32;
constexpr uint32_t PITCH = PIECE + 4;         /* of staged rows: eight rows' vectors lie in different banks */
constexpr uint32_t WEIGHT_PITCH = LANES + 4;
constexpr int R = 8, L = 4; /* rows and lanes of a thread */

struct attention_shared {
    float staged[(ROWS + LANES) * PITCH]; /* two pieces of dots, or a piece of what weights multiply */
    float weights[ROWS * WEIGHT_PITCH];
};

struct attention_thread {
    uint32_t x, y;
    ROTA_DEVICE attention_thread() : x(threadIdx.x % 16), y(threadIdx.x / 16) {}
    ROTA_DEVICE uint32_t row(int i) const { return y + 8 * i; }
    ROTA_DEVICE uint32_t lane(int j) const { return x + 16 * j; }
};

/* Rows of a strided matrix: `count` of them from the first on, of `dim` columns. */
struct strided_rows {
    const float *from;
    uint64_t stride;
    uint32_t count, dim;
    bool aligned;
    ROTA_DEVICE strided_rows(const float *from, uint32_t stride, uint32_t count, uint32_t dim)
        : from(from), stride(stride), count(count), dim(dim), aligned(aligned16(from) && stride % 4 == 0) {}
    /* Four columns; 0 beyond. */
    ROTA_DEVICE float4 four(uint32_t row, uint32_t column) const {
        float4 value = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (row >= count || column >= dim) return value;
        const float *group = from + row * stride + column;
        if (aligned && column + 4 <= dim) return *reinterpret_cast<const float4 *>(group);
        value.x = group[0];
        if (column + 1 < dim) value.y = group[1];
        if (column + 2 < dim) value.z = group[2];
        if (column + 3 < dim) value.w = group[3];
        return value;
    }
};

/* Stages 64 rows of columns [first, first + PIECE). */
ROTA_DEVICE void stage(const strided_rows &rows, uint32_t first, float *to) {
#pragma unroll
    for (uint32_t e = threadIdx.x; e < ROWS * PIECE / 4; e += THREADS) {
        const uint32_t row = e / (PIECE / 4), column = e % (PIECE / 4) * 4;
        *reinterpret_cast<float4 *>(to + row * PITCH + column) = rows.four(row, first + column);
    }
}

/* result[i][j] = row i . lane j of this thread. Begins with a barrier: what was staged before, and weights, have been
 * read. */
ROTA_DEVICE void dots(const attention_thread &t, attention_shared &s, const strided_rows &rows,
                      const strided_rows &lanes, float (&result)[R][L]) {
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int j = 0; j < L; j++) result[i][j] = 0.0f;
    for (uint32_t first = 0; first < rows.dim; first += PIECE) {
        __syncthreads();
        stage(rows, first, s.staged);
        stage(lanes, first, s.staged + ROWS * PITCH);
        __syncthreads();
        const uint32_t width = min(PIECE, rows.dim - first);
#pragma unroll 1
        for (uint32_t d = 0; d < width; d += 4) {
            float4 u[R], v[L];
#pragma unroll
            for (int i = 0; i < R; i++) u[i] = *reinterpret_cast<const float4 *>(s.staged + t.row(i) * PITCH + d);
#pragma unroll
            for (int j = 0; j < L; j++)
                v[j] = *reinterpret_cast<const float4 *>(s.staged + (ROWS + t.lane(j)) * PITCH + d);
#pragma unroll
            for (int i = 0; i < R; i++)
#pragma unroll
                for (int j = 0; j < L; j++) {
                    result[i][j] = fmaf(u[i].x, v[j].x, result[i][j]);
                    result[i][j] = fmaf(u[i].y, v[j].y, result[i][j]);
                    result[i][j] = fmaf(u[i].z, v[j].z, result[i][j]);
                    result[i][j] = fmaf(u[i].w, v[j].w, result[i][j]);
                }
        }
    }
}

/* Results of a thread: its rows, and columns in vectors of W: vector c holds columns c * 16 * W + x * W and on. */
template <int OUT> struct attention_result {
    static constexpr int C = OUT / 16, W = C < 4 ? C : 4;
    static constexpr uint32_t DEPTH = OUT > 64 ? 32 : 64; /* lanes staged at a time */
    static_assert(DEPTH * OUT <= (ROWS + LANES) * PITCH && W * (C / W) == C, "what is staged fits");
    float v[R][C];

    ROTA_DEVICE void clear() {
#pragma unroll
        for (int i = 0; i < R; i++)
#pragma unroll
            for (int c = 0; c < C; c++) v[i][c] = 0.0f;
    }
    ROTA_DEVICE static uint32_t column(const attention_thread &t, int c) { return c / W * 16 * W + t.x * W + c % W; }

    /* v += weights x lanes, columns [first, first + OUT). Weights beyond the lanes' count must be 0. Begins with a
     * barrier: weights have been written. */
    ROTA_DEVICE void add(const attention_thread &t, attention_shared &s, const strided_rows &lanes, uint32_t first) {
#pragma unroll 1
        for (uint32_t from = 0; from < lanes.count; from += DEPTH) {
            __syncthreads();
#pragma unroll
            for (uint32_t e = threadIdx.x; e < DEPTH * OUT / 4; e += THREADS)
                *reinterpret_cast<float4 *>(s.staged + e * 4) =
                    lanes.four(from + e / (OUT / 4), first + e % (OUT / 4) * 4);
            __syncthreads();
#pragma unroll 1
            for (uint32_t k = 0; k < DEPTH; k += 4) {
                float4 u[R];
#pragma unroll
                for (int i = 0; i < R; i++)
                    u[i] = *reinterpret_cast<const float4 *>(s.weights + t.row(i) * WEIGHT_PITCH + from + k);
#pragma unroll
                for (uint32_t q = 0; q < 4; q++) {
                    float w[C];
#pragma unroll
                    for (int c = 0; c < C; c += W) {
                        const float *values = s.staged + (k + q) * OUT + column(t, c);
                        if (W == 4) {
                            const float4 four = *reinterpret_cast<const float4 *>(values);
                            w[c] = four.x, w[c + 1] = four.y, w[c + W - 2] = four.z, w[c + W - 1] = four.w;
                        } else {
                            const float2 two = *reinterpret_cast<const float2 *>(values);
                            w[c] = two.x, w[c + 1] = two.y;
                        }
                    }
#pragma unroll
                    for (int i = 0; i < R; i++) {
                        const float weight = q == 0 ? u[i].x : q == 1 ? u[i].y : q == 2 ? u[i].z : u[i].w;
#pragma unroll
                        for (int c = 0; c < C; c++) v[i][c] = fmaf(weight, w[c], v[i][c]);
                    }
                }
            }
        }
    }

    /* Columns [first, ...) of `count` rows get scale[i] times the results. */
    ROTA_DEVICE void write(const attention_thread &t, float *to, uint64_t stride, uint32_t count, uint32_t first,
                           uint32_t dim, const float (&scale)[R]) const {
        const bool aligned = aligned16(to) && stride % 4 == 0;
#pragma unroll
        for (int i = 0; i < R; i++) {
            if (t.row(i) >= count) continue;
            float *row = to + t.row(i) * stride;
#pragma unroll
            for (int c = 0; c < C; c += W) {
                const uint32_t begin = first + column(t, c);
                if (W == 4 && aligned && begin + 4 <= dim) {
                    *reinterpret_cast<float4 *>(row + begin) =
                        make_float4(v[i][c] * scale[i], v[i][c + 1] * scale[i], v[i][c + W - 2] * scale[i],
                                    v[i][c + W - 1] * scale[i]);
                    continue;
                }
#pragma unroll
                for (int w = 0; w < W; w++)
                    if (begin + w < dim) row[begin + w] = v[i][c + w] * scale[i];
            }
        }
    }
};

ROTA_DEVICE void put_weights(const attention_thread &t, attention_shared &s, const float (&w)[R][L]) {
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int j = 0; j < L; j++) s.weights[t.row(i) * WEIGHT_PITCH + t.lane(j)] = w[i][j];
}

/* Which rows a block has: the head, and the first row. LAST_FIRST: the blocks that walk farthest begin first. */
struct attention_block {
    uint64_t batch, head, pair;
    uint32_t first;
    bool beyond;
    ROTA_DEVICE attention_block(uint32_t batches, uint32_t heads, uint32_t rows, bool last_first) {
        const uint64_t blocks = (rows - 1) / ROWS + 1, group = rota_group_index();
        const uint64_t block = group % blocks;
        pair = group / blocks;
        batch = pair / heads;
        head = pair % heads;
        first = static_cast<uint32_t>(last_first ? blocks - 1 - block : block) * ROWS;
        beyond = batch >= batches;
    }
    ROTA_DEVICE uint64_t offset(const uint32_t (&stride)[3], uint64_t row) const {
        return batch * stride[0] + head * stride[1] + row * stride[2];
    }
};

#endif
