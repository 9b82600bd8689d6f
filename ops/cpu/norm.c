/* CPU kernels: layernorm and rmsnorm, forward, backward, and the partial sums of their weights' gradients. An
 * item is a row, of the weight kernels a chunk of rows. */
#include "cpu.h"

static void rows_of(const rota_norm_params *p, uint64_t *out_items, uint64_t *out_grain) {
    *out_items = p->rows;
    *out_grain = 1 + ROTA_CPU_GRAIN / 2 / p->dim;
}

static void chunks_of(const rota_norm_params *p, uint64_t *out_items, uint64_t *out_grain) {
    *out_items = (p->rows + p->chunk - 1) / p->chunk;
    *out_grain = 1 + ROTA_CPU_GRAIN / 2 / ((uint64_t)p->dim * p->chunk);
}

#define ROW_ITEMS(name, count)                                                                               \
    void rota_cpu_items_##name(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,       \
                               uint64_t *out_grain) {                                                        \
        (void)operand_bytes;                                                                                 \
        count(params, out_items, out_grain);                                                                 \
    }
ROW_ITEMS(layernorm, rows_of)
ROW_ITEMS(layernorm_backward, rows_of)
ROW_ITEMS(layernorm_backward_weight, chunks_of)
ROW_ITEMS(rmsnorm, rows_of)
ROW_ITEMS(rmsnorm_backward, rows_of)
ROW_ITEMS(rmsnorm_backward_weight, chunks_of)

/* y = (x - mean) * rstd * weight + bias; weight and bias may be NULL. */
ROTA_INLINE void normalize(const float *x, float mean, float rstd, const float *weight, const float *bias,
                           float *y, uint64_t dim) {
    if (weight && bias) {
        ROTA_IVDEP
        for (uint64_t i = 0; i < dim; i++) y[i] = (x[i] - mean) * rstd * weight[i] + bias[i];
    } else if (weight) {
        ROTA_IVDEP
        for (uint64_t i = 0; i < dim; i++) y[i] = (x[i] - mean) * rstd * weight[i];
    } else {
        ROTA_IVDEP
        for (uint64_t i = 0; i < dim; i++) y[i] = (x[i] - mean) * rstd + (bias ? bias[i] : 0.0f);
    }
}

ROTA_VECTOR static void layernorm(const rota_norm_params *p, const float *x, const float *weight,
                                  const float *bias, float *y, float *stats, uint64_t begin, uint64_t end) {
    const uint64_t dim = p->dim;
    const float inverse = 1.0f / (float)dim;
    for (uint64_t r = begin; r < end; r++) {
        const float *row = x + r * dim;
        float sum, squares;
        ROTA_LANE_SUM(sum, dim, row[i]);
        const float mean = sum * inverse;
        ROTA_LANE_SUM(squares, dim, (row[i] - mean) * (row[i] - mean));
        const float rstd = 1.0f / sqrtf(squares * inverse + p->eps);
        normalize(row, mean, rstd, weight, bias, y + r * dim, dim);
        stats[2 * r] = mean;
        stats[2 * r + 1] = rstd;
    }
}

rota_status rota_cpu_layernorm(const rota_kernel_call *call) {
    const rota_norm_params *p = call->params;
    layernorm(p, call->operands[0], p->flags & ROTA_NORM_WEIGHT ? call->operands[1] : NULL,
              p->flags & ROTA_NORM_BIAS ? call->operands[2] : NULL, call->operands[3], call->operands[4],
              call->begin, call->end);
    return ROTA_OK;
}

ROTA_VECTOR static void rmsnorm(const rota_norm_params *p, const float *x, const float *weight, float *y,
                                float *stats, uint64_t begin, uint64_t end) {
    const uint64_t dim = p->dim;
    const float inverse = 1.0f / (float)dim;
    for (uint64_t r = begin; r < end; r++) {
        const float *row = x + r * dim;
        float squares;
        ROTA_LANE_SUM(squares, dim, row[i] * row[i]);
        stats[r] = 1.0f / sqrtf(squares * inverse + p->eps);
        normalize(row, 0.0f, stats[r], weight, NULL, y + r * dim, dim);
    }
}

rota_status rota_cpu_rmsnorm(const rota_kernel_call *call) {
    const rota_norm_params *p = call->params;
    rmsnorm(p, call->operands[0], p->flags & ROTA_NORM_WEIGHT ? call->operands[1] : NULL, call->operands[2],
            call->operands[3], call->begin, call->end);
    return ROTA_OK;
}

