/* Products on Hopper of matrices whose rows lie unevenly: no multiple of 16 bytes apart, which no tensor map describes.
 * Operands are moved to even rows first (matmul_move). A result is stored by the threads that made it, as it lies. */
#include "exec/cuda/rota_kernel.cuh"
#include "ops/kernel_params.h"
#include "ops/cuda/matmul_evened_params.h"
#include "ops/cuda/common.cuh"
#include "ops/cuda/matmul_sm90.cuh"

/* ---- Moving ---- */

/* Eight elements from any of them, at their beginning, on: of 16 bytes that lie evenly and the 16 behind those. */
struct moved_chunk {
    uint4 low, high;
    __device__ __forceinline__ uint4 from(uint32_t byte) const {
        uint32_t w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        if (byte & 8)
#pragma unroll
            for (int i = 0; i < 6; i++) w[i] = w[i + 2];
        if (byte & 4)
#pragma unroll
            for (int i = 0; i < 5; i++) w[i] = w[i + 1];
        if (byte & 2)
#pragma unroll
            for (int i = 0; i < 4; i++) w[i] = __funnelshift_r(w[i], w[i + 1], 16);
        return make_uint4(w[0], w[1], w[2], w[3]);
    }
};

/* A thread moves a chunk of some neighbouring rows; neighbouring threads neighbouring chunks. */
ROTA_KERNEL(matmul_move, 4, rota_matmul_move_params, ROTA_MATMUL_MOVE_THREADS) {
    const uint32_t first_of_b = args.params.of[0].blocks, is_b = blockIdx.x >= first_of_b;
    const rota_matmul_moved &of = args.params.of[is_b];
    const uint16_t *from = rota_operand<const uint16_t>(args, is_b ? 2 : 0);
    uint16_t *to = rota_operand<uint16_t>(args, is_b ? 3 : 1);
    const uint32_t chunks = of.even_ld / ROTA_MATMUL_EVEN;
    const uint32_t index = (blockIdx.x - (is_b ? first_of_b : 0)) * ROTA_MATMUL_MOVE_THREADS + threadIdx.x;
    const uint32_t group = index / chunks, column = (index - group * chunks) * ROTA_MATMUL_EVEN;
    const uint32_t row = group * ROTA_MATMUL_MOVE_ROWS;
    if (row >= of.rows) return;
    /* All that the operand's bytes are; beyond them nothing is read. */
    const uint64_t begin = reinterpret_cast<uint64_t>(from),
                   end = begin + (static_cast<uint64_t>(of.rows - 1) * of.ld + of.length) * 2;
    moved_chunk chunk[ROTA_MATMUL_MOVE_ROWS];
    bool whole[ROTA_MATMUL_MOVE_ROWS];
#pragma unroll
    for (uint32_t i = 0; i < ROTA_MATMUL_MOVE_ROWS; i++) {
        const uint64_t there = begin + (static_cast<uint64_t>(row + i) * of.ld + column) * 2;
        const uint64_t even = there & ~UINT64_C(15);
        whole[i] = row + i < of.rows && even >= begin && even + (there == even ? 16 : 32) <= end;
        const uint4 *words = reinterpret_cast<const uint4 *>(even);
        chunk[i].low = chunk[i].high = make_uint4(0, 0, 0, 0);
        if (whole[i]) {
            chunk[i].low = __ldg(words);
            if (there != even) chunk[i].high = __ldg(words + 1);
        }
    }
#pragma unroll
    for (uint32_t i = 0; i < ROTA_MATMUL_MOVE_ROWS; i++) {
        if (row + i >= of.rows) return;
        uint4 *out = reinterpret_cast<uint4 *>(to + static_cast<uint64_t>(row + i) * of.even_ld + column);
        const uint16_t *in = from + static_cast<uint64_t>(row + i) * of.ld + column;
        if (whole[i]) {
            *out = chunk[i].from(static_cast<uint32_t>(reinterpret_cast<uint64_t>(in)) & 15u);
            continue;
        }
        uint32_t words[4] = {0, 0, 0, 0}; /* the operand's first, or its last */
#pragma unroll
        for (uint32_t e = 0; e < ROTA_MATMUL_EVEN; e++)
            if (column + e < of.length) words[e / 2] |= static_cast<uint32_t>(in[e]) << e % 2 * 16;
        *out = make_uint4(words[0], words[1], words[2], words[3]);
    }
}

/* ---- Results ---- */

/* Results of rows that are any distance apart: by way of shared memory, so that a warp writes pieces of a row, in words
 * that hold two elements wherever those lie evenly; or f32 (+ what is there) straight from registers. A warp's rows of
 * a piece are its own, so it waits for nobody. */
