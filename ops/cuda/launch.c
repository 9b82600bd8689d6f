/* Blocks and threads of the built-in kernels on CUDA. */
#include "ops/cuda/launch.h"

#include "base/divide.h"
#include "ops/cuda/norm_groups.h"
#include "ops/cuda/shapes.h"
#include "ops/cuda/window_shapes.h"
#include "ops/scatter_pieces.h"

#define GRID_X_MAX INT32_MAX

/* The kernels' own names for what kernel_params.h leaves to tensor.h (common.cuh). */
_Static_assert(ROTA_F32 == 0 && ROTA_F16 == 1 && ROTA_BF16 == 2 && ROTA_F8_E4M3FN == 5 && ROTA_F8_E5M2 == 6,
               "DTYPE_ constants in ops/cuda/common.cuh");

rota_cuda_launch rota_cuda_fold(uint64_t blocks, uint32_t threads) {
    if (blocks == 0) blocks = 1;
    const uint64_t y = rota_divide_up(blocks, GRID_X_MAX);
    return (rota_cuda_launch){.groups = {(uint32_t)rota_divide_up(blocks, y), (uint32_t)y, 1},
                              .block = {threads, 1, 1}};
}

#define LAUNCH(name, type, blocks, threads)                                                                  \
    void rota_cuda_launch_##name(const void *params, const uint64_t *operand_bytes,                          \
                                 const rota_cuda_target *target, rota_cuda_launch *out_launch) {             \
        (void)operand_bytes;                                                                                 \
        (void)target;                                                                                        \
        const type *p = params;                                                                              \
        *out_launch = rota_cuda_fold((blocks), (threads));                                                   \
    }
#define ELEMENTS(name, type, count)                                                                          \
    LAUNCH(name, type, rota_divide_up((count), ROTA_CUDA_ELEMENTS), ROTA_CUDA_THREADS)
#define THREADS(name, type, count)                                                                           \
    LAUNCH(name, type, rota_divide_up((count), ROTA_CUDA_THREADS), ROTA_CUDA_THREADS)
#define ROWS(name, type, rows, n)                                                                            \
    LAUNCH(name, type, rota_cuda_row_blocks((rows), (n)), rota_cuda_row_threads(n))

ELEMENTS(unary, rota_unary_params, p->count)
ELEMENTS(unary_backward, rota_unary_params, p->count)
ELEMENTS(binary, rota_binary_params, p->count)
ELEMENTS(binary_backward, rota_binary_backward_params, p->count)
ELEMENTS(where, rota_where_params, p->count)
ELEMENTS(cast, rota_cast_params, p->count)
ELEMENTS(dropout, rota_dropout_params, p->count)
ELEMENTS(adamw, rota_adamw_params, p->count)
ELEMENTS(momentum, rota_momentum_params, p->count)
ELEMENTS(check_finite, rota_check_finite_params, p->count)

/* Blocks of a copy: of elements, or of transposed tiles. */
static uint64_t copy_blocks(const rota_copy_strided_params *p) {
    const int dim = rota_cuda_transposed_dim(p), last = ROTA_KERNEL_DIMS - 1;
    if (dim < 0) return rota_divide_up(p->count, ROTA_CUDA_ELEMENTS);
    const uint64_t matrix = (uint64_t)p->shape[dim] * p->shape[last];
    const rota_cuda_tile tile = rota_cuda_transposed_tile(p, dim);
    return p->count / matrix * rota_divide_up(p->shape[dim], tile.rows) *
           rota_divide_up(p->shape[last], tile.columns);
}
LAUNCH(copy_strided, rota_copy_strided_params, copy_blocks(p), ROTA_CUDA_THREADS)

static uint64_t reduce_blocks(const rota_reduce_params *p) {
    const uint64_t rows = p->outer * rota_divide_up(p->n, p->chunk);
    switch (rota_cuda_reduction_of(p)) {
    case ROTA_CUDA_REDUCE_EACH:
        return rota_divide_up(rows * p->inner, ROTA_CUDA_THREADS);
    case ROTA_CUDA_REDUCE_WARP:
        return rota_divide_up(rows, ROTA_CUDA_THREADS / 32);
    case ROTA_CUDA_REDUCE_COLUMN:
        return rows * rota_divide_up(p->inner, p->from == ROTA_F32 ? ROTA_CUDA_REDUCE_TILE
                                                                   : ROTA_CUDA_REDUCE_TILE_HALF);
    default:
        return rows;
    }
}
LAUNCH(reduce, rota_reduce_params, reduce_blocks(p),
       rota_cuda_reduction_of(p) == ROTA_CUDA_REDUCE_BLOCK ? ROTA_CUDA_ROW_THREADS : ROTA_CUDA_THREADS)
