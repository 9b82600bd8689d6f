/* Workgroup counts and specialization constants of the built-in kernels' shaders. */
#include "base/divide.h"
#include "ops/scatter_pieces.h"
#include "ops/vk/dispatch.h"

#define GROUPS_X_MAX 65535u
#define ELEMENTWISE_GROUP 256u /* local_size_x of the elementwise shaders */
#define ELEMENTS_OF_FOUR 1024u /* ... of those that do four elements an invocation */
#define ATTENTION_ROWS 8u      /* attention.glsl: ROWS */
#define EMBEDDING_CLASSES 32u  /* embedding_backward.comp: CLASSES */
#define SMALL_GROUP 64u
#define LARGE_GROUP 256u

void rota_vk_fold(uint64_t groups, uint32_t out_groups[3]) {
    if (groups == 0) groups = 1;
    const uint64_t y = rota_divide_up(groups, GROUPS_X_MAX);
    out_groups[0] = (uint32_t)rota_divide_up(groups, y);
    out_groups[1] = (uint32_t)y;
    out_groups[2] = 1;
}

/* Invocations that share a row of n: few for short rows, so that most of them have work. By the parameters
 * alone, since it decides the order of sums. */
static uint32_t group_for_row(uint64_t n) {
    return n <= 512 ? SMALL_GROUP : LARGE_GROUP;
}

/* Innermost dimensions in use: those in front are padding of extent 1. */
static uint32_t dims_in_use(const uint32_t shape[ROTA_KERNEL_DIMS]) {
    uint32_t first = 0;
    while (first < ROTA_KERNEL_DIMS - 1 && shape[first] == 1) first++;
    return ROTA_KERNEL_DIMS - first;
}

#define GRID(name, type, groups)                                                                             \
    void rota_vk_grid_##name(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {    \
        (void)operand_bytes;                                                                                 \
        const type *p = params;                                                                              \
        rota_vk_fold((groups), out_groups);                                                                  \
    }

GRID(unary, rota_unary_params, rota_divide_up(p->count, ELEMENTS_OF_FOUR))
void rota_vk_spec_unary(const void *params, uint32_t *out_values) {
    const rota_unary_params *p = params;
    out_values[0] = p->op;
    out_values[1] = p->dtype;
}

static bool binary_is_plain(const rota_binary_params *p) {
    return dims_in_use(p->shape) == 1 && (p->b_stride[ROTA_KERNEL_DIMS - 1] == 1 || p->count == 1);
}
/* b is a row that all rows of a add, in groups of four. */
static bool binary_is_by_rows(const rota_binary_params *p) {
    const uint32_t last = ROTA_KERNEL_DIMS - 1;
    return dims_in_use(p->shape) == 2 && p->b_stride[last - 1] == 0 && p->b_stride[last] == 1 &&
           p->shape[last] % 4 == 0;
}
GRID(binary, rota_binary_params,
     rota_divide_up(p->count,
                    binary_is_plain(p) || binary_is_by_rows(p) ? ELEMENTS_OF_FOUR : ELEMENTWISE_GROUP))
void rota_vk_spec_binary(const void *params, uint32_t *out_values) {
    const rota_binary_params *p = params;
    out_values[0] = p->op;
    out_values[1] = binary_is_plain(p)     ? 0
                    : binary_is_by_rows(p) ? ROTA_KERNEL_DIMS + 1
                                           : dims_in_use(p->shape);
    out_values[2] = p->dtype;
}

GRID(binary_backward, rota_binary_backward_params, rota_divide_up(p->count, ELEMENTWISE_GROUP))
void rota_vk_spec_binary_backward(const void *params, uint32_t *out_values) {
    const rota_binary_backward_params *p = params;
    out_values[0] = p->op;
    out_values[1] = dims_in_use(p->shape);
    out_values[2] = p->dtype;
}

