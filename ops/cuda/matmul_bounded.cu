/* A product of 16-bit matrices on Hopper (sm_90a), f32 sums, in at most 47 KiB of shared memory and with nothing
 * prepared by the host, which is what VK_NVX_binary_import can launch: c = alpha op(a) op(b).
 *
 * As in matmul_sm90.cuh, one thread copies by the copy engine into a ring of stages, warpgroups multiply, and blocks
 * are persistent. What differs:
 * - The block makes the tensor maps itself. The copy engine reads maps from global memory only, so the image has places
 *   for them, of which each block takes one while it runs.
 * - A stage is one product deep (16 along the sum), so that three of a large tile fit. Throughput is what is on its way
 *   over how long it takes; so what is needed soon is asked for into the L2 cache, and a copy waits for that cache
 *   only.
 * - Where both operands are as they lie and the sum is a multiple of 32 long, a goes from memory to the registers of
 *   the threads that multiply by it, and the stages are b's alone: five of a large tile.
 * - One warp copies, not a warpgroup: registers are shared out by quarters of a multiprocessor, and so the tiles' sums
 *   fit. (Where a is in registers, a whole warpgroup is there to give its own away.)
 * - Results go straight from registers to memory. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "rota_kernel.cuh"
#include "ops/cuda/hopper.cuh"
#include "ops/cuda/shapes.h"

constexpr int STEP = 16;   /* elements of a stage along the sum */
constexpr int CHUNK = 32;  /* of a in registers: 16 bytes of a row a thread, two products deep */
constexpr int HELD =
    4; /* chunks of a in registers, those on their way with them: memory takes longer than a chunk's products */
constexpr int PIECE = 64;  /* rows of a that one product takes; elements of a 128-byte row */
constexpr int PIECE_BYTES = PIECE * STEP * 2;
constexpr int ALIGNMENT = 1024; /* the period of the 128-byte swizzle */
constexpr int WARPGROUP = 128;
constexpr uint32_t BAND = 8;  /* rows of tiles that are walked together, for the L2 cache */
constexpr uint32_t AHEAD = 8; /* steps from asking to copying; 24 was slower on an H200 */
constexpr uint32_t TURNS = 4; /* a block asks in one of so many steps; others that need the same do in between */

/* rows x columns of a block's tile, 64 rows a warpgroup that multiplies. An operand is `across` where its contiguous
 * axis is not the summed one: stages then lie in pieces of [16, 64], rows of 128 bytes, else in rows of 32. `a_held`: a
 * is in registers. */
template <int rows_, int columns_, bool bf16_, bool a_across_, bool b_across_, bool a_held_> struct bounded_tile {
    static constexpr int rows = rows_, columns = columns_, warpgroups = rows / PIECE;
    static constexpr bool bf16 = bf16_, a_across = a_across_, b_across = b_across_, a_held = a_held_;
    static constexpr int threads = warpgroups * WARPGROUP + (a_held ? WARPGROUP : 32);
    static constexpr int a_bytes = a_held ? 0 : rows * STEP * 2, stage_bytes = a_bytes + columns * STEP * 2;
    static constexpr int stages =
        (ROTA_CUDA_MATMUL_BOUNDED_SHARED - ALIGNMENT - 2 * static_cast<int>(sizeof(tensor_map))) /
        (stage_bytes + 2 * 8);
    static_assert(rows % PIECE == 0 && columns % PIECE == 0 && a_bytes % ALIGNMENT == 0 && stages >= 3);
    static_assert(!a_held || (!a_across && b_across), "its order along the sum is the one that b's map gives");
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
    __device__ uint32_t map(uint32_t i) const {
        return a(tile::stages) + i * static_cast<uint32_t>(sizeof(tensor_map));
    }
    __device__ uint32_t full(uint32_t stage) const { return map(2) + stage * 8; }
    __device__ uint32_t empty(uint32_t stage) const { return full(tile::stages) + stage * 8; }
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

__device__ __forceinline__ uint32_t map_pair_take() {
    uint32_t pair;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(pair));
    pair %= MAP_PLACES;
    while (atomicCAS(&map_places_taken[pair], 0u, 1u) != 0u) pair = (pair + 1) % MAP_PLACES;
    __threadfence(); /* after the giving back by who had it before */
    return pair;
}
__device__ __forceinline__ void map_pair_return(uint32_t pair) {
    __threadfence();
    atomicExch(&map_places_taken[pair], 0u);
}

