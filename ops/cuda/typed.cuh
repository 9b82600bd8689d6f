/* Elements of kernels of any real dtype: read as f32, computed in f32, rounded once where they are stored. A thread of
 * an elementwise kernel has eight elements, which come and go in vectors of 16 bytes where the addresses allow: of f32
 * two groups of four, of f16 and bf16 one of eight. */
#ifndef ROTA_OPS_CUDA_TYPED_CUH
#define ROTA_OPS_CUDA_TYPED_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "ops/cuda/common.cuh"

ROTA_DEVICE float widen(float x) { return x; }
ROTA_DEVICE float widen(__half x) { return __half2float(x); }
ROTA_DEVICE float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
template <typename T> ROTA_DEVICE T narrow(float x);
template <> ROTA_DEVICE float narrow<float>(float x) { return x; }
template <> ROTA_DEVICE __half narrow<__half>(float x) { return __float2half_rn(x); }
template <> ROTA_DEVICE __nv_bfloat16 narrow<__nv_bfloat16>(float x) { return __float2bfloat16_rn(x); }

/* N neighbours, moved at once. */
template <typename T, int N> struct alignas(N * sizeof(T)) several {
    T v[N];
};
template <typename V> ROTA_DEVICE bool aligned_to(const void *p) {
    return reinterpret_cast<uint64_t>(p) % sizeof(V) == 0;
}

/* f(a value of the type that `dtype` means). */
template <typename F> ROTA_DEVICE void by_dtype(uint32_t dtype, F f) {
    if (dtype == DTYPE_F32)
        f(float());
    else if (dtype == DTYPE_F16)
        f(__half());
    else
        f(__nv_bfloat16());
}

constexpr int EIGHT = ROTA_CUDA_ELEMENTS / ROTA_CUDA_THREADS;
static_assert(EIGHT == 8, "a thread has one vector of eight 16-bit elements, or two of four f32");

/* The thread's elements of type T: GROUPS groups of WIDTH. */
template <typename T> struct thread_elements {
    static constexpr int WIDTH = 16 / sizeof(T), GROUPS = EIGHT / WIDTH;
    static ROTA_DEVICE uint64_t first(int group) {
        return rota_group_index() * ROTA_CUDA_ELEMENTS +
               static_cast<uint64_t>(group * ROTA_CUDA_THREADS + threadIdx.x) * WIDTH;
    }
};

/* Elements of the thread among `count`; 0 past them. */
template <typename T> ROTA_DEVICE void load_typed(const T *x, uint64_t count, float (&v)[EIGHT]) {
    using mine = thread_elements<T>;
    using vector = several<T, mine::WIDTH>;
    const bool aligned = aligned_to<vector>(x);
#pragma unroll
    for (int g = 0; g < mine::GROUPS; g++) {
        const uint64_t i = mine::first(g);
        if (aligned && i + mine::WIDTH <= count) {
            const vector value = *reinterpret_cast<const vector *>(x + i);
#pragma unroll
            for (int j = 0; j < mine::WIDTH; j++) v[g * mine::WIDTH + j] = widen(value.v[j]);
        } else {
#pragma unroll
            for (int j = 0; j < mine::WIDTH; j++) v[g * mine::WIDTH + j] = i + j < count ? widen(x[i + j]) : 0.0f;
        }
    }
}
ROTA_DEVICE void load_eight(uint32_t dtype, const void *x, uint64_t count, float (&v)[EIGHT]) {
    by_dtype(dtype, [&](auto type) { load_typed(static_cast<const decltype(type) *>(x), count, v); });
}

