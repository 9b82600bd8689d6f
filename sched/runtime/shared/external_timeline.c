/* Timelines that the application moves: its streams' and semaphores' points, and its own, as rota sees them.
 *
 * A timeline belongs to nobody's device. Who moves it stores the value and looks who may be asleep for it; a submit
 * thread that is about to sleep notes itself and looks at the value: each a seq_cst store and then a seq_cst load, as
 * argued in base/sleep.h, so that one of the two sees the other. */
#include "sched/runtime/shared/external_timeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "base/given.h"
#include "sched/runtime/shared/external_semaphore.h"
#include "sched/runtime/shared/handle.h"
#include "sched/runtime/shared/runtime.h"

#define SIGNAL_NAP_NS 50000u /* from one look whether a semaphore was signalled to the next */

rota_status rota_external_timeline_create(rota_runtime *runtime, const char *name,
                                          rota_external_timeline **out_timeline) {
    ROTA_GIVEN(out_timeline);
    *out_timeline = NULL;
    ROTA_TRY(rota_runtime_check(runtime));
    rota_external_timeline *timeline = aligned_alloc(_Alignof(rota_external_timeline), sizeof *timeline);
    char *copy = strdup(name ? name : "");
    if (!timeline || !copy) {
        free(timeline);
        free(copy);
        return rota_fail(ROTA_OUT_OF_MEMORY, "external timeline '%s': no host memory", name ? name : "");
    }
    memset(timeline, 0, sizeof *timeline);
    atomic_init(&timeline->references, 1);
    timeline->opened = rota_opened_now(runtime);
    timeline->name = copy;
    ra_store_relaxed(&runtime->external.is_used, 1);
    *out_timeline = timeline;
    return ROTA_OK;
}

void rota_external_timeline_retain(rota_external_timeline *timeline) {
    (void)ra_fetch_add_relaxed(&timeline->references, 1);
}

void rota_external_timeline_drop(rota_external_timeline *timeline) {
    /* acq_rel: publishes this thread's use; the last one sees all others'. */
    if (ra_fetch_sub_acq_rel(&timeline->references, 1) != 1) return;
    rota_external_semaphore_drop(timeline->semaphore);
    free(timeline->name);
    free(timeline);
}

/* With the mutex, until the executor's thread has signalled up to there. False: that takes longer, and the mutex is
 * given back. */
static bool wait_signalled(rota_external_semaphore *semaphore, uint64_t value, bool is_there, uint64_t until) {
    bool has_looked = !is_there;
    while (semaphore->signalled < value) {
        const bool is_late = rota_clock_ns() >= until; /* only after a look: this thread may have been stopped, too */
        (void)pthread_mutex_unlock(&semaphore->mutex);
        if (is_late) return false;
        if (!has_looked) { /* who noted it may be stopped before it says so */
            rota_exec_device *exec = semaphore->device->exec;
            exec->vtable->semaphore_look(exec);
            has_looked = true;
        }
        rota_nap_until(rota_deadline_after(SIGNAL_NAP_NS));
        if (!rota_external_semaphore_lock(semaphore, until)) return false;
    }
    return true;
}

/* From now on rota does not ask for the semaphore, nor signals it; what was reached by now is signalled. False: a
 * driver keeps who asks, and the semaphore is rota's as before.
 *
 * That is the executor's thread, here too: a driver that keeps it, be it for another semaphore, would keep this one in
 * its turn, without end. It signals what is noted also while the device closes, as the last it does of a semaphore that
 * is shut: then it is waited for like before, but the device is not there to be told to look. */
static bool part(rota_external_timeline *timeline) {
    rota_external_semaphore *semaphore = timeline->semaphore;
    const uint64_t until = rota_deadline_after(semaphore->timeout_ns);
    const bool is_there = rota_external_semaphore_enter(semaphore);
    const uint64_t noted = rota_external_semaphore_noted(semaphore); /* what comes later is not waited for */
    const bool is_mine = rota_external_semaphore_lock(semaphore, until) &&
                         wait_signalled(semaphore, noted, is_there, until);
    if (is_mine) {
        ra_store_relaxed(&semaphore->is_released, 1); /* with rota_external_semaphore_is_released */
        semaphore->timeline = NULL;
        (void)pthread_mutex_unlock(&semaphore->mutex);
    }
    if (is_there) {
        rota_exec_device *exec = semaphore->device->exec;
        if (is_mine)
            exec->vtable->semaphore_look(exec); /* its thread forgets it, and is busy with it no longer */
        else
            rota_external_semaphore_note_kept(timeline);
        rota_external_semaphore_leave(semaphore);
    }
    return is_mine;
}

