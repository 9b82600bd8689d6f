/* CPU kernels: fused attention and its gradients, tile by tile, so that the scores never leave the cache. An
 * item is a block of QUERIES queries (or KEYS keys) of one head; the other side is walked in tiles, in order.
 */
#include "cpu.h"

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

/* ---- forward ---- */

void rota_cpu_items_attention(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                              uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_attention_params *p = params;
    *out_items = (uint64_t)p->batch * p->heads * blocks(p->queries, QUERIES);
    *out_grain = 1 + ROTA_CPU_GRAIN * 4 / (least(p->queries, QUERIES) * p->keys * p->dim);
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

rota_status rota_cpu_attention(const rota_kernel_call *call) {
    const rota_attention_params *p = call->params;
    const uint64_t count = blocks(p->queries, QUERIES);
    float scores[QUERIES * KEYS], maximum[QUERIES], sum[QUERIES];
    for (uint64_t item = call->begin; item < call->end; item++) {
        uint64_t q0 = item % count * QUERIES, head = item / count % p->heads, batch = item / count / p->heads;
        uint64_t rows = least(p->queries - q0, QUERIES);
        const float *q = (const float *)call->operands[0] + batch * p->q_stride[0] + head * p->q_stride[1] +
                         q0 * p->q_stride[2];
        const float *k = (const float *)call->operands[1] + batch * p->k_stride[0] + head * p->k_stride[1];
        const float *v = (const float *)call->operands[2] + batch * p->v_stride[0] + head * p->v_stride[1];
        float *out = (float *)call->operands[3] + batch * p->out_stride[0] + head * p->out_stride[1] +
                     q0 * p->out_stride[2];
        float *lse = (float *)call->operands[4] + (batch * p->heads + head) * p->queries + q0;
        for (uint64_t r = 0; r < QUERIES; r++) maximum[r] = -INFINITY;
        uint64_t end = key_limit(p->causal, q0 + rows - 1, p->queries, p->keys);
        for (uint64_t k0 = 0; k0 < end; k0 += KEYS) {
            uint64_t columns = least(end - k0, KEYS);
            rota_cpu_sgemm(false, true, rows, columns, p->dim, p->scale, q, p->q_stride[2],
                           k + k0 * p->k_stride[2], p->k_stride[2], 0.0f, scores, columns);
            tile_softmax(p->causal, q0, k0, p->queries, p->keys, rows, columns, scores, maximum, sum, out,
                         p->out_stride[2], p->dim);
            rota_cpu_sgemm(false, false, rows, p->dim, columns, 1.0f, scores, columns,
                           v + k0 * p->v_stride[2], p->v_stride[2], k0 == 0 ? 0.0f : 1.0f, out,
                           p->out_stride[2]);
        }
        finish(rows, maximum, sum, out, p->out_stride[2], p->dim, lse);
    }
    return ROTA_OK;
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
    const float *out = call->operands[0], *dout = call->operands[1], *lse = call->operands[2];
    float *stats = call->operands[3];
    for (uint64_t item = call->begin; item < call->end; item++) {
        uint64_t query = item % p->queries, head = item / p->queries % p->heads,
                 batch = item / p->queries / p->heads;
        uint64_t at = batch * p->out_stride[0] + head * p->out_stride[1] + query * p->out_stride[2];
        stats[2 * item] = lse[item];
        stats[2 * item + 1] = dot(out + at, dout + at, p->dim);
    }
    return ROTA_OK;
}

/* Addresses of one head. */
typedef struct head_view {
    const float *q, *k, *v, *dout, *stats;
} head_view;

static head_view head_of(const rota_kernel_call *call, uint64_t index) {
    const rota_attention_backward_params *p = call->params;
    uint64_t head = index % p->heads, batch = index / p->heads;
    uint64_t kv = batch * p->kv_stride[0] + head * p->kv_stride[1];
    return (head_view){
        .q = (const float *)call->operands[0] + batch * p->q_stride[0] + head * p->q_stride[1],
        .k = (const float *)call->operands[1] + kv,
        .v = (const float *)call->operands[2] + kv,
        .dout = (const float *)call->operands[3] + batch * p->out_stride[0] + head * p->out_stride[1],
        .stats = (const float *)call->operands[4] + index * p->queries * 2,
    };
}

/* scores become p = exp(scores - lse), 0 where masked; dp becomes ds = p * (dp - delta). */
ROTA_VECTOR static void tile_gradient(const rota_attention_backward_params *p, uint64_t q0, uint64_t k0,
                                      uint64_t rows, uint64_t columns, const float *stats,
                                      float *restrict scores, float *restrict dp) {
    for (uint64_t r = 0; r < rows; r++) {
        const float lse = stats[2 * (q0 + r)], delta = stats[2 * (q0 + r) + 1];
        float *restrict s = scores + r * columns, *restrict d = dp + r * columns;
        uint64_t limit = key_limit(p->causal, q0 + r, p->queries, p->keys);
        uint64_t seen = limit <= k0 ? 0 : least(limit - k0, columns);
        for (uint64_t i = 0; i < seen; i++) {
            s[i] = rota_cpu_exp(s[i] - lse);
            d[i] = s[i] * (d[i] - delta);
        }
        for (uint64_t i = seen; i < columns; i++) s[i] = d[i] = 0.0f;
    }
}

/* p and ds of one tile. */
static void tile(const rota_attention_backward_params *p, const head_view *h, uint64_t q0, uint64_t k0,
                 uint64_t rows, uint64_t columns, float *scores, float *dp) {
    rota_cpu_sgemm(false, true, rows, columns, p->dim, p->scale, h->q + q0 * p->q_stride[2], p->q_stride[2],
                   h->k + k0 * p->kv_stride[2], p->kv_stride[2], 0.0f, scores, columns);
    rota_cpu_sgemm(false, true, rows, columns, p->dim, 1.0f, h->dout + q0 * p->out_stride[2],
                   p->out_stride[2], h->v + k0 * p->kv_stride[2], p->kv_stride[2], 0.0f, dp, columns);
    tile_gradient(p, q0, k0, rows, columns, h->stats, scores, dp);
}

void rota_cpu_items_attention_backward_query(const void *params, const uint64_t *operand_bytes,
                                             uint64_t *out_items, uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_attention_backward_params *p = params;
    *out_items = (uint64_t)p->batch * p->heads * blocks(p->queries, QUERIES);
    *out_grain = 1 + ROTA_CPU_GRAIN * 3 / (least(p->queries, QUERIES) * p->keys * p->dim);
}

rota_status rota_cpu_attention_backward_query(const rota_kernel_call *call) {
    const rota_attention_backward_params *p = call->params;
    const uint64_t count = blocks(p->queries, QUERIES);
    float scores[QUERIES * KEYS], dp[QUERIES * KEYS];
    for (uint64_t item = call->begin; item < call->end; item++) {
        uint64_t q0 = item % count * QUERIES, index = item / count, rows = least(p->queries - q0, QUERIES);
        head_view h = head_of(call, index);
        float *dq =
            (float *)call->operands[5] + (h.q - (const float *)call->operands[0]) + q0 * p->q_stride[2];
        uint64_t end = key_limit(p->causal, q0 + rows - 1, p->queries, p->keys);
        for (uint64_t k0 = 0; k0 < end; k0 += KEYS) {
            uint64_t columns = least(end - k0, KEYS);
            tile(p, &h, q0, k0, rows, columns, scores, dp);
            rota_cpu_sgemm(false, false, rows, p->dim, columns, p->scale, dp, columns,
                           h.k + k0 * p->kv_stride[2], p->kv_stride[2], k0 == 0 ? 0.0f : 1.0f, dq,
                           p->q_stride[2]);
        }
    }
    return ROTA_OK;
}

void rota_cpu_items_attention_backward_key_value(const void *params, const uint64_t *operand_bytes,
                                                 uint64_t *out_items, uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_attention_backward_params *p = params;
    *out_items = (uint64_t)p->batch * p->heads * blocks(p->keys, KEYS);
    *out_grain = 1 + ROTA_CPU_GRAIN * 2 / (least(p->keys, KEYS) * p->queries * p->dim);
}

rota_status rota_cpu_attention_backward_key_value(const rota_kernel_call *call) {
    const rota_attention_backward_params *p = call->params;
    const uint64_t count = blocks(p->keys, KEYS);
    float scores[QUERIES * KEYS], dp[QUERIES * KEYS];
    for (uint64_t item = call->begin; item < call->end; item++) {
        uint64_t k0 = item % count * KEYS, index = item / count, columns = least(p->keys - k0, KEYS);
        head_view h = head_of(call, index);
        uint64_t at = (uint64_t)(h.k - (const float *)call->operands[1]) + k0 * p->kv_stride[2];
        float *dk = (float *)call->operands[5] + at, *dv = (float *)call->operands[6] + at;
        /* The first query that sees key k0; every key is seen by the last query. */
        uint64_t hidden = p->keys - p->queries;
        uint64_t start = p->causal && k0 > hidden ? k0 - hidden : 0;
        for (uint64_t q0 = start; q0 < p->queries; q0 += QUERIES) {
            uint64_t rows = least(p->queries - q0, QUERIES);
            float beta = q0 == start ? 0.0f : 1.0f;
            tile(p, &h, q0, k0, rows, columns, scores, dp);
            rota_cpu_sgemm(true, false, columns, p->dim, rows, 1.0f, scores, columns,
                           h.dout + q0 * p->out_stride[2], p->out_stride[2], beta, dv, p->kv_stride[2]);
            rota_cpu_sgemm(true, false, columns, p->dim, rows, p->scale, dp, columns,
                           h.q + q0 * p->q_stride[2], p->q_stride[2], beta, dk, p->kv_stride[2]);
        }
    }
    return ROTA_OK;
}
