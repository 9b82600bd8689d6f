/* CUDA kernels: batch_norm_sums, batch_norm_update, batch_norm, batch_norm_backward, and rope. */
#include "ops/cuda/values.cuh"

ROTA_DEVICE float rstd_of(const rota_batch_norm_params &p, float spread) {
    return p.flags & ROTA_BATCH_NORM_VARIANCE ? 1.0f / sqrtf(spread + p.eps) : spread;
}

/* A thread adds up a chunk of the elements of one channel, in order. */
template <bool HALF, typename A> ROTA_DEVICE void sums_of(const A &args) {
    const rota_batch_norm_params &p = args.params;
    const uint64_t n = static_cast<uint64_t>(p.outer) * p.inner, chunks = (n + p.chunk - 1) / p.chunk,
                   result = rota_index();
    if (result >= chunks * p.channels) return;
    const uint64_t c = result % p.channels, begin = result / p.channels * p.chunk, end = min(begin + p.chunk, n);
    const values<HALF> x(rota_operand<const void>(args, 0), 0, p.dtype),
        dy(rota_operand<const void>(args, 3), 0, p.dtype);
    const bool backward = p.flags & ROTA_BATCH_NORM_BACKWARD, squares = p.flags & ROTA_BATCH_NORM_SQUARES;
    const float mean = p.flags & ROTA_BATCH_NORM_MEAN ? 0.0f : rota_operand<const float>(args, 1)[c];
    const float rstd = backward ? rstd_of(p, rota_operand<const float>(args, 2)[c]) : 0.0f;
    float sum = 0.0f, more = 0.0f;
#pragma unroll 4
    for (uint64_t e = begin; e < end; e++) {
        const uint64_t element = (e / p.inner * p.channels + c) * p.inner + e % p.inner;
        const float value = x.at(element) - mean;
        if (backward) {
            const float g = dy.at(element);
            sum = fmaf(g, value * rstd, sum);
            more += g;
        } else
            sum += squares ? value * value : value;
    }
    float *partial = rota_operand<float>(args, 4);
    partial[result] = sum;
    if (backward) partial[chunks * p.channels + result] = more;
}

ROTA_KERNEL(batch_norm_sums, 5, rota_batch_norm_params, ROTA_CUDA_THREADS) {
    if (args.params.dtype == DTYPE_F32)
        sums_of<false>(args);
    else
        sums_of<true>(args);
}

ROTA_KERNEL(batch_norm_update, 5, rota_batch_norm_params, ROTA_CUDA_THREADS) {
    const rota_batch_norm_params &p = args.params;
    const uint64_t c = rota_index();
    if (c >= p.channels) return;
    const float n = static_cast<float>(static_cast<uint64_t>(p.outer) * p.inner);
    const float mean = rota_operand<const float>(args, 0)[c], variance = rota_operand<const float>(args, 1)[c];
    float *running_mean = rota_operand<float>(args, 2), *running_variance = rota_operand<float>(args, 3);
    rota_operand<float>(args, 4)[c] = 1.0f / sqrtf(variance + p.eps);
    running_mean[c] = (1.0f - p.momentum) * running_mean[c] + p.momentum * mean;
    running_variance[c] = (1.0f - p.momentum) * running_variance[c] + p.momentum * (variance * (n / (n - 1.0f)));
}

/* Eight elements a thread, those of a block dealt out in turn. f(x's element, its channel). */
template <typename A, typename F> ROTA_DEVICE void each_element(const A &args, F f) {
    const rota_batch_norm_params &p = args.params;
    const uint64_t count = static_cast<uint64_t>(p.outer) * p.channels * p.inner;
#pragma unroll
    for (int k = 0; k < ROTA_CUDA_ELEMENTS / ROTA_CUDA_THREADS; k++) {
        const uint64_t i = rota_group_index() * ROTA_CUDA_ELEMENTS + k * ROTA_CUDA_THREADS + threadIdx.x;
        if (i < count) f(i, static_cast<uint32_t>(i / p.inner % p.channels));
    }
}

