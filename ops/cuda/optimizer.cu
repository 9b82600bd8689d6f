/* CUDA kernels: adamw, momentum, loss_scale. The first two are bound by memory: a thread has eight neighbouring
 * elements. */
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
ROTA_DEVICE void store_eight(const values<HALF> &y, uint64_t i, uint64_t count, bool aligned, const pack<EACH> &value) {
    if (i + EACH <= count) return y.template store<EACH>(i, value, aligned);
    for (int j = 0; j < EACH; j++)
        if (i + j < count) y.put(i + j, value.v[j]);
}

/* f(state, g, p) for each element: STATES arrays of f32 beside p, which f changes in place with p. Operands: p, g,
 * states, factor, half. G_HALF: the gradient is 16-bit. begin: what all threads of a block do before f, meanwhile the
 * elements come. */
template <bool G_HALF, int STATES, typename A, typename B, typename F>
ROTA_DEVICE void update(const A &args, B begin, F f) {
    const uint64_t count = args.params.count, i = rota_index() * EACH;
    const values<false> p(rota_operand<void>(args, 0), 0, DTYPE_F32);
    const values<G_HALF> g(rota_operand<const void>(args, 1), 0, args.params.g_dtype);
    pack<EACH> weight, gradient, state[STATES];
    if (i < count) {
        weight = load_eight(p, i, count, p.aligned());
        gradient = load_eight(g, i, count, g.aligned());
#pragma unroll
        for (int s = 0; s < STATES; s++) {
            const values<false> x(rota_operand<void>(args, 2 + s), 0, DTYPE_F32);
            state[s] = load_eight(x, i, count, x.aligned());
        }
    }
    const float factor = args.params.flags & ROTA_UPDATE_FACTOR ? *rota_operand<const float>(args, 2 + STATES) : 1.0f;
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
            const values<false> x(rota_operand<void>(args, 2 + s), 0, DTYPE_F32);
            store_eight(x, i, count, x.aligned(), state[s]);
        }
        store_eight(p, i, count, p.aligned(), weight);
    }
    if (!(args.params.flags & ROTA_UPDATE_HALF)) return;
    const values<true> half(rota_operand<void>(args, 3 + STATES), 0, args.params.half_dtype);
    store_eight(half, i, count, half.aligned(), weight);
}

ROTA_KERNEL(adamw, 6, rota_adamw_params, ROTA_CUDA_THREADS) {
    const rota_adamw_params &o = args.params;
    const float *given = rota_operand<const float>(args, 4);
    const bool rates = o.flags & ROTA_UPDATE_RATES;
    const float lr = rates ? given[1] : rota_param_f32(args, 0, o.lr);
    const uint32_t step = rates ? static_cast<uint32_t>(given[2]) : rota_param_u32(args, 1, o.step);
    __shared__ float correction[2];
    float step_size, root_factor;
    auto begin = [&] {
        if (threadIdx.x < 2) correction[threadIdx.x] = one_minus_power(threadIdx.x ? o.beta2 : o.beta1, step);
        __syncthreads();
        step_size = lr / correction[0];
        root_factor = 1.0f / sqrtf(correction[1]);
    };
    const bool coupled = o.flags & ROTA_UPDATE_COUPLED;
    const float keep = coupled ? 1.0f : 1.0f - lr * o.weight_decay, added = coupled ? o.weight_decay : 0.0f;
    auto one = [&](float (&state)[2], float gradient, float &weight) {
        const float d = gradient + added * weight;
        state[0] = o.beta1 * state[0] + (1.0f - o.beta1) * d;
        state[1] = o.beta2 * state[1] + (1.0f - o.beta2) * d * d;
        weight = weight * keep - step_size * state[0] / (sqrtf(state[1]) * root_factor + o.eps);
    };
    if (o.g_dtype == DTYPE_F32)
        update<false, 2>(args, begin, one);
    else
        update<true, 2>(args, begin, one);
}

ROTA_KERNEL(momentum, 5, rota_momentum_params, ROTA_CUDA_THREADS) {
    const rota_momentum_params &o = args.params;
    const float lr = rota_param_f32(args, 0, o.lr), keep = 1.0f - lr * o.weight_decay;
    const bool sign = o.flags & ROTA_UPDATE_SIGN, nesterov = o.flags & ROTA_UPDATE_NESTEROV;
    auto one = [&](float (&state)[1], float gradient, float &weight) {
        if (sign) {
            const float u = o.beta1 * state[0] + (1.0f - o.beta1) * gradient;
            weight = weight * keep - lr * (u > 0.0f ? 1.0f : u < 0.0f ? -1.0f : u);
            state[0] = o.beta2 * state[0] + (1.0f - o.beta2) * gradient;
        } else {
            const float d = gradient + o.weight_decay * weight;
            state[0] = o.beta1 * state[0] + d;
            weight -= lr * (nesterov ? d + o.beta1 * state[0] : state[0]);
        }
    };
    if (o.g_dtype == DTYPE_F32)
        update<false, 1>(args, [] {}, one);
    else
        update<true, 1>(args, [] {}, one);
}

/* One thread. */
ROTA_KERNEL(loss_scale, 3, rota_loss_scale_params, 32) {
    const rota_loss_scale_params &o = args.params;
    float *state = rota_operand<float>(args, 1), *factor = rota_operand<float>(args, 2);
    if (rota_index() != 0) return;
    const float scale = state[0], norm = *rota_operand<const float>(args, 0) / scale;
    if ((__float_as_uint(norm) & 0x7F800000u) == 0x7F800000u) {
        *factor = -1.0f;
        state[0] = scale * o.backoff;
        state[1] = 0.0f;
        return;
    }
    *factor = (norm > o.max_norm ? o.max_norm / norm : 1.0f) / scale;
    const float steps = state[1] + 1.0f;
    const bool grow = steps >= static_cast<float>(o.interval);
    state[1] = grow ? 0.0f : steps;
    if (grow) state[0] = scale * o.growth;
}
