/* Elementary and activation functions, and their derivatives, for the elementwise shaders. */
/* rota_unary */
const uint UNARY_AFFINE = 0u, UNARY_NEG = 1u, UNARY_EXP = 2u, UNARY_LOG = 3u, UNARY_SQRT = 4u, UNARY_RELU = 5u,
           UNARY_GELU = 6u, UNARY_SILU = 7u, UNARY_ABS = 8u, UNARY_SQUARE = 9u, UNARY_RECIPROCAL = 10u,
           UNARY_RSQRT = 11u, UNARY_TANH = 12u, UNARY_SIGMOID = 13u, UNARY_SIN = 14u, UNARY_COS = 15u, UNARY_SIGN = 16u,
           UNARY_FLOOR = 17u, UNARY_CEIL = 18u, UNARY_ROUND = 19u, UNARY_GELU_ERF = 20u, UNARY_SOFTPLUS = 21u,
           UNARY_HARDSWISH = 22u, UNARY_LEAKY_RELU = 23u, UNARY_ELU = 24u, UNARY_POW = 25u, UNARY_CLAMP = 26u,
           UNARY_SOFTCAP = 27u;

const float GELU_A = 0.7978845608028654; /* sqrt(2 / pi) */
const float GELU_B = 0.044715;

/* exp(x) - 1; near 0, where the difference would lose digits, the Taylor polynomial. */
float expm1(float x) {
    if (abs(x) > 0.34657359) return exp(x) - 1.0;
    float p = 1.98412698e-4;
    p = p * x + 1.38888889e-3;
    p = p * x + 8.33333333e-3;
    p = p * x + 4.16666667e-2;
    p = p * x + 1.66666667e-1;
    p = p * x + 0.5;
    return p * x * x + x;
}

/* Drivers' own tanh may overflow for large arguments; this doesn't. */
float safe_tanh(float x) {
    const float e = expm1(-2.0 * abs(x));
    const float t = -e / (e + 2.0);
    return x < 0.0 ? -t : t;
}

float sigmoid(float x) {
    const float e = exp(-abs(x));
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

/* 0.5 * (1 + tanh(u)) is 1 / (1 + exp(-2 u)): one exponential, and no difference that loses digits. */
float gelu(float x) { /* not to infinity, which a device need not have */
    return x / (1.0 + exp(min(-2.0 * GELU_A * (x + GELU_B * x * x * x), 87.0)));
}

float gelu_derivative(float x) {
    const float e = exp(-2.0 * GELU_A * abs(x + GELU_B * x * x * x)), r = 1.0 / (1.0 + e);
    return (x < 0.0 ? e * r : r) + 2.0 * GELU_A * x * (e * r * r) * (1.0 + 3.0 * GELU_B * x * x);
}

float silu(float x) { return x * sigmoid(x); }

float silu_derivative(float x) {
    const float s = sigmoid(x);
    return s * (1.0 + x * (1.0 - s));
}

/* To 1.5e-7: Abramowitz and Stegun, Handbook of mathematical functions, 7.1.26. */
float error_function(float x) {
    const float z = abs(x), t = 1.0 / (1.0 + 0.3275911 * z);
    float p = 1.061405429;
    p = p * t - 1.453152027;
    p = p * t + 1.421413741;
    p = p * t - 0.284496736;
    p = p * t + 0.254829592;
    const float y = 1.0 - p * t * exp(-z * z);
    return x < 0.0 ? -y : y;
}
/* The standard normal distribution and its density. */
float normal_below(float x) { return 0.5 * (1.0 + error_function(x * 0.70710678)); }
float normal_density(float x) { return 0.39894228 * exp(-0.5 * x * x); }

float softplus(float x) {
    /* log1p: what rounding 1 + e loses is put back as a factor. */
    precise const float e = exp(-abs(x)), u = 1.0 + e, back = u - 1.0;
    return (x > 0.0 ? x : 0.0) + (back == 0.0 ? e : log(u) * (e / back));
}

/* sin and cos (of x + pi / 2): x less the nearest multiple of pi / 2, in three parts of it, whose products with the
 * first are exact for |x| < 1e4, and polynomials on what is left. Vulkan asks of a driver's own only 2^-11. */
float sine(float x, uint quarters) {
    if (isinf(x) || isnan(x)) return ROTA_NAN;
    const float n = roundEven(x * 0.63661977);
    precise float r = x - n * 1.5703125;
    r = r - n * 4.837512969970703125e-4;
    r = r - n * 7.549789948768648e-8;
    const float s = r * r;
    const float odd = r + r * s * (-1.66666667e-1 + s * (8.33333333e-3 + s * (-1.98412698e-4 + s * 2.75573192e-6)));
    const float even =
        1.0 + s * (-0.5 + s * (4.16666667e-2 + s * (-1.38888889e-3 + s * (2.48015873e-5 - s * 2.75573192e-7))));
    const uint quadrant = (uint(int(n)) + quarters) & 3u;
    const float y = (quadrant & 1u) != 0u ? even : odd;
    return (quadrant & 2u) != 0u ? -y : y;
}

/* x^y; of a negative x NaN unless y is whole. */
float power(float x, float y) {
    if (y == 0.0 || x == 1.0) return 1.0;
    if (isnan(x) || isnan(y)) return ROTA_NAN;
    const float magnitude = exp2(y * log2(abs(x)));
    if (x >= 0.0) return magnitude;
    if (floor(y) != y) return ROTA_NAN;
    return abs(y) < 16777216.0 && mod(abs(y), 2.0) == 1.0 ? -magnitude : magnitude;
}
