/* CUDA kernels along rows of scores: softmax, softmax_backward, causal_mask, cross_entropy, cross_entropy_backward,
 * cross_entropy_join, cross_entropy_mean. A warp or a block owns a row; what it reads a second time comes from the
 * caches. */
#include "ops/cuda/values.cuh"

/* Keys that the query of a row sees. */
ROTA_DEVICE uint32_t visible(uint64_t row, uint32_t n, uint32_t queries) {
    return static_cast<uint32_t>(row % queries) + n - queries + 1;
}

/* 0 for the elements that a query does not see, beyond those that share a vector with one that it sees. */
template <bool HALF, bool BLOCK, int W>
ROTA_DEVICE void clear_from(const row_threads<BLOCK> &t, const values<HALF> &y, uint32_t seen, uint32_t n, bool whole) {
    if (seen == n) return;
    t.template walk<W>(n, [&](uint32_t i) {
        if (i >= seen) y.template store<W>(i, pack<W>{}, whole);
    });
}

template <bool HALF, bool BLOCK, int W, typename A> ROTA_DEVICE void softmax_row(const A &args) {
    const rota_softmax_params &p = args.params;
    const row_threads<BLOCK> t;
    if (t.row >= p.rows) return;
    const values<HALF> x(rota_operand<const void>(args, 0), t.row * p.n, p.dtype);
    const values<HALF> y(rota_operand<void>(args, 1), t.row * p.n, p.dtype);
    const bool whole = x.aligned() && y.aligned();
    const uint32_t seen = p.causal ? visible(t.row, p.n, p.queries) : p.n;
    kept_values<HALF, BLOCK, W> row = {{x}, whole};
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
    sum = t.sum(sum);
    const float inverse = 1.0f / sum, lse = p.log ? maximum + logf(sum) : 0.0f;
    row.pass(t, seen, [&](uint32_t i, const pack<W> *value) {
        pack<W> result;
#pragma unroll
        for (int j = 0; j < W; j++) {
            const float x = p.scale * value->v[j];
            result.v[j] = i + j >= seen ? 0.0f : p.log ? x - lse : expf(x - maximum) * inverse;
        }
        y.template store<W>(i, result, whole);
    });
    clear_from<HALF, BLOCK, W>(t, y, seen, p.n, whole);
}

ROTA_KERNEL(softmax, 2, rota_softmax_params, ROTA_CUDA_ROW_THREADS) {
    ROTA_BY_VALUES(args.params.dtype, args.params.n, softmax_row, args);
}

template <bool HALF, bool BLOCK, int W, typename A> ROTA_DEVICE void softmax_backward_row(const A &args) {
    const rota_softmax_params &p = args.params;
    const row_threads<BLOCK> t;
    if (t.row >= p.rows) return;
    const values<HALF> y(rota_operand<const void>(args, 0), t.row * p.n, p.dtype);
    const values<HALF> dy(rota_operand<const void>(args, 1), t.row * p.n, p.dtype);
    const values<HALF> dx(rota_operand<void>(args, 2), t.row * p.n, p.dtype);
    const bool whole = y.aligned() && dy.aligned() && dx.aligned();
    const uint32_t seen = p.causal ? visible(t.row, p.n, p.queries) : p.n;
    kept_values<HALF, BLOCK, W, 2> row = {{y, dy}, whole};
    float sum = 0.0f;
    row.pass(t, seen, [&](uint32_t i, const pack<W> *value) {
#pragma unroll
        for (int j = 0; j < W; j++)
            if (i + j < seen) sum = fmaf(p.log ? 1.0f : value[0].v[j], value[1].v[j], sum);
    });
    sum = t.sum(sum);
    row.pass(t, seen, [&](uint32_t i, const pack<W> *value) {
        pack<W> result;
#pragma unroll
        for (int j = 0; j < W; j++)
            result.v[j] = i + j >= seen ? 0.0f
                          : p.log       ? p.scale * (value[1].v[j] - expf(value[0].v[j]) * sum)
                                        : p.scale * value[0].v[j] * (value[1].v[j] - sum);
        dx.template store<W>(i, result, whole);
    });
    clear_from<HALF, BLOCK, W>(t, dx, seen, p.n, whole);
}

ROTA_KERNEL(softmax_backward, 3, rota_softmax_params, ROTA_CUDA_ROW_THREADS) {
    ROTA_BY_VALUES(args.params.dtype, args.params.n, softmax_backward_row, args);
}