void rota_external_timeline_release(rota_external_timeline *timeline) {
    if (!timeline) return;
    /* In a child after a fork nobody asks for it or signals it, and a thread that the child has not may have had the
     * mutex. */
    if (timeline->semaphore && !rota_runtime_is_forked(timeline->opened.runtime) && !part(timeline))
        return; /* the reference is that thread's now, for good */
    rota_external_timeline_drop(timeline);
}

bool rota_external_timeline_has(rota_external_timeline *timeline, uint64_t value) {
    return ra_load_seq_cst(&timeline->reached) >= value;
}

rota_status rota_external_timeline_value(const rota_external_timeline *timeline, uint64_t *out_value) {
    ROTA_GIVEN(out_value);
    *out_value = 0;
    ROTA_GIVEN(timeline);
    *out_value = ra_load_acquire(&timeline->reached); /* with signal */
    return ROTA_OK;
}

/* That it moves now: a thread that read the clock, and was then kept for long, takes back nothing of another one's. */
static void note_move(rota_external_timeline *timeline) {
    const uint64_t now = rota_clock_ns();
    uint64_t before = ra_load_relaxed(&timeline->moved_ns);
    while (before < now && !ra_cas_acq_rel(&timeline->moved_ns, &before, now)) {
    }
}

/* The submit threads that may be asleep until it moves. Also while the runtime closes, which waits for what is held;
 * and later: handles are never freed, and a thread of a later runtime that has this one's is woken for nothing. */
static void wake_holders(rota_external_timeline *timeline) {
    rota_runtime *runtime = timeline->opened.runtime;
    for (uint64_t left = ra_load_seq_cst(&timeline->holders); left; left &= left - 1)
        rota_sleeper_wake(&runtime->handle.submitters[__builtin_ctzll(left)]);
}

void rota_external_timeline_raise(rota_external_timeline *timeline, uint64_t value) {
    /* Who comes after the point may give back all other references before this call is over. Relaxed: the exchange
     * below releases it to whoever saw the value. */
    rota_external_timeline_retain(timeline);
    uint64_t before = ra_load_relaxed(&timeline->reached);
    if (before < value) note_move(timeline); /* first: with rota_external_wait_look */
    /* Releases what the application wrote; each signal that fails here found a later value. */
    while (before < value && !ra_cas_seq_cst(&timeline->reached, &before, value)) {
    }
    if (before < value) note_move(timeline); /* again: it may have been kept in between */
    wake_holders(timeline);
    rota_external_timeline_drop(timeline);
}

rota_status rota_external_timeline_reach(rota_external_timeline *timeline, uint64_t value) {
    rota_external_semaphore *semaphore = timeline->semaphore;
    rota_status status = ROTA_OK;
    rota_external_timeline_retain(
        timeline); /* as in raise: also who waits for the semaphore may release it */
    if (semaphore && rota_external_semaphore_enter(semaphore)) {
        rota_external_semaphore_reach(semaphore, value); /* first: who sees the point may release it */
        rota_external_semaphore_leave(semaphore);
    } else if (semaphore) {
        /* Released, there is nothing left to signal, and what is held for it goes on, as for any timeline. Else its
         * device is closed: the runtime is CLOSING, or was, and nobody would signal it any more. */
        status = rota_external_semaphore_is_released(semaphore) ? rota_opened_check_lasts(timeline->opened)
                                                                : rota_opened_check(timeline->opened);
    }
    if (status == ROTA_OK) rota_external_timeline_raise(timeline, value);
    rota_external_timeline_drop(timeline);
    return status;
}

rota_status rota_external_timeline_signal(rota_external_timeline *timeline, uint64_t value) {
    ROTA_GIVEN(timeline);
    const rota_opened opened = timeline->opened; /* it may be gone afterwards */
    if (timeline->semaphore) {
        ROTA_TRY(rota_opened_check(opened));
        return rota_external_timeline_reach(timeline, value);
    }
    rota_external_timeline_raise(timeline, value);
    return rota_opened_check_lasts(opened);
}

