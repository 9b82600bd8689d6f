/* What the kernels of long axes are made of on each kind of device, and the Vulkan shaders that only they
 * run. */
#include "ops/long_axis.h"

#include "base/divide.h"
#include "ops/kernel_objects.h"
#include "ops/kernel_parts.h"
#include "ops/vk/dispatch.h"
#include "spv/cumulative_sum_chunks.h"
#include "spv/cumulative_sum_chunks_half.h"
#include "spv/max_backward_first.h"
#include "spv/max_backward_first_half.h"
#include "spv/max_backward_spread.h"
#include "spv/max_backward_spread_half.h"
#include "spv/top_k_chunks.h"
#include "spv/top_k_chunks_half.h"
#include "spv/top_k_rank.h"
#include "spv/top_k_rank_half.h"
#include "spv/variance_sums.h"
#include "spv/variance_sums_half.h"

#define SMALL_GROUP 64u /* local_size_x of the shaders */

/* From here on an axis is long. What is short takes one invocation at most twice as many turns of its loops.
 */
#define LONG 16384u
/* Elements of a chunk at the least, and chunks of an axis at the most: neither the chunks nor what is put
 * together of them is long. */
#define CHUNK_LEAST 4096u
#define CHUNKS_MOST 16384u

/* Passes over an axis of this length, by 64 invocations, that top_k makes in one workgroup; and in each
 * chunk. */
#define TOP_K_LONG 65536u
#define TOP_K_CHUNK 16384u
#define TOP_K_CHUNK_PASSES 128u
/* Turns of top_k's passes that are more than those of comparing each element with all others. */
#define TOP_K_TURNS 16384u

uint32_t rota_long_chunk(uint32_t n) {
    if (n <= LONG) return n;
    const uint32_t chunk = (uint32_t)rota_divide_up(n, CHUNKS_MOST);
    return chunk < CHUNK_LEAST ? CHUNK_LEAST : chunk;
}

bool rota_long_top_k(uint32_t n, uint32_t k, uint32_t *out_chunk, uint64_t *out_keys) {
    const bool cut = n > TOP_K_LONG && k <= TOP_K_CHUNK_PASSES;
    *out_chunk = cut ? TOP_K_CHUNK : n;
    *out_keys = cut ? rota_divide_up(n, TOP_K_CHUNK) * k : 0;
    return cut || k * rota_divide_up(n, SMALL_GROUP) > TOP_K_TURNS;
}

/* ---- Shaders ---- */

static uint64_t chunks(const rota_long_params *p) {
    return rota_divide_up(p->n, p->chunk) * p->outer * p->inner;
}
/* Of columns: an invocation each, so that neighbours read neighbours. */
static bool per_invocation(const rota_long_params *p) {
    return p->inner != 1;
}

#define GRID(NAME, GROUPS)                                                                                   \
    static void grid_##NAME(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {     \
        (void)operand_bytes;                                                                                 \
        const rota_long_params *p = params;                                                                  \
        rota_vk_fold((GROUPS), out_groups);                                                                  \
    }
GRID(top_k_chunks, chunks(p))
GRID(top_k_rank,
     rota_divide_up(p->chunk == p->n ? (uint64_t)p->outer * p->n * p->inner : chunks(p) * p->k, SMALL_GROUP))
GRID(cumulative_sum_chunks, per_invocation(p) ? rota_divide_up(chunks(p), SMALL_GROUP) : chunks(p))
GRID(variance_sums, per_invocation(p) ? rota_divide_up(chunks(p), SMALL_GROUP) : chunks(p))
GRID(max_backward_first, rota_divide_up(chunks(p), SMALL_GROUP))
GRID(max_backward_spread, rota_divide_up(chunks(p), SMALL_GROUP))

