/* The CPU half of the built-in kernels: declarations, and the vectorisable helpers that they share. Internal.
 *
 * Every kernel cuts its work into items whose results do not depend on which other items a call covers, and
 * sums in an order that follows from the parameters alone. */
#ifndef ROTA_OPS_CPU_CPU_H
#define ROTA_OPS_CPU_CPU_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#include "ops/kernels.h"

#define KERNEL(NAME, ...)                                                                                    \
    rota_status rota_cpu_##NAME(const rota_kernel_call *call);                                               \
    void rota_cpu_items_##NAME(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,       \
                               uint64_t *out_grain);
#include "ops/kernels.def"

/* Fails the node for the index of position `at`, which is not below n. */
rota_status rota_cpu_outside(const char *kernel, uint64_t at, int32_t index, uint32_t n);

/* One copy of a function per instruction set, chosen when the program is loaded. Results are bit-identical
 * only per machine. Sanitizers run before the chosen copy can be resolved, so their builds have the baseline
 * only. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&     \
    !defined(__SANITIZE_THREAD__) && defined(__OPTIMIZE__)
#if __GNUC__ >= 12
#define ROTA_VECTOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else /* older compilers know no levels */
#define ROTA_VECTOR __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#else
#define ROTA_VECTOR
#endif

#define ROTA_INLINE static inline __attribute__((always_inline, unused))

/* The loop's iterations are independent even where an output is exactly an input. */
#if defined(__GNUC__) && !defined(__clang__)
#define ROTA_IVDEP _Pragma("GCC ivdep")
#else
#define ROTA_IVDEP
#endif

/* Elements of an elementwise kernel below which a task of its own costs more than it saves. */
#define ROTA_CPU_GRAIN 16384