/* dx = rstd * (g - mean(g) - h * mean(g * h)), without mean(g) where the mean was not subtracted. No weight
 * is a weight of 1. */
ROTA_INLINE void row_backward(bool centered, const float *x, float mean, float rstd, const float *weight,
                              const float *dy, float *dx, uint64_t dim) {
    const float inverse = 1.0f / (float)dim;
    float sum = 0.0f, dot;
    if (weight) {
        if (centered) ROTA_LANE_SUM(sum, dim, dy[i] * weight[i]);
        ROTA_LANE_SUM(dot, dim, dy[i] * weight[i] * ((x[i] - mean) * rstd));
    } else {
        if (centered) ROTA_LANE_SUM(sum, dim, dy[i]);
        ROTA_LANE_SUM(dot, dim, dy[i] * ((x[i] - mean) * rstd));
    }
    const float mean_g = sum * inverse, mean_gh = dot * inverse;
    if (weight) {
        ROTA_IVDEP
        for (uint64_t i = 0; i < dim; i++)
            dx[i] = rstd * (dy[i] * weight[i] - mean_g - (x[i] - mean) * rstd * mean_gh);
    } else {
        ROTA_IVDEP
        for (uint64_t i = 0; i < dim; i++) dx[i] = rstd * (dy[i] - mean_g - (x[i] - mean) * rstd * mean_gh);
    }
}

ROTA_VECTOR static void backward(const rota_norm_params *p, bool centered, const float *x,
                                 const float *weight, const float *stats, const float *dy, float *dx,
                                 uint64_t begin, uint64_t end) {
    const uint64_t dim = p->dim;
    for (uint64_t r = begin; r < end; r++)
        row_backward(centered, x + r * dim, centered ? stats[2 * r] : 0.0f,
                     centered ? stats[2 * r + 1] : stats[r], weight, dy + r * dim, dx + r * dim, dim);
}

static rota_status run_backward(const rota_kernel_call *call, bool centered) {
    const rota_norm_params *p = call->params;
    backward(p, centered, call->operands[0], p->flags & ROTA_NORM_WEIGHT ? call->operands[1] : NULL,
             call->operands[2], call->operands[3], call->operands[4], call->begin, call->end);
    return ROTA_OK;
}

rota_status rota_cpu_layernorm_backward(const rota_kernel_call *call) {
    return run_backward(call, true);
}

rota_status rota_cpu_rmsnorm_backward(const rota_kernel_call *call) {
    return run_backward(call, false);
}

/* One chunk: dw[i] = sum over rows of dy * h, db[i] = of dy (db NULL: not wanted). */
ROTA_VECTOR static void chunk_sums(const rota_norm_params *p, bool centered, const float *x,
                                   const float *stats, const float *dy, uint64_t chunk, float *restrict dw,
                                   float *restrict db) {
    const uint64_t dim = p->dim, first = chunk * p->chunk;
    const uint64_t last = first + p->chunk < p->rows ? first + p->chunk : p->rows;
    memset(dw, 0, dim * sizeof(float));
    if (db) memset(db, 0, dim * sizeof(float));
    for (uint64_t r = first; r < last; r++) {
        const float mean = centered ? stats[2 * r] : 0.0f, rstd = centered ? stats[2 * r + 1] : stats[r];
        const float *restrict row = x + r * dim, *restrict g = dy + r * dim;
        for (uint64_t i = 0; i < dim; i++) dw[i] += g[i] * ((row[i] - mean) * rstd);
        if (db)
            for (uint64_t i = 0; i < dim; i++) db[i] += g[i];
    }
}

static rota_status run_weight(const rota_kernel_call *call, bool centered) {
    const rota_norm_params *p = call->params;
    float *partial = call->operands[3];
    const uint64_t chunks = ((uint64_t)p->rows + p->chunk - 1) / p->chunk;
    for (uint64_t c = call->begin; c < call->end; c++)
        chunk_sums(p, centered, call->operands[0], call->operands[1], call->operands[2], c,
                   partial + c * p->dim, centered ? partial + (chunks + c) * p->dim : NULL);
    return ROTA_OK;
}

rota_status rota_cpu_layernorm_backward_weight(const rota_kernel_call *call) {
    return run_weight(call, true);
}

rota_status rota_cpu_rmsnorm_backward_weight(const rota_kernel_call *call) {
    return run_weight(call, false);
}
