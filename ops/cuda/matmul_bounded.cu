/* A product of 16-bit matrices on Hopper (sm_90a), f32 sums, in at most 47 KiB of shared memory and with nothing prepared by
 * the host, which is what VK_NVX_binary_import can launch: c = alpha op(a) op(b).
 *
 * As in matmul_sm90.cuh, one thread copies by the copy engine into a ring of stages, warpgroups multiply, and blocks are
 * persistent. What differs:
 * - The block makes the tensor maps itself. The copy engine reads maps from global memory only, so the image has places for
 *   them, of which each block takes one while it runs.
 * - A stage is one product deep (16 along the sum), so that three of a large tile fit. Throughput is what is on its way over
 *   how long it takes; so what is needed soon is asked for into the L2 cache, and a copy waits for that cache only.
 * - One warp copies, not a warpgroup: registers are shared out by quarters of a multiprocessor, and so the tiles' sums fit.
 * - Results go straight from registers to memory. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "rota_kernel.cuh"
#include "ops/cuda/hopper.cuh"
#include "ops/cuda/shapes.h"

constexpr int STEP = 16;   /* elements of a stage along the sum */
constexpr int STAGES = 3;  /* of the ring */
constexpr int PIECE = 64;  /* rows of a that one product takes; elements of a 128-byte row */
constexpr int PIECE_BYTES = PIECE * STEP * 2;
constexpr int ALIGNMENT = 1024; /* the period of the 128-byte swizzle */
constexpr int WARPGROUP = 128;
constexpr uint32_t BAND = 8;  /* rows of tiles that are walked together, for the L2 cache */
constexpr uint32_t AHEAD = 8; /* steps from asking to copying; 24 was slower on an H200 */
constexpr uint32_t TURNS = 4; /* a block asks in one of so many steps; others that need the same do in between */

/* rows x columns of a block's tile; warpgroups that multiply, each rows / warpgroups rows. An operand is `across` where its
 * contiguous axis is not the summed one: stages then lie in pieces of [16, 64], rows of 128 bytes, else in rows of 32. */
template <int rows_, int columns_, int warpgroups_, bool bf16_, bool a_across_, bool b_across_> struct bounded_tile {
    static constexpr int rows = rows_, columns = columns_, warpgroups = warpgroups_;
    static constexpr bool bf16 = bf16_, a_across = a_across_, b_across = b_across_;
    static constexpr int slabs = rows / warpgroups / PIECE; /* of 64 rows, for each warpgroup */
    static constexpr int a_bytes = rows * STEP * 2, stage_bytes = (rows + columns) * STEP * 2;
    static_assert(rows % (PIECE * warpgroups) == 0 && columns % PIECE == 0 && a_bytes % ALIGNMENT == 0);
    static_assert(ALIGNMENT + STAGES * (stage_bytes + 2 * 8) + 2 * (int)sizeof(tensor_map) <= ROTA_CUDA_MATMUL_BOUNDED_SHARED);
};

/* Where things are in shared memory: the stages (a's part, then b's), the maps as they are made, the barriers. */
template <class tile> struct bounded_shared {
    uint32_t base;
    __device__ bounded_shared() {
        extern __shared__ uint8_t memory[];
        base = (shared_address(memory) + ALIGNMENT - 1) & ~static_cast<uint32_t>(ALIGNMENT - 1);
    }
    __device__ uint32_t a(uint32_t stage) const { return base + stage * tile::stage_bytes; }
    __device__ uint32_t b(uint32_t stage) const { return a(stage) + tile::a_bytes; }
    __device__ uint32_t map(uint32_t i) const { return a(STAGES) + i * static_cast<uint32_t>(sizeof(tensor_map)); }
    __device__ uint32_t full(uint32_t stage) const { return map(2) + stage * 8; }
    __device__ uint32_t empty(uint32_t stage) const { return full(STAGES) + stage * 8; }
};

/* The tiles of one block, in the order in which it works on them: block i of a launch takes i, i + launched, ... */
template <class tile> struct bounded_walk {
    uint32_t rows, columns, next;
    uint32_t row, column; /* first element of the tile at hand */

    __device__ explicit bounded_walk(const rota_matmul_params &p)
        : rows((p.m - 1) / tile::rows + 1), columns((p.n - 1) / tile::columns + 1), next(blockIdx.x) {}
    __device__ bool take() {
        if (next >= rows * columns) return false;
        const uint32_t band = next / (BAND * columns), within = next - band * BAND * columns;
        const uint32_t height = min(rows - band * BAND, BAND);
        row = (band * BAND + within % height) * tile::rows;
        column = within / height * tile::columns;
        next += gridDim.x;
        return true;
    }
};

