/* CPU kernels: layernorm (with or without a sum before it) and rmsnorm, forward, backward, and the partial
 * sums of their weights' gradients. An item is a row, of the weight kernels a chunk of rows. */
#include "cpu.h"
#include "half.h"
#include "rows.h"
#include "sums.h"

#include <stdlib.h>

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
ROW_ITEMS(residual_layernorm, rows_of)
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

/* Operands of the forward kernels; r and sum are there for residual_layernorm, bias is not for rmsnorm. */
typedef struct norm_arrays {
    const void *x, *r, *weight, *bias;
    void *sum, *y;
    float *stats;
} norm_arrays;

ROTA_VECTOR static void moments(const float *row, uint64_t dim, float eps, bool centered, float *out_mean,
                                float *out_rstd) {
    const float inverse = 1.0f / (float)dim;
    float sum = 0.0f, squares;
    if (centered) ROTA_LANE_SUM(sum, dim, row[i]);
    const float mean = sum * inverse;
    ROTA_LANE_SUM(squares, dim, (row[i] - mean) * (row[i] - mean));
    *out_mean = mean;
    *out_rstd = 1.0f / sqrtf(squares * inverse + eps);
}

ROTA_VECTOR static void normalize_row(const float *x, float mean, float rstd, const float *weight,
                                      const float *bias, float *y, uint64_t dim) {
    normalize(x, mean, rstd, weight, bias, y, dim);
}

ROTA_VECTOR static void add_rows(const float *a, const float *b, float *y, uint64_t count) {
    ROTA_IVDEP
    for (uint64_t i = 0; i < count; i++) y[i] = a[i] + b[i];
}

static rota_status forward(const rota_kernel_call *call, const char *name, bool centered, norm_arrays a) {
    const rota_norm_params *p = call->params;
    const uint64_t dim = p->dim;
    const uint32_t dtype = p->dtype;
    float *scratch;
    if (!rota_cpu_scratch(dtype, 5 * dim, &scratch)) return rota_cpu_no_scratch(name, 5 * dim);
    const float *weight = NULL, *bias = NULL;
    if (p->flags & ROTA_NORM_WEIGHT) weight = rota_cpu_widen(dtype, a.weight, 0, dim, scratch);
    if (p->flags & ROTA_NORM_BIAS && a.bias)
        bias = rota_cpu_widen(dtype, a.bias, 0, dim, rota_cpu_part(scratch, dim));
    float *const wide = rota_cpu_part(scratch, 2 * dim);
    for (uint64_t row = call->begin; row < call->end; row++) {
        const float *x = rota_cpu_widen(dtype, a.x, row * dim, dim, wide);
        if (a.r) {
            float *sum = rota_cpu_results(dtype, a.sum, row * dim, wide);
            add_rows(x, rota_cpu_widen(dtype, a.r, row * dim, dim, rota_cpu_part(wide, dim)), sum, dim);
            rota_cpu_narrow(dtype, sum, a.sum, row * dim, dim);
            x = rota_cpu_widen(dtype, a.sum, row * dim, dim, wide); /* as it was rounded */
        }
        float mean, rstd, *y = rota_cpu_results(dtype, a.y, row * dim, rota_cpu_part(wide, 2 * dim));
        moments(x, dim, p->eps, centered, &mean, &rstd);
        normalize_row(x, mean, rstd, weight, bias, y, dim);
        rota_cpu_narrow(dtype, y, a.y, row * dim, dim);
        if (centered) a.stats[2 * row] = mean;
        a.stats[centered ? 2 * row + 1 : row] = rstd;
    }
    free(scratch);
    return ROTA_OK;
}

rota_status rota_cpu_layernorm(const rota_kernel_call *call) {
    void *const *o = call->operands;
    return forward(call, "layernorm", true,
                   (norm_arrays){.x = o[0], .weight = o[1], .bias = o[2], .y = o[3], .stats = o[4]});
}

rota_status rota_cpu_residual_layernorm(const rota_kernel_call *call) {
    void *const *o = call->operands;
    return forward(
        call, "residual_layernorm", true,
        (norm_arrays){
            .x = o[0], .r = o[1], .weight = o[2], .bias = o[3], .sum = o[4], .y = o[5], .stats = o[6]});
}

rota_status rota_cpu_rmsnorm(const rota_kernel_call *call) {
    void *const *o = call->operands;
    return forward(call, "rmsnorm", false,
                   (norm_arrays){.x = o[0], .weight = o[1], .y = o[2], .stats = o[3]});
}

/* dx = (dx +) rstd * (g - mean(g) - h * mean(g * h)), without mean(g) where the mean was not subtracted. No
 * weight is a weight of 1. */
