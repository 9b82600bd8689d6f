/* What one thread gives another. All are lock-free, but for the last. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_MAILBOXES_H
#define ROTA_SCHED_RUNTIME_SHARED_MAILBOXES_H

#include "sched/runtime/shared/released.h"
#include "sched/runtime.h"

typedef struct rota_job rota_job;

/* Released: to the sequencer, which knows when its last use is over. */
void rota_reclaim_push(rota_runtime *runtime, rota_dead *dead);
/* What has no use left: to the reclaimer. */
void rota_reclaim_push_unused(rota_runtime *runtime, rota_dead *dead);
/* What the completer has to do. */
void rota_completer_push(rota_runtime *runtime, rota_job *job);
/* The completer's: the callback of a ticket that has ended. */
void rota_callbacks_push(rota_runtime *runtime, rota_job *job);
/* The sequencer gives back what has passed. */
void rota_sequencer_request_reap(rota_runtime *runtime);
/* Waits until the sequencer has recycled what is complete by now (diagnostics). */
void rota_sequencer_reap_now(rota_runtime *runtime);

#endif
