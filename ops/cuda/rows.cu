/* CUDA kernels along rows of scores: softmax, softmax_backward, causal_mask, cross_entropy, cross_entropy_backward. A
 * warp or a block owns a row; what it reads a second time comes from the caches. */
#include "ops/cuda/common.cuh"

/* Keys that the query of a row sees. */
ROTA_DEVICE uint32_t visible(uint64_t row, uint32_t n, uint32_t queries) {
    return static_cast<uint32_t>(row % queries) + n - queries + 1;
}

/* 0 for the elements that a query does not see, beyond those that share a vector with one that it sees. */
template <bool BLOCK, int W>
ROTA_DEVICE void clear_from(const row_threads<BLOCK> &t, float *y, uint32_t seen, uint32_t n, bool whole) {
    if (seen == n) return;
    t.template walk<W>(n, [&](uint32_t i) {
        if (i >= seen) store(y + i, pack<W>{}, whole);
    });
}

template <bool BLOCK, int W, typename A> ROTA_DEVICE void softmax_row(const A &args) {
    const rota_softmax_params &p = args.params;
    const row_threads<BLOCK> t;
    if (t.row >= p.rows) return;
    const float *x = rota_operand<const float>(args, 0) + t.row * p.n;
    float *y = rota_operand<float>(args, 1) + t.row * p.n;
    const bool whole = aligned16(x) && aligned16(y);
    const uint32_t seen = p.causal ? visible(t.row, p.n, p.queries) : p.n;
    kept_row<BLOCK, W> row = {{x}};
    row.whole = whole;
    float maximum = negative_infinity(), sum = 0.0f;
    row.pass(t, seen, [&](uint32_t i, const pack<W> *value) {
#pragma unroll
        for (int j = 0; j < W; j++)
            if (i + j < seen) maximum = larger(p.scale * value->v[j], maximum);
    });
    maximum = t.maximum(maximum);
    row.pass(t, seen, [&](uint32_t i, const pack<W> *value) {
#pragma unroll
        for (int j = 0; j < W; j++)
            if (i + j < seen) sum += expf(p.scale * value->v[j] - maximum);
    });
    const float inverse = 1.0f / t.sum(sum);
    row.pass(t, seen, [&](uint32_t i, const pack<W> *value) {
        pack<W> result;
#pragma unroll
        for (int j = 0; j < W; j++)
            result.v[j] = i + j < seen ? expf(p.scale * value->v[j] - maximum) * inverse : 0.0f;
        store(y + i, result, whole);
    });
    clear_from<BLOCK, W>(t, y, seen, p.n, whole);
}

ROTA_KERNEL(softmax, 2, rota_softmax_params, ROTA_CUDA_ROW_THREADS) { ROTA_BY_ROW(args.params.n, softmax_row, args); }

template <bool BLOCK, int W, typename A> ROTA_DEVICE void softmax_backward_row(const A &args) {
    const rota_softmax_params &p = args.params;
    const row_threads<BLOCK> t;
    if (t.row >= p.rows) return;
    const float *y = rota_operand<const float>(args, 0) + t.row * p.n;
    const float *dy = rota_operand<const float>(args, 1) + t.row * p.n;
    float *dx = rota_operand<float>(args, 2) + t.row * p.n;
    const bool whole = aligned16(y) && aligned16(dy) && aligned16(dx);
    const uint32_t seen = p.causal ? visible(t.row, p.n, p.queries) : p.n;
    kept_row<BLOCK, W, 2> row = {{y, dy}};
    row.whole = whole;
    float sum = 0.0f;
    row.pass(t, seen, [&](uint32_t i, const pack<W> *value) {
#pragma unroll
        for (int j = 0; j < W; j++)
            if (i + j < seen) sum = fmaf(value[0].v[j], value[1].v[j], sum);
    });
    sum = t.sum(sum);
    row.pass(t, seen, [&](uint32_t i, const pack<W> *value) {
        pack<W> result;
#pragma unroll
        for (int j = 0; j < W; j++)
            result.v[j] = i + j < seen ? p.scale * value[0].v[j] * (value[1].v[j] - sum) : 0.0f;
        store(dx + i, result, whole);
    });
    clear_from<BLOCK, W>(t, dx, seen, p.n, whole);
}