#define FIELD(name, bits, text, constraint, value)                                                          \
    asm volatile("tensormap.replace.tile." name ".shared::cta.b1024." bits " [%0], " text "%1;" ::"r"(map), \
                 constraint(value)                                                                          \
                 : "memory")
#define AXIS(number, extent, box)                         \
    FIELD("global_dim", "b32", number ", ", "r", extent); \
    FIELD("box_dim", "b32", number ", ", "r", box);       \
    FIELD("element_stride", "b32", number ", ", "r", 1)
#define STRIDE(number, elements) FIELD("global_stride", "b64", number ", ", "l", static_cast<uint64_t>(elements) * 2)

/* Into the map at `map` (shared memory, all zeros), what all maps have; numbers as in PTX's table for
 * tensormap.replace. */
template <bool bf16, int rank, int swizzle>
__device__ __forceinline__ void map_begin(uint32_t map, const void *address) {
    FIELD("global_address", "b64", "", "l", address);
    FIELD("rank", "b32", "", "n", rank - 1);
    FIELD("elemtype", "b32", "", "n", bf16 ? 10 : 6);
    FIELD("interleave_layout", "b32", "", "n", 0);
    FIELD("swizzle_mode", "b32", "", "n", swizzle);
    FIELD("fill_mode", "b32", "", "n", 0);
}

/* Of a matrix [extent_y, extent_x]. */
template <bool bf16, int box_x, int box_y>
__device__ __forceinline__ void map_make(uint32_t map, const void *address, uint32_t extent_x, uint32_t extent_y,
                                         uint32_t stride_y) {
    static_assert(box_x == 64 || box_x == 16);
    map_begin<bf16, 2, box_x == 64 ? 3 : 1>(map, address); /* swizzles of rows of 128, of 32 bytes */
    AXIS("0", extent_x, box_x);
    AXIS("1", extent_y, box_y);
    STRIDE("0", stride_y);
}

/* b for an a in registers. A thread's 16 bytes of a row of a are elements 8 t to 8 t + 7 of a chunk; the products of a
 * step take its element 4 step + 2 half + side for position 2 t + 8 half + side of the sum. So a stage's rows are b's
 * in this order: by side, then t, then half. */
template <bool bf16>
__device__ __forceinline__ void map_make_ordered(uint32_t map, const void *address, uint32_t positions, uint32_t sums,
                                                 uint32_t ld) {
    map_begin<bf16, 4, 3>(map, address);
    AXIS("0", positions, PIECE);
    AXIS("1", 2, 2);
    AXIS("2", sums / 8, CHUNK / 8);
    AXIS("3", 4, 2);
    STRIDE("0", ld);
    STRIDE("1", static_cast<uint64_t>(ld) * 8);
    STRIDE("2", static_cast<uint64_t>(ld) * 2);
}
#undef FIELD
#undef AXIS
#undef STRIDE

/* An operand [positions, sums], or [sums, positions] in memory if it is across. */
template <bool bf16, bool across, int extent>
__device__ __forceinline__ void map_operand(uint32_t map, const void *address, uint32_t positions, uint32_t sums,
                                            uint32_t ld) {
    if constexpr (across)
        map_make<bf16, PIECE, STEP>(map, address, positions, sums, ld);
    else
        map_make<bf16, STEP, extent>(map, address, sums, positions, ld);
}

/* By a whole warp: to global memory, where lane 0 may copy by it. */
__device__ __forceinline__ void map_publish(const tensor_map *to, uint32_t from) {
    asm volatile(
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(
            __cvta_generic_to_global(to)),
        "r"(from)
        : "memory");
    if (threadIdx.x % 32 == 0)
        asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(to) : "memory");
    __syncwarp();
}

