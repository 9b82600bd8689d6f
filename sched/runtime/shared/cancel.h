/* A submission is cancelled. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_CANCEL_H
#define ROTA_SCHED_RUNTIME_SHARED_CANCEL_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/runtime.h"
#include "sched/runtime/shared/submission.h"

/* Of failed.active, beside the number of marks: nodes are asked for, since one may be of a cancelled submission; and
 * the sequencer has not seen that since somebody cancelled one. */
#define ROTA_FAILED_CANCELS (1u << 31)
#define ROTA_FAILED_CANCELS_NEW (1u << 30)
/* Whether anything counts as failed, by a word of failed.active. A submission that is cancelled has marks as well where
 * something of it is left out, and before that it is nobody's failure. */
static inline bool rota_failed_is_any(uint32_t active) {
    return (active & ~(ROTA_FAILED_CANCELS | ROTA_FAILED_CANCELS_NEW)) != 0;
}

/* What of the submission has not begun does not begin. Of one that the caller has pinned, or the sequencer's. The
 * first who says so is named by its cause. Lock-free. */
void rota_submission_cancel(rota_runtime *runtime, rota_submission *submission, rota_cancelled_by by);
/* By whom it was. Wait-free. */
rota_cancelled_by rota_submission_cancelled_by(const rota_submission *submission);

#endif