template <bool HALF, bool BLOCK, int W, typename A> ROTA_DEVICE void causal_mask_row(const A &args) {
    const rota_causal_mask_params &p = args.params;
    const row_threads<BLOCK> t;
    if (t.row >= p.rows) return;
    const values<HALF> x(rota_operand<const void>(args, 0), t.row * p.n, p.dtype);
    const values<HALF> y(rota_operand<void>(args, 1), t.row * p.n, p.dtype);
    const bool whole = x.aligned() && y.aligned();
    const uint32_t seen = visible(t.row, p.n, p.queries);
    t.template walk<W>(p.n, [&](uint32_t i) {
        pack<W> value = {};
        if (i < seen) value = x.template load<W>(i, whole);
#pragma unroll
        for (int j = 0; j < W; j++)
            if (i + j >= seen) value.v[j] = p.value;
        y.template store<W>(i, value, whole);
    });
}

ROTA_KERNEL(causal_mask, 2, rota_causal_mask_params, ROTA_CUDA_ROW_THREADS) {
    ROTA_BY_VALUES(args.params.dtype, args.params.n, causal_mask_row, args);
}

/* A label outside gives NaN, an ignored one 0. Maximum and sum in one pass (online softmax: Milakov and Gimelshein,
 * 2018): the sum so far is rescaled where a vector holds a new maximum. */
template <bool HALF, bool BLOCK, int W, typename A> ROTA_DEVICE void cross_entropy_row(const A &args) {
    const rota_cross_entropy_params &p = args.params;
    const row_threads<BLOCK> t;
    if (t.row >= p.rows) return;
    const values<HALF> logits(rota_operand<const void>(args, 0), t.row * p.pitch, p.dtype);
    kept_values<HALF, BLOCK, W> row = {{logits}, logits.aligned()};
    float maximum = negative_infinity(), sum = 0.0f, total = 0.0f;
    row.pass(t, p.pitch, [&](uint32_t i, const pack<W> *read) {
        if (i >= p.classes) return;
        pack<W> value = *read;
        if (i + W > p.classes) {
#pragma unroll
            for (int j = 1; j < W; j++)
                if (i + j >= p.classes) value.v[j] = negative_infinity();
        }
        float most[W]; /* of what are numbers: the sum is NaN if one is not */
#pragma unroll
        for (int j = 0; j < W; j++) most[j] = value.v[j];
#pragma unroll
        for (int step = W / 2; step > 0; step /= 2)
#pragma unroll
            for (int j = 0; j < step; j++) most[j] = fmaxf(most[j], most[j + step]);
        if (!(most[0] <= maximum)) {
            sum *= quick_exp(maximum - most[0]);
            maximum = most[0];
        }
        const float base = maximum == negative_infinity() ? 0.0f : maximum;
        float part = 0.0f;
#pragma unroll
        for (int j = 0; j < W; j++) part += quick_exp(value.v[j] - base);
        sum += part;
        if (p.smoothing == 0.0f) return;
#pragma unroll
        for (int j = 0; j < W; j++)
            if (i + j < p.classes) total += value.v[j];
    });
    const float highest = t.maximum(maximum);
    sum = t.sum(maximum == negative_infinity() ? 0.0f : sum * quick_exp(maximum - highest));
    if (p.smoothing != 0.0f) total = t.sum(total);
    const float lse = highest + logf(sum);
    if (t.lane != 0) return;
    const int32_t given = rota_operand<const int32_t>(args, 1)[t.row];
    const uint32_t label = static_cast<uint32_t>(given) - p.first, all = p.all ? p.all : p.classes;
    float loss = not_a_number();
    if (given == p.ignored)
        loss = 0.0f;
    else if (static_cast<uint32_t>(given) < all) /* a negative one is far outside */
        loss = (p.all ? 0.0f : lse) - (label < p.classes ? (1.0f - p.smoothing) * logits.at(label) : 0.0f) -
               (p.smoothing != 0.0f ? p.smoothing * total / static_cast<float>(all) : 0.0f);
    rota_operand<float>(args, 2)[t.row] = loss;
    rota_operand<float>(args, 3)[t.row] = lse;
}

ROTA_KERNEL(cross_entropy, 4, rota_cross_entropy_params, ROTA_CUDA_ROW_THREADS) {
    ROTA_BY_VALUES(args.params.dtype, args.params.pitch, cross_entropy_row, args);
}

