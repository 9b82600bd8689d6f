/* Submissions that are cancelled, and deadlines. The sequencer's. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SEQUENCER_CANCELS_H
#define ROTA_SCHED_RUNTIME_SEQUENCER_CANCELS_H

#include "sched/runtime/order/order.h"
#include "sched/runtime/shared/submission.h"

/* The submission, of which the works may be with devices, is cancelled. */
void rota_sequencer_cancel(rota_sequencer *sequencer, rota_submission *submission, rota_cancelled_by by);
/* What was asked of tickets of the lane, the records of which were taken from `first` on: the sequencer's head for the
 * lane is stored, seq_cst, and then this is asked. `seen`: lanes.cancels_asked before the first of them was taken. */
void rota_cancels_find(rota_sequencer *sequencer, const rota_lane *lane, uint64_t first, uint64_t seen);
/* Each round: what has passed its deadline is cancelled; and nobody is asked any more once what was cancelled has
 * ended. */
void rota_cancels_look(rota_sequencer *sequencer);
/* When the first deadline passes, of base's clock; UINT64_MAX: there is none. */
uint64_t rota_deadlines_first_ns(const rota_sequencer *sequencer);
/* The submission, with has_deadline, has its works and is to have ended by seldom.deadline.at_ns: where that is over
 * nothing of it begins. And it ends now, or is late. */
void rota_deadline_begin(rota_sequencer *sequencer, rota_submission *submission);
void rota_deadline_end(rota_sequencer *sequencer, rota_submission *submission);

#endif
