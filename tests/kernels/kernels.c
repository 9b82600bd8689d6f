/* Integer kernels for tests, as C functions; tests/kernels/test_*.comp are the same in GLSL, test_kernels.cu
 * in CUDA C. */
#include "tests/kernels/kernels.h"

#include <stddef.h>
#include "cuda/test_kernels.h"
#include "spv/test_accumulate.h"
#include "spv/test_map.h"
#include "spv/test_reverse.h"
#include "spv/test_scatter.h"
#include "spv/test_split.h"
#include "spv/test_sum.h"
#include "spv/test_update.h"
#include "spv/test_wide.h"
#include "spv/test_zip.h"

uint32_t test_mix(uint32_t a, uint32_t b) {
    uint32_t x = (a * 0x9E3779B1u) ^ (b + 0x7F4A7C15u);
    x ^= x >> 15;
    x *= 0x85EBCA6Bu;
    return x ^ (x >> 13);
}

static uint32_t fold_seed(uint64_t seed) {
    return (uint32_t)seed ^ ((uint32_t)(seed >> 32) * 3u);
}

/* The start of every kernel: its parameters, and operands as words. */
#define BEGIN(call)                                                                                          \
    const test_params *params = (call)->params;                                                              \
    const uint32_t p = params->p, seed = fold_seed(params->seed);                                            \
    (void)p;                                                                                                 \
    (void)seed
#define WORDS(k) ((uint32_t *)call->operands[k])

static rota_status run_map(const rota_kernel_call *call) {
    BEGIN(call);
    for (uint64_t i = call->begin; i < call->end; i++)
        WORDS(1)[i] = test_mix(WORDS(0)[i] + p, (uint32_t)i + seed);
    return ROTA_OK;
}

static rota_status run_zip(const rota_kernel_call *call) {
    BEGIN(call);
    for (uint64_t i = call->begin; i < call->end; i++)
        WORDS(2)[i] = test_mix(WORDS(0)[i], WORDS(1)[i] + p) + seed;
    return ROTA_OK;
}

static rota_status run_update(const rota_kernel_call *call) {
    BEGIN(call);
    for (uint64_t i = call->begin; i < call->end; i++)
        WORDS(0)[i] = test_mix(WORDS(0)[i] + seed, WORDS(1)[i % params->m] + p);
    return ROTA_OK;
}

static rota_status run_accumulate(const rota_kernel_call *call) {
    BEGIN(call);
    for (uint64_t i = call->begin; i < call->end; i++) WORDS(0)[i] += (WORDS(1)[i] ^ p) + seed;
    return ROTA_OK;
}

static rota_status run_scatter(const rota_kernel_call *call) {
    BEGIN(call);
    for (uint64_t i = call->begin; i < call->end; i++)
        __atomic_fetch_add(&WORDS(0)[test_mix(WORDS(1)[i], p) % params->n], (uint32_t)i + 1u + seed,
                           __ATOMIC_RELAXED);
    return ROTA_OK;
}

static rota_status run_split(const rota_kernel_call *call) {
    BEGIN(call);
    for (uint64_t i = call->begin; i < call->end; i++) {
        uint32_t value = WORDS(0)[i];
        WORDS(1)[i] = test_mix(value, 1u + p);
        WORDS(2)[i] = test_mix(value, 2u + seed);
    }
    return ROTA_OK;
}

static rota_status run_reverse(const rota_kernel_call *call) {
    BEGIN(call);
    for (uint64_t i = call->begin; i < call->end; i++) WORDS(1)[i] = WORDS(0)[params->n - 1 - i] + p + seed;
    return ROTA_OK;
}

static rota_status run_sum(const rota_kernel_call *call) {
    BEGIN(call);
    for (uint64_t i = call->begin; i < call->end; i++) {
        uint32_t total = p + seed;
        for (uint32_t k = 0; k < params->m; k++) total += WORDS(0)[k] * (k + (uint32_t)i + 1u);
        WORDS(1)[i] = total;
    }
    return ROTA_OK;
}

static rota_status run_wide(const rota_kernel_call *call) {
    BEGIN(call);
    for (uint64_t i = call->begin; i < call->end; i++) {
        uint32_t total = p + seed;
        for (uint32_t k = 0; k < 6; k++) total = test_mix(total, WORDS(k)[i]);
        uint32_t old = WORDS(6)[i];
        WORDS(6)[i] = old ^ total;
        WORDS(7)[i] = old + total;
    }
    return ROTA_OK;
}

