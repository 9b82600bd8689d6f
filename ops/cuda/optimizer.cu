/* CUDA kernels: adamw, momentum, loss_scale. The first two are bound by memory: a thread has eight neighbouring
 * elements. */
#include "ops/cuda/optimizer.cuh"

ROTA_KERNEL(adamw, 6, rota_adamw_params, ROTA_CUDA_THREADS) {
    const rota_adamw_params &o = args.params;
    const bool rates = o.flags & ROTA_UPDATE_RATES;
    const updated of = {0, rota_index() * EACH, o.count, o.g_dtype, o.flags, o.half_dtype};
    adamw_of(args, of, o, rates ? 0.0f : rota_param_f32(args, 0, o.lr),
             rates ? 0 : rota_param_u32(args, 1, o.step));
}

ROTA_KERNEL(momentum, 5, rota_momentum_params, ROTA_CUDA_THREADS) {
    const rota_momentum_params &o = args.params;
    const float lr = rota_param_f32(args, 0, o.lr), keep = 1.0f - lr * o.weight_decay;
    const bool sign = o.flags & ROTA_UPDATE_SIGN, nesterov = o.flags & ROTA_UPDATE_NESTEROV;
    auto one = [&](float(&state)[1], float gradient, float &weight) {
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
    const updated of = {0, rota_index() * EACH, o.count, o.g_dtype, o.flags, o.half_dtype};
    if (o.g_dtype == DTYPE_F32)
        update<false, 1>(
            args, of, [] {}, one);
    else
        update<true, 1>(
            args, of, [] {}, one);
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
