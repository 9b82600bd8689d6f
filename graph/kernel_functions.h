/* Functions of a kernel that get its `user`: for languages whose functions are closures, which can't make a function
 * of C for each use. Each stands in the place of the one of rota_kernel that has no `user`, which is said beside it;
 * everything else about it is said there. Those that have one anyway are not here: cpu.fn, cpu.items_with,
 * vk.grid_with, cuda.grid_with, cuda.prepare, cuda.call and cuda.tune. */
#ifndef ROTA_GRAPH_KERNEL_FUNCTIONS_H
#define ROTA_GRAPH_KERNEL_FUNCTIONS_H

#include <stddef.h>
#include <stdint.h>
#include "../base/sized.h"
#include "kernel.h"

/* A node of a kernel on a device: what the choice of what runs it goes by. */
typedef struct rota_kernel_use {
    size_t struct_size; /* sizeof, by ROTA_KERNEL_USE() */
    rota_exec_kind kind;
    const void *params;
    const uint64_t *operand_bytes; /* with the workspace, the last, where it has one */
    uint32_t operand_count;
    uint32_t slot_mask; /* bit i: operand i comes from a slot */
    uint32_t features;  /* the device's, rota_device_feature bits */
    /* The CUDA device; of a Vulkan device that launches CUDA images what those are chosen by; else NULL. */
    const rota_cuda_target *target;
} rota_kernel_use;
#define ROTA_KERNEL_USE(...) ROTA_SIZED(rota_kernel_use, __VA_ARGS__)

/* rota_kernel.functions, of a kernel whose flags have ROTA_KERNEL_HAS_FUNCTIONS. `user` is that kernel's own, also
 * where it is chosen by another's function, or a part of another. Called on the threads that compile plans and make
 * their instances, several at once. Borrowed like the kernel. INVALID_ARGUMENT, where a node is recorded: NULL, a size
 * that can't be, or what this library does not know (base/sized.h). */
typedef struct rota_kernel_functions {
    size_t struct_size;
    double (*work)(void *user, const void *params, const uint64_t *operand_bytes); /* NULL, or for .work */
    /* NULL, or for .parts */
    uint32_t (*parts)(void *user, rota_exec_kind kind, const void *params, const uint64_t *operand_bytes,
                      uint32_t slot_mask, const rota_cuda_target *target,
                      rota_kernel_part out_parts[ROTA_KERNEL_PARTS_MAX]);
    void (*vk_spec)(void *user, const void *params, uint32_t *out_values); /* NULL, or for .vk.spec */
    /* NULL, or for .vk.select */
    const rota_kernel *(*vk_select)(void *user, const void *params, const uint64_t *operand_bytes,
                                    uint32_t features);
    /* NULL, or for .vk.select_image */
    const rota_kernel *(*vk_select_image)(void *user, const void *params, const uint64_t *operand_bytes,
                                          uint32_t slot_mask, const rota_cuda_target *target);
    uint64_t (*vk_turns)(void *user, const void *params); /* NULL, or for .vk.turns */
    /* NULL, or for .cuda.launch */
    void (*cuda_launch)(void *user, const void *params, const uint64_t *operand_bytes,
                        const rota_cuda_target *target, rota_cuda_launch *out_launch);
    /* NULL, or for .cuda.workspace */
    uint64_t (*cuda_workspace)(void *user, const void *params, const uint64_t *operand_bytes,
                               const rota_cuda_target *target);
    /* NULL, or for .cuda.select */
    const rota_kernel *(*cuda_select)(void *user, const void *params, const uint64_t *operand_bytes,
                                      uint32_t slot_mask, const rota_cuda_target *target);
    /* NULL, or: says in lines what runs the node there and why it is that one, of which others, for
     * rota_plan_explain_kernel. Into text[0..capacity), terminated where capacity is not 0; returns the length of it
     * all without the terminator, also where that is more. After the plan was compiled, on any thread. */
    uint64_t (*why)(void *user, const rota_kernel_use *use, char *text, uint64_t capacity);
} rota_kernel_functions;
#define ROTA_KERNEL_FUNCTIONS(...) ROTA_SIZED(rota_kernel_functions, __VA_ARGS__)

#endif
