/* What of a cancelled submission has not begun is left out. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SUBMITTER_CANCELLED_H
#define ROTA_SCHED_RUNTIME_SUBMITTER_CANCELLED_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/runtime.h"
#include "sched/runtime/shared/marks.h"

typedef struct rota_work rota_work;

/* Whether the work, which is about to begin, is to be left out since its submission was cancelled, and why. */
bool rota_cancelled_work(const rota_work *work, rota_reason *out_reason);
/* The same for a node of it, or the copy that it is (judge.h): then its submission has failed, and what the node was
 * to write is marked. Of who executes it, whose turn it is. */
bool rota_cancelled_node(rota_work *work, const void *owner, uint32_t node);

#endif
