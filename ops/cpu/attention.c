/* CPU kernels: fused attention and its gradients, with dropout of the probabilities and without, tile by tile, so that
 * the scores never leave the cache. An item is a block of QUERIES queries (or KEYS keys) of one head; the other side is
 * walked in tiles, in order. */
#include "cpu.h"
#include "functions.h"
#include "gemm.h"
#include "half.h"
#include "philox.h"
#include "rows.h"
#include "sums.h"

#include <stdlib.h>

/* A tile of scores is 32 KiB: it stays in the first-level cache between the products around it. */
enum { QUERIES = 64, KEYS = 128 };

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t blocks(uint64_t size, uint64_t block) {
    return (size + block - 1) / block;
}

/* Keys that query i sees: j < limit. */
ROTA_INLINE uint64_t key_limit(bool causal, uint64_t query, uint64_t queries, uint64_t keys) {
    return causal ? query + keys - queries + 1 : keys;
}

/* ---- 16-bit floats: tiles are widened to f32, results rounded once ---- */

static rota_dtype dtype_of(uint32_t flags) {
    return (rota_dtype)(flags >> ROTA_ATTENTION_DTYPE_SHIFT);
}

/* Floats to widen into, to be freed; none for f32. */
static rota_status scratch_of(rota_dtype dtype, uint64_t floats, float **out_scratch) {
    *out_scratch = NULL;
    if (dtype == ROTA_F32) return ROTA_OK;
    *out_scratch = malloc(floats * sizeof(float));
    if (*out_scratch) return ROTA_OK;
    return rota_fail(ROTA_OUT_OF_MEMORY, "attention of %s: no memory for %llu floats", rota_dtype_name(dtype),
                     (unsigned long long)floats);
}

static uint64_t element_of(const uint32_t stride[3], uint64_t batch, uint64_t head, uint64_t row) {
    return batch * stride[0] + head * stride[1] + row * stride[2];
}

ROTA_INLINE float widen(rota_dtype dtype, const void *x, uint64_t i) {
    const uint16_t half = ((const uint16_t *)x)[i];
    return dtype == ROTA_F16 ? rota_from_f16(half) : rota_from_bf16(half);
}

static void narrow(rota_dtype dtype, const float *x, uint64_t rows, uint64_t columns, void *y, uint64_t first,
                   uint64_t stride) {
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < columns; c++) {
            const float value = x[r * columns + c];
            ((uint16_t *)y)[first + r * stride + c] =
                dtype == ROTA_F16 ? rota_to_f16(value) : rota_to_bf16(value);
        }
}

/* Rows of one head, as f32: where they lie, or widened into `buffer`. */
typedef struct matrix {
    const float *data;
    uint64_t stride;
} matrix;

static matrix matrix_of(rota_dtype dtype, const void *operand, const uint32_t stride[3], uint64_t batch,
                        uint64_t head, uint64_t row, uint64_t rows, uint64_t columns, float *buffer) {
    const uint64_t from = element_of(stride, batch, head, row);
    if (dtype == ROTA_F32) return (matrix){(const float *)operand + from, stride[2]};
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < columns; c++)
            buffer[r * columns + c] = widen(dtype, operand, from + r * stride[2] + c);
    return (matrix){buffer, columns};
}

/* ---- dropout ---- */

void rota_cpu_items_attention_draw(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                   uint64_t *out_grain) {
    (void)params;
    (void)operand_bytes;
    *out_items = *out_grain = 1;
}

rota_status rota_cpu_attention_draw(const rota_kernel_call *call) {
    memcpy(call->operands[0], call->params, sizeof(rota_attention_draw));
    return ROTA_OK;
}

