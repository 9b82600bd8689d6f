/* Fused nodes on the CPU. Internal. */
#ifndef ROTA_OPS_CPU_FUSED_H
#define ROTA_OPS_CPU_FUSED_H

#include "ops/fusion.h"

rota_status rota_cpu_fused(const rota_kernel_call *call);
void rota_cpu_items_fused(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                          uint64_t *out_grain);

#endif