/* ---- Tensor maps ---- */

struct alignas(128) map_pair {
    tensor_map a, b;
};
/* More than blocks can be on a device at a time, those that are preempted with them. */
constexpr uint32_t MAP_PLACES = 1024;
__device__ map_pair map_places[MAP_PLACES];
__device__ uint32_t map_places_taken[MAP_PLACES];

__device__ __forceinline__ uint32_t map_place_take() {
    uint32_t place;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(place));
    place %= MAP_PLACES;
    while (atomicCAS(&map_places_taken[place], 0u, 1u) != 0u) place = (place + 1) % MAP_PLACES;
    __threadfence(); /* after the giving back by who had it before */
    return place;
}
__device__ __forceinline__ void map_place_return(uint32_t place) {
    __threadfence();
    atomicExch(&map_places_taken[place], 0u);
}

/* Fills in the map at `map` (shared memory, all zeros) of a matrix [extent_y, extent_x]; numbers as in PTX's table for
 * tensormap.replace. */
template <bool bf16, int box_x, int box_y>
__device__ __forceinline__ void map_make(uint32_t map, const void *address, uint32_t extent_x, uint32_t extent_y,
                                         uint32_t stride_y) {
    constexpr int type = bf16 ? 10 : 6, swizzle = box_x == 64 ? 3 : 1; /* of rows of 128, of 32 bytes */
    static_assert(box_x == 64 || box_x == 16);
#define FIELD(name, bits, text, constraint, value)                                                                        \
    asm volatile("tensormap.replace.tile." name ".shared::cta.b1024." bits " [%0], " text "%1;" ::"r"(map), constraint(value) : "memory")
    FIELD("global_address", "b64", "", "l", address);
    FIELD("rank", "b32", "", "n", 2 - 1);
    FIELD("box_dim", "b32", "0, ", "r", box_x);
    FIELD("box_dim", "b32", "1, ", "r", box_y);
    FIELD("global_dim", "b32", "0, ", "r", extent_x);
    FIELD("global_dim", "b32", "1, ", "r", extent_y);
    FIELD("global_stride", "b64", "0, ", "l", static_cast<uint64_t>(stride_y) * 2);
    FIELD("element_stride", "b32", "0, ", "r", 1);
    FIELD("element_stride", "b32", "1, ", "r", 1);
    FIELD("elemtype", "b32", "", "n", type);
    FIELD("interleave_layout", "b32", "", "n", 0);
    FIELD("swizzle_mode", "b32", "", "n", swizzle);
    FIELD("fill_mode", "b32", "", "n", 0);
#undef FIELD
}

/* An operand [places, sums], or [sums, places] in memory if it is across. */
template <bool bf16, bool across, int extent>
__device__ __forceinline__ void map_operand(uint32_t map, const void *address, uint32_t places, uint32_t sums, uint32_t ld) {
    if constexpr (across)
        map_make<bf16, PIECE, STEP>(map, address, places, sums, ld);
    else
        map_make<bf16, STEP, extent>(map, address, sums, places, ld);
}

/* By a whole warp: to global memory, where lane 0 may copy by it. */
__device__ __forceinline__ void map_publish(const tensor_map *to, uint32_t from) {
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(
                     __cvta_generic_to_global(to)),
                 "r"(from)
                 : "memory");
    if (threadIdx.x % 32 == 0) asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(to) : "memory");
    __syncwarp();
}

template <class tile, typename A> __device__ __forceinline__ uint32_t maps_open(const A &args) {
    const bounded_shared<tile> shared;
    const rota_matmul_params &p = args.params;
    const uint32_t lane = threadIdx.x % 32;
    for (uint32_t word = lane; word < sizeof(map_pair) / 4; word += 32)
        asm volatile("st.shared.u32 [%0], 0;" ::"r"(shared.map(0) + word * 4) : "memory");
    __syncwarp();
    uint32_t place = 0;
    if (lane == 0) {
        map_operand<tile::bf16, tile::a_across, tile::rows>(shared.map(0), rota_operand<const void>(args, 0), p.m, p.k, p.lda);
        map_operand<tile::bf16, tile::b_across, tile::columns>(shared.map(1), rota_operand<const void>(args, 1), p.n, p.k, p.ldb);
        place = map_place_take();
    }
    place = __shfl_sync(0xFFFFFFFF, place, 0);
    map_publish(&map_places[place].a, shared.map(0));
    map_publish(&map_places[place].b, shared.map(1));
    return place;
}