/* What the probabilities of a tile, of a pair of batch and head, are multiplied by; 0 of those that are not seen. */
ROTA_VECTOR static void draw_tile(const rota_attention_draw *draw, bool causal, uint64_t pair,
                                  uint64_t queries, uint64_t keys, uint64_t q0, uint64_t k0, uint64_t rows,
                                  uint64_t columns, float *mask) {
    uint32_t words[4][PHILOX_BLOCKS], inorder[4 * PHILOX_BLOCKS];
    for (uint64_t r = 0; r < rows; r++) {
        const uint64_t limit = key_limit(causal, q0 + r, queries, keys),
                       seen = limit <= k0 ? 0 : least(limit - k0, columns);
        const uint64_t first = ((draw->first + pair) * queries + q0 + r) * keys + k0, past = first + seen;
        float *restrict to = mask + r * columns;
        for (uint64_t e = first, end; e < past; e = end) {
            /* Counters of one high word, as many as go at a time. */
            const uint64_t block = e / 4, room = ((block >> 32) + 1) << 32, all = (past - 1) / 4 - block + 1;
            const uint32_t count = (uint32_t)least(least(all, PHILOX_BLOCKS), room - block);
            const uint32_t whole = (count + 15) / 16 * 16; /* vectors; what is past them is not looked at */
            philox((uint32_t)block, draw->stream, draw->step, (uint32_t)(block >> 32), draw->seed, whole,
                   words);
            for (uint32_t b = 0; b < count; b++)
                for (uint32_t w = 0; w < 4; w++) inorder[4 * b + w] = words[w][b];
            end = least((block + count) * 4, past);
            const uint32_t *word = inorder + e % 4;
            for (uint64_t i = 0; i < end - e; i++)
                to[e - first + i] = word[i] >= draw->threshold ? draw->kept : 0.0f;
        }
        for (uint64_t i = seen; i < columns; i++) to[i] = 0.0f;
    }
}

ROTA_VECTOR static void multiply(float *restrict x, const float *restrict by, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) x[i] *= by[i];
}

/* ---- forward ---- */

void rota_cpu_items_attention(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                              uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_attention_params *p = params;
    *out_items = (uint64_t)p->batch * p->heads * blocks(p->queries, QUERIES);
    *out_grain = 1 + (uint64_t)ROTA_CPU_GRAIN * 4 / (least(p->queries, QUERIES) * p->keys * p->dim);
}

/* One tile of scores of `rows` queries from q0 and `columns` keys from k0 becomes exp(score - maximum);
 * maximum and sum of the rows so far are carried along, and what was summed before into out is rescaled. */
ROTA_VECTOR static void tile_softmax(bool causal, uint64_t q0, uint64_t k0, uint64_t queries, uint64_t keys,
                                     uint64_t rows, uint64_t columns, float *scores, float *maximum,
                                     float *sum, float *out, uint64_t out_stride, uint64_t dim) {
    for (uint64_t r = 0; r < rows; r++) {
        float *s = scores + r * columns;
        uint64_t limit = key_limit(causal, q0 + r, queries, keys);
        uint64_t seen = limit <= k0 ? 0 : least(limit - k0, columns);
        for (uint64_t i = seen; i < columns; i++) s[i] = 0.0f;
        if (seen == 0) continue;
        float top = rota_cpu_max(s, seen);
        top = top > maximum[r] ? top : maximum[r];
        float part;
        for (uint64_t i = 0; i < seen; i++) s[i] = rota_cpu_exp(s[i] - top);
        ROTA_LANE_SUM(part, seen, s[i]);
        if (k0 > 0) {
            float rescale = rota_cpu_exp(maximum[r] - top);
            float *o = out + r * out_stride;
            for (uint64_t i = 0; i < dim; i++) o[i] *= rescale;
            part += sum[r] * rescale;
        }
        sum[r] = part;
        maximum[r] = top;
    }
}

ROTA_VECTOR static void finish(uint64_t rows, const float *maximum, const float *sum, float *out,
                               uint64_t out_stride, uint64_t dim, float *lse) {
    for (uint64_t r = 0; r < rows; r++) {
        float inverse = 1.0f / sum[r];
        float *o = out + r * out_stride;
        for (uint64_t i = 0; i < dim; i++) o[i] *= inverse;
        lse[r] = maximum[r] + logf(sum[r]);
    }
}