THREADS(max_backward, rota_max_backward_params, (uint64_t)p->outer * p->inner * (p->inner == 1 ? 32 : 1))
#define ONE_BLOCK(name, threads)                                                                             \
    void rota_cuda_launch_##name(const void *params, const uint64_t *operand_bytes,                          \
                                 const rota_cuda_target *target, rota_cuda_launch *out_launch) {             \
        (void)params, (void)operand_bytes, (void)target;                                                     \
        *out_launch = rota_cuda_fold(1, (threads));                                                          \
    }
ONE_BLOCK(global_norm, ROTA_CUDA_ROW_THREADS)
ONE_BLOCK(cross_entropy_mean, ROTA_CUDA_ROW_THREADS)
ONE_BLOCK(loss_scale, 32)

THREADS(copy_row, rota_copy_row_params, p->words)
THREADS(gather, rota_gather_params, (uint64_t)p->outer * p->m * p->inner)
THREADS(scatter_add, rota_gather_params, (uint64_t)p->outer *rota_scatter_pieces(p) * p->inner)
THREADS(one_hot, rota_one_hot_params, (uint64_t)p->rows * p->classes)
/* A warp per column of x; of what neighbours can read together, a thread. */
THREADS(top_k, rota_top_k_params, (uint64_t)p->outer * p->inner * 32)
THREADS(cumulative_sum, rota_cumulative_sum_params, (uint64_t)p->outer *(p->inner == 1 ? 32 : p->inner))
THREADS(variance, rota_variance_params, (uint64_t)p->outer *(p->inner == 1 ? 32 : p->inner))
THREADS(variance_backward, rota_variance_params, (uint64_t)p->outer * p->n * p->inner)

LAUNCH(nonzero_counts, rota_nonzero_params, rota_divide_up(p->n, p->chunk), ROTA_CUDA_THREADS)
LAUNCH(nonzero, rota_nonzero_params, rota_divide_up(p->n, p->chunk), ROTA_CUDA_THREADS)
LAUNCH(exclusive_sum, rota_exclusive_sum_params, p->rows, ROTA_CUDA_THREADS)
THREADS(select_rows, rota_select_rows_params, (uint64_t)p->rows * p->width)

THREADS(sort_keys, rota_sort_keys_params, p->n)
LAUNCH(sort_counts, rota_sort_params, p->rows *rota_divide_up(p->n, p->chunk), ROTA_CUDA_THREADS)
LAUNCH(sort, rota_sort_params, p->rows *rota_divide_up(p->n, p->chunk), ROTA_CUDA_THREADS)
LAUNCH(unique_counts, rota_unique_params, rota_divide_up(p->n, p->chunk), ROTA_CUDA_THREADS)
LAUNCH(unique, rota_unique_params, rota_divide_up(p->n, p->chunk), ROTA_CUDA_THREADS)
LAUNCH(top_p_sums, rota_top_p_params, p->rows *rota_divide_up(p->n, p->chunk), ROTA_CUDA_THREADS)
LAUNCH(top_p, rota_top_p_params, p->rows, ROTA_CUDA_THREADS)

LAUNCH(scaled_matmul, rota_scaled_matmul_params,
       rota_divide_up(p->m, ROTA_SCALED_TILE) * rota_divide_up(p->n, ROTA_SCALED_TILE), ROTA_CUDA_THREADS)

ELEMENTS(embedding, rota_embedding_params, (uint64_t)p->rows * p->dim)
LAUNCH(embedding_backward, rota_embedding_params, rota_cuda_embedding_blocks(p), ROTA_CUDA_THREADS)
THREADS(index_add, rota_index_add_params, p->rows)

ROWS(softmax, rota_softmax_params, p->rows, p->n)
ROWS(softmax_backward, rota_softmax_params, p->rows, p->n)
ROWS(causal_mask, rota_causal_mask_params, p->rows, p->n)
ROWS(cross_entropy, rota_cross_entropy_params, p->rows, p->pitch)
ROWS(cross_entropy_backward, rota_cross_entropy_params, p->rows, p->pitch)
THREADS(cross_entropy_join, rota_cross_entropy_join_params, p->rows)

static uint64_t batch_norm_threads(const rota_batch_norm_params *p) {
    return rota_divide_up((uint64_t)p->outer * p->inner, p->chunk) * p->channels * (p->inner == 1 ? 1 : 32);
}
THREADS(batch_norm_sums, rota_batch_norm_params, batch_norm_threads(p))
THREADS(batch_norm_moments, rota_batch_norm_params, batch_norm_threads(p))
LAUNCH(batch_norm_finish, rota_batch_norm_params, rota_divide_up(p->channels, ROTA_CUDA_FINISH_CHANNELS),
       ROTA_CUDA_FINISH_THREADS)
