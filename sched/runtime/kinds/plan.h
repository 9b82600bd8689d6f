/* A replay of a plan. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_KINDS_PLAN_H
#define ROTA_SCHED_RUNTIME_KINDS_PLAN_H

#include "sched/runtime_internal.h"

/* ---- The sequencer's ---- */

/* Whether it can run: its devices are there, and what it reads; counts the moves that takes. On failure the
 * cause and status of the ticket. */
bool rota_kind_plan_check(rota_runtime *runtime, rota_submission *submission, uint32_t *moves,
                          rota_reason *out_reason, rota_status *out_status);
/* Makes its works; *out_final is the point of its end. */
void rota_kind_plan_sequence(rota_runtime *runtime, rota_wanted *wanted, rota_submission *submission,
                             uint64_t *out_final);
/* A replay that was to wait has ended. */
void rota_kind_plan_end_parking(rota_runtime *runtime, rota_submission *submission);

/* ---- The submit thread's ---- */

rota_status rota_kind_plan_prepare(rota_work *work, rota_exec_work *out);

#endif
