/* The shaders of the matrix products on Vulkan, and which one a product of a given shape takes on a given
 * device. */
#include "ops/vk/dispatch.h"

#include "ops/vk/coopmat/matmul_khr_bf16.spv.h"
#include "ops/vk/coopmat/matmul_khr_f16.spv.h"
#include "ops/vk/coopmat/matmul_nv_bf16.spv.h"
#include "ops/vk/coopmat/matmul_nv_f16.spv.h"
#include "ops/vk/coopmat/matmul_nv_small_bf16.spv.h"
#include "ops/vk/coopmat/matmul_nv_small_f16.spv.h"
#include "ops/vk/turns.h"
#include "ops/why.h"
#include "spv/matmul_bf16_large.h"
#include "spv/matmul_f16_large.h"
#include "spv/matmul_fine.h"
#include "spv/matmul_large.h"

/* Tiles of results, as the shaders are compiled: ops/vk/variants.cmake, ops/vk/coopmat/variants.txt. */
#define FINE_TILE 32u
#define SMALL_TILE 64u
#define LARGE_TILE 128u
#define NV_TILE 128u
#define NV_SMALL_TILE 64u
/* With fewer large tiles than this the small ones keep more of a GPU busy. */
#define LARGE_TILES_MIN 96u
/* With fewer small tiles than this, and k at least so long, the fine ones do. */
#define SMALL_TILES_MIN 64u
#define FINE_K_MIN 256u
/* Cooperative-matrix shaders address within a tensor by 32 bits. */
#define TENSOR_ELEMENTS_MAX (UINT64_C(1) << 31)

static uint64_t tiles(const rota_matmul_params *p, uint32_t rows, uint32_t columns) {
    return (uint64_t)((p->m + rows - 1) / rows) * ((p->n + columns - 1) / columns) * p->batch[0] *
           p->batch[1] * p->batch[2];
}

