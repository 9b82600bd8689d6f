/* A product of 16-bit matrices on Hopper (sm_90a), f32 sums, for matmul_sm90.cu's variants: c = alpha op(a) op(b).
 *
 * A block has one warpgroup that copies (one thread of it, by the copy engine, into a ring of stages) and others that
 * multiply; blocks of a cluster share what they load by multicast. Blocks are persistent: block i of a launch takes
 * the tiles i, i + launched, ...; the copying runs on into the next tile while the last one is written out. Rows,
 * columns and sums beyond the matrices are zeros from, and dropped by, the copy engine. */
#ifndef ROTA_OPS_CUDA_MATMUL_SM90_CUH
#define ROTA_OPS_CUDA_MATMUL_SM90_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "exec/cuda/rota_kernel.cuh"
#include "ops/cuda/hopper.cuh"
#include "ops/cuda/matmul_sm90_tiles.h"

using matmul_params = rota_matmul_params;

struct matmul_prepared { /* rota_matmul_sm90_prepared */
    tensor_map a, b, c;
    uint32_t group; /* rows of tiles (of clusters) that are walked together, for the L2 cache */
    uint32_t unused[15];
};
static_assert(sizeof(matmul_prepared) == ROTA_MATMUL_SM90_PREPARED_BYTES);

constexpr int STEP_K = ROTA_MATMUL_SM90_STEP; /* elements of a stage along the sum: one 128-byte swizzled row */
constexpr int PIECE = ROTA_MATMUL_SM90_PIECE; /* elements along the other axis in one piece of 128-byte rows */
constexpr int PIECE_BYTES = PIECE * STEP_K * 2;
constexpr int SWIZZLE_BYTES = 1024; /* 8 rows: the swizzle's period, to which everything is aligned */
constexpr int WARPGROUP = 128;

/* rows x columns of a block's tile; warpgroups that multiply, each rows / warpgroups rows; stages of the ring; blocks
 * of a cluster along the rows and columns; pieces [64, 64] of results in shared memory for each warpgroup. */
template <int rows_, int columns_, int warpgroups_, int stages_, int cluster_m_, int cluster_n_, int staging_>
struct matmul_tile {
    static constexpr int rows = rows_, columns = columns_, warpgroups = warpgroups_, stages = stages_;
    static constexpr int cluster_m = cluster_m_, cluster_n = cluster_n_, cluster = cluster_m * cluster_n;
    static constexpr int staging = staging_;
    static constexpr int slabs = rows / warpgroups / 64; /* of 64 rows, for each warpgroup */
    static constexpr int threads = (warpgroups + 1) * WARPGROUP;
    static constexpr int a_bytes = rows * STEP_K * 2, b_bytes = columns * STEP_K * 2;
    static constexpr int stage_bytes = a_bytes + b_bytes;
    static constexpr int staging_bytes = warpgroups * staging * PIECE_BYTES;
    static constexpr int shared_bytes = ROTA_MATMUL_SM90_SHARED(rows, columns, warpgroups, stages, staging);
    static_assert(shared_bytes == SWIZZLE_BYTES + stages * stage_bytes + staging_bytes + 2 * stages * 8);
    /* All 65536 registers: the copying warpgroup keeps few, the rest are shared out. */
    static constexpr int registers_copying = warpgroups == 2 ? 40 : 32;
    static constexpr int registers_multiplying = warpgroups == 2 ? 232 : 160;
    static_assert(rows % (64 * warpgroups) == 0 && columns % PIECE == 0);
    static_assert(shared_bytes <= 232448);
};

template <class tile> struct matmul_shared {
    uint32_t base; /* stages: a's tile, then b's; then the pieces of results; then the barriers */
    __device__ matmul_shared() {
        extern __shared__ uint8_t memory[];
        base = (shared_address(memory) + SWIZZLE_BYTES - 1) & ~static_cast<uint32_t>(SWIZZLE_BYTES - 1);
    }
    __device__ uint32_t a(uint32_t stage) const {
        return base + stage * tile::stage_bytes;
    }
    __device__ uint32_t b(uint32_t stage) const {
        return a(stage) + tile::a_bytes;
    }
    __device__ uint32_t staging(uint32_t warpgroup) const {
        return base + tile::stages * tile::stage_bytes + warpgroup * tile::staging * PIECE_BYTES;
    }
    __device__ uint32_t full(uint32_t stage) const {
        return base + tile::stages * tile::stage_bytes + tile::staging_bytes + stage * 8;
    }
    __device__ uint32_t empty(uint32_t stage) const {
        return full(tile::stages) + stage * 8;
    }
};