template <class tile, typename A> __device__ __forceinline__ uint32_t maps_open(const A &args) {
    const bounded_shared<tile> shared;
    const rota_matmul_params &p = args.params;
    const uint32_t lane = threadIdx.x % 32;
    for (uint32_t word = lane; word < sizeof(map_pair) / 4; word += 32)
        asm volatile("st.shared.u32 [%0], 0;" ::"r"(shared.map(0) + word * 4) : "memory");
    __syncwarp();
    uint32_t pair = 0;
    if (lane == 0) {
        const void *a = rota_operand<const void>(args, 0), *b = rota_operand<const void>(args, 1);
        if constexpr (tile::a_held) {
            map_make<tile::bf16, PIECE, tile::rows>(shared.map(0), a, p.k, p.m, p.lda); /* to ask by */
            map_make_ordered<tile::bf16>(shared.map(1), b, p.n, p.k, p.ldb);
        } else {
            map_operand<tile::bf16, tile::a_across, tile::rows>(shared.map(0), a, p.m, p.k, p.lda);
            map_operand<tile::bf16, tile::b_across, tile::columns>(shared.map(1), b, p.n, p.k, p.ldb);
        }
        pair = map_pair_take();
    }
    pair = __shfl_sync(0xFFFFFFFF, pair, 0);
    map_publish(&map_places[pair].a, shared.map(0));
    map_publish(&map_places[pair].b, shared.map(1));
    return pair;
}

/* ---- Copying ---- */

template <int extent, bool across>
__device__ __forceinline__ void bounded_load(uint32_t to, const tensor_map *map, uint32_t barrier, int32_t position,
                                             int32_t k) {
    if constexpr (across) {
#pragma unroll
        for (int piece = 0; piece < extent / PIECE; piece++)
            tile_load(to + piece * PIECE_BYTES, map, barrier, position + piece * PIECE, k);
    } else {
        tile_load(to, map, barrier, k, position);
    }
}

__device__ __forceinline__ void tile_ask(const tensor_map *map, int32_t x, int32_t y) {
    asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global [%0, {%1, %2}];" ::"l"(map), "r"(x), "r"(y) : "memory");
}
template <int extent, bool across>
__device__ __forceinline__ void bounded_ask(const tensor_map *map, int32_t position, int32_t k) {
    if constexpr (across) {
#pragma unroll
        for (int piece = 0; piece < extent / PIECE; piece++) tile_ask(map, position + piece * PIECE, k);
    } else {
        tile_ask(map, k, position);
    }
}

/* b's stage `step`, in the order of map_make_ordered. */
template <int extent>
__device__ __forceinline__ void ordered_load(uint32_t to, const tensor_map *map, uint32_t barrier, int32_t position,
                                             uint32_t step) {
#pragma unroll
    for (int piece = 0; piece < extent / PIECE; piece++)
        asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to + piece * PIECE_BYTES),
                     "l"(map), "r"(barrier), "r"(position + piece * PIECE), "r"(0), "r"(step / 2 * (CHUNK / 8)),
                     "r"(step % 2 * 2)
                     : "memory");
}
template <int extent>
__device__ __forceinline__ void ordered_ask(const tensor_map *map, int32_t position, uint32_t step) {
#pragma unroll
    for (int piece = 0; piece < extent / PIECE; piece++)
        asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global [%0, {%1, %2, %3, %4}];" ::"l"(map),
                     "r"(position + piece * PIECE), "r"(0), "r"(step / 2 * (CHUNK / 8)), "r"(step % 2 * 2)
                     : "memory");
}

template <class tile>
__device__ __forceinline__ void stage_load(const bounded_shared<tile> &shared, const map_pair *maps, uint32_t stage,
                                           const bounded_walk<tile> &walk, uint32_t step) {
    const uint32_t full = shared.full(stage);
    if constexpr (tile::a_held) {
        ordered_load<tile::columns>(shared.b(stage), &maps->b, full, walk.column, step);
    } else {
        bounded_load<tile::rows, tile::a_across>(shared.a(stage), &maps->a, full, walk.row, step * STEP);
        bounded_load<tile::columns, tile::b_across>(shared.b(stage), &maps->b, full, walk.column, step * STEP);
    }
}

