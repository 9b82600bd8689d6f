/* The products of matmul_shares_sm90.cuh: each tile, for f16 and bf16, for each way that a and b may lie in memory. */
#include "ops/kernel_params.h"
#include "ops/cuda/matmul_shares_sm90.cuh"

#define PRODUCT(TYPE, BF16, LAYOUT, TRANSPOSE_A, TRANSPOSE_B, ROWS, COLUMNS, WARPGROUPS, STAGES, CLUSTER_M,  \
                CLUSTER_N, STAGING)                                                                          \
    ROTA_KERNEL_PREPARED(                                                                                    \
        ROTA_MATMUL_SHARES_SM90_NAME(TYPE, LAYOUT, ROWS, COLUMNS), 3, matmul_params, matmul_prepared,        \
        (matmul_tile<ROWS, COLUMNS, WARPGROUPS, STAGES, CLUSTER_M, CLUSTER_N, STAGING>::threads)) {          \
        matmul_shares_sm90<matmul_tile<ROWS, COLUMNS, WARPGROUPS, STAGES, CLUSTER_M, CLUSTER_N, STAGING>,    \
                           BF16, TRANSPOSE_A, TRANSPOSE_B>(args.params, prepared);                           \
    }
#define LAYOUTS(TYPE, BF16, ...)                                                                             \
    PRODUCT(TYPE, BF16, nn, false, false, __VA_ARGS__)                                                       \
    PRODUCT(TYPE, BF16, nt, false, true, __VA_ARGS__)                                                        \
    PRODUCT(TYPE, BF16, tn, true, false, __VA_ARGS__)                                                        \
    PRODUCT(TYPE, BF16, tt, true, true, __VA_ARGS__)
#define TILE(ROWS, COLUMNS, WARPGROUPS, STAGES, CLUSTER_M, CLUSTER_N, STAGING, GROUP)                        \
    LAYOUTS(f16, false, ROWS, COLUMNS, WARPGROUPS, STAGES, CLUSTER_M, CLUSTER_N, STAGING)                    \
    LAYOUTS(bf16, true, ROWS, COLUMNS, WARPGROUPS, STAGES, CLUSTER_M, CLUSTER_N, STAGING)
ROTA_MATMUL_SM90_SHARED_TILES(TILE)