void rota_vk_grid_matmul_small(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {
    (void)operand_bytes;
    rota_vk_fold(tiles(params, SMALL_TILE, SMALL_TILE), out_groups);
}

static void grid_fine(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {
    (void)operand_bytes;
    rota_vk_fold(tiles(params, FINE_TILE, FINE_TILE), out_groups);
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

static void grid_nv(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {
    (void)operand_bytes;
    rota_vk_fold(tiles(params, NV_TILE, NV_TILE), out_groups);
}

static void grid_nv_small(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {
    (void)operand_bytes;
    rota_vk_fold(tiles(params, NV_SMALL_TILE, NV_SMALL_TILE), out_groups);
}

#define SHADER(shader, grid_function, features, size_of_subgroup, turns_bound)                               \
    static const rota_kernel shader = {                                                                      \
        .name = #shader,                                                                                     \
        .operand_count = 3,                                                                                  \
        .param_bytes = sizeof(rota_matmul_params),                                                           \
        .vk = {.words = rota_spv_##shader,                                                                   \
               .size_bytes = sizeof rota_spv_##shader,                                                       \
               .grid = (grid_function),                                                                      \
               .spec_count = 4,                                                                              \
               .spec = rota_vk_spec_matmul,                                                                  \
               .required_features = (features),                                                              \
               .subgroup_size = (size_of_subgroup),                                                          \
               .turns = (turns_bound)},                                                                      \
    }

#define KHR_FEATURES (ROTA_FEATURE_F16_STORAGE | ROTA_FEATURE_SUBGROUP_SIZE_CONTROL)
#define NV_FEATURES (ROTA_FEATURE_F16_STORAGE | ROTA_FEATURE_COOPERATIVE_MATRIX_2)

SHADER(matmul_large, grid_large, 0, 0, rota_vk_turns_matmul_large);
SHADER(matmul_fine, grid_fine, 0, 0, NULL);
SHADER(matmul_f16_large, grid_large, ROTA_FEATURE_F16_STORAGE, 0, rota_vk_turns_matmul_large);
SHADER(matmul_bf16_large, grid_large, ROTA_FEATURE_F16_STORAGE, 0, rota_vk_turns_matmul_large);
SHADER(matmul_khr_f16, grid_large, KHR_FEATURES | ROTA_FEATURE_COOPERATIVE_MATRIX, 32, NULL);
SHADER(matmul_khr_bf16, grid_large, KHR_FEATURES | ROTA_FEATURE_COOPERATIVE_MATRIX_BF16, 32, NULL);
SHADER(matmul_nv_f16, grid_nv, NV_FEATURES | ROTA_FEATURE_COOPERATIVE_MATRIX, 0, NULL);
SHADER(matmul_nv_bf16, grid_nv, NV_FEATURES | ROTA_FEATURE_COOPERATIVE_MATRIX_BF16, 0, NULL);
SHADER(matmul_nv_small_f16, grid_nv_small, NV_FEATURES | ROTA_FEATURE_COOPERATIVE_MATRIX, 0, NULL);
SHADER(matmul_nv_small_bf16, grid_nv_small, NV_FEATURES | ROTA_FEATURE_COOPERATIVE_MATRIX_BF16, 0, NULL);

static bool is_large(const rota_matmul_params *p) {
    return p->m >= LARGE_TILE && p->n >= LARGE_TILE && tiles(p, LARGE_TILE, LARGE_TILE) >= LARGE_TILES_MIN;
}

/* Fine tiles only on what cooperative matrices show to be a GPU with processors to fill: they do less
 * arithmetic for each load, which on lavapipe costs half as much again. */
const rota_kernel *rota_vk_select_matmul(const void *params, const uint64_t *operand_bytes,
                                         uint32_t features) {
    (void)operand_bytes;
    const rota_matmul_params *p = params;
    if (is_large(p)) return &matmul_large;
    const bool gpu = (features & ROTA_FEATURE_COOPERATIVE_MATRIX) != 0;
    return gpu && p->k >= FINE_K_MIN && tiles(p, SMALL_TILE, SMALL_TILE) < SMALL_TILES_MIN ? &matmul_fine
                                                                                           : NULL;
}

/* The shaders of one 16-bit type. */
typedef struct choices {
    const rota_kernel *nv, *nv_small, *khr, *tiled;
} choices;

static bool fits(const rota_kernel *kernel, uint32_t features) {
    return (kernel->vk.required_features & ~features) == 0;
}

static bool is_addressable(const rota_matmul_params *p) {
    const uint64_t a_rows = p->flags & ROTA_MATMUL_TRANSPOSE_A ? p->k : p->m;
    const uint64_t b_rows = p->flags & ROTA_MATMUL_TRANSPOSE_B ? p->n : p->k;
    return a_rows * p->lda < TENSOR_ELEMENTS_MAX && b_rows * p->ldb < TENSOR_ELEMENTS_MAX &&
           (uint64_t)p->m * p->ldc < TENSOR_ELEMENTS_MAX;
}

/* The best that the device has: cooperative matrices of a workgroup, then of a subgroup, then none. */
static const rota_kernel *choose(const choices *c, const rota_matmul_params *p, uint32_t features) {
    const bool addressable = is_addressable(p);
    if (addressable && fits(c->nv, features))
        return tiles(p, NV_TILE, NV_TILE) >= LARGE_TILES_MIN ? c->nv : c->nv_small;
    if (addressable && fits(c->khr, features)) return c->khr;
    return is_large(p) ? c->tiled : NULL;
}

static const choices of_f16 = {&matmul_nv_f16, &matmul_nv_small_f16, &matmul_khr_f16, &matmul_f16_large},
                     of_bf16 = {&matmul_nv_bf16, &matmul_nv_small_bf16, &matmul_khr_bf16, &matmul_bf16_large};

const rota_kernel *rota_vk_select_matmul_f16(const void *params, const uint64_t *operand_bytes,
                                             uint32_t features) {
    (void)operand_bytes;
    return choose(&of_f16, params, features);
}

const rota_kernel *rota_vk_select_matmul_bf16(const void *params, const uint64_t *operand_bytes,
                                              uint32_t features) {
    (void)operand_bytes;
    return choose(&of_bf16, params, features);
}

/* ---- Why ---- */

static void say_shader(rota_text_out *out, const rota_kernel *kernel, const char *own) {
    const bool small = !kernel || kernel == &matmul_nv_small_f16 || kernel == &matmul_nv_small_bf16;
    const uint32_t side = kernel == &matmul_fine ? FINE_TILE : small ? SMALL_TILE : LARGE_TILE;
    rota_text_say(out, "runs: shader '%s', tiles %ux%u\n", kernel ? kernel->name : own, side, side);
}

static void say_lacking(rota_text_out *out, uint32_t lacking) {
    static const struct {
        uint32_t feature;
        const char *name;
    } names[] = {{ROTA_FEATURE_F16_STORAGE, "16-bit storage"},
                 {ROTA_FEATURE_SUBGROUP_SIZE_CONTROL, "subgroup size control"},
                 {ROTA_FEATURE_COOPERATIVE_MATRIX, "cooperative matrices of f16"},
                 {ROTA_FEATURE_COOPERATIVE_MATRIX_BF16, "cooperative matrices of bf16"},
                 {ROTA_FEATURE_COOPERATIVE_MATRIX_2, "those of a workgroup"}};
    const char *before = "";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!(lacking & names[i].feature)) continue;
        rota_text_say(out, "%s%s", before, names[i].name);
        before = ", ";
    }
    rota_text_say(out, "\n");
}

static void say_matrices(rota_text_out *out, const choices *c, const rota_matmul_params *p,
                         uint32_t features) {
    const struct {
        const rota_kernel *kernel;
        const char *what;
    } all[] = {{c->nv, "cooperative matrices of a workgroup (VK_NV_cooperative_matrix2)"},
               {c->khr, "cooperative matrices of a subgroup (VK_KHR_cooperative_matrix)"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!fits(all[i].kernel, features)) {
            rota_text_say(out, "left out: %s: the device has no ", all[i].what);
            say_lacking(out, all[i].kernel->vk.required_features & ~features);
        } else if (!is_addressable(p)) {
            rota_text_say(out,
                          "left out: %s: an operand has 2^31 elements or more, which they don't address\n",
                          all[i].what);
        }
}

void rota_vk_why_matmul(rota_text_out *out, const rota_kernel_use *use, rota_dtype dtype) {
    const rota_matmul_params *p = use->params;
    const choices *c = dtype == ROTA_F16 ? &of_f16 : dtype == ROTA_BF16 ? &of_bf16 : NULL;
    if (c && use->target && rota_cuda_why_bounded(out, p, dtype, use->slot_mask, use->target)) return;
    if (c && !use->target)
        rota_text_say(out, "left out: CUDA images: the device launches none (VK_NVX_binary_import)\n");
    const rota_kernel *chosen =
        c ? choose(c, p, use->features) : rota_vk_select_matmul(p, use->operand_bytes, use->features);
    say_shader(out, chosen, c == &of_f16 ? "matmul_f16" : c ? "matmul_bf16" : "matmul");
    rota_text_say(
        out,
        "why: by table, not measured: cooperative matrices where the device has them (16-bit operands), of "
        "128x128 from %u such tiles on; without them 128x128 from as many on, else 64x64, and on GPUs with "
        "them 32x32 (f32) below %u tiles of 64x64 with k of %u or more; here 128x128 makes %llu tiles, "
        "64x64 %llu\n",
        LARGE_TILES_MIN, SMALL_TILES_MIN, FINE_K_MIN, (unsigned long long)tiles(p, LARGE_TILE, LARGE_TILE),
        (unsigned long long)tiles(p, SMALL_TILE, SMALL_TILE));
    if (c) say_matrices(out, c, p, use->features);
}
