/* A product of 16-bit matrices on Hopper whose tiles don't fill the multiprocessors evenly: those of the last round
 * are divided along the sum, so that every block has about the same to do.
 *
 * Of t tiles and g blocks, t / g rounds of tiles are whole, a block's each. Of the sums of the t % g others the first
 * stretch is their owners', a block a tile; so many more stretches as there are blocks for are other blocks'; what is
 * left of the tiles, one after the other, is a line of stages that is divided evenly among the blocks that are left,
 * the helpers. Who isn't the owner writes its part of a tile's sums, f32, to memory, and says that it is there; the
 * owner adds the parts to its own in the order of the sum, so that the bits are the same each time, and writes the
 * tile.
 *
 * Parts are given before whole tiles, and fetched after them: they are there long before they are wanted, where there
 * are whole rounds. Owners are the last blocks and wait for blocks of lower numbers only, which begin before them, and
 * the others for nobody: there is progress however few blocks run at a time.
 *
 * Blocks that add up the same stretch of different tiles do it at about the same time, so that what they read of the
 * operands stays in the L2 cache for one another; of a line of all tiles' stages each block would be somewhere else. */
#ifndef ROTA_OPS_CUDA_MATMUL_SHARES_SM90_CUH
#define ROTA_OPS_CUDA_MATMUL_SHARES_SM90_CUH

#include "ops/cuda/matmul_shares_walk.h"
#include "ops/cuda/matmul_sm90.cuh"

/* Words that say which parts are there (matmul_prepared.given): those of launches that may run at the same time have
 * a row each. Zeros when the image is loaded, and after each launch. */
__device__ uint32_t matmul_shares_given[ROTA_MATMUL_SHARES_ROWS][ROTA_MATMUL_SHARES_WORDS];

/* The stretches of tiles that one block adds up, in order, with where each tile is. */
template <class tile> struct matmul_shares_walk : rota_matmul_shares_walk {
    matmul_walk<tile> tiles;

    __device__ matmul_shares_walk(const matmul_params &p, const matmul_prepared &prepared)
        : tiles(p, prepared.group) {
        rota_matmul_shares_begin(this, tiles.count, tiles.steps, prepared.own, blockIdx.x, gridDim.x);
    }
    __device__ bool take() {
        if (!rota_matmul_shares_next(this)) return false;
        tiles.open(number);
        return true;
    }
};

template <class tile, bool a_across, bool b_across>
__device__ __forceinline__ void matmul_shares_copy(const matmul_params &p, const matmul_prepared &prepared) {
    const matmul_shared<tile> shared;
    matmul_shares_walk<tile> walk(p, prepared);
    matmul_ring<tile> ring;
    while (walk.take())
        for (uint32_t step = walk.first; step < walk.first + walk.steps; step++) {
            const uint32_t full = shared.full(ring.stage);
            barrier_wait(shared.empty(ring.stage), ring.parity ^ 1);
            barrier_expect_bytes(full, tile::stage_bytes);
            matmul_load<tile::rows, a_across, 1>(shared.a(ring.stage), &prepared.a, full, walk.tiles.row,
                                                 step * STEP_K, 0, 0);
            matmul_load<tile::columns, b_across, 1>(shared.b(ring.stage), &prepared.b, full,
                                                    walk.tiles.column, step * STEP_K, 0, 0);
            ring.go_on();
        }
}

