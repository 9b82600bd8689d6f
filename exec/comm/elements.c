/* Combining elements, source after source: the order of the sources is the order of the sum, so that a result depends
 * on nothing else. Real numbers are widened to f32, block by block, and rounded once. */
#include "exec/comm/elements.h"

#include <math.h>
#include <string.h>
#include "base/half.h"

enum { BLOCK = 512 };

static const float *widen(rota_collective_type type, const void *from, uint64_t first, uint64_t count,
                          float *room) {
    if (type == ROTA_COLLECTIVE_F32) return (const float *)from + first;
    const uint16_t *halves = (const uint16_t *)from + first;
    for (uint64_t i = 0; i < count; i++)
        room[i] = type == ROTA_COLLECTIVE_F16 ? rota_from_f16(halves[i]) : rota_from_bf16(halves[i]);
    return room;
}

static void narrow(rota_collective_type type, const float *from, uint64_t first, uint64_t count, void *to) {
    if (type == ROTA_COLLECTIVE_F32) {
        memcpy((float *)to + first, from, count * sizeof *from);
        return;
    }
    uint16_t *halves = (uint16_t *)to + first;
    for (uint64_t i = 0; i < count; i++)
        halves[i] = type == ROTA_COLLECTIVE_F16 ? rota_to_f16(from[i]) : rota_to_bf16(from[i]);
}

/* ---- Combining ---- */

/* NaN if one of the two is. */
static float larger(float a, float b) {
    return a > b || isnan(a) ? a : b;
}
static float smaller(float a, float b) {
    return a < b || isnan(a) ? a : b;
}

static void combine_floats(rota_collective_reduction reduction, float *to, const float *from,
                           uint64_t count) {
    switch (reduction) {
    case ROTA_COLLECTIVE_MAX:
        for (uint64_t i = 0; i < count; i++) to[i] = larger(to[i], from[i]);
        return;
    case ROTA_COLLECTIVE_MIN:
        for (uint64_t i = 0; i < count; i++) to[i] = smaller(to[i], from[i]);
        return;
    case ROTA_COLLECTIVE_PRODUCT:
        for (uint64_t i = 0; i < count; i++) to[i] *= from[i];
        return;
    default:
        for (uint64_t i = 0; i < count; i++) to[i] += from[i];
        return;
    }
}

#define COMBINE_INTEGERS(name, type)                                                                         \
    static type combine_##name(rota_collective_reduction reduction, type a, type b) {                        \
        switch (reduction) {                                                                                 \
        case ROTA_COLLECTIVE_MAX:                                                                            \
            return a > b ? a : b;                                                                            \
        case ROTA_COLLECTIVE_MIN:                                                                            \
            return a < b ? a : b;                                                                            \
        case ROTA_COLLECTIVE_PRODUCT:                                                                        \
            return (type)((uint32_t)a * (uint32_t)b);                                                        \
        default:                                                                                             \
            return (type)((uint32_t)a + (uint32_t)b);                                                        \
        }                                                                                                    \
    }                                                                                                        \
    static void reduce_##name(rota_collective_reduction reduction, const void *const *sources,               \
                              uint32_t source_count, uint64_t count, void *out) {                            \
        for (uint64_t i = 0; i < count; i++) {                                                               \
            type sum = ((const type *)sources[0])[i];                                                        \
            for (uint32_t s = 1; s < source_count; s++)                                                      \
                sum = combine_##name(reduction, sum, ((const type *)sources[s])[i]);                         \
            ((type *)out)[i] = sum;                                                                          \
        }                                                                                                    \
    }
COMBINE_INTEGERS(i32, int32_t)
COMBINE_INTEGERS(u32, uint32_t)

void rota_elements_combine(rota_collective_type type, rota_collective_reduction reduction,
                           const void *const *sources, uint32_t source_count, uint64_t count, void *out) {
    if (type == ROTA_COLLECTIVE_I32) {
        reduce_i32(reduction, sources, source_count, count, out);
        return;
    }
    if (type == ROTA_COLLECTIVE_U32) {
        reduce_u32(reduction, sources, source_count, count, out);
        return;
    }
    float sums[BLOCK], room[BLOCK];
    for (uint64_t first = 0; first < count; first += BLOCK) {
        const uint64_t block = count - first < BLOCK ? count - first : BLOCK;
        memcpy(sums, widen(type, sources[0], first, block, room), block * sizeof *sums);
        for (uint32_t s = 1; s < source_count; s++)
            combine_floats(reduction, sums, widen(type, sources[s], first, block, room), block);
        if (reduction == ROTA_COLLECTIVE_MEAN)
            for (uint64_t i = 0; i < block; i++) sums[i] /= (float)source_count;
        narrow(type, sums, first, block, out);
    }
}
