/* rota_binary, for the shaders of binary and of fused nodes; after activation.glsl. */
float binary(uint op, float a, float b) {
    switch (op) { /* rota_binary */
    case 0u: return a + b;
    case 1u: return a - b;
    case 2u: return a * b;
    case 3u: return a / b;
    case 4u: return b - a;
    case 5u: return b / a;
    case 6u: return a < b || isnan(a) ? a : b;
    case 7u: return a > b || isnan(a) ? a : b;
    case 8u: return power(a, b);
    case 9u: return silu(a) * b;
    case 10u: return gelu(a + b);
    case 11u: return a == b ? 1.0 : 0.0;
    case 12u: return a == b ? 0.0 : 1.0;
    case 13u: return a < b ? 1.0 : 0.0;
    case 14u: return a <= b ? 1.0 : 0.0;
    case 15u: return a > b ? 1.0 : 0.0;
    default: return a >= b ? 1.0 : 0.0;
    }
}
