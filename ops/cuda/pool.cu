/* CUDA kernels: max_pool, max_pool_backward, avg_pool, avg_pool_backward. A thread per window, or per element
 * of x, which looks through the windows that reach over it. */
#include "ops/cuda/values.cuh"
#include "ops/window_params.h"

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

/* f(plane, row, column) of this thread's result. */
template <typename F> ROTA_DEVICE void of_result(const rota_pool_params &p, const uint32_t (&size)[2], F f) {
    const uint64_t result = rota_index(), plane = static_cast<uint64_t>(size[0]) * size[1];
    if (result >= p.planes * plane) return;
    const uint32_t position = static_cast<uint32_t>(result % plane);
    f(result, result / plane, position / size[1], position % size[1]);
}

template <bool HALF, typename A> ROTA_DEVICE void max_of(const A &args) {
    const rota_pool_params &p = args.params;
    const values<HALF> x(rota_operand<const void>(args, 0), 0, p.dtype), y(rota_operand<void>(args, 1), 0, p.dtype);
    of_result(p, p.out, [&](uint64_t result, uint64_t plane, uint32_t row, uint32_t column) {
        const taps rows(p, 0, row), columns(p, 1, column);
        float most = negative_infinity();
        int32_t found = -1;
        for (int32_t r = 0; r < rows.count; r++)
            for (int32_t c = 0; c < columns.count; c++) {
                const int32_t column_of = columns.first + c * static_cast<int32_t>(p.dilation[1]);
                const int32_t row_of = rows.first + r * static_cast<int32_t>(p.dilation[0]);
                const int32_t element = row_of * static_cast<int32_t>(p.in[1]) + column_of;
                const float value = x.at(plane * p.in[0] * p.in[1] + element);
                if (found >= 0 && !(value > most) && !(value != value && most == most)) continue;
                most = value;
                found = element;
            }
        y.put(result, most);
        rota_operand<int32_t>(args, 2)[result] = found;
    });
}

template <bool HALF, typename A> ROTA_DEVICE void mean_of(const A &args) {
    const rota_pool_params &p = args.params;
    const values<HALF> x(rota_operand<const void>(args, 0), 0, p.dtype), y(rota_operand<void>(args, 1), 0, p.dtype);
    of_result(p, p.out, [&](uint64_t result, uint64_t plane, uint32_t row, uint32_t column) {
        const taps rows(p, 0, row), columns(p, 1, column);
        float sum = 0.0f;
        for (int32_t r = 0; r < rows.count; r++)
            for (int32_t c = 0; c < columns.count; c++)
                sum += x.at((plane * p.in[0] + rows.first + r) * p.in[1] + columns.first + c);
        const bool none = rows.count == 0 || columns.count == 0;
        y.put(result, none ? 0.0f : sum / (rows.divisor(p) * columns.divisor(p)));
    });
}

template <bool HALF, typename A> ROTA_DEVICE void max_backward_of(const A &args) {
    const rota_pool_params &p = args.params;
    const values<HALF> dy(rota_operand<const void>(args, 0), 0, p.dtype), dx(rota_operand<void>(args, 2), 0, p.dtype);
    const int32_t *index = rota_operand<const int32_t>(args, 1);
    of_result(p, p.in, [&](uint64_t result, uint64_t plane, uint32_t row, uint32_t column) {
        const reached rows(p, 0, row), columns(p, 1, column);
        const int32_t element = static_cast<int32_t>(row * p.in[1] + column);
        float sum = 0.0f;
        for (uint32_t r = rows.first; r < rows.last; r++)
            for (uint32_t c = columns.first; c < columns.last; c++) {
                const uint64_t window = (plane * p.out[0] + r) * p.out[1] + c;
                if (index[window] == element) sum += dy.at(window);
            }
        dx.put(result, sum);
    });
}

template <bool HALF, typename A> ROTA_DEVICE void mean_backward_of(const A &args) {
    const rota_pool_params &p = args.params;
    const values<HALF> dy(rota_operand<const void>(args, 0), 0, p.dtype), dx(rota_operand<void>(args, 1), 0, p.dtype);
    of_result(p, p.in, [&](uint64_t result, uint64_t plane, uint32_t row, uint32_t column) {
        const reached rows(p, 0, row), columns(p, 1, column);
        float sum = 0.0f;
        for (uint32_t r = rows.first; r < rows.last; r++) {
            const float of_row = taps(p, 0, r).divisor(p);
            for (uint32_t c = columns.first; c < columns.last; c++)
                sum += dy.at((plane * p.out[0] + r) * p.out[1] + c) / (of_row * taps(p, 1, c).divisor(p));
        }
        dx.put(result, sum);
    });
}

#define POOLING(name, operands, run)                                                                         \
    ROTA_KERNEL(name, operands, rota_pool_params, ROTA_CUDA_THREADS) {                                       \
        if (args.params.dtype == DTYPE_F32)                                                                  \
            run<false>(args);                                                                                \
        else                                                                                                 \
            run<true>(args);                                                                                 \
    }
POOLING(max_pool, 3, max_of)
POOLING(avg_pool, 2, mean_of)
POOLING(max_pool_backward, 3, max_backward_of)
POOLING(avg_pool_backward, 2, mean_backward_of)
