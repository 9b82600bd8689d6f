/* Bytes between devices, inside another submission: as rota_work_row says (kinds.h). Internal; not installed.
 */
#ifndef ROTA_SCHED_RUNTIME_KINDS_MIGRATION_H
#define ROTA_SCHED_RUNTIME_KINDS_MIGRATION_H

#include "exec/exec.h"
#include "sched/runtime/kinds/sequencing.h"
#include "sched/runtime/kinds/touch.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/work.h"

/* ---- What copies share ---- */

/* The work is this one copy. */
rota_status rota_work_one_copy(rota_work *work, rota_exec_copy copy, rota_exec_work *out);

/* ---- Out of a device ---- */

rota_status rota_migration_out_prepare(rota_work *work, rota_exec_work *out);
rota_need rota_migration_out_need(const rota_work *work);
void rota_migration_out_give_back(const rota_work *work);

/* ---- Into another one ---- */

/* Whether what a move brings has left the device that had it: its first half, which is the work before it and
 * has ended, did not fail; or the host sees it where it is. That there is memory for it says nothing. */
bool rota_migration_in_has_source(const rota_work *migration_in);
rota_status rota_migration_in_prepare(rota_work *work, rota_exec_work *out);
rota_need rota_migration_in_need(const rota_work *work);
void rota_migration_in_give_back(const rota_work *work);
void rota_migration_in_release(rota_sequencer *sequencer, const rota_work *work);
/* ---- Into another one, out of the memory of a peer of its ---- */

rota_status rota_migration_over_prepare(rota_work *work, rota_exec_work *out);

/* ---- Into another one, in whichever way ---- */

bool rota_migration_in_touch(rota_runtime *runtime, const rota_work *work, rota_touch_fn before,
                             rota_touch_fn after, void *user);
bool rota_migration_in_carry(rota_runtime *runtime, const rota_work *work, const void *owner, uint32_t node);
/* A move stands for the writer of what it brings. */
void rota_migration_in_undone(rota_runtime *runtime, const rota_work *migration_in);

#endif
