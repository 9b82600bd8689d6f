/* See cuda_stub_kernels.h. */
#include "tests/exec/cuda/cuda_stub_kernels.h"
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "exec/comm/elements.h"
#include "exec/cuda/decide_step.h"
#include "exec/cuda/cuda_sums.h"
#include "graph/kernel_calls.h"

/* rota_args of exec/cuda/rota_kernel.cuh. */
typedef struct arguments {
    const uint64_t *block;
    uint32_t slot_mask, bind_mask;
    uint64_t operands[ROTA_KERNEL_OPERANDS_MAX + 1];
} arguments;
#define HEAD_BYTES 16u

static void *operand(const arguments *a, uint32_t i) {
    uint64_t value = a->operands[i];
    if (a->slot_mask >> i & 1u) value = a->block[value >> 48] + (value & 0xFFFFFFFFFFFFull);
    return (void *)(uintptr_t)value;
}

stub_kernel stub_kernel_of(const rota_kernel *kernel) {
    uint32_t bytes = HEAD_BYTES + 8 * kernel->operand_count + (kernel->param_bytes + 7) / 8 * 8;
    return (stub_kernel){.entry = kernel->cuda.entry,
                         .kernel = kernel,
                         .param_count = kernel->cuda.prepared_bytes ? 2 : 1,
                         .param_bytes = {bytes, kernel->cuda.prepared_bytes}};
}

stub_launch stub_launch_new(const stub_kernel *kernel, void *const *params) {
    stub_launch launch = {.kernel = kernel};
    for (uint32_t i = 0; i < kernel->param_count; i++) {
        launch.params[i] = malloc(kernel->param_bytes[i] + 1);
        if (!launch.params[i]) abort();
        memcpy(launch.params[i], params[i], kernel->param_bytes[i]);
    }
    return launch;
}

stub_launch stub_launch_copy(const stub_launch *launch) {
    return launch->kernel ? stub_launch_new(launch->kernel, launch->params) : (stub_launch){0};
}

void stub_launch_free(stub_launch *launch) {
    for (uint32_t i = 0; i < STUB_PARAMETERS_MAX; i++) free(launch->params[i]);
    *launch = (stub_launch){0};
}

/* What a counted kernel leaves out: beyond its parameter of that name, where it is given one. */
static void bound_items(const rota_kernel *kernel, const arguments *a, const void *params, uint64_t *items) {
    for (uint32_t j = 0; j < kernel->bindable_count; j++) {
        const rota_kernel_bindable *bindable = &kernel->bindables[j];
        uint32_t count;
        if (!(a->bind_mask >> j & 1u) || strcmp(bindable->name, "count") != 0) continue;
        memcpy(&count, (const uint8_t *)params + bindable->offset_bytes, sizeof count);
        if (count < *items) *items = count;
    }
}

static void run_c_function(const rota_kernel *kernel, const arguments *a, uint64_t threads) {
    void *operands[ROTA_KERNEL_OPERANDS_MAX];
    uint64_t params[(ROTA_KERNEL_PARAM_BYTES_MAX + 7) / 8] = {0}, sizes[ROTA_KERNEL_OPERANDS_MAX] = {0};
    for (uint32_t i = 0; i < kernel->operand_count; i++) operands[i] = operand(a, i);
    memcpy(params, &a->operands[kernel->operand_count], kernel->param_bytes);
    for (uint32_t j = 0; j < kernel->bindable_count; j++) {
        if (!(a->bind_mask >> j & 1u)) continue;
        uint8_t *field = (uint8_t *)params + kernel->bindables[j].offset_bytes;
        uint32_t word;
        memcpy(&word, field, sizeof word);
        memcpy(field, &a->block[word], kernel->bindables[j].size_bytes);
    }
    uint64_t items = 1, grain = 1;
    (void)rota_kernel_items(kernel, params, sizes, &items, &grain);
    bound_items(kernel, a, params, &items);
    if (threads < items) items = threads;
    rota_kernel_call call = {.operands = operands,
                             .params = params,
                             .end = items,
                             .items = items,
                             .operand_count = kernel->operand_count,
                             .operand_bytes = sizes};
    if (kernel->cpu.fn(&call) != ROTA_OK) abort();
}

void stub_launch_run(const stub_launch *launch, uint64_t threads) {
    if (launch->kernel->kernel)
        run_c_function(launch->kernel->kernel, launch->params[0], threads);
    else
        launch->kernel->fn(launch->params);
}

/* ---- The executor's own ---- */

static void run_copy(void *const *params) {
    const arguments *a = params[0];
    const uint64_t bytes = a->operands[2];
    memmove(operand(a, 0), operand(a, 1), a->bind_mask & 1u ? a->block[(uint32_t)bytes] : bytes);
}

static void run_fill(void *const *params) {
    const arguments *a = params[0];
    uint32_t *to = operand(a, 0), pattern;
    memcpy(&pattern, &a->operands[2], sizeof pattern);
    /* The executor looks at timestamps while they are cleared. */
    for (uint64_t i = 0; i < a->operands[1] / 4; i++) __atomic_store_n(&to[i], pattern, __ATOMIC_RELAXED);
}