/* draw: NULL, or that of the probabilities' dropout. */
static rota_status attention(const rota_kernel_call *call, const rota_attention_params *p,
                             const rota_attention_draw *draw) {
    const rota_dtype dtype = dtype_of(p->flags);
    const bool causal = p->flags & ROTA_ATTENTION_CAUSAL;
    const uint64_t count = blocks(p->queries, QUERIES);
    float scores[QUERIES * KEYS], mask[QUERIES * KEYS], maximum[QUERIES], sum[QUERIES], *scratch = NULL;
    ROTA_TRY(scratch_of(dtype, (2 * QUERIES + 2 * KEYS) * (uint64_t)p->dim, &scratch));
    const uint64_t of_queries = QUERIES * (uint64_t)p->dim, of_keys = KEYS * (uint64_t)p->dim;
    float *const own_out = rota_cpu_part(scratch, of_queries);
    float *const own_k = rota_cpu_part(scratch, 2 * of_queries);
    float *const own_v = rota_cpu_part(scratch, 2 * of_queries + of_keys);
    for (uint64_t item = call->begin; item < call->end; item++) {
        uint64_t q0 = item % count * QUERIES, head = item / count % p->heads, batch = item / count / p->heads;
        uint64_t rows = least(p->queries - q0, QUERIES);
        const matrix q =
            matrix_of(dtype, call->operands[0], p->q_stride, batch, head, q0, rows, p->dim, scratch);
        const uint64_t first = element_of(p->out_stride, batch, head, q0);
        float *out = dtype == ROTA_F32 ? (float *)call->operands[3] + first : own_out;
        const uint64_t out_stride = dtype == ROTA_F32 ? p->out_stride[2] : p->dim;
        float *lse = (float *)call->operands[4] + (batch * p->heads + head) * p->queries + q0;
        for (uint64_t r = 0; r < QUERIES; r++) maximum[r] = -INFINITY;
        uint64_t end = key_limit(causal, q0 + rows - 1, p->queries, p->keys);
        for (uint64_t k0 = 0; k0 < end; k0 += KEYS) {
            uint64_t columns = least(end - k0, KEYS);
            const matrix k =
                matrix_of(dtype, call->operands[1], p->k_stride, batch, head, k0, columns, p->dim, own_k);
            const matrix v =
                matrix_of(dtype, call->operands[2], p->v_stride, batch, head, k0, columns, p->dim, own_v);
            rota_cpu_sgemm(false, true, rows, columns, p->dim, p->scale, q.data, q.stride, k.data, k.stride,
                           0.0f, scores, columns);
            tile_softmax(causal, q0, k0, p->queries, p->keys, rows, columns, scores, maximum, sum, out,
                         out_stride, p->dim);
            if (draw) {
                draw_tile(draw, causal, batch * p->heads + head, p->queries, p->keys, q0, k0, rows, columns,
                          mask);
                multiply(scores, mask, rows * columns);
            }
            rota_cpu_sgemm(false, false, rows, p->dim, columns, 1.0f, scores, columns, v.data, v.stride,
                           k0 == 0 ? 0.0f : 1.0f, out, out_stride);
        }
        finish(rows, maximum, sum, out, out_stride, p->dim, lse);
        if (dtype != ROTA_F32) narrow(dtype, out, rows, p->dim, call->operands[3], first, p->out_stride[2]);
    }
    free(scratch);
    return ROTA_OK;
}

rota_status rota_cpu_attention(const rota_kernel_call *call) {
    return attention(call, call->params, NULL);
}

static rota_attention_params params_of(const rota_attention_drop_params *p, float scale) {
    rota_attention_params all = {.batch = p->batch,
                                 .heads = p->heads,
                                 .queries = p->queries,
                                 .keys = p->keys,
                                 .dim = p->dim,
                                 .flags = p->flags,
                                 .scale = scale};
    memcpy(all.q_stride, p->q_stride, sizeof all.q_stride);
    memcpy(all.k_stride, p->k_stride, sizeof all.k_stride);
    memcpy(all.v_stride, p->v_stride, sizeof all.v_stride);
    memcpy(all.out_stride, p->out_stride, sizeof all.out_stride);
    return all;
}

void rota_cpu_items_attention_dropout(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                      uint64_t *out_grain) {
    rota_attention_params all = params_of(params, 0.0f);
    all.dim += all.dim == 0; /* which no list of divisors has */
    rota_cpu_items_attention(&all, operand_bytes, out_items, out_grain);
}

rota_status rota_cpu_attention_dropout(const rota_kernel_call *call) {
    const rota_attention_draw *draw = call->operands[5];
    const rota_attention_params all = params_of(call->params, draw->scale);
    return attention(call, &all, draw);
}

/* ---- backward ---- */

void rota_cpu_items_attention_backward_prepare(const void *params, const uint64_t *operand_bytes,
                                               uint64_t *out_items, uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_attention_backward_params *p = params;
    *out_items = (uint64_t)p->batch * p->heads * p->queries;
    *out_grain = 1 + ROTA_CPU_GRAIN / p->dim;
}

