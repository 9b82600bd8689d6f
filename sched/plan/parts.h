/* Kernels that are several on some devices (rota_kernel.parts). Internal. */
#ifndef ROTA_SCHED_PLAN_PARTS_H
#define ROTA_SCHED_PLAN_PARTS_H

#include "sched/plan/compiler.h"

/* What a node with rota_kernel.parts becomes on `part`; *out_count 0: itself. */
rota_status rota_compile_parts(rota_compiler *compiler, uint32_t part, const rota_node_record *record,
                               const rota_node_record *out_records[ROTA_KERNEL_PARTS_MAX],
                               uint32_t *out_count);
/* The operation of the node's next part; ROTA_NONE: there is none, mostly. */
uint32_t rota_compile_next_part(const rota_compiler *compiler, uint32_t operation);

#endif
