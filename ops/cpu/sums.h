/* Sums and maxima of many f32, in an order that follows from their count alone. Internal. */
#ifndef ROTA_OPS_CPU_SUMS_H
#define ROTA_OPS_CPU_SUMS_H

#include "ops/cpu/cpu.h"

/* Sums in 16 lanes, element i in lane i % 16, then a fixed tree; block after block of these, which are added
 * up in f64. So what is lost does not grow with the length: at most ROTA_SUM_BOUND of the sum of the
 * magnitudes. */
#define ROTA_LANES 16
#define ROTA_SUM_BLOCK 4096
#define ROTA_SUM_BOUND ((ROTA_SUM_BLOCK / ROTA_LANES + 5) * 0x1p-24)

ROTA_INLINE float rota_cpu_lanes_sum(const float *lanes) {
    float t[8];
    for (int l = 0; l < 8; l++) t[l] = lanes[l] + lanes[l + 8];
    for (int l = 0; l < 4; l++) t[l] += t[l + 4];
    return (t[0] + t[2]) + (t[1] + t[3]);
}

/* out = sum over i in [from, from + size) of EXPRESSION, which uses i: one block of the sum below. */
#define ROTA_BLOCK_LANES(out, from, size, EXPRESSION)                                                        \
    do {                                                                                                     \
        float lane_[ROTA_LANES] = {0};                                                                       \
        const uint64_t whole_ = (size) - (size) % ROTA_LANES;                                                \
        for (uint64_t base_ = 0; base_ < whole_; base_ += ROTA_LANES)                                        \
            for (uint64_t l_ = 0; l_ < ROTA_LANES; l_++) {                                                   \
                uint64_t i = (from) + base_ + l_;                                                            \
                lane_[l_] += (EXPRESSION);                                                                   \
            }                                                                                                \
        for (uint64_t i = (from) + whole_; i < (from) + (size); i++)                                         \
            lane_[i - (from)-whole_] += (EXPRESSION);                                                        \
        (out) = rota_cpu_lanes_sum(lane_);                                                                   \
    } while (0)

/* out = sum over i of EXPRESSION, which uses i. */
#define ROTA_LANE_SUM(out, count, EXPRESSION)                                                                \
    do {                                                                                                     \
        const uint64_t count_ = (count);                                                                     \
        if (count_ <= ROTA_SUM_BLOCK) {                                                                      \
            ROTA_BLOCK_LANES(out, (uint64_t)0, count_, EXPRESSION);                                          \
            break;                                                                                           \
        }                                                                                                    \
        double total_ = 0.0;                                                                                 \
        for (uint64_t from_ = 0; from_ < count_; from_ += ROTA_SUM_BLOCK) {                                  \
            const uint64_t size_ = count_ - from_ < ROTA_SUM_BLOCK ? count_ - from_ : ROTA_SUM_BLOCK;        \
            float block_;                                                                                    \
            ROTA_BLOCK_LANES(block_, from_, size_, EXPRESSION);                                              \
            total_ += (double)block_;                                                                        \
        }                                                                                                    \
        (out) = (float)total_;                                                                               \
    } while (0)

/* The largest element; -infinity for none. NaN is not looked for. */
ROTA_INLINE float rota_cpu_max(const float *x, uint64_t count) {
    float lane[ROTA_LANES];
    for (int l = 0; l < ROTA_LANES; l++) lane[l] = -INFINITY;
    uint64_t whole = count - count % ROTA_LANES;
    for (uint64_t base = 0; base < whole; base += ROTA_LANES)
        for (uint64_t l = 0; l < ROTA_LANES; l++) lane[l] = x[base + l] > lane[l] ? x[base + l] : lane[l];
    for (uint64_t i = whole; i < count; i++)
        lane[i - whole] = x[i] > lane[i - whole] ? x[i] : lane[i - whole];
    for (int step = ROTA_LANES / 2; step > 0; step /= 2)
        for (int l = 0; l < step; l++) lane[l] = lane[l + step] > lane[l] ? lane[l + step] : lane[l];
    return lane[0];
}

#endif
