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
#include "base/given.h"
#include "sched/runtime/shared/runtime.h"

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

void rota_external_timeline_release(rota_external_timeline *timeline) {
    /* acq_rel: publishes this thread's use; the last one sees all others'. */
    if (!timeline || ra_fetch_sub_acq_rel(&timeline->references, 1) != 1) return;
    free(timeline->name);
    free(timeline);
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

rota_status rota_external_timeline_signal(rota_external_timeline *timeline, uint64_t value) {
    ROTA_GIVEN(timeline);
    /* Who comes after the point may give back all other references before this call is over. Relaxed: the exchange
     * below releases it to whoever saw the value. */
    rota_external_timeline_retain(timeline);
    const rota_opened opened = timeline->opened;
    uint64_t before = ra_load_relaxed(&timeline->reached);
    if (before < value) note_move(timeline); /* first: with rota_external_wait_look */
    /* Releases what the application wrote; each signal that fails here found a later value. */
    while (before < value && !ra_cas_seq_cst(&timeline->reached, &before, value)) {
    }
    if (before < value) note_move(timeline); /* again: it may have been kept in between */
    /* Also while the runtime closes, which waits for what is held; and later: handles are never freed, and a thread of
     * a later runtime that has this one's is woken for nothing. */
    rota_runtime *runtime = opened.runtime;
    for (uint64_t left = ra_load_seq_cst(&timeline->holders); left; left &= left - 1)
        rota_sleeper_wake(&runtime->handle.submitters[__builtin_ctzll(left)]);
    rota_external_timeline_release(timeline);
    return rota_opened_check_lasts(opened);
}

/* ---- What submissions come after ---- */

void rota_external_wait_retain(const uint64_t *words) {
    for (uint32_t i = 0; i < words[0]; i++)
        rota_external_timeline_retain(rota_external_wait_timeline(words, i));
}

void rota_external_wait_release(const uint64_t *words) {
    for (uint32_t i = 0; i < words[0]; i++)
        rota_external_timeline_release(rota_external_wait_timeline(words, i));
}

/* The first of the points that is not reached; how many they are where all are. */
static uint32_t first_missing(const uint64_t *words) {
    uint32_t i = 0;
    while (i < words[0] && rota_external_timeline_has(rota_external_wait_timeline(words, i),
                                                      rota_external_wait_value(words, i)))
        i++;
    return i;
}

bool rota_external_wait_is_reached(const uint64_t *words) {
    return first_missing(words) == words[0];
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
    const uint32_t missing = first_missing(after->words);
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
    const uint32_t i = is_late ? word >> OUTCOME_BITS : first_missing(after->words);
    if (i == after->count) return;
    rota_external_timeline *timeline = rota_external_wait_timeline(after->words, i);
    const unsigned long long value = rota_external_wait_value(after->words, i);
    const unsigned long long reached = ra_load_relaxed(&timeline->reached);
    if (reached < value)
        (void)snprintf(text, capacity, "external timeline '%s' at %llu, of which %llu is waited for",
                       timeline->name, reached, value);
    else if (is_late)
        (void)snprintf(text, capacity, "external timeline '%s', which reached %llu too late", timeline->name,
                       value);
}