/* The tiles of one block, in order. */
template <class tile> struct matmul_walk {
    uint32_t rows, columns, group, steps; /* of clusters' tiles; stages of each tile */
    uint32_t next, stride, count;
    uint32_t rank_m, rank_n;
    uint32_t row, column; /* first element of the tile at hand */

    __device__ matmul_walk(const matmul_params &p, uint32_t group_rows) {
        constexpr uint32_t high = tile::rows * tile::cluster_m, wide = tile::columns * tile::cluster_n;
        rows = (p.m + high - 1) / high;
        columns = (p.n + wide - 1) / wide;
        steps = (p.k + STEP_K - 1) / STEP_K;
        group = group_rows;
        count = rows * columns;
        next = blockIdx.x / tile::cluster;
        stride = gridDim.x / tile::cluster;
        const uint32_t rank = tile::cluster > 1 ? cluster_rank() : 0;
        rank_m = rank % tile::cluster_m;
        rank_n = rank / tile::cluster_m;
    }
    __device__ bool take() {
        if (next >= count) return false;
        const uint32_t in_groups = next / (group * columns), first = in_groups * group;
        const uint32_t height = rows - first < group ? rows - first : group;
        const uint32_t within = next - in_groups * group * columns;
        row = ((first + within % height) * tile::cluster_m + rank_m) * tile::rows;
        column = (within / height * tile::cluster_n + rank_n) * tile::columns;
        next += stride;
        return true;
    }
};

/* One operand's part of a stage: [extent, STEP_K], of which this block loads its share and gives it to all blocks of
 * `blocks`. */
template <int extent, bool across, int sharers>
__device__ __forceinline__ void matmul_load(uint32_t to, const tensor_map *map, uint32_t barrier, int32_t position,
                                            int32_t k, uint32_t share, uint16_t blocks) {
    if constexpr (across) { /* pieces of 64 along the contiguous axis; shared out along the sum */
#pragma unroll
        for (int piece = 0; piece < extent / PIECE; piece++) {
            const uint32_t there = to + piece * PIECE_BYTES + share * (PIECE_BYTES / sharers);
            const int32_t x = position + piece * PIECE, y = k + share * (STEP_K / sharers);
            if constexpr (sharers > 1)
                tile_load_multicast(there, map, barrier, x, y, blocks);
            else
                tile_load(there, map, barrier, x, y);
        }
    } else {
        constexpr int part = extent / sharers;
        const uint32_t there = to + share * part * STEP_K * 2;
        if constexpr (sharers > 1)
            tile_load_multicast(there, map, barrier, k, position + share * part, blocks);
        else
            tile_load(there, map, barrier, k, position);
    }
}

template <class tile, bool a_across, bool b_across, typename P>
__device__ __forceinline__ void matmul_copy(const matmul_params &p, const P &prepared) {
    const matmul_shared<tile> shared;
    matmul_walk<tile> walk(p, prepared.group);
    /* Blocks of a cluster are numbered along the rows first. */
    uint16_t row_sharers = 0, column_sharers = 0;
    for (int i = 0; i < tile::cluster_n; i++) row_sharers |= 1u << (i * tile::cluster_m + walk.rank_m);
    for (int i = 0; i < tile::cluster_m; i++) column_sharers |= 1u << (walk.rank_n * tile::cluster_m + i);
    uint32_t stage = 0, parity = 0;
    while (walk.take()) {
        for (uint32_t step = 0; step < walk.steps; step++) {
            const uint32_t full = shared.full(stage);
            if constexpr (tile::cluster > 1)
                barrier_wait_cluster(shared.empty(stage), parity ^ 1);
            else
                barrier_wait(shared.empty(stage), parity ^ 1);
            barrier_expect_bytes(full, tile::stage_bytes);
            matmul_load<tile::rows, a_across, tile::cluster_n>(shared.a(stage), &prepared.a, full, walk.row,
                                                               step * STEP_K, walk.rank_n, row_sharers);
            matmul_load<tile::columns, b_across, tile::cluster_m>(shared.b(stage), &prepared.b, full, walk.column,
                                                                  step * STEP_K, walk.rank_m, column_sharers);
            if (++stage == tile::stages) stage = 0, parity ^= 1;
        }
    }
}

template <bool bf16> __device__ __forceinline__ uint32_t matmul_pack(float low, float high) {
    if constexpr (bf16) {
        __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
        return *reinterpret_cast<uint32_t *>(&pair);
    } else {
        __half2 pair = __floats2half2_rn(low, high);
        return *reinterpret_cast<uint32_t *>(&pair);
    }
}

