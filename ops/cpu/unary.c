/* CPU kernels: unary, unary_backward. Items are elements. */
#include "cpu.h"
#include "functions.h"
#include "half.h"

void rota_cpu_items_unary(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                          uint64_t *out_grain) {
    (void)operand_bytes;
    *out_items = ((const rota_unary_params *)params)->count;
    *out_grain = ROTA_CPU_GRAIN;
}

void rota_cpu_items_unary_backward(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                   uint64_t *out_grain) {
    rota_cpu_items_unary(params, operand_bytes, out_items, out_grain);
}

#define ROOT_HALF 0.70710678f /* 1 / sqrt 2 */

ROTA_INLINE float sign_of(float x) {
    return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x;
}

/* The standard normal distribution and its density. */
ROTA_INLINE float normal_below(float x) {
    return 0.5f * (1.0f + rota_cpu_erf(x * ROOT_HALF));
}
ROTA_INLINE float normal_density(float x) {
    return 0.39894228f * rota_cpu_exp(-0.5f * x * x);
}

ROTA_INLINE float clamp(float x, float low, float high) {
    float above = x < low ? low : x;
    return above > high ? high : above;
}

#define EACH(EXPRESSION)                                                                                     \
    ROTA_IVDEP                                                                                               \
    for (uint64_t i = 0; i < count; i++) y[i] = (EXPRESSION);                                                \
    break

/* The ops that take numbers. */
ROTA_VECTOR static void unary_of_numbers(const rota_unary_params *p, const float *x, float *y,
                                         uint64_t count) {
    const float alpha = p->alpha, beta = p->beta;
    switch (p->op) {
    case ROTA_UNARY_AFFINE:
        EACH(alpha * x[i] + beta);
    case ROTA_UNARY_LEAKY_RELU:
        EACH(x[i] > 0.0f ? x[i] : alpha * x[i]);
    case ROTA_UNARY_ELU:
        EACH(x[i] > 0.0f ? x[i] : alpha * rota_cpu_expm1(x[i]));
    case ROTA_UNARY_POW:
        EACH(powf(x[i], alpha));
    case ROTA_UNARY_CLAMP:
        EACH(clamp(x[i], alpha, beta));
    case ROTA_UNARY_SOFTCAP:
        EACH(alpha * rota_cpu_tanh(x[i] / alpha));
    default:
        break;
    }
}

ROTA_VECTOR static void unary(const rota_unary_params *p, const float *x, float *y, uint64_t count) {
    switch (p->op) {
    case ROTA_UNARY_NEG:
        EACH(-x[i]);
    case ROTA_UNARY_EXP:
        EACH(rota_cpu_exp(x[i]));
    case ROTA_UNARY_LOG:
        EACH(logf(x[i]));
    case ROTA_UNARY_SQRT:
        EACH(sqrtf(x[i]));
    case ROTA_UNARY_RELU:
        EACH(x[i] < 0.0f ? 0.0f : x[i]);
    case ROTA_UNARY_GELU:
        EACH(rota_cpu_gelu(x[i]));
    case ROTA_UNARY_SILU:
        EACH(x[i] * rota_cpu_sigmoid(x[i]));
    case ROTA_UNARY_ABS:
        EACH(fabsf(x[i]));
    case ROTA_UNARY_SQUARE:
        EACH(x[i] * x[i]);
    case ROTA_UNARY_RECIPROCAL:
        EACH(1.0f / x[i]);
    case ROTA_UNARY_RSQRT:
        EACH(1.0f / sqrtf(x[i]));
    case ROTA_UNARY_TANH:
        EACH(rota_cpu_tanh(x[i]));
    case ROTA_UNARY_SIGMOID:
        EACH(rota_cpu_sigmoid(x[i]));
    case ROTA_UNARY_SIN:
        EACH(sinf(x[i]));
    case ROTA_UNARY_COS:
        EACH(cosf(x[i]));
    case ROTA_UNARY_SIGN:
        EACH(sign_of(x[i]));
    case ROTA_UNARY_FLOOR:
        EACH(floorf(x[i]));
    case ROTA_UNARY_CEIL:
        EACH(ceilf(x[i]));
    case ROTA_UNARY_ROUND:
        EACH(rintf(x[i]));
    case ROTA_UNARY_GELU_ERF:
        EACH(x[i] * normal_below(x[i]));
    case ROTA_UNARY_SOFTPLUS:
        EACH((x[i] > 0.0f ? x[i] : 0.0f) + log1pf(rota_cpu_exp(-fabsf(x[i]))));
    case ROTA_UNARY_HARDSWISH:
        EACH(x[i] * clamp(x[i] + 3.0f, 0.0f, 6.0f) / 6.0f);
    default:
        unary_of_numbers(p, x, y, count);
    }
}