GRID(where, rota_where_params, rota_divide_up(p->count, ELEMENTWISE_GROUP))
void rota_vk_spec_where(const void *params, uint32_t *out_values) {
    const rota_where_params *p = params;
    out_values[0] = p->flags;
    out_values[1] = dims_in_use(p->shape);
    out_values[2] = p->dtype;
}

GRID(copy_strided, rota_copy_strided_params, rota_divide_up(p->count, ELEMENTWISE_GROUP))
void rota_vk_spec_copy_strided(const void *params, uint32_t *out_values) {
    const rota_copy_strided_params *p = params;
    out_values[0] = p->flags;
    out_values[1] = dims_in_use(p->shape);
    out_values[2] = p->dtype;
}

GRID(cast, rota_cast_params, rota_divide_up(p->count, ELEMENTS_OF_FOUR))
void rota_vk_spec_cast(const void *params, uint32_t *out_values) {
    const rota_cast_params *p = params;
    out_values[0] = p->from;
    out_values[1] = p->to;
}

/* An invocation per result where neighbours read neighbouring columns, or where there is little to add up. */
static bool reduce_per_invocation(const rota_reduce_params *p) {
    return p->inner >= 32 || p->chunk < 64;
}
static uint64_t reduce_results(const rota_reduce_params *p) {
    return (uint64_t)p->outer * rota_divide_up(p->n, p->chunk) * p->inner;
}
GRID(reduce, rota_reduce_params,
     reduce_per_invocation(p) ? rota_divide_up(reduce_results(p), SMALL_GROUP) : reduce_results(p))
void rota_vk_spec_reduce(const void *params, uint32_t *out_values) {
    const rota_reduce_params *p = params;
    out_values[0] = reduce_per_invocation(p) ? SMALL_GROUP : group_for_row(p->chunk < p->n ? p->chunk : p->n);
    out_values[1] = p->op;
    out_values[2] = reduce_per_invocation(p);
    out_values[3] = p->from;
    out_values[4] = p->to;
}
GRID(max_backward, rota_max_backward_params, rota_divide_up((uint64_t)p->outer * p->inner, ELEMENTWISE_GROUP))
void rota_vk_spec_max_backward(const void *params, uint32_t *out_values) {
    const rota_max_backward_params *p = params;
    out_values[0] = p->dtype;
}

GRID(gather, rota_gather_params, rota_divide_up((uint64_t)p->outer * p->m * p->inner, ELEMENTWISE_GROUP))
void rota_vk_spec_gather(const void *params, uint32_t *out_values) {
    const rota_gather_params *p = params;
    out_values[0] = p->dtype;
}
GRID(scatter_add, rota_gather_params,
     rota_divide_up((uint64_t)p->outer *rota_scatter_pieces(p) * p->inner, ELEMENTWISE_GROUP))
void rota_vk_spec_scatter_add(const void *params, uint32_t *out_values) {
    const rota_gather_params *p = params;
    out_values[0] = p->dtype;
    out_values[1] = rota_scatter_pieces(p);
}
GRID(copy_row, rota_copy_row_params, rota_divide_up(p->words, ELEMENTWISE_GROUP))

GRID(one_hot, rota_one_hot_params, rota_divide_up((uint64_t)p->rows * p->classes, ELEMENTWISE_GROUP))
void rota_vk_spec_one_hot(const void *params, uint32_t *out_values) {
    const rota_one_hot_params *p = params;
    out_values[0] = p->dtype;
}
GRID(top_k, rota_top_k_params, (uint64_t)p->outer * p->inner)
void rota_vk_spec_top_k(const void *params, uint32_t *out_values) {
    const rota_top_k_params *p = params;
    out_values[0] = p->dtype;
}

