/* Whether a work reads what failed, and what it leaves failed or good. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SUBMITTER_JUDGE_H
#define ROTA_SCHED_RUNTIME_SUBMITTER_JUDGE_H

#include <stdbool.h>
#include <stdint.h>
#include "exec/exec.h"
#include "sched/marks.h"

typedef struct rota_work rota_work;

/* Calls of executors; the cookie is a rota_work. */
void rota_poison_failed(void *user, void *cookie, const void *owner, uint32_t node, rota_status status,
                        const char *message);
bool rota_poison_must_skip(void *user, void *cookie, const void *owner, uint32_t node);
void rota_poison_succeeded(void *user, void *cookie, const void *owner, uint32_t node);
/* The work will not do, or has not done, what it should: fails its submission and marks what it writes. */
void rota_poison_work(rota_work *work, rota_reason reason, bool first);
/* Before the end of a work that a loss keeps from running: what it stands for, and a lost device will not
 * write any more, is marked. */
void rota_poison_undone(const rota_work *work);
/* Judges a work of which nobody asks node by node, when all that it comes after is decided. True: it cannot
 * run, or ran in vain, and why; false: it reads nothing that failed, and what it overwrites is healed. */
bool rota_poison_of_work(rota_work *work, rota_reason *out_reason);

#endif