ROTA_VECTOR static float dot(const float *x, const float *y, uint64_t count) {
    float sum;
    ROTA_LANE_SUM(sum, count, x[i] * y[i]);
    return sum;
}

rota_status rota_cpu_attention_backward_prepare(const rota_kernel_call *call) {
    const rota_attention_backward_params *p = call->params;
    const rota_dtype dtype = dtype_of(p->flags);
    const float *lse = call->operands[2];
    float *stats = call->operands[3];
    for (uint64_t item = call->begin; item < call->end; item++) {
        uint64_t query = item % p->queries, head = item / p->queries % p->heads,
                 batch = item / p->queries / p->heads;
        uint64_t first = batch * p->out_stride[0] + head * p->out_stride[1] + query * p->out_stride[2];
        stats[2 * item] = lse[item];
        if (dtype == ROTA_F32) {
            stats[2 * item + 1] = dot((const float *)call->operands[0] + first,
                                      (const float *)call->operands[1] + first, p->dim);
            continue;
        }
        float sum = 0.0f;
        for (uint64_t d = 0; d < p->dim; d++)
            sum += widen(dtype, call->operands[0], first + d) * widen(dtype, call->operands[1], first + d);
        stats[2 * item + 1] = sum;
    }
    return ROTA_OK;
}

/* One head, and what its tiles are widened into: queries' rows of q and dout, keys' rows of k and v. */
typedef struct head_view {
    const rota_kernel_call *call;
    const rota_attention_backward_params *params;
    const rota_attention_draw *draw; /* NULL: no dropout */
    rota_dtype dtype;
    uint64_t batch, head;
    const float *stats;
    float *scratch;
} head_view;

static head_view head_of(const rota_kernel_call *call, const rota_attention_backward_params *p,
                         const rota_attention_draw *draw, uint64_t index, float *scratch) {
    return (head_view){.call = call,
                       .params = p,
                       .draw = draw,
                       .dtype = dtype_of(p->flags),
                       .batch = index / p->heads,
                       .head = index % p->heads,
                       .stats = (const float *)call->operands[4] + index * p->queries * 2,
                       .scratch = scratch};
}

#define HEAD_SCRATCH(dim) ((2 * QUERIES + 2 * KEYS) * (uint64_t)(dim))

/* q, k, v and dout (0 to 3), from a row on. */
static matrix part(const head_view *h, uint32_t operand, uint64_t row, uint64_t rows) {
    const rota_attention_backward_params *p = h->params;
    const uint32_t *const strides[] = {p->q_stride, p->kv_stride, p->kv_stride, p->out_stride};
    const uint64_t dim = p->dim,
                   buffers[] = {0, (uint64_t)2 * QUERIES * dim, (2 * QUERIES + KEYS) * dim, QUERIES * dim};
    return matrix_of(h->dtype, h->call->operands[operand], strides[operand], h->batch, h->head, row, rows,
                     dim, rota_cpu_part(h->scratch, buffers[operand]));
}

/* scores become p = exp(scores - lse), 0 where masked; dp becomes ds = p * (dp - delta). */
ROTA_VECTOR static void tile_gradient(const rota_attention_backward_params *p, uint64_t q0, uint64_t k0,
                                      uint64_t rows, uint64_t columns, const float *stats,
                                      float *restrict scores, float *restrict dp) {
    for (uint64_t r = 0; r < rows; r++) {
        const float lse = stats[2 * (q0 + r)], delta = stats[2 * (q0 + r) + 1];
        float *restrict s = scores + r * columns, *restrict d = dp + r * columns;
        uint64_t limit = key_limit((p->flags & ROTA_ATTENTION_CAUSAL), q0 + r, p->queries, p->keys);
        uint64_t seen = limit <= k0 ? 0 : least(limit - k0, columns);
        for (uint64_t i = 0; i < seen; i++) {
            s[i] = rota_cpu_exp(s[i] - lse);
            d[i] = s[i] * (d[i] - delta);
        }
        for (uint64_t i = seen; i < columns; i++) s[i] = d[i] = 0.0f;
    }
}

