/* CUDA kernels: unary, unary_backward, binary, dropout, adamw, cast, check_finite. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "ops/cuda/common.cuh"

/* ---- unary ---- */

constexpr float GELU_SCALE = 1.5957691216f; /* 2 sqrt(2 / pi): 0.5 (1 + tanh u) is sigmoid(2 u) */
constexpr float GELU_CUBE = 0.044715f;

ROTA_DEVICE float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
ROTA_DEVICE float gelu_sigmoid(float x) { return sigmoid(GELU_SCALE * (x + GELU_CUBE * x * x * x)); }

ROTA_KERNEL(unary, 2, rota_unary_params, ROTA_CUDA_THREADS) {
    const float *const in[] = {rota_operand<const float>(args, 0)};
    float *y = rota_operand<float>(args, 1);
    const uint64_t count = args.params.count;
    switch (args.params.op) {
    case ROTA_UNARY_AFFINE: {
        const float alpha = rota_param_f32(args, 0, args.params.alpha), beta = rota_param_f32(args, 1, args.params.beta);
        return each(in, y, count, [=](const float(&x)[1]) { return __fadd_rn(__fmul_rn(alpha, x[0]), beta); });
    }
    case ROTA_UNARY_NEG:
        return each(in, y, count, [](const float(&x)[1]) { return -x[0]; });
    case ROTA_UNARY_EXP:
        return each(in, y, count, [](const float(&x)[1]) { return expf(x[0]); });
    case ROTA_UNARY_LOG:
        return each(in, y, count, [](const float(&x)[1]) { return logf(x[0]); });
    case ROTA_UNARY_SQRT:
        return each(in, y, count, [](const float(&x)[1]) { return sqrtf(x[0]); });
    case ROTA_UNARY_RELU:
        return each(in, y, count, [](const float(&x)[1]) { return x[0] < 0.0f ? 0.0f : x[0]; });
    case ROTA_UNARY_GELU:
        return each(in, y, count, [](const float(&x)[1]) { return x[0] * gelu_sigmoid(x[0]); });
    default:
        return each(in, y, count, [](const float(&x)[1]) { return x[0] * sigmoid(x[0]); });
    }
}

ROTA_DEVICE float gelu_derivative(float x) {
    const float s = gelu_sigmoid(x);
    return s + x * s * (1.0f - s) * GELU_SCALE * (1.0f + 3.0f * GELU_CUBE * x * x);
}
ROTA_DEVICE float silu_derivative(float x) {
    const float s = sigmoid(x);
    return s + x * s * (1.0f - s);
}

/* x[0] is v: the op's output for EXP and SQRT, else its input; x[1] is dy. */
ROTA_KERNEL(unary_backward, 3, rota_unary_params, ROTA_CUDA_THREADS) {
    const float *const in[] = {rota_operand<const float>(args, 0), rota_operand<const float>(args, 1)};
    float *dx = rota_operand<float>(args, 2);
    const uint64_t count = args.params.count;
    switch (args.params.op) {
    case ROTA_UNARY_EXP:
        return each(in, dx, count, [](const float(&x)[2]) { return x[1] * x[0]; });
    case ROTA_UNARY_LOG:
        return each(in, dx, count, [](const float(&x)[2]) { return x[1] / x[0]; });
    case ROTA_UNARY_SQRT:
        return each(in, dx, count, [](const float(&x)[2]) { return x[1] * 0.5f / x[0]; });
    case ROTA_UNARY_RELU:
        return each(in, dx, count, [](const float(&x)[2]) { return x[0] > 0.0f ? x[1] : 0.0f; });
    case ROTA_UNARY_GELU:
        return each(in, dx, count, [](const float(&x)[2]) { return x[1] * gelu_derivative(x[0]); });
    default:
        return each(in, dx, count, [](const float(&x)[2]) { return x[1] * silu_derivative(x[0]); });
    }
}

/* ---- binary ---- */

ROTA_DEVICE float binary_of(uint32_t op, float a, float b) {
    switch (op) {
    case ROTA_BINARY_ADD:
        return a + b;
    case ROTA_BINARY_SUB:
        return a - b;
    case ROTA_BINARY_MUL:
        return a * b;
    case ROTA_BINARY_DIV:
        return a / b;
    case ROTA_BINARY_RSUB:
        return b - a;
    default:
        return b / a;
    }
}

