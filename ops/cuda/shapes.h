/* How the built-in CUDA kernels cut their work: what host (ops/cuda/launch.c) and kernels must agree about.
 * All of it follows from the parameters alone, since it decides the order of sums. C and CUDA C++. */
#ifndef ROTA_OPS_CUDA_SHAPES_H
#define ROTA_OPS_CUDA_SHAPES_H

#include <stdbool.h>
#include <stdint.h>
#include "ops/kernel_params.h"

#ifdef __CUDACC__
#define ROTA_SHAPE_FN static __host__ __device__ __forceinline__
#else
#define ROTA_SHAPE_FN static inline __attribute__((unused))
#endif

enum {
    ROTA_CUDA_THREADS = 256,
    /* Elements of a block of an elementwise kernel: two vectors of four a thread, so that two loads of each
     * operand are in flight. */
    ROTA_CUDA_ELEMENTS = 2048,
    /* Blocks of layernorm that fit on a multiprocessor. */
    ROTA_CUDA_NORM_BLOCKS = 3,
    /* A row up to this length is a warp's, a longer one a block's of so many threads. */
    ROTA_CUDA_WARP_ROW = 1024,
    ROTA_CUDA_ROW_THREADS = 256,
    /* ... of a loss with its gradient in its place: two blocks a multiprocessor. */
    ROTA_CUDA_LOSS_THREADS = 512,
    /* Columns of a block of a reduction along columns: of f32, and of 16 bits. */
    ROTA_CUDA_REDUCE_TILE = 32,
    ROTA_CUDA_REDUCE_TILE_HALF = 256,
    /* Channels and threads of a block of batch_norm_finish. */
    ROTA_CUDA_FINISH_CHANNELS = 8,
    ROTA_CUDA_FINISH_THREADS = 1024,
    /* Side of the tiles through which transposing copies go. */
    ROTA_CUDA_TRANSPOSE_TILE = 32,
    /* Matmul of f32: shared memory of the tiles of 128 x 128, 64 x 64 and 32 x 32. */
    ROTA_CUDA_MATMUL_LARGE_SHARED = 2 * 8 * (132 + 132) * 4,
    ROTA_CUDA_MATMUL_SMALL_SHARED = 2 * 16 * (68 + 68) * 4,
    ROTA_CUDA_MATMUL_FINE_SHARED = 2 * 32 * (36 + 36) * 4,
    /* ... of 16-bit floats with matrix units, 128 x 128 and 64 x 64; and their threads, which without are
       ROTA_CUDA_THREADS. */
    ROTA_CUDA_MATMUL_HALF_LARGE_SHARED = 3 * (128 + 128) * 32 * 2,
    ROTA_CUDA_MATMUL_HALF_SMALL_SHARED = 4 * (64 + 64) * 32 * 2,
    ROTA_CUDA_MATMUL_HALF_THREADS = 128,
    /* ... on Hopper, within what a launch on Vulkan may ask for (matmul_bounded.cu): every tile's. */
    ROTA_CUDA_MATMUL_BOUNDED_SHARED = 43 * 1024,
    /* Classes of a block of embedding_backward, at most. */
    ROTA_CUDA_EMBEDDING_CLASSES = 64,
    /* ... or rows, where it has some of the rows, and the most rows for that: each block looks at all of them. */
    ROTA_CUDA_EMBEDDING_ROWS = 4,
    ROTA_CUDA_EMBEDDING_ROWS_MOST = 8192,
    /* Queries, or keys, of a block of attention, and its threads. */
    ROTA_CUDA_ATTENTION_ROWS = 64,
    ROTA_CUDA_ATTENTION_THREADS = 128,
};

/* Attention of 16-bit floats, dim up to 64 or 128 (attention_half.cu): queries of a block, lanes its
 * gradients walk over at a time, shared memory. */
#define ROTA_CUDA_ATTENTION_HALF_ROWS(dim) ((dim) == 64 ? 128u : 64u)
#define ROTA_CUDA_ATTENTION_HALF_LANES(dim) ((dim) == 64 ? 64u : 32u)
#define ROTA_CUDA_ATTENTION_HALF_SHARED(dim) ((ROTA_CUDA_ATTENTION_HALF_ROWS(dim) + 4u * 64u) * (dim)*2u)
#define ROTA_CUDA_ATTENTION_HALF_BACKWARD_SHARED(dim)                                                        \
    ((2u * 64u + 4u * ROTA_CUDA_ATTENTION_HALF_LANES(dim)) * (dim)*2u +                                      \
     2u * ROTA_CUDA_ATTENTION_HALF_LANES(dim) * 8u)

/* Blocks for `rows` rows of n elements, and the threads of each. */
ROTA_SHAPE_FN uint64_t rota_cuda_row_blocks(uint64_t rows, uint64_t n) {
    const uint64_t rows_of_block = ROTA_CUDA_THREADS / 32;
    return n <= ROTA_CUDA_WARP_ROW ? (rows + rows_of_block - 1) / rows_of_block : rows;
}
ROTA_SHAPE_FN uint32_t rota_cuda_row_threads(uint64_t n) {
    return n <= ROTA_CUDA_WARP_ROW ? ROTA_CUDA_THREADS : ROTA_CUDA_ROW_THREADS;
}

