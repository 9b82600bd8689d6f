/* Several devices: physical buffers per device, and the copies between them. Internal. */
#ifndef ROTA_SCHED_PLAN_PLACEMENT_H
#define ROTA_SCHED_PLAN_PLACEMENT_H

#include "sched/plan/compiler.h"

/* Plans of several parts, before any operation: notes which persistent buffers nodes write. */
rota_status rota_compile_mark_written(rota_compiler *compiler);
/* Before an operation on `part` touches the range: makes the copies that bring valid bytes there, notes what
 * becomes valid, and gives the buffer's physical there. */
rota_status rota_compile_placement(rota_compiler *compiler, uint32_t part, uint32_t buffer, uint64_t low,
                                   uint64_t high, rota_access_mode mode, uint32_t *out_physical);
/* Once the range's bytes are known to be read on `part` later: has them leave now for it, if they are not there, and
 * the part need not wait for what its owner does after that. */
rota_status rota_compile_send_range(rota_compiler *compiler, uint32_t part, uint32_t buffer, uint64_t low,
                                    uint64_t high);
/* Plans of several parts: which of them hold what the plan writes, in the end. */
rota_status rota_compile_final_placement(rota_compiler *compiler);

#endif
