/* CUDA kernels: max_pool, max_pool_backward, avg_pool, avg_pool_backward. A thread per window, or per element of x,
 * which looks through the windows that reach over it; of channels next to one another a vector of 16 bytes of them. */
#include "ops/cuda/values.cuh"
#include "ops/cuda/window_shapes.h"

/* The elements of x in a window along an axis: the first, and how many; and how many of the window are in x with its
 * padding. */
struct taps {
    int32_t first, count, padded;
    ROTA_DEVICE taps(const rota_pool_params &p, int axis, uint32_t position) {
        const int32_t size = p.in[axis], dilation = p.dilation[axis];
        const int32_t window = p.window[axis], padding = p.padding[axis];
        const int32_t begin = static_cast<int32_t>(position * p.stride[axis]) - padding;
        const int32_t skipped = begin < 0 ? (-begin - 1) / dilation + 1 : 0;
        first = begin + skipped * dilation;
        count = first < size ? max(min((size - first - 1) / dilation + 1, window - skipped), 0) : 0;
        padded = min(window, size + padding - begin);
    }
    ROTA_DEVICE float divisor(const rota_pool_params &p) const {
        return static_cast<float>(p.flags & ROTA_POOL_PADDED ? padded : count);
    }
};

/* The windows that reach over an element along an axis. */
struct reached {
    uint32_t first, last;
    ROTA_DEVICE reached(const rota_pool_params &p, int axis, uint32_t element) {
        const uint32_t from = element + p.padding[axis], reach = (p.window[axis] - 1) * p.dilation[axis];
        first = from > reach ? (from - reach - 1) / p.stride[axis] + 1 : 0;
        last = min(from / p.stride[axis] + 1, p.out[axis]);
    }
};

/* An operand of which a thread takes W channels at a time. */
template <bool HALF, int W> struct images {
    values<HALF> of;
    uint64_t channels;
    bool whole; /* a vector begins at a multiple of its size */
    ROTA_DEVICE images(const void *base, const rota_pool_params &p)
        : of(base, 0, p.dtype), channels(p.channels), whole(of.aligned()) {}
    ROTA_DEVICE pack<W> at(uint64_t position, uint32_t channel) const {
        return of.template load<W>(position * channels + channel, whole);
    }
    ROTA_DEVICE void put(uint64_t position, uint32_t channel, const pack<W> &value) const {
        of.template store<W>(position * channels + channel, value, whole);
    }
};

/* Indices of W channels: as vectors of four where they are. */
template <int W> ROTA_DEVICE void load_indices(const int32_t *p, bool whole, int32_t (&index)[W]) {
    if constexpr (W % 4 == 0)
        if (whole) {
#pragma unroll
            for (int j = 0; j < W; j += 4) {
                const int4 q = *reinterpret_cast<const int4 *>(p + j);
                index[j] = q.x, index[j + 1] = q.y, index[j + 2] = q.z, index[j + 3] = q.w;
            }
            return;
        }
#pragma unroll
    for (int j = 0; j < W; j++) index[j] = p[j];
}
template <int W> ROTA_DEVICE void store_indices(int32_t *p, bool whole, const int32_t (&index)[W]) {
    if constexpr (W % 4 == 0)
        if (whole) {
#pragma unroll
            for (int j = 0; j < W; j += 4)
                *reinterpret_cast<int4 *>(p + j) = make_int4(index[j], index[j + 1], index[j + 2], index[j + 3]);
            return;
        }
#pragma unroll
    for (int j = 0; j < W; j++) p[j] = index[j];
}

/* f(position of the result among all planes', plane, row, column, channel) of this thread's W results. */
template <int W, typename F> ROTA_DEVICE void of_result(const rota_pool_params &p, const uint32_t (&size)[2], F f) {
    const uint64_t plane = static_cast<uint64_t>(size[0]) * size[1], vectors = p.channels / W;
    const uint64_t id = rota_index(), result = vectors == 1 ? id : id / vectors;
    if (result >= p.planes * plane) return;
    const uint32_t position = static_cast<uint32_t>(result % plane);
    f(result, result / plane, position / size[1], position % size[1], static_cast<uint32_t>(id - result * vectors) * W);
}

template <bool HALF, int W, typename A> ROTA_DEVICE void max_of(const A &args) {
    const rota_pool_params &p = args.params;
    const images<HALF, W> x(rota_operand<const void>(args, 0), p), y(rota_operand<void>(args, 1), p);
    int32_t *index = rota_operand<int32_t>(args, 2);
    of_result<W>(p, p.out, [&](uint64_t result, uint64_t plane, uint32_t row, uint32_t column, uint32_t channel) {
        const taps rows(p, 0, row), columns(p, 1, column);
        pack<W> most;
        int32_t found[W];
#pragma unroll
        for (int j = 0; j < W; j++) most.v[j] = negative_infinity(), found[j] = -1;
        for (int32_t r = 0; r < rows.count; r++)
            for (int32_t c = 0; c < columns.count; c++) {
                const int32_t column_of = columns.first + c * static_cast<int32_t>(p.dilation[1]);
                const int32_t row_of = rows.first + r * static_cast<int32_t>(p.dilation[0]);
                const int32_t element = row_of * static_cast<int32_t>(p.in[1]) + column_of;
                const pack<W> value = x.at(plane * p.in[0] * p.in[1] + element, channel);
#pragma unroll
                for (int j = 0; j < W; j++) {
                    const float v = value.v[j];
                    if (found[j] >= 0 && !(v > most.v[j]) && !(v != v && most.v[j] == most.v[j])) continue;
                    most.v[j] = v;
                    found[j] = element;
                }
            }
        y.put(result, channel, most);
        store_indices<W>(index + result * p.channels + channel, aligned16(index), found);
    });
}