/* To the highest that anybody said; whether it is this one. */
static bool rise(_Atomic uint64_t *to, uint64_t value) {
    uint64_t before = ra_load_relaxed(to);
    while (before < value && !ra_cas_seq_cst(to, &before, value)) {
    }
    return before < value;
}

rota_status rota_external_timeline_promise(rota_external_timeline *timeline, uint64_t value) {
    ROTA_GIVEN(timeline);
    ROTA_TRY(rota_opened_check(timeline->opened));
    if (!timeline->semaphore)
        return rota_fail(ROTA_UNSUPPORTED,
                         "external timeline '%s' is no semaphore: only its own signal moves it",
                         timeline->name);
    /* Released to who hands over a work that waits for it; seq_cst: with rota_external_wait_watch, as `reached`. */
    rota_external_timeline_retain(timeline); /* as in raise */
    (void)rise(&timeline->semaphore->promised, value);
    wake_holders(timeline); /* in any case: who promised as much before may be stopped before it wakes them */
    rota_external_timeline_drop(timeline);
    return ROTA_OK;
}

/* ---- What submissions come after ---- */

void rota_external_wait_retain(const uint64_t *words) {
    for (uint32_t i = 0; i < words[0]; i++)
        rota_external_timeline_retain(rota_external_wait_timeline(words, i));
}

void rota_external_wait_release(const uint64_t *words) {
    for (uint32_t i = 0; i < words[0]; i++)
        rota_external_timeline_drop(rota_external_wait_timeline(words, i));
}

/* Whether the device waits for the point itself, where nobody else has to: its signal is with the driver. */
static bool is_promised(const rota_external_timeline *timeline, uint64_t value, const rota_device *on) {
    const rota_external_semaphore *semaphore = timeline->semaphore;
    return on && semaphore && semaphore->device == on &&
           ra_load_seq_cst(&semaphore->promised) >= value; /* with rota_external_timeline_promise */
}

/* The first of the points that is neither reached nor promised to that device; how many they are where all are. */
static uint32_t first_missing(const uint64_t *words, const rota_device *on) {
    uint32_t i = 0;
    for (; i < words[0]; i++) {
        rota_external_timeline *timeline = rota_external_wait_timeline(words, i);
        const uint64_t value = rota_external_wait_value(words, i);
        if (!rota_external_timeline_has(timeline, value) && !is_promised(timeline, value, on)) break;
    }
    return i;
}

bool rota_external_wait_is_reached(const uint64_t *words) {
    return first_missing(words, NULL) == words[0];
}

void rota_external_wait_begin(rota_external_wait *after, const rota_device *device) {
    uint32_t on_device = 0;
    for (uint32_t i = 0; i < after->count; i++) {
        const rota_external_semaphore *semaphore = rota_external_wait_timeline(after->words, i)->semaphore;
        if (semaphore && semaphore->device == device) on_device++;
    }
    after->on = on_device && on_device <= ROTA_EXEC_SEMAPHORE_WAITS_MAX ? device : NULL;
    for (uint32_t i = 0; i < after->count; i++) {
        rota_external_timeline *timeline = rota_external_wait_timeline(after->words, i);
        rota_external_semaphore *semaphore = timeline->semaphore;
        const uint64_t value = rota_external_wait_value(after->words, i);
        if (!semaphore || is_promised(timeline, value, after->on) ||
            rota_external_timeline_has(timeline, value))
            continue;
        rota_exec_device *exec = semaphore->device->exec;
        if (rise(&semaphore->wanted, value)) exec->vtable->semaphore_look(exec);
    }
}

uint32_t rota_external_wait_semaphores(const rota_external_wait *after, rota_exec_timeline_wait *out_waits) {
    uint32_t count = 0;
    for (uint32_t i = 0; after->on && i < after->count; i++) {
        rota_external_timeline *timeline = rota_external_wait_timeline(after->words, i);
        const uint64_t value = rota_external_wait_value(after->words, i);
        if (!timeline->semaphore || timeline->semaphore->device != after->on ||
            rota_external_timeline_has(timeline, value))
            continue;
        out_waits[count++] =
            (rota_exec_timeline_wait){.value = value, .semaphore = timeline->semaphore->exec.handle};
    }
    return count;
}