ROTA_KERNEL(softmax_backward, 3, rota_softmax_params, ROTA_CUDA_ROW_THREADS) {
    ROTA_BY_ROW(args.params.n, softmax_backward_row, args);
}

template <bool BLOCK, int W, typename A> ROTA_DEVICE void causal_mask_row(const A &args) {
    const rota_causal_mask_params &p = args.params;
    const row_threads<BLOCK> t;
    if (t.row >= p.rows) return;
    const float *x = rota_operand<const float>(args, 0) + t.row * p.n;
    float *y = rota_operand<float>(args, 1) + t.row * p.n;
    const bool whole = aligned16(x) && aligned16(y);
    const uint32_t seen = visible(t.row, p.n, p.queries);
    t.template walk<W>(p.n, [&](uint32_t i) {
        pack<W> value = {};
        if (i < seen) value = load<W>(x + i, whole);
#pragma unroll
        for (int j = 0; j < W; j++)
            if (i + j >= seen) value.v[j] = p.value;
        store(y + i, value, whole);
    });
}

ROTA_KERNEL(causal_mask, 2, rota_causal_mask_params, ROTA_CUDA_ROW_THREADS) {
    ROTA_BY_ROW(args.params.n, causal_mask_row, args);
}

/* A label outside gives NaN. */
template <bool BLOCK, int W, typename A> ROTA_DEVICE void cross_entropy_row(const A &args) {
    const rota_cross_entropy_params &p = args.params;
    const row_threads<BLOCK> t;
    if (t.row >= p.rows) return;
    const float *logits = rota_operand<const float>(args, 0) + t.row * p.classes;
    kept_row<BLOCK, W> row = {{logits}};
    row.whole = aligned16(logits);
    float maximum = negative_infinity(), sum = 0.0f;
    row.pass(t, p.classes, [&](uint32_t, const pack<W> *value) {
#pragma unroll
        for (int j = 0; j < W; j++) maximum = larger(value->v[j], maximum);
    });
    maximum = t.maximum(maximum);
    row.pass(t, p.classes, [&](uint32_t, const pack<W> *value) {
#pragma unroll
        for (int j = 0; j < W; j++) sum += expf(value->v[j] - maximum);
    });
    const float lse = maximum + logf(t.sum(sum));
    if (t.lane != 0) return;
    const uint32_t label = rota_operand<const uint32_t>(args, 1)[t.row]; /* a negative one is far outside */
    rota_operand<float>(args, 2)[t.row] = label < p.classes ? lse - logits[label] : not_a_number();
    rota_operand<float>(args, 3)[t.row] = lse;
}

ROTA_KERNEL(cross_entropy, 4, rota_cross_entropy_params, ROTA_CUDA_ROW_THREADS) {
    ROTA_BY_ROW(args.params.classes, cross_entropy_row, args);
}

template <bool BLOCK, int W, typename A> ROTA_DEVICE void cross_entropy_backward_row(const A &args) {
    const rota_cross_entropy_params &p = args.params;
    const row_threads<BLOCK> t;
    if (t.row >= p.rows) return;
    const float *logits = rota_operand<const float>(args, 0) + t.row * p.classes;
    const uint32_t label = rota_operand<const uint32_t>(args, 1)[t.row];
    const float lse = rota_operand<const float>(args, 2)[t.row], dloss = *rota_operand<const float>(args, 3);
    float *dlogits = rota_operand<float>(args, 4) + t.row * p.classes;
    const float scale = label < p.classes ? dloss * p.scale : not_a_number();
    const bool whole = aligned16(logits) && aligned16(dlogits);
    t.template walk<W>(p.classes, [&](uint32_t i) {
        pack<W> value = load<W>(logits + i, whole);
#pragma unroll
        for (int j = 0; j < W; j++) value.v[j] = (expf(value.v[j] - lse) - (i + j == label ? 1.0f : 0.0f)) * scale;
        store(dlogits + i, value, whole);
    });
}

ROTA_KERNEL(cross_entropy_backward, 5, rota_cross_entropy_params, ROTA_CUDA_ROW_THREADS) {
    ROTA_BY_ROW(args.params.classes, cross_entropy_backward_row, args);
}