template <bool HALF, int W, typename A> ROTA_DEVICE void mean_of(const A &args) {
    const rota_pool_params &p = args.params;
    const images<HALF, W> x(rota_operand<const void>(args, 0), p), y(rota_operand<void>(args, 1), p);
    of_result<W>(p, p.out, [&](uint64_t result, uint64_t plane, uint32_t row, uint32_t column, uint32_t channel) {
        const taps rows(p, 0, row), columns(p, 1, column);
        pack<W> sum = {};
        for (int32_t r = 0; r < rows.count; r++)
            for (int32_t c = 0; c < columns.count; c++) {
                const uint64_t element = (plane * p.in[0] + rows.first + r) * p.in[1] + columns.first + c;
                const pack<W> value = x.at(element, channel);
#pragma unroll
                for (int j = 0; j < W; j++) sum.v[j] += value.v[j];
            }
        const bool none = rows.count == 0 || columns.count == 0;
        const float divisor = rows.divisor(p) * columns.divisor(p);
#pragma unroll
        for (int j = 0; j < W; j++) sum.v[j] = none ? 0.0f : sum.v[j] / divisor;
        y.put(result, channel, sum);
    });
}

template <bool HALF, int W, typename A> ROTA_DEVICE void max_backward_of(const A &args) {
    const rota_pool_params &p = args.params;
    const images<HALF, W> dy(rota_operand<const void>(args, 0), p), dx(rota_operand<void>(args, 2), p);
    const int32_t *index = rota_operand<const int32_t>(args, 1);
    of_result<W>(p, p.in, [&](uint64_t result, uint64_t plane, uint32_t row, uint32_t column, uint32_t channel) {
        const reached rows(p, 0, row), columns(p, 1, column);
        const int32_t element = static_cast<int32_t>(row * p.in[1] + column);
        pack<W> sum = {};
        for (uint32_t r = rows.first; r < rows.last; r++)
            for (uint32_t c = columns.first; c < columns.last; c++) {
                const uint64_t window = (plane * p.out[0] + r) * p.out[1] + c;
                int32_t found[W];
                load_indices<W>(index + window * p.channels + channel, aligned16(index), found);
                const pack<W> value = dy.at(window, channel);
#pragma unroll
                for (int j = 0; j < W; j++)
                    if (found[j] == element) sum.v[j] += value.v[j];
            }
        dx.put(result, channel, sum);
    });
}

template <bool HALF, int W, typename A> ROTA_DEVICE void mean_backward_of(const A &args) {
    const rota_pool_params &p = args.params;
    const images<HALF, W> dy(rota_operand<const void>(args, 0), p), dx(rota_operand<void>(args, 1), p);
    of_result<W>(p, p.in, [&](uint64_t result, uint64_t plane, uint32_t row, uint32_t column, uint32_t channel) {
        const reached rows(p, 0, row), columns(p, 1, column);
        pack<W> sum = {};
        for (uint32_t r = rows.first; r < rows.last; r++) {
            const float of_row = taps(p, 0, r).divisor(p);
            for (uint32_t c = columns.first; c < columns.last; c++) {
                const float divisor = of_row * taps(p, 1, c).divisor(p);
                const pack<W> value = dy.at((plane * p.out[0] + r) * p.out[1] + c, channel);
#pragma unroll
                for (int j = 0; j < W; j++) sum.v[j] += value.v[j] / divisor;
            }
        }
        dx.put(result, channel, sum);
    });
}

#define POOLING(name, operands, run)                                                                                   \
    ROTA_KERNEL(name, operands, rota_pool_params, ROTA_CUDA_THREADS) {                                                 \
        const bool vectors = rota_cuda_pool_width(&args.params) > 1;                                                   \
        if (args.params.dtype == DTYPE_F32) {                                                                          \
            if (vectors)                                                                                               \
                run<false, 4>(args);                                                                                   \
            else                                                                                                       \
                run<false, 1>(args);                                                                                   \
        } else if (vectors) {                                                                                          \
            run<true, 8>(args);                                                                                        \
        } else {                                                                                                       \
            run<true, 1>(args);                                                                                        \
        }                                                                                                              \
    }
POOLING(max_pool, 3, max_of)
POOLING(avg_pool, 2, mean_of)
POOLING(max_pool_backward, 3, max_backward_of)
POOLING(avg_pool_backward, 2, mean_backward_of)
