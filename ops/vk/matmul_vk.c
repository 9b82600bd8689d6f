/* The shaders of the matrix products on Vulkan, and which one a product of a given shape takes on a given
 * device. */
#include "ops/vk/dispatch.h"

#include "spv/matmul_bf16_large.h"
#include "spv/matmul_f16_large.h"
#include "spv/matmul_large.h"

#define SMALL_TILE 64u
#define LARGE_TILE 128u
/* With fewer large tiles than this the small ones keep more of a GPU busy. */
#define LARGE_TILES_MIN 96u

static uint64_t tiles(const rota_matmul_params *p, uint32_t rows, uint32_t columns) {
    return (uint64_t)((p->m + rows - 1) / rows) * ((p->n + columns - 1) / columns) * p->batch[0] *
           p->batch[1] * p->batch[2];
}

void rota_vk_grid_matmul_small(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {
    (void)operand_bytes;
    rota_vk_fold(tiles(params, SMALL_TILE, SMALL_TILE), out_groups);
}

static void grid_large(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {
    (void)operand_bytes;
    rota_vk_fold(tiles(params, LARGE_TILE, LARGE_TILE), out_groups);
}

void rota_vk_spec_matmul(const void *params, uint32_t *out_values) {
    const rota_matmul_params *p = params;
    out_values[0] = (p->flags & ROTA_MATMUL_TRANSPOSE_A) != 0;
    out_values[1] = (p->flags & ROTA_MATMUL_TRANSPOSE_B) != 0;
    out_values[2] = (p->flags & ROTA_MATMUL_ACCUMULATE) != 0;
    out_values[3] = p->c_dtype;
}

#define TILED(shader, features)                                                                              \
    {                                                                                                        \
        .name = #shader, .operand_count = 3, .param_bytes = sizeof(rota_matmul_params),                      \
        .vk = {                                                                                              \
            .words = rota_spv_##shader,                                                                      \
            .size_bytes = sizeof rota_spv_##shader,                                                          \
            .grid = grid_large,                                                                              \
            .spec_count = 4,                                                                                 \
            .spec = rota_vk_spec_matmul,                                                                     \
            .required_features = (features),                                                                 \
        },                                                                                                   \
    }

static const rota_kernel large_f32 = TILED(matmul_large, 0);
static const rota_kernel large_f16 = TILED(matmul_f16_large, ROTA_FEATURE_F16_STORAGE);
static const rota_kernel large_bf16 = TILED(matmul_bf16_large, ROTA_FEATURE_F16_STORAGE);

static bool is_large(const rota_matmul_params *p) {
    return p->m >= LARGE_TILE && p->n >= LARGE_TILE && tiles(p, LARGE_TILE, LARGE_TILE) >= LARGE_TILES_MIN;
}

const rota_kernel *rota_vk_select_matmul(const void *params, const uint64_t *operand_bytes,
                                         uint32_t features) {
    (void)operand_bytes;
    (void)features;
    return is_large(params) ? &large_f32 : NULL;
}

const rota_kernel *rota_vk_select_matmul_f16(const void *params, const uint64_t *operand_bytes,
                                             uint32_t features) {
    (void)operand_bytes;
    (void)features;
    return is_large(params) ? &large_f16 : NULL;
}

const rota_kernel *rota_vk_select_matmul_bf16(const void *params, const uint64_t *operand_bytes,
                                              uint32_t features) {
    (void)operand_bytes;
    (void)features;
    return is_large(params) ? &large_bf16 : NULL;
}
