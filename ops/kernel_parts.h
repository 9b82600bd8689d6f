/* How a kernel fills in what it is made of (rota_kernel.parts). Internal. */
#ifndef ROTA_OPS_KERNEL_PARTS_H
#define ROTA_OPS_KERNEL_PARTS_H

#include "ops/kernels.h"

/* A part: `kernel` with `params`, on these of the node's operands, as many as it has; it reads all but the
 * last `written`, whose bytes it all writes. What is READWRITE the caller says in out_part->mode. */
void rota_kernel_part_fill(const rota_kernel *kernel, const void *params, const uint8_t *operands,
                           uint32_t written, rota_kernel_part *out_part);

#endif
