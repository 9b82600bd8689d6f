/* The built-in kernel objects: operands, in-place rules, parameters that slots may fill, and their code on
 * each executor. */
#include "ops/kernels.h"

#include <stddef.h>
#include "ops/cpu/cpu.h" /* IWYU pragma: keep */
#include "ops/cuda/kernels_cuda.h"
#include "ops/cuda/matmul_bounded.h" /* IWYU pragma: keep */
#include "ops/kernel_objects.h"
#include "ops/table.h"
#include "ops/vk/dispatch.h" /* IWYU pragma: keep */
#include "ops/why.h"
#include "spv/kernels.h"

#define COUNT_OF(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

static const rota_kernel_bindable slots_unary[] = {
    {"alpha", offsetof(rota_unary_params, alpha), 4, false, ROTA_VALUE_F32},
    {"beta", offsetof(rota_unary_params, beta), 4, false, ROTA_VALUE_F32},
};
static const rota_kernel_bindable slots_dropout[] = {
    {"seed", offsetof(rota_dropout_params, seed), 4, true, ROTA_VALUE_U32},
    {"step", offsetof(rota_dropout_params, step), 4, true, ROTA_VALUE_U32},
};
static const rota_kernel_bindable slots_attention_draw[] = {
    {"seed", offsetof(rota_attention_draw, seed), 4, true, ROTA_VALUE_U32},
    {"step", offsetof(rota_attention_draw, step), 4, true, ROTA_VALUE_U32},
};
static const rota_kernel_bindable slots_adamw[] = {
    {"lr", offsetof(rota_adamw_params, lr), 4, true, ROTA_VALUE_F32},
    {"step", offsetof(rota_adamw_params, step), 4, true, ROTA_VALUE_U32},
};

static double work_matmul(const void *params, const uint64_t *operand_bytes) {
    const rota_matmul_params *p = params;
    (void)operand_bytes;
    return 2.0 * p->m * p->n * p->k * p->batch[0] * p->batch[1] * p->batch[2];
}
static double work_scaled_matmul(const void *params, const uint64_t *operand_bytes) {
    const rota_scaled_matmul_params *p = params;
    (void)operand_bytes;
    return 2.0 * p->m * p->n * p->k;
}
/* Multiplications and additions of so many products of the scores' size. */
#define WORK_ATTENTION(NAME, PARAMS, PRODUCTS)                                                               \
    static double work_##NAME(const void *params, const uint64_t *operand_bytes) {                           \
        const PARAMS *p = params;                                                                            \
        (void)operand_bytes;                                                                                 \
        return (p->flags & ROTA_ATTENTION_CAUSAL ? 1.0 : 2.0) * (PRODUCTS)*p->batch * p->heads *             \
               p->queries * p->keys * p->dim;                                                                \
    }
WORK_ATTENTION(attention, rota_attention_params, 2)
WORK_ATTENTION(attention_dropout, rota_attention_drop_params, 2)
/* The scores and their gradient again, and one product more for queries, two for keys and values. */
WORK_ATTENTION(attention_query, rota_attention_backward_params, 3)
WORK_ATTENTION(attention_key_value, rota_attention_backward_params, 4)
WORK_ATTENTION(attention_dropout_query, rota_attention_drop_backward_params, 3)
WORK_ATTENTION(attention_dropout_key_value, rota_attention_drop_backward_params, 4)

static double work_conv(const void *params, const uint64_t *operand_bytes) {
    const rota_conv_params *p = params;
    (void)operand_bytes;
    return 2.0 * p->batch * p->groups * p->in_channels * p->out_channels * p->out[0] * p->out[1] *
           p->window[0] * p->window[1];
}

static const rota_kernel_bindable slots_rope[] = {
    {"offset", offsetof(rota_rope_params, offset), 4, true, ROTA_VALUE_U32},
};
static const rota_kernel_bindable slots_top_p[] = {
    {"p", offsetof(rota_top_p_params, p), 4, false, ROTA_VALUE_F32},
};
static const rota_kernel_bindable slots_momentum[] = {
    {"lr", offsetof(rota_momentum_params, lr), 4, true, ROTA_VALUE_F32},
};

/* The words of kernels.def. */
#define BIT(i) (1u << (i))
#define PURE ROTA_KERNEL_PURE
#define SAYING (ROTA_KERNEL_PURE | ROTA_KERNEL_HAS_FUNCTIONS)
#define SUMS (ROTA_KERNEL_PURE | ROTA_KERNEL_ATOMIC_ACCUMULATE | ROTA_KERNEL_INTEGER_ACCUMULATE)
#define NO_HALF(NAME)
#define BY_DTYPE(NAME) , .select = rota_vk_select_##NAME
#define BY_EITHER(NAME) BY_DTYPE(NAME)
#define BY_FLAGS(NAME) BY_DTYPE(NAME)
#define BY_UPDATE(NAME) BY_DTYPE(NAME)
#define BY_SIZE(NAME) BY_DTYPE(NAME)
#define BY_BYTES(NAME) BY_DTYPE(NAME)
#define GRID(GROUPS) .grid = rota_vk_grid_##GROUPS
#define SPEC(GROUPS, CONSTANTS, COUNT, HALF_COUNT)                                                           \
    GRID(GROUPS), .spec_count = (COUNT), .spec = rota_vk_spec_##CONSTANTS
#define SPEC_TURNS(GROUPS, CONSTANTS, COUNT, HALF_COUNT, TURNS)                                              \
    SPEC(GROUPS, CONSTANTS, COUNT, HALF_COUNT), .turns = rota_vk_turns_##TURNS
#define GRID_TURNS(GROUPS, TURNS) GRID(GROUPS), .turns = rota_vk_turns_##TURNS
#define PLAIN
#define ON(OUTPUT, INPUTS) .inplace_outputs = BIT(OUTPUT), .inplace_inputs = (INPUTS)
#define SLOTS(LIST) .bindables = slots_##LIST, .bindable_count = COUNT_OF(slots_##LIST)
#define WORK(FUNCTION) .work = work_##FUNCTION
#define WHY(NAME) .functions = &rota_why_##NAME

#define KERNEL(NAME, OPERANDS, PARAMS, FLAGS, IMAGE, HALF, SHADER, ...)                                      \
    _Static_assert(8 + 8 * (OPERANDS) + sizeof(PARAMS) <= 128, #NAME " passes Vulkan's push constants");     \
    const rota_kernel rota_kernel_##NAME = {                                                                 \
        .name = #NAME,                                                                                       \
        .operand_count = (OPERANDS),                                                                         \
        .param_bytes = sizeof(PARAMS),                                                                       \
        .flags = (FLAGS),                                                                                    \
        .cpu = {.fn = rota_cpu_##NAME, .items = rota_cpu_items_##NAME},                                      \
        .vk = {.words = rota_spv_##NAME, .size_bytes = sizeof rota_spv_##NAME, SHADER HALF(NAME)},           \
        .cuda = {ROTA_CUDA_KERNEL(NAME, IMAGE)},                                                             \
        __VA_ARGS__};
#include "ops/kernels.def"

const rota_kernel *const *rota_kernel_table(uint32_t *out_count) {
    static const rota_kernel *const table[] = {
#define KERNEL(NAME, ...) &rota_kernel_##NAME,
#include "ops/kernels.def"
    };
    if (out_count) *out_count = COUNT_OF(table);
    return table;
}

bool rota_kernels_have_cuda_images(void) {
    return rota_kernel_unary.cuda.image != NULL;
}
