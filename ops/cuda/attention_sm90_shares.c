/* Dividing the work of attention's gradient on Hopper among blocks of threads.
 *
 * Blocks of threads that have key blocks of the same pair add to dq in turns. Say that each takes a unit of time for a
 * tile: then an addition has a time, after the entries before it in the share and the tiles before it in the block.
 * They add in the order of these times, and, of the same time, of the key blocks. So nobody waits much, and nobody
 * forever: of the additions that are left the first of all, in that order, is the next one of its share, and what it
 * waits for is done. For that all shares of a pair must run at the same time. */
#include "ops/cuda/attention_sm90_shares.h"

#include <string.h>

#define BLOCK ROTA_ATTENTION_SM90_BLOCK
#define SHARES_MAX ROTA_ATTENTION_SM90_SHARES_MAX
#define ENTRIES_MAX ROTA_ATTENTION_SM90_ENTRIES_MAX
#define SUMS_BYTES ((uint64_t)ROTA_ATTENTION_SM90_SUMS_BYTES)
#define EACH_MAX 2u
/* More is too much memory to ask for where less does. */
#define SUMS_OF_TWO_MAX (UINT64_C(1) << 28)

/* The first tile that sees a key of the block. */
static uint32_t first_tile(const rota_attention_backward_params *p, uint32_t block) {
    const uint32_t key = block * BLOCK, behind = p->keys - p->queries;
    return (p->flags & ROTA_ATTENTION_CAUSAL) && key > behind ? (key - behind) / BLOCK : 0;
}

static uint32_t tiles_seeing(const rota_attention_backward_params *p, uint32_t block) {
    return rota_attention_sm90_tiles(p->queries) - first_tile(p, block);
}

/* A group's blocks of keys, of which the first have the most tiles, each to the share that has the fewest tiles so
 * far. Returns the most that one has. */
static uint32_t deal(const rota_attention_backward_params *p, uint32_t pairs, uint32_t shares,
                     uint8_t share_of[ENTRIES_MAX]) {
    const uint32_t blocks = rota_attention_sm90_tiles(p->keys);
    uint32_t tiles[SHARES_MAX] = {0}, most = 0;
    for (uint32_t block = 0; block < blocks; block++)
        for (uint32_t pair = 0; pair < pairs; pair++) {
            uint32_t least = 0;
            for (uint32_t share = 1; share < shares; share++)
                if (tiles[share] < tiles[least]) least = share;
            share_of[pair * blocks + block] = (uint8_t)least;
            tiles[least] += tiles_seeing(p, block);
            if (tiles[least] > most) most = tiles[least];
        }
    return most;
}

/* Each share has its blocks from the last to the first, and pairs from the last to the first: those with few tiles
 * first. In `began` goes when each entry begins, in tiles. */
static void list(const rota_attention_backward_params *p, const uint8_t share_of[ENTRIES_MAX],
                 rota_attention_sm90_shares *s, uint32_t began[ENTRIES_MAX]) {
    const uint32_t blocks = rota_attention_sm90_tiles(p->keys);
    uint32_t count = 0;
    for (uint32_t share = 0; share < s->group_blocks; share++) {
        uint32_t tiles = 0;
        s->begin[share] = (uint16_t)count;
        for (uint32_t block = blocks; block-- > 0;)
            for (uint32_t pair = s->group_pairs; pair-- > 0;) {
                const uint32_t entry = pair * blocks + block;
                if (share_of[entry] != share) continue;
                s->entry[count++] = (uint16_t)entry;
                began[entry] = tiles;
                tiles += tiles_seeing(p, block);
            }
    }
    s->begin[s->group_blocks] = (uint16_t)count;
}

/* Two blocks come to all tiles that both have in the same order. */
static void put_in_order(const rota_attention_backward_params *p, const uint32_t began[ENTRIES_MAX],
                         rota_attention_sm90_shares *s) {
    const uint32_t blocks = rota_attention_sm90_tiles(p->keys);
    for (uint32_t pair = 0; pair < s->group_pairs; pair++)
        for (uint32_t block = 0; block < blocks; block++) {
            const uint32_t *of_pair = began + (size_t)pair * blocks;
            const int64_t time = (int64_t)of_pair[block] - first_tile(p, block);
            uint32_t order = 0;
            for (uint32_t other = 0; other < blocks; other++) {
                const int64_t time_other = (int64_t)of_pair[other] - first_tile(p, other);
                order += time_other < time || (time_other == time && other < block);
            }
            s->order[pair * blocks + block] = (uint16_t)order;
        }
}

