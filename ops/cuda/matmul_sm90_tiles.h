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

/* A kernel's name. `of`: matmul_sm90, or matmul_evened, whose results the threads store. */
#define ROTA_MATMUL_SM90_NAME(of, type, layout, rows, columns, stages, cluster)                              \
    of##_##type##_##layout##_##rows##x##columns##_##stages##_##cluster

/* A tile's names in the host's table [tile][type][layout]: f16, bf16; nn, nt, tn, tt. */
#define ROTA_MATMUL_SM90_NAMES(of, rows, columns, warpgroups, stages, cluster_m, cluster_n, staging, group)  \
    {                                                                                                        \
        ROTA_MATMUL_SM90_NAMES_OF(of, f16, rows, columns, stages, cluster_m),                                \
            ROTA_MATMUL_SM90_NAMES_OF(of, bf16, rows, columns, stages, cluster_m)                            \
    }
#define ROTA_MATMUL_SM90_NAMES_OF(of, type, ...)                                                             \
    {                                                                                                        \
        ROTA_MATMUL_SM90_TEXT(ROTA_MATMUL_SM90_NAME(of, type, nn, __VA_ARGS__)),                             \
            ROTA_MATMUL_SM90_TEXT(ROTA_MATMUL_SM90_NAME(of, type, nt, __VA_ARGS__)),                         \
            ROTA_MATMUL_SM90_TEXT(ROTA_MATMUL_SM90_NAME(of, type, tn, __VA_ARGS__)),                         \
            ROTA_MATMUL_SM90_TEXT(ROTA_MATMUL_SM90_NAME(of, type, tt, __VA_ARGS__))                          \
    }
#define ROTA_MATMUL_SM90_TEXT(name) ROTA_MATMUL_SM90_TEXT_OF(name)
#define ROTA_MATMUL_SM90_TEXT_OF(name) #name

#endif
