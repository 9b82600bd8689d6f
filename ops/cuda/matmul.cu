/* CUDA kernel: matmul, f32. Three tiles: 128 x 128 with the most arithmetic for each value read, 64 x 64 where those
 * would leave multiprocessors idle, 32 x 32 where these would. ops/cuda/matmul_tiles.c chooses. */
#include "ops/cuda/matmul.cuh"

extern __shared__ float4 shared_vectors[];

#define TILE(name, tile, blocks)                                                                             \
    ROTA_KERNEL_BLOCKS(name, 3, rota_matmul_params, tile::THREADS, blocks) {                                 \
        matmul_by<tile, float>(args, reinterpret_cast<float *>(shared_vectors));                       \
    }

using large = simt_tile<float, 128, 128, 8, 8, 8>;
using small = simt_tile<float, 64, 64, 16, 4, 4>;
using fine = simt_tile<float, 32, 32, 32, 2, 2>;
TILE(matmul_large, large, 2)
TILE(matmul, small, 3)
TILE(matmul_fine, fine, 4)
static_assert(large::SHARED_BYTES == ROTA_CUDA_MATMUL_LARGE_SHARED &&
                  small::SHARED_BYTES == ROTA_CUDA_MATMUL_SMALL_SHARED &&
                  fine::SHARED_BYTES == ROTA_CUDA_MATMUL_FINE_SHARED,
              "ops/cuda/shapes.h says how much shared memory a tile has");