/* Rows are a workgroup's; of columns each is an invocation's, so that neighbours read neighbours. */
static uint64_t along_groups(uint32_t outer, uint32_t inner) {
    return inner == 1 ? outer : rota_divide_up((uint64_t)outer * inner, SMALL_GROUP);
}
GRID(cumulative_sum, rota_cumulative_sum_params, along_groups(p->outer, p->inner))
void rota_vk_spec_cumulative_sum(const void *params, uint32_t *out_values) {
    const rota_cumulative_sum_params *p = params;
    out_values[0] = p->inner != 1;
    out_values[1] = p->dtype;
}
GRID(variance, rota_variance_params, along_groups(p->outer, p->inner))
void rota_vk_spec_variance(const void *params, uint32_t *out_values) {
    const rota_variance_params *p = params;
    out_values[0] = SMALL_GROUP;
    out_values[1] = p->inner != 1;
    out_values[2] = p->dtype;
}
GRID(variance_backward, rota_variance_params,
     rota_divide_up((uint64_t)p->outer * p->n * p->inner, ELEMENTWISE_GROUP))
void rota_vk_spec_variance_backward(const void *params, uint32_t *out_values) {
    const rota_variance_params *p = params;
    out_values[0] = p->dtype;
}

/* A workgroup per chunk, or per row. */
GRID(nonzero, rota_nonzero_params, rota_divide_up(p->n, p->chunk))
GRID(exclusive_sum, rota_exclusive_sum_params, p->rows)
GRID(select_rows, rota_select_rows_params, rota_divide_up((uint64_t)p->rows * p->width, ELEMENTWISE_GROUP))

GRID(sort_keys, rota_sort_keys_params, rota_divide_up(p->n, ELEMENTWISE_GROUP))
GRID(sort, rota_sort_params, p->rows *rota_divide_up(p->n, p->chunk))
GRID(unique, rota_unique_params, rota_divide_up(p->n, p->chunk))
GRID(top_p_sums, rota_top_p_params, p->rows *rota_divide_up(p->n, p->chunk))
GRID(top_p, rota_top_p_params, p->rows)

/* The dtype of the variants for 16-bit floats, where it is their only constant. */
#define SPEC_DTYPE(name, type)                                                                               \
    void rota_vk_spec_##name(const void *params, uint32_t *out_values) {                                     \
        out_values[0] = ((const type *)params)->dtype;                                                       \
    }

GRID(scaled_matmul, rota_scaled_matmul_params,
     rota_divide_up(p->m, ROTA_SCALED_TILE) * rota_divide_up(p->n, ROTA_SCALED_TILE))
void rota_vk_spec_scaled_matmul(const void *params, uint32_t *out_values) {
    const rota_scaled_matmul_params *p = params;
    out_values[0] = p->a_dtype;
    out_values[1] = p->b_dtype;
    out_values[2] = p->y_dtype;
}

GRID(embedding, rota_embedding_params, rota_divide_up((uint64_t)p->rows * p->dim, ELEMENTWISE_GROUP))
/* Workgroups of a power of two, each with every so many-th class (embedding_backward.comp: shift_of). */
static uint64_t embedding_groups(uint32_t classes) {
    uint64_t groups = 1;
    while (groups * EMBEDDING_CLASSES < classes) groups *= 2;
    return groups < classes ? groups : classes;
}
GRID(embedding_backward, rota_embedding_params, embedding_groups(p->classes))
SPEC_DTYPE(embedding, rota_embedding_params)

GRID(softmax, rota_softmax_params, p->rows)
void rota_vk_spec_softmax(const void *params, uint32_t *out_values) {
    const rota_softmax_params *p = params;
    out_values[0] = group_for_row(p->n);
    out_values[1] = p->dtype;
}
GRID(causal_mask, rota_causal_mask_params, rota_divide_up((uint64_t)p->rows * p->n, ELEMENTWISE_GROUP))
SPEC_DTYPE(causal_mask, rota_causal_mask_params)

/* Rows in teams (teams.glsl): invocations of a row, so many that each keeps up to four groups of eight
 * elements; at least eight, where a row has as many groups, so that neighbours read neighbours. */
