/* Functions of one f32 that loops over elements can be vectorised with. Internal. */
#ifndef ROTA_OPS_CPU_FUNCTIONS_H
#define ROTA_OPS_CPU_FUNCTIONS_H

#include "ops/cpu/cpu.h"

/* exp to 2 ulp: x = n ln 2 + r with |r| <= ln 2 / 2, the Taylor polynomial of degree 7 in r (remainder below
 * 2^-27), scaled by 2^n in two factors so that results down to the smallest normal number come out right. 0
 * below that, infinity above the largest float, NaN of NaN. */
ROTA_INLINE float rota_cpu_exp(float x) {
    const float low = -87.3365448f, high = 88.7228394f;
    float clamped = x < low ? low : x;
    clamped = clamped > high ? high : clamped;
    float shifted = clamped * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: the low mantissa bits are n */
    float n = shifted - 12582912.0f;
    float r = clamped - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    float p = 1.98412698e-4f;
    p = p * r + 1.38888889e-3f;
    p = p * r + 8.33333333e-3f;
    p = p * r + 4.16666667e-2f;
    p = p * r + 1.66666667e-1f;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    uint32_t k = rota_f32_bits(shifted) - 0x4B400000u; /* n as a two's complement integer */
    uint32_t half = (uint32_t)((int32_t)k >> 1);
    float y = p * rota_f32_of_bits((half + 127u) << 23) * rota_f32_of_bits((k - half + 127u) << 23);
    y = x < low ? 0.0f : y;
    return x > high ? INFINITY : y;
}

ROTA_INLINE float rota_cpu_sigmoid(float x) {
    return 1.0f / (1.0f + rota_cpu_exp(-x));
}

/* exp(x) - 1 to 8 ulp: near 0, where the difference would lose digits, the Taylor polynomial (remainder below
 * 2^-27 of the result for |x| <= ln 2 / 2). */
ROTA_INLINE float rota_cpu_expm1(float x) {
    float p = 1.98412698e-4f;
    p = p * x + 1.38888889e-3f;
    p = p * x + 8.33333333e-3f;
    p = p * x + 4.16666667e-2f;
    p = p * x + 1.66666667e-1f;
    p = p * x + 0.5f;
    p = p * x * x + x;
    float far = rota_cpu_exp(x) - 1.0f;
    return fabsf(x) <= 0.34657359f ? p : far;
}

ROTA_INLINE float rota_cpu_tanh(float x) {
    float e = rota_cpu_expm1(-2.0f * fabsf(x));
    return copysignf(-e / (e + 2.0f), x);
}

/* To 1.5e-7 (Abramowitz and Stegun, Handbook of mathematical functions, 7.1.26). */
ROTA_INLINE float rota_cpu_erf(float x) {
    float z = fabsf(x), t = 1.0f / (1.0f + 0.3275911f * z);
    float p = 1.061405429f;
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    return copysignf(1.0f - p * t * rota_cpu_exp(-z * z), x);
}

/* The tanh form; 0.5 (1 + tanh u) is sigmoid(2 u). */
ROTA_INLINE float rota_cpu_gelu_sigmoid(float x) {
    return rota_cpu_sigmoid(1.5957691216f /* 2 sqrt(2 / pi) */ * (x + 0.044715f * x * x * x));
}
ROTA_INLINE float rota_cpu_gelu(float x) {
    return x * rota_cpu_gelu_sigmoid(x);
}
ROTA_INLINE float rota_cpu_gelu_derivative(float x) {
    float s = rota_cpu_gelu_sigmoid(x);
    return s + x * s * (1.0f - s) * 1.5957691216f * (1.0f + 3.0f * 0.044715f * x * x);
}

#endif
