/* Arrays whose dtype is a parameter of the kernel: f32 (HALF false), or f16 or bf16, told apart at run time, since that
 * costs a kernel bound by memory nothing and halves what there is to compile. Calculation is in f32, rounded once when
 * stored. */
#ifndef ROTA_OPS_CUDA_VALUES_CUH
#define ROTA_OPS_CUDA_VALUES_CUH

#include "ops/cuda/common.cuh"

ROTA_DEVICE float widen_f16(uint32_t bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(static_cast<uint16_t>(bits)));
    return x;
}
ROTA_DEVICE uint32_t narrow_f16(float x) {
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
/* To nearest even; NaN stays NaN. */
ROTA_DEVICE uint32_t narrow_bf16(float x) {
#if __CUDA_ARCH__ >= 800
    uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
#else
    const uint32_t bits = __float_as_uint(x);
    return (x != x ? bits | 0x400000u : bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
#endif
}
/* Two neighbours, the first in the low half. */
ROTA_DEVICE uint32_t narrow_two_bf16(float first, float second) {
#if __CUDA_ARCH__ >= 800
    uint32_t bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
    return bits;
#else
    return narrow_bf16(first) | narrow_bf16(second) << 16;
#endif
}

/* exp for exponents that are 0 or less, or close to it: two instructions, and a relative error of |x| 2^-24 or so; 0
 * below 2^-126. */
ROTA_DEVICE float quick_exp(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.4426950408889634f));
    return y;
}

/* values::fetch and ::place move VECTOR neighbours as they lie, for a kernel that keeps many of them; ::open and
 * ::close are between those and f32. */
template <bool HALF> struct values;

template <> struct values<false> {
    static constexpr int VECTOR = 4; /* elements of 16 bytes */
    float *p;
    ROTA_DEVICE values(const void *base, uint64_t first, uint32_t)
        : p(static_cast<float *>(const_cast<void *>(base)) + first) {}
    ROTA_DEVICE bool aligned() const { return aligned16(p); }
    ROTA_DEVICE float at(uint64_t i) const { return p[i]; }
    ROTA_DEVICE void put(uint64_t i, float value) const { p[i] = value; }
    ROTA_DEVICE uint4 fetch(uint64_t i, bool whole) const {
        const uint32_t *from = reinterpret_cast<const uint32_t *>(p) + i;
        return whole ? *reinterpret_cast<const uint4 *>(from) : make_uint4(from[0], from[1], from[2], from[3]);
    }
    ROTA_DEVICE void place(uint64_t i, uint4 q, bool whole) const { store<4>(i, open(q), whole); }
    ROTA_DEVICE pack<4> open(uint4 q) const {
        return {{__uint_as_float(q.x), __uint_as_float(q.y), __uint_as_float(q.z), __uint_as_float(q.w)}};
    }
    ROTA_DEVICE uint4 close(const pack<4> &value) const {
        return make_uint4(__float_as_uint(value.v[0]), __float_as_uint(value.v[1]), __float_as_uint(value.v[2]),
                          __float_as_uint(value.v[3]));
    }
    template <int W> ROTA_DEVICE pack<W> load(uint64_t i, bool whole) const {
        pack<W> value;
        if constexpr (W % 4 == 0)
            if (whole) {
#pragma unroll
                for (int j = 0; j < W; j += 4) {
                    const float4 q = *reinterpret_cast<const float4 *>(p + i + j);
                    value.v[j] = q.x, value.v[j + 1] = q.y, value.v[j + 2] = q.z, value.v[j + 3] = q.w;
                }
                return value;
            }
#pragma unroll
        for (int j = 0; j < W; j++) value.v[j] = p[i + j];
        return value;
    }
    template <int W> ROTA_DEVICE void store(uint64_t i, const pack<W> &value, bool whole) const {
        if constexpr (W % 4 == 0)
            if (whole) {
#pragma unroll
                for (int j = 0; j < W; j += 4)
                    *reinterpret_cast<float4 *>(p + i + j) =
                        make_float4(value.v[j], value.v[j + 1], value.v[j + 2], value.v[j + 3]);
                return;
            }
#pragma unroll
        for (int j = 0; j < W; j++) p[i + j] = value.v[j];
    }
};