static void spec_dtype(const void *params, uint32_t *out_values) {
    const rota_long_params *p = params;
    out_values[0] = p->dtype;
}
static void spec_top_k_rank(const void *params, uint32_t *out_values) {
    const rota_long_params *p = params;
    out_values[0] = p->dtype;
    out_values[1] = p->chunk == p->n;
}
static void spec_cumulative_sum_chunks(const void *params, uint32_t *out_values) {
    const rota_long_params *p = params;
    out_values[0] = per_invocation(p);
    out_values[1] = p->dtype;
}
static void spec_variance_sums(const void *params, uint32_t *out_values) {
    const rota_long_params *p = params;
    out_values[0] = SMALL_GROUP;
    out_values[1] = per_invocation(p);
    out_values[2] = p->dtype;
}

/* Each candidate is compared with all, eight a turn (each.glsl). What the others walk is no longer than a
 * chunk. */
static uint64_t turns_top_k_rank(const void *params) {
    const rota_long_params *p = params;
    return (p->chunk == p->n ? p->n : rota_divide_up(p->n, p->chunk) * p->k) / 8 + 9;
}

/* A shader, and another of 16-bit floats. */
#define SHADER(NAME, VARIANT, OPERANDS, SPEC_COUNT, SPEC, ...)                                               \
    {                                                                                                        \
        .name = #NAME, .operand_count = (OPERANDS), .param_bytes = sizeof(rota_long_params),                 \
        .flags = ROTA_KERNEL_PURE, .vk = {                                                                   \
            .words = rota_spv_##VARIANT,                                                                     \
            .size_bytes = sizeof rota_spv_##VARIANT,                                                         \
            .grid = grid_##NAME,                                                                             \
            .spec_count = (SPEC_COUNT),                                                                      \
            .spec = (SPEC),                                                                                  \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }
#define KERNEL(NAME, OPERANDS, SPEC_COUNT, SPEC, TURNS)                                                      \
    static const rota_kernel NAME##_half = SHADER(NAME, NAME##_half, OPERANDS, SPEC_COUNT, SPEC,             \
                                                  .required_features = ROTA_FEATURE_F16_STORAGE);            \
    static const rota_kernel *select_##NAME(const void *params, const uint64_t *operand_bytes,               \
                                            uint32_t features) {                                             \
        (void)operand_bytes;                                                                                 \
        (void)features;                                                                                      \
        return ((const rota_long_params *)params)->dtype == ROTA_F32 ? NULL : &NAME##_half;                  \
    }                                                                                                        \
    static const rota_kernel NAME =                                                                          \
        SHADER(NAME, NAME, OPERANDS, SPEC_COUNT, SPEC, .select = select_##NAME, .turns = (TURNS));

KERNEL(top_k_chunks, 2, 1, spec_dtype, NULL)
KERNEL(top_k_rank, 4, 2, spec_top_k_rank, turns_top_k_rank)
KERNEL(cumulative_sum_chunks, 3, 2, spec_cumulative_sum_chunks, NULL)
KERNEL(variance_sums, 3, 3, spec_variance_sums, NULL)
KERNEL(max_backward_first, 3, 1, spec_dtype, NULL)
KERNEL(max_backward_spread, 3, 1, spec_dtype, NULL)

/* ---- Parts ---- */

/* One more part: a kernel on these of the node's operands, of which the last WRITTEN are written. */
#define ADD(KERNEL, PARAMS, WRITTEN, ...)                                                                    \
    rota_kernel_part_fill(&(KERNEL), (PARAMS), (const uint8_t[]){__VA_ARGS__}, (WRITTEN), &parts[count++])

/* Sums of chunks of [outer, n, inner]. */
static rota_reduce_params sums_of(const rota_long_params *p, uint32_t n, uint32_t chunk, float scale,
                                  uint32_t from, uint32_t to) {
    return (rota_reduce_params){ROTA_REDUCE_SUM, p->outer, n, p->inner, chunk, scale, from, to};
}

static uint32_t parts_top_k(const rota_long_params *p, bool vulkan, rota_kernel_part *parts) {
    uint32_t count = 0;
    const rota_top_k_params whole = {p->outer, p->n, p->inner, p->k, p->dtype};
    if (!vulkan) {
        ADD(rota_kernel_top_k, &whole, 2, 0, 1, 2);
    } else if (p->chunk < p->n) {
        ADD(top_k_chunks, p, 1, 0, 3);
        ADD(top_k_rank, p, 2, 0, 3, 1, 2);
    } else {
        ADD(top_k_rank, p, 2, 0, 0, 1, 2);
    }
    return count;
}

static uint32_t parts_cumulative_sum(const rota_long_params *p, bool vulkan, rota_kernel_part *parts) {
    uint32_t count = 0;
    const rota_cumulative_sum_params whole = {p->outer, p->n, p->inner, p->reverse, p->dtype};
    const rota_cumulative_sum_params totals = {p->outer, (uint32_t)rota_divide_up(p->n, p->chunk), p->inner,
                                               p->reverse, ROTA_F32};
    const rota_reduce_params sums = sums_of(p, p->n, p->chunk, 1.0f, p->dtype, ROTA_F32);
    if (!vulkan) {
        ADD(rota_kernel_cumulative_sum, &whole, 1, 0, 1);
        return count;
    }
    ADD(rota_kernel_reduce, &sums, 1, 0, 2);
    ADD(rota_kernel_cumulative_sum, &totals, 1, 2, 3);
    ADD(cumulative_sum_chunks, p, 1, 0, 3, 1);
    return count;
}

static uint32_t parts_variance(const rota_long_params *p, bool vulkan, rota_kernel_part *parts) {
    uint32_t count = 0;
    const uint32_t n = (uint32_t)rota_divide_up(p->n, p->chunk);
    const rota_variance_params whole = {p->outer, p->n, p->inner, p->scale, p->dtype};
    const rota_reduce_params sums = sums_of(p, p->n, p->chunk, 1.0f, p->dtype, ROTA_F32);
    const rota_reduce_params mean = sums_of(p, n, n, (float)(1.0 / p->n), ROTA_F32, ROTA_F32);
    const rota_reduce_params result = sums_of(p, n, n, p->scale, ROTA_F32, p->dtype);
    if (!vulkan) {
        ADD(rota_kernel_variance, &whole, 2, 0, 1, 2);
        return count;
    }
    ADD(rota_kernel_reduce, &sums, 1, 0, 3);
    ADD(rota_kernel_reduce, &mean, 1, 3, 2);
    ADD(variance_sums, p, 1, 0, 2, 3);
    ADD(rota_kernel_reduce, &result, 1, 3, 1);
    return count;
}

static uint32_t parts_max_backward(const rota_long_params *p, bool vulkan, rota_kernel_part *parts) {
    uint32_t count = 0;
    const rota_max_backward_params whole = {p->outer, p->n, p->inner, p->dtype};
    if (!vulkan) {
        ADD(rota_kernel_max_backward, &whole, 1, 0, 1, 2, 3);
        return count;
    }
    ADD(max_backward_first, p, 1, 0, 1, 4);
    ADD(max_backward_spread, p, 1, 4, 2, 3);
    return count;
}

#define LONG_KERNEL(NAME, OPERANDS)                                                                          \
    static uint32_t kind_##NAME(rota_exec_kind kind, const void *params, const uint64_t *operand_bytes,      \
                                uint32_t slot_mask, const rota_cuda_target *target,                          \
                                rota_kernel_part out_parts[ROTA_KERNEL_PARTS_MAX]) {                         \
        (void)operand_bytes;                                                                                 \
        (void)slot_mask;                                                                                     \
        (void)target;                                                                                        \
        return parts_##NAME(params, kind == ROTA_EXEC_VK, out_parts);                                        \
    }                                                                                                        \
    const rota_kernel rota_kernel_##NAME##_long = {                                                          \
        .name = #NAME "_long",                                                                               \
        .operand_count = (OPERANDS),                                                                         \
        .param_bytes = sizeof(rota_long_params),                                                             \
        .flags = ROTA_KERNEL_PURE,                                                                           \
        .parts = kind_##NAME,                                                                                \
    };
LONG_KERNEL(top_k, 4)
LONG_KERNEL(cumulative_sum, 4)
LONG_KERNEL(variance, 4)
LONG_KERNEL(max_backward, 5)
