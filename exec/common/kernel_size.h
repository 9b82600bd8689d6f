/* How much of a kernel there is for a node: what its functions of items and of workgroups say, of which a
 * kernel has one or the other (graph/kernel.h). Internal. */
#ifndef ROTA_EXEC_COMMON_KERNEL_SIZE_H
#define ROTA_EXEC_COMMON_KERNEL_SIZE_H

#include <string.h>
#include "graph/kernel.h"

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

#endif
