/* Which stretches of which tiles a block adds up of a product in shares (matmul_shares_sm90.cuh says how they are
 * divided). C, for the host's tests, and CUDA C. Internal; not installed. */
#ifndef ROTA_OPS_CUDA_MATMUL_SHARES_WALK_H
#define ROTA_OPS_CUDA_MATMUL_SHARES_WALK_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define ROTA_SHARES_FUNCTION static __device__ __forceinline__
#else
#define ROTA_SHARES_FUNCTION static inline
#endif

typedef struct rota_matmul_shares_walk {
    uint32_t block, blocks;
    uint32_t whole, shared; /* tiles: those before, and those that are divided along the sum */
    uint32_t
        helpers; /* the first blocks; then, for each stretch but the first, and last for that, a block a tile */
    uint32_t own, levels;    /* stages of a stretch, stretches of a tile */
    uint32_t others;         /* stages of a shared tile after those: the helpers' */
    uint32_t steps_whole;    /* stages of a tile */
    uint32_t next;           /* whole tile */
    uint32_t line, line_end; /* a helper's part of the line that has each shared tile's others */
    uint32_t level, mine;    /* of a block that is no helper: its stretch, of which shared tile */
    bool shares;             /* that is still to come */
    /* What is at hand. */
    uint32_t number, first, steps; /* the tile, the stages of its sum */
    uint32_t part;                 /* where its sums go, where it `gives` them */
    bool gives, fetches;           /* its sums are a part for the owner; parts are to be added to them */
} rota_matmul_shares_walk;

/* Where a helper's part of the line begins; the last one's end is helper `helpers`' beginning. */
ROTA_SHARES_FUNCTION uint32_t rota_matmul_shares_start(const rota_matmul_shares_walk *w, uint32_t helper) {
    return (uint32_t)((uint64_t)helper * w->shared * w->others / w->helpers);
}

/* steps: stages of a whole tile. */
ROTA_SHARES_FUNCTION void rota_matmul_shares_begin(rota_matmul_shares_walk *w, uint32_t tiles, uint32_t steps,
                                                   uint32_t own, uint32_t block, uint32_t blocks) {
    w->block = w->next = block;
    w->blocks = blocks;
    w->shared = tiles % blocks;
    w->whole = tiles - w->shared;
    w->levels = blocks / w->shared;
    w->helpers = blocks - w->levels * w->shared;
    w->own = own;
    w->others = steps > w->levels * own ? steps - w->levels * own : 0;
    w->steps_whole = steps;
    w->shares = block >= w->helpers;
    w->line = w->line_end = w->level = w->mine = 0;
    if (w->shares) {
        w->level = w->levels - 1 - (block - w->helpers) / w->shared;
        w->mine = (block - w->helpers) % w->shared;
    } else {
        w->line = rota_matmul_shares_start(w, block);
        w->line_end = rota_matmul_shares_start(w, block + 1);
    }
}

/* The stretch of a block that is no helper. */
ROTA_SHARES_FUNCTION void rota_matmul_shares_open(rota_matmul_shares_walk *w) {
    const uint32_t left = w->steps_whole - w->level * w->own;
    w->shares = false;
    w->number = w->whole + w->mine;
    w->first = w->level * w->own;
    w->steps = left < w->own ? left : w->own;
}

/* False: there is no more. */
ROTA_SHARES_FUNCTION bool rota_matmul_shares_next(rota_matmul_shares_walk *w) {
    w->gives = w->fetches = false;
    if (w->line < w->line_end) {
        const uint32_t of = w->line / w->others, within = w->line - of * w->others;
        const uint32_t left = w->line_end - w->line, rest = w->others - within;
        w->number = w->whole + of;
        w->first = w->levels * w->own + within;
        w->steps = rest < left ? rest : left;
        /* Both numbers grow along the line: no two parts have the same sum of them. */
        w->part = (w->levels - 1) * w->shared + w->block + of;
        w->line += w->steps;
        return w->gives = true;
    }
    if (w->shares && w->level > 0) {
        rota_matmul_shares_open(w);
        w->part = (w->level - 1) * w->shared + w->mine;
        return w->gives = true;
    }
    if (w->next < w->whole) {
        w->number = w->next;
        w->first = 0;
        w->steps = w->steps_whole;
        w->next += w->blocks;
        return true;
    }
    if (!w->shares) return false;
    rota_matmul_shares_open(w);
    return w->fetches = true;
}

/* The parts of an owner's tile in the order of the sum: so many. */
ROTA_SHARES_FUNCTION uint32_t rota_matmul_shares_parts(const rota_matmul_shares_walk *w,
                                                       uint32_t *out_helper) {
    uint32_t count = w->levels - 1;
    *out_helper = 0;
    if (w->helpers == 0) return count;
    const uint32_t begin = w->mine * w->others, end = begin + w->others;
    uint32_t helper = (uint32_t)((uint64_t)w->mine * w->helpers / w->shared); /* begins there or before */
    while (rota_matmul_shares_start(w, helper + 1) <= begin) helper++;
    *out_helper = helper;
    for (; helper < w->helpers && rota_matmul_shares_start(w, helper) < end; helper++) count++;
    return count;
}

/* The i-th of them, where the first helper's is known. */
ROTA_SHARES_FUNCTION uint32_t rota_matmul_shares_part(const rota_matmul_shares_walk *w, uint32_t helper,
                                                      uint32_t i) {
    const uint32_t levels = w->levels - 1;
    return i < levels ? i * w->shared + w->mine : levels * w->shared + helper + w->mine + (i - levels);
}

#endif
