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

/* Counters of four elements each that go through the rounds side by side. */
enum { PHILOX_BLOCKS = 64 };

/* Philox4x32-10 (Salmon et al., SC 2011) of the counters {first + b, stream, step, 0} and the key {seed, 0};
 * words[w][b] is word w of block b. */
ROTA_INLINE void philox(uint32_t first, uint32_t stream, uint32_t step, uint32_t seed,
                        uint32_t words[4][PHILOX_BLOCKS]) {
    uint32_t *restrict c0 = words[0], *restrict c1 = words[1], *restrict c2 = words[2],
                       *restrict c3 = words[3];
    for (uint32_t b = 0; b < PHILOX_BLOCKS; b++) {
        c0[b] = first + b;
        c1[b] = stream;
        c2[b] = step;
        c3[b] = 0;
    }
    uint32_t k0 = seed, k1 = 0;
    for (int round = 0; round < 10; round++) {
        for (uint32_t b = 0; b < PHILOX_BLOCKS; b++) {
            uint64_t product0 = (uint64_t)0xD2511F53u * c0[b], product1 = (uint64_t)0xCD9E8D57u * c2[b];
            c0[b] = (uint32_t)(product1 >> 32) ^ c1[b] ^ k0;
            c1[b] = (uint32_t)product1;
            c2[b] = (uint32_t)(product0 >> 32) ^ c3[b] ^ k1;
            c3[b] = (uint32_t)product0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

ROTA_VECTOR static void dropout(const rota_dropout_params *p, const float *x, float *y, uint64_t begin,
                                uint64_t end) {
    uint32_t words[4][PHILOX_BLOCKS], inorder[4 * PHILOX_BLOCKS];
    const uint32_t threshold = p->threshold;
    const float scale = p->scale;
    for (uint64_t first = begin / 4; first * 4 < end; first += PHILOX_BLOCKS) {
        philox((uint32_t)first, p->stream, p->step, p->seed, words);
        for (uint32_t b = 0; b < PHILOX_BLOCKS; b++)
            for (uint32_t w = 0; w < 4; w++) inorder[4 * b + w] = words[w][b];
        const uint64_t from = first * 4 < begin ? begin : first * 4;
        const uint64_t to = (first + PHILOX_BLOCKS) * 4 > end ? end : (first + PHILOX_BLOCKS) * 4;
        const uint32_t *word = inorder + (from - first * 4);
        ROTA_IVDEP
        for (uint64_t i = 0; i < to - from; i++) {
            float kept = x[from + i] * scale;
            y[from + i] = word[i] >= threshold ? kept : 0.0f;
        }
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
