/* Bytes between devices, inside another submission: the submit threads'. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_KINDS_MOVE_H
#define ROTA_SCHED_RUNTIME_KINDS_MOVE_H

#include "sched/runtime_internal.h"

/* What a work needs of its device's staging memory: where it is noted, NULL: nothing. */
typedef struct rota_need {
    rota_staging **span;
    uint64_t size;
    uint32_t flags;
} rota_need;
rota_need rota_need_of(const rota_work *work);
/* It may have it from when it was sequenced, or held. */
rota_status rota_need_take(const rota_work *work);

/* The work is this one copy. */
rota_status rota_work_one_copy(rota_work *work, rota_exec_copy copy, rota_exec_work *out);
rota_status rota_kind_move_out_prepare(rota_work *work, rota_exec_work *out);
rota_status rota_kind_move_in_prepare(rota_work *work, rota_exec_work *out);

/* Whether what a move brings has left the device that had it: its first half, which is the work before it and
 * has ended, did not fail; or the host sees it where it is. That there is memory for it says nothing. */
bool rota_move_has_left(const rota_work *move_in);
/* A lost device is not given the works: what moves have of staging memory is not kept with their submissions.
 */
void rota_moves_give_back(rota_work *const *works, uint32_t count);

#endif