ELEMENTS(batch_norm, rota_batch_norm_params, (uint64_t)p->outer * p->channels * p->inner)
ELEMENTS(batch_norm_backward, rota_batch_norm_params, (uint64_t)p->outer * p->channels * p->inner)
/* conv.cu's tiles of a product: of each group, and of each chunk of a weight's gradient. */
static uint64_t conv_tiles(uint64_t rows, uint64_t columns) {
    return rota_divide_up(rows, ROTA_CONV_TILE) * rota_divide_up(columns, ROTA_CONV_TILE);
}
static uint64_t conv_windows(const rota_conv_params *p) {
    return (uint64_t)p->batch * p->out[0] * p->out[1];
}
static uint64_t conv_window(const rota_conv_params *p) {
    return (uint64_t)p->window[0] * p->window[1];
}
/* Of a result of few channels in a group, of short sums, a block's elements of each. */
static uint64_t conv_blocks(uint64_t rows, uint64_t columns, uint64_t depth) {
    return rows <= ROTA_CONV_FEW && depth <= ROTA_CONV_SHORT
               ? rows * rota_divide_up(columns, ROTA_CUDA_THREADS)
               : conv_tiles(rows, columns);
}
LAUNCH(conv2d, rota_conv_params,
       p->groups *conv_blocks(p->out_channels, conv_windows(p), p->in_channels *conv_window(p)),
       ROTA_CUDA_THREADS)
LAUNCH(conv2d_backward_input, rota_conv_params,
       p->groups *conv_blocks(p->in_channels, (uint64_t)p->batch * p->in[0] * p->in[1],
                              p->out_channels *conv_window(p)),
       ROTA_CUDA_THREADS)
LAUNCH(conv2d_backward_weight, rota_conv_params,
       rota_divide_up(conv_windows(p), p->chunk) * p->groups *
           conv_tiles(p->out_channels, p->in_channels *conv_window(p)),
       ROTA_CUDA_THREADS)
THREADS(max_pool, rota_pool_params,
        (uint64_t)p->planes * p->out[0] * p->out[1] * (p->channels / rota_cuda_pool_width(p)))
THREADS(avg_pool, rota_pool_params,
        (uint64_t)p->planes * p->out[0] * p->out[1] * (p->channels / rota_cuda_pool_width(p)))
THREADS(max_pool_backward, rota_pool_params,
        (uint64_t)p->planes * p->in[0] * p->in[1] * (p->channels / rota_cuda_pool_width(p)))
THREADS(avg_pool_backward, rota_pool_params,
        (uint64_t)p->planes * p->in[0] * p->in[1] * (p->channels / rota_cuda_pool_width(p)))
THREADS(rope, rota_rope_params, (uint64_t)p->rows *(p->dim - p->rotary / 2))

/* Pairs of rows that registers hold go to groups of warps in turns, of as many blocks as the device has room for. */
static rota_cuda_launch layernorm_launch(const rota_norm_params *p, const rota_cuda_target *target) {
    if (!rota_cuda_norm_by_vectors(p))
        return rota_cuda_fold(rota_cuda_row_blocks(p->rows, p->dim), rota_cuda_row_threads(p->dim));
    const uint64_t groups = ROTA_CUDA_NORM_THREADS / 32 / rota_cuda_norm_warps(p->dim);
    const uint64_t blocks = rota_divide_up(p->rows, 2 * groups);
    const uint64_t most = (uint64_t)ROTA_CUDA_NORM_GROUP_BLOCKS * (target ? target->multiprocessors : 0);
    return rota_cuda_fold(most && most < blocks ? most : blocks, ROTA_CUDA_NORM_THREADS);
}
void rota_cuda_launch_layernorm(const void *params, const uint64_t *operand_bytes,
                                const rota_cuda_target *target, rota_cuda_launch *out_launch) {
    (void)operand_bytes;
    *out_launch = layernorm_launch(params, target);
}
ROWS(residual_layernorm, rota_norm_params, p->rows, p->dim)
ROWS(layernorm_backward, rota_norm_params, p->rows, p->dim)
/* Columns of a thread, as norm.cu has it. */
static uint64_t norm_weight_threads(const rota_norm_params *p) {
    return rota_divide_up(p->rows, p->chunk) * p->dim / (p->dtype != ROTA_F32 && p->dim % 8 == 0 ? 8 : 1);
}
THREADS(layernorm_backward_weight, rota_norm_params, norm_weight_threads(p))
ROWS(rmsnorm, rota_norm_params, p->rows, p->dim)
ROWS(rmsnorm_backward, rota_norm_params, p->rows, p->dim)
THREADS(rmsnorm_backward_weight, rota_norm_params, norm_weight_threads(p))
LAUNCH(linear_gelu_gradient, rota_linear_params,
       rota_divide_up(p->m, p->chunk) * rota_divide_up(p->n, ROTA_CUDA_REDUCE_TILE_HALF), ROTA_CUDA_THREADS)
LAUNCH(layernorm_gradient, rota_norm_params, rota_divide_up(p->rows, p->chunk), ROTA_CUDA_NORM_THREADS)
LAUNCH(rmsnorm_gradient, rota_norm_params, rota_divide_up(p->rows, p->chunk), ROTA_CUDA_NORM_THREADS)