/* ---- Copying ---- */

template <int extent, bool across>
__device__ __forceinline__ void bounded_load(uint32_t to, const tensor_map *map, uint32_t barrier, int32_t place, int32_t k) {
    if constexpr (across) {
#pragma unroll
        for (int piece = 0; piece < extent / PIECE; piece++)
            tile_load(to + piece * PIECE_BYTES, map, barrier, place + piece * PIECE, k);
    } else {
        tile_load(to, map, barrier, k, place);
    }
}

__device__ __forceinline__ void tile_ask(const tensor_map *map, int32_t x, int32_t y) {
    asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global [%0, {%1, %2}];" ::"l"(map), "r"(x), "r"(y) : "memory");
}
template <int extent, bool across>
__device__ __forceinline__ void bounded_ask(const tensor_map *map, int32_t place, int32_t k) {
    if constexpr (across) {
#pragma unroll
        for (int piece = 0; piece < extent / PIECE; piece++) tile_ask(map, place + piece * PIECE, k);
    } else {
        tile_ask(map, k, place);
    }
}

template <class tile> __device__ __forceinline__ void bounded_copy(const rota_matmul_params &p, const map_pair *maps) {
    const bounded_shared<tile> shared;
    bounded_walk<tile> walk(p);
    const uint32_t steps = (p.k - 1) / STEP + 1;
    uint32_t stage = 0, parity = 0;
    while (walk.take()) {
        const uint32_t tile_row = walk.row / tile::rows, tile_column = walk.column / tile::columns;
        for (uint32_t step = 0; step < steps; step++) {
            const uint32_t full = shared.full(stage);
            barrier_wait(shared.empty(stage), parity ^ 1);
            barrier_expect_bytes(full, tile::stage_bytes);
            bounded_load<tile::rows, tile::a_across>(shared.a(stage), &maps->a, full, walk.row, step * STEP);
            bounded_load<tile::columns, tile::b_across>(shared.b(stage), &maps->b, full, walk.column, step * STEP);
            if (++stage == STAGES) stage = 0, parity ^= 1;
            const uint32_t then = step + AHEAD;
            if (then >= steps) continue;
            if ((tile_column + then) % TURNS == 0)
                bounded_ask<tile::rows, tile::a_across>(&maps->a, walk.row, then * STEP);
            if ((tile_row + then) % TURNS == 1)
                bounded_ask<tile::columns, tile::b_across>(&maps->b, walk.column, then * STEP);
        }
    }
    /* Until the last copies are over, which read the maps; what was asked for lies AHEAD copies back. */
    for (int i = 0; i < STAGES; i++) {
        barrier_wait(shared.empty(stage), parity ^ 1);
        if (++stage == STAGES) stage = 0, parity ^= 1;
    }
}

/* ---- Multiplying ---- */

/* Where a product finds an operand: pieces of 128-byte rows under the 128-byte swizzle, or 32-byte rows under that of 32. */
template <bool across> __device__ __forceinline__ uint64_t bounded_descriptor(uint32_t address) {
    if constexpr (across) return matrix_descriptor(address, PIECE_BYTES, 8 * 128);
    return matrix_descriptor(address, 0, 8 * 32) | UINT64_C(3) << 62;
}

template <bool bf16> __device__ __forceinline__ uint32_t bounded_pack(float low, float high) {
    if constexpr (bf16) {
        __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
        return *reinterpret_cast<uint32_t *>(&pair);
    } else {
        __half2 pair = __floats2half2_rn(low, high);
        return *reinterpret_cast<uint32_t *>(&pair);
    }
}

/* Word i of lane q's goes to lane i's word q, among four lanes. */
__device__ __forceinline__ void quad_transpose(uint32_t (&w)[4]) {
#pragma unroll
    for (int bit = 1; bit <= 2; bit <<= 1) {
        const bool upper = threadIdx.x & bit;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (i & bit) continue;
            const uint32_t other = __shfl_xor_sync(0xFFFFFFFF, upper ? w[i] : w[i | bit], bit);
            if (upper)
                w[i] = other;
            else
                w[i | bit] = other;
        }
    }
}