static uint32_t team_lanes(uint64_t n) {
    const uint64_t groups = rota_divide_up(n, 8);
    uint32_t lanes = 1;
    while (lanes < LARGE_GROUP && (4 * (uint64_t)lanes < groups || (lanes < 8 && lanes < groups))) lanes *= 2;
    return lanes;
}
/* 0: more than there are registers for. */
static uint32_t team_kept(uint64_t n) {
    const uint64_t kept = rota_divide_up(n, 8 * (uint64_t)team_lanes(n));
    return kept > 4 ? 0 : (uint32_t)kept;
}
GRID(norm, rota_norm_params, rota_divide_up(p->rows, LARGE_GROUP / team_lanes(p->dim)))
void rota_vk_spec_norm(const void *params, uint32_t *out_values) {
    const rota_norm_params *p = params;
    out_values[0] = LARGE_GROUP;
    out_values[1] = team_lanes(p->dim);
    out_values[2] = team_kept(p->dim);
    out_values[3] = p->dtype;
}
GRID(norm_backward_weight, rota_norm_params,
     rota_divide_up(rota_divide_up(p->rows, p->chunk) * rota_divide_up(p->dim, 4), 64))
SPEC_DTYPE(norm_backward_weight, rota_norm_params)

/* Elements of a channel. */
static uint64_t batch_norm_elements(const rota_batch_norm_params *p) {
    return (uint64_t)p->outer * p->inner;
}
GRID(batch_norm_sums, rota_batch_norm_params,
     rota_divide_up(rota_divide_up(batch_norm_elements(p), p->chunk) * p->channels, SMALL_GROUP))
GRID(batch_norm_moments, rota_batch_norm_params,
     rota_divide_up(rota_divide_up(batch_norm_elements(p), p->chunk) * p->channels, SMALL_GROUP))
GRID(batch_norm_finish, rota_batch_norm_params, p->channels)
GRID(batch_norm, rota_batch_norm_params,
     rota_divide_up(batch_norm_elements(p) * p->channels, ELEMENTWISE_GROUP))
SPEC_DTYPE(batch_norm, rota_batch_norm_params)
/* conv2d.comp's tiles of a product: of each group, and of each chunk of a weight's gradient. */
static uint64_t conv_tiles(uint64_t rows, uint64_t columns) {
    return rota_divide_up(rows, ROTA_CONV_TILE) * rota_divide_up(columns, ROTA_CONV_TILE);
}
static uint64_t conv_window(const rota_conv_params *p) {
    return (uint64_t)p->window[0] * p->window[1];
}
/* Of a result of few channels in a group, of short sums, 256 elements of each. */
static uint64_t conv_groups(uint64_t rows, uint64_t columns, uint64_t depth) {
    return rows <= ROTA_CONV_FEW && depth <= ROTA_CONV_SHORT
               ? rows * rota_divide_up(columns, ELEMENTWISE_GROUP)
               : conv_tiles(rows, columns);
}
GRID(conv2d, rota_conv_params,
     p->groups *conv_groups(p->out_channels, (uint64_t)p->batch * p->out[0] * p->out[1],
                            p->in_channels *conv_window(p)))
GRID(conv2d_backward_input, rota_conv_params,
     p->groups *conv_groups(p->in_channels, (uint64_t)p->batch * p->in[0] * p->in[1],
                            p->out_channels *conv_window(p)))
GRID(conv2d_backward_weight, rota_conv_params,
     rota_divide_up((uint64_t)p->batch * p->out[0] * p->out[1], p->chunk) * p->groups *
         conv_tiles(p->out_channels, p->in_channels *conv_window(p)))
SPEC_DTYPE(conv2d, rota_conv_params)
GRID(pool, rota_pool_params,
     rota_divide_up((uint64_t)p->planes * p->out[0] * p->out[1] * p->channels, ELEMENTWISE_GROUP))