/* p (with dropout m * p) and ds of one tile. */
static void tile(const head_view *h, const matrix *q, const matrix *dout, const matrix *k, const matrix *v,
                 uint64_t q0, uint64_t k0, uint64_t rows, uint64_t columns, float *scores, float *dp) {
    const rota_attention_backward_params *p = h->params;
    float mask[QUERIES * KEYS];
    rota_cpu_sgemm(false, true, rows, columns, p->dim, p->scale, q->data, q->stride, k->data, k->stride, 0.0f,
                   scores, columns);
    rota_cpu_sgemm(false, true, rows, columns, p->dim, 1.0f, dout->data, dout->stride, v->data, v->stride,
                   0.0f, dp, columns);
    if (h->draw) {
        draw_tile(h->draw, p->flags & ROTA_ATTENTION_CAUSAL, h->batch * p->heads + h->head, p->queries,
                  p->keys, q0, k0, rows, columns, mask);
        multiply(dp, mask, rows * columns);
    }
    tile_gradient(p, q0, k0, rows, columns, h->stats, scores, dp);
    if (h->draw) multiply(scores, mask, rows * columns);
}

void rota_cpu_items_attention_backward_query(const void *params, const uint64_t *operand_bytes,
                                             uint64_t *out_items, uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_attention_backward_params *p = params;
    *out_items = (uint64_t)p->batch * p->heads * blocks(p->queries, QUERIES);
    *out_grain = 1 + (uint64_t)ROTA_CPU_GRAIN * 3 / (least(p->queries, QUERIES) * p->keys * p->dim);
}

static rota_status backward_query(const rota_kernel_call *call, const rota_attention_backward_params *p,
                                  const rota_attention_draw *draw) {
    const rota_dtype dtype = dtype_of(p->flags);
    const uint64_t count = blocks(p->queries, QUERIES);
    float scores[QUERIES * KEYS], dp[QUERIES * KEYS], *scratch = NULL;
    ROTA_TRY(scratch_of(dtype, HEAD_SCRATCH(p->dim) + QUERIES * (uint64_t)p->dim, &scratch));
    for (uint64_t item = call->begin; item < call->end; item++) {
        uint64_t q0 = item % count * QUERIES, index = item / count, rows = least(p->queries - q0, QUERIES);
        const head_view h = head_of(call, p, draw, index, scratch);
        const uint64_t first = element_of(p->q_stride, h.batch, h.head, q0);
        float *dq = scratch ? scratch + HEAD_SCRATCH(p->dim) : (float *)call->operands[5] + first;
        const uint64_t stride = scratch ? p->dim : p->q_stride[2];
        const matrix q = part(&h, 0, q0, rows), dout = part(&h, 3, q0, rows);
        uint64_t end = key_limit(p->flags & ROTA_ATTENTION_CAUSAL, q0 + rows - 1, p->queries, p->keys);
        for (uint64_t k0 = 0; k0 < end; k0 += KEYS) {
            uint64_t columns = least(end - k0, KEYS);
            const matrix k = part(&h, 1, k0, columns), v = part(&h, 2, k0, columns);
            tile(&h, &q, &dout, &k, &v, q0, k0, rows, columns, scores, dp);
            rota_cpu_sgemm(false, false, rows, p->dim, columns, p->scale, dp, columns, k.data, k.stride,
                           k0 == 0 ? 0.0f : 1.0f, dq, stride);
        }
        if (scratch) narrow(dtype, dq, rows, p->dim, call->operands[5], first, p->q_stride[2]);
    }
    free(scratch);
    return ROTA_OK;
}

rota_status rota_cpu_attention_backward_query(const rota_kernel_call *call) {
    return backward_query(call, call->params, NULL);
}

static rota_attention_backward_params backward_params_of(const rota_attention_drop_backward_params *p,
                                                         float scale) {
    rota_attention_backward_params all = {.batch = p->batch,
                                          .heads = p->heads,
                                          .queries = p->queries,
                                          .keys = p->keys,
                                          .dim = p->dim,
                                          .flags = p->flags,
                                          .scale = scale};
    memcpy(all.q_stride, p->q_stride, sizeof all.q_stride);
    memcpy(all.kv_stride, p->kv_stride, sizeof all.kv_stride);
    memcpy(all.out_stride, p->out_stride, sizeof all.out_stride);
    return all;
}

/* Of which items are counted, which divides by dim. */
static rota_attention_backward_params items_params_of(const void *params) {
    rota_attention_backward_params all = backward_params_of(params, 0.0f);
    all.dim += all.dim == 0;
    return all;
}