rota_status test_host_function(void *user, void *const *operands, const uint64_t *operand_bytes,
                               uint32_t operand_count) {
    if (operand_count != 2 || operand_bytes[0] != operand_bytes[1])
        return rota_fail(ROTA_INVALID_ARGUMENT, "test host function: %u operands", operand_count);
    const uint32_t *in = operands[0];
    uint32_t *out = operands[1];
    for (uint64_t i = 0; i < operand_bytes[0] / 4; i++) out[i] = test_mix(in[i], *(const uint32_t *)user);
    return ROTA_OK;
}

/* A small grain, so that even small nodes are split. */
static void items_n(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                    uint64_t *out_grain) {
    (void)operand_bytes;
    *out_items = ((const test_params *)params)->n;
    *out_grain = 16;
}

static void items_m(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                    uint64_t *out_grain) {
    (void)operand_bytes;
    *out_items = ((const test_params *)params)->m;
    *out_grain = 16;
}

static void grid_of(uint32_t items, uint32_t out_groups[3]) {
    out_groups[0] = (items + 63) / 64;
    out_groups[1] = out_groups[2] = 1;
}

static void grid_n(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {
    (void)operand_bytes;
    grid_of(((const test_params *)params)->n, out_groups);
}

static void grid_m(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {
    (void)operand_bytes;
    grid_of(((const test_params *)params)->m, out_groups);
}

static const rota_kernel_bindable bindables[] = {
    [TEST_BIND_P] = {"p", offsetof(test_params, p), 4, false, ROTA_VALUE_ANY},
    [TEST_BIND_SEED] = {"seed", offsetof(test_params, seed), 8, true, ROTA_VALUE_ANY},
    [TEST_BIND_COUNT] = {"count", offsetof(test_params, q), 4, false, ROTA_VALUE_U32},
};

#define R(length)                                                                                            \
    { ROTA_READ, length }
#define W(length)                                                                                            \
    { ROTA_WRITE, length }
#define RW(length)                                                                                           \
    { ROTA_READWRITE, length }
#define A(length)                                                                                            \
    { ROTA_ACCUMULATE, length }

#define KERNEL(label, operand_total, kernel_flags, outputs, inputs, over, ...)                               \
    [TEST_KERNEL_##label] = {.kernel = {.name = "test_" #label,                                              \
                                        .operand_count = operand_total,                                      \
                                        .param_bytes = sizeof(test_params),                                  \
                                        .flags = kernel_flags,                                               \
                                        .inplace_outputs = outputs,                                          \
                                        .inplace_inputs = inputs,                                            \
                                        .bindables = bindables,                                              \
                                        .bindable_count = 3,                                                 \
                                        .cpu = {run_##label, items_##over},                                  \
                                        .vk = {.words = rota_spv_test_##label,                               \
                                               .size_bytes = sizeof rota_spv_test_##label,                   \
                                               .grid = grid_##over},                                         \
                                        .cuda = {ROTA_CUDA_IMAGE_test_kernels,                               \
                                                 .entry = ROTA_CUDA_ENTRY_test_kernels(test_##label),        \
                                                 .grid = grid_##over, .block = {64, 1, 1}}},                 \
                             .operands = {__VA_ARGS__}}

const test_kernel test_kernels[TEST_KERNEL_COUNT] = {
    KERNEL(map, 2, ROTA_KERNEL_PURE, 1u << 1, 1u << 0, n, R(TEST_N), W(TEST_N)),
    KERNEL(zip, 3, ROTA_KERNEL_PURE, 1u << 2, 3u, n, R(TEST_N), R(TEST_N), W(TEST_N)),
    KERNEL(update, 2, ROTA_KERNEL_PURE, 0, 0, n, RW(TEST_N), R(TEST_M)),
    KERNEL(accumulate, 2, ROTA_KERNEL_PURE | ROTA_KERNEL_INTEGER_ACCUMULATE, 0, 0, n, A(TEST_N), R(TEST_N)),
    KERNEL(scatter, 2, ROTA_KERNEL_PURE | ROTA_KERNEL_INTEGER_ACCUMULATE | ROTA_KERNEL_ATOMIC_ACCUMULATE, 0,
           0, m, A(TEST_N), R(TEST_M)),
    KERNEL(split, 3, ROTA_KERNEL_PURE, 6u, 1u << 0, n, R(TEST_N), W(TEST_N), W(TEST_N)),
    KERNEL(reverse, 2, ROTA_KERNEL_PURE, 0, 0, n, R(TEST_N), W(TEST_N)),
    KERNEL(sum, 2, ROTA_KERNEL_PURE, 0, 0, n, R(TEST_M), W(TEST_N)),
    KERNEL(wide, 8, ROTA_KERNEL_PURE, 1u << 7, 0x3fu, n, R(TEST_N), R(TEST_N), R(TEST_N), R(TEST_N),
           R(TEST_N), R(TEST_N), RW(TEST_N), W(TEST_N)),
};
