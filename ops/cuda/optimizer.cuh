/* What updates of parameters have in common, and AdamW's: a thread has eight neighbouring elements. */
#ifndef ROTA_OPS_CUDA_OPTIMIZER_CUH
#define ROTA_OPS_CUDA_OPTIMIZER_CUH

#include "ops/cuda/values.cuh"
#include "ops/update_params.h"

constexpr int EACH = ROTA_CUDA_ELEMENTS / ROTA_CUDA_THREADS;
static_assert(EACH == 8, "a vector of 16 bytes of 16-bit gradients");

/* 1 - beta^n with a small relative error: for d(n) = 1 - beta^n, d(n + m) = d(n) + d(m) - d(n) d(m), by squaring. */
ROTA_DEVICE float one_minus_power(float beta, uint32_t n) {
    float result = 0.0f, square = 1.0f - beta;
    for (; n != 0; n >>= 1) {
        if (n & 1u) result = result + square - result * square;
        square = square * (2.0f - square);
    }
    return result;
}

/* Elements [i, i + 8) of `count`; beyond it 0, or nothing. */
template <bool HALF>
ROTA_DEVICE pack<EACH> load_eight(const values<HALF> &x, uint64_t i, uint64_t count, bool aligned) {
    if (i + EACH <= count) return x.template load<EACH>(i, aligned);
    pack<EACH> value = {};
    for (int j = 0; j < EACH; j++)
        if (i + j < count) value.v[j] = x.at(i + j);
    return value;
}
template <bool HALF>
ROTA_DEVICE void store_eight(const values<HALF> &y, uint64_t i, uint64_t count, bool aligned,
                             const pack<EACH> &value) {
    if (i + EACH <= count) return y.template store<EACH>(i, value, aligned);
    for (int j = 0; j < EACH; j++)
        if (i + j < count) y.put(i + j, value.v[j]);
}

/* Elements of a tensor that a thread updates: eight from the i-th on, of operands p, g, states, factor, half from the
 * first on. */
struct updated {
    int first;
    uint64_t i, count;
    uint32_t g_dtype, flags, half_dtype;
};

/* f(state, g, p) for each element: STATES arrays of f32 beside p, which f changes in place with p. G_HALF: the gradient
 * is 16-bit. begin: what all threads of a block do before f, meanwhile the elements come. */
template <bool G_HALF, int STATES, typename A, typename B, typename F>
ROTA_DEVICE void update(const A &args, const updated &of, B begin, F f) {
    const uint64_t count = of.count, i = of.i;
    const values<false> p(rota_operand<void>(args, of.first), 0, DTYPE_F32);
    const values<G_HALF> g(rota_operand<const void>(args, of.first + 1), 0, of.g_dtype);
    pack<EACH> weight, gradient, state[STATES];
    if (i < count) {
        weight = load_eight(p, i, count, p.aligned());
        gradient = load_eight(g, i, count, g.aligned());
#pragma unroll
        for (int s = 0; s < STATES; s++) {
            const values<false> x(rota_operand<void>(args, of.first + 2 + s), 0, DTYPE_F32);
            state[s] = load_eight(x, i, count, x.aligned());
        }
    }
    const float factor =
        of.flags & ROTA_UPDATE_FACTOR ? *rota_operand<const float>(args, of.first + 2 + STATES) : 1.0f;
    begin();
    if (i >= count) return;
    if (!(factor < 0.0f)) {
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            float own[STATES];
#pragma unroll
            for (int s = 0; s < STATES; s++) own[s] = state[s].v[j];
            f(own, gradient.v[j] * factor, weight.v[j]);
#pragma unroll
            for (int s = 0; s < STATES; s++) state[s].v[j] = own[s];
        }
#pragma unroll
        for (int s = 0; s < STATES; s++) {
            const values<false> x(rota_operand<void>(args, of.first + 2 + s), 0, DTYPE_F32);
            store_eight(x, i, count, x.aligned(), state[s]);
        }
        store_eight(p, i, count, p.aligned(), weight);
    }
    if (!(of.flags & ROTA_UPDATE_HALF)) return;
    const values<true> half(rota_operand<void>(args, of.first + 3 + STATES), 0, of.half_dtype);
    store_eight(half, i, count, half.aligned(), weight);
}

/* lr and step: the parameters', or, with RATES, what the factor has after itself. */
template <typename A>
ROTA_DEVICE void adamw_of(const A &args, const updated &of, const rota_adamw_params &o, float lr,
                          uint32_t step) {
    if (of.flags & ROTA_UPDATE_RATES) {
        const float *given = rota_operand<const float>(args, of.first + 4);
        lr = given[1];
        step = static_cast<uint32_t>(given[2]);
    }
    __shared__ float correction[2];
    float step_size, root_factor;
    auto begin = [&] {
        if (threadIdx.x < 2) correction[threadIdx.x] = one_minus_power(threadIdx.x ? o.beta2 : o.beta1, step);
        __syncthreads();
        step_size = lr / correction[0];
        root_factor = 1.0f / sqrtf(correction[1]);
    };
    const bool coupled = of.flags & ROTA_UPDATE_COUPLED;
    const float keep = coupled ? 1.0f : 1.0f - lr * o.weight_decay, added = coupled ? o.weight_decay : 0.0f;
    auto one = [&](float(&state)[2], float gradient, float &weight) {
        const float d = gradient + added * weight;
        state[0] = o.beta1 * state[0] + (1.0f - o.beta1) * d;
        state[1] = o.beta2 * state[1] + (1.0f - o.beta2) * d * d;
        weight = weight * keep - step_size * state[0] / (sqrtf(state[1]) * root_factor + o.eps);
    };
    if (of.g_dtype == DTYPE_F32)
        update<false, 2>(args, of, begin, one);
    else
        update<true, 2>(args, of, begin, one);
}

#endif
