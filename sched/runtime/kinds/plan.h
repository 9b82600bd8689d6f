/* A replay of a plan: as rota_kind and rota_work_row say (kinds.h). Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_KINDS_PLAN_H
#define ROTA_SCHED_RUNTIME_KINDS_PLAN_H

#include "exec/exec.h"
#include "sched/runtime/kinds/sequencing.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/submission.h"
#include "sched/runtime/shared/work.h"

/* ---- The submission; described: plan_describe.h ---- */

bool rota_kind_plan_sequence(rota_sequencing *sequencing);
void rota_kind_plan_for_written(rota_runtime *runtime, const rota_submission *submission, rota_written_fn fn,
                                void *user);
void rota_kind_plan_note_end(rota_sequencer *sequencer, const rota_submission *submission);
void rota_kind_plan_uncount(rota_sequencer *sequencer, rota_submission *submission);
void rota_kind_plan_end(rota_sequencer *sequencer, rota_submission *submission);
void rota_kind_plan_forget(const rota_submission *submission);

/* ---- Its segments; what they touch: plan_touch.h ---- */

rota_status rota_segment_prepare(rota_work *work, rota_exec_work *out);
void rota_segment_leave_out(const rota_work *work, rota_exec_work *out);
bool rota_segment_is_decided(const rota_work *work);

#endif