void rota_cpu_items_attention_dropout_backward_query(const void *params, const uint64_t *operand_bytes,
                                                     uint64_t *out_items, uint64_t *out_grain) {
    const rota_attention_backward_params all = items_params_of(params);
    rota_cpu_items_attention_backward_query(&all, operand_bytes, out_items, out_grain);
}

rota_status rota_cpu_attention_dropout_backward_query(const rota_kernel_call *call) {
    const rota_attention_draw *draw = call->operands[6];
    const rota_attention_backward_params all = backward_params_of(call->params, draw->scale);
    return backward_query(call, &all, draw);
}

void rota_cpu_items_attention_backward_key_value(const void *params, const uint64_t *operand_bytes,
                                                 uint64_t *out_items, uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_attention_backward_params *p = params;
    *out_items = (uint64_t)p->batch * p->heads * blocks(p->keys, KEYS);
    *out_grain = 1 + (uint64_t)ROTA_CPU_GRAIN * 2 / (least(p->keys, KEYS) * p->queries * p->dim);
}

static rota_status backward_key_value(const rota_kernel_call *call, const rota_attention_backward_params *p,
                                      const rota_attention_draw *draw) {
    const rota_dtype dtype = dtype_of(p->flags);
    const uint64_t count = blocks(p->keys, KEYS), results = KEYS * (uint64_t)p->dim;
    float scores[QUERIES * KEYS], dp[QUERIES * KEYS], *scratch = NULL;
    ROTA_TRY(scratch_of(dtype, HEAD_SCRATCH(p->dim) + 2 * results, &scratch));
    for (uint64_t item = call->begin; item < call->end; item++) {
        uint64_t k0 = item % count * KEYS, index = item / count, columns = least(p->keys - k0, KEYS);
        const head_view h = head_of(call, p, draw, index, scratch);
        const uint64_t first = element_of(p->kv_stride, h.batch, h.head, k0);
        float *dk = scratch ? scratch + HEAD_SCRATCH(p->dim) : (float *)call->operands[5] + first;
        float *dv = scratch ? dk + results : (float *)call->operands[6] + first;
        const uint64_t stride = scratch ? p->dim : p->kv_stride[2];
        const matrix k = part(&h, 1, k0, columns), v = part(&h, 2, k0, columns);
        /* The first query that sees key k0; every key is seen by the last query. */
        uint64_t hidden = p->keys - p->queries;
        uint64_t start = p->flags & ROTA_ATTENTION_CAUSAL && k0 > hidden ? k0 - hidden : 0;
        for (uint64_t q0 = start; q0 < p->queries; q0 += QUERIES) {
            uint64_t rows = least(p->queries - q0, QUERIES);
            float beta = q0 == start ? 0.0f : 1.0f;
            const matrix q = part(&h, 0, q0, rows), dout = part(&h, 3, q0, rows);
            tile(&h, &q, &dout, &k, &v, q0, k0, rows, columns, scores, dp);
            rota_cpu_sgemm(true, false, columns, p->dim, rows, 1.0f, scores, columns, dout.data, dout.stride,
                           beta, dv, stride);
            rota_cpu_sgemm(true, false, columns, p->dim, rows, p->scale, dp, columns, q.data, q.stride, beta,
                           dk, stride);
        }
        if (!scratch) continue;
        narrow(dtype, dk, columns, p->dim, call->operands[5], first, p->kv_stride[2]);
        narrow(dtype, dv, columns, p->dim, call->operands[6], first, p->kv_stride[2]);
    }
    free(scratch);
    return ROTA_OK;
}

rota_status rota_cpu_attention_backward_key_value(const rota_kernel_call *call) {
    return backward_key_value(call, call->params, NULL);
}

void rota_cpu_items_attention_dropout_backward_key_value(const void *params, const uint64_t *operand_bytes,
                                                         uint64_t *out_items, uint64_t *out_grain) {
    const rota_attention_backward_params all = items_params_of(params);
    rota_cpu_items_attention_backward_key_value(&all, operand_bytes, out_items, out_grain);
}

rota_status rota_cpu_attention_dropout_backward_key_value(const rota_kernel_call *call) {
    const rota_attention_draw *draw = call->operands[7];
    const rota_attention_backward_params all = backward_params_of(call->params, draw->scale);
    return backward_key_value(call, &all, draw);
}
