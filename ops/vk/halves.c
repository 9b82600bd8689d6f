/* The shaders for 16-bit floats that stand in where a kernel's dtype is one, as kernels.def says; they need
 * 16-bit storage. */
#include "ops/vk/dispatch.h" /* IWYU pragma: keep */
#include "spv/halves.h"

static bool is_half(uint32_t dtype) {
    return dtype == ROTA_F16 || dtype == ROTA_BF16;
}

/* The stand-in of a kernel, and its choice where `CONDITION` on the parameters p holds; last how its shader
 * is dispatched. */
#define HALF(CONDITION, NAME, OPERANDS, PARAMS, ...)                                                         \
    const rota_kernel *rota_vk_select_##NAME(const void *params, const uint64_t *operand_bytes,              \
                                             uint32_t features) {                                            \
        static const rota_kernel half = {                                                                    \
            .name = #NAME,                                                                                   \
            .operand_count = (OPERANDS),                                                                     \
            .param_bytes = sizeof(PARAMS),                                                                   \
            .vk = {.words = rota_spv_##NAME##_half,                                                          \
                   .size_bytes = sizeof rota_spv_##NAME##_half,                                              \
                   .required_features = ROTA_FEATURE_F16_STORAGE,                                            \
                   __VA_ARGS__},                                                                             \
        };                                                                                                   \
        (void)operand_bytes, (void)features;                                                                 \
        const PARAMS *p = params;                                                                            \
        return (CONDITION) ? &half : NULL;                                                                   \
    }
#define NO_HALF(...)
#define BY_DTYPE(...) HALF(is_half(p->dtype), __VA_ARGS__)
#define BY_EITHER(...) HALF(is_half(p->from) || is_half(p->to), __VA_ARGS__)
#define BY_FLAGS(...) HALF(is_half(p->flags >> ROTA_ATTENTION_DTYPE_SHIFT), __VA_ARGS__)
#define BY_UPDATE(...) HALF(is_half(p->g_dtype) || (p->flags & ROTA_UPDATE_HALF), __VA_ARGS__)

#define GRID(GROUPS) .grid = rota_vk_grid_##GROUPS
#define SPEC(GROUPS, CONSTANTS, COUNT, HALF_COUNT)                                                           \
    GRID(GROUPS), .spec_count = (HALF_COUNT), .spec = rota_vk_spec_##CONSTANTS
#define SPEC_TURNS(GROUPS, CONSTANTS, COUNT, HALF_COUNT, TURNS) SPEC(GROUPS, CONSTANTS, COUNT, HALF_COUNT)

#define KERNEL(NAME, OPERANDS, PARAMS, FLAGS, IMAGE, STANDS_IN, SHADER, ...)                                 \
    STANDS_IN(NAME, OPERANDS, PARAMS, SHADER)
#include "ops/kernels.def"
