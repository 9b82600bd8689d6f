/* CPU kernels: dropout, cast, check_finite. Items are elements. */
#include "cpu.h"
#include "half.h"
#include "philox.h"

static void elements(uint32_t count, uint64_t *out_items, uint64_t *out_grain) {
    *out_items = count;
    *out_grain = ROTA_CPU_GRAIN;
}

/* ---- dropout ---- */

void rota_cpu_items_dropout(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                            uint64_t *out_grain) {
    (void)operand_bytes;
    elements(((const rota_dropout_params *)params)->count, out_items, out_grain);
}

/* y and x from element `begin` on; residual may be NULL. At most ROTA_CPU_BLOCK elements. */
ROTA_VECTOR static void dropout(const rota_dropout_params *p, const float *x, const float *residual, float *y,
                                uint64_t begin, uint64_t count) {
    uint32_t words[4][PHILOX_BLOCKS], inorder[4 * PHILOX_BLOCKS];
    const uint64_t end = begin + count;
    const uint32_t threshold = p->threshold;
    const float scale = p->scale;
    for (uint64_t first = begin / 4; first * 4 < end; first += PHILOX_BLOCKS) {
        philox(p->first + (uint32_t)first, p->stream, p->step, 0, p->seed, PHILOX_BLOCKS, words);
        for (uint32_t b = 0; b < PHILOX_BLOCKS; b++)
            for (uint32_t w = 0; w < 4; w++) inorder[4 * b + w] = words[w][b];
        const uint64_t from = first * 4 < begin ? begin : first * 4;
        const uint64_t to = (first + PHILOX_BLOCKS) * 4 > end ? end : (first + PHILOX_BLOCKS) * 4;
        const uint32_t *word = inorder + (from - first * 4);
        const uint64_t offset = from - begin;
        if (residual) {
            ROTA_IVDEP
            for (uint64_t i = 0; i < to - from; i++) {
                float kept = x[offset + i] * scale;
                y[offset + i] = residual[offset + i] + (word[i] >= threshold ? kept : 0.0f);
            }
        } else {
            ROTA_IVDEP
            for (uint64_t i = 0; i < to - from; i++) {
                float kept = x[offset + i] * scale;
                y[offset + i] = word[i] >= threshold ? kept : 0.0f;
            }
        }
    }
}

rota_status rota_cpu_dropout(const rota_kernel_call *call) {
    const rota_dropout_params *p = call->params;
    float buffer[3][ROTA_CPU_BLOCK];
    for (uint64_t i = call->begin, count; i < call->end; i += count) {
        count = call->end - i < ROTA_CPU_BLOCK ? call->end - i : ROTA_CPU_BLOCK;
        const float *x = rota_cpu_widen(p->dtype, call->operands[0], i, count, buffer[0]);
        const float *residual =
            p->has_residual ? rota_cpu_widen(p->dtype, call->operands[1], i, count, buffer[1]) : NULL;
        dropout(p, x, residual, rota_cpu_results(p->dtype, call->operands[2], i, buffer[2]), i, count);
        rota_cpu_narrow(p->dtype, buffer[2], call->operands[2], i, count);
    }
    return ROTA_OK;
}

/* ---- cast ---- */

void rota_cpu_items_cast(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                         uint64_t *out_grain) {
    (void)operand_bytes;
    elements(((const rota_cast_params *)params)->count, out_items, out_grain);
}

/* Towards 0; the nearest of what lies outside; of NaN 0. */
ROTA_INLINE int32_t to_i32(float value) {
    if (value != value) return 0;
    return value >= 0x1p31f ? INT32_MAX : value <= -0x1p31f ? INT32_MIN : (int32_t)value;
}

#define CAST(FROM, FROM_TYPE, TO, TO_TYPE, EXPRESSION)                                                       \
    if (p->from == (FROM) && p->to == (TO)) {                                                                \
        const FROM_TYPE *restrict x = from;                                                                  \
        TO_TYPE *restrict y = to;                                                                            \
        for (uint64_t i = begin; i < end; i++) y[i] = (EXPRESSION);                                          \
        return;                                                                                              \
    }

