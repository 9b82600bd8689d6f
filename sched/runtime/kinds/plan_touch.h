/* What a segment of a plan touches: as rota_work_row says (kinds.h). With failed.mutex held. Internal; not
 * installed. */
#ifndef ROTA_SCHED_RUNTIME_KINDS_PLAN_TOUCH_H
#define ROTA_SCHED_RUNTIME_KINDS_PLAN_TOUCH_H

#include "sched/runtime/kinds/touch.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/work.h"

bool rota_segment_touch(rota_runtime *runtime, const rota_work *work, rota_touch_fn before,
                        rota_touch_fn after, void *user);
bool rota_segment_touch_node(rota_runtime *runtime, const rota_work *work, const void *owner, uint32_t node,
                             rota_touch_fn fn, void *user);
bool rota_segment_carry(rota_runtime *runtime, const rota_work *work, const void *owner, uint32_t node);
void rota_segment_undone(rota_runtime *runtime, const rota_work *segment);

#endif
