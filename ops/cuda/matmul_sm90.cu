/* The products of matmul_sm90.cuh: each tile, for f16 and bf16, for each way that a and b may lie in memory. */
#include "ops/kernel_params.h"
#include "ops/cuda/linear_sm90.cuh"
#include "ops/cuda/matmul_sm90.cuh"

#define TILE(...) MATMUL_SM90_KERNELS(matmul_sm90, stored_by_map, __VA_ARGS__)
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
