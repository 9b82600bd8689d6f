/* Whether a work reads what failed, and what it leaves failed or good. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SUBMITTER_JUDGE_H
#define ROTA_SCHED_RUNTIME_SUBMITTER_JUDGE_H

#include <stdbool.h>
#include <stdint.h>
#include "exec/exec.h"
#include "sched/runtime/shared/marks.h"

typedef struct rota_work rota_work;

/* ---- Whole works ---- */

/* The work will not do, or has not done, what it should: fails its submission and marks what it writes. */
void rota_poison_work(rota_work *work, rota_reason reason, bool first);
/* Before the end of a work that a loss keeps from running: what it stands for, and a lost device will not
 * write any more, is marked. */
void rota_poison_undone(const rota_work *work);
/* Judges a work of which nobody asks node by node, when all that it comes after is decided. True: it cannot
 * run, or ran in vain, and why; false: it reads nothing that failed, and what it overwrites is healed. */
bool rota_poison_of_work(rota_work *work, rota_reason *out_reason);
/* The same of a work that is left out in any case, and does not move bytes: whether it reads something from before its
 * submission that failed. Nothing is healed. */
bool rota_judge_reads_failed(const rota_work *work, rota_reason *out_reason);

/* ---- Nodes of a work's part, `owner`; or the work that is a copy, NULL ---- */

/* It failed: what it was to write is marked. */
void rota_judge_failed(const rota_work *work, const void *owner, uint32_t node, rota_reason reason);
/* Its turn has come: whether it reads what failed, and why that did; what it was to write is marked then.
 * Marks of what is moved go along with it. */
bool rota_judge_must_skip(const rota_work *work, const void *owner, uint32_t node, rota_reason *out_reason);
/* It has written all that it says: that is healed. */
void rota_judge_succeeded(const rota_work *work, const void *owner, uint32_t node);

#endif