/* Norms: whether 16-bit rows are whole vectors of 16 bytes that a warp's registers hold. */
ROTA_SHAPE_FN bool rota_cuda_norm_by_vectors(const rota_norm_params *p) {
    return p->dtype != 0 && p->dim <= ROTA_CUDA_WARP_ROW && p->dim % 8 == 0;
}

/* The dimension along which x is contiguous, where y is contiguous along the innermost and a transposing copy
 * pays; -1 elsewhere. */
ROTA_SHAPE_FN int rota_cuda_transposed_dim(const rota_copy_strided_params *p) {
    const int last = ROTA_KERNEL_DIMS - 1;
    if (p->y_stride[last] != 1 || p->x_stride[last] <= 1 || p->shape[last] < 2) return -1;
    for (int d = last - 1; d >= 0; d--)
        if (p->x_stride[d] == 1 && p->shape[d] >= 2) return p->shape[d] >= 8 || p->shape[last] >= 8 ? d : -1;
    return -1;
}

/* A block's tile along that dimension (rows) and the innermost (columns): a square, or, of a narrow matrix, all of its
 * width and as much of its length as a square has elements. */
typedef struct rota_cuda_tile {
    uint32_t rows, columns;
} rota_cuda_tile;

ROTA_SHAPE_FN rota_cuda_tile rota_cuda_transposed_tile(const rota_copy_strided_params *p, int dim) {
    const uint32_t side = ROTA_CUDA_TRANSPOSE_TILE,
                   area = ROTA_CUDA_TRANSPOSE_TILE * ROTA_CUDA_TRANSPOSE_TILE;
    const uint32_t rows = p->shape[dim], columns = p->shape[ROTA_KERNEL_DIMS - 1];
    rota_cuda_tile tile = {side, side};
    if (rows <= side / 2 && rows <= columns) {
        tile.rows = rows;
        tile.columns = area / rows / side * side;
    } else if (columns <= side / 2) {
        tile.columns = columns;
        tile.rows = area / columns / side * side;
    }
    return tile;
}

/* reduce: which threads share a result. */
typedef enum rota_cuda_reduction {
    ROTA_CUDA_REDUCE_EACH,   /* a thread has a result of its own */
    ROTA_CUDA_REDUCE_WARP,   /* inner 1, short chunks */
    ROTA_CUDA_REDUCE_BLOCK,  /* inner 1, long chunks */
    ROTA_CUDA_REDUCE_COLUMN, /* a tile of columns a block, the rows of a chunk dealt to its 8 warps */
    ROTA_CUDA_REDUCE_NARROW  /* few columns: a block reads a whole chunk as it lies */
} rota_cuda_reduction;

ROTA_SHAPE_FN rota_cuda_reduction rota_cuda_reduction_of(const rota_reduce_params *p) {
    const uint32_t length = p->chunk < p->n ? p->chunk : p->n;
    if (p->inner == 1)
        return length < 16                    ? ROTA_CUDA_REDUCE_EACH
               : length <= ROTA_CUDA_WARP_ROW ? ROTA_CUDA_REDUCE_WARP
                                              : ROTA_CUDA_REDUCE_BLOCK;
    if (length < 16) return ROTA_CUDA_REDUCE_EACH;
    return p->inner < 32 ? ROTA_CUDA_REDUCE_NARROW : ROTA_CUDA_REDUCE_COLUMN;
}

/* embedding_backward: a block has every 2^shift-th class (several only where there are many); it has the columns
 * of a warp, each lane a vector of 16 bytes where rows are made of whole ones, else an element. Or, where few rows
 * are added to a large table, it has some of the rows, and as many columns as a row's share of its threads. */
ROTA_SHAPE_FN bool rota_cuda_embedding_by_rows(const rota_embedding_params *p) {
    return p->accumulate && p->rows <= ROTA_CUDA_EMBEDDING_ROWS_MOST && p->rows <= p->classes;
}
ROTA_SHAPE_FN uint32_t rota_cuda_embedding_shift(uint32_t classes) {
    uint32_t shift = 8;
    while (((uint64_t)ROTA_CUDA_EMBEDDING_CLASSES << shift) < classes) shift++;
    return shift;
}
ROTA_SHAPE_FN uint64_t rota_cuda_embedding_blocks(const rota_embedding_params *p) {
    const bool by_rows = rota_cuda_embedding_by_rows(p);
    const uint32_t vector = p->dtype == 0 ? 4 : 8,
                   lanes = by_rows ? ROTA_CUDA_THREADS / ROTA_CUDA_EMBEDDING_ROWS : 32,
                   columns = lanes * (p->dim % vector == 0 ? vector : 1);
    const uint64_t parts = ((uint64_t)p->dim + columns - 1) / columns;
    if (by_rows) return ((uint64_t)p->rows + ROTA_CUDA_EMBEDDING_ROWS - 1) / ROTA_CUDA_EMBEDDING_ROWS * parts;
    const uint64_t groups = (uint64_t)1 << rota_cuda_embedding_shift(p->classes);
    return (groups < p->classes ? groups : p->classes) * parts;
}

#endif
