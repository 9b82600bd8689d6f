/* Errors that travel (P9): works are judged by which ranges failed (failed_ranges.c).
 *
 * One rule: a work is judged when all that it comes after is decided, and before anybody can take it for
 * done. Marks of failed writers are in place by then. Who judges:
 *
 * - executors that can leave out single nodes ask before each one, when its turn has come;
 * - for the others the hand-over does, of whole segments, as nothing undecided is before them;
 * - of works behind a gate (their device waits on the GPU for another one, or nodes of theirs may fail by
 *   themselves and are told of when they are done, or works before them do) the gate
 *   does when it lets them out: by then they have run, in vain where what they read had failed. */
#include "base/atomic.h"
#include "sched/runtime/kinds/kinds.h"
#include "sched/runtime/kinds/touch.h"
#include "sched/runtime/shared/cancel.h"
#include "sched/runtime/shared/failed_ranges.h"
#include "sched/runtime/shared/failures.h"
#include "sched/runtime/shared/marks.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/submitter/judge.h"

/* ---- Places ---- */

static bool mark_written(rota_runtime *runtime, const rota_work *work, const rota_memory_range *where,
                         uint8_t mode, void *reason) {
    if (mode != ROTA_READ)
        rota_failed_ranges_mark(runtime, where, rota_turn_of(work), *(const rota_reason *)reason, false);
    return false;
}

static bool find_read(rota_runtime *runtime, const rota_work *work, const rota_memory_range *where,
                      uint8_t mode, void *out_reason) {
    return mode != ROTA_WRITE && rota_failed_ranges_find(runtime, where, rota_turn_of(work), out_reason);
}

static bool heal_written(rota_runtime *runtime, const rota_work *work, const rota_memory_range *where,
                         uint8_t mode, void *user) {
    (void)user;
    if (mode == ROTA_WRITE) rota_failed_ranges_heal(runtime, where, rota_turn_of(work));
    return false;
}

/* ---- Works ---- */

void rota_poison_work(rota_work *work, rota_reason reason, bool first) {
    rota_runtime *runtime = work->device->runtime;
    const rota_work_row *row = rota_work_row_of(work);
    rota_submission_fail(runtime, work->submission, reason, first);
    (void)pthread_mutex_lock(&runtime->failed.mutex);
    if (row->touch) (void)row->touch(runtime, work, NULL, rota_touch_mark_early, &reason);
    /* Under the lock: not between a judgement and what it heals. Release: with must_skip. */
    ra_store_release(&work->failed, 1);
    (void)pthread_mutex_unlock(&runtime->failed.mutex);
}

void rota_poison_undone(const rota_work *work) {
    rota_runtime *runtime = work->device->runtime;
    const rota_work_row *row = rota_work_row_of(work);
    if (!row->undone) return;
    (void)pthread_mutex_lock(&runtime->failed.mutex);
    row->undone(runtime, work);
    (void)pthread_mutex_unlock(&runtime->failed.mutex);
}

bool rota_poison_of_work(rota_work *work, rota_reason *out_reason) {
    rota_runtime *runtime = work->device->runtime;
    const rota_work_row *row = rota_work_row_of(work);
    if (!rota_failed_is_any(ra_load_acquire(&runtime->failed.active)) || !row->touch) return false;
    bool failed = false;
    (void)pthread_mutex_lock(&runtime->failed.mutex);
    if (!ra_load_relaxed(&work->failed)) /* else it has marked what it was to write */
        failed = row->touch(runtime, work, find_read, heal_written, out_reason);
    (void)pthread_mutex_unlock(&runtime->failed.mutex);
    return failed;
}

bool rota_judge_reads_failed(const rota_work *work, rota_reason *out_reason) {
    rota_runtime *runtime = work->device->runtime;
    const rota_work_row *row = rota_work_row_of(work);
    if (!rota_failed_is_any(ra_load_acquire(&runtime->failed.active)) || !row->touch) return false;
    (void)pthread_mutex_lock(&runtime->failed.mutex);
    const bool found = row->touch(runtime, work, find_read, NULL, out_reason);
    (void)pthread_mutex_unlock(&runtime->failed.mutex);
    return found;
}

/* ---- Nodes ---- */

void rota_judge_failed(const rota_work *work, const void *owner, uint32_t node, rota_reason reason) {
    rota_runtime *runtime = work->device->runtime;
    const rota_work_row *row = rota_work_row_of(work);
    if (!row->touch_node) return;
    (void)pthread_mutex_lock(&runtime->failed.mutex);
    (void)row->touch_node(runtime, work, owner, node, mark_written, &reason);
    (void)pthread_mutex_unlock(&runtime->failed.mutex);
}

bool rota_judge_must_skip(const rota_work *work, const void *owner, uint32_t node, rota_reason *out_reason) {
    rota_runtime *runtime = work->device->runtime;
    const rota_work_row *row = rota_work_row_of(work);
    (void)pthread_mutex_lock(&runtime->failed.mutex);
    const bool moves = row->carry && row->carry(runtime, work, owner, node);
    const bool found =
        !moves && row->touch_node && row->touch_node(runtime, work, owner, node, find_read, out_reason);
    if (found) (void)row->touch_node(runtime, work, owner, node, mark_written, out_reason);
    (void)pthread_mutex_unlock(&runtime->failed.mutex);
    return found;
}

void rota_judge_succeeded(const rota_work *work, const void *owner, uint32_t node) {
    rota_runtime *runtime = work->device->runtime;
    const rota_work_row *row = rota_work_row_of(work);
    if (!row->touch_node) return;
    (void)pthread_mutex_lock(&runtime->failed.mutex);
    (void)row->touch_node(runtime, work, owner, node, heal_written, NULL);
    (void)pthread_mutex_unlock(&runtime->failed.mutex);
}