/* b strided: four elements at a time share the search for b's place where the innermost extent is a multiple of 4. */
ROTA_DEVICE void binary_strided(const rota_binary_params &p, const float *a, const float *b, float *y) {
    const int last = ROTA_KERNEL_DIMS - 1;
    const bool aligned = aligned16(a) && aligned16(y), by_four = p.shape[last] % 4 == 0;
    const uint32_t step = p.b_stride[last];
    auto place = [&](uint32_t i) {
        uint64_t at = 0;
        for (int d = last; d >= 0 && i != 0; d--) {
            at += static_cast<uint64_t>(i % p.shape[d]) * p.b_stride[d];
            i /= p.shape[d];
        }
        return b + at;
    };
#pragma unroll
    for (int g = 0; g < GROUPS_OF_FOUR; g++) {
        const uint64_t i = element_of(g);
        if (i >= p.count) return;
        pack<4> value = load_four(a, i, p.count, aligned), right = {};
        if (by_four) {
            const float *from = place(static_cast<uint32_t>(i));
            if (step == 1)
                right = load<4>(from, aligned16(from));
            else
#pragma unroll
                for (int j = 0; j < 4; j++) right.v[j] = from[static_cast<uint64_t>(step) * j];
        } else {
            for (int j = 0; j < 4; j++)
                if (i + j < p.count) right.v[j] = *place(static_cast<uint32_t>(i + j));
        }
#pragma unroll
        for (int j = 0; j < 4; j++) value.v[j] = binary_of(p.op, value.v[j], right.v[j]);
        store_four(y, i, p.count, aligned, value);
    }
}

ROTA_KERNEL(binary, 3, rota_binary_params, ROTA_CUDA_THREADS) {
    const rota_binary_params &p = args.params;
    const float *a = rota_operand<const float>(args, 0), *b = rota_operand<const float>(args, 1);
    float *y = rota_operand<float>(args, 2);
    const int last = ROTA_KERNEL_DIMS - 1;
    if (p.shape[last] != p.count || p.b_stride[last] > 1) return binary_strided(p, a, b, y);
    const uint32_t op = p.op;
    if (p.b_stride[last] == 1)
        return each({a, b}, y, p.count, [=](const float(&x)[2]) { return binary_of(op, x[0], x[1]); });
    const float scalar = *b;
    each({a}, y, p.count, [=](const float(&x)[1]) { return binary_of(op, x[0], scalar); });
}

/* ---- dropout ---- */

/* Philox4x32-10 (Salmon et al., SC 2011). */
ROTA_DEVICE uint4 philox(uint4 counter, uint32_t key) {
    uint32_t other = 0;
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const uint32_t low_a = 0xD2511F53u * counter.x, high_a = __umulhi(0xD2511F53u, counter.x);
        const uint32_t low_b = 0xCD9E8D57u * counter.z, high_b = __umulhi(0xCD9E8D57u, counter.z);
        counter = make_uint4(high_b ^ counter.y ^ key, low_b, high_a ^ counter.w ^ other, low_a);
        key += 0x9E3779B9u;
        other += 0xBB67AE85u;
    }
    return counter;
}

ROTA_KERNEL(dropout, 2, rota_dropout_params, ROTA_CUDA_THREADS) {
    const rota_dropout_params &p = args.params;
    const float *x = rota_operand<const float>(args, 0);
    float *y = rota_operand<float>(args, 1);
    const uint32_t seed = rota_param_u32(args, 0, p.seed), step = rota_param_u32(args, 1, p.step);
    const bool aligned = aligned16(x) && aligned16(y);
#pragma unroll
    for (int g = 0; g < GROUPS_OF_FOUR; g++) {
        const uint64_t i = element_of(g);
        if (i >= p.count) return;
        pack<4> value = load_four(x, i, p.count, aligned);
        const uint4 words = philox(make_uint4(static_cast<uint32_t>(i / 4), p.stream, step, 0), seed);
        value.v[0] = words.x >= p.threshold ? value.v[0] * p.scale : 0.0f;
        value.v[1] = words.y >= p.threshold ? value.v[1] * p.scale : 0.0f;
        value.v[2] = words.z >= p.threshold ? value.v[2] * p.scale : 0.0f;
        value.v[3] = words.w >= p.threshold ? value.v[3] * p.scale : 0.0f;
        store_four(y, i, p.count, aligned, value);
    }
}

/* ---- adamw ---- */