/* The most tiles of a pair that one of `each` blocks of threads has. */
static uint64_t most_of_pair(const rota_attention_backward_params *p, uint32_t each) {
    uint64_t tiles[EACH_MAX] = {0}, most = 0;
    for (uint32_t block = 0; block < rota_attention_sm90_tiles(p->keys); block++) {
        const uint32_t rest = block % each, share = block / each % 2 ? each - 1 - rest : rest;
        tiles[share] += tiles_seeing(p, block);
        if (tiles[share] > most) most = tiles[share];
    }
    return most;
}

/* Divides what is left of rounds of pairs for `each` blocks of threads, where that is faster. Returns the most tiles
 * that one has of all pairs. */
static uint64_t divide(const rota_attention_backward_params *p, uint32_t at_once, uint32_t each,
                       rota_attention_sm90_shares *out) {
    const uint64_t pairs = rota_attention_sm90_pairs(p), of_pair = most_of_pair(p, each);
    const uint32_t blocks = rota_attention_sm90_tiles(p->keys), rest = (uint32_t)(pairs % (at_once / each));
    uint64_t least = of_pair;
    uint8_t share_of[ENTRIES_MAX];
    memset(out, 0, sizeof *out);
    out->group_pairs = out->group_blocks = 1;
    out->each = each;
    for (uint32_t shares = 2; shares <= SHARES_MAX && shares <= at_once && rest > 0; shares++) {
        const uint32_t groups = at_once / shares, group_pairs = (rest + groups - 1) / groups;
        if ((uint64_t)group_pairs * blocks > ENTRIES_MAX) continue;
        const uint32_t most = deal(p, group_pairs, shares, share_of);
        if (most >= least) continue;
        least = most;
        out->divided = rest;
        out->group_pairs = group_pairs;
        out->group_blocks = shares;
    }
    return pairs / (at_once / each) * of_pair + (rest > 0 ? least : 0);
}

/* Blocks of threads; of a device that says nothing, one. */
static uint32_t at_once_of(const rota_cuda_target *target, uint32_t each) {
    const uint32_t at_once = target->multiprocessors / each * each;
    return at_once > 0 ? at_once : 1;
}

/* Two blocks of threads at a pair have half as much under way: what both read, and dq's sums. Worth it where that is
 * more than the cache holds, and nobody gets much more to do. On an H200 of 60 MB: 32 x 12 heads of 1024, causal, 389
 * us, so 374; 11 x 12, not causal, 264, so 218; but 32 x 12 of 512, half as much, 121, so 142. */
static bool two_may_be_faster(const rota_attention_backward_params *p, const rota_cuda_target *target) {
    const uint64_t pairs = rota_attention_sm90_pairs(p),
                   under_way = UINT64_C(2) * rota_attention_sm90_tiles(p->queries) * SUMS_BYTES;
    return target->multiprocessors >= 2 && pairs >= target->multiprocessors &&
           rota_attention_sm90_tiles(p->keys) >= 2 &&
           under_way * target->multiprocessors > target->l2_bytes &&
           pairs * rota_attention_sm90_tiles(p->queries) * SUMS_BYTES <= SUMS_OF_TWO_MAX;
}

uint32_t rota_attention_sm90_share_blocks(const rota_attention_backward_params *p,
                                          const rota_cuda_target *target,
                                          const rota_attention_sm90_shares *s) {
    const uint64_t pairs = rota_attention_sm90_pairs(p);
    const uint32_t at_once = at_once_of(target, s->each);
    if (pairs > s->divided) return pairs * s->each < at_once ? (uint32_t)pairs * s->each : at_once;
    return (s->divided + s->group_pairs - 1) / s->group_pairs * s->group_blocks;
}

uint64_t rota_attention_sm90_share_sums(const rota_attention_backward_params *p,
                                        const rota_cuda_target *target, const rota_attention_sm90_shares *s) {
    const uint64_t pairs = rota_attention_sm90_pairs(p), others = pairs - s->divided;
    const uint32_t at_once = at_once_of(target, s->each);
    return s->each > 1 || others < at_once ? pairs : s->divided + at_once;
}

void rota_attention_sm90_share(const rota_attention_backward_params *p, const rota_cuda_target *target,
                               rota_attention_sm90_shares *out) {
    const uint64_t most = divide(p, at_once_of(target, 1), 1, out);
    uint8_t share_of[ENTRIES_MAX];
    uint32_t began[ENTRIES_MAX];
    rota_attention_sm90_shares two;
    if (two_may_be_faster(p, target) && divide(p, at_once_of(target, 2), 2, &two) <= most + most / 16)
        *out = two;
    if (!out->divided) return;
    deal(p, out->group_pairs, out->group_blocks, share_of);
    list(p, share_of, out, began);
    put_in_order(p, began, out);
}