template <typename T> ROTA_DEVICE void store_typed(T *y, uint64_t count, const float (&v)[EIGHT]) {
    using mine = thread_elements<T>;
    using vector = several<T, mine::WIDTH>;
    const bool aligned = aligned_to<vector>(y);
#pragma unroll
    for (int g = 0; g < mine::GROUPS; g++) {
        const uint64_t i = mine::first(g);
        if (aligned && i + mine::WIDTH <= count) {
            vector value;
#pragma unroll
            for (int j = 0; j < mine::WIDTH; j++) value.v[j] = narrow<T>(v[g * mine::WIDTH + j]);
            *reinterpret_cast<vector *>(y + i) = value;
        } else {
#pragma unroll
            for (int j = 0; j < mine::WIDTH; j++)
                if (i + j < count) y[i + j] = narrow<T>(v[g * mine::WIDTH + j]);
        }
    }
}
ROTA_DEVICE void store_eight(uint32_t dtype, void *y, uint64_t count, const float (&v)[EIGHT]) {
    by_dtype(dtype, [&](auto type) { store_typed(static_cast<decltype(type) *>(y), count, v); });
}

/* The same of an operand with strides: the search for the address is shared by a group that lies in one innermost
 * row. */
template <typename T>
ROTA_DEVICE void load_strided_typed(const T *x, const uint32_t *shape, const uint32_t *stride, uint64_t count,
                                    float (&v)[EIGHT]) {
    using mine = thread_elements<T>;
    using vector = several<T, mine::WIDTH>;
    constexpr int LAST_DIM = ROTA_KERNEL_DIMS - 1;
    auto address = [&](uint32_t i) {
        uint64_t offset = 0;
        for (int d = LAST_DIM; d >= 0 && i != 0; d--) {
            offset += static_cast<uint64_t>(i % shape[d]) * stride[d];
            i /= shape[d];
        }
        return x + offset;
    };
    const uint64_t step = stride[LAST_DIM];
    const bool together = shape[LAST_DIM] % mine::WIDTH == 0;
#pragma unroll
    for (int g = 0; g < mine::GROUPS; g++) {
        const uint64_t i = mine::first(g);
        float *to = v + g * mine::WIDTH;
        if (!together || i >= count) {
#pragma unroll
            for (int j = 0; j < mine::WIDTH; j++)
                to[j] = i + j < count ? widen(*address(static_cast<uint32_t>(i + j))) : 0.0f;
            continue;
        }
        const T *from = address(static_cast<uint32_t>(i));
        if (step == 1 && aligned_to<vector>(from)) {
            const vector value = *reinterpret_cast<const vector *>(from);
#pragma unroll
            for (int j = 0; j < mine::WIDTH; j++) to[j] = widen(value.v[j]);
        } else {
#pragma unroll
            for (int j = 0; j < mine::WIDTH; j++) to[j] = widen(from[step * j]);
        }
    }
}
/* Of any strides: all of them at once where they say that the operand is contiguous, or a single element. */
ROTA_DEVICE void load_strided_eight(uint32_t dtype, const void *x, const uint32_t (&shape)[ROTA_KERNEL_DIMS],
                                    const uint32_t (&stride)[ROTA_KERNEL_DIMS], uint64_t count, float (&v)[EIGHT]) {
    constexpr int LAST_DIM = ROTA_KERNEL_DIMS - 1;
    const bool one_row = shape[LAST_DIM] == count;
    by_dtype(dtype, [&](auto type) {
        const auto *from = static_cast<const decltype(type) *>(x);
        if (one_row && stride[LAST_DIM] == 1) {
            load_typed(from, count, v);
        } else if (one_row && stride[LAST_DIM] == 0) {
            const float number = widen(*from);
#pragma unroll
            for (int j = 0; j < EIGHT; j++) v[j] = number;
        } else {
            load_strided_typed(from, shape, stride, count, v);
        }
    });
}

/* v[j] = EXPRESSION of j, for all of the thread's. */
#define ROTA_EIGHT(EXPRESSION)                                                                               \
    do {                                                                                                     \
        _Pragma("unroll") for (int j = 0; j < EIGHT; j++) v[j] = (EXPRESSION);                               \
        return;                                                                                              \
    } while (0)

#endif
