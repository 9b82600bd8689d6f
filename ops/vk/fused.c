/* Fused nodes on Vulkan: the program as specialization constants of one shader, fused.comp, which is compiled
 * when rota is built; so no compiler is needed but the driver's. */
#include "ops/vk/fused.h"

#include <string.h>

#include "ops/fusion.h"
#include "ops/tensor.h"
#include "ops/vk/dispatch.h"
#include "spv/fused.h"
#include "spv/fused_half.h"

/* What fused.comp has room for. */
enum { STEPS = 8, VALUES = 16, OPERANDS = 8, REPEATED = 2, SPECS = 15, BYTES_MAX = 128 - 8 };
enum { HOW_WHOLE = 0, HOW_REPEATED = 1, HOW_RESULT = 3 };
#define ELEMENTS_OF_A_GROUP 2048u

static const rota_fused_program *program_of(const void *params) {
    const rota_fused_program *program;
    memcpy(&program, &((const rota_fused_params *)params)->program, sizeof program);
    return program;
}

bool rota_vk_fused_fits(const rota_fused_shape *shape, uint32_t operand_count) {
    uint32_t repeated = 0;
    for (uint32_t v = 0; v < shape->value_count; v++) repeated += shape->values[v].mod != 0;
    return shape->step_count <= STEPS && shape->value_count <= VALUES && operand_count <= OPERANDS &&
           repeated <= REPEATED && 8 * operand_count + rota_fused_param_bytes(shape->word_count) <= BYTES_MAX;
}

static void grid(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {
    (void)operand_bytes;
    const rota_fused_params *p = params;
    rota_vk_fold(((uint64_t)p->count + ELEMENTS_OF_A_GROUP - 1) / ELEMENTS_OF_A_GROUP, out_groups);
}

static uint32_t step_word(const rota_fused_shape *shape, const rota_fused_step *step) {
    const uint32_t op = step->kind == ROTA_FUSED_DROPOUT ? step->source_count > 1 : step->op;
    return (step->kind + 1u) | op << 3 | (uint32_t)step->source[0] << 8 | (uint32_t)step->source[1] << 12 |
           (uint32_t)step->source[2] << 16 | (uint32_t)step->result << 20 |
           (uint32_t)shape->values[step->result].dtype << 24 | (uint32_t)step->word << 26;
}

static void spec(const void *params, uint32_t *out_values) {
    const rota_fused_shape *shape = &program_of(params)->shape;
    uint32_t repeated = 0;
    for (uint32_t i = 0; i < SPECS; i++) out_values[i] = i >= 11 ? 1 : 0;
    for (uint32_t s = 0; s < shape->step_count; s++) out_values[s] = step_word(shape, &shape->steps[s]);
    for (uint32_t v = 0; v < shape->value_count; v++) {
        const rota_fused_value *value = &shape->values[v];
        if (value->operand == ROTA_FUSED_NONE) continue;
        uint32_t how = value->input ? HOW_WHOLE : HOW_RESULT;
        if (value->mod) {
            out_values[11 + 2 * repeated] = value->div;
            out_values[12 + 2 * repeated] = value->mod;
            how = HOW_REPEATED + repeated++;
        }
        out_values[8 + value->operand / 4] |= (v | (uint32_t)value->dtype << 4 | how << 6)
                                              << value->operand % 4 * 8;
    }
    out_values[10] = shape->operand_count;
}

void rota_vk_fused_kernel(const rota_fused_shape *shape, rota_kernel *kernel) {
    bool half = false;
    if (!rota_vk_fused_fits(shape, shape->operand_count)) return;
    for (uint32_t v = 0; v < shape->value_count; v++) half = half || shape->values[v].dtype != ROTA_F32;
    kernel->vk.words = half ? rota_spv_fused_half : rota_spv_fused;
    kernel->vk.size_bytes = half ? sizeof rota_spv_fused_half : sizeof rota_spv_fused;
    kernel->vk.required_features = half ? ROTA_FEATURE_F16_STORAGE : 0;
    kernel->vk.grid = grid;
    kernel->vk.spec_count = SPECS;
    kernel->vk.spec = spec;
}
