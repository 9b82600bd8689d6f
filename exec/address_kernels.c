/* See address_kernels.h. */
#include "exec/address_kernels.h"

#include "cuda/exec_addresses.h"

static rota_status tell(const rota_kernel_call *call) {
    uint64_t *words = call->operands[0];
    for (uint32_t i = 0; i < ROTA_ADDRESSED_MAX; i++)
        words[i] = i + 1 < call->operand_count ? (uint64_t)(uintptr_t)call->operands[i + 1] : 0;
    return ROTA_OK;
}

static rota_status nothing(const rota_kernel_call *call) {
    (void)call;
    return ROTA_OK;
}

static void no_groups(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {
    (void)params, (void)operand_bytes;
    out_groups[0] = out_groups[1] = out_groups[2] = 0;
}

/* A build without a compiler for images has none, and only the stand-in that tests put in the driver's position gets to
 * see one. */
#if ROTA_CUDA_HAVE_exec_addresses
#define IMAGE ROTA_CUDA_IMAGE_exec_addresses
#else
#define IMAGE .image = "", .size_bytes = 1
#endif

const rota_kernel rota_address_kernels[ROTA_ADDRESSED_MAX] = {
    {.name = "address of one",
     .operand_count = 2,
     .cpu = {.fn = tell},
     .cuda = {IMAGE, .entry = "rota_address_1"}},
    {.name = "addresses of two",
     .operand_count = 3,
     .cpu = {.fn = tell},
     .cuda = {IMAGE, .entry = "rota_address_2"}},
    {.name = "addresses of three",
     .operand_count = 4,
     .cpu = {.fn = tell},
     .cuda = {IMAGE, .entry = "rota_address_3"}},
};

const rota_kernel rota_address_ends[ROTA_ADDRESSED_MAX] = {
    {.name = "end with one",
     .operand_count = 2,
     .cpu = {.fn = nothing},
     .cuda = {IMAGE, .entry = "rota_address_1", .grid = no_groups}},
    {.name = "end with two",
     .operand_count = 3,
     .cpu = {.fn = nothing},
     .cuda = {IMAGE, .entry = "rota_address_2", .grid = no_groups}},
    {.name = "end with three",
     .operand_count = 4,
     .cpu = {.fn = nothing},
     .cuda = {IMAGE, .entry = "rota_address_3", .grid = no_groups}},
};