template <> struct values<true> {
    static constexpr int VECTOR = 8;
    uint16_t *p;
    bool f16;
    ROTA_DEVICE values(const void *base, uint64_t first, uint32_t dtype)
        : p(static_cast<uint16_t *>(const_cast<void *>(base)) + first), f16(dtype == DTYPE_F16) {}
    ROTA_DEVICE bool aligned() const { return aligned16(p); }
    ROTA_DEVICE float widen(uint32_t bits) const { return f16 ? widen_f16(bits) : __uint_as_float(bits << 16); }
    ROTA_DEVICE uint32_t narrow(float x) const { return f16 ? narrow_f16(x) : narrow_bf16(x); }
    ROTA_DEVICE float at(uint64_t i) const { return widen(p[i]); }
    ROTA_DEVICE void put(uint64_t i, float value) const { p[i] = static_cast<uint16_t>(narrow(value)); }
    ROTA_DEVICE uint4 fetch(uint64_t i, bool whole) const {
        if (whole) return *reinterpret_cast<const uint4 *>(p + i);
        uint32_t word[4];
#pragma unroll
        for (int j = 0; j < 4; j++) word[j] = p[i + 2 * j] | static_cast<uint32_t>(p[i + 2 * j + 1]) << 16;
        return make_uint4(word[0], word[1], word[2], word[3]);
    }
    ROTA_DEVICE void place(uint64_t i, uint4 q, bool whole) const {
        if (whole) {
            *reinterpret_cast<uint4 *>(p + i) = q;
            return;
        }
        const uint32_t word[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
        for (int j = 0; j < 8; j++) p[i + j] = static_cast<uint16_t>(word[j / 2] >> 16 * (j % 2));
    }
    ROTA_DEVICE pack<8> open(uint4 q) const {
        const uint32_t word[4] = {q.x, q.y, q.z, q.w};
        pack<8> value;
        if (f16) {
#pragma unroll
            for (int j = 0; j < 8; j++) value.v[j] = widen_f16(word[j / 2] >> 16 * (j % 2));
        } else {
#pragma unroll
            for (int j = 0; j < 8; j++)
                value.v[j] = __uint_as_float(j % 2 ? word[j / 2] & 0xFFFF0000u : word[j / 2] << 16);
        }
        return value;
    }
    ROTA_DEVICE uint4 close(const pack<8> &value) const {
        uint32_t word[4];
        if (f16) {
#pragma unroll
            for (int j = 0; j < 8; j += 2) word[j / 2] = narrow_f16(value.v[j]) | narrow_f16(value.v[j + 1]) << 16;
        } else {
#pragma unroll
            for (int j = 0; j < 8; j += 2) word[j / 2] = narrow_two_bf16(value.v[j], value.v[j + 1]);
        }
        return make_uint4(word[0], word[1], word[2], word[3]);
    }
    /* W 8: one vector of 16 bytes. */
    template <int W> ROTA_DEVICE pack<W> load(uint64_t i, bool whole) const {
        pack<W> value;
        if constexpr (W == 8)
            if (whole) return open(fetch(i, true));
#pragma unroll
        for (int j = 0; j < W; j++) value.v[j] = at(i + j);
        return value;
    }
    template <int W> ROTA_DEVICE void store(uint64_t i, const pack<W> &value, bool whole) const {
        if constexpr (W == 8)
            if (whole) {
                place(i, close(value), true);
                return;
            }
#pragma unroll
        for (int j = 0; j < W; j++) put(i + j, value.v[j]);
    }
};

/* As kept_row, of arrays of any dtype. */
template <bool HALF, bool BLOCK, int W, int INPUTS = 1> struct kept_values {
    static constexpr uint32_t KEPT = W == 1 ? 8 : 32, K = KEPT / W, SPAN = row_threads<BLOCK>::size * KEPT;
    values<HALF> x[INPUTS];
    bool whole, kept = false;
    pack<W> v[K][INPUTS];

    /* f(i, value) for each of this thread's elements i (W at a time) of n; value[k] is of array k. */
    template <typename F> ROTA_DEVICE void pass(const row_threads<BLOCK> &t, uint32_t n, F f) {
        for (uint64_t first = t.lane * W; first < n; first += SPAN) {
            if (!kept) {
#pragma unroll
                for (uint32_t k = 0; k < K; k++)
                    if (first + k * t.size * W < n) {
#pragma unroll
                        for (int a = 0; a < INPUTS; a++) v[k][a] = x[a].template load<W>(first + k * t.size * W, whole);
                    }
            }
#pragma unroll
            for (uint32_t k = 0; k < K; k++)
                if (first + k * t.size * W < n) f(static_cast<uint32_t>(first + k * t.size * W), v[k]);
        }
        kept = n <= SPAN;
    }
};

/* Calls run<HALF, BLOCK, W>(args) for rows of n elements of a dtype: W a vector of 16 bytes where rows are whole
 * vectors. */
#define ROTA_BY_VALUES(dtype, n, run, args)                                                                  \
    do {                                                                                                     \
        const bool by_warp_ = (n) <= ROTA_CUDA_WARP_ROW;                                                     \
        if ((dtype) == DTYPE_F32) {                                                                          \
            const bool vectors_ = (n) % 4 == 0;                                                              \
            if (by_warp_ && vectors_)                                                                        \
                run<false, false, 4>(args);                                                                  \
            else if (by_warp_)                                                                               \
                run<false, false, 1>(args);                                                                  \
            else if (vectors_)                                                                               \
                run<false, true, 4>(args);                                                                   \
            else                                                                                             \
                run<false, true, 1>(args);                                                                   \
        } else {                                                                                             \
            const bool vectors_ = (n) % 8 == 0;                                                              \
            if (by_warp_ && vectors_)                                                                        \
                run<true, false, 8>(args);                                                                   \
            else if (by_warp_)                                                                               \
                run<true, false, 1>(args);                                                                   \
            else if (vectors_)                                                                               \
                run<true, true, 8>(args);                                                                    \
            else                                                                                             \
                run<true, true, 1>(args);                                                                    \
        }                                                                                                    \
    } while (0)

#endif
