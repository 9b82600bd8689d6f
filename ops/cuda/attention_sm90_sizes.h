/* Numbers that the Hopper kernels of attention's gradient (attention_sm90.cuh) and their host agree on. C and CUDA
 * C. Internal; not installed. */
#ifndef ROTA_OPS_CUDA_ATTENTION_SM90_SIZES_H
#define ROTA_OPS_CUDA_ATTENTION_SM90_SIZES_H

#include <stdint.h>

#define ROTA_ATTENTION_SM90_DIM 64    /* columns, at most */
#define ROTA_ATTENTION_SM90_BLOCK 128 /* keys that a block owns at a time, and queries of a tile */
#define ROTA_ATTENTION_SM90_PREPARED_BYTES (7 * 128 + 64 + 2 * 1024)

#define ROTA_ATTENTION_SM90_THREADS 384
#define ROTA_ATTENTION_SM90_ROW_THREADS 256 /* of what goes before */

/* Of a tile [128, 64] of 16-bit floats; of floats; of {lse, delta} of its queries. */
#define ROTA_ATTENTION_SM90_TILE_BYTES (ROTA_ATTENTION_SM90_BLOCK * ROTA_ATTENTION_SM90_DIM * 2)
#define ROTA_ATTENTION_SM90_SUMS_BYTES (2 * ROTA_ATTENTION_SM90_TILE_BYTES)
#define ROTA_ATTENTION_SM90_STATS_BYTES (2 * 4 * ROTA_ATTENTION_SM90_BLOCK)

/* How the work is divided (attention_sm90_shares.c). Of the pairs of batch and head the first are divided: a group of
 * them, key block by key block, among as many blocks of threads as a group has. The others go to `each` blocks of
 * threads, 1 or 2. */
#define ROTA_ATTENTION_SM90_SHARES_MAX 16
#define ROTA_ATTENTION_SM90_ENTRIES_MAX 512
typedef struct rota_attention_sm90_shares {
    uint32_t divided, group_pairs, group_blocks, each;
    /* Of each share's entries, which it takes in their order. */
    uint16_t begin[ROTA_ATTENTION_SM90_SHARES_MAX + 1], unused[7];
    /* Pair of the group * key blocks of a pair + key block. */
    uint16_t entry[ROTA_ATTENTION_SM90_ENTRIES_MAX];
    /* By pair of the group and key block: its place among those that add to dq. */
    uint16_t order[ROTA_ATTENTION_SM90_ENTRIES_MAX];
} rota_attention_sm90_shares;

/* Dynamic shared memory, which begins at a multiple of 1024: two each of k and v, q and dout, and ds (128 x 128);
 * dq's sums; the stats; what tiles are; barriers. */
#define ROTA_ATTENTION_SM90_SHARED                                                                           \
    (12 * ROTA_ATTENTION_SM90_TILE_BYTES + ROTA_ATTENTION_SM90_SUMS_BYTES +                                  \
     2 * ROTA_ATTENTION_SM90_STATS_BYTES + 2 * 16 + 18 * 8)

#endif
