/* CPU kernel: adamw. Items are elements. */
#include "cpu.h"

void rota_cpu_items_adamw(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                          uint64_t *out_grain) {
    (void)operand_bytes;
    *out_items = ((const rota_adamw_params *)params)->count;
    *out_grain = ROTA_CPU_GRAIN / 2;
}

/* The bias corrections come in as the size of the step and as the factor of sqrt(v). */
ROTA_VECTOR static void adamw(const rota_adamw_params *o, float factor, float step_size, float root_factor,
                              float *restrict p, const float *restrict g, float *restrict m,
                              float *restrict v, uint64_t begin, uint64_t end) {
    const float b1 = o->beta1, b2 = o->beta2, eps = o->eps, keep = 1.0f - o->lr * o->weight_decay;
    for (uint64_t i = begin; i < end; i++) {
        float gradient = g[i] * factor;
        float mean = b1 * m[i] + (1.0f - b1) * gradient;
        float square = b2 * v[i] + (1.0f - b2) * gradient * gradient;
        m[i] = mean;
        v[i] = square;
        p[i] = p[i] * keep - step_size * mean / (sqrtf(square) * root_factor + eps);
    }
}

rota_status rota_cpu_adamw(const rota_kernel_call *call) {
    const rota_adamw_params *o = call->params;
    if (o->step == 0) return rota_fail(ROTA_NODE_FAILED, "adamw: step is 0, expected 1 or more");
    const double first = 1.0 - pow((double)o->beta1, (double)o->step);
    const double second = 1.0 - pow((double)o->beta2, (double)o->step);
    const float factor = o->has_factor ? *(const float *)call->operands[4] : 1.0f;
    adamw(o, factor, (float)((double)o->lr / first), (float)(1.0 / sqrt(second)), call->operands[0],
          call->operands[1], call->operands[2], call->operands[3], call->begin, call->end);
    return ROTA_OK;
}
