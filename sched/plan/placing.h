/* Nodes to devices, where that is automatic. Internal. */
#ifndef ROTA_SCHED_PLAN_PLACING_H
#define ROTA_SCHED_PLAN_PLACING_H

#include "sched/plan/compiler.h"

/* Fills in compiler->spread.placing from the records of all nodes, by number: has the policy choose. */
rota_status rota_compile_placing_choose(rota_compiler *compiler, const rota_node_record *const *records);

/* A node's rota_placement.device_plus_1, or what was chosen for it. */
static inline uint32_t rota_compile_device_plus_1(const rota_compiler *c, const rota_node_record *record,
                                                  uint32_t node) {
    if (record->device_plus_1 && record->device_plus_1 != ROTA_PLACE_AUTO) return record->device_plus_1;
    return c->spread.placing.device ? c->spread.placing.device[node] + 1u : 0;
}

#endif
