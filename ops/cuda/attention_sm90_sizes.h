/* Numbers that the Hopper kernels of attention's gradient (attention_sm90.cuh) and their host agree on. C and CUDA
 * C. Internal; not installed. */
#ifndef ROTA_OPS_CUDA_ATTENTION_SM90_SIZES_H
#define ROTA_OPS_CUDA_ATTENTION_SM90_SIZES_H

#define ROTA_ATTENTION_SM90_DIM 64    /* columns, at most */
#define ROTA_ATTENTION_SM90_BLOCK 128 /* keys that a block owns at a time, and queries of a tile */
#define ROTA_ATTENTION_SM90_PREPARED_BYTES (7 * 128 + 64)

#define ROTA_ATTENTION_SM90_THREADS 384
#define ROTA_ATTENTION_SM90_ROW_THREADS 256 /* of what goes before and after */

/* Of a tile [128, 64] of 16-bit floats; of floats; of {lse, delta} of its queries. */
#define ROTA_ATTENTION_SM90_TILE_BYTES (ROTA_ATTENTION_SM90_BLOCK * ROTA_ATTENTION_SM90_DIM * 2)
#define ROTA_ATTENTION_SM90_SUMS_BYTES (2 * ROTA_ATTENTION_SM90_TILE_BYTES)
#define ROTA_ATTENTION_SM90_STATS_BYTES (2 * 4 * ROTA_ATTENTION_SM90_BLOCK)

/* Dynamic shared memory, which begins at a multiple of 1024: two each of k and v, q and dout, and ds (128 x 128);
 * dq's sums; the stats; barriers. */
#define ROTA_ATTENTION_SM90_SHARED                                                                           \
    (12 * ROTA_ATTENTION_SM90_TILE_BYTES + ROTA_ATTENTION_SM90_SUMS_BYTES +                                  \
     2 * ROTA_ATTENTION_SM90_STATS_BYTES + 14 * 8)

#endif