/* One warpgroup's results, by pieces [64, 64] through shared memory. */
template <class tile, bool bf16>
__device__ __forceinline__ void matmul_write(const float (&sums)[tile::slabs][tile::columns / 2], float alpha,
                                             uint32_t staging, uint32_t warpgroup, const tensor_map *map, int32_t row,
                                             int32_t column, uint32_t &piece) {
    const uint32_t thread = threadIdx.x % WARPGROUP, lane = thread % 32;
    const uint32_t staged_row = thread / 32 * 16 + lane % 16;
#pragma unroll
    for (int slab = 0; slab < tile::slabs; slab++) {
#pragma unroll
        for (int part = 0; part < tile::columns / PIECE; part++) {
            const uint32_t staged = staging + piece * PIECE_BYTES;
            if (thread == 0) tile_store_wait_read<tile::staging - 1>();
            named_barrier(1 + warpgroup, WARPGROUP);
#pragma unroll
            for (int i = 0; i < PIECE / 16; i++) {
                const float *s = &sums[slab][part * (PIECE / 2) + i * 8];
                const uint32_t chunk = (i * 2 + lane / 16) ^ (staged_row % 8);
                store_matrices(staged + staged_row * 128 + chunk * 16, matmul_pack<bf16>(alpha * s[0], alpha * s[1]),
                               matmul_pack<bf16>(alpha * s[2], alpha * s[3]),
                               matmul_pack<bf16>(alpha * s[4], alpha * s[5]),
                               matmul_pack<bf16>(alpha * s[6], alpha * s[7]));
            }
            fence_shared_async();
            named_barrier(1 + warpgroup, WARPGROUP);
            if (thread == 0) tile_store(map, staged, column + part * PIECE, row + slab * 64);
            if (++piece == tile::staging) piece = 0;
        }
    }
}

/* Where results go, of which a kernel's threads each have one: a tile's (write), and the end of all (finish). This one
 * has the copy engine store them. */
template <class tile, bool bf16> struct stored_by_map {
    static constexpr bool by_map = true;
    const tensor_map *map;
    uint32_t piece = 0;
    template <typename A>
    static __device__ __forceinline__ stored_by_map from(const A &, const matmul_prepared &prepared) {
        return {&prepared.c};
    }
    __device__ __forceinline__ void write(const float (&sums)[tile::slabs][tile::columns / 2], float alpha,
                                          uint32_t staging, uint32_t warpgroup, int32_t row, int32_t column) {
        matmul_write<tile, bf16>(sums, alpha, staging, warpgroup, map, row, column, piece);
    }
    __device__ __forceinline__ void finish() const {
        if (threadIdx.x % WARPGROUP == 0) tile_store_wait_read<0>();
    }
};

template <class tile, bool bf16, bool a_across, bool b_across, typename R>
__device__ __forceinline__ void matmul_multiply(const matmul_params &p, const matmul_prepared &prepared,
                                                uint32_t warpgroup, R &results) {
    const matmul_shared<tile> shared;
    matmul_walk<tile> walk(p, prepared.group);
    const uint32_t lane = threadIdx.x % 32;
    uint32_t stage = 0, parity = 0;
    /* Distances in units of 16 bytes from one 16-element step of the sum to the next. */
    constexpr uint32_t a_step = (a_across ? 16 * 128 : 32) / 16, b_step = (b_across ? 16 * 128 : 32) / 16;
    auto release = [&](uint32_t of) {
        if constexpr (tile::cluster > 1) {
            if (lane < tile::cluster) barrier_arrive_at(shared.empty(of), lane);
        } else {
            if (lane == 0) barrier_arrive(shared.empty(of));
        }
    };
    while (walk.take()) {
        float sums[tile::slabs][tile::columns / 2];
        for (uint32_t step = 0; step < walk.steps; step++) {
            barrier_wait(shared.full(stage), parity);
            const uint64_t a = matrix_descriptor(shared.a(stage) + warpgroup * tile::slabs * PIECE_BYTES, PIECE_BYTES,
                                                 SWIZZLE_BYTES);
            const uint64_t b = matrix_descriptor(shared.b(stage), PIECE_BYTES, SWIZZLE_BYTES);
            products_begin();
#pragma unroll
            for (int i = 0; i < STEP_K / 16; i++)
#pragma unroll
                for (int slab = 0; slab < tile::slabs; slab++)
                    warpgroup_product<tile::columns, bf16, a_across, b_across>::add_to(
                        sums[slab], a + slab * (PIECE_BYTES / 16) + i * a_step, b + i * b_step, step > 0 || i > 0);
            products_commit();
            /* While these run, the stage before is given back. */
            products_wait<1>();
            if (step > 0) release(stage == 0 ? tile::stages - 1 : stage - 1);
            if (++stage == tile::stages) stage = 0, parity ^= 1;
        }
        products_wait<0>();
        release(stage == 0 ? tile::stages - 1 : stage - 1);
        results.write(sums, p.alpha, shared.staging(warpgroup), warpgroup, walk.row + warpgroup * tile::slabs * 64,
                      walk.column);
    }
    results.finish();
}

