/* The shaders for 16-bit floats, and for 8-bit ones, that stand in where a kernel's dtype is one, as kernels.def says;
 * they need 16-bit storage, and 8-bit. */
#include "ops/vk/dispatch.h" /* IWYU pragma: keep */
#include "spv/halves.h"

static bool is_half(uint32_t dtype) {
    return dtype == ROTA_F16 || dtype == ROTA_BF16;
}

static bool is_f8(uint32_t dtype) {
    return rota_dtype_is_f8((rota_dtype)dtype);
}

/* The stand-in of a kernel by the shader WORDS; last how it is dispatched. */
#define STAND_IN(NAME, OPERANDS, PARAMS, WORDS, FEATURES, ...)                                               \
    {                                                                                                        \
        .name = #NAME, .operand_count = (OPERANDS), .param_bytes = sizeof(PARAMS),                           \
        .vk = {.words = (WORDS), .size_bytes = sizeof(WORDS), .required_features = (FEATURES), __VA_ARGS__}, \
    }
#define HALF_STAND_IN(NAME, OPERANDS, PARAMS, ...)                                                           \
    STAND_IN(NAME, OPERANDS, PARAMS, rota_spv_##NAME##_half, ROTA_FEATURE_F16_STORAGE, __VA_ARGS__)
#define BYTES_STAND_IN(NAME, OPERANDS, PARAMS, ...)                                                          \
    STAND_IN(NAME, OPERANDS, PARAMS, rota_spv_##NAME##_bytes,                                                \
             ROTA_FEATURE_F16_STORAGE | ROTA_FEATURE_INT8_STORAGE, __VA_ARGS__)

/* The choice among KERNELS by the parameters p. */
#define SELECT(NAME, PARAMS, KERNELS, CHOICE)                                                                \
    const rota_kernel *rota_vk_select_##NAME(const void *params, const uint64_t *operand_bytes,              \
                                             uint32_t features) {                                            \
        KERNELS                                                                                              \
        const PARAMS *p = params;                                                                            \
        (void)operand_bytes, (void)features;                                                                 \
        return (CHOICE);                                                                                     \
    }
#define WITH_HALF(...) static const rota_kernel half = HALF_STAND_IN(__VA_ARGS__);
#define WITH_BYTES(...) static const rota_kernel bytes = BYTES_STAND_IN(__VA_ARGS__);
#define HALF(CONDITION, NAME, OPERANDS, PARAMS, ...)                                                         \
    SELECT(NAME, PARAMS, WITH_HALF(NAME, OPERANDS, PARAMS, __VA_ARGS__), (CONDITION) ? &half : NULL)
#define NO_HALF(...)
#define BY_DTYPE(...) HALF(is_half(p->dtype), __VA_ARGS__)
#define BY_EITHER(...) HALF(is_half(p->from) || is_half(p->to), __VA_ARGS__)
#define BY_FLAGS(...) HALF(is_half(p->flags >> ROTA_ATTENTION_DTYPE_SHIFT), __VA_ARGS__)
#define BY_SIZE(NAME, OPERANDS, PARAMS, ...)                                                                 \
    SELECT(NAME, PARAMS,                                                                                     \
           WITH_HALF(NAME, OPERANDS, PARAMS, __VA_ARGS__) WITH_BYTES(NAME, OPERANDS, PARAMS, __VA_ARGS__),   \
           is_half(p->dtype) ? &half                                                                         \
           : is_f8(p->dtype) ? &bytes                                                                        \
                             : NULL)
#define BY_BYTES(NAME, OPERANDS, PARAMS, ...)                                                                \
    SELECT(NAME, PARAMS, WITH_BYTES(NAME, OPERANDS, PARAMS, __VA_ARGS__),                                    \
           is_f8(p->from) || is_f8(p->to) ? &bytes : NULL)
#define BY_UPDATE(...) HALF(is_half(p->g_dtype) || (p->flags & ROTA_UPDATE_HALF), __VA_ARGS__)

#define GRID(GROUPS) .grid = rota_vk_grid_##GROUPS
#define SPEC(GROUPS, CONSTANTS, COUNT, HALF_COUNT)                                                           \
    GRID(GROUPS), .spec_count = (HALF_COUNT), .spec = rota_vk_spec_##CONSTANTS
#define SPEC_TURNS(GROUPS, CONSTANTS, COUNT, HALF_COUNT, TURNS) SPEC(GROUPS, CONSTANTS, COUNT, HALF_COUNT)

#define KERNEL(NAME, OPERANDS, PARAMS, FLAGS, IMAGE, STANDS_IN, SHADER, ...)                                 \
    STANDS_IN(NAME, OPERANDS, PARAMS, SHADER)
#include "ops/kernels.def"
