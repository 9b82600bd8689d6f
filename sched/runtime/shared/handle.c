/* What outlives a runtime: its struct, which a later one takes, and what a call checks first of it. */
#include "base/atomic.h"
#include "base/thread_time.h"
#include "sched/opened.h"
#include "sched/runtime/shared/handle.h"
#include "sched/runtime/shared/runtime.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"

static _Atomic uint32_t open_runtimes; /* and those that are closing */

/* ---- Forks ---- */

static _Atomic uint32_t forks; /* in a child: one more than in its parent */
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void forked(void) {
    (void)ra_fetch_add_relaxed(&forks, 1);
}

static void watch_forks(void) {
    (void)pthread_atfork(NULL, NULL, forked);
}

bool rota_runtime_is_forked(const rota_runtime *runtime) {
    return ra_load_relaxed(&runtime->handle.fork_generation) != ra_load_relaxed(&forks);
}

rota_status rota_runtime_check(const rota_runtime *runtime) {
    if (!runtime) return rota_fail(ROTA_INVALID_ARGUMENT, "the runtime is NULL");
    /* Acquire: with the release at the end of rota_runtime_open. */
    if (ra_load_acquire(&runtime->state) != ROTA_RUNTIME_OPEN)
        return rota_fail(ROTA_WRONG_STATE, "the runtime is closed");
    if (rota_runtime_is_forked(runtime))
        return rota_fail(ROTA_WRONG_STATE,
                         "the runtime was opened before a fork and does not work in the child");
    return ROTA_OK;
}

rota_opened rota_opened_now(rota_runtime *runtime) {
    return (rota_opened){runtime, ra_load_relaxed(&runtime->handle.generation)};
}

rota_status rota_opened_check(rota_opened opened) {
    ROTA_TRY(rota_runtime_check(opened.runtime));
    if (ra_load_relaxed(&opened.runtime->handle.generation) == opened.generation) return ROTA_OK;
    return rota_fail(ROTA_WRONG_STATE, "the runtime was closed");
}

rota_status rota_opened_check_lasts(rota_opened opened) {
    const rota_runtime *runtime = opened.runtime;
    /* Acquire: closed, and then opened again, is seen as either of the two; with rota_runtime_open. */
    if (ra_load_acquire(&runtime->state) != ROTA_RUNTIME_CLOSING) ROTA_TRY(rota_runtime_check(runtime));
    if (ra_load_relaxed(&runtime->handle.generation) == opened.generation) return ROTA_OK;
    return rota_fail(ROTA_WRONG_STATE, "the runtime was closed");
}

/* ---- Shells ---- */

static pthread_mutex_t handles_mutex = PTHREAD_MUTEX_INITIALIZER;
static rota_runtime *free_handles, *abandoned_handles;
static _Atomic(rota_runtime *) known_handles; /* all there are: none is ever freed */

static rota_runtime *find_handle(void) {
    (void)pthread_mutex_lock(&handles_mutex);
    rota_runtime *runtime = free_handles;
    if (runtime) free_handles = runtime->handle.next;
    (void)pthread_mutex_unlock(&handles_mutex);
    if (runtime) return runtime;
    size_t bytes = (sizeof *runtime + 63) / 64 * 64;
    runtime = aligned_alloc(64, bytes);
    if (!runtime) return NULL;
    memset(runtime, 0, bytes);
    runtime->handle.next_known = ra_load_relaxed(&known_handles);
    while (!ra_cas_acq_rel(&known_handles, &runtime->handle.next_known,
                           runtime)) { /* with rota_runtime_is_known */
    }
    return runtime;
}

bool rota_runtime_is_known(const rota_runtime *runtime) {
    static _Thread_local const rota_runtime *last;
    if (runtime == last) return true;
    const rota_runtime *known = ra_load_acquire(&known_handles);
    while (known && known != runtime) known = known->handle.next_known;
    if (!known) return false;
    last = known;
    return true;
}

void rota_runtime_note_closed(void) {
    /* With the last one the thread is gone that looks after the cache (rota_reclaimer_main). */
    if (ra_fetch_add_relaxed(&open_runtimes, UINT32_MAX) == 1) rota_chunk_cache_trim();
}

void rota_runtime_keep_handle(rota_runtime *runtime) {
    (void)pthread_mutex_lock(&handles_mutex);
    runtime->handle.next = free_handles;
    free_handles = runtime;
    (void)pthread_mutex_unlock(&handles_mutex);
}

void rota_runtime_abandon_handle(rota_runtime *runtime) {
    (void)pthread_mutex_lock(&handles_mutex);
    runtime->handle.next = abandoned_handles;
    abandoned_handles = runtime;
    (void)pthread_mutex_unlock(&handles_mutex);
}

/* Everything from `options` to the end starts from zero; what lies before outlives a close. */
static void clear_handle(rota_runtime *runtime) {
    size_t from = offsetof(rota_runtime, options);
    memset((char *)runtime + from, 0, sizeof *runtime - from);
}

rota_runtime *rota_runtime_take_handle(void) {
    (void)pthread_once(&fork_once, watch_forks);
    rota_runtime *runtime = find_handle();
    if (!runtime) return NULL;
    clear_handle(runtime);
    ra_store_relaxed(&runtime->handle.fork_generation, ra_load_relaxed(&forks));
    return runtime;
}

void rota_runtime_note_opened(void) {
    (void)ra_fetch_add_relaxed(&open_runtimes, 1);
}

/* ---- What all threads ask ---- */

uint32_t rota_runtime_queue_count(const rota_runtime *runtime) {
    return runtime->plan_queue_count;
}

void rota_runtime_thread_ends(rota_runtime *runtime) {
    (void)ra_fetch_add_relaxed(&runtime->stats.ended_cpu_ns, rota_thread_cpu_ns(CLOCK_THREAD_CPUTIME_ID));
}