static uint64_t word_at(const void *param) {
    uint64_t word;
    memcpy(&word, param, sizeof word);
    return word;
}

static void run_upload(void *const *params) {
    uint32_t words;
    memcpy(&words, params[2], sizeof words);
    memcpy((void *)(uintptr_t)word_at(params[0]), (const void *)(uintptr_t)word_at(params[1]),
           8 * (size_t)words);
}

static void run_timestamp(void *const *params) {
    /* The executor looks at it while the kernel runs. */
    __atomic_store_n((uint64_t *)(uintptr_t)word_at(params[0]), rota_clock_ns() + 1000000, __ATOMIC_RELAXED);
}

/* The step is the kernel's own (decide_step.h). */
static void run_decide(void *const *params) {
    const rota_decide_args *args = params[0];
    const arguments *a = params[0];
    const rota_decide_answer answer =
        rota_decide_step(&args->params, operand(a, 0), args->operands[1] ? operand(a, 1) : NULL);
    stub_set_conditional(args->params.handles[0], answer.values[0]);
    if (args->params.handles[1]) stub_set_conditional(args->params.handles[1], answer.values[1]);
}

/* Likewise, for the host to look at. */
static void run_answer(void *const *params) {
    const rota_decide_args *args = params[0];
    const arguments *a = params[0];
    const rota_decide_answer answer =
        rota_decide_step(&args->params, operand(a, 0), args->operands[1] ? operand(a, 1) : NULL);
    for (uint32_t i = 0; i < 2; i++)
        if (args->params.handles[i])
            *(volatile uint32_t *)(uintptr_t)args->params.handles[i] = answer.values[i];
}

static void run_count(void *const *params) {
    const rota_count_args *args = params[0];
    (void)rota_count_step(&args->params, operand(params[0], 0));
}

static void run_count_grid(void *const *params) {
    const rota_count_args *args = params[0];
    const uint32_t count = rota_count_step(&args->params, operand(params[0], 0));
    if (args->params.grid_node)
        stub_set_groups(args->params.grid_node, rota_count_groups(&args->params, count));
}

/* exec_sums.cu's, as what the CPU computes. */
static void run_sums(rota_collective_type type, void *const *params) {
    const rota_cuda_sums *s = params[0];
    const void *from[ROTA_CUDA_SUMS_MAX];
    for (uint32_t r = 0; r < s->ranks; r++) from[r] = (const void *)(uintptr_t)s->from[r];
    rota_elements_combine(type, s->divisor == 1.0f ? ROTA_COLLECTIVE_SUM : ROTA_COLLECTIVE_MEAN, from,
                          s->ranks, s->count, (void *)(uintptr_t)s->to);
}
static void run_sums_f32(void *const *params) {
    run_sums(ROTA_COLLECTIVE_F32, params);
}
static void run_sums_f16(void *const *params) {
    run_sums(ROTA_COLLECTIVE_F16, params);
}
static void run_sums_bf16(void *const *params) {
    run_sums(ROTA_COLLECTIVE_BF16, params);
}

const stub_kernel stub_own_kernels[] = {
    {.entry = "rota_copy", .fn = run_copy, .param_count = 1, .param_bytes = {HEAD_BYTES + 16 + 8}},
    {.entry = "rota_fill", .fn = run_fill, .param_count = 1, .param_bytes = {HEAD_BYTES + 8 + 16}},
    {.entry = "rota_upload", .fn = run_upload, .param_count = 3, .param_bytes = {8, 8, 4}},
    {.entry = "rota_timestamp", .fn = run_timestamp, .param_count = 1, .param_bytes = {8}},
    {.entry = "rota_count", .fn = run_count, .param_count = 1, .param_bytes = {sizeof(rota_count_args)}},
    {.entry = "rota_count_grid",
     .fn = run_count_grid,
     .param_count = 1,
     .param_bytes = {sizeof(rota_count_args)}},
    {.entry = "rota_answer", .fn = run_answer, .param_count = 1, .param_bytes = {sizeof(rota_decide_args)}},
    {.entry = "rota_sums_f32", .fn = run_sums_f32, .param_count = 1, .param_bytes = {sizeof(rota_cuda_sums)}},
    {.entry = "rota_sums_f16", .fn = run_sums_f16, .param_count = 1, .param_bytes = {sizeof(rota_cuda_sums)}},
    {.entry = "rota_sums_bf16",
     .fn = run_sums_bf16,
     .param_count = 1,
     .param_bytes = {sizeof(rota_cuda_sums)}},
    {.entry = "rota_decide", .fn = run_decide, .param_count = 1, .param_bytes = {sizeof(rota_decide_args)}},
};
const uint32_t stub_own_kernel_count = sizeof stub_own_kernels / sizeof stub_own_kernels[0];
