/* How many turns the loops of an invocation take in the built-in shaders that walk an axis, all its loops
 * together: bounds (rota_kernel.vk.turns), which llvmpipe's limit needs. Others take some tens, or walk
 * chunks of some hundred. */
#include "ops/vk/dispatch.h" /* IWYU pragma: keep */
#include "base/divide.h"
#include "ops/vk/turns.h" /* IWYU pragma: keep */

/* The last turn of a loop finds that there is nothing more to do, and counts. */
#define LEAVE 1u
#define TREE 9u /* of workgroup.glsl, for 256 invocations */

/* ROTA_EACH over so many: by eights, and what is left. */
static uint64_t each(uint64_t count) {
    return count / 8 + LEAVE + count % 8 + LEAVE;
}
/* ... for any count up to this one. */
static uint64_t each_up_to(uint64_t count) {
    return count / 8 + LEAVE + 7 + LEAVE;
}
/* Passes over a row by a workgroup (group_for_row in dispatch.c), and as many trees. */
static uint64_t row(uint64_t n, uint32_t passes) {
    return passes * (each_up_to(rota_divide_up(n, (n <= 512 ? 64 : 256))) + TREE);
}

#define TURNS(NAME, PARAMS, COUNT)                                                                           \
    uint64_t rota_vk_turns_##NAME(const void *params) {                                                      \
        const PARAMS *p = params;                                                                            \
        return (COUNT);                                                                                      \
    }

TURNS(max_backward, rota_max_backward_params, (uint64_t)p->n + LEAVE)
TURNS(scatter_add, rota_gather_params, each(p->m))
TURNS(top_k, rota_top_k_params, (uint64_t)p->k *(each_up_to(rota_divide_up(p->n, 64)) + TREE) + LEAVE)
TURNS(cumulative_sum, rota_cumulative_sum_params,
      p->inner == 1 ? rota_divide_up(p->n, 64) * (1 + TREE) + LEAVE : (uint64_t)p->n + LEAVE)
TURNS(variance, rota_variance_params,
      2 * (p->inner == 1 ? rota_divide_up(p->n, 64) + LEAVE + TREE : (uint64_t)p->n + LEAVE))
TURNS(softmax, rota_softmax_params, row(p->n, 3))
/* Of rows that teams.glsl does not keep, eight elements a turn. */
TURNS(norm, rota_norm_params, 3 * (rota_divide_up(p->dim, 2048) + LEAVE))
TURNS(cross_entropy, rota_cross_entropy_params, row(p->classes, 3))
TURNS(cross_entropy_mean, rota_cross_entropy_params, each_up_to(rota_divide_up(p->rows, 256)) + TREE)
TURNS(cross_entropy_join, rota_cross_entropy_join_params, 2 * ((uint64_t)p->ranks + LEAVE))
TURNS(global_norm, rota_global_norm_params, each_up_to(rota_divide_up(p->count, 256)) + TREE)

/* A walk over the index takes 1024 rows a turn. Where there are more than 1536, the first may be followed by as many
 * as the workgroup has classes, again for each 256 columns, but no more than two for each 1536 rows. Of such columns a
 * team adds the rows of its classes that have up to 256, eight a turn, and its share of the others, 64 a turn. */
static uint64_t embedding_backward(const rota_embedding_params *p) {
    const uint64_t passes = rota_divide_up(p->dim, 256), classes = p->classes < 32 ? p->classes : 32;
    const uint64_t rows = p->rows, lists = rows <= 1536 ? 1 : 2 * rows / 1536 + 1;
    const uint64_t batches = classes < lists ? classes : lists,
                   of_team = batches == 1 ? rota_divide_up(classes, 8) : classes;
    const uint64_t walk = rota_divide_up(rows, 1024) * (1 + 4 + LEAVE) + LEAVE;
    const uint64_t sort = 4 + LEAVE + 1536 / 16 + LEAVE + 32 + LEAVE;
    const uint64_t few = 3 * of_team + (rows < 256 * of_team ? rows : 256 * of_team) / 8 + batches * LEAVE;
    const uint64_t shared =
        classes + batches * LEAVE + rota_divide_up(rows, 64) + 2 * rota_divide_up(rows, 256);
    return walk + (rows > 1536 ? batches * passes * (walk + 2) : 0) + batches * sort +
           passes * (1 + few + shared) + LEAVE + LEAVE;
}
TURNS(embedding_backward, rota_embedding_params, embedding_backward(p))

