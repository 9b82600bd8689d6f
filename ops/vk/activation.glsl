/* Activation functions and their derivatives, for unary.comp and unary_backward.comp. */
const uint UNARY_AFFINE = 0u, UNARY_NEG = 1u, UNARY_EXP = 2u, UNARY_LOG = 3u, UNARY_SQRT = 4u, UNARY_RELU = 5u,
           UNARY_GELU = 6u; /* rota_unary; 7 is SILU */

const float GELU_A = 0.7978845608028654; /* sqrt(2 / pi) */
const float GELU_B = 0.044715;

/* Drivers' own tanh may overflow for large arguments; this doesn't. */
float safe_tanh(float x) {
    const float e = exp(-2.0 * abs(x));
    const float t = (1.0 - e) / (1.0 + e);
    return x < 0.0 ? -t : t;
}

float sigmoid(float x) {
    const float e = exp(-abs(x));
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

float gelu(float x) { return 0.5 * x * (1.0 + safe_tanh(GELU_A * (x + GELU_B * x * x * x))); }

float gelu_derivative(float x) {
    const float t = safe_tanh(GELU_A * (x + GELU_B * x * x * x));
    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * GELU_A * (1.0 + 3.0 * GELU_B * x * x);
}

float silu(float x) { return x * sigmoid(x); }

float silu_derivative(float x) {
    const float s = sigmoid(x);
    return s * (1.0 + x * (1.0 - s));
}