/* Asks for a step's operands, if it is this block's turn. */
template <class tile>
__device__ __forceinline__ void stage_ask(const map_pair *maps, const bounded_walk<tile> &walk, uint32_t step) {
    const uint32_t tile_row = walk.row / tile::rows, tile_column = walk.column / tile::columns;
    if constexpr (tile::a_held) {
        constexpr uint32_t STEPS = PIECE / STEP; /* that one box has */
        if (step % STEPS == 0 && (tile_column + step / STEPS) % TURNS == 0) tile_ask(&maps->a, step * STEP, walk.row);
        if ((tile_row + step) % TURNS == 1) ordered_ask<tile::columns>(&maps->b, walk.column, step);
    } else {
        if ((tile_column + step) % TURNS == 0) bounded_ask<tile::rows, tile::a_across>(&maps->a, walk.row, step * STEP);
        if ((tile_row + step) % TURNS == 1)
            bounded_ask<tile::columns, tile::b_across>(&maps->b, walk.column, step * STEP);
    }
}

template <class tile> __device__ __forceinline__ void bounded_copy(const rota_matmul_params &p, const map_pair *maps) {
    const bounded_shared<tile> shared;
    bounded_walk<tile> walk(p);
    const uint32_t steps = (p.k - 1) / STEP + 1;
    uint32_t stage = 0, parity = 0;
    while (walk.take()) {
        for (uint32_t step = 0; step < steps; step++) {
            barrier_wait(shared.empty(stage), parity ^ 1);
            barrier_expect_bytes(shared.full(stage), tile::stage_bytes);
            stage_load(shared, maps, stage, walk, step);
            if (++stage == tile::stages) stage = 0, parity ^= 1;
            if (step + AHEAD < steps) stage_ask(maps, walk, step + AHEAD);
        }
    }
    /* Until the last copies are over, which read the maps; what was asked for lies AHEAD copies back. */
    for (int i = 0; i < tile::stages; i++) {
        barrier_wait(shared.empty(stage), parity ^ 1);
        if (++stage == tile::stages) stage = 0, parity ^= 1;
    }
}

/* ---- Multiplying ---- */

/* Where a product finds an operand: pieces of 128-byte rows under the 128-byte swizzle, or 32-byte rows under that of
 * 32. */
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

/* One warpgroup's results. A thread has two neighbours of each 8 columns: four threads exchange theirs for 16 bytes
 * each. */
template <class tile>
__device__ __forceinline__ void bounded_write(const rota_matmul_params &p, uint16_t *c,
                                              const float (&sums)[tile::columns / 2], uint32_t first_row,
                                              uint32_t column) {
    const uint32_t lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const uint32_t row = first_row + threadIdx.x % WARPGROUP / 32 * 16 + half * 8 + lane / 4;
        uint16_t *to = c + static_cast<uint64_t>(row) * p.ldc;
#pragma unroll
        for (int j = 0; j < tile::columns / 8; j += 4) {
            uint32_t w[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float *s = &sums[(j + i) * 4 + half * 2];
                w[i] = bounded_pack<tile::bf16>(p.alpha * s[0], p.alpha * s[1]);
            }
            quad_transpose(w);
            const uint32_t first = column + (j + lane % 4) * 8;
            if (row >= p.m) continue;
            if (first + 8 <= p.n) {
                *reinterpret_cast<uint4 *>(to + first) = make_uint4(w[0], w[1], w[2], w[3]);
            } else {
#pragma unroll
                for (int e = 0; e < 8; e++)
                    if (first + e < p.n) to[first + e] = static_cast<uint16_t>(w[e / 2] >> e % 2 * 16);
            }
        }
    }
}

/* A thread's place in the ring of stages: the stage whose products are next. */
template <class tile> struct stage_ring {
    const bounded_shared<tile> shared;
    uint32_t stage = 0, parity = 0;
    __device__ __forceinline__ void wait_full() const { barrier_wait(shared.full(stage), parity); }
    __device__ __forceinline__ void next() {
        if (++stage == tile::stages) stage = 0, parity ^= 1;
    }
    /* Gives back the stage before. */
    __device__ __forceinline__ void release_last() const {
        if (threadIdx.x % 32 == 0) barrier_arrive(shared.empty(stage == 0 ? tile::stages - 1 : stage - 1));
    }
};