/* A thread per row: of parts of its classes, those of neighbours side by side. */
ROTA_KERNEL(cross_entropy_join, 4, rota_cross_entropy_join_params, ROTA_CUDA_THREADS) {
    const rota_cross_entropy_join_params &p = args.params;
    const uint64_t row = rota_index();
    if (row >= p.rows) return;
    const float *parts = rota_operand<const float>(args, 0) + row;
    float maximum = negative_infinity(), sum = 0.0f, loss = 0.0f;
    for (uint64_t r = 0; r < p.ranks; r++) maximum = larger(maximum, parts[(2 * r + 1) * p.rows]);
    for (uint64_t r = 0; r < p.ranks; r++) {
        sum += expf(parts[(2 * r + 1) * p.rows] - maximum);
        loss += parts[2 * r * p.rows];
    }
    const float lse = maximum + logf(sum);
    rota_operand<float>(args, 2)[row] = rota_operand<const int32_t>(args, 1)[row] == p.ignored ? 0.0f : lse + loss;
    rota_operand<float>(args, 3)[row] = lse;
}

/* One block. */
ROTA_KERNEL(cross_entropy_mean, 4, rota_cross_entropy_params, ROTA_CUDA_ROW_THREADS) {
    const rota_cross_entropy_params &p = args.params;
    const row_threads<true> t;
    if (t.row != 0) return;
    const float *loss = rota_operand<const float>(args, 0);
    const int32_t *labels = rota_operand<const int32_t>(args, 1);
    float sum = 0.0f;
    int own = 0;
    t.walk<1>(p.rows, [&](uint32_t i) {
        sum += loss[i];
        own += labels[i] != p.ignored;
    });
    sum = t.sum(sum);
    __shared__ int counted;
    if (t.lane == 0) counted = 0;
    __syncthreads();
    atomicAdd(&counted, own); /* of integers: in any order */
    __syncthreads();
    if (t.lane != 0) return;
    const float inverse = 1.0f / static_cast<float>(counted);
    *rota_operand<float>(args, 2) = sum * inverse;
    *rota_operand<float>(args, 3) = inverse;
}

template <bool HALF, bool BLOCK, int W, typename A> ROTA_DEVICE void cross_entropy_backward_row(const A &args) {
    const rota_cross_entropy_params &p = args.params;
    const row_threads<BLOCK> t;
    if (t.row >= p.rows) return;
    const values<HALF> logits(rota_operand<const void>(args, 0), t.row * p.pitch, p.dtype);
    const values<HALF> dlogits(rota_operand<void>(args, 5), t.row * p.pitch, p.dtype);
    const int32_t given = rota_operand<const int32_t>(args, 1)[t.row];
    const uint32_t label = static_cast<uint32_t>(given) - p.first, all = p.all ? p.all : p.classes;
    const float lse = rota_operand<const float>(args, 2)[t.row];
    const float factor = *rota_operand<const float>(args, 3) * *rota_operand<const float>(args, 4);
    const float scale = static_cast<uint32_t>(given) < all ? factor : not_a_number();
    const float hot = 1.0f - p.smoothing, every = p.smoothing / static_cast<float>(all);
    const bool whole = logits.aligned() && dlogits.aligned(), ignored = given == p.ignored;
    /* All of a thread's loads of a stride before its stores, which may be to the same memory. */
    constexpr uint32_t K = 4, STEP = row_threads<BLOCK>::size * W;
    for (uint64_t first = t.lane * W; first < p.pitch; first += K * STEP) {
        pack<W> value[K];
#pragma unroll
        for (uint32_t k = 0; k < K; k++)
            if (first + k * STEP < p.pitch && !ignored) value[k] = logits.template load<W>(first + k * STEP, whole);
#pragma unroll
        for (uint32_t k = 0; k < K; k++) {
            if (first + k * STEP >= p.pitch) break;
            const uint32_t i = static_cast<uint32_t>(first + k * STEP);
            pack<W> &v = value[k];
            if (i + W <= p.classes && label - i >= W && !ignored) {
#pragma unroll
                for (int j = 0; j < W; j++) v.v[j] = (quick_exp(v.v[j] - lse) - every) * scale;
            } else {
#pragma unroll
                for (int j = 0; j < W; j++)
                    v.v[j] = ignored || i + j >= p.classes
                                 ? 0.0f
                                 : (quick_exp(v.v[j] - lse) - (i + j == label ? hot : 0.0f) - every) * scale;
            }
            dlogits.template store<W>(i, v, whole);
        }
    }
}

ROTA_KERNEL(cross_entropy_backward, 6, rota_cross_entropy_params, ROTA_CUDA_ROW_THREADS) {
    ROTA_BY_VALUES(args.params.dtype, args.params.pitch, cross_entropy_backward_row, args);
}