template <class tile, bool bf16> struct stored_by_threads {
    static constexpr bool by_map = false;
    static constexpr int parts = tile::columns / PIECE, together = tile::staging; /* pieces of a row; at a time */
    static_assert(parts % together == 0);
    const matmul_params &p;
    void *c;
    template <typename A>
    static __device__ __forceinline__ stored_by_threads from(const A &args, const matmul_prepared &) {
        return {args.params, rota_operand<void>(args, 2)};
    }

    __device__ __forceinline__ void write(const float (&sums)[tile::slabs][tile::columns / 2], float alpha,
                                          uint32_t staging, uint32_t, int32_t row, int32_t column) const {
        const uint32_t first = row + threadIdx.x % WARPGROUP / 32 * 16; /* of this warp's rows */
        if (p.c_dtype == DTYPE_F32)
            write_f32(sums, alpha, first, column);
        else
            write_halves(sums, alpha, staging + threadIdx.x % WARPGROUP / 32 * 16 * 128, first, column);
    }
    __device__ __forceinline__ void finish() const {}

private:
    __device__ __forceinline__ void write_f32(const float (&sums)[tile::slabs][tile::columns / 2], float alpha,
                                              uint32_t first, uint32_t column) const {
        const uint32_t lane = threadIdx.x % 32;
        const bool adds = (p.flags & ROTA_MATMUL_ACCUMULATE) != 0;
#pragma unroll
        for (int slab = 0; slab < tile::slabs; slab++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const uint32_t row = first + slab * 64 + half * 8 + lane / 4;
                if (row >= p.m) continue;
                float *to = static_cast<float *>(c) + static_cast<uint64_t>(row) * p.ldc;
#pragma unroll
                for (int i = 0; i < tile::columns / 8; i++)
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        const uint32_t mine = column + i * 8 + lane % 4 * 2 + e;
                        if (mine >= p.n) continue;
                        float value = alpha * sums[slab][i * 4 + half * 2 + e];
                        if (adds) value += to[mine];
                        to[mine] = value;
                    }
            }
    }

    /* staging: of this warp's first row in the first piece. */
    __device__ __forceinline__ void write_halves(const float (&sums)[tile::slabs][tile::columns / 2], float alpha,
                                                 uint32_t staging, uint32_t first, uint32_t column) const {
        const uint32_t lane = threadIdx.x % 32, mine = lane % 16;
#pragma unroll
        for (int slab = 0; slab < tile::slabs; slab++)
#pragma unroll
            for (int part = 0; part < parts; part += together) {
                __syncwarp(); /* all have read what was there */
#pragma unroll
                for (int piece = 0; piece < together; piece++)
#pragma unroll
                    for (int i = 0; i < PIECE / 16; i++) {
                        const float *s = &sums[slab][(part + piece) * (PIECE / 2) + i * 8];
                        const uint32_t chunk = (i * 2 + lane / 16) ^ (mine % 8);
                        store_matrices(staging + piece * PIECE_BYTES + mine * 128 + chunk * 16,
                                       matmul_pack<bf16>(alpha * s[0], alpha * s[1]),
                                       matmul_pack<bf16>(alpha * s[2], alpha * s[3]),
                                       matmul_pack<bf16>(alpha * s[4], alpha * s[5]),
                                       matmul_pack<bf16>(alpha * s[6], alpha * s[7]));
                    }
                __syncwarp();
                const uint32_t from = column + part * PIECE, row = first + slab * 64;
                if (from >= p.n || row >= p.m) continue;
                const uint32_t count = p.m - row < 16 ? p.m - row : 16;
                uint16_t *to = static_cast<uint16_t *>(c) + static_cast<uint64_t>(row) * p.ldc + from;
#pragma unroll 4
                for (uint32_t r = 0; r < count; r++, to += p.ldc) write_row(staging, r, to, p.n - from);
            }
    }

    /* Row r of the pieces that are staged, of which `left` elements are the matrix'. */
    __device__ __forceinline__ void write_row(uint32_t staging, uint32_t r, uint16_t *to, uint32_t left) const {
        const uint32_t lane = threadIdx.x % 32;
        uint32_t words[together];
#pragma unroll
        for (int piece = 0; piece < together; piece++)
            words[piece] =
                load_shared(staging + piece * PIECE_BYTES + r * 128 + ((lane / 4) ^ (r % 8)) * 16 + lane % 4 * 4);
        if ((reinterpret_cast<uint64_t>(to) & 2) == 0) {
#pragma unroll
            for (int piece = 0; piece < together; piece++)
                write_two(to, piece * PIECE + lane * 2, left, words[piece]);
            return;
        }
        /* Words that lie evenly have one lane's second element and the next one's first. */
        if (lane == 0) to[0] = static_cast<uint16_t>(words[0]);
#pragma unroll
        for (int piece = 0; piece < together; piece++) {
            const bool last = piece + 1 == together;
            const uint32_t given = lane == 0 && !last ? words[last ? piece : piece + 1] : words[piece];
            const uint32_t next = __shfl_sync(0xFFFFFFFF, given, (lane + 1) % 32);
            const uint32_t end = last && lane == 31 ? together * PIECE : left; /* there is no next one */
            write_two(to, piece * PIECE + lane * 2 + 1, left < end ? left : end,
                      __funnelshift_r(words[piece], next, 16));
        }
    }
    static __device__ __forceinline__ void write_two(uint16_t *to, uint32_t element, uint32_t left, uint32_t two) {
        if (element + 1 < left)
            *reinterpret_cast<uint32_t *>(to + element) = two;
        else if (element < left)
            to[element] = static_cast<uint16_t>(two);
    }
};

#define TILE(...) MATMUL_SM90_KERNELS(matmul_evened, stored_by_threads, __VA_ARGS__)
ROTA_MATMUL_SM90_TILES(TILE)
