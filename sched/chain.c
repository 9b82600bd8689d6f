/* What points come after, noted by the sequencer, and what of it got on, watched by who waits. */
#include "sched/chain.h"

#include <stdlib.h>

#include "sched/runtime_internal.h"

enum { ENTRIES = 32 };

typedef struct entry {
    _Atomic uint64_t
        from_value; /* of the timeline: for this value and later ones; 0: none, or being written */
    _Atomic uint64_t count;
    _Atomic uint64_t points[]; /* of other timelines */
} entry;

struct rota_chain {
    size_t stride;          /* bytes of an entry */
    _Atomic uint64_t begun; /* entries ever begun; they follow each other round */
    _Alignas(8) unsigned char entries[];
};

rota_chain *rota_chain_create(uint32_t timelines) {
    const size_t stride = sizeof(entry) + timelines * sizeof(uint64_t);
    rota_chain *chain = calloc(1, sizeof *chain + ENTRIES * stride);
    if (chain) chain->stride = stride;
    return chain;
}

void rota_chain_destroy(rota_chain *chain) {
    free(chain);
}

static entry *entry_of(rota_chain *chain, uint64_t index) {
    return (entry *)(void *)&chain->entries[index % ENTRIES * chain->stride];
}

/* ---- Noting: the sequencer ---- */

/* The newest entry for the value, else the oldest there is; NULL: no work up to the value waits for others.
 */
static const entry *entry_at(rota_chain *chain, uint64_t value) {
    const uint64_t begun = ra_load_relaxed(&chain->begun);
    const entry *found = NULL;
    for (uint32_t back = 1; back <= ENTRIES; back++) {
        if (back > begun) return NULL; /* nothing is forgotten */
        found = entry_of(chain, begun - back);
        if (ra_load_relaxed(&found->from_value) <= value) break;
    }
    return found;
}

/* Adds what has not passed of the entry for the value to the wanted values. */
static void want_entry(rota_runtime *runtime, rota_wanted *wanted, rota_chain *chain, uint64_t value) {
    const entry *at = entry_at(chain, value);
    const uint64_t count = at ? ra_load_relaxed(&at->count) : 0;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t point = ra_load_relaxed(&at->points[i]);
        if (!rota_point_passed(runtime, point)) rota_wanted_add(wanted, runtime->queue_count, point);
    }
}

static void want_chain(rota_runtime *runtime, rota_wanted *wanted, uint64_t point) {
    rota_wanted_add(wanted, runtime->queue_count, point);
    want_entry(runtime, wanted, rota_runtime_timeline(runtime, point)->chain, rota_point_value(point));
}

void rota_chain_want(rota_runtime *runtime, rota_wanted *wanted, uint64_t point) {
    if (!rota_point_passed(runtime, point)) want_chain(runtime, wanted, point);
}

static bool waits_for_others(const rota_work *work) {
    const rota_exec_wait *waits = &work->submission->waits[work->first_wait];
    for (uint32_t i = 0; i < work->wait_count; i++)
        if (waits[i].queue != work->queue) return true;
    return work->hold_count != 0;
}

void rota_chain_note(rota_runtime *runtime, rota_wanted *wanted, const rota_work *work) {
    if (!waits_for_others(work)) return;
    const rota_submission *submission = work->submission;
    rota_chain *chain = work->device->timelines[work->queue].chain;
    want_entry(runtime, wanted, chain, UINT64_MAX);
    for (uint32_t i = 0; i < work->wait_count; i++) {
        const rota_exec_wait *wait = &submission->waits[work->first_wait + i];
        if (wait->queue != work->queue)
            want_chain(runtime, wanted, rota_point(work->device->index, wait->queue, wait->value));
    }
    for (uint32_t i = 0; i < work->hold_count; i++)
        want_chain(runtime, wanted, rota_hold_point(submission->holds[work->first_hold + i]));

    const uint64_t begun = ra_load_relaxed(&chain->begun);
    entry *newest = entry_of(chain, begun);
    ra_store_relaxed(&chain->begun, begun + 1);
    /* Release: who reads the 0 reads `begun` too (watch_noted). And who reads anything that is stored below
     * reads another from_value afterwards (take_entry). */
    ra_store_release(&newest->from_value, 0);
    const uint32_t own = work->device->index * runtime->queue_count + work->queue;
    uint64_t count = 0;
    for (uint32_t i = 0; i < wanted->count; i++) {
        const uint32_t t = wanted->touched[i];
        if (t != own)
            ra_store_release(
                &newest->points[count++],
                rota_point(t / runtime->queue_count, t % runtime->queue_count, wanted->value[t]));
        wanted->value[t] = 0;
    }
    wanted->count = 0;
    ra_store_release(&newest->count, count);
    ra_store_release(&newest->from_value, work->value); /* with watch_noted */
}

void rota_chain_note_making(const rota_work *work, const rota_device *maker) {
    rota_timeline *timeline = &work->device->timelines[work->queue];
    const bool is_over = timeline->made_for <= ra_load_relaxed(&timeline->completed);
    const uint64_t others = is_over ? 0 : ra_load_relaxed(&timeline->makers);
    timeline->made_for = work->value;
    /* Release: with watch, which then sees that the instance was asked for. */
    ra_store_release(&timeline->makers, others | (uint64_t)1 << maker->index);
}

/* ---- Watching: whoever waits ---- */

void rota_progress_begin(rota_progress *progress, rota_runtime *runtime) {
    progress->runtime = runtime;
    progress->since_ns = rota_clock_ns();
    progress->count = 0;
    progress->makers = 0;
}