ROTA_INLINE uint32_t rota_cpu_bits(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

ROTA_INLINE float rota_cpu_float(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* exp to 2 ulp: x = n ln 2 + r with |r| <= ln 2 / 2, the Taylor polynomial of degree 7 in r (remainder below
 * 2^-27), scaled by 2^n in two factors so that results down to the smallest normal number come out right. 0
 * below that, infinity above the largest float, NaN of NaN. */
ROTA_INLINE float rota_cpu_exp(float x) {
    const float low = -87.3365448f, high = 88.7228394f;
    float clamped = x < low ? low : x;
    clamped = clamped > high ? high : clamped;
    float shifted = clamped * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: the low mantissa bits are n */
    float n = shifted - 12582912.0f;
    float r = clamped - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    float p = 1.98412698e-4f;
    p = p * r + 1.38888889e-3f;
    p = p * r + 8.33333333e-3f;
    p = p * r + 4.16666667e-2f;
    p = p * r + 1.66666667e-1f;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    uint32_t k = rota_cpu_bits(shifted) - 0x4B400000u; /* n as a two's complement integer */
    uint32_t half = (uint32_t)((int32_t)k >> 1);
    float y = p * rota_cpu_float((half + 127u) << 23) * rota_cpu_float((k - half + 127u) << 23);
    y = x < low ? 0.0f : y;
    return x > high ? INFINITY : y;
}

ROTA_INLINE float rota_cpu_sigmoid(float x) {
    return 1.0f / (1.0f + rota_cpu_exp(-x));
}

/* exp(x) - 1 to 8 ulp: near 0, where the difference would lose digits, the Taylor polynomial (remainder below
 * 2^-27 of the result for |x| <= ln 2 / 2). */
ROTA_INLINE float rota_cpu_expm1(float x) {
    float p = 1.98412698e-4f;
    p = p * x + 1.38888889e-3f;
    p = p * x + 8.33333333e-3f;
    p = p * x + 4.16666667e-2f;
    p = p * x + 1.66666667e-1f;
    p = p * x + 0.5f;
    p = p * x * x + x;
    float far = rota_cpu_exp(x) - 1.0f;
    return fabsf(x) <= 0.34657359f ? p : far;
}

ROTA_INLINE float rota_cpu_tanh(float x) {
    float e = rota_cpu_expm1(-2.0f * fabsf(x));
    return copysignf(-e / (e + 2.0f), x);
}

/* To 1.5e-7 (Abramowitz and Stegun, Handbook of mathematical functions, 7.1.26). */
ROTA_INLINE float rota_cpu_erf(float x) {
    float z = fabsf(x), t = 1.0f / (1.0f + 0.3275911f * z);
    float p = 1.061405429f;
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    return copysignf(1.0f - p * t * rota_cpu_exp(-z * z), x);
}

/* The tanh form; 0.5 (1 + tanh u) is sigmoid(2 u). */
ROTA_INLINE float rota_cpu_gelu_sigmoid(float x) {
    return rota_cpu_sigmoid(1.5957691216f /* 2 sqrt(2 / pi) */ * (x + 0.044715f * x * x * x));
}
ROTA_INLINE float rota_cpu_gelu(float x) {
    return x * rota_cpu_gelu_sigmoid(x);
}
ROTA_INLINE float rota_cpu_gelu_derivative(float x) {
    float s = rota_cpu_gelu_sigmoid(x);
    return s + x * s * (1.0f - s) * 1.5957691216f * (1.0f + 3.0f * 0.044715f * x * x);
}

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

/* ---- 16-bit floats ---- */

ROTA_INLINE float rota_cpu_from_bf16(uint16_t h) {
    return rota_cpu_float((uint32_t)h << 16);
}

ROTA_INLINE uint16_t rota_cpu_to_bf16(float x) {
    uint32_t u = rota_cpu_bits(x);
    uint32_t rounded = (u + 0x7FFFu + ((u >> 16) & 1u)) >> 16;
    uint32_t nan = (u >> 16) | 0x40u;
    return (uint16_t)((u & 0x7FFFFFFFu) > 0x7F800000u ? nan : rounded);
}

/* The exponent is moved by a multiplication with 2^112, which also makes subnormals right. */
ROTA_INLINE float rota_cpu_from_f16(uint16_t h) {
    uint32_t magnitude = ((uint32_t)h & 0x7FFFu) << 13;
    float scaled = rota_cpu_float(magnitude) * 0x1p112f;
    uint32_t u = rota_cpu_bits(scaled);
    u = magnitude >= 0x0F800000u ? magnitude | 0x7F800000u : u;
    return rota_cpu_float(u | ((uint32_t)h & 0x8000u) << 16);
}

/* Round to nearest even: normal numbers by an integer carry, subnormal ones by adding 0.5, whose last
 * mantissa bit is f16's smallest step. */
ROTA_INLINE uint16_t rota_cpu_to_f16(float x) {
    uint32_t u = rota_cpu_bits(x), magnitude = u & 0x7FFFFFFFu;
    uint32_t normal = (magnitude - 0x38000000u + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
    uint32_t subnormal = rota_cpu_bits(rota_cpu_float(magnitude) + 0.5f) - 0x3F000000u;
    uint32_t h = magnitude < 0x38800000u ? subnormal : normal;
    h = magnitude >= 0x47800000u ? 0x7C00u : h;
    h = magnitude > 0x7F800000u ? 0x7E00u : h;
    return (uint16_t)(h | (u >> 16 & 0x8000u));
}

/* Elements that widening and narrowing kernels take at a time. */
enum { ROTA_CPU_BLOCK = 1024 };

/* Elements [from, from + count) of a dtype of real numbers as f32: where they lie if they are that, else
 * widened into `buffer`. */
const float *rota_cpu_widen(uint32_t dtype, const void *x, uint64_t from, uint64_t count, float *buffer);
/* Where to put results for elements from `at` on: their own place if they are f32, else `buffer`, from where
 * rota_cpu_narrow rounds them to it. */
ROTA_INLINE float *rota_cpu_results(uint32_t dtype, void *y, uint64_t at, float *buffer) {
    return dtype == ROTA_F32 ? (float *)y + at : buffer;
}
void rota_cpu_narrow(uint32_t dtype, const float *buffer, void *y, uint64_t at, uint64_t count);

ROTA_INLINE float rota_cpu_get(uint32_t dtype, const void *x, uint64_t i) {
    if (dtype == ROTA_F32) return ((const float *)x)[i];
    const uint16_t half = ((const uint16_t *)x)[i];
    return dtype == ROTA_F16 ? rota_cpu_from_f16(half) : rota_cpu_from_bf16(half);
}
ROTA_INLINE void rota_cpu_put(uint32_t dtype, void *y, uint64_t i, float value) {
    if (dtype == ROTA_F32)
        ((float *)y)[i] = value;
    else
        ((uint16_t *)y)[i] = dtype == ROTA_F16 ? rota_cpu_to_f16(value) : rota_cpu_to_bf16(value);
}

/* Scratch for rows that are widened, to be freed; NULL for f32. False for want of memory. */
bool rota_cpu_scratch(uint32_t dtype, uint64_t floats, float **out_scratch);
/* What is `floats` into the scratch; NULL, to which nothing may be added, where there is none. */
ROTA_INLINE float *rota_cpu_part(float *scratch, uint64_t floats) {
    return scratch ? scratch + floats : NULL;
}
rota_status rota_cpu_no_scratch(const char *kernel, uint64_t floats);
/* [rows, columns] of a dtype from element `first` on, `stride` from row to row, to or from dense f32. */
void rota_cpu_widen_rows(uint32_t dtype, const void *x, uint64_t first, uint64_t rows, uint64_t columns,
                         uint64_t stride, float *out);
void rota_cpu_narrow_rows(uint32_t dtype, const float *x, uint64_t rows, uint64_t columns, void *y,
                          uint64_t first, uint64_t stride);

/* ---- Matrix products ---- */

/* c [m, n] = alpha op(a) op(b) + beta c, row-major, on the calling thread only, by a BLAS, or by ours where
 * the BLAS does not know the CPU. beta 0: c is not read. */
void rota_cpu_sgemm(bool transpose_a, bool transpose_b, uint64_t m, uint64_t n, uint64_t k, float alpha,
                    const float *a, uint64_t lda, const float *b, uint64_t ldb, float beta, float *c,
                    uint64_t ldc);

/* The same by ours, with panels of `width` columns (32 or 16; 0: the widest that the CPU has); false, with
 * nothing done, on a CPU that has no kernels for it. */
bool rota_cpu_own_sgemm(uint64_t width, bool transpose_a, bool transpose_b, uint64_t m, uint64_t n,
                        uint64_t k, float alpha, const float *a, uint64_t lda, const float *b, uint64_t ldb,
                        float beta, float *c, uint64_t ldc);

#endif
