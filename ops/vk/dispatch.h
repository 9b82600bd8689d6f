/* How the built-in kernels are dispatched on Vulkan: workgroup counts and specialization constants from the
 * parameters, and the choice among the shaders of one kernel. */
#ifndef ROTA_OPS_VK_DISPATCH_H
#define ROTA_OPS_VK_DISPATCH_H

#include "exec/device.h"
#include "ops/kernels.h"

/* What kernels.def names: grids (rota_grid_fn), specialization constants (rota_kernel.vk.spec), turns of
 * loops (rota_kernel.vk.turns; turns.c), and, of a kernel with a shader for 16-bit floats, the choice of that
 * (rota_kernel.vk.select; halves.c), which needs 16-bit storage. */
#define GRID(NAME)                                                                                           \
    void rota_vk_grid_##NAME(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]);
#define SPEC(GROUPS, CONSTANTS, COUNT, HALF_COUNT)                                                           \
    GRID(GROUPS)                                                                                             \
    void rota_vk_spec_##CONSTANTS(const void *params, uint32_t *out_values);
#define SPEC_TURNS(GROUPS, CONSTANTS, COUNT, HALF_COUNT, TURNS)                                              \
    SPEC(GROUPS, CONSTANTS, COUNT, HALF_COUNT)                                                               \
    uint64_t rota_vk_turns_##TURNS(const void *params);
#define GRID_TURNS(GROUPS, TURNS)                                                                            \
    GRID(GROUPS)                                                                                             \
    uint64_t rota_vk_turns_##TURNS(const void *params);
#define KERNEL(NAME, OPERANDS, PARAMS, FLAGS, IMAGE, HALF, SHADER, ...)                                      \
    SHADER const rota_kernel *rota_vk_select_##NAME(const void *params, const uint64_t *operand_bytes,       \
                                                    uint32_t features);
#include "ops/kernels.def"
#undef GRID
#undef SPEC
#undef SPEC_TURNS
#undef GRID_TURNS

/* A grid of at least `groups` workgroups along x, and y where x alone would pass Vulkan's guaranteed 65535.
 * Shaders number them by rota_group_index() and leave where it is past the last. */
void rota_vk_fold(uint64_t groups, uint32_t out_groups[3]);

#endif
