/* The products of matmul_sm90.cuh: each tile, for f16 and bf16, for each way that a and b may lie in memory. */
#include "ops/kernel_params.h"
#include "ops/cuda/linear_sm90.cuh"
#include "ops/cuda/matmul_sm90.cuh"

#define PRODUCT(TYPE, BF16, LAYOUT, TRANSPOSE_A, TRANSPOSE_B, ROWS, COLUMNS, WARPGROUPS, STAGES, CLUSTER_M, CLUSTER_N, \
                STAGING)                                                                                               \
    ROTA_KERNEL_PREPARED(ROTA_MATMUL_SM90_NAME(TYPE, LAYOUT, ROWS, COLUMNS, STAGES, CLUSTER_M), 3, matmul_params,      \
                         matmul_prepared,                                                                              \
                         (matmul_tile<ROWS, COLUMNS, WARPGROUPS, STAGES, CLUSTER_M, CLUSTER_N, STAGING>::threads)) {   \
        using tile = matmul_tile<ROWS, COLUMNS, WARPGROUPS, STAGES, CLUSTER_M, CLUSTER_N, STAGING>;                    \
        matmul_sm90<tile, BF16, TRANSPOSE_A, TRANSPOSE_B>(args.params, prepared,                                       \
                                                          stored_by_map<tile, BF16>{&prepared.c});                     \
    }
#define LAYOUTS(TYPE, BF16, ...)                       \
    PRODUCT(TYPE, BF16, nn, false, false, __VA_ARGS__) \
    PRODUCT(TYPE, BF16, nt, false, true, __VA_ARGS__)  \
    PRODUCT(TYPE, BF16, tn, true, false, __VA_ARGS__)  \
    PRODUCT(TYPE, BF16, tt, true, true, __VA_ARGS__)
#define TILE(ROWS, COLUMNS, WARPGROUPS, STAGES, CLUSTER_M, CLUSTER_N, STAGING, GROUP)     \
    LAYOUTS(f16, false, ROWS, COLUMNS, WARPGROUPS, STAGES, CLUSTER_M, CLUSTER_N, STAGING) \
    LAYOUTS(bf16, true, ROWS, COLUMNS, WARPGROUPS, STAGES, CLUSTER_M, CLUSTER_N, STAGING)
ROTA_MATMUL_SM90_TILES(TILE)

#define LINEAR(WHAT, EPILOGUE, TYPE, BF16, LAYOUT, TRANSPOSE_B)                                        \
    ROTA_KERNEL_PREPARED(ROTA_LINEAR_SM90_NAME(WHAT, TYPE, LAYOUT), 3, matmul_params, linear_prepared, \
                         linear_tile::threads) {                                                       \
        linear_sm90<BF16, TRANSPOSE_B, EPILOGUE>(args, prepared);                                      \
    }
#define LINEARS(WHAT, EPILOGUE)                   \
    LINEAR(WHAT, EPILOGUE, f16, false, nn, false) \
    LINEAR(WHAT, EPILOGUE, f16, false, nt, true)  \
    LINEAR(WHAT, EPILOGUE, bf16, true, nn, false) \
    LINEAR(WHAT, EPILOGUE, bf16, true, nt, true)
LINEARS(gelu, gelu_epilogue)
LINEARS(gelu_gradient, gelu_gradient_epilogue)
