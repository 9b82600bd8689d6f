/* What a kernel's functions say of a node: the function of rota_kernel.functions where there is one, else the one
 * beside the code, and what holds without either. Nobody calls a kernel's functions but by these. Internal; not
 * installed. */
#ifndef ROTA_GRAPH_KERNEL_CALLS_H
#define ROTA_GRAPH_KERNEL_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/status.h"
#include "graph/kernel_functions.h"

/* INVALID_ARGUMENT: its functions are NULL, or of a size that can't be, or have what this library does not know. */
rota_status rota_kernel_check_functions(const rota_kernel *kernel);

/* Whether the functions are there up to byte `end` of them: an earlier edition ends before. */
static inline bool rota_kernel_functions_reach(const rota_kernel *kernel, size_t end) {
    return (kernel->flags & ROTA_KERNEL_HAS_FUNCTIONS) && kernel->functions &&
           kernel->functions->struct_size >= end;
}
/* One of them; NULL: there is none. */
#define ROTA_KERNEL_FUNCTION(kernel, name)                                                                   \
    (rota_kernel_functions_reach((kernel),                                                                   \
                                 offsetof(rota_kernel_functions, name) + sizeof(kernel)->functions->name)    \
         ? (kernel)->functions->name                                                                         \
         : NULL)

/* ---- How much of it there is ---- */

/* False: it has none, and is one item. */
static inline bool rota_kernel_items(const rota_kernel *kernel, const void *params,
                                     const uint64_t *operand_bytes, uint64_t *out_items,
                                     uint64_t *out_grain) {
    if (kernel->cpu.items_with)
        kernel->cpu.items_with(kernel->user, params, operand_bytes, out_items, out_grain);
    else if (kernel->cpu.items)
        kernel->cpu.items(params, operand_bytes, out_items, out_grain);
    else
        return false;
    return true;
}

/* By the kernel's part of an executor; else those that the node was recorded with. */
static inline void rota_kernel_groups(const rota_kernel *kernel, rota_grid_fn grid,
                                      rota_grid_with_fn grid_with, const void *params,
                                      const uint64_t *operand_bytes, const uint32_t given[3],
                                      uint32_t out_groups[3]) {
    if (grid_with)
        grid_with(kernel->user, params, operand_bytes, out_groups);
    else if (grid)
        grid(params, operand_bytes, out_groups);
    else
        memcpy(out_groups, given, 3 * sizeof *out_groups);
}

/* 0: it does not say. */
static inline double rota_kernel_work(const rota_kernel *kernel, const void *params,
                                      const uint64_t *operand_bytes) {
    if (ROTA_KERNEL_FUNCTION(kernel, work))
        return kernel->functions->work(kernel->user, params, operand_bytes);
    return kernel->work ? kernel->work(params, operand_bytes) : 0;
}

/* ---- What it is made of ---- */

static inline bool rota_kernel_has_parts(const rota_kernel *kernel) {
    return kernel->parts || ROTA_KERNEL_FUNCTION(kernel, parts);
}

/* 0: it runs as it is. */
static inline uint32_t rota_kernel_parts(const rota_kernel *kernel, rota_exec_kind kind, const void *params,
                                         const uint64_t *operand_bytes, uint32_t slot_mask,
                                         const rota_cuda_target *target,
                                         rota_kernel_part out_parts[ROTA_KERNEL_PARTS_MAX]) {
    if (ROTA_KERNEL_FUNCTION(kernel, parts))
        return kernel->functions->parts(kernel->user, kind, params, operand_bytes, slot_mask, target,
                                        out_parts);
    return kernel->parts ? kernel->parts(kind, params, operand_bytes, slot_mask, target, out_parts) : 0;
}

/* False: it does not say. */
static inline bool rota_kernel_says_why(const rota_kernel *kernel, const rota_kernel_use *use, char *text,
                                        uint64_t capacity, uint64_t *out_length) {
    if (!ROTA_KERNEL_FUNCTION(kernel, why)) return false;
    *out_length = kernel->functions->why(kernel->user, use, text, capacity);
    return true;
}

