/* CPU kernels along rows of scores: softmax, softmax_backward, causal_mask, cross_entropy,
 * cross_entropy_join, cross_entropy_backward, where an item is a row, and cross_entropy_mean. */
#include "cpu.h"
#include "functions.h"
#include "half.h"
#include "rows.h"
#include "sums.h"

#include <stdlib.h>

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

ROTA_VECTOR static void softmax(float scale, bool logarithm, const float *from, float *to, uint64_t seen) {
    ROTA_IVDEP
    for (uint64_t i = 0; i < seen; i++) to[i] = scale * from[i];
    float max = rota_cpu_max(to, seen), sum;
    if (logarithm) {
        ROTA_LANE_SUM(sum, seen, rota_cpu_exp(to[i] - max));
        const float lse = max + logf(sum);
        ROTA_IVDEP
        for (uint64_t i = 0; i < seen; i++) to[i] -= lse;
        return;
    }
    ROTA_IVDEP
    for (uint64_t i = 0; i < seen; i++) to[i] = rota_cpu_exp(to[i] - max);
    ROTA_LANE_SUM(sum, seen, to[i]);
    float inverse = 1.0f / sum;
    ROTA_IVDEP
    for (uint64_t i = 0; i < seen; i++) to[i] *= inverse;
}

rota_status rota_cpu_softmax(const rota_kernel_call *call) {
    const rota_softmax_params *p = call->params;
    const uint64_t n = p->n;
    float *scratch;
    if (!rota_cpu_scratch(p->dtype, n, &scratch)) return rota_cpu_no_scratch("softmax", n);
    for (uint64_t r = call->begin; r < call->end; r++) {
        const float *x = rota_cpu_widen(p->dtype, call->operands[0], r * n, n, scratch);
        float *y = rota_cpu_results(p->dtype, call->operands[1], r * n, scratch);
        const uint64_t seen = p->causal ? visible(r, p->n, p->queries) : n;
        softmax(p->scale, p->log, x, y, seen);
        for (uint64_t i = seen; i < n; i++) y[i] = 0.0f;
        rota_cpu_narrow(p->dtype, y, call->operands[1], r * n, n);
    }
    free(scratch);
    return ROTA_OK;
}

ROTA_VECTOR static void softmax_backward(float scale, bool logarithm, const float *s, const float *g,
                                         float *to, uint64_t seen) {
    float sum;
    if (logarithm) {
        ROTA_LANE_SUM(sum, seen, g[i]);
        ROTA_IVDEP
        for (uint64_t i = 0; i < seen; i++) to[i] = scale * (g[i] - rota_cpu_exp(s[i]) * sum);
        return;
    }
    ROTA_LANE_SUM(sum, seen, s[i] * g[i]);
    ROTA_IVDEP
    for (uint64_t i = 0; i < seen; i++) to[i] = scale * s[i] * (g[i] - sum);
}