/* 1 - beta^n with a small relative error: for d(n) = 1 - beta^n, d(n + m) = d(n) + d(m) - d(n) d(m), by squaring. */
ROTA_DEVICE float one_minus_power(float beta, uint32_t n) {
    float result = 0.0f, square = 1.0f - beta;
    for (; n != 0; n >>= 1) {
        if (n & 1u) result = result + square - result * square;
        square = square * (2.0f - square);
    }
    return result;
}

ROTA_KERNEL(adamw, 5, rota_adamw_params, ROTA_CUDA_THREADS) {
    const rota_adamw_params &o = args.params;
    float *p = rota_operand<float>(args, 0), *m = rota_operand<float>(args, 2), *v = rota_operand<float>(args, 3);
    const float *g = rota_operand<const float>(args, 1);
    const float lr = rota_param_f32(args, 0, o.lr);
    const uint32_t step = rota_param_u32(args, 1, o.step);
    const float factor = o.has_factor ? *rota_operand<const float>(args, 4) : 1.0f;
    __shared__ float correction[2];
    if (threadIdx.x < 2) correction[threadIdx.x] = one_minus_power(threadIdx.x ? o.beta2 : o.beta1, step);
    __syncthreads();
    const float step_size = lr / correction[0], root_factor = 1.0f / sqrtf(correction[1]);
    const float keep = 1.0f - lr * o.weight_decay;
    const bool aligned = aligned16(p) && aligned16(g) && aligned16(m) && aligned16(v);
#pragma unroll
    for (int k = 0; k < GROUPS_OF_FOUR; k++) {
        const uint64_t i = element_of(k);
        if (i >= o.count) return;
        pack<4> weight = load_four(p, i, o.count, aligned), first = load_four(m, i, o.count, aligned);
        pack<4> second = load_four(v, i, o.count, aligned);
        const pack<4> gradient = load_four(g, i, o.count, aligned);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float d = gradient.v[j] * factor;
            first.v[j] = o.beta1 * first.v[j] + (1.0f - o.beta1) * d;
            second.v[j] = o.beta2 * second.v[j] + (1.0f - o.beta2) * d * d;
            weight.v[j] = weight.v[j] * keep - step_size * first.v[j] / (sqrtf(second.v[j]) * root_factor + o.eps);
        }
        store_four(m, i, o.count, aligned, first);
        store_four(v, i, o.count, aligned, second);
        store_four(p, i, o.count, aligned, weight);
    }
}

/* ---- cast ---- */

ROTA_DEVICE float widen(float x) { return x; }
ROTA_DEVICE float widen(__half x) { return __half2float(x); }
ROTA_DEVICE float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
template <typename T> ROTA_DEVICE T narrow(float x);
template <> ROTA_DEVICE float narrow<float>(float x) { return x; }
template <> ROTA_DEVICE __half narrow<__half>(float x) { return __float2half_rn(x); }
template <> ROTA_DEVICE __nv_bfloat16 narrow<__nv_bfloat16>(float x) { return __float2bfloat16_rn(x); }

template <typename T> struct alignas(4 * sizeof(T)) four {
    T v[4];
};

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

template <typename From, typename A> ROTA_DEVICE void cast_from(const A &args) {
    const From *x = rota_operand<const From>(args, 0);
    switch (args.params.to) {
    case DTYPE_F32:
        return cast_all(x, rota_operand<float>(args, 1), args.params.count);
    case DTYPE_F16:
        return cast_all(x, rota_operand<__half>(args, 1), args.params.count);
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
    default:
        return cast_from<__nv_bfloat16>(args);
    }
}

/* ---- check_finite ---- */

/* Integer atomics only, so the result does not depend on the order. */
ROTA_KERNEL(check_finite, 2, rota_check_finite_params, ROTA_CUDA_THREADS) {
    const float *x = rota_operand<const float>(args, 0);
    const uint64_t count = args.params.count;
    const bool aligned = aligned16(x);
    uint32_t bad = 0, first = 0xFFFFFFFFu;
#pragma unroll
    for (int g = 0; g < GROUPS_OF_FOUR; g++) {
        const uint64_t i = element_of(g);
        if (i >= count) break;
        const pack<4> value = load_four(x, i, count, aligned);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            if ((__float_as_uint(value.v[j]) & 0x7F800000u) != 0x7F800000u) continue;
            bad++;
            first = min(first, static_cast<uint32_t>(i) + j);
        }
    }
    if (bad == 0) return;
    uint32_t *found = rota_operand<uint32_t>(args, 1);
    atomicAdd(&found[0], bad);
    atomicMin(&found[1], first);
}
