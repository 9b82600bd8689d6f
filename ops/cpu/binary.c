/* CPU kernels: binary, binary_backward, where. Items are elements; one operand is strided. */
#include "cpu.h"
#include "functions.h"
#include "half.h"

static const int last = ROTA_KERNEL_DIMS - 1;

static void elements(uint32_t count, uint64_t *out_items, uint64_t *out_grain) {
    *out_items = count;
    *out_grain = ROTA_CPU_GRAIN;
}

static uint64_t element_of(const uint32_t *shape, const uint32_t *stride, uint64_t i) {
    uint64_t offset = 0;
    for (int d = last; d >= 0; d--) {
        offset += i % shape[d] * stride[d];
        i /= shape[d];
    }
    return offset;
}

/* Elements of one innermost row from i on, at most `step` and before `end`. */
static uint64_t run_of(const uint32_t *shape, uint64_t i, uint64_t end, uint64_t step) {
    uint64_t count = shape[last] - i % shape[last];
    if (count > end - i) count = end - i;
    return count < step ? count : step;
}

/* `count` elements `stride` apart from `first` on, as f32. Of stride 0 one. */
static const float *gather(uint32_t dtype, const void *x, uint64_t first, uint64_t stride, uint64_t count,
                           float *buffer) {
    if (stride <= 1) return rota_cpu_widen(dtype, x, first, stride ? count : 1, buffer);
    for (uint64_t i = 0; i < count; i++) buffer[i] = rota_cpu_get(dtype, x, first + i * stride);
    return buffer;
}

/* ---- binary ---- */

void rota_cpu_items_binary(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                           uint64_t *out_grain) {
    (void)operand_bytes;
    elements(((const rota_binary_params *)params)->count, out_items, out_grain);
}

#define EACH_BINARY(OPERATION_OF_U_W)                                                                        \
    if (stride != 0) {                                                                                       \
        ROTA_IVDEP                                                                                           \
        for (uint64_t i = 0; i < count; i++) {                                                               \
            float u = a[i], w = b[i];                                                                        \
            y[i] = (OPERATION_OF_U_W);                                                                       \
        }                                                                                                    \
    } else {                                                                                                 \
        const float w = b[0];                                                                                \
        ROTA_IVDEP                                                                                           \
        for (uint64_t i = 0; i < count; i++) {                                                               \
            float u = a[i];                                                                                  \
            y[i] = (OPERATION_OF_U_W);                                                                       \
        }                                                                                                    \
    }                                                                                                        \
    break

/* b repeats with stride 0, else its elements are neighbours. */
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
    case ROTA_BINARY_MINIMUM:
        EACH_BINARY(u < w || u != u ? u : w);
    case ROTA_BINARY_MAXIMUM:
        EACH_BINARY(u > w || u != u ? u : w);
    case ROTA_BINARY_POW:
        EACH_BINARY(powf(u, w));
    case ROTA_BINARY_SILU_MUL:
        EACH_BINARY(u * rota_cpu_sigmoid(u) * w);
    case ROTA_BINARY_ADD_GELU:
        EACH_BINARY(rota_cpu_gelu(u + w));
    case ROTA_BINARY_EQ:
        EACH_BINARY(u == w ? 1.0f : 0.0f);
    case ROTA_BINARY_NE:
        EACH_BINARY(u != w ? 1.0f : 0.0f);
    case ROTA_BINARY_LT:
        EACH_BINARY(u < w ? 1.0f : 0.0f);
    case ROTA_BINARY_LE:
        EACH_BINARY(u <= w ? 1.0f : 0.0f);
    case ROTA_BINARY_GT:
        EACH_BINARY(u > w ? 1.0f : 0.0f);
    case ROTA_BINARY_GE:
        EACH_BINARY(u >= w ? 1.0f : 0.0f);
    default:
        break;
    }
}

rota_status rota_cpu_binary(const rota_kernel_call *call) {
    const rota_binary_params *p = call->params;
    const uint64_t stride = p->b_stride[last];
    const uint64_t step = p->dtype == ROTA_F32 && stride <= 1 ? UINT64_MAX : ROTA_CPU_BLOCK;
    float buffer[3][ROTA_CPU_BLOCK];
    for (uint64_t i = call->begin, count; i < call->end; i += count) {
        count = run_of(p->shape, i, call->end, step);
        const float *b = gather(p->dtype, call->operands[1], element_of(p->shape, p->b_stride, i), stride,
                                count, buffer[1]);
        binary_row(p->op, rota_cpu_widen(p->dtype, call->operands[0], i, count, buffer[0]), b, stride,
                   rota_cpu_results(p->dtype, call->operands[2], i, buffer[2]), count);
        rota_cpu_narrow(p->dtype, buffer[2], call->operands[2], i, count);
    }
    return ROTA_OK;
}

/* ---- binary_backward ---- */

void rota_cpu_items_binary_backward(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                    uint64_t *out_grain) {
    (void)operand_bytes;
    elements(((const rota_binary_backward_params *)params)->count, out_items, out_grain);
}

/* What of u's two neighbours gets the gradient: 1, or half where they are alike. */
ROTA_INLINE float share(bool wins, bool alike) {
    return wins ? 1.0f : alike ? 0.5f : 0.0f;
}

