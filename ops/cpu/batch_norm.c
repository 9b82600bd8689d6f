/* CPU kernels: batch_norm_sums, batch_norm_update, batch_norm, batch_norm_backward. An item is a chunk of the
 * elements of every channel, a channel, or what lies between two steps of the outer axes. */
#include "cpu.h"
#include "half.h"
#include "rows.h"

#include <stdlib.h>

static uint64_t elements_of(const rota_batch_norm_params *p) {
    return (uint64_t)p->outer * p->inner;
}

void rota_cpu_items_batch_norm_sums(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                    uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_batch_norm_params *p = params;
    *out_items = (elements_of(p) + p->chunk - 1) / p->chunk;
    *out_grain = 1 + ROTA_CPU_GRAIN / 2 / ((uint64_t)p->chunk * p->channels);
}

void rota_cpu_items_batch_norm_update(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                      uint64_t *out_grain) {
    (void)operand_bytes;
    *out_items = ((const rota_batch_norm_params *)params)->channels;
    *out_grain = ROTA_CPU_GRAIN;
}

void rota_cpu_items_batch_norm(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                               uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_batch_norm_params *p = params;
    *out_items = p->outer;
    *out_grain = 1 + ROTA_CPU_GRAIN / 2 / ((uint64_t)p->channels * p->inner);
}

void rota_cpu_items_batch_norm_backward(const void *params, const uint64_t *operand_bytes,
                                        uint64_t *out_items, uint64_t *out_grain) {
    rota_cpu_items_batch_norm(params, operand_bytes, out_items, out_grain);
}

ROTA_INLINE float rstd_of(const rota_batch_norm_params *p, float spread) {
    return p->flags & ROTA_BATCH_NORM_VARIANCE ? 1.0f / sqrtf(spread + p->eps) : spread;
}

/* Adds elements [first, last) of each channel's inner axis, of one step of the outer ones, to the sums. */
ROTA_VECTOR static void add_step(const rota_batch_norm_params *p, const float *x, const float *dy,
                                 uint64_t count, const float *mean, const float *spread, float *sums,
                                 float *more) {
    for (uint64_t c = 0; c < p->channels; c++) {
        const float *row = x + c * count, *g = dy ? dy + c * count : NULL;
        if (p->flags & ROTA_BATCH_NORM_MEAN)
            for (uint64_t i = 0; i < count; i++) sums[c] += row[i];
        else if (p->flags & ROTA_BATCH_NORM_SQUARES)
            for (uint64_t i = 0; i < count; i++) sums[c] += (row[i] - mean[c]) * (row[i] - mean[c]);
        else
            for (uint64_t i = 0; i < count; i++) {
                sums[c] += g[i] * ((row[i] - mean[c]) * rstd_of(p, spread[c]));
                more[c] += g[i];
            }
    }
}

rota_status rota_cpu_batch_norm_sums(const rota_kernel_call *call) {
    const rota_batch_norm_params *p = call->params;
    const bool backward = p->flags & ROTA_BATCH_NORM_BACKWARD;
    const uint64_t n = elements_of(p), chunks = (n + p->chunk - 1) / p->chunk, channels = p->channels;
    const uint64_t longest = p->inner < p->chunk ? p->inner : p->chunk;
    float *partial = call->operands[4], *scratch = malloc(2 * channels * longest * sizeof(float));
    if (!scratch) return rota_cpu_no_scratch("batch_norm_sums", 2 * channels * longest);
    for (uint64_t chunk = call->begin; chunk < call->end; chunk++) {
        float *sums = partial + chunk * channels, *more = backward ? sums + chunks * channels : NULL;
        const uint64_t end = (chunk + 1) * p->chunk < n ? (chunk + 1) * p->chunk : n;
        memset(sums, 0, channels * sizeof(float));
        if (more) memset(more, 0, channels * sizeof(float));
        for (uint64_t e = chunk * p->chunk, step; e < end; e += step) {
            const uint64_t o = e / p->inner, i = e % p->inner, first = o * channels * p->inner + i;
            step = p->inner - i < end - e ? p->inner - i : end - e;
            float *dy = scratch + channels * longest;
            rota_cpu_widen_rows(p->dtype, call->operands[0], first, channels, step, p->inner, scratch);
            if (backward)
                rota_cpu_widen_rows(p->dtype, call->operands[3], first, channels, step, p->inner, dy);
            add_step(p, scratch, backward ? dy : NULL, step, call->operands[1], call->operands[2], sums,
                     more);
        }
    }
    free(scratch);
    return ROTA_OK;
}

rota_status rota_cpu_batch_norm_update(const rota_kernel_call *call) {
    const rota_batch_norm_params *p = call->params;
    const float *mean = call->operands[0], *variance = call->operands[1];
    float *running_mean = call->operands[2], *running_variance = call->operands[3], *rstd = call->operands[4];
    const float n = (float)elements_of(p), unbiased = n / (n - 1.0f);
    for (uint64_t c = call->begin; c < call->end; c++) {
        rstd[c] = 1.0f / sqrtf(variance[c] + p->eps);
        running_mean[c] = (1.0f - p->momentum) * running_mean[c] + p->momentum * mean[c];
        running_variance[c] =
            (1.0f - p->momentum) * running_variance[c] + p->momentum * (variance[c] * unbiased);
    }
    return ROTA_OK;
}

