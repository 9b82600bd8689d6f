/* CUDA kernels: dropout, cast, check_finite. */
#include "ops/cuda/f8.cuh"
#include "ops/cuda/philox.cuh"
#include "ops/cuda/typed.cuh"

/* ---- dropout ---- */

ROTA_KERNEL(dropout, 3, rota_dropout_params, ROTA_CUDA_THREADS) {
    const rota_dropout_params &p = args.params;
    const uint32_t seed = rota_param_u32(args, 0, p.seed), step = rota_param_u32(args, 1, p.step);
    float v[EIGHT], residual[EIGHT] = {};
    load_eight(p.dtype, rota_operand<const void>(args, 0), p.count, v);
    if (p.has_residual) load_eight(p.dtype, rota_operand<const void>(args, 1), p.count, residual);
#pragma unroll
    for (int k = 0; k < EIGHT; k += 4) {
        const uint64_t i =
            p.dtype == DTYPE_F32 ? thread_elements<float>::first(k / 4) : thread_elements<__half>::first(0) + k;
        const uint4 words = philox(make_uint4(p.first + static_cast<uint32_t>(i / 4), p.stream, step, 0), seed);
        const uint32_t word[] = {words.x, words.y, words.z, words.w};
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float kept = word[j] >= p.threshold ? __fmul_rn(v[k + j], p.scale) : 0.0f;
            v[k + j] = p.has_residual ? __fadd_rn(residual[k + j], kept) : kept;
        }
    }
    store_eight(p.dtype, rota_operand<void>(args, 2), p.count, v);
}

/* ---- cast ---- */

template <typename T> using four = several<T, 4>;

template <typename From, typename To> ROTA_DEVICE void cast_all(const From *x, To *y, uint64_t count) {
    const bool aligned = reinterpret_cast<uint64_t>(x) % sizeof(four<From>) == 0 &&
                         reinterpret_cast<uint64_t>(y) % sizeof(four<To>) == 0;
#pragma unroll
    for (int g = 0; g < GROUPS_OF_FOUR; g++) {
        const uint64_t i = element_of(g);
        if (i >= count) return;
        if (aligned && i + 4 <= count) {
            const four<From> value = *reinterpret_cast<const four<From> *>(x + i);
            four<To> result;
#pragma unroll
            for (int j = 0; j < 4; j++) result.v[j] = narrow<To>(widen(value.v[j]));
            *reinterpret_cast<four<To> *>(y + i) = result;
        } else {
            for (int j = 0; j < 4 && i + j < count; j++) y[i + j] = narrow<To>(widen(x[i + j]));
        }
    }
}

constexpr uint32_t DTYPE_I32 = 3; /* rota_dtype */

ROTA_DEVICE float widen(int32_t x) { return __int2float_rn(x); }
/* Saturates; of NaN 0. */
template <> ROTA_DEVICE int32_t narrow<int32_t>(float x) { return __float2int_rz(x); }

template <typename From, typename A> ROTA_DEVICE void cast_from(const A &args) {
    const From *x = rota_operand<const From>(args, 0);
    switch (args.params.to) {
    case DTYPE_I32:
        return cast_all(x, rota_operand<int32_t>(args, 1), args.params.count);
    case DTYPE_F32:
        return cast_all(x, rota_operand<float>(args, 1), args.params.count);
    case DTYPE_F16:
        return cast_all(x, rota_operand<__half>(args, 1), args.params.count);
    case DTYPE_F8_E4M3FN:
        return cast_all(x, rota_operand<f8_e4m3fn>(args, 1), args.params.count);
    case DTYPE_F8_E5M2:
        return cast_all(x, rota_operand<f8_e5m2>(args, 1), args.params.count);
    default:
        return cast_all(x, rota_operand<__nv_bfloat16>(args, 1), args.params.count);
    }
}

ROTA_KERNEL(cast, 2, rota_cast_params, ROTA_CUDA_THREADS) {
    switch (args.params.from) {
    case DTYPE_F32:
        return cast_from<float>(args);
    case DTYPE_F16:
        return cast_from<__half>(args);
    case DTYPE_I32:
        return cast_from<int32_t>(args);
    case DTYPE_F8_E4M3FN:
        return cast_from<f8_e4m3fn>(args);
    case DTYPE_F8_E5M2:
        return cast_from<f8_e5m2>(args);
    default:
        return cast_from<__nv_bfloat16>(args);
    }
}

/* ---- check_finite ---- */

/* Integer atomics only, so the result does not depend on the order. */
ROTA_KERNEL(check_finite, 2, rota_check_finite_params, ROTA_CUDA_THREADS) {
    const void *x = rota_operand<const void>(args, 0);
    const uint64_t count = args.params.count;
    const uint32_t dtype = args.params.dtype, mask = dtype == DTYPE_F16 ? 0x7C00u : 0x7F80u;
    uint32_t bad = 0, first = 0xFFFFFFFFu;
#pragma unroll
    for (int g = 0; g < GROUPS_OF_FOUR; g++) {
        const uint64_t i = element_of(g);
#pragma unroll
        for (uint64_t j = i; j < i + 4; j++) {
            if (j >= count) break;
            const bool finite = dtype == DTYPE_F32
                                    ? (static_cast<const uint32_t *>(x)[j] & 0x7F800000u) != 0x7F800000u
                                    : (static_cast<const uint16_t *>(x)[j] & mask) != mask;
            if (finite) continue;
            bad++;
            first = min(first, static_cast<uint32_t>(j));
        }
    }
    if (bad == 0) return;
    uint32_t *found = rota_operand<uint32_t>(args, 1);
    atomicAdd(&found[0], bad);
    atomicMin(&found[1], first);
}