/* da may be dy. */
ROTA_VECTOR static void backward_row(uint32_t op, const float *a, const float *b, uint64_t stride,
                                     const float *dy, float *da, float *db, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        const float u = a[i], w = b[stride ? i : 0], g = dy[i];
        float to_a, to_b;
        if (op == ROTA_BINARY_MINIMUM || op == ROTA_BINARY_MAXIMUM) {
            const bool a_wins = op == ROTA_BINARY_MINIMUM ? u < w : u > w;
            to_a = g * share(a_wins, u == w);
            to_b = g * share(!a_wins, u == w);
            if (u == w) to_b = to_a;
        } else if (op == ROTA_BINARY_POW) {
            to_a = w == 0.0f ? 0.0f : g * (w * powf(u, w - 1.0f));
            to_b = u == 0.0f && w >= 0.0f ? 0.0f : g * (powf(u, w) * logf(u));
        } else if (op == ROTA_BINARY_SILU_MUL) {
            const float s = rota_cpu_sigmoid(u);
            to_a = g * w * (s + u * s * (1.0f - s));
            to_b = g * (u * s);
        } else { /* ADD_GELU */
            to_a = to_b = g * rota_cpu_gelu_derivative(u + w);
        }
        if (da) da[i] = to_a;
        if (db) db[i] = to_b;
    }
}

rota_status rota_cpu_binary_backward(const rota_kernel_call *call) {
    const rota_binary_backward_params *p = call->params;
    const uint64_t stride = p->b_stride[last];
    float buffer[5][ROTA_CPU_BLOCK];
    for (uint64_t i = call->begin, count; i < call->end; i += count) {
        count = run_of(p->shape, i, call->end, ROTA_CPU_BLOCK);
        const float *b = gather(p->dtype, call->operands[1], element_of(p->shape, p->b_stride, i), stride,
                                count, buffer[1]);
        const float *dy = rota_cpu_widen(p->dtype, call->operands[2], i, count, buffer[2]);
        float *da = NULL, *db = NULL;
        if (p->flags & ROTA_BINARY_BACKWARD_A)
            da = rota_cpu_results(p->dtype, call->operands[3], i, buffer[3]);
        if (p->flags & ROTA_BINARY_BACKWARD_B)
            db = rota_cpu_results(p->dtype, call->operands[4], i, buffer[4]);
        backward_row(p->op, rota_cpu_widen(p->dtype, call->operands[0], i, count, buffer[0]), b, stride, dy,
                     da, db, count);
        if (da) rota_cpu_narrow(p->dtype, buffer[3], call->operands[3], i, count);
        if (db) rota_cpu_narrow(p->dtype, buffer[4], call->operands[4], i, count);
    }
    return ROTA_OK;
}

/* ---- where ---- */

void rota_cpu_items_where(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                          uint64_t *out_grain) {
    (void)operand_bytes;
    elements(((const rota_where_params *)params)->count, out_items, out_grain);
}

/* Bits of elements are compared and moved: of a number, all but the sign say whether it is 0. */
#define WHERE(TYPE, MAGNITUDE)                                                                               \
    ROTA_VECTOR static void where_##TYPE(const TYPE *c, uint64_t cs, const TYPE *a, const TYPE *b,           \
                                         uint64_t bs, TYPE *y, uint64_t count, bool invert) {                \
        ROTA_IVDEP                                                                                           \
        for (uint64_t i = 0; i < count; i++)                                                                 \
            y[i] = ((c[i * cs] & (MAGNITUDE)) != 0) != invert ? a[i] : b[i * bs];                            \
    }
WHERE(uint16_t, 0x7FFFu)
WHERE(uint32_t, 0x7FFFFFFFu)

rota_status rota_cpu_where(const rota_kernel_call *call) {
    const rota_where_params *p = call->params;
    const bool invert = p->flags & ROTA_WHERE_INVERT, number = p->flags & ROTA_WHERE_NUMBER;
    uint32_t bits = rota_f32_bits(p->number);
    uint16_t half;
    rota_cpu_put(p->dtype == ROTA_F32 ? ROTA_BF16 : p->dtype, &half, 0, p->number);
    for (uint64_t i = call->begin, count; i < call->end; i += count) {
        count = run_of(p->shape, i, call->end, UINT64_MAX);
        const uint64_t c = element_of(p->shape, p->c_stride, i), cs = p->c_stride[last];
        const uint64_t b = number ? 0 : element_of(p->shape, p->b_stride, i),
                       bs = number ? 0 : p->b_stride[last];
        if (p->dtype == ROTA_F32)
            where_uint32_t((const uint32_t *)call->operands[0] + c, cs,
                           (const uint32_t *)call->operands[1] + i,
                           number ? &bits : (const uint32_t *)call->operands[2] + b, bs,
                           (uint32_t *)call->operands[3] + i, count, invert);
        else
            where_uint16_t((const uint16_t *)call->operands[0] + c, cs,
                           (const uint16_t *)call->operands[1] + i,
                           number ? &half : (const uint16_t *)call->operands[2] + b, bs,
                           (uint16_t *)call->operands[3] + i, count, invert);
    }
    return ROTA_OK;
}