ROTA_VECTOR static void cast(const rota_cast_params *p, const void *from, void *to, uint64_t begin,
                             uint64_t end) {
    CAST(ROTA_F32, float, ROTA_F16, uint16_t, rota_to_f16(x[i]))
    CAST(ROTA_F32, float, ROTA_BF16, uint16_t, rota_to_bf16(x[i]))
    CAST(ROTA_F16, uint16_t, ROTA_F32, float, rota_from_f16(x[i]))
    CAST(ROTA_BF16, uint16_t, ROTA_F32, float, rota_from_bf16(x[i]))
        CAST(ROTA_F16, uint16_t, ROTA_BF16, uint16_t, rota_to_bf16(rota_from_f16(x[i])))
            CAST(ROTA_BF16, uint16_t, ROTA_F16, uint16_t, rota_to_f16(rota_from_bf16(x[i]))) CAST(
                ROTA_F32, float, ROTA_F32, float, x[i]) CAST(ROTA_F16, uint16_t, ROTA_F16, uint16_t, x[i])
                CAST(ROTA_BF16, uint16_t, ROTA_BF16, uint16_t, x[i]) CAST(ROTA_F32, float, ROTA_I32, int32_t,
                                                                          to_i32(x[i]))
                    CAST(ROTA_F16, uint16_t, ROTA_I32, int32_t, to_i32(rota_from_f16(x[i])))
                        CAST(ROTA_BF16, uint16_t, ROTA_I32, int32_t, to_i32(rota_from_bf16(x[i])))
                            CAST(ROTA_I32, int32_t, ROTA_F32, float, (float)x[i])
                                CAST(ROTA_I32, int32_t, ROTA_F16, uint16_t, rota_to_f16((float)x[i]))
                                    CAST(ROTA_I32, int32_t, ROTA_BF16, uint16_t, rota_to_bf16((float)x[i]))
}

/* Between 8-bit floats and others. */
static void cast_f8(const rota_cast_params *p, const void *x, void *y, uint64_t begin, uint64_t end) {
    float wide[ROTA_CPU_BLOCK];
    for (uint64_t i = begin, count; i < end; i += count) {
        count = end - i < ROTA_CPU_BLOCK ? end - i : ROTA_CPU_BLOCK;
        const float *from = rota_cpu_widen(p->from, x, i, count, wide);
        if (p->to == ROTA_F32)
            memcpy((float *)y + i, from, count * sizeof *from);
        else
            rota_cpu_narrow(p->to, from, y, i, count);
    }
}

rota_status rota_cpu_cast(const rota_kernel_call *call) {
    const rota_cast_params *p = call->params;
    if (rota_dtype_is_f8((rota_dtype)p->from) || rota_dtype_is_f8((rota_dtype)p->to))
        cast_f8(p, call->operands[0], call->operands[1], call->begin, call->end);
    else
        cast(p, call->operands[0], call->operands[1], call->begin, call->end);
    return ROTA_OK;
}

/* ---- check_finite ---- */

void rota_cpu_items_check_finite(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                                 uint64_t *out_grain) {
    (void)operand_bytes;
    elements(((const rota_check_finite_params *)params)->count, out_items, out_grain);
}

ROTA_VECTOR static uint32_t count_not_finite(const float *x, uint64_t begin, uint64_t end) {
    uint32_t count = 0;
    for (uint64_t i = begin; i < end; i++) count += (rota_f32_bits(x[i]) & 0x7F800000u) == 0x7F800000u;
    return count;
}

rota_status rota_cpu_check_finite(const rota_kernel_call *call) {
    const rota_check_finite_params *p = call->params;
    float wide[ROTA_CPU_BLOCK];
    for (uint64_t i = call->begin, count; i < call->end; i += count) {
        count = call->end - i < ROTA_CPU_BLOCK ? call->end - i : ROTA_CPU_BLOCK;
        const float *x = rota_cpu_widen(p->dtype, call->operands[0], i, count, wide);
        if (count_not_finite(x, 0, count) == 0) continue;
        uint64_t j = 0;
        while (isfinite(x[j])) j++;
        return rota_fail(ROTA_NODE_FAILED, "check_finite: element %llu of %llu is %g",
                         (unsigned long long)(i + j), (unsigned long long)call->items, (double)x[j]);
    }
    return ROTA_OK;
}
