/* CUDA kernels: binary, binary_backward, where. One operand is contiguous, the others are strided. */
#include "ops/cuda/activation.cuh"
#include "ops/cuda/typed.cuh"

/* v becomes v op b. */
ROTA_DEVICE void apply(uint32_t op, const float (&b)[EIGHT], float (&v)[EIGHT]) {
    switch (op) {
    case ROTA_BINARY_ADD:
        ROTA_EIGHT(v[j] + b[j]);
    case ROTA_BINARY_SUB:
        ROTA_EIGHT(v[j] - b[j]);
    case ROTA_BINARY_MUL:
        ROTA_EIGHT(v[j] * b[j]);
    case ROTA_BINARY_DIV:
        ROTA_EIGHT(v[j] / b[j]);
    case ROTA_BINARY_RSUB:
        ROTA_EIGHT(b[j] - v[j]);
    case ROTA_BINARY_RDIV:
        ROTA_EIGHT(b[j] / v[j]);
    case ROTA_BINARY_MINIMUM:
        ROTA_EIGHT(v[j] < b[j] || v[j] != v[j] ? v[j] : b[j]);
    case ROTA_BINARY_MAXIMUM:
        ROTA_EIGHT(v[j] > b[j] || v[j] != v[j] ? v[j] : b[j]);
    case ROTA_BINARY_POW:
        ROTA_EIGHT(powf(v[j], b[j]));
    case ROTA_BINARY_SILU_MUL:
        ROTA_EIGHT(v[j] * sigmoid(v[j]) * b[j]);
    case ROTA_BINARY_ADD_GELU:
        ROTA_EIGHT(gelu(v[j] + b[j]));
    case ROTA_BINARY_EQ:
        ROTA_EIGHT(v[j] == b[j] ? 1.0f : 0.0f);
    case ROTA_BINARY_NE:
        ROTA_EIGHT(v[j] != b[j] ? 1.0f : 0.0f);
    case ROTA_BINARY_LT:
        ROTA_EIGHT(v[j] < b[j] ? 1.0f : 0.0f);
    case ROTA_BINARY_LE:
        ROTA_EIGHT(v[j] <= b[j] ? 1.0f : 0.0f);
    case ROTA_BINARY_GT:
        ROTA_EIGHT(v[j] > b[j] ? 1.0f : 0.0f);
    default:
        ROTA_EIGHT(v[j] >= b[j] ? 1.0f : 0.0f);
    }
}

ROTA_KERNEL(binary, 3, rota_binary_params, ROTA_CUDA_THREADS) {
    const rota_binary_params &p = args.params;
    float v[EIGHT], b[EIGHT];
    load_eight(p.dtype, rota_operand<const void>(args, 0), p.count, v);
    load_strided_eight(p.dtype, rota_operand<const void>(args, 1), p.shape, p.b_stride, p.count, b);
    apply(p.op, b, v);
    store_eight(p.dtype, rota_operand<void>(args, 2), p.count, v);
}

/* a and b become the gradients. */
ROTA_DEVICE void derive(uint32_t op, const float (&dy)[EIGHT], float (&a)[EIGHT], float (&b)[EIGHT]) {
#pragma unroll
    for (int j = 0; j < EIGHT; j++) {
        const float u = a[j], w = b[j], g = dy[j];
        if (op == ROTA_BINARY_MINIMUM || op == ROTA_BINARY_MAXIMUM) {
            const bool first = op == ROTA_BINARY_MINIMUM ? u < w : u > w;
            a[j] = g * (u == w ? 0.5f : first ? 1.0f : 0.0f);
            b[j] = g * (u == w ? 0.5f : first ? 0.0f : 1.0f);
        } else if (op == ROTA_BINARY_POW) {
            a[j] = w == 0.0f ? 0.0f : g * (w * powf(u, w - 1.0f));
            b[j] = u == 0.0f && w >= 0.0f ? 0.0f : g * (powf(u, w) * logf(u));
        } else if (op == ROTA_BINARY_SILU_MUL) {
            a[j] = g * w * silu_derivative(u);
            b[j] = g * (u * sigmoid(u));
        } else { /* ADD_GELU */
            a[j] = b[j] = g * gelu_derivative(u + w);
        }
    }
}

ROTA_KERNEL(binary_backward, 5, rota_binary_backward_params, ROTA_CUDA_THREADS) {
    const rota_binary_backward_params &p = args.params;
    float a[EIGHT], b[EIGHT], dy[EIGHT];
    load_eight(p.dtype, rota_operand<const void>(args, 0), p.count, a);
    load_strided_eight(p.dtype, rota_operand<const void>(args, 1), p.shape, p.b_stride, p.count, b);
    load_eight(p.dtype, rota_operand<const void>(args, 2), p.count, dy);
    derive(p.op, dy, a, b);
    if (p.flags & ROTA_BINARY_BACKWARD_A) store_eight(p.dtype, rota_operand<void>(args, 3), p.count, a);
    if (p.flags & ROTA_BINARY_BACKWARD_B) store_eight(p.dtype, rota_operand<void>(args, 4), p.count, b);
}

ROTA_KERNEL(where, 4, rota_where_params, ROTA_CUDA_THREADS) {
    const rota_where_params &p = args.params;
    const bool invert = p.flags & ROTA_WHERE_INVERT;
    float c[EIGHT], a[EIGHT], b[EIGHT];
    load_strided_eight(p.dtype, rota_operand<const void>(args, 0), p.shape, p.c_stride, p.count, c);
    load_eight(p.dtype, rota_operand<const void>(args, 1), p.count, a);
    if (p.flags & ROTA_WHERE_NUMBER) {
#pragma unroll
        for (int j = 0; j < EIGHT; j++) b[j] = p.number;
    } else {
        load_strided_eight(p.dtype, rota_operand<const void>(args, 2), p.shape, p.b_stride, p.count, b);
    }
#pragma unroll
    for (int j = 0; j < EIGHT; j++) a[j] = (c[j] != 0.0f) != invert ? a[j] : b[j];
    store_eight(p.dtype, rota_operand<void>(args, 3), p.count, a);
}
