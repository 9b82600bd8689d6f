/* Timelines that are semaphores: how one is signalled, and by whom.
 *
 * A driver may keep who signals. So whoever reaches a point, the completer and a driver's callback among them, notes it
 * and goes on; the executor's thread, which is in that driver anyway, finds what is noted when it looks. Noting stores
 * `to_signal` and then the executor's word; that thread takes the word and then reads `to_signal`, as is argued in
 * exec/vk/vk_semaphore.c for what is wanted.
 *
 * Who releases the timeline waits until that thread has done what is left, since nobody would afterwards; that thread
 * does, last, when it forgets the semaphore.
 *
 * The executor's word is the device's, which a close frees, while somebody who saw the runtime open may be on the way
 * to it. They count themselves in `users`; that thread sets the bit above them, and has forgotten the semaphore when
 * they are gone, for which close waits to its deadline. Each is a read-modify-write of one word, so that either the
 * thread sees the user or the user sees the bit; and nobody is counted who has seen it, so that one who is stopped
 * later, on the way out, keeps no close. */
#include "sched/runtime/shared/external_semaphore.h"

#include <stdlib.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "base/log.h"
#include "sched/runtime/shared/devices.h" /* IWYU pragma: keep */
#include "sched/runtime/shared/external_timeline.h"
#include "sched/runtime/shared/runtime.h" /* IWYU pragma: keep */

#define SHUT 0x80000000u
#define LOCK_NAP_NS 50000u

bool rota_external_semaphore_enter(rota_external_semaphore *semaphore) {
    uint32_t users = ra_load_acquire(&semaphore->users); /* shut: the runtime is seen to close, too */
    while (!(users & SHUT))
        if (ra_cas_acq_rel(&semaphore->users, &users, users + 1)) return true;
    return false;
}

void rota_external_semaphore_leave(rota_external_semaphore *semaphore) {
    (void)ra_fetch_sub_release(&semaphore->users, 1); /* with shut: it has done with the device */
}

bool rota_external_semaphore_is_released(const rota_external_semaphore *semaphore) {
    /* Who forgot it because of that had seen it, and who found it shut sees that: by `users`. */
    return ra_load_relaxed(&semaphore->is_released);
}

bool rota_external_semaphore_shut(rota_external_semaphore *semaphore) {
    (void)ra_fetch_or_acq_rel(&semaphore->users, SHUT);
    /* With leave. Who found it shut may have the mutex, for a moment, or be stopped there. */
    return ra_load_acquire(&semaphore->users) == SHUT && pthread_mutex_trylock(&semaphore->mutex) == 0;
}

bool rota_external_semaphore_lock(rota_external_semaphore *semaphore, uint64_t until) {
    while (pthread_mutex_trylock(&semaphore->mutex) != 0) {
        if (rota_clock_ns() >= until) return false;
        rota_nap_until(rota_deadline_after(LOCK_NAP_NS));
    }
    return true;
}

void rota_external_semaphore_reach(rota_external_semaphore *semaphore, uint64_t value) {
    rota_exec_device *exec = semaphore->device->exec;
    uint64_t before = ra_load_relaxed(&semaphore->to_signal);
    while (before < value && !ra_cas_seq_cst(&semaphore->to_signal, &before, value)) {
    }
    /* Also who noted nothing, since another one had noted as much: that one may be stopped before it says so here. */
    exec->vtable->semaphore_look(exec);
}

uint64_t rota_external_semaphore_noted(const rota_external_semaphore *semaphore) {
    return ra_load_acquire(&semaphore->to_signal); /* with reach */
}

rota_status rota_external_semaphore_signal(rota_external_semaphore *semaphore) {
    const uint64_t value = ra_load_acquire(&semaphore->to_signal); /* with reach */
    if (!semaphore->timeline || value <= semaphore->signalled) return ROTA_OK;
    semaphore->signalled = value;
    rota_exec_device *exec = semaphore->device->exec;
    return exec->vtable->semaphore_signal(exec, semaphore->exec.handle, value);
}

void rota_external_semaphore_note(const rota_external_timeline *timeline, rota_status status) {
    if (status == ROTA_OK) return;
    rota_log_write(&timeline->opened.runtime->options.log, ROTA_LOG_WARNING,
                   "external timeline '%s': the driver does not take its signal: %s", timeline->name,
                   rota_last_error());
}

void rota_external_semaphore_note_kept(const rota_external_timeline *timeline) {
    rota_log_write(&timeline->opened.runtime->options.log, ROTA_LOG_WARNING,
                   "external timeline '%s': not released within %.3f s, for a driver keeps who asks for its "
                   "semaphore, which stays as it is",
                   timeline->name, (double)timeline->semaphore->timeout_ns * 1e-9);
}

void rota_external_semaphore_drop(rota_external_semaphore *semaphore) {
    /* acq_rel: publishes this side's use; the last one sees the other's. */
    if (!semaphore || ra_fetch_sub_acq_rel(&semaphore->references, 1) != 1) return;
    (void)pthread_mutex_destroy(&semaphore->mutex);
    free(semaphore);
}
