/* Works that wait for what their device cannot wait for: the submit thread's. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SUBMITTER_BLOCKED_H
#define ROTA_SCHED_RUNTIME_SUBMITTER_BLOCKED_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/runtime.h"

typedef struct rota_work rota_work;
typedef struct rota_submitter rota_submitter; /* submitter.h */

/* Takes what is to go over next out of the ring and from what is blocked, at most ROTA_HANDOVER_BATCH works;
 * what must wait is blocked. Returns how many. O(works taken + queues), and once after a loss O(blocked). */
uint32_t rota_blocked_take(rota_submitter *submitter, rota_work **works);
/* What was taken last, the batch, is blocked again from the work of this index on, before what is blocked of the same
 * queues.
 */
void rota_blocked_put_back(rota_submitter *submitter, uint32_t first);
/* Whether the first of some queue may go. */
bool rota_blocked_any_ready(rota_submitter *submitter);
/* Where a work is only to be handed over on the other side, that takes a driver's call, less than going to
 * sleep: waits so long. True: there is something to do. */
bool rota_blocked_look_for_signal(rota_submitter *submitter);
/* Has the submit thread woken when something comes about that the first of a queue may be waiting for; and
 * not any more. */
void rota_blocked_watch(rota_submitter *submitter, const rota_work *work);
void rota_blocked_watch_nothing(rota_submitter *submitter);
/* Looks whether who keeps the first of some queue is to be taken for lost. */
void rota_blocked_give_up(rota_submitter *submitter);

#endif
