/* Bytes from the host into a buffer: as rota_kind and rota_work_row say (kinds.h). Internal; not installed.
 */
#ifndef ROTA_SCHED_RUNTIME_KINDS_WRITE_H
#define ROTA_SCHED_RUNTIME_KINDS_WRITE_H

#include "exec/exec.h"
#include "sched/runtime/kinds/sequencing.h"
#include "sched/runtime/kinds/touch.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/submission.h"
#include "sched/runtime/shared/work.h"

/* ---- What a write holds: its caller's, until it is published ---- */

/* Bytes that it counts for in the pool's `uploading`, and of the memory that waits are for. */
uint64_t rota_host_write_charge(const rota_host_write *write);
/* Gives its staging memory back, or its slot of the upload ring. */
void rota_host_write_unstage(const rota_host_write *write);

/* ---- The submission ---- */

void rota_kind_write_drop(void *object, const uint64_t *words);
bool rota_kind_write_sequence(rota_sequencing *sequencing);
void rota_kind_write_give_back(const rota_submission *submission);
void rota_kind_write_for_written(rota_runtime *runtime, const rota_submission *submission, rota_written_fn fn,
                                 void *user);

/* ---- Its work ---- */

rota_status rota_write_prepare(rota_work *work, rota_exec_work *out);
bool rota_write_touch(rota_runtime *runtime, const rota_work *work, rota_touch_fn before, rota_touch_fn after,
                      void *user);
bool rota_write_touch_node(rota_runtime *runtime, const rota_work *work, const void *owner, uint32_t node,
                           rota_touch_fn fn, void *user);

#endif