/* ---- On Vulkan devices ---- */

/* Leaves them as they are where nothing gives them. */
static inline void rota_kernel_vk_spec(const rota_kernel *kernel, const void *params, uint32_t *out_values) {
    if (ROTA_KERNEL_FUNCTION(kernel, vk_spec))
        kernel->functions->vk_spec(kernel->user, params, out_values);
    else if (kernel->vk.spec)
        kernel->vk.spec(params, out_values);
}

/* NULL: itself. */
static inline const rota_kernel *rota_kernel_vk_select(const rota_kernel *kernel, const void *params,
                                                       const uint64_t *operand_bytes, uint32_t features) {
    if (ROTA_KERNEL_FUNCTION(kernel, vk_select))
        return kernel->functions->vk_select(kernel->user, params, operand_bytes, features);
    return kernel->vk.select ? kernel->vk.select(params, operand_bytes, features) : NULL;
}

/* False: it does not choose. */
static inline bool rota_kernel_vk_select_image(const rota_kernel *kernel, const void *params,
                                               const uint64_t *operand_bytes, uint32_t slot_mask,
                                               const rota_cuda_target *target,
                                               const rota_kernel **out_image) {
    if (ROTA_KERNEL_FUNCTION(kernel, vk_select_image))
        *out_image =
            kernel->functions->vk_select_image(kernel->user, params, operand_bytes, slot_mask, target);
    else if (kernel->vk.select_image)
        *out_image = kernel->vk.select_image(params, operand_bytes, slot_mask, target);
    else
        return false;
    return true;
}

/* False: it does not say. */
static inline bool rota_kernel_vk_turns(const rota_kernel *kernel, const void *params, uint64_t *out_turns) {
    if (ROTA_KERNEL_FUNCTION(kernel, vk_turns))
        *out_turns = kernel->functions->vk_turns(kernel->user, params);
    else if (kernel->vk.turns)
        *out_turns = kernel->vk.turns(params);
    else
        return false;
    return true;
}

/* ---- On CUDA devices ---- */

/* False: its launch is its grid, block and shared_bytes. */
static inline bool rota_kernel_cuda_launch(const rota_kernel *kernel, const void *params,
                                           const uint64_t *operand_bytes, const rota_cuda_target *target,
                                           rota_cuda_launch *out_launch) {
    if (ROTA_KERNEL_FUNCTION(kernel, cuda_launch))
        kernel->functions->cuda_launch(kernel->user, params, operand_bytes, target, out_launch);
    else if (kernel->cuda.launch)
        kernel->cuda.launch(params, operand_bytes, target, out_launch);
    else
        return false;
    return true;
}

static inline bool rota_kernel_has_workspace(const rota_kernel *kernel) {
    return kernel->cuda.workspace || ROTA_KERNEL_FUNCTION(kernel, cuda_workspace);
}

/* 0: it wants none. */
static inline uint64_t rota_kernel_cuda_workspace(const rota_kernel *kernel, const void *params,
                                                  const uint64_t *operand_bytes,
                                                  const rota_cuda_target *target) {
    if (ROTA_KERNEL_FUNCTION(kernel, cuda_workspace))
        return kernel->functions->cuda_workspace(kernel->user, params, operand_bytes, target);
    return kernel->cuda.workspace ? kernel->cuda.workspace(params, operand_bytes, target) : 0;
}

static inline bool rota_kernel_has_cuda_select(const rota_kernel *kernel) {
    return kernel->cuda.select || ROTA_KERNEL_FUNCTION(kernel, cuda_select);
}

/* NULL: itself. */
static inline const rota_kernel *rota_kernel_cuda_select(const rota_kernel *kernel, const void *params,
                                                         const uint64_t *operand_bytes, uint32_t slot_mask,
                                                         const rota_cuda_target *target) {
    if (ROTA_KERNEL_FUNCTION(kernel, cuda_select))
        return kernel->functions->cuda_select(kernel->user, params, operand_bytes, slot_mask, target);
    return kernel->cuda.select ? kernel->cuda.select(params, operand_bytes, slot_mask, target) : NULL;
}

#endif
