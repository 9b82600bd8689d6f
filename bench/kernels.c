/* Trivial kernels with 1 to 4 operands, whose result depends on the order in which they run. */
#include "bench/kernels.h"

#include <stddef.h>

#include "cuda/bench_trivial.h"
#include "cuda/bench_trivial_plain.h"
#include "spv/bench_trivial_1.h"
#include "spv/bench_trivial_2.h"
#include "spv/bench_trivial_3.h"
#include "spv/bench_trivial_4.h"

/* What a node costs beside a plain call must not hang on where the linker puts a kernel of 20 instructions: 13 % of a
 * node of 7 ns was seen. */
#define ALIGNED __attribute__((aligned(64)))

ALIGNED void bench_kernel_apply(const bench_params *params, uint32_t operand_count, uint32_t *const *operands) {
    uint32_t value = params->seed;
    for (uint32_t i = 0; i < operand_count; i++)
        if (params->modes >> i & 1) value = value * 1664525u + operands[i][0];
    for (uint32_t i = 0; i < operand_count; i++)
        if (params->modes >> (8 + i) & 1)
            for (uint32_t w = 0; w < params->words; w++) operands[i][w] = value;
}

ALIGNED static rota_status run(const rota_kernel_call *call) {
    uint32_t *operands[BENCH_OPERANDS_MAX];
    for (uint32_t i = 0; i < call->operand_count; i++) operands[i] = call->operands[i];
    bench_kernel_apply(call->params, call->operand_count, operands);
    return ROTA_OK;
}

static const rota_kernel_bindable seed = {"seed", offsetof(bench_params, seed), sizeof(uint32_t), false,
                                          ROTA_VALUE_U32};

#define KERNEL_OF(cuda_image, cuda_entry, count, outputs, inputs, ...)                                       \
    {                                                                                                        \
        .name = "trivial_" #count, .operand_count = count, .param_bytes = sizeof(bench_params),              \
        .flags = ROTA_KERNEL_PURE, .inplace_outputs = outputs, .inplace_inputs = inputs, .cpu = {.fn = run}, \
        .vk = {.words = rota_spv_bench_trivial_##count,                                                      \
               .size_bytes = sizeof rota_spv_bench_trivial_##count},                                         \
        .cuda = {cuda_image, .entry = cuda_entry, .block = {1, 1, 1}}, __VA_ARGS__                           \
    }
#define KERNEL(count, outputs, inputs, ...)                                                                  \
    KERNEL_OF(ROTA_CUDA_IMAGE_bench_trivial, ROTA_CUDA_ENTRY_bench_trivial(trivial_##count), count, outputs, \
              inputs, __VA_ARGS__)
#define KERNEL_PLAIN(count)                                                                                  \
    KERNEL_OF(ROTA_CUDA_IMAGE_bench_trivial_plain, ROTA_CUDA_ENTRY_bench_trivial_plain(trivial_##count),     \
              count, 0, 0, NOTHING)

#define NOTHING .bindables = NULL
#define SEEDED .bindables = &seed, .bindable_count = 1
const rota_kernel bench_kernels[BENCH_OPERANDS_MAX] = {KERNEL(1, 0, 0, NOTHING), KERNEL(2, 0, 0, NOTHING),
                                                       KERNEL(3, 0, 0, NOTHING), KERNEL(4, 0, 0, NOTHING)};
const rota_kernel bench_kernels_inplace[BENCH_OPERANDS_MAX] = {
    KERNEL(1, 0, 0, NOTHING), KERNEL(2, 2, 1, NOTHING), KERNEL(3, 4, 3, NOTHING), KERNEL(4, 8, 7, NOTHING)};
const rota_kernel bench_kernels_seeded[BENCH_OPERANDS_MAX] = {
    KERNEL(1, 0, 0, SEEDED), KERNEL(2, 0, 0, SEEDED), KERNEL(3, 0, 0, SEEDED), KERNEL(4, 0, 0, SEEDED)};
const rota_kernel bench_kernels_plain[BENCH_OPERANDS_MAX] = {KERNEL_PLAIN(1), KERNEL_PLAIN(2),
                                                             KERNEL_PLAIN(3), KERNEL_PLAIN(4)};