GRID(pool_backward, rota_pool_params,
     rota_divide_up((uint64_t)p->planes * p->in[0] * p->in[1] * p->channels, ELEMENTWISE_GROUP))
SPEC_DTYPE(pool, rota_pool_params)
GRID(rope, rota_rope_params, rota_divide_up((uint64_t)p->rows *(p->dim - p->rotary / 2), ELEMENTWISE_GROUP))
SPEC_DTYPE(rope, rota_rope_params)

GRID(cross_entropy, rota_cross_entropy_params, p->rows)
void rota_vk_spec_cross_entropy(const void *params, uint32_t *out_values) {
    const rota_cross_entropy_params *p = params;
    out_values[0] = group_for_row(p->classes);
    out_values[1] = p->dtype;
}
GRID(cross_entropy_join, rota_cross_entropy_join_params, rota_divide_up(p->rows, ELEMENTWISE_GROUP))
GRID(cross_entropy_backward, rota_cross_entropy_params,
     rota_divide_up((uint64_t)p->rows * p->pitch, ELEMENTS_OF_FOUR))
SPEC_DTYPE(cross_entropy_backward, rota_cross_entropy_params)

/* A workgroup for some of the rows of each head. */
#define GRID_ATTENTION(NAME, PARAMS, ROWS)                                                                   \
    GRID(NAME, PARAMS, (uint64_t)p->batch * p->heads * rota_divide_up(ROWS, ATTENTION_ROWS))
GRID_ATTENTION(attention, rota_attention_params, p->queries)
GRID(attention_backward_prepare, rota_attention_backward_params,
     rota_divide_up((uint64_t)p->batch * p->heads * p->queries, 64))
GRID_ATTENTION(attention_backward_query, rota_attention_backward_params, p->queries)
GRID_ATTENTION(attention_backward_key_value, rota_attention_backward_params, p->keys)
GRID_ATTENTION(attention_dropout, rota_attention_drop_params, p->queries)
GRID_ATTENTION(attention_dropout_backward_query, rota_attention_drop_backward_params, p->queries)
GRID_ATTENTION(attention_dropout_backward_key_value, rota_attention_drop_backward_params, p->keys)

GRID(dropout, rota_dropout_params, rota_divide_up(p->count, ELEMENTS_OF_FOUR))
void rota_vk_spec_dropout(const void *params, uint32_t *out_values) {
    const rota_dropout_params *p = params;
    out_values[0] = p->dtype;
}
GRID(index_add, rota_index_add_params, rota_divide_up(p->rows, ELEMENTWISE_GROUP))
/* One workgroup, of as many as there are. */
void rota_vk_grid_global_norm(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {
    (void)params;
    (void)operand_bytes;
    rota_vk_fold(1, out_groups);
}
void rota_vk_spec_global_norm(const void *params, uint32_t *out_values) {
    (void)params;
    out_values[0] = LARGE_GROUP;
}
GRID(adamw, rota_adamw_params, rota_divide_up(p->count, ELEMENTWISE_GROUP))
GRID(momentum, rota_momentum_params, rota_divide_up(p->count, ELEMENTWISE_GROUP))
GRID(check_finite, rota_check_finite_params, rota_divide_up(p->count, ELEMENTS_OF_FOUR))

/* Of the shaders for 16-bit floats alone. */
#define SPEC_ATTENTION(NAME, PARAMS)                                                                         \
    void rota_vk_spec_##NAME(const void *params, uint32_t *out_values) {                                     \
        out_values[0] = (uint32_t)((const PARAMS *)params)->flags >> ROTA_ATTENTION_DTYPE_SHIFT;             \
    }
SPEC_ATTENTION(attention, rota_attention_params)
SPEC_ATTENTION(attention_backward, rota_attention_backward_params)
SPEC_ATTENTION(attention_dropout, rota_attention_drop_params)
SPEC_ATTENTION(attention_dropout_backward, rota_attention_drop_backward_params)
