/* CPU kernels: unary, unary_backward, binary, dropout, cast, check_finite. Items are elements. */
#include "cpu.h"

static void elements(uint32_t count, uint64_t *out_items, uint64_t *out_grain) {
    *out_items = count;
    *out_grain = ROTA_CPU_GRAIN;
}

/* ---- unary ---- */

void rota_cpu_items_unary(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                          uint64_t *out_grain) {
    (void)operand_bytes;
    elements(((const rota_unary_params *)params)->count, out_items, out_grain);
}

#define GELU_SCALE 1.5957691216f /* 2 sqrt(2 / pi): 0.5 (1 + tanh u) is sigmoid(2 u) */
#define GELU_CUBE 0.044715f

#define EACH(EXPRESSION)                                                                                     \
    ROTA_IVDEP                                                                                               \
    for (uint64_t i = begin; i < end; i++) y[i] = (EXPRESSION);                                              \
    break

ROTA_VECTOR static void unary(const rota_unary_params *p, const float *x, float *y, uint64_t begin,
                              uint64_t end) {
    const float alpha = p->alpha, beta = p->beta;
    switch (p->op) {
    case ROTA_UNARY_AFFINE:
        EACH(alpha * x[i] + beta);
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
        EACH(x[i] * rota_cpu_sigmoid(GELU_SCALE * (x[i] + GELU_CUBE * x[i] * x[i] * x[i])));
    case ROTA_UNARY_SILU:
        EACH(x[i] * rota_cpu_sigmoid(x[i]));
    default:
        break;
    }
}

rota_status rota_cpu_unary(const rota_kernel_call *call) {
    unary(call->params, call->operands[0], call->operands[1], call->begin, call->end);
    return ROTA_OK;
}

/* ---- unary_backward ---- */

void rota_cpu_items_unary_backward(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                   uint64_t *out_grain) {
    rota_cpu_items_unary(params, operand_bytes, out_items, out_grain);
}

ROTA_INLINE float gelu_derivative(float x) {
    float s = rota_cpu_sigmoid(GELU_SCALE * (x + GELU_CUBE * x * x * x));
    return s + x * s * (1.0f - s) * GELU_SCALE * (1.0f + 3.0f * GELU_CUBE * x * x);
}

ROTA_INLINE float silu_derivative(float x) {
    float s = rota_cpu_sigmoid(x);
    return s + x * s * (1.0f - s);
}

ROTA_VECTOR static void unary_backward(uint32_t op, const float *v, const float *dy, float *y, uint64_t begin,
                                       uint64_t end) {
    switch (op) {
    case ROTA_UNARY_EXP:
        EACH(dy[i] * v[i]);
    case ROTA_UNARY_LOG:
        EACH(dy[i] / v[i]);
    case ROTA_UNARY_SQRT:
        EACH(dy[i] * 0.5f / v[i]);
    case ROTA_UNARY_RELU:
        EACH(v[i] > 0.0f ? dy[i] : 0.0f);
    case ROTA_UNARY_GELU:
        EACH(dy[i] * gelu_derivative(v[i]));
    case ROTA_UNARY_SILU:
        EACH(dy[i] * silu_derivative(v[i]));
    default:
        break;
    }
}

rota_status rota_cpu_unary_backward(const rota_kernel_call *call) {
    const rota_unary_params *p = call->params;
    unary_backward(p->op, call->operands[0], call->operands[1], call->operands[2], call->begin, call->end);
    return ROTA_OK;
}

/* ---- binary ---- */

void rota_cpu_items_binary(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                           uint64_t *out_grain) {
    (void)operand_bytes;
    elements(((const rota_binary_params *)params)->count, out_items, out_grain);
}

#define EACH_BINARY(OPERATION_OF_A_B)                                                                        \
    if (stride == 1) {                                                                                       \
        ROTA_IVDEP                                                                                           \
        for (uint64_t i = 0; i < count; i++) {                                                               \
            float u = a[i], w = b[i];                                                                        \
            y[i] = (OPERATION_OF_A_B);                                                                       \
        }                                                                                                    \
    } else if (stride == 0) {                                                                                \
        const float w = b[0];                                                                                \
        ROTA_IVDEP                                                                                           \
        for (uint64_t i = 0; i < count; i++) {                                                               \
            float u = a[i];                                                                                  \
            y[i] = (OPERATION_OF_A_B);                                                                       \
        }                                                                                                    \
    } else {                                                                                                 \
        for (uint64_t i = 0; i < count; i++) {                                                               \
            float u = a[i], w = b[i * stride];                                                               \
            y[i] = (OPERATION_OF_A_B);                                                                       \
        }                                                                                                    \
    }                                                                                                        \
    break

ROTA_VECTOR static void binary_row(uint32_t op, const float *a, const float *b, uint64_t stride, float *y,
                                   uint64_t count) {
    switch (op) {
    case ROTA_BINARY_ADD:
        EACH_BINARY(u + w);
    case ROTA_BINARY_SUB:
        EACH_BINARY(u - w);
    case ROTA_BINARY_MUL:
        EACH_BINARY(u * w);
    case ROTA_BINARY_DIV:
        EACH_BINARY(u / w);
    case ROTA_BINARY_RSUB:
        EACH_BINARY(w - u);
    case ROTA_BINARY_RDIV:
        EACH_BINARY(w / u);
    default:
        break;
    }
}

