/* CUDA kernels: batch_norm_sums, batch_norm_moments, batch_norm_finish, batch_norm, batch_norm_backward, and rope. */
#include "ops/cuda/values.cuh"

ROTA_DEVICE float rstd_of(const rota_batch_norm_params &p, float spread) {
    return p.flags & ROTA_BATCH_NORM_VARIANCE ? 1.0f / sqrtf(spread + p.eps) : spread;
}

/* Who has a chunk of the elements of one channel: a thread where channels are next to one another, else a warp, so that
 * neighbours read what is together. */
struct chunk_of_channel {
    uint64_t result, chunks, chunk, c, first, end; /* elements of the channel, of them this thread's first */
    uint32_t step;
    bool there, leads;

    ROTA_DEVICE explicit chunk_of_channel(const rota_batch_norm_params &p) {
        const uint64_t n = static_cast<uint64_t>(p.outer) * p.inner;
        step = p.inner == 1 ? 1 : 32;
        const uint32_t lane = threadIdx.x % step;
        result = rota_index() / step;
        chunks = (n + p.chunk - 1) / p.chunk;
        there = result < chunks * p.channels; /* of a warp all or none, where it has a chunk */
        leads = lane == 0;
        c = result % p.channels;
        chunk = result / p.channels;
        first = chunk * p.chunk + lane;
        end = min(chunk * p.chunk + p.chunk, n);
    }
    ROTA_DEVICE uint64_t element(const rota_batch_norm_params &p, uint64_t e) const {
        return step == 1 ? e * p.channels + c : (e / p.inner * p.channels + c) * p.inner + e % p.inner;
    }
    /* f(element) of each that is this thread's, in order. */
    template <typename F> ROTA_DEVICE void each(const rota_batch_norm_params &p, F f) const {
        if (step == 1) {
#pragma unroll 8
            for (uint64_t e = first; e < end; e++) f(e * p.channels + c);
        } else {
#pragma unroll 4
            for (uint64_t e = first; e < end; e += 32) f(element(p, e));
        }
    }
    /* Of all threads that have the chunk, in the one that leads. */
    ROTA_DEVICE float sum(float value) const {
        if (step > 1)
            for (int other = 16; other > 0; other /= 2) value += __shfl_down_sync(0xFFFFFFFFu, value, other);
        return value;
    }
};

template <bool HALF, typename A> ROTA_DEVICE void sums_of(const A &args) {
    const rota_batch_norm_params &p = args.params;
    const chunk_of_channel own(p);
    if (!own.there) return;
    const values<HALF> x(rota_operand<const void>(args, 0), 0, p.dtype),
        dy(rota_operand<const void>(args, 3), 0, p.dtype);
    const float mean = rota_operand<const float>(args, 1)[own.c],
                rstd = rstd_of(p, rota_operand<const float>(args, 2)[own.c]);
    float sum = 0.0f, more = 0.0f;
    own.each(p, [&](uint64_t element) {
        const float g = dy.at(element);
        sum = fmaf(g, (x.at(element) - mean) * rstd, sum);
        more += g;
    });
    sum = own.sum(sum);
    more = own.sum(more);
    if (!own.leads) return;
    float *partial = rota_operand<float>(args, 4);
    partial[own.result] = sum;
    partial[own.chunks * p.channels + own.result] = more;
}

ROTA_KERNEL(batch_norm_sums, 5, rota_batch_norm_params, ROTA_CUDA_THREADS) {
    if (args.params.dtype == DTYPE_F32)
        sums_of<false>(args);
    else
        sums_of<true>(args);
}