template <class tile>
__device__ __forceinline__ void bounded_multiply(const rota_matmul_params &p, uint16_t *c, uint32_t warpgroup) {
    stage_ring<tile> ring;
    bounded_walk<tile> walk(p);
    const uint32_t steps = (p.k - 1) / STEP + 1;
    while (walk.take()) {
        float sums[tile::columns / 2];
        for (uint32_t step = 0; step < steps; step++) {
            ring.wait_full();
            const uint64_t a = bounded_descriptor<tile::a_across>(ring.shared.a(ring.stage) + warpgroup * PIECE_BYTES);
            const uint64_t b = bounded_descriptor<tile::b_across>(ring.shared.b(ring.stage));
            products_begin();
            warpgroup_product<tile::columns, tile::bf16, tile::a_across, tile::b_across>::add_to(sums, a, b, step > 0);
            products_commit();
            /* While this one runs, the stage before is given back. */
            products_wait<1>();
            if (step > 0) ring.release_last();
            ring.next();
        }
        products_wait<0>();
        ring.release_last();
        bounded_write<tile>(p, c, sums, walk.row + warpgroup * PIECE, walk.column);
    }
}

/* As warpgroup_product (hopper.cuh), with a in registers: d [64, columns] = a [64, 16] b [16, columns] (+ d where
 * `add`). */
template <int columns, bool bf16> struct held_product;
#define HELD_WGMMA(COLUMNS, REGISTERS, TYPE, A0, A1, A2, A3, B, ADD)                                               \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" #ADD ", 0;\n"                                            \
                 "wgmma.mma_async.sync.aligned.m64n" #COLUMNS "k16.f32." TYPE "." TYPE " {" ROTA_NAMES_##REGISTERS \
                 "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B ", add, 1, 1, 1;\n}"                          \
                 : ROTA_OUT_##REGISTERS                                                                            \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add))
#define HELD_PRODUCT(COLUMNS, REGISTERS, ...)                                                                    \
    template <bool bf16> struct held_product<COLUMNS, bf16> {                                                    \
        static __device__ __forceinline__ void add_to(float (&d)[REGISTERS], const uint32_t (&a)[4], uint64_t b, \
                                                      uint32_t add) {                                            \
            if constexpr (bf16)                                                                                  \
                HELD_WGMMA(COLUMNS, REGISTERS, "bf16", __VA_ARGS__);                                             \
            else                                                                                                 \
                HELD_WGMMA(COLUMNS, REGISTERS, "f16", __VA_ARGS__);                                              \
        }                                                                                                        \
    };
HELD_PRODUCT(192, 96, 96, 97, 98, 99, 100, 101)
HELD_PRODUCT(256, 128, 128, 129, 130, 131, 132, 133)

/* A thread's part of a chunk of a: 16 bytes of each of its two rows. */
struct held_rows {
    uint4 low, high;
    __device__ __forceinline__ void load(const uint16_t *low_row, const uint16_t *high_row, uint32_t chunk) {
        low = *reinterpret_cast<const uint4 *>(low_row + chunk * CHUNK);
        high = *reinterpret_cast<const uint4 *>(high_row + chunk * CHUNK);
    }
};

/* The two products of a chunk. While the first runs, a later chunk is asked for, into registers that the chunk before
 * has done with. */
template <class tile>
__device__ __forceinline__ void chunk_multiply(stage_ring<tile> &ring, float (&sums)[tile::columns / 2],
                                               const held_rows &now, held_rows &later, const uint16_t *low_row,
                                               const uint16_t *high_row, uint32_t chunk, uint32_t chunks) {
#pragma unroll
    for (int step = 0; step < 2; step++) {
        const uint32_t a[4] = {step ? now.low.z : now.low.x, step ? now.high.z : now.high.x,
                               step ? now.low.w : now.low.y, step ? now.high.w : now.high.y};
        ring.wait_full();
        const uint64_t b = bounded_descriptor<true>(ring.shared.b(ring.stage));
        products_begin();
        held_product<tile::columns, tile::bf16>::add_to(sums, a, b, chunk > 0 || step > 0);
        products_commit();
        products_wait<1>();
        if (chunk > 0 || step > 0) ring.release_last();
        ring.next();
        if (step == 0 && chunk + HELD - 1 < chunks) later.load(low_row, high_row, chunk + HELD - 1);
    }
}