/* One warpgroup's part of a tile in memory: of each thread its sums, four at a time, those of a warp side by side. */
template <class tile> struct matmul_part {
    static constexpr int fours = tile::slabs * tile::columns / 8;
    float4 *at;
    uint32_t *given;
    uint32_t warpgroup;
    __device__ matmul_part(const matmul_prepared &prepared, uint32_t part, uint32_t of_warpgroup) {
        const uint32_t number = part * tile::warpgroups + of_warpgroup;
        at = prepared.parts + static_cast<uint64_t>(number) * fours * WARPGROUP + threadIdx.x % WARPGROUP;
        given = (prepared.given ? prepared.given : matmul_shares_given[prepared.row]) + number;
        warpgroup = of_warpgroup;
    }
    /* Of the warpgroup's threads, and of the warp that says that the part is there: so nobody who multiplies waits for
     * what is on its way. The barriers are in turns, that the next part waits for the last one's word. */
    static constexpr uint32_t together = WARPGROUP + 32;
    __device__ uint32_t stored() const { return 1 + tile::warpgroups + warpgroup; }
    __device__ uint32_t said() const { return 1 + 2 * tile::warpgroups + warpgroup; }

    __device__ void give(const float (&sums)[tile::slabs][tile::columns / 2], bool again) const {
        if (again) named_barrier(said(), together);
        const float *s = &sums[0][0];
#pragma unroll
        for (int i = 0; i < fours; i++)
            __stcg(at + i * WARPGROUP, make_float4(s[4 * i], s[4 * i + 1], s[4 * i + 2], s[4 * i + 3]));
        named_barrier_arrive(stored(), together);
    }
    /* One warp. The release is of all the stores, which come before it by the barrier; its partner is fetch's
     * acquire. */
    __device__ void say(bool again) const {
        if (again) named_barrier_arrive(said(), together);
        named_barrier(stored(), together);
        if (threadIdx.x % 32 == 0) word_release(given, 1);
        __syncwarp();
    }
    /* Nobody else looks at the word any more: it is 0 again for the next launch. */
    __device__ void fetch(float (&sums)[tile::slabs][tile::columns / 2]) const {
        if (threadIdx.x % WARPGROUP == 0) {
            while (word_acquire(given) == 0) {
            }
            *given = 0;
        }
        named_barrier(1 + warpgroup, WARPGROUP);
        constexpr int at_once = fours > 16 ? 8 : fours; /* as registers are left */
        float *s = &sums[0][0];
#pragma unroll
        for (int first = 0; first < fours; first += at_once) {
            float4 more[at_once];
#pragma unroll
            for (int i = 0; i < at_once; i++) more[i] = __ldcg(at + (first + i) * WARPGROUP);
#pragma unroll
            for (int i = 0; i < at_once; i++) {
                float *to = s + 4 * (first + i);
                to[0] += more[i].x, to[1] += more[i].y, to[2] += more[i].z, to[3] += more[i].w;
            }
        }
    }
};

/* A warp for each warpgroup that multiplies. */
template <class tile>
__device__ __forceinline__ void matmul_shares_say(const matmul_params &p, const matmul_prepared &prepared,
                                                  uint32_t warpgroup) {
    matmul_shares_walk<tile> walk(p, prepared);
    for (bool again = false; walk.take() && walk.gives; again = true)
        matmul_part<tile>(prepared, walk.part, warpgroup).say(again);
}

template <class tile, bool bf16, bool a_across, bool b_across>
__device__ __forceinline__ void matmul_shares_multiply(const matmul_params &p,
                                                       const matmul_prepared &prepared, uint32_t warpgroup) {
    const matmul_shared<tile> shared;
    matmul_shares_walk<tile> walk(p, prepared);
    matmul_ring<tile> ring;
    uint32_t piece = 0;
    bool again = false;
    while (walk.take()) {
        float sums[tile::slabs][tile::columns / 2];
        matmul_sum<tile, bf16, a_across, b_across>(sums, shared, ring, walk.steps, warpgroup);
        if (walk.gives) {
            matmul_part<tile>(prepared, walk.part, warpgroup).give(sums, again);
            again = true;
            continue;
        }
        if (walk.fetches) {
            uint32_t helper;
            const uint32_t count = rota_matmul_shares_parts(&walk, &helper);
            for (uint32_t i = 0; i < count; i++)
                matmul_part<tile>(prepared, rota_matmul_shares_part(&walk, helper, i), warpgroup).fetch(sums);
        }
        matmul_write<tile, bf16>(sums, p.alpha, shared.staging(warpgroup), warpgroup, &prepared.c,
                                 walk.tiles.row + warpgroup * tile::slabs * 64, walk.tiles.column, piece);
    }
    if (threadIdx.x % WARPGROUP == 0) tile_store_wait_read<0>();
}

template <class tile, bool bf16, bool transpose_a, bool transpose_b>
__device__ __forceinline__ void matmul_shares_sm90(const matmul_params &p, const matmul_prepared &prepared) {
    static_assert(tile::cluster == 1 && tile::warpgroups < 4);
    constexpr bool a_across = transpose_a, b_across = !transpose_b;
    const uint32_t warp = __shfl_sync(0xFFFFFFFF, threadIdx.x / 32, 0), warpgroup = warp / 4;
    matmul_begin<tile>(prepared);
    if (warpgroup == tile::warpgroups) {
        registers_give<tile::registers_copying>();
        const uint32_t of = warp % 4;
        if (of == 0 && threadIdx.x % 32 == 0) matmul_shares_copy<tile, a_across, b_across>(p, prepared);
        if (of > 0 && of <= tile::warpgroups) matmul_shares_say<tile>(p, prepared, of - 1);
        __syncwarp();
    } else {
        registers_take<tile::registers_multiplying>();
        matmul_shares_multiply<tile, bf16, a_across, b_across>(p, prepared, warpgroup);
    }
}

#endif
