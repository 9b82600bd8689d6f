/* Bytes of a buffer to the host: as rota_kind and rota_work_row say (kinds.h). Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_KINDS_READ_H
#define ROTA_SCHED_RUNTIME_KINDS_READ_H

#include "exec/exec.h"
#include "sched/runtime/kinds/sequencing.h"
#include "sched/runtime/kinds/touch.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/submission.h"
#include "sched/runtime/shared/work.h"

/* ---- What a read holds ---- */

/* One of those who hold it lets go. */
void rota_host_read_release(rota_host_read *read);
/* Gives back its staging memory, and what was promised of it. */
void rota_host_read_return_staging(rota_host_read *read);
/* Brings what was read to the caller's memory, and gives the staging memory back. */
void rota_host_read_deliver(rota_host_read *read, uint8_t *out);

/* ---- The submission ---- */

void rota_kind_read_drop(void *object, const uint64_t *words);
bool rota_kind_read_sequence(rota_sequencing *sequencing);
void rota_kind_read_end(rota_sequencer *sequencer, rota_submission *submission);

/* ---- Its works ---- */

rota_status rota_read_prepare(rota_work *work, rota_exec_work *out);
rota_need rota_read_need(const rota_work *work);
bool rota_read_touch(rota_runtime *runtime, const rota_work *work, rota_touch_fn before, rota_touch_fn after,
                     void *user);
bool rota_read_touch_node(rota_runtime *runtime, const rota_work *work, const void *owner, uint32_t node,
                          rota_touch_fn fn, void *user);

#endif
