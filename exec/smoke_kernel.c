/* The kernel of the smoke test: c = a + b. */
#include "exec/smoke_kernel.h"

#include "cuda/smoke_add.h"
#include "spv/smoke_add.h"

typedef struct smoke_params {
    uint32_t count;
} smoke_params;

static rota_status add(const rota_kernel_call *call) {
    const float *a = call->operands[0], *b = call->operands[1];
    float *c = call->operands[2];
    for (uint64_t i = call->begin; i < call->end; i++) c[i] = a[i] + b[i];
    return ROTA_OK;
}

static void items(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                  uint64_t *out_grain) {
    (void)operand_bytes;
    *out_items = ((const smoke_params *)params)->count;
    *out_grain = 16384;
}

static void grid(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {
    (void)operand_bytes;
    out_groups[0] = (((const smoke_params *)params)->count + 255) / 256;
    out_groups[1] = out_groups[2] = 1;
}

const rota_kernel rota_smoke_kernel = {
    .name = "smoke_add",
    .operand_count = 3,
    .param_bytes = sizeof(smoke_params),
    .flags = ROTA_KERNEL_PURE,
    .cpu = {.fn = add, .items = items},
    .vk = {.words = rota_spv_smoke_add, .size_bytes = sizeof rota_spv_smoke_add, .grid = grid},
    .cuda = {ROTA_CUDA_IMAGE_smoke_add, .entry = "smoke_add", .grid = grid, .block = {256, 1, 1}},
};