rota_status rota_cpu_binary(const rota_kernel_call *call) {
    const rota_binary_params *p = call->params;
    const float *a = call->operands[0], *b = call->operands[1];
    float *y = call->operands[2];
    const uint64_t row = p->shape[ROTA_KERNEL_DIMS - 1];
    for (uint64_t i = call->begin; i < call->end;) {
        uint64_t rest = i, offset = 0, inner = i % row;
        for (int d = ROTA_KERNEL_DIMS - 1; d >= 0; d--) {
            offset += rest % p->shape[d] * p->b_stride[d];
            rest /= p->shape[d];
        }
        uint64_t count = row - inner < call->end - i ? row - inner : call->end - i;
        binary_row(p->op, a + i, b + offset, p->b_stride[ROTA_KERNEL_DIMS - 1], y + i, count);
        i += count;
    }
    return ROTA_OK;
}

/* ---- dropout ---- */

void rota_cpu_items_dropout(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                            uint64_t *out_grain) {
    (void)operand_bytes;
    elements(((const rota_dropout_params *)params)->count, out_items, out_grain);
}

/* Philox4x32-10 (Salmon et al., SC 2011). */
ROTA_INLINE void philox(uint32_t counter, uint32_t stream, uint32_t step, uint32_t key, uint32_t out[4]) {
    uint32_t c0 = counter, c1 = stream, c2 = step, c3 = 0, k0 = key, k1 = 0;
    for (int round = 0; round < 10; round++) {
        uint64_t product0 = (uint64_t)0xD2511F53u * c0, product1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(product1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(product0 >> 32) ^ c3 ^ k1;
        c0 = n0;
        c1 = (uint32_t)product1;
        c2 = n2;
        c3 = (uint32_t)product0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* Blocks of four elements that share a counter; several at once, so that the rounds vectorise over blocks. */
ROTA_VECTOR static void dropout(const rota_dropout_params *p, const float *x, float *y, uint64_t begin,
                                uint64_t end) {
    enum { BLOCKS = 64 };
    uint32_t words[4][BLOCKS];
    const uint32_t stream = p->stream, step = p->step, seed = p->seed, threshold = p->threshold;
    const float scale = p->scale;
    for (uint64_t first = begin / 4; first * 4 < end; first += BLOCKS) {
        for (uint32_t b = 0; b < BLOCKS; b++) {
            uint32_t out[4];
            philox((uint32_t)first + b, stream, step, seed, out);
            for (int w = 0; w < 4; w++) words[w][b] = out[w];
        }
        uint64_t from = first * 4 < begin ? begin : first * 4;
        uint64_t to = (first + BLOCKS) * 4 > end ? end : (first + BLOCKS) * 4;
        for (uint64_t i = from; i < to; i++)
            y[i] = words[i % 4][i / 4 - first] >= threshold ? x[i] * scale : 0.0f;
    }
}

rota_status rota_cpu_dropout(const rota_kernel_call *call) {
    dropout(call->params, call->operands[0], call->operands[1], call->begin, call->end);
    return ROTA_OK;
}

/* ---- cast ---- */

void rota_cpu_items_cast(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                         uint64_t *out_grain) {
    (void)operand_bytes;
    elements(((const rota_cast_params *)params)->count, out_items, out_grain);
}

#define CAST(FROM, FROM_TYPE, TO, TO_TYPE, EXPRESSION)                                                       \
    if (p->from == (FROM) && p->to == (TO)) {                                                                \
        const FROM_TYPE *restrict x = from;                                                                  \
        TO_TYPE *restrict y = to;                                                                            \
        for (uint64_t i = begin; i < end; i++) y[i] = (EXPRESSION);                                          \
        return;                                                                                              \
    }

ROTA_VECTOR static void cast(const rota_cast_params *p, const void *from, void *to, uint64_t begin,
                             uint64_t end){
    CAST(ROTA_F32, float, ROTA_F16, uint16_t, rota_cpu_to_f16(x[i])) CAST(ROTA_F32, float, ROTA_BF16,
                                                                          uint16_t, rota_cpu_to_bf16(x[i]))
        CAST(ROTA_F16, uint16_t, ROTA_F32, float, rota_cpu_from_f16(x[i]))
            CAST(ROTA_BF16, uint16_t, ROTA_F32, float, rota_cpu_from_bf16(x[i]))
                CAST(ROTA_F16, uint16_t, ROTA_BF16, uint16_t, rota_cpu_to_bf16(rota_cpu_from_f16(x[i])))
                    CAST(ROTA_BF16, uint16_t, ROTA_F16, uint16_t, rota_cpu_to_f16(rota_cpu_from_bf16(x[i])))
                        CAST(ROTA_F32, float, ROTA_F32, float, x[i])
                            CAST(ROTA_F16, uint16_t, ROTA_F16, uint16_t, x[i])
                                CAST(ROTA_BF16, uint16_t, ROTA_BF16, uint16_t, x[i])}

rota_status rota_cpu_cast(const rota_kernel_call *call) {
    cast(call->params, call->operands[0], call->operands[1], call->begin, call->end);
    return ROTA_OK;
}

/* ---- check_finite ---- */

void rota_cpu_items_check_finite(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                 uint64_t *out_grain) {
    (void)operand_bytes;
    elements(((const rota_check_finite_params *)params)->count, out_items, out_grain);
}

ROTA_VECTOR static uint32_t count_not_finite(const float *x, uint64_t begin, uint64_t end) {
    uint32_t count = 0;
    for (uint64_t i = begin; i < end; i++) count += (rota_cpu_bits(x[i]) & 0x7F800000u) == 0x7F800000u;
    return count;
}

rota_status rota_cpu_check_finite(const rota_kernel_call *call) {
    const float *x = call->operands[0];
    if (count_not_finite(x, call->begin, call->end) == 0) return ROTA_OK;
    uint64_t i = call->begin;
    while (isfinite(x[i])) i++;
    return rota_fail(ROTA_NODE_FAILED, "check_finite: element %llu of %llu is %g", (unsigned long long)i,
                     (unsigned long long)call->items, (double)x[i]);
}
