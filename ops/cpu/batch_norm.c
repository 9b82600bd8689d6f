/* CPU kernels: batch_norm_moments, batch_norm_finish, batch_norm_sums, batch_norm, batch_norm_backward. An item
 * is a chunk of the elements of every channel, a channel, or what lies between two steps of the outer axes. */
#include "cpu.h"
#include "half.h"
#include "rows.h"

#include <stdlib.h>

static uint64_t elements_of(const rota_batch_norm_params *p) {
    return (uint64_t)p->outer * p->inner;
}

static uint64_t chunks_of(const rota_batch_norm_params *p) {
    return (elements_of(p) + p->chunk - 1) / p->chunk;
}

void rota_cpu_items_batch_norm_sums(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                    uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_batch_norm_params *p = params;
    *out_items = chunks_of(p);
    *out_grain = 1 + ROTA_CPU_GRAIN / 2 / ((uint64_t)p->chunk * p->channels);
}

void rota_cpu_items_batch_norm_moments(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                       uint64_t *out_grain) {
    rota_cpu_items_batch_norm_sums(params, operand_bytes, out_items, out_grain);
}

void rota_cpu_items_batch_norm_finish(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                      uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_batch_norm_params *p = params;
    *out_items = p->channels;
    *out_grain = 1 + ROTA_CPU_GRAIN / 2 / chunks_of(p);
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

/* A chunk of the elements of every channel, as steps along the inner axis. */
typedef struct walk {
    uint64_t i, end; /* elements of a channel */
    uint64_t first;  /* of this step in x, of its first channel */
    uint64_t count;  /* elements of each channel in this step */
} walk;

static walk walk_of(const rota_batch_norm_params *p, uint64_t chunk) {
    const uint64_t n = elements_of(p), end = (chunk + 1) * p->chunk;
    return (walk){.i = chunk * p->chunk, .end = end < n ? end : n};
}

static bool next_step(const rota_batch_norm_params *p, walk *w) {
    w->i += w->count;
    if (w->i >= w->end) return false;
    const uint64_t o = w->i / p->inner, inner = w->i % p->inner;
    w->first = o * p->channels * p->inner + inner;
    w->count = p->inner - inner < w->end - w->i ? p->inner - inner : w->end - w->i;
    return true;
}

/* The most elements of a channel in a step. */
static uint64_t longest_step(const rota_batch_norm_params *p) {
    return p->inner < p->chunk ? p->inner : p->chunk;
}

ROTA_VECTOR static void add_sums(const rota_batch_norm_params *p, const float *x, const float *dy,
                                 uint64_t count, const float *mean, const float *spread, float *sums,
                                 float *more) {
    for (uint64_t c = 0; c < p->channels; c++) {
        const float *row = x + c * count, *g = dy + c * count;
        for (uint64_t i = 0; i < count; i++) {
            sums[c] += g[i] * ((row[i] - mean[c]) * rstd_of(p, spread[c]));
            more[c] += g[i];
        }
    }
}

rota_status rota_cpu_batch_norm_sums(const rota_kernel_call *call) {
    const rota_batch_norm_params *p = call->params;
    const uint64_t channels = p->channels, longest = longest_step(p), floats = 2 * channels * longest;
    float *partial = call->operands[4], *x = malloc(floats * sizeof(float));
    if (!x) return rota_cpu_no_scratch("batch_norm_sums", floats);
    float *dy = x + channels * longest;
    for (uint64_t chunk = call->begin; chunk < call->end; chunk++) {
        float *sums = partial + chunk * channels, *more = sums + chunks_of(p) * channels;
        memset(sums, 0, channels * sizeof(float));
        memset(more, 0, channels * sizeof(float));
        for (walk w = walk_of(p, chunk); next_step(p, &w);) {
            rota_cpu_widen_rows(p->dtype, call->operands[0], w.first, channels, w.count, p->inner, x);
            rota_cpu_widen_rows(p->dtype, call->operands[3], w.first, channels, w.count, p->inner, dy);
            add_sums(p, x, dy, w.count, call->operands[1], call->operands[2], sums, more);
        }
    }
    free(x);
    return ROTA_OK;
}

ROTA_VECTOR static void add_moments(const float *x, const float *shift, uint64_t channels, uint64_t count,
                                    float *sums, float *squares) {
    for (uint64_t c = 0; c < channels; c++)
        for (uint64_t i = c * count; i < (c + 1) * count; i++) {
            const float value = x[i] - shift[c];
            sums[c] += value;
            squares[c] += value * value;
        }
}

/* Around the chunk's first element, which is as near to its mean as any other. */
rota_status rota_cpu_batch_norm_moments(const rota_kernel_call *call) {
    const rota_batch_norm_params *p = call->params;
    const uint64_t channels = p->channels, floats = channels * (longest_step(p) + 1);
    float *partial = call->operands[1], *x = malloc(floats * sizeof(float));
    if (!x) return rota_cpu_no_scratch("batch_norm_moments", floats);
    float *shift = x + channels * longest_step(p);
    for (uint64_t chunk = call->begin; chunk < call->end; chunk++) {
        float *means = partial + chunk * channels, *squares = means + chunks_of(p) * channels;
        walk w = walk_of(p, chunk);
        const float n = (float)(w.end - w.i);
        memset(means, 0, channels * sizeof(float));
        memset(squares, 0, channels * sizeof(float));
        for (bool first = true; next_step(p, &w); first = false) {
            rota_cpu_widen_rows(p->dtype, call->operands[0], w.first, channels, w.count, p->inner, x);
            for (uint64_t c = 0; first && c < channels; c++) shift[c] = x[c * w.count];
            add_moments(x, shift, channels, w.count, means, squares);
        }
        for (uint64_t c = 0; c < channels; c++) {
            const float spread = squares[c] - means[c] * (means[c] / n);
            squares[c] = spread > 0.0f || spread != spread ? spread : 0.0f;
            means[c] = shift[c] + means[c] / n;
        }
    }
    free(x);
    return ROTA_OK;
}

rota_status rota_cpu_batch_norm_finish(const rota_kernel_call *call) {
    const rota_batch_norm_params *p = call->params;
    const uint64_t channels = p->channels, chunks = chunks_of(p), elements = elements_of(p);
    const float *means = call->operands[0], *squares = means + chunks * channels;
    float *running_mean = call->operands[1], *running_variance = call->operands[2], *stats = call->operands[3];
    const float n = (float)elements, unbiased = n / (n - 1.0f);
    for (uint64_t c = call->begin; c < call->end; c++) {
        float mean = 0.0f, variance = 0.0f;
        for (uint64_t i = 0; i < chunks; i++) {
            const uint64_t count = i + 1 < chunks ? p->chunk : elements - i * p->chunk;
            mean += means[i * channels + c] * (float)count;
        }
        mean /= n;
        for (uint64_t i = 0; i < chunks; i++) {
            const uint64_t count = i + 1 < chunks ? p->chunk : elements - i * p->chunk;
            const float off = means[i * channels + c] - mean;
            variance += squares[i * channels + c] + off * off * (float)count;
        }
        variance /= n;
        stats[c] = mean;
        stats[channels + c] = 1.0f / sqrtf(variance + p->eps);
        running_mean[c] = (1.0f - p->momentum) * running_mean[c] + p->momentum * mean;
        running_variance[c] =
            (1.0f - p->momentum) * running_variance[c] + p->momentum * (variance * unbiased);
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