rota_status rota_cpu_softmax_backward(const rota_kernel_call *call) {
    const rota_softmax_params *p = call->params;
    const uint64_t n = p->n;
    float *scratch;
    if (!rota_cpu_scratch(p->dtype, 2 * n, &scratch)) return rota_cpu_no_scratch("softmax_backward", 2 * n);
    for (uint64_t r = call->begin; r < call->end; r++) {
        const float *y = rota_cpu_widen(p->dtype, call->operands[0], r * n, n, scratch);
        const float *dy = rota_cpu_widen(p->dtype, call->operands[1], r * n, n, rota_cpu_part(scratch, n));
        float *dx = rota_cpu_results(p->dtype, call->operands[2], r * n, scratch);
        const uint64_t seen = p->causal ? visible(r, p->n, p->queries) : n;
        softmax_backward(p->scale, p->log, y, dy, dx, seen);
        for (uint64_t i = seen; i < n; i++) dx[i] = 0.0f;
        rota_cpu_narrow(p->dtype, dx, call->operands[2], r * n, n);
    }
    free(scratch);
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
    const uint64_t bytes = rota_dtype_bytes((rota_dtype)p->dtype);
    const uint8_t *x = call->operands[0];
    uint8_t *y = call->operands[1];
    const uint16_t half = p->dtype == ROTA_F16 ? rota_to_f16(p->value) : rota_to_bf16(p->value);
    for (uint64_t r = call->begin; r < call->end; r++) {
        const uint64_t seen = visible(r, p->n, p->queries), first = r * p->n;
        if (y != x) memcpy(y + first * bytes, x + first * bytes, seen * bytes);
        for (uint64_t i = first + seen; i < first + p->n; i++)
            if (p->dtype == ROTA_F32)
                ((float *)call->operands[1])[i] = p->value;
            else
                ((uint16_t *)call->operands[1])[i] = half;
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

static uint32_t all_classes(const rota_cross_entropy_params *p) {
    return p->all ? p->all : p->classes;
}

static rota_status check_label(const char *kernel, const int32_t *labels, uint64_t row,
                               const rota_cross_entropy_params *p) {
    const uint32_t all = all_classes(p);
    if (labels[row] == p->ignored || (labels[row] >= 0 && (uint32_t)labels[row] < all)) return ROTA_OK;
    return rota_fail(ROTA_NODE_FAILED, "%s: label %llu is %d, expected 0 to %u", kernel,
                     (unsigned long long)row, labels[row], all - 1);
}

/* The label's column; of a class that is elsewhere far outside. */
static uint32_t column_of(const rota_cross_entropy_params *p, int32_t label) {
    return (uint32_t)label - p->first;
}

/* Of a part of the classes nothing but -infinity is no NaN: other parts may have more. */
ROTA_VECTOR static float log_sum_exp(const float *x, uint64_t count, bool is_part, float *out_sum) {
    float max = rota_cpu_max(x, count), sum;
    if (out_sum) ROTA_LANE_SUM(*out_sum, count, x[i]);
    if (is_part && max == -INFINITY) return max;
    ROTA_LANE_SUM(sum, count, rota_cpu_exp(x[i] - max));
    return max + logf(sum);
}

rota_status rota_cpu_cross_entropy(const rota_kernel_call *call) {
    const rota_cross_entropy_params *p = call->params;
    const int32_t *labels = call->operands[1];
    float *loss = call->operands[2], *lse = call->operands[3], *scratch;
    const uint64_t n = p->classes;
    if (!rota_cpu_scratch(p->dtype, n, &scratch)) return rota_cpu_no_scratch("cross_entropy", n);
    rota_status status = ROTA_OK;
    for (uint64_t r = call->begin; r < call->end && status == ROTA_OK; r++) {
        status = check_label("cross_entropy", labels, r, p);
        if (status != ROTA_OK) break;
        const float *row = rota_cpu_widen(p->dtype, call->operands[0], r * (uint64_t)p->pitch, n, scratch);
        float sum = 0.0f;
        lse[r] = log_sum_exp(row, n, p->all != 0, p->smoothing != 0.0f ? &sum : NULL);
        loss[r] = 0.0f;
        if (labels[r] == p->ignored) continue;
        const uint32_t column = column_of(p, labels[r]);
        const float at_label = column < n ? row[column] : 0.0f;
        loss[r] = (p->all ? 0.0f : lse[r]) - (1.0f - p->smoothing) * at_label -
                  p->smoothing * sum / (float)all_classes(p);
    }
    free(scratch);
    return status;
}

void rota_cpu_items_cross_entropy_mean(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                       uint64_t *out_grain) {
    (void)params, (void)operand_bytes;
    *out_items = *out_grain = 1;
}

ROTA_VECTOR static void mean_of(const rota_cross_entropy_params *p, const float *loss, const int32_t *labels,
                                float *mean, float *inverse) {
    float sum;
    uint32_t count = 0;
    ROTA_LANE_SUM(sum, p->rows, loss[i]);
    for (uint64_t i = 0; i < p->rows; i++) count += labels[i] != p->ignored;
    *inverse = 1.0f / (float)count;
    *mean = sum * *inverse;
}

rota_status rota_cpu_cross_entropy_mean(const rota_kernel_call *call) {
    mean_of(call->params, call->operands[0], call->operands[1], call->operands[2], call->operands[3]);
    return ROTA_OK;
}

void rota_cpu_items_cross_entropy_join(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                       uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_cross_entropy_join_params *p = params;
    *out_items = p->rows;
    *out_grain = 1 + ROTA_CPU_GRAIN / 16 / p->ranks;
}

rota_status rota_cpu_cross_entropy_join(const rota_kernel_call *call) {
    const rota_cross_entropy_join_params *p = call->params;
    const int32_t *labels = call->operands[1];
    float *loss = call->operands[2], *lse = call->operands[3];
    for (uint64_t r = call->begin; r < call->end; r++) {
        const float *parts = (const float *)call->operands[0] + r;
        float max = parts[p->rows], sum = 0.0f, all = 0.0f;
        for (uint64_t i = 1; i < p->ranks; i++) {
            const float other = parts[(2 * i + 1) * p->rows];
            if (!(other <= max)) max = other;
        }
        for (uint64_t i = 0; i < p->ranks; i++) {
            sum += expf(parts[(2 * i + 1) * p->rows] - max);
            all += parts[2 * i * p->rows];
        }
        lse[r] = max + logf(sum);
        loss[r] = labels[r] == p->ignored ? 0.0f : lse[r] + all;
    }
    return ROTA_OK;
}

ROTA_VECTOR static void scaled_exp(const float *x, float shift, float scale, float less, float *y,
                                   uint64_t count) {
    ROTA_IVDEP
    for (uint64_t i = 0; i < count; i++) y[i] = scale * (rota_cpu_exp(x[i] - shift) - less);
}

rota_status rota_cpu_cross_entropy_backward(const rota_kernel_call *call) {
    const rota_cross_entropy_params *p = call->params;
    const float *lse = call->operands[2];
    const int32_t *labels = call->operands[1];
    const float scale = *(const float *)call->operands[3] * *(const float *)call->operands[4];
    const uint64_t n = p->classes, pitch = p->pitch;
    float *scratch;
    if (!rota_cpu_scratch(p->dtype, pitch, &scratch))
        return rota_cpu_no_scratch("cross_entropy_backward", pitch);
    rota_status status = ROTA_OK;
    for (uint64_t r = call->begin; r < call->end && status == ROTA_OK; r++) {
        status = check_label("cross_entropy_backward", labels, r, p);
        if (status != ROTA_OK) break;
        float *row = rota_cpu_results(p->dtype, call->operands[5], r * pitch, scratch);
        if (labels[r] == p->ignored) {
            memset(row, 0, n * sizeof(float));
        } else {
            scaled_exp(rota_cpu_widen(p->dtype, call->operands[0], r * pitch, n, scratch), lse[r], scale,
                       p->smoothing / (float)all_classes(p), row, n);
            const uint32_t column = column_of(p, labels[r]);
            if (column < n) row[column] -= scale * (1.0f - p->smoothing);
        }
        memset(row + n, 0, (pitch - n) * sizeof(float));
        rota_cpu_narrow(p->dtype, row, call->operands[5], r * pitch, pitch);
    }
    free(scratch);
    return status;
}
