/* How a kernel fills in what it is made of. */
#include "ops/kernel_parts.h"

#include <string.h>
#include "graph/graph.h"

void rota_kernel_part_fill(const rota_kernel *kernel, const void *params, const uint8_t *operands,
                           uint32_t written, rota_kernel_part *out_part) {
    out_part->kernel = kernel;
    out_part->operand_count = kernel->operand_count;
    memcpy(out_part->params, params, kernel->param_bytes);
    for (uint32_t i = 0; i < kernel->operand_count; i++) {
        out_part->operand[i] = operands[i];
        out_part->mode[i] = i + written < kernel->operand_count ? ROTA_READ : ROTA_WRITE;
    }
}
