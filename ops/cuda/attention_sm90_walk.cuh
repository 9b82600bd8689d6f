/* Which tiles a block of threads of attention_sm90.cuh works off, in which order. */
#ifndef ROTA_OPS_CUDA_ATTENTION_SM90_WALK_CUH
#define ROTA_OPS_CUDA_ATTENTION_SM90_WALK_CUH

#include "exec/cuda/rota_kernel.cuh"
#include "ops/cuda/attention_sm90_sizes.h"
#include "ops/cuda/hopper.cuh"

using attention_params = rota_attention_backward_params;

constexpr uint32_t BLOCK = ROTA_ATTENTION_SM90_BLOCK;

/* The first tile that has a query that sees a key of the block. */
__device__ __forceinline__ uint32_t attention_first_tile(const attention_params &p, uint32_t block) {
    const uint32_t behind = p.keys - p.queries;
    return (p.flags & ROTA_ATTENTION_CAUSAL) && block * BLOCK > behind ? (block * BLOCK - behind) / BLOCK : 0;
}

__device__ __forceinline__ uint32_t attention_ceil(uint32_t rows) { return (rows + BLOCK - 1) / BLOCK; }

/* The tiles of one block of threads, in order: its share of the pairs that are divided, then of the others.
 * `rank` says how many of the `count` additions to a tile's dq come before ours. */
struct attention_walk {
    const attention_params &p;
    const rota_attention_sm90_shares &shares;
    uint32_t tiles, blocks, entry, entry_end, group, other, round;
    uint32_t pair, block, first, tile, rank, count;
    const uint16_t *order; /* of the pair's blocks; NULL: from the last to the first */
    bool any;              /* there is work at all */

    __device__ attention_walk(const attention_params &params, const rota_attention_sm90_shares &given)
        : p(params), shares(given) {
        tiles = attention_ceil(p.queries);
        blocks = attention_ceil(p.keys);
        group = blockIdx.x / shares.group_blocks;
        entry = shares.begin[blockIdx.x % shares.group_blocks];
        entry_end = shares.begin[blockIdx.x % shares.group_blocks + 1];
        other = shares.divided + blockIdx.x / shares.each;
        round = rounds();
        any = next_block();
    }
    /* Key blocks that queries of the tile see. */
    __device__ uint32_t seen() const {
        const uint32_t behind = p.keys - p.queries, last = tile + (behind + BLOCK - 1) / BLOCK + 1;
        return (p.flags & ROTA_ATTENTION_CAUSAL) && last < blocks ? last : blocks;
    }
    __device__ bool before(uint32_t than) const { return order ? order[than] < order[block] : than > block; }
    /* Of the others' key blocks share s has s, 2 each - 1 - s, 2 each + s, ...: about the same work. */
    __device__ uint32_t block_of(uint32_t of_round) const {
        const uint32_t share = blockIdx.x % shares.each;
        return of_round * shares.each + (of_round % 2 ? shares.each - 1 - share : share);
    }
    __device__ uint32_t rounds() const { return blocks / shares.each + (block_of(blocks / shares.each) < blocks); }
    __device__ bool next_block() {
        for (; entry < entry_end; entry++) {
            const uint32_t number = shares.entry[entry];
            pair = group * shares.group_pairs + number / blocks;
            if (pair >= shares.divided) continue; /* the last group has fewer */
            entry++;
            block = number % blocks;
            order = shares.order + (number - block);
            open();
            return true;
        }
        order = nullptr;
        if (other >= p.batch * p.heads) return false;
        pair = other;
        block = block_of(--round);
        if (round == 0) other += gridDim.x / shares.each, round = rounds();
        open();
        return true;
    }
    __device__ void open() {
        tile = first = attention_first_tile(p, block);
        count = seen();
        rank = 0;
        for (uint32_t i = 0; i < count; i++) rank += before(i);
    }
    /* To the next tile; false: there is none. */
    __device__ bool go_on() {
        if (++tile == tiles) return next_block();
        const uint32_t seen_now = seen();
        if (seen_now > count) rank += before(seen_now - 1);
        count = seen_now;
        return true;
    }
    __device__ bool opens() const { return tile == first; }
    /* dq of this tile has a sum already. */
    __device__ bool touched() const { return rank > 0; }
    /* Nothing more comes to dq of this tile. */
    __device__ bool ends() const { return rank + 1 == count; }
    /* The sum is fetched, and written with ours as dq. */
    __device__ bool fetches() const { return touched() && ends(); }
    /* Others add to dq as well. */
    __device__ bool in_turns() const { return order || shares.each > 1; }
    /* Of the tile's sum. */
    __device__ uint32_t slot() const { return (in_turns() ? pair : shares.divided + blockIdx.x) * tiles + tile; }
};

#endif