rota_status rota_cpu_unary(const rota_kernel_call *call) {
    const rota_unary_params *p = call->params;
    const uint64_t step = p->dtype == ROTA_F32 ? call->end - call->begin : ROTA_CPU_BLOCK;
    float buffer[2][ROTA_CPU_BLOCK];
    for (uint64_t i = call->begin, count; i < call->end; i += count) {
        count = call->end - i < step ? call->end - i : step;
        unary(p, rota_cpu_widen(p->dtype, call->operands[0], i, count, buffer[0]),
              rota_cpu_results(p->dtype, call->operands[1], i, buffer[1]), count);
        rota_cpu_narrow(p->dtype, buffer[1], call->operands[1], i, count);
    }
    return ROTA_OK;
}

ROTA_INLINE float silu_derivative(float x) {
    float s = rota_cpu_sigmoid(x);
    return s + x * s * (1.0f - s);
}

ROTA_INLINE float softcap_derivative(float x, float alpha) {
    float t = rota_cpu_tanh(x / alpha);
    return 1.0f - t * t;
}

ROTA_VECTOR static void unary_backward(const rota_unary_params *p, const float *v, const float *dy, float *y,
                                       uint64_t count) {
    const float alpha = p->alpha, beta = p->beta;
    switch (p->op) {
    case ROTA_UNARY_EXP:
        EACH(dy[i] * v[i]);
    case ROTA_UNARY_LOG:
        EACH(dy[i] / v[i]);
    case ROTA_UNARY_SQRT:
        EACH(dy[i] * 0.5f / v[i]);
    case ROTA_UNARY_RELU:
        EACH(v[i] > 0.0f ? dy[i] : 0.0f);
    case ROTA_UNARY_GELU:
        EACH(dy[i] * rota_cpu_gelu_derivative(v[i]));
    case ROTA_UNARY_SILU:
        EACH(dy[i] * silu_derivative(v[i]));
    case ROTA_UNARY_ABS:
        EACH(dy[i] * sign_of(v[i]));
    case ROTA_UNARY_SQUARE:
        EACH(dy[i] * (2.0f * v[i]));
    case ROTA_UNARY_RECIPROCAL:
        EACH(-dy[i] * v[i] * v[i]);
    case ROTA_UNARY_RSQRT:
        EACH(dy[i] * (-0.5f * v[i] * v[i] * v[i]));
    case ROTA_UNARY_TANH:
        EACH(dy[i] * (1.0f - v[i] * v[i]));
    case ROTA_UNARY_SIGMOID:
        EACH(dy[i] * v[i] * (1.0f - v[i]));
    case ROTA_UNARY_SIN:
        EACH(dy[i] * cosf(v[i]));
    case ROTA_UNARY_COS:
        EACH(-dy[i] * sinf(v[i]));
    case ROTA_UNARY_SIGN:
    case ROTA_UNARY_FLOOR:
    case ROTA_UNARY_CEIL:
    case ROTA_UNARY_ROUND:
        EACH(0.0f);
    case ROTA_UNARY_GELU_ERF:
        EACH(dy[i] * (normal_below(v[i]) + v[i] * normal_density(v[i])));
    case ROTA_UNARY_SOFTPLUS:
        EACH(dy[i] * rota_cpu_sigmoid(v[i]));
    case ROTA_UNARY_HARDSWISH:
        EACH(dy[i] * (v[i] <= -3.0f ? 0.0f : v[i] >= 3.0f ? 1.0f : (2.0f * v[i] + 3.0f) / 6.0f));
    case ROTA_UNARY_LEAKY_RELU:
        EACH(dy[i] * (v[i] > 0.0f ? 1.0f : alpha));
    case ROTA_UNARY_ELU:
        EACH(dy[i] * (v[i] > 0.0f ? 1.0f : alpha * rota_cpu_exp(v[i])));
    case ROTA_UNARY_POW:
        EACH(alpha == 0.0f ? 0.0f : dy[i] * (alpha * powf(v[i], alpha - 1.0f)));
    case ROTA_UNARY_CLAMP:
        EACH(v[i] >= alpha && v[i] <= beta ? dy[i] : 0.0f);
    case ROTA_UNARY_SOFTCAP:
        EACH(dy[i] * softcap_derivative(v[i], alpha));
    default:
        break;
    }
}

rota_status rota_cpu_unary_backward(const rota_kernel_call *call) {
    const rota_unary_params *p = call->params;
    const uint64_t step = p->dtype == ROTA_F32 ? call->end - call->begin : ROTA_CPU_BLOCK;
    float buffer[3][ROTA_CPU_BLOCK];
    for (uint64_t i = call->begin, count; i < call->end; i += count) {
        count = call->end - i < step ? call->end - i : step;
        unary_backward(p, rota_cpu_widen(p->dtype, call->operands[0], i, count, buffer[0]),
                       rota_cpu_widen(p->dtype, call->operands[1], i, count, buffer[1]),
                       rota_cpu_results(p->dtype, call->operands[2], i, buffer[2]), count);
        rota_cpu_narrow(p->dtype, buffer[2], call->operands[2], i, count);
    }
    return ROTA_OK;
}