/* attention.glsl, for each 64 that are walked: products in pieces of 32 columns, which are staged (a vector
 * of four a turn) and multiplied; sums of 128 columns at a time, staged in such pieces, and as many vectors
 * of results, each added to over the 64, four a turn, in its own piece and left at once in the others. */
static uint64_t attention(uint64_t walked, uint64_t dim, uint32_t products, uint32_t sums, uint64_t drawn) {
    const uint64_t pieces = rota_divide_up(dim, 32), kept = pieces < 4 ? pieces : 4;
    const uint64_t product = pieces * (1 + 1 + LEAVE + 2 * (8 + LEAVE)) + LEAVE;
    const uint64_t sum = kept * (1 + 8 + LEAVE + 16 + LEAVE + 4 * 2 * LEAVE) + LEAVE;
    const uint64_t rest = 20; /* of each: maxima and sums of rows */
    return rota_divide_up(dim, 128) *
           (rota_divide_up(walked, 64) * (products * product + sums * sum + drawn + rest) + rest);
}
/* ... and of Philox: ten rounds for each of 8 rows. */
#define DRAWN ((uint64_t)8 * (10 + LEAVE))
TURNS(attention, rota_attention_params, attention(p->keys, p->dim, 1, 1, 0))
TURNS(attention_backward_query, rota_attention_backward_params, attention(p->keys, p->dim, 2, 1, 0))
TURNS(attention_backward_key_value, rota_attention_backward_params, attention(p->queries, p->dim, 2, 2, 0))
TURNS(attention_dropout, rota_attention_drop_params, attention(p->keys, p->dim, 1, 1, DRAWN))
TURNS(attention_dropout_backward_query, rota_attention_drop_backward_params,
      attention(p->keys, p->dim, 2, 1, DRAWN))
TURNS(attention_dropout_backward_key_value, rota_attention_drop_backward_params,
      attention(p->queries, p->dim, 2, 2, DRAWN))

static uint64_t most_windows(const rota_pool_params *p) {
    uint64_t turns[2];
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t over = ((uint64_t)p->window[i] - 1) * p->dilation[i] / p->stride[i] + 1;
        turns[i] = (over < p->window[i] ? p->window[i] : over) + LEAVE;
    }
    return turns[0] * turns[1] + LEAVE;
}
/* A window's rows and columns, or as many windows as reach over an element at the most. */
TURNS(pool, rota_pool_params, most_windows(p))

/* A step of the summed dimension each, or for few channels of a result an element. */
static uint64_t conv_turns(const rota_conv_params *p, uint64_t channels, uint32_t results) {
    const uint64_t taps = channels * p->window[0] * p->window[1];
    return (results <= ROTA_CONV_FEW && taps <= ROTA_CONV_SHORT ? taps : rota_divide_up(taps, 16)) + LEAVE;
}
TURNS(conv2d, rota_conv_params, conv_turns(p, p->in_channels, p->out_channels))
TURNS(conv2d_backward_input, rota_conv_params, conv_turns(p, p->out_channels, p->in_channels))
TURNS(conv2d_backward_weight, rota_conv_params, rota_divide_up(p->chunk, 16) + LEAVE)
/* A step of the inner dimension each. */
TURNS(matmul, rota_matmul_params, rota_divide_up(p->k, 16) + 1 + LEAVE)
/* ... and of each its 16 elements. */
TURNS(scaled_matmul, rota_scaled_matmul_params, rota_divide_up(p->k, 16) * (1 + 16 + LEAVE) + LEAVE)
TURNS(matmul_large, rota_matmul_params, rota_divide_up(p->k, 8) + 1 + LEAVE)
