/* CPU kernel: rope. An item is a row. */
#include "cpu.h"
#include "half.h"
#include "rows.h"

#include <stdlib.h>

void rota_cpu_items_rope(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                         uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_rope_params *p = params;
    *out_items = p->rows;
    *out_grain = 1 + ROTA_CPU_GRAIN / 32 / p->dim;
}

static void turn(const rota_rope_params *p, uint32_t position, const double *frequency, const float *x,
                 float *y) {
    const uint32_t half = p->rotary / 2;
    for (uint32_t i = 0; i < half; i++) {
        const uint32_t a = p->flags & ROTA_ROPE_INTERLEAVED ? 2 * i : i;
        const uint32_t b = p->flags & ROTA_ROPE_INTERLEAVED ? a + 1 : i + half;
        const double angle = position * frequency[i];
        const float c = (float)cos(angle),
                    s = (float)(p->flags & ROTA_ROPE_INVERSE ? -sin(angle) : sin(angle));
        const float u = x[a], v = x[b];
        y[a] = u * c - v * s;
        y[b] = v * c + u * s;
    }
    if (y != x) memcpy(y + p->rotary, x + p->rotary, (p->dim - p->rotary) * sizeof(float));
}

rota_status rota_cpu_rope(const rota_kernel_call *call) {
    const rota_rope_params *p = call->params;
    double *frequency = malloc((p->rotary / 2 + 1) * sizeof *frequency);
    float *scratch = NULL;
    if (!frequency || !rota_cpu_scratch(p->dtype, p->dim, &scratch)) {
        free(frequency);
        return rota_cpu_no_scratch("rope", p->dim + p->rotary);
    }
    for (uint32_t i = 0; i < p->rotary / 2; i++) frequency[i] = pow((double)p->base, -2.0 * i / p->rotary);
    for (uint64_t r = call->begin; r < call->end; r++) {
        const float *x = rota_cpu_widen(p->dtype, call->operands[0], r * p->dim, p->dim, scratch);
        float *y = rota_cpu_results(p->dtype, call->operands[1], r * p->dim, scratch);
        turn(p, p->offset + (uint32_t)(r % p->sequence), frequency, x, y);
        rota_cpu_narrow(p->dtype, y, call->operands[1], r * p->dim, p->dim);
    }
    free(scratch);
    free(frequency);
    return ROTA_OK;
}
