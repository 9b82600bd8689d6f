/* Which nodes of a plan's graph are told of its replays, in the order of their records: that of the lanes' keys. */
#include "sched/plan/told.h"

#include <stdlib.h>

#include "graph/lane_records.h"
#include "sched/plan/operations.h"

/* Those of the lanes; into `out` where it is not NULL. */
static uint32_t walk(const rota_plan *plan, const rota_host_on_device **out_kind, void **out) {
    const rota_compile_info *info = rota_plan_info(plan);
    uint32_t count = 0;
    for (uint32_t i = 0; i < info->lane_count; i++) {
        rota_record_cursor cursor = rota_lane_records(info->lanes[i]);
        for (const rota_node_record *record; (record = rota_record_take(&cursor));) {
            if (!record->may_be_on_device) continue;
            const rota_host_on_device *kind = (const rota_host_on_device *)(const void *)record->u.host.later;
            if (!kind->submitted) continue;
            *out_kind = kind; /* there is one */
            if (out) out[count] = record->u.host.user;
            count++;
        }
    }
    return count;
}

rota_status rota_plan_tell_arranged(const rota_plan *plan, rota_told_nodes *out) {
    const rota_host_on_device *kind = NULL;
    out->count = walk(plan, &kind, NULL);
    if (out->count == 0) return ROTA_OK;
    out->users = malloc(sizeof *out->users * out->count);
    if (!out->users) return rota_fail(ROTA_OUT_OF_MEMORY, "plan '%s': no host memory", plan->name);
    (void)walk(plan, &kind, out->users);
    out->submitted = kind->submitted;
    out->failed = kind->failed;
    out->compared = kind->compared;
    kind->arranged(out->users, out->count);
    return ROTA_OK;
}
