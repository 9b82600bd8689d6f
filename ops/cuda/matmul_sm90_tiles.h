/* The tiles that the Hopper products are compiled with, and the numbers that host and kernel must agree on. C
 * and CUDA C. Internal; not installed. */
#ifndef ROTA_OPS_CUDA_MATMUL_SM90_TILES_H
#define ROTA_OPS_CUDA_MATMUL_SM90_TILES_H

/* X(rows, columns, warpgroups, stages, cluster_m, cluster_n, staging, group): a block's tile; the warpgroups
 * that multiply; stages of 64 along the sum in shared memory; blocks of a cluster along rows and columns,
 * which load for one another; pieces of results on their way out, for each warpgroup; rows of (clusters')
 * tiles that are walked together.
 *
 * Which is fastest depends on how evenly its tiles fill the multiprocessors, and is measured (matmul_tune.c).
 * On an H200 each of them is the fastest somewhere: docs/measurements.md. */
#define ROTA_MATMUL_SM90_TILES(X)                                                                            \
    X(128, 256, 2, 4, 1, 1, 2, 8)                                                                            \
    X(128, 256, 2, 4, 2, 1, 2, 4)                                                                            \
    X(192, 192, 3, 4, 1, 1, 1, 8)                                                                            \
    X(128, 192, 2, 4, 2, 1, 3, 4)                                                                            \
    X(128, 192, 2, 5, 1, 1, 1, 8)                                                                            \
    X(128, 128, 2, 6, 1, 1, 2, 8)

/* The same, of products whose last round is divided along the sum (matmul_shares_sm90.cuh). */
#define ROTA_MATMUL_SM90_SHARED_TILES(X)                                                                     \
    X(128, 128, 2, 6, 1, 1, 2, 8)                                                                            \
    X(128, 256, 2, 4, 1, 1, 2, 8)
/* The words that say which parts are there: rows of them in the image, a row's words. */
#define ROTA_MATMUL_SHARES_ROWS 1024
#define ROTA_MATMUL_SHARES_WORDS 512

#define ROTA_MATMUL_SM90_STEP 64 /* elements along the sum in one stage */
#define ROTA_MATMUL_SM90_PIECE                                                                               \
    64 /* elements along the other axis in one box of an operand that is contiguous there */
#define ROTA_MATMUL_SM90_PREPARED_BYTES (3 * 128 + 64)

/* Dynamic shared memory: up to 1024 bytes of alignment, the stages, the pieces of results, two barriers a
 * stage. */
#define ROTA_MATMUL_SM90_SHARED(rows, columns, warpgroups, stages, staging)                                  \
    (1024 + (stages) * ((rows) + (columns)) * ROTA_MATMUL_SM90_STEP * 2 +                                    \
     (warpgroups) * (staging)*ROTA_MATMUL_SM90_PIECE * ROTA_MATMUL_SM90_STEP * 2 + 2 * (stages)*8)

/* Products with what follows them (linear_sm90.cuh): a tile of each of two warpgroups in turns, of which all four
 * pieces are in shared memory; half of its columns' sums, and a barrier for each warpgroup. */
#define ROTA_LINEAR_SM90_ROWS 128
#define ROTA_LINEAR_SM90_COLUMNS 128
#define ROTA_LINEAR_SM90_STAGES 5
#define ROTA_LINEAR_SM90_CLUSTER 2
#define ROTA_LINEAR_SM90_PREPARED_BYTES (4 * 128 + 64)
#define ROTA_LINEAR_SM90_SHARED                                                                              \
    (ROTA_MATMUL_SM90_SHARED(ROTA_LINEAR_SM90_ROWS, ROTA_LINEAR_SM90_COLUMNS, 2, ROTA_LINEAR_SM90_STAGES,    \
                             4) +                                                                            \
     2 * 8 + 2 * 4 * ROTA_LINEAR_SM90_COLUMNS)
#define ROTA_LINEAR_SM90_NAME(what, type, layout) linear_sm90_##what##_##type##_##layout

/* The kernels' names, and their order in the host's table: by type, layout, tile. */
#define ROTA_MATMUL_SM90_NAME(type, layout, rows, columns, stages, cluster)                                  \
    matmul_sm90_##type##_##layout##_##rows##x##columns##_##stages##_##cluster
#define ROTA_MATMUL_SHARES_SM90_NAME(type, layout, rows, columns)                                            \
    matmul_shares_sm90_##type##_##layout##_##rows##x##columns

#endif
