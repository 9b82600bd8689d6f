/* A plan's observers, in the order of their records: that of the lanes' keys. */
#include "sched/plan/observers.h"

#include <stdlib.h>

#include "graph/lane_records.h"
#include "sched/plan/operations.h"

/* How many there are; into `out_users` where it is not NULL. */
static uint32_t collect(const rota_plan *plan, const rota_host_on_device **out_kind, void **out_users) {
    const rota_compile_info *info = rota_plan_info(plan);
    uint32_t count = 0;
    for (uint32_t i = 0; i < info->lane_count; i++) {
        rota_record_cursor cursor = rota_lane_records(info->lanes[i]);
        for (const rota_node_record *record; (record = rota_record_take(&cursor));) {
            if (!record->may_be_on_device) continue;
            const rota_host_on_device *kind = (const rota_host_on_device *)(const void *)record->u.host.later;
            if (!kind->submitted) continue;
            *out_kind = kind; /* one for all: collectives' */
            if (out_users) out_users[count] = record->u.host.user;
            count++;
        }
    }
    return count;
}

rota_status rota_observers_find(const rota_plan *plan, rota_observers *out_observers) {
    const rota_host_on_device *kind = NULL;
    out_observers->count = collect(plan, &kind, NULL);
    if (out_observers->count == 0) return ROTA_OK;
    out_observers->users = malloc(sizeof *out_observers->users * out_observers->count);
    if (!out_observers->users) return rota_fail(ROTA_OUT_OF_MEMORY, "plan '%s': no host memory", plan->name);
    (void)collect(plan, &kind, out_observers->users);
    out_observers->submitted = kind->submitted;
    out_observers->failed = kind->failed;
    out_observers->compared = kind->compared;
    kind->arranged(out_observers->users, out_observers->count);
    return ROTA_OK;
}