template <bool HALF, typename A> ROTA_DEVICE void normalize(const A &args) {
    const rota_batch_norm_params &p = args.params;
    const values<HALF> x(rota_operand<const void>(args, 0), 0, p.dtype), y(rota_operand<void>(args, 5), 0, p.dtype);
    const values<HALF> weight(rota_operand<const void>(args, 3), 0, p.dtype),
        bias(rota_operand<const void>(args, 4), 0, p.dtype);
    const float *mean = rota_operand<const float>(args, 1), *spread = rota_operand<const float>(args, 2);
    each_element(args, [&](uint64_t i, uint32_t c) {
        float value = (x.at(i) - mean[c]) * rstd_of(p, spread[c]);
        if (p.flags & ROTA_NORM_WEIGHT) value *= weight.at(c);
        if (p.flags & ROTA_NORM_BIAS) value += bias.at(c);
        y.put(i, value);
    });
}

ROTA_KERNEL(batch_norm, 6, rota_batch_norm_params, ROTA_CUDA_THREADS) {
    if (args.params.dtype == DTYPE_F32)
        normalize<false>(args);
    else
        normalize<true>(args);
}

template <bool HALF, typename A> ROTA_DEVICE void normalize_backward(const A &args) {
    const rota_batch_norm_params &p = args.params;
    const values<HALF> x(rota_operand<const void>(args, 0), 0, p.dtype),
        dy(rota_operand<const void>(args, 4), 0, p.dtype);
    const values<HALF> weight(rota_operand<const void>(args, 3), 0, p.dtype),
        dx(rota_operand<void>(args, 6), 0, p.dtype);
    const float *mean = rota_operand<const float>(args, 1), *spread = rota_operand<const float>(args, 2);
    const float *sums = rota_operand<const float>(args, 5);
    const float n = static_cast<float>(static_cast<uint64_t>(p.outer) * p.inner);
    each_element(args, [&](uint64_t i, uint32_t c) {
        const float rstd = rstd_of(p, spread[c]);
        float value = dy.at(i);
        if (!(p.flags & ROTA_BATCH_NORM_VARIANCE))
            value = value - sums[p.channels + c] / n - (x.at(i) - mean[c]) * rstd * sums[c] / n;
        value *= rstd;
        if (p.flags & ROTA_NORM_WEIGHT) value *= weight.at(c);
        dx.put(i, value);
    });
}

ROTA_KERNEL(batch_norm_backward, 7, rota_batch_norm_params, ROTA_CUDA_THREADS) {
    if (args.params.dtype == DTYPE_F32)
        normalize_backward<false>(args);
    else
        normalize_backward<true>(args);
}

/* ---- rope ---- */

/* A pair, or a column that stays, a thread. */
template <bool HALF, typename A> ROTA_DEVICE void turn(const A &args) {
    const rota_rope_params &p = args.params;
    const uint32_t pairs = p.rotary / 2, units = p.dim - pairs; /* of a row */
    const uint64_t row = rota_index() / units;
    if (row >= p.rows) return;
    const uint32_t i = static_cast<uint32_t>(rota_index() % units);
    const values<HALF> x(rota_operand<const void>(args, 0), row * p.dim, p.dtype),
        y(rota_operand<void>(args, 1), row * p.dim, p.dtype);
    if (i >= pairs) return y.put(i + pairs, x.at(i + pairs));
    const bool interleaved = p.flags & ROTA_ROPE_INTERLEAVED;
    const uint32_t a = interleaved ? 2 * i : i, b = interleaved ? a + 1 : i + pairs;
    const float position =
        static_cast<float>(rota_param_u32(args, 0, p.offset) + static_cast<uint32_t>(row % p.sequence));
    const float angle = position * exp2f(-2.0f * static_cast<float>(i) / static_cast<float>(p.rotary) * log2f(p.base));
    float s, c;
    sincosf(angle, &s, &c);
    if (p.flags & ROTA_ROPE_INVERSE) s = -s;
    const float u = x.at(a), v = x.at(b);
    y.put(a, u * c - v * s);
    y.put(b, v * c + u * s);
}

ROTA_KERNEL(rope, 2, rota_rope_params, ROTA_CUDA_THREADS) {
    if (args.params.dtype == DTYPE_F32)
        turn<false>(args);
    else
        turn<true>(args);
}