/* Around the chunk's first element, which is as near to its mean as any other. */
template <bool HALF, typename A> ROTA_DEVICE void moments_of(const A &args) {
    const rota_batch_norm_params &p = args.params;
    const chunk_of_channel own(p);
    if (!own.there) return;
    const uint64_t begin = own.chunk * p.chunk;
    const values<HALF> x(rota_operand<const void>(args, 0), 0, p.dtype);
    const float shift = x.at(own.element(p, begin));
    float sum = 0.0f, squares = 0.0f;
    own.each(p, [&](uint64_t element) {
        const float value = x.at(element) - shift;
        sum += value;
        squares = fmaf(value, value, squares);
    });
    sum = own.sum(sum);
    squares = own.sum(squares);
    if (!own.leads) return;
    const float n = static_cast<float>(own.end - begin);
    float *partial = rota_operand<float>(args, 1);
    partial[own.result] = shift + sum / n;
    partial[own.chunks * p.channels + own.result] = fmaxf(squares - sum * (sum / n), 0.0f);
}

ROTA_KERNEL(batch_norm_moments, 2, rota_batch_norm_params, ROTA_CUDA_THREADS) {
    if (args.params.dtype == DTYPE_F32)
        moments_of<false>(args);
    else
        moments_of<true>(args);
}

/* A block has few channels, and of each many threads, each with every so manieth chunk. */
constexpr uint32_t FINISHERS = ROTA_CUDA_FINISH_THREADS / ROTA_CUDA_FINISH_CHANNELS;

/* Sums over a channel's threads, in one order, in the first of them. */
ROTA_DEVICE float3 sums_of_channel(float3 value) {
    __shared__ float3 sums[ROTA_CUDA_FINISH_THREADS];
    sums[threadIdx.x] = value;
    for (uint32_t step = FINISHERS / 2; step > 0; step /= 2) {
        __syncthreads();
        if (threadIdx.x / ROTA_CUDA_FINISH_CHANNELS >= step) continue;
        const float3 other = sums[threadIdx.x + step * ROTA_CUDA_FINISH_CHANNELS];
        float3 &own = sums[threadIdx.x];
        own = make_float3(own.x + other.x, own.y + other.y, own.z + other.z);
    }
    return sums[threadIdx.x];
}

/* The chunks' means are summed up around the first of them, which is as near to their mean as any other. */
ROTA_KERNEL(batch_norm_finish, 4, rota_batch_norm_params, ROTA_CUDA_FINISH_THREADS) {
    const rota_batch_norm_params &p = args.params;
    const uint64_t elements = static_cast<uint64_t>(p.outer) * p.inner, chunks = (elements + p.chunk - 1) / p.chunk;
    const uint64_t c = rota_group_index() * ROTA_CUDA_FINISH_CHANNELS + threadIdx.x % ROTA_CUDA_FINISH_CHANNELS;
    const uint32_t first = threadIdx.x / ROTA_CUDA_FINISH_CHANNELS;
    const bool there = c < p.channels;
    const float *means = rota_operand<const float>(args, 0), *squares = means + chunks * p.channels;
    const float shift = there ? means[c] : 0.0f;
    float3 sum = make_float3(0.0f, 0.0f, 0.0f); /* of means, of their squares, and of those around them */
    if (there)
#pragma unroll 4
        for (uint64_t i = first; i < chunks; i += FINISHERS) {
            const float count = static_cast<float>(min(static_cast<uint64_t>(p.chunk), elements - i * p.chunk));
            const float off = means[i * p.channels + c] - shift;
            sum.x = fmaf(off, count, sum.x);
            sum.y = fmaf(off * off, count, sum.y);
            sum.z += squares[i * p.channels + c];
        }
    sum = sums_of_channel(sum);
    if (!there || first != 0) return;
    const float n = static_cast<float>(elements), off = sum.x / n, mean = shift + off;
    const float variance = (sum.z + fmaxf(sum.y - sum.x * off, 0.0f)) / n;
    float *running_mean = rota_operand<float>(args, 1), *running_variance = rota_operand<float>(args, 2);
    float *stats = rota_operand<float>(args, 3);
    stats[c] = mean;
    stats[p.channels + c] = 1.0f / sqrtf(variance + p.eps);
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
