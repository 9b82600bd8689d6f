/* Activation functions and their derivatives, for the elementwise kernels. */
#ifndef ROTA_OPS_CUDA_ACTIVATION_CUH
#define ROTA_OPS_CUDA_ACTIVATION_CUH

#include "ops/cuda/common.cuh"

constexpr float GELU_SCALE = 1.5957691216f; /* 2 sqrt(2 / pi): 0.5 (1 + tanh u) is sigmoid(2 u) */
constexpr float GELU_CUBE = 0.044715f;

/* 1 / (1 + exp(-x)), the reciprocal within one unit of the last place, and 0 below 2^-126. */
ROTA_DEVICE float sigmoid(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(1.0f + expf(-x)));
    return y;
}
ROTA_DEVICE float gelu_sigmoid(float x) { return sigmoid(GELU_SCALE * (x + GELU_CUBE * x * x * x)); }
ROTA_DEVICE float gelu(float x) { return x * gelu_sigmoid(x); }
ROTA_DEVICE float gelu_derivative(float x) {
    const float s = gelu_sigmoid(x);
    return s + x * s * (1.0f - s) * GELU_SCALE * (1.0f + 3.0f * GELU_CUBE * x * x);
}
ROTA_DEVICE float silu_derivative(float x) {
    const float s = sigmoid(x);
    return s + x * s * (1.0f - s);
}
/* The standard normal distribution and its density. */
ROTA_DEVICE float normal_below(float x) { return 0.5f * (1.0f + erff(x * 0.70710678f)); }
ROTA_DEVICE float normal_density(float x) { return 0.39894228f * expf(-0.5f * x * x); }

ROTA_DEVICE float sign_of(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x; }

#endif
