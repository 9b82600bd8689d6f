/* CPU kernels: adamw, momentum, loss_scale. Items are elements, of loss_scale one. */
#include "cpu.h"
#include "half.h"
#include "ops/update_params.h"

enum { BLOCK = 1024 }; /* elements whose 16-bit forms are converted at a time */

void rota_cpu_items_adamw(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                          uint64_t *out_grain) {
    (void)operand_bytes;
    *out_items = ((const rota_adamw_params *)params)->count;
    *out_grain = ROTA_CPU_GRAIN / 2;
}

void rota_cpu_items_momentum(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                             uint64_t *out_grain) {
    (void)operand_bytes;
    *out_items = ((const rota_momentum_params *)params)->count;
    *out_grain = ROTA_CPU_GRAIN / 2;
}

/* The bias corrections come in as the size of the step and as the factor of sqrt(v). */
ROTA_VECTOR static void adamw(const rota_adamw_params *o, float lr, float factor, float step_size,
                              float root_factor, float *restrict p, const float *restrict g,
                              float *restrict m, float *restrict v, uint64_t count) {
    const float b1 = o->beta1, b2 = o->beta2, eps = o->eps;
    const bool coupled = o->flags & ROTA_UPDATE_COUPLED;
    const float keep = coupled ? 1.0f : 1.0f - lr * o->weight_decay;
    const float added = coupled ? o->weight_decay : 0.0f;
    for (uint64_t i = 0; i < count; i++) {
        float gradient = g[i] * factor + added * p[i];
        float mean = b1 * m[i] + (1.0f - b1) * gradient;
        float square = b2 * v[i] + (1.0f - b2) * gradient * gradient;
        m[i] = mean;
        v[i] = square;
        p[i] = p[i] * keep - step_size * mean / (sqrtf(square) * root_factor + eps);
    }
}

rota_status rota_cpu_adamw(const rota_kernel_call *call) {
    const rota_adamw_params *o = call->params;
    const float *given = call->operands[4];
    const bool rates = (o->flags & ROTA_UPDATE_RATES) != 0;
    const float factor = o->flags & ROTA_UPDATE_FACTOR ? given[0] : 1.0f, lr = rates ? given[1] : o->lr;
    uint32_t step = o->step;
    if (rates) step = given[2] >= 1.0f && given[2] < 4294967296.0f ? (uint32_t)given[2] : 0;
    if (step == 0) return rota_fail(ROTA_NODE_FAILED, "adamw: step is 0, expected 1 or more");
    const double first = 1.0 - pow((double)o->beta1, (double)step);
    const double second = 1.0 - pow((double)o->beta2, (double)step);
    const float step_size = (float)((double)lr / first), root_factor = (float)(1.0 / sqrt(second));
    float *p = call->operands[0], *m = call->operands[2], *v = call->operands[3], wide[BLOCK];
    for (uint64_t begin = call->begin; begin < call->end; begin += BLOCK) {
        const uint64_t count = call->end - begin < BLOCK ? call->end - begin : BLOCK;
        const float *g = rota_cpu_widen(o->g_dtype, call->operands[1], begin, count, wide);
        if (!(factor < 0.0f))
            adamw(o, lr, factor, step_size, root_factor, p + begin, g, m + begin, v + begin, count);
        if (o->flags & ROTA_UPDATE_HALF)
            rota_cpu_narrow(o->half_dtype, p + begin, call->operands[5], begin, count);
    }
    return ROTA_OK;
}

ROTA_VECTOR static void sgd(const rota_momentum_params *o, float factor, float *restrict p,
                            const float *restrict g, float *restrict m, uint64_t count) {
    const bool nesterov = o->flags & ROTA_UPDATE_NESTEROV;
    for (uint64_t i = 0; i < count; i++) {
        const float d = g[i] * factor + o->weight_decay * p[i], mean = o->beta1 * m[i] + d;
        m[i] = mean;
        p[i] -= o->lr * (nesterov ? d + o->beta1 * mean : mean);
    }
}

ROTA_VECTOR static void lion(const rota_momentum_params *o, float factor, float *restrict p,
                             const float *restrict g, float *restrict m, uint64_t count) {
    const float keep = 1.0f - o->lr * o->weight_decay;
    for (uint64_t i = 0; i < count; i++) {
        const float d = g[i] * factor, u = o->beta1 * m[i] + (1.0f - o->beta1) * d;
        const float sign = u > 0.0f ? 1.0f : u < 0.0f ? -1.0f : u;
        p[i] = p[i] * keep - o->lr * sign;
        m[i] = o->beta2 * m[i] + (1.0f - o->beta2) * d;
    }
}

rota_status rota_cpu_momentum(const rota_kernel_call *call) {
    const rota_momentum_params *o = call->params;
    const float factor = o->flags & ROTA_UPDATE_FACTOR ? *(const float *)call->operands[3] : 1.0f;
    float *p = call->operands[0], *m = call->operands[2], wide[BLOCK];
    for (uint64_t begin = call->begin; begin < call->end; begin += BLOCK) {
        const uint64_t count = call->end - begin < BLOCK ? call->end - begin : BLOCK;
        const float *g = rota_cpu_widen(o->g_dtype, call->operands[1], begin, count, wide);
        if (!(factor < 0.0f))
            (o->flags & ROTA_UPDATE_SIGN ? lion : sgd)(o, factor, p + begin, g, m + begin, count);
        if (o->flags & ROTA_UPDATE_HALF)
            rota_cpu_narrow(o->half_dtype, p + begin, call->operands[4], begin, count);
    }
    return ROTA_OK;
}

void rota_cpu_items_loss_scale(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                               uint64_t *out_grain) {
    (void)params, (void)operand_bytes;
    *out_items = *out_grain = 1;
}

rota_status rota_cpu_loss_scale(const rota_kernel_call *call) {
    const rota_loss_scale_params *o = call->params;
    float *state = call->operands[1], *factor = call->operands[2];
    const float scale = state[0], norm = *(const float *)call->operands[0] / scale;
    if (!isfinite(norm)) {
        *factor = -1.0f;
        state[0] = scale * o->backoff;
        state[1] = 0.0f;
        return ROTA_OK;
    }
    *factor = (norm > o->max_norm ? o->max_norm / norm : 1.0f) / scale;
    state[1] += 1.0f;
    if (state[1] < (float)o->interval) return ROTA_OK;
    state[0] = scale * o->growth;
    state[1] = 0.0f;
    return ROTA_OK;
}
