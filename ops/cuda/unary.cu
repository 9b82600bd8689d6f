/* CUDA kernels: unary, unary_backward. */
#include "ops/cuda/activation.cuh"
#include "ops/cuda/typed.cuh"

ROTA_DEVICE void apply(uint32_t op, float alpha, float beta, float (&v)[EIGHT]) {
    switch (op) {
    case ROTA_UNARY_AFFINE:
        ROTA_EIGHT(__fadd_rn(__fmul_rn(alpha, v[j]), beta));
    case ROTA_UNARY_NEG:
        ROTA_EIGHT(-v[j]);
    case ROTA_UNARY_EXP:
        ROTA_EIGHT(expf(v[j]));
    case ROTA_UNARY_LOG:
        ROTA_EIGHT(logf(v[j]));
    case ROTA_UNARY_SQRT:
        ROTA_EIGHT(sqrtf(v[j]));
    case ROTA_UNARY_RELU:
        ROTA_EIGHT(v[j] < 0.0f ? 0.0f : v[j]);
    case ROTA_UNARY_GELU:
        ROTA_EIGHT(gelu(v[j]));
    case ROTA_UNARY_SILU:
        ROTA_EIGHT(v[j] * sigmoid(v[j]));
    case ROTA_UNARY_ABS:
        ROTA_EIGHT(fabsf(v[j]));
    case ROTA_UNARY_SQUARE:
        ROTA_EIGHT(v[j] * v[j]);
    case ROTA_UNARY_RECIPROCAL:
        ROTA_EIGHT(1.0f / v[j]);
    case ROTA_UNARY_RSQRT:
        ROTA_EIGHT(1.0f / sqrtf(v[j]));
    case ROTA_UNARY_TANH:
        ROTA_EIGHT(tanhf(v[j]));
    case ROTA_UNARY_SIGMOID:
        ROTA_EIGHT(sigmoid(v[j]));
    case ROTA_UNARY_SIN:
        ROTA_EIGHT(sinf(v[j]));
    case ROTA_UNARY_COS:
        ROTA_EIGHT(cosf(v[j]));
    case ROTA_UNARY_SIGN:
        ROTA_EIGHT(sign_of(v[j]));
    case ROTA_UNARY_FLOOR:
        ROTA_EIGHT(floorf(v[j]));
    case ROTA_UNARY_CEIL:
        ROTA_EIGHT(ceilf(v[j]));
    case ROTA_UNARY_ROUND:
        ROTA_EIGHT(rintf(v[j]));
    case ROTA_UNARY_GELU_ERF:
        ROTA_EIGHT(v[j] * normal_below(v[j]));
    case ROTA_UNARY_SOFTPLUS:
        ROTA_EIGHT((v[j] > 0.0f ? v[j] : 0.0f) + log1pf(expf(-fabsf(v[j]))));
    case ROTA_UNARY_HARDSWISH:
        ROTA_EIGHT(v[j] * fminf(fmaxf(v[j] + 3.0f, 0.0f), 6.0f) / 6.0f);
    case ROTA_UNARY_LEAKY_RELU:
        ROTA_EIGHT(v[j] > 0.0f ? v[j] : alpha * v[j]);
    case ROTA_UNARY_ELU:
        ROTA_EIGHT(v[j] > 0.0f ? v[j] : alpha * expm1f(v[j]));
    case ROTA_UNARY_POW:
        ROTA_EIGHT(powf(v[j], alpha));
    case ROTA_UNARY_CLAMP:
        ROTA_EIGHT(v[j] < alpha ? alpha : v[j] > beta ? beta : v[j]);
    default: /* SOFTCAP */
        ROTA_EIGHT(alpha * tanhf(v[j] / alpha));
    }
}

ROTA_KERNEL(unary, 2, rota_unary_params, ROTA_CUDA_THREADS) {
    const rota_unary_params &p = args.params;
    float v[EIGHT];
    load_eight(p.dtype, rota_operand<const void>(args, 0), p.count, v);
    apply(p.op, rota_param_f32(args, 0, p.alpha), rota_param_f32(args, 1, p.beta), v);
    store_eight(p.dtype, rota_operand<void>(args, 1), p.count, v);
}

