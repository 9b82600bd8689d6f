/* The derivatives of rota_unary, for the shaders of unary_backward and of fused nodes; after activation.glsl. */
/* v is the op's output for EXP, SQRT, RECIPROCAL, RSQRT, TANH and SIGMOID, else its input. */
float derivative(uint op, float v, float alpha, float beta) {
    switch (op) {
    case UNARY_AFFINE: return alpha;
    case UNARY_NEG: return -1.0;
    case UNARY_EXP: return v;
    case UNARY_LOG: return 1.0 / v;
    case UNARY_SQRT: return 0.5 / v;
    case UNARY_RELU: return v > 0.0 ? 1.0 : 0.0;
    case UNARY_GELU: return gelu_derivative(v);
    case UNARY_SILU: return silu_derivative(v);
    case UNARY_ABS: return v > 0.0 ? 1.0 : v < 0.0 ? -1.0 : v;
    case UNARY_SQUARE: return 2.0 * v;
    case UNARY_RECIPROCAL: return -v * v;
    case UNARY_RSQRT: return -0.5 * v * v * v;
    case UNARY_TANH: return 1.0 - v * v;
    case UNARY_SIGMOID: return v * (1.0 - v);
    case UNARY_SIN: return sine(v, 1u);
    case UNARY_COS: return -sine(v, 0u);
    case UNARY_GELU_ERF: return normal_below(v) + v * normal_density(v);
    case UNARY_SOFTPLUS: return sigmoid(v);
    case UNARY_HARDSWISH: return v <= -3.0 ? 0.0 : v >= 3.0 ? 1.0 : (2.0 * v + 3.0) / 6.0;
    case UNARY_LEAKY_RELU: return v > 0.0 ? 1.0 : alpha;
    case UNARY_ELU: return v > 0.0 ? 1.0 : alpha * exp(v);
    case UNARY_POW: return alpha == 0.0 ? 0.0 : alpha * power(v, alpha - 1.0);
    case UNARY_CLAMP: return v >= alpha && v <= beta ? 1.0 : 0.0;
    case UNARY_SOFTCAP: {
        const float t = safe_tanh(v / alpha);
        return 1.0 - t * t;
    }
    default: return 0.0; /* SIGN, FLOOR, CEIL, ROUND */
    }
}
