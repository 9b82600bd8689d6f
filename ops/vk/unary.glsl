/* rota_unary, for the shaders of unary and of fused nodes; after activation.glsl. */
float unary(uint op, float x, float alpha, float beta) {
    switch (op) {
    case UNARY_AFFINE: {
        precise float product = alpha * x;
        precise float sum = product + beta;
        return sum;
    }
    case UNARY_NEG: return -x;
    case UNARY_EXP: return exp(x);
    case UNARY_LOG: return x < 0.0 ? ROTA_NAN : log(x);
    case UNARY_SQRT: return x < 0.0 ? ROTA_NAN : sqrt(x);
    case UNARY_RELU: return x > 0.0 || isnan(x) ? x : 0.0;
    case UNARY_GELU: return gelu(x);
    case UNARY_SILU: return silu(x);
    case UNARY_ABS: return abs(x);
    case UNARY_SQUARE: return x * x;
    case UNARY_RECIPROCAL: return 1.0 / x;
    case UNARY_RSQRT: return x < 0.0 ? ROTA_NAN : 1.0 / sqrt(x);
    case UNARY_TANH: return safe_tanh(x);
    case UNARY_SIGMOID: return sigmoid(x);
    case UNARY_SIN: return sine(x, 0u);
    case UNARY_COS: return sine(x, 1u);
    case UNARY_SIGN: return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x;
    case UNARY_FLOOR: return floor(x);
    case UNARY_CEIL: return ceil(x);
    case UNARY_ROUND: return roundEven(x);
    case UNARY_GELU_ERF: return x * normal_below(x);
    case UNARY_SOFTPLUS: return softplus(x);
    case UNARY_HARDSWISH: return x * min(max(x + 3.0, 0.0), 6.0) / 6.0;
    case UNARY_LEAKY_RELU: return x > 0.0 ? x : alpha * x;
    case UNARY_ELU: return x > 0.0 ? x : alpha * expm1(x);
    case UNARY_POW: return power(x, alpha);
    case UNARY_CLAMP:
        return isnan(x) ? x : x < alpha ? alpha : x > beta ? beta : x; // else a min and a max, which lose it
    default: return alpha * safe_tanh(x / alpha);
    }
}