/* factor and shift of each channel in scratch [2, channels], such that y = (x - mean) * factor + shift. */
static void factors(const rota_batch_norm_params *p, const float *spread, const void *weight,
                    const void *bias, float *factor, float *shift) {
    for (uint64_t c = 0; c < p->channels; c++) {
        factor[c] =
            rstd_of(p, spread[c]) * (p->flags & ROTA_NORM_WEIGHT ? rota_cpu_get(p->dtype, weight, c) : 1.0f);
        if (shift) shift[c] = p->flags & ROTA_NORM_BIAS ? rota_cpu_get(p->dtype, bias, c) : 0.0f;
    }
}

ROTA_VECTOR static void apply(const float *x, const float *mean, const float *factor, const float *shift,
                              float *y, uint64_t channels, uint64_t inner) {
    if (inner == 1) {
        ROTA_IVDEP
        for (uint64_t c = 0; c < channels; c++) y[c] = (x[c] - mean[c]) * factor[c] + shift[c];
        return;
    }
    for (uint64_t c = 0; c < channels; c++) {
        ROTA_IVDEP
        for (uint64_t i = c * inner; i < (c + 1) * inner; i++) y[i] = (x[i] - mean[c]) * factor[c] + shift[c];
    }
}

rota_status rota_cpu_batch_norm(const rota_kernel_call *call) {
    const rota_batch_norm_params *p = call->params;
    const uint64_t channels = p->channels, count = channels * p->inner, floats = 2 * channels + count;
    float *scratch = malloc(floats * sizeof(float));
    if (!scratch) return rota_cpu_no_scratch("batch_norm", floats);
    float *factor = scratch, *shift = factor + channels, *wide = shift + channels;
    factors(p, call->operands[2], call->operands[3], call->operands[4], factor, shift);
    for (uint64_t o = call->begin; o < call->end; o++) {
        const float *x = rota_cpu_widen(p->dtype, call->operands[0], o * count, count, wide);
        float *y = rota_cpu_results(p->dtype, call->operands[5], o * count, wide);
        apply(x, call->operands[1], factor, shift, y, channels, p->inner);
        rota_cpu_narrow(p->dtype, y, call->operands[5], o * count, count);
    }
    free(scratch);
    return ROTA_OK;
}

/* dx = factor * (dy - a - (x - mean) * b). */
ROTA_VECTOR static void apply_backward(const float *x, const float *dy, const float *mean,
                                       const float *factor, const float *a, const float *b, float *dx,
                                       uint64_t channels, uint64_t inner) {
    if (inner == 1) {
        ROTA_IVDEP
        for (uint64_t c = 0; c < channels; c++) dx[c] = factor[c] * (dy[c] - a[c] - (x[c] - mean[c]) * b[c]);
        return;
    }
    for (uint64_t c = 0; c < channels; c++) {
        ROTA_IVDEP
        for (uint64_t i = c * inner; i < (c + 1) * inner; i++)
            dx[i] = factor[c] * (dy[i] - a[c] - (x[i] - mean[c]) * b[c]);
    }
}

rota_status rota_cpu_batch_norm_backward(const rota_kernel_call *call) {
    const rota_batch_norm_params *p = call->params;
    const uint64_t channels = p->channels, count = channels * p->inner, floats = 3 * channels + 2 * count;
    const float *mean = call->operands[1], *spread = call->operands[2], *sums = call->operands[5];
    const float inverse = 1.0f / (float)elements_of(p);
    float *scratch = malloc(floats * sizeof(float));
    if (!scratch) return rota_cpu_no_scratch("batch_norm_backward", floats);
    float *factor = scratch, *a = factor + channels, *b = a + channels, *wide = b + channels;
    factors(p, spread, call->operands[3], NULL, factor, NULL);
    for (uint64_t c = 0; c < channels; c++) {
        const bool batch = !(p->flags & ROTA_BATCH_NORM_VARIANCE);
        a[c] = batch ? sums[channels + c] * inverse : 0.0f;
        b[c] = batch ? spread[c] * sums[c] * inverse : 0.0f;
    }
    for (uint64_t o = call->begin; o < call->end; o++) {
        const float *x = rota_cpu_widen(p->dtype, call->operands[0], o * count, count, wide);
        const float *dy = rota_cpu_widen(p->dtype, call->operands[4], o * count, count, wide + count);
        float *dx = rota_cpu_results(p->dtype, call->operands[6], o * count, wide + count);
        apply_backward(x, dy, mean, factor, a, b, dx, channels, p->inner);
        rota_cpu_narrow(p->dtype, dx, call->operands[6], o * count, count);
    }
    free(scratch);
    return ROTA_OK;
}
