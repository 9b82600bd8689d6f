/* A submission that a thread reads, while the sequencer goes on. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_PINS_H
#define ROTA_SCHED_RUNTIME_SHARED_PINS_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/runtime.h"

typedef struct rota_submission rota_submission;

/* The sequencer's: from now on the submission may be pinned. */
void rota_submission_publish(rota_submission *submission);
/* Keeps what `submission` points to, and the plan, as they are for the submission of that number, though it
 * ends; NULL: the struct is not that one's any more. `submission` may be of any earlier submission, or NULL.
 * Lock-free. */
rota_submission *rota_submission_pin(rota_submission *submission, uint64_t number);
void rota_submission_unpin(rota_runtime *runtime, rota_submission *submission);
/* The sequencer's: ends that, unless a thread has it pinned. */
bool rota_submission_unpublish(rota_submission *submission);

#endif