template <class tile, bool bf16, bool transpose_a, bool transpose_b, typename R>
__device__ __forceinline__ void matmul_sm90(const matmul_params &p, const matmul_prepared &prepared, R results) {
    constexpr bool a_across = transpose_a, b_across = !transpose_b;
    const matmul_shared<tile> shared;
    /* The same for all threads of a warp, as the compiler can see. */
    const uint32_t warp = __shfl_sync(0xFFFFFFFF, threadIdx.x / 32, 0), warpgroup = warp / 4;
    if (threadIdx.x == 0) {
        for (int i = 0; i < tile::stages; i++) {
            barrier_init(shared.full(i), 1);
            barrier_init(shared.empty(i), tile::cluster * tile::warpgroups * 4);
        }
        barrier_init_done();
        tile_prefetch_map(&prepared.a);
        tile_prefetch_map(&prepared.b);
        if constexpr (R::by_map) tile_prefetch_map(&prepared.c);
    }
    if constexpr (tile::cluster > 1)
        cluster_sync();
    else
        __syncthreads();
    if (warpgroup == tile::warpgroups) {
        registers_give<tile::registers_copying>();
        if (warp == tile::warpgroups * 4 && threadIdx.x % 32 == 0)
            matmul_copy<tile, a_across, b_across>(p, prepared);
        __syncwarp();
    } else {
        registers_take<tile::registers_multiplying>();
        matmul_multiply<tile, bf16, a_across, b_across>(p, prepared, warpgroup, results);
    }
    /* No block may end while another can still write to its shared memory or arrive at its barriers. */
    if constexpr (tile::cluster > 1) cluster_sync();
}

/* ---- Kernels ---- */

/* Those of a tile, for f16 and bf16, for each way that a and b may lie in memory. `of`: of ROTA_MATMUL_SM90_NAME;
 * `stored`: what results go out by, a template of the tile and of whether they are bf16. */
#define MATMUL_SM90_KERNELS(of, stored, rows, columns, warpgroups, stages, cluster_m, cluster_n, staging, group)  \
    MATMUL_SM90_LAYOUTS(of, stored, f16, false, rows, columns, warpgroups, stages, cluster_m, cluster_n, staging) \
    MATMUL_SM90_LAYOUTS(of, stored, bf16, true, rows, columns, warpgroups, stages, cluster_m, cluster_n, staging)
#define MATMUL_SM90_LAYOUTS(of, stored, type, is_bf16, ...)                      \
    MATMUL_SM90_KERNEL(of, stored, type, is_bf16, nn, false, false, __VA_ARGS__) \
    MATMUL_SM90_KERNEL(of, stored, type, is_bf16, nt, false, true, __VA_ARGS__)  \
    MATMUL_SM90_KERNEL(of, stored, type, is_bf16, tn, true, false, __VA_ARGS__)  \
    MATMUL_SM90_KERNEL(of, stored, type, is_bf16, tt, true, true, __VA_ARGS__)
#define MATMUL_SM90_KERNEL(of, stored, type, is_bf16, layout, transpose_a, transpose_b, rows, columns, warpgroups,    \
                           stages, cluster_m, cluster_n, staging)                                                     \
    ROTA_KERNEL_PREPARED(ROTA_MATMUL_SM90_NAME(of, type, layout, rows, columns, stages, cluster_m), 3, matmul_params, \
                         matmul_prepared,                                                                             \
                         (matmul_tile<rows, columns, warpgroups, stages, cluster_m, cluster_n, staging>::threads)) {  \
        using tile = matmul_tile<rows, columns, warpgroups, stages, cluster_m, cluster_n, staging>;                   \
        matmul_sm90<tile, is_bf16, transpose_a, transpose_b>(args.params, prepared,                                   \
                                                             stored<tile, is_bf16>::from(args, prepared));            \
    }

#endif
