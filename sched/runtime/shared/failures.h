/* Which tickets failed. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_FAILURES_H
#define ROTA_SCHED_RUNTIME_SHARED_FAILURES_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/runtime.h"
#include "sched/runtime/shared/marks.h"

typedef struct rota_cell rota_cell;
typedef struct rota_submission rota_submission;

void rota_ticket_set_failed(rota_runtime *runtime, rota_cell *cell, uint64_t ticket_id, rota_status status,
                            rota_reason reason);
/* How a ticket ended whose cell has gone on to a later one: ROTA_OK, or as rota_fail. Wait-free. */
rota_status rota_failure_find(const rota_runtime *runtime, uint64_t ticket_id);
/* With what the ticket failed, as its cell says. False: the cell has gone on. Wait-free. */
bool rota_cell_failure(const rota_cell *cell, uint64_t ticket_id, rota_status *out_status,
                       rota_reason *out_reason);
/* With what it failed, or ROTA_OK: of one that has ended and has its cell. */
rota_status rota_submission_status(const rota_submission *submission);
/* Fails the submission's ticket unless it has a cause already: it is marked when this returns, by whoever it is. */
void rota_submission_fail(rota_runtime *runtime, rota_submission *submission, rota_reason reason, bool first);

#endif
