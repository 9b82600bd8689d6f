/* What of a cancelled submission has not begun is left out. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SUBMITTER_CANCELLED_H
#define ROTA_SCHED_RUNTIME_SUBMITTER_CANCELLED_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/runtime.h"
#include "sched/runtime/shared/marks.h"

typedef struct rota_work rota_work;

/* Whether the work is to be left out when it is handed over, which it needs nothing for: its submission was cancelled,
 * and it does not move bytes. Once so, for good. */
bool rota_cancelled_leaves_out(const rota_work *work);
/* The same of the work that is handed over now, and why: for a failure of what it reads, which it finds, or, `first`,
 * since it was cancelled. */
bool rota_cancelled_work(const rota_work *work, rota_reason *out_reason, bool *out_first);
/* Whether the work waits for points of the application's no more: it is left out, or it moves bytes of memory that the
 * application does not touch. Once so, for good. */
bool rota_cancelled_lets_go(const rota_work *work);
/* The latter of the two. */
bool rota_cancelled_goes_on(const rota_work *work);
/* Of a work that moves bytes that the application may touch, which those points do not allow yet: whether it is to be
 * left out, too, and why. */
bool rota_cancelled_move(const rota_work *work, rota_reason *out_reason);
/* Whether a node of the work, or the copy that it is (judge.h), is left out since it was cancelled: then its submission
 * has failed, and what the node was to write is marked. Of who executes it, whose turn it is, and what it reads was
 * found good. */
bool rota_cancelled_node(rota_work *work, const void *owner, uint32_t node);
/* Something of the work reads what failed, for that reason. True: that is but another one's being cancelled, as the
 * work's submission is itself, which is what its ticket says first; that is the reason then. */
bool rota_cancelled_after(const rota_work *work, rota_reason *reason);

#endif
