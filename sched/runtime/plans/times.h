/* When a plan's commands ran in its last completed replay. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_PLANS_TIMES_H
#define ROTA_SCHED_RUNTIME_PLANS_TIMES_H

#include <stdint.h>
#include "exec/exec.h"
#include "sched/plan.h"

typedef struct rota_plan_replay_times rota_plan_replay_times;

/* The sequencer's: a replay has ended, which is the last completed one from now on. `was_held`: it came after points of
 * the application's. */
void rota_executable_note_replay(const rota_plan *plan, uint32_t instance,
                                 const rota_plan_replay_times *times, bool was_held);

/* Times of every command of a part's last completed replay: fills command_count entries (diagnostics). */
rota_status rota_executable_times(rota_plan *plan, uint32_t part, rota_exec_time *out);
rota_status rota_executable_replay_times(rota_plan *plan, rota_plan_replay_times *out);

#endif
