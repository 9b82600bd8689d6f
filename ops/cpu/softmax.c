/* CPU kernels along rows of scores: softmax, softmax_backward, causal_mask, cross_entropy,
 * cross_entropy_backward. An item is a row. */
#include "cpu.h"

static void rows_of(uint32_t rows, uint32_t n, uint64_t *out_items, uint64_t *out_grain) {
    *out_items = rows;
    *out_grain = 1 + ROTA_CPU_GRAIN / 4 / n;
}

/* Keys that the query of a row sees. */
ROTA_INLINE uint64_t visible(uint64_t row, uint32_t n, uint32_t queries) {
    return row % queries + n - queries + 1;
}

void rota_cpu_items_softmax(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                            uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_softmax_params *p = params;
    rows_of(p->rows, p->n, out_items, out_grain);
}

void rota_cpu_items_softmax_backward(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                     uint64_t *out_grain) {
    rota_cpu_items_softmax(params, operand_bytes, out_items, out_grain);
}

ROTA_VECTOR static void softmax(const rota_softmax_params *p, const float *x, float *y, uint64_t begin,
                                uint64_t end) {
    const float scale = p->scale;
    for (uint64_t r = begin; r < end; r++) {
        const float *from = x + r * p->n;
        float *to = y + r * p->n;
        uint64_t seen = p->causal ? visible(r, p->n, p->queries) : p->n;
        ROTA_IVDEP
        for (uint64_t i = 0; i < seen; i++) to[i] = scale * from[i];
        float max = rota_cpu_max(to, seen), sum;
        ROTA_IVDEP
        for (uint64_t i = 0; i < seen; i++) to[i] = rota_cpu_exp(to[i] - max);
        ROTA_LANE_SUM(sum, seen, to[i]);
        float inverse = 1.0f / sum;
        ROTA_IVDEP
        for (uint64_t i = 0; i < seen; i++) to[i] *= inverse;
        for (uint64_t i = seen; i < p->n; i++) to[i] = 0.0f;
    }
}

rota_status rota_cpu_softmax(const rota_kernel_call *call) {
    softmax(call->params, call->operands[0], call->operands[1], call->begin, call->end);
    return ROTA_OK;
}

ROTA_VECTOR static void softmax_backward(const rota_softmax_params *p, const float *y, const float *dy,
                                         float *dx, uint64_t begin, uint64_t end) {
    for (uint64_t r = begin; r < end; r++) {
        const float *s = y + r * p->n, *g = dy + r * p->n;
        float *to = dx + r * p->n, dot;
        uint64_t seen = p->causal ? visible(r, p->n, p->queries) : p->n;
        ROTA_LANE_SUM(dot, seen, s[i] * g[i]);
        ROTA_IVDEP
        for (uint64_t i = 0; i < seen; i++) to[i] = p->scale * s[i] * (g[i] - dot);
        for (uint64_t i = seen; i < p->n; i++) to[i] = 0.0f;
    }
}

rota_status rota_cpu_softmax_backward(const rota_kernel_call *call) {
    softmax_backward(call->params, call->operands[0], call->operands[1], call->operands[2], call->begin,
                     call->end);
    return ROTA_OK;
}

void rota_cpu_items_causal_mask(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_causal_mask_params *p = params;
    rows_of(p->rows, p->n, out_items, out_grain);
}

rota_status rota_cpu_causal_mask(const rota_kernel_call *call) {
    const rota_causal_mask_params *p = call->params;
    const float *x = call->operands[0];
    float *y = call->operands[1];
    for (uint64_t r = call->begin; r < call->end; r++) {
        uint64_t seen = visible(r, p->n, p->queries);
        if (y != x) memcpy(y + r * p->n, x + r * p->n, seen * sizeof(float));
        for (uint64_t i = seen; i < p->n; i++) y[r * p->n + i] = p->value;
    }
    return ROTA_OK;
}

/* ---- cross entropy ---- */

void rota_cpu_items_cross_entropy(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                  uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_cross_entropy_params *p = params;
    rows_of(p->rows, p->classes, out_items, out_grain);
}

void rota_cpu_items_cross_entropy_backward(const void *params, const uint64_t *operand_bytes,
                                           uint64_t *out_items, uint64_t *out_grain) {
    rota_cpu_items_cross_entropy(params, operand_bytes, out_items, out_grain);
}

static rota_status check_label(const char *kernel, const int32_t *labels, uint64_t row, uint32_t classes) {
    if (labels[row] >= 0 && (uint32_t)labels[row] < classes) return ROTA_OK;
    return rota_fail(ROTA_NODE_FAILED, "%s: label %llu is %d, expected 0 to %u", kernel,
                     (unsigned long long)row, labels[row], classes - 1);
}

ROTA_VECTOR static float log_sum_exp(const float *x, uint64_t count) {
    float max = rota_cpu_max(x, count), sum;
    ROTA_LANE_SUM(sum, count, rota_cpu_exp(x[i] - max));
    return max + logf(sum);
}

rota_status rota_cpu_cross_entropy(const rota_kernel_call *call) {
    const rota_cross_entropy_params *p = call->params;
    const float *logits = call->operands[0];
    const int32_t *labels = call->operands[1];
    float *loss = call->operands[2], *lse = call->operands[3];
    for (uint64_t r = call->begin; r < call->end; r++) {
        ROTA_TRY(check_label("cross_entropy", labels, r, p->classes));
        const float *row = logits + r * p->classes;
        lse[r] = log_sum_exp(row, p->classes);
        loss[r] = lse[r] - row[labels[r]];
    }
    return ROTA_OK;
}

ROTA_VECTOR static void scaled_exp(const float *x, float shift, float scale, float *y, uint64_t count) {
    ROTA_IVDEP
    for (uint64_t i = 0; i < count; i++) y[i] = scale * rota_cpu_exp(x[i] - shift);
}

rota_status rota_cpu_cross_entropy_backward(const rota_kernel_call *call) {
    const rota_cross_entropy_params *p = call->params;
    const float *logits = call->operands[0], *lse = call->operands[2];
    const int32_t *labels = call->operands[1];
    const float scale = *(const float *)call->operands[3] * p->scale;
    float *dlogits = call->operands[4];
    for (uint64_t r = call->begin; r < call->end; r++) {
        ROTA_TRY(check_label("cross_entropy_backward", labels, r, p->classes));
        float *row = dlogits + r * p->classes;
        scaled_exp(logits + r * p->classes, lse[r], scale, row, p->classes);
        row[labels[r]] -= scale;
    }
    return ROTA_OK;
}