/* One warpgroup's results. A thread has two neighbours of each 8 columns: four threads exchange theirs for 16 bytes each. */
template <class tile>
__device__ __forceinline__ void bounded_write(const rota_matmul_params &p, uint16_t *c,
                                              const float (&sums)[tile::slabs][tile::columns / 2], uint32_t first_row,
                                              uint32_t column) {
    const uint32_t lane = threadIdx.x % 32;
#pragma unroll
    for (int slab = 0; slab < tile::slabs; slab++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const uint32_t row = first_row + slab * PIECE + threadIdx.x % WARPGROUP / 32 * 16 + half * 8 + lane / 4;
            uint16_t *to = c + static_cast<uint64_t>(row) * p.ldc;
#pragma unroll
            for (int j = 0; j < tile::columns / 8; j += 4) {
                uint32_t w[4];
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const float *s = &sums[slab][(j + i) * 4 + half * 2];
                    w[i] = bounded_pack<tile::bf16>(p.alpha * s[0], p.alpha * s[1]);
                }
                quad_transpose(w);
                const uint32_t at = column + (j + lane % 4) * 8;
                if (row >= p.m) continue;
                if (at + 8 <= p.n) {
                    *reinterpret_cast<uint4 *>(to + at) = make_uint4(w[0], w[1], w[2], w[3]);
                } else {
#pragma unroll
                    for (int e = 0; e < 8; e++)
                        if (at + e < p.n) to[at + e] = static_cast<uint16_t>(w[e / 2] >> e % 2 * 16);
                }
            }
        }
}

template <class tile>
__device__ __forceinline__ void bounded_multiply(const rota_matmul_params &p, uint16_t *c, uint32_t warpgroup) {
    const bounded_shared<tile> shared;
    bounded_walk<tile> walk(p);
    const uint32_t steps = (p.k - 1) / STEP + 1;
    uint32_t stage = 0, parity = 0;
    auto release = [&](uint32_t of) {
        if (threadIdx.x % 32 == 0) barrier_arrive(shared.empty(of));
    };
    while (walk.take()) {
        float sums[tile::slabs][tile::columns / 2];
        for (uint32_t step = 0; step < steps; step++) {
            barrier_wait(shared.full(stage), parity);
            const uint64_t a = bounded_descriptor<tile::a_across>(shared.a(stage) + warpgroup * tile::slabs * PIECE_BYTES);
            const uint64_t b = bounded_descriptor<tile::b_across>(shared.b(stage));
            products_begin();
#pragma unroll
            for (int slab = 0; slab < tile::slabs; slab++)
                warpgroup_product<tile::columns, tile::bf16, tile::a_across, tile::b_across>::add_to(
                    sums[slab], a + slab * (PIECE_BYTES / 16), b, step > 0);
            products_commit();
            /* While this one runs, the stage before is given back. */
            products_wait<1>();
            if (step > 0) release(stage == 0 ? STAGES - 1 : stage - 1);
            if (++stage == STAGES) stage = 0, parity ^= 1;
        }
        products_wait<0>();
        release(stage == 0 ? STAGES - 1 : stage - 1);
        bounded_write<tile>(p, c, sums, walk.row + warpgroup * tile::slabs * PIECE, walk.column);
    }
}

template <class tile, typename A> __device__ __forceinline__ void matmul_bounded(const A &args) {
    const rota_matmul_params &p = args.params;
    const bounded_shared<tile> shared;
    /* The same for all threads of a warp, as the compiler can see. */
    const uint32_t warpgroup = __shfl_sync(0xFFFFFFFF, threadIdx.x / WARPGROUP, 0);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init(shared.full(i), 1);
            barrier_init(shared.empty(i), tile::warpgroups * 4);
        }
        barrier_init_done();
    }
    __syncthreads();
    if (warpgroup == tile::warpgroups) {
        const uint32_t place = maps_open<tile>(args);
        if (threadIdx.x % 32 == 0) {
            bounded_copy<tile>(p, &map_places[place]);
            map_place_return(place);
        }
    } else {
        bounded_multiply<tile>(p, rota_operand<uint16_t>(args, 2), warpgroup);
    }
}

#define PRODUCT(name, rows, columns, warpgroups, bf16)                                                                   \
    ROTA_KERNEL_BLOCKS(name, 3, rota_matmul_params, (warpgroups) * WARPGROUP + 32, 1) {                                  \
        matmul_bounded<bounded_tile<rows, columns, warpgroups, bf16, false, true>>(args);                                \
    }
PRODUCT(matmul_bounded_f16_128x256, 128, 256, 2, false)
PRODUCT(matmul_bounded_f16_192x192, 192, 192, 3, false)
PRODUCT(matmul_bounded_bf16_128x256, 128, 256, 2, true)
PRODUCT(matmul_bounded_bf16_192x192, 192, 192, 3, true)