ROTA_DEVICE float softcap_derivative(float x, float alpha) {
    const float t = tanhf(x / alpha);
    return 1.0f - t * t;
}

/* v is the op's output for EXP, SQRT, RECIPROCAL, RSQRT, TANH and SIGMOID, else its input; it becomes the gradient. */
ROTA_DEVICE void derive(uint32_t op, float alpha, float beta, const float (&dy)[EIGHT], float (&v)[EIGHT]) {
    switch (op) {
    case ROTA_UNARY_EXP:
        ROTA_EIGHT(dy[j] * v[j]);
    case ROTA_UNARY_LOG:
        ROTA_EIGHT(dy[j] / v[j]);
    case ROTA_UNARY_SQRT:
        ROTA_EIGHT(dy[j] * 0.5f / v[j]);
    case ROTA_UNARY_RELU:
        ROTA_EIGHT(v[j] > 0.0f ? dy[j] : 0.0f);
    case ROTA_UNARY_GELU:
        ROTA_EIGHT(dy[j] * gelu_derivative(v[j]));
    case ROTA_UNARY_SILU:
        ROTA_EIGHT(dy[j] * silu_derivative(v[j]));
    case ROTA_UNARY_ABS:
        ROTA_EIGHT(dy[j] * sign_of(v[j]));
    case ROTA_UNARY_SQUARE:
        ROTA_EIGHT(dy[j] * (2.0f * v[j]));
    case ROTA_UNARY_RECIPROCAL:
        ROTA_EIGHT(-dy[j] * v[j] * v[j]);
    case ROTA_UNARY_RSQRT:
        ROTA_EIGHT(dy[j] * (-0.5f * v[j] * v[j] * v[j]));
    case ROTA_UNARY_TANH:
        ROTA_EIGHT(dy[j] * (1.0f - v[j] * v[j]));
    case ROTA_UNARY_SIGMOID:
        ROTA_EIGHT(dy[j] * v[j] * (1.0f - v[j]));
    case ROTA_UNARY_SIN:
        ROTA_EIGHT(dy[j] * cosf(v[j]));
    case ROTA_UNARY_COS:
        ROTA_EIGHT(-dy[j] * sinf(v[j]));
    case ROTA_UNARY_GELU_ERF:
        ROTA_EIGHT(dy[j] * (normal_below(v[j]) + v[j] * normal_density(v[j])));
    case ROTA_UNARY_SOFTPLUS:
        ROTA_EIGHT(dy[j] * sigmoid(v[j]));
    case ROTA_UNARY_HARDSWISH:
        ROTA_EIGHT(dy[j] * (v[j] <= -3.0f ? 0.0f : v[j] >= 3.0f ? 1.0f : (2.0f * v[j] + 3.0f) / 6.0f));
    case ROTA_UNARY_LEAKY_RELU:
        ROTA_EIGHT(dy[j] * (v[j] > 0.0f ? 1.0f : alpha));
    case ROTA_UNARY_ELU:
        ROTA_EIGHT(dy[j] * (v[j] > 0.0f ? 1.0f : alpha * expf(v[j])));
    case ROTA_UNARY_POW:
        ROTA_EIGHT(alpha == 0.0f ? 0.0f : dy[j] * (alpha * powf(v[j], alpha - 1.0f)));
    case ROTA_UNARY_CLAMP:
        ROTA_EIGHT(v[j] >= alpha && v[j] <= beta ? dy[j] : 0.0f);
    case ROTA_UNARY_SOFTCAP:
        ROTA_EIGHT(dy[j] * softcap_derivative(v[j], alpha));
    default: /* SIGN, FLOOR, CEIL, ROUND */
        ROTA_EIGHT(0.0f);
    }
}

ROTA_KERNEL(unary_backward, 3, rota_unary_params, ROTA_CUDA_THREADS) {
    const rota_unary_params &p = args.params;
    float v[EIGHT], dy[EIGHT];
    load_eight(p.dtype, rota_operand<const void>(args, 0), p.count, v);
    load_eight(p.dtype, rota_operand<const void>(args, 1), p.count, dy);
    derive(p.op, rota_param_f32(args, 0, p.alpha), rota_param_f32(args, 1, p.beta), dy, v);
    store_eight(p.dtype, rota_operand<void>(args, 2), p.count, v);
}
