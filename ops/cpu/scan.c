/* CPU kernels: cumulative_sum, variance, variance_backward. An item is a column [n] of x. */
#include "cpu.h"
#include "half.h"

/* Elements of a cumulative sum that are added up in f32. */
enum { SCAN_BLOCK = 256 };

static void columns(uint64_t outer, uint64_t n, uint64_t inner, uint64_t *out_items, uint64_t *out_grain) {
    *out_items = outer * inner;
    *out_grain = 1 + ROTA_CPU_GRAIN / n;
}

void rota_cpu_items_cumulative_sum(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                   uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_cumulative_sum_params *p = params;
    columns(p->outer, p->n, p->inner, out_items, out_grain);
}

rota_status rota_cpu_cumulative_sum(const rota_kernel_call *call) {
    const rota_cumulative_sum_params *p = call->params;
    for (uint64_t item = call->begin; item < call->end; item++) {
        const uint64_t base = item / p->inner * p->n * p->inner + item % p->inner;
        double before = 0.0; /* the block, in f64: a long axis loses nothing */
        for (uint64_t first = 0; first < p->n; first += SCAN_BLOCK) {
            const uint64_t end = p->n - first < SCAN_BLOCK ? p->n : first + SCAN_BLOCK;
            const float high = (float)before, low = (float)(before - (double)high);
            float sum = 0.0f;
            for (uint64_t k = first; k < end; k++) {
                const uint64_t i = base + (p->reverse ? p->n - 1 - k : k) * p->inner;
                sum += rota_cpu_get(p->dtype, call->operands[0], i);
                rota_cpu_put(p->dtype, call->operands[1], i, high + (low + sum));
            }
            before += (double)sum;
        }
    }
    return ROTA_OK;
}

void rota_cpu_items_variance(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                             uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_variance_params *p = params;
    columns(p->outer, p->n, p->inner, out_items, out_grain);
}

rota_status rota_cpu_variance(const rota_kernel_call *call) {
    const rota_variance_params *p = call->params;
    float *means = call->operands[2];
    for (uint64_t item = call->begin; item < call->end; item++) {
        const uint64_t base = item / p->inner * p->n * p->inner + item % p->inner;
        /* Four chains each, which wait less than one; in f64, so that neither a long axis nor a mean far from
         * 0 costs digits. */
        double sum[4] = {0}, squares[4] = {0};
        for (uint64_t k = 0; k < p->n; k++)
            sum[k % 4] += (double)rota_cpu_get(p->dtype, call->operands[0], base + k * p->inner);
        const double mean = ((sum[0] + sum[1]) + (sum[2] + sum[3])) / (double)p->n;
        for (uint64_t k = 0; k < p->n; k++) {
            const double d = (double)rota_cpu_get(p->dtype, call->operands[0], base + k * p->inner) - mean;
            squares[k % 4] += d * d;
        }
        means[item] = (float)mean;
        rota_cpu_put(p->dtype, call->operands[1], item,
                     (float)(((squares[0] + squares[1]) + (squares[2] + squares[3])) * (double)p->scale));
    }
    return ROTA_OK;
}

void rota_cpu_items_variance_backward(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                      uint64_t *out_grain) {
    (void)operand_bytes;
    const rota_variance_params *p = params;
    *out_items = (uint64_t)p->outer * p->n * p->inner;
    *out_grain = ROTA_CPU_GRAIN;
}

rota_status rota_cpu_variance_backward(const rota_kernel_call *call) {
    const rota_variance_params *p = call->params;
    const float *means = call->operands[1];
    for (uint64_t i = call->begin; i < call->end; i++) {
        const uint64_t column = i / p->inner / p->n * p->inner + i % p->inner;
        const float dy = rota_cpu_get(p->dtype, call->operands[2], column);
        const float d = rota_cpu_get(p->dtype, call->operands[0], i) - means[column];
        rota_cpu_put(p->dtype, call->operands[3], i, dy * (2.0f * p->scale) * d);
    }
    return ROTA_OK;
}