/* Whether the point's work may wait for an instance still. */
static bool may_be_made(const rota_timeline *timeline, uint64_t point) {
    return ra_load_relaxed(&timeline->handed_over) < rota_point_value(point);
}

static void watch_maker(rota_progress *progress, uint32_t device) {
    progress->made[device] = ra_load_relaxed(&progress->runtime->devices[device]->makings_asked);
}

static void watch_makers(rota_progress *progress, const rota_timeline *timeline) {
    const uint64_t makers = ra_load_acquire(&timeline->makers); /* with rota_chain_note_making */
    progress->makers |= makers;
    for (uint64_t left = makers; left; left &= left - 1)
        watch_maker(progress, (uint32_t)__builtin_ctzll(left));
}

/* A maker that is at an instance gets on by its steps, each of which may take what it took the first time,
 * and more. */
static void look_at_makers(rota_progress *progress) {
    for (uint64_t left = progress->makers; left; left &= left - 1) {
        const uint32_t d = (uint32_t)__builtin_ctzll(left);
        const rota_device *maker = progress->runtime->devices[d];
        if (ra_load_acquire(&maker->makings_done) >= progress->made[d]) {
            progress->makers &= ~((uint64_t)1 << d);
            continue;
        }
        const uint64_t began = ra_load_acquire(&maker->making_ns); /* with begin_step */
        const uint64_t until = ra_load_relaxed(&maker->making_until_ns), now = rota_clock_ns();
        const uint64_t when = until < now ? until : now;
        if (began > progress->since_ns) progress->since_ns = began;
        if (when > progress->since_ns) progress->since_ns = when;
    }
}

static void watch(rota_progress *progress, uint64_t point) {
    if (rota_point_passed(progress->runtime, point)) return;
    const rota_timeline *timeline = rota_runtime_timeline(progress->runtime, point);
    if (may_be_made(timeline, point)) watch_makers(progress, timeline);
    for (uint32_t i = 0; i < progress->count; i++) {
        rota_watched *watched = &progress->watched[i];
        if (rota_point_timeline(watched->point) != rota_point_timeline(point)) continue;
        if (watched->point < point) watched->point = point;
        return;
    }
    progress->watched[progress->count++] = (rota_watched){point, ra_load_acquire(&timeline->completed)};
}

/* Watches what the entry says; false: it was overwritten meanwhile. */
static bool take_entry(rota_progress *progress, const entry *at, uint64_t from) {
    const uint32_t begin = progress->count;
    const uint64_t count = ra_load_acquire(&at->count);
    for (uint64_t i = 0; i < count; i++) watch(progress, ra_load_acquire(&at->points[i]));
    /* Each acquire pairs with the release that stored the field: having read a later entry's field, this load
     * can't miss that the entry was taken for it. */
    if (ra_load_relaxed(&at->from_value) == from) return true;
    progress->count = begin;
    return false;
}

/* One look for the entry that stands for the value; false: the sequencer is changing what was found. */
static bool watch_noted(rota_progress *progress, rota_chain *chain, uint64_t value) {
    const entry *before = NULL, *after = NULL; /* newest up to the value, oldest beyond it */
    uint64_t from_before = 0, from_after = UINT64_MAX;
    for (uint32_t i = 0; i < ENTRIES; i++) {
        const entry *at = entry_of(chain, i);
        const uint64_t from = ra_load_acquire(&at->from_value); /* with rota_chain_note */
        if (from > from_before && from <= value) {
            before = at;
            from_before = from;
        } else if (from > value && from < from_after) {
            after = at;
            from_after = from;
        }
    }
    if (before) return take_entry(progress, before, from_before);
    if (ra_load_relaxed(&chain->begun) <= ENTRIES) return true; /* nothing is forgotten */
    return after && take_entry(progress, after, from_after);
}

void rota_progress_watch_chain(rota_progress *progress, uint64_t point) {
    if (rota_point_passed(progress->runtime, point)) return;
    watch(progress, point);
    rota_chain *chain = rota_runtime_timeline(progress->runtime, point)->chain;
    /* Another look only while the sequencer notes other works of the timeline. */
    while (!watch_noted(progress, chain, rota_point_value(point))) {
    }
}

void rota_progress_watch_points(rota_progress *progress, const uint64_t *points, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) watch(progress, points[i]);
}

void rota_progress_watch_device(rota_progress *progress, const rota_device *device) {
    for (uint32_t q = 0; q < progress->runtime->queue_count; q++)
        watch(progress, rota_point(device->index, q, ra_load_acquire(&device->timelines[q].issued)));
}

uint64_t rota_progress_look(rota_progress *progress) {
    bool is_made = false;
    for (uint32_t i = 0; i < progress->count;) {
        rota_watched *watched = &progress->watched[i];
        rota_timeline *timeline = rota_runtime_timeline(progress->runtime, watched->point);
        /* Acquire: with rota_device_publish, which first stores when that was. */
        const uint64_t completed = ra_load_acquire(&timeline->completed);
        if (completed != watched->completed) {
            watched->completed = completed;
            const uint64_t when = ra_load_relaxed(&timeline->progress_ns);
            if (when > progress->since_ns) progress->since_ns = when;
        }
        if (completed >= rota_point_value(watched->point)) {
            *watched = progress->watched[--progress->count];
            continue;
        }
        is_made = is_made || may_be_made(timeline, watched->point);
        i++;
    }
    if (progress->makers && is_made) look_at_makers(progress);
    return progress->since_ns;
}