bool rota_external_wait_covers(const rota_external_wait *later, const rota_external_wait *earlier) {
    bool covers = earlier->count != 0 && later->timeout_ns >= earlier->timeout_ns;
    for (uint32_t i = 0; covers && i < earlier->count; i++) {
        covers = false;
        for (uint32_t k = 0; !covers && k < later->count; k++)
            covers = rota_external_wait_timeline(later->words, k) ==
                         rota_external_wait_timeline(earlier->words, i) &&
                     rota_external_wait_value(later->words, k) >= rota_external_wait_value(earlier->words, i);
    }
    return covers;
}

void rota_external_wait_watch(const rota_external_wait *after, uint32_t device) {
    for (uint32_t i = 0; i < after->count; i++)
        (void)ra_fetch_or_seq_cst(&rota_external_wait_timeline(after->words, i)->holders,
                                  (uint64_t)1 << device);
}

void rota_external_wait_watch_nothing(const rota_external_wait *after, uint32_t device) {
    for (uint32_t i = 0; i < after->count; i++)
        (void)ra_fetch_and_seq_cst(&rota_external_wait_timeline(after->words, i)->holders,
                                   ~((uint64_t)1 << device));
}

/* When the last of what is waited for got on: each of its timelines has its own time. */
static uint64_t last_move(const rota_external_wait *after) {
    uint64_t last = after->since_ns;
    for (uint32_t i = 0; i < after->count; i++) {
        const uint64_t moved = ra_load_relaxed(&rota_external_wait_timeline(after->words, i)->moved_ns);
        if (moved > last) last = moved;
    }
    return last;
}

#define OUTCOME_BITS 4

static rota_external_outcome outcome_of(uint32_t word) {
    return (rota_external_outcome)(word & ((1u << OUTCOME_BITS) - 1));
}

rota_external_outcome rota_external_wait_look(rota_external_wait *after, bool closes) {
    uint32_t word = ra_load_acquire(&after->outcome); /* with the exchange, whose thread saw the values */
    if (word != ROTA_EXTERNAL_WAIT_PENDING) return outcome_of(word);
    uint32_t decided = ROTA_EXTERNAL_WAIT_PENDING;
    const uint64_t now = rota_clock_ns(); /* first: what moves by then is seen to have */
    const uint64_t from = last_move(after);
    const uint32_t missing = first_missing(after->words, after->on);
    if (missing == after->count)
        decided = ROTA_EXTERNAL_WAIT_REACHED;
    else if (now > from && now - from > after->timeout_ns)
        decided = ROTA_EXTERNAL_WAIT_EXPIRED | missing << OUTCOME_BITS;
    else if (closes)
        decided = ROTA_EXTERNAL_WAIT_CLOSED | missing << OUTCOME_BITS;
    if (decided != ROTA_EXTERNAL_WAIT_PENDING && !ra_cas_acq_rel(&after->outcome, &word, decided))
        decided = word;
    return outcome_of(decided);
}

void rota_external_wait_describe(const rota_external_wait *after, char *text, size_t capacity) {
    text[0] = 0;
    if (after->count == 0) return;
    const uint32_t word = ra_load_acquire(&after->outcome); /* as there */
    const bool is_late = outcome_of(word) > ROTA_EXTERNAL_WAIT_REACHED;
    const uint32_t i = is_late ? word >> OUTCOME_BITS : first_missing(after->words, NULL);
    if (i == after->count) return;
    rota_external_timeline *timeline = rota_external_wait_timeline(after->words, i);
    const unsigned long long value = rota_external_wait_value(after->words, i);
    const unsigned long long reached = ra_load_relaxed(&timeline->reached);
    if (!is_late && is_promised(timeline, value, after->on))
        (void)snprintf(text, capacity, "external timeline '%s', of which %llu was promised", timeline->name,
                       value);
    else if (reached < value)
        (void)snprintf(text, capacity, "external timeline '%s' at %llu, of which %llu is waited for",
                       timeline->name, reached, value);
    else if (is_late)
        (void)snprintf(text, capacity, "external timeline '%s', which reached %llu too late", timeline->name,
                       value);
}
