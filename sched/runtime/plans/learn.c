/* A plan's last replay teaches what its nodes cost. */
#include "sched/runtime/plans/learn.h"

#include <stdio.h>
#include <stdlib.h>
#include "base/file.h"
#include "base/given.h"
#include "sched/plan/operations.h"
#include "sched/plan/placing_learn.h"
#include "sched/plan/placing_settle.h"
#include "sched/runtime/plans/executable.h"
#include "sched/runtime/plans/handle.h"
#include "sched/runtime/plans/times.h"
#include "sched/runtime/shared/devices.h"
#include "sched/runtime/shared/runtime.h"

rota_history *rota_device_history(const rota_device *device) {
    const rota_device_info *info = &device->exec->info;
    char text[sizeof info->name + sizeof info->driver + 64];
    snprintf(text, sizeof text, "%s; %s; kind %d, %u units", info->name, info->driver, (int)info->kind,
             info->compute_units);
    char *folder = rota_cache_folder(rota_device_runtime(device)->options.cache_dir);
    rota_history *history = rota_history_open(folder, text);
    free(folder);
    return history;
}

/* What the replay took, which overrules the model: only of one that had the devices for itself and was not held, since
 * what it waited for would be no cost of its placement. */
static void teach_whole(rota_plan *plan, rota_history *first_part) {
    rota_plan_replay_times replay;
    if (rota_executable_replay_times(plan, &replay) != ROTA_OK || !replay.was_alone ||
        replay.status != ROTA_OK)
        return;
    const double ns = (double)(replay.completed_ns - replay.submitted_ns);
    const rota_settled *settled = &rota_plan_info(plan)->placing;
    if (settled->set) {
        rota_history *first = rota_device_history(plan->options.devices[0]);
        rota_history *own = settled->device == UINT32_MAX
                                ? NULL
                                : rota_device_history(plan->options.devices[settled->device]);
        rota_placing_taught(first, own, settled, ns);
        rota_history_save(own);
        rota_history_save(first);
    } else if (plan->partition_count == 1) {
        rota_history_note(first_part, rota_placing_graph_key(plan), ns, false);
    }
}

rota_status rota_plan_learn(rota_plan *plan) {
    ROTA_GIVEN(plan);
    ROTA_TRY(rota_plan_check(plan));
    const uint32_t count = rota_plan_info(plan)->operation_count;
    rota_plan_time *times = calloc(count + (size_t)1, sizeof *times);
    rota_history **by_part = calloc(plan->partition_count, sizeof *by_part);
    rota_status status = times && by_part ? rota_plan_command_times(plan, times, count, NULL)
                                          : rota_fail(ROTA_OUT_OF_MEMORY,
                                                      "what plan '%s' teaches: no host memory", plan->name);
    if (status == ROTA_OK) {
        for (uint32_t p = 0; p < plan->partition_count; p++)
            by_part[p] = rota_device_history(plan->partitions[p].device);
        status = rota_placing_learn(plan, times, by_part);
        teach_whole(plan, by_part[0]);
        for (uint32_t p = 0; p < plan->partition_count; p++) rota_history_save(by_part[p]);
    }
    free((void *)by_part);
    free(times);
    return status;
}