ROTA_VECTOR static void row_backward(bool centered, bool add, const float *x, float mean, float rstd,
                                     const float *weight, const float *dy, float *dx, uint64_t dim) {
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
    if (add) {
        ROTA_IVDEP
        for (uint64_t i = 0; i < dim; i++)
            dx[i] += rstd * (dy[i] * (weight ? weight[i] : 1.0f) - mean_g - (x[i] - mean) * rstd * mean_gh);
    } else if (weight) {
        ROTA_IVDEP
        for (uint64_t i = 0; i < dim; i++)
            dx[i] = rstd * (dy[i] * weight[i] - mean_g - (x[i] - mean) * rstd * mean_gh);
    } else {
        ROTA_IVDEP
        for (uint64_t i = 0; i < dim; i++) dx[i] = rstd * (dy[i] - mean_g - (x[i] - mean) * rstd * mean_gh);
    }
}

static rota_status run_backward(const rota_kernel_call *call, const char *name, bool centered) {
    const rota_norm_params *p = call->params;
    const uint64_t dim = p->dim;
    const uint32_t dtype = p->dtype;
    const bool add = p->flags & ROTA_NORM_ACCUMULATE;
    const float *stats = call->operands[2], *weight = NULL;
    float *scratch;
    if (!rota_cpu_scratch(dtype, 4 * dim, &scratch)) return rota_cpu_no_scratch(name, 4 * dim);
    if (p->flags & ROTA_NORM_WEIGHT) weight = rota_cpu_widen(dtype, call->operands[1], 0, dim, scratch);
    float *const wide = rota_cpu_part(scratch, dim);
    for (uint64_t r = call->begin; r < call->end; r++) {
        const float *x = rota_cpu_widen(dtype, call->operands[0], r * dim, dim, wide);
        const float *dy = rota_cpu_widen(dtype, call->operands[3], r * dim, dim, rota_cpu_part(wide, dim));
        float *dx = rota_cpu_results(dtype, call->operands[4], r * dim, rota_cpu_part(wide, 2 * dim));
        if (add && wide) rota_cpu_widen(dtype, call->operands[4], r * dim, dim, dx);
        row_backward(centered, add, x, centered ? stats[2 * r] : 0.0f, stats[centered ? 2 * r + 1 : r],
                     weight, dy, dx, dim);
        rota_cpu_narrow(dtype, dx, call->operands[4], r * dim, dim);
    }
    free(scratch);
    return ROTA_OK;
}

rota_status rota_cpu_layernorm_backward(const rota_kernel_call *call) {
    return run_backward(call, "layernorm_backward", true);
}

rota_status rota_cpu_rmsnorm_backward(const rota_kernel_call *call) {
    return run_backward(call, "rmsnorm_backward", false);
}

/* One row of a chunk: dw[i] += dy * h, db[i] += dy (db NULL: not wanted). */
ROTA_VECTOR static void add_sums(const float *restrict x, float mean, float rstd, const float *restrict dy,
                                 float *restrict dw, float *restrict db, uint64_t dim) {
    for (uint64_t i = 0; i < dim; i++) dw[i] += dy[i] * ((x[i] - mean) * rstd);
    if (db)
        for (uint64_t i = 0; i < dim; i++) db[i] += dy[i];
}

static rota_status run_weight(const rota_kernel_call *call, const char *name, bool centered) {
    const rota_norm_params *p = call->params;
    const uint64_t dim = p->dim, chunks = ((uint64_t)p->rows + p->chunk - 1) / p->chunk;
    const float *stats = call->operands[1];
    float *partial = call->operands[3], *scratch;
    if (!rota_cpu_scratch(p->dtype, 2 * dim, &scratch)) return rota_cpu_no_scratch(name, 2 * dim);
    for (uint64_t c = call->begin; c < call->end; c++) {
        float *dw = partial + c * dim, *db = centered ? partial + (chunks + c) * dim : NULL;
        const uint64_t first = c * p->chunk, last = first + p->chunk < p->rows ? first + p->chunk : p->rows;
        memset(dw, 0, dim * sizeof(float));
        if (db) memset(db, 0, dim * sizeof(float));
        for (uint64_t r = first; r < last; r++)
            add_sums(rota_cpu_widen(p->dtype, call->operands[0], r * dim, dim, scratch),
                     centered ? stats[2 * r] : 0.0f, stats[centered ? 2 * r + 1 : r],
                     rota_cpu_widen(p->dtype, call->operands[2], r * dim, dim, rota_cpu_part(scratch, dim)),
                     dw, db, dim);
    }
    free(scratch);
    return ROTA_OK;
}

rota_status rota_cpu_layernorm_backward_weight(const rota_kernel_call *call) {
    return run_weight(call, "layernorm_backward_weight", true);
}

rota_status rota_cpu_rmsnorm_backward_weight(const rota_kernel_call *call) {
    return run_weight(call, "rmsnorm_backward_weight", false);
}