template <class tile>
__device__ __forceinline__ void bounded_multiply_held(const rota_matmul_params &p, const uint16_t *a, uint16_t *c,
                                                      uint32_t warpgroup) {
    stage_ring<tile> ring;
    bounded_walk<tile> walk(p);
    const uint32_t chunks = p.k / CHUNK, lane = threadIdx.x % 32;
    while (walk.take()) {
        float sums[tile::columns / 2];
        const uint32_t first = walk.row + warpgroup * PIECE, row = first + threadIdx.x % WARPGROUP / 32 * 16 + lane / 4;
        /* Rows beyond the last are read from it; nothing is written of them. */
        const uint16_t *low_row = a + static_cast<uint64_t>(min(row, p.m - 1)) * p.lda + lane % 4 * 8;
        const uint16_t *high_row = a + static_cast<uint64_t>(min(row + 8, p.m - 1)) * p.lda + lane % 4 * 8;
        held_rows held[HELD];
#pragma unroll
        for (uint32_t i = 0; i < HELD - 1; i++)
            if (i < chunks) held[i].load(low_row, high_row, i);
        for (uint32_t first_chunk = 0; first_chunk < chunks; first_chunk += HELD) {
#pragma unroll
            for (uint32_t i = 0; i < HELD; i++)
                if (first_chunk + i < chunks)
                    chunk_multiply<tile>(ring, sums, held[i], held[(i + HELD - 1) % HELD], low_row, high_row,
                                         first_chunk + i, chunks);
        }
        products_wait<0>();
        ring.release_last();
        bounded_write<tile>(p, c, sums, first, walk.column);
    }
}

template <class tile, typename A> __device__ __forceinline__ void matmul_bounded(const A &args) {
    const rota_matmul_params &p = args.params;
    const bounded_shared<tile> shared;
    /* The same for all threads of a warp, as the compiler can see. */
    const uint32_t warpgroup = __shfl_sync(0xFFFFFFFF, threadIdx.x / WARPGROUP, 0);
    if (threadIdx.x == 0) {
        for (int i = 0; i < tile::stages; i++) {
            barrier_init(shared.full(i), 1);
            barrier_init(shared.empty(i), tile::warpgroups * 4);
        }
        barrier_init_done();
    }
    __syncthreads();
    if (warpgroup == tile::warpgroups) {
        if constexpr (tile::a_held) {
            registers_give<tile::warpgroups == 2 ? 40 : 32>();
            if (threadIdx.x % WARPGROUP >= 32) return;
        }
        const uint32_t pair = maps_open<tile>(args);
        if (threadIdx.x % 32 == 0) {
            bounded_copy<tile>(p, &map_places[pair]);
            map_pair_return(pair);
        }
    } else {
        uint16_t *c = rota_operand<uint16_t>(args, 2);
        if constexpr (tile::a_held) {
            registers_take<tile::warpgroups == 2 ? 232 : 160>();
            bounded_multiply_held<tile>(p, rota_operand<const uint16_t>(args, 0), c, warpgroup);
        } else {
            bounded_multiply<tile>(p, c, warpgroup);
        }
    }
}

/* By orientation (n: as it lies, t: transposed; held: both as they lie, a in registers), type and tile. */
#define PRODUCT(name, type, rows, columns, ...)                                                    \
    ROTA_KERNEL_BLOCKS(matmul_bounded_##name##_##type##_##rows##x##columns, 3, rota_matmul_params, \
                       (bounded_tile<rows, columns, __VA_ARGS__>::threads), 1) {                   \
        matmul_bounded<bounded_tile<rows, columns, __VA_ARGS__>>(args);                            \
    }
#define PRODUCTS(type, bf16)                               \
    PRODUCT(held, type, 128, 256, bf16, false, true, true) \
    PRODUCT(held, type, 192, 192, bf16, false, true, true) \
    PRODUCT(held, type, 128, 192, bf16, false, true, true) \
    PRODUCT(nn, type, 128, 256, bf16, false, true, false)  \
    PRODUCT(nn, type, 192, 192, bf16, false, true, false)  \
    PRODUCT(nn, type, 128, 192, bf16, false, true, false)  \
    PRODUCT(nt, type, 128, 256, bf16, false, false, false) \
    PRODUCT(nt, type, 128, 192, bf16, false, false, false) \
    PRODUCT(tn, type, 128, 256, bf16, true, true, false)   \
    PRODUCT(tn, type, 128, 192, bf16, true, true, false)
PRODUCTS(f16, false)
PRODUCTS(bf16, true)
