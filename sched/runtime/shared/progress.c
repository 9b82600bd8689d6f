/* When what a wait is for last got on: watched by who waits. */
#include "sched/runtime/shared/progress.h"

#include <stdlib.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "sched/runtime/shared/chain_entries.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/timeline.h"

rota_chain *rota_chain_create(uint32_t timelines) {
    const size_t stride = sizeof(rota_chain_entry) + timelines * sizeof(uint64_t);
    rota_chain *chain = calloc(1, sizeof *chain + ROTA_CHAIN_ENTRIES * stride);
    if (chain) chain->stride = stride;
    return chain;
}

void rota_chain_destroy(rota_chain *chain) {
    free(chain);
}

void rota_progress_begin(rota_progress *progress, rota_runtime *runtime) {
    progress->runtime = runtime;
    progress->since_ns = rota_clock_ns();
    progress->count = 0;
    progress->builders = 0;
}

/* Whether the point's work may wait for an instance still. */
static bool may_be_made(const rota_timeline *timeline, uint64_t point) {
    return ra_load_relaxed(&timeline->handed_over) < rota_point_value(point);
}

static void watch_builder(rota_progress *progress, uint32_t device) {
    progress->made[device] = ra_load_relaxed(&progress->runtime->devices[device]->building.asked_count);
}

static void watch_builders(rota_progress *progress, const rota_timeline *timeline) {
    const uint64_t builders = ra_load_acquire(&timeline->builders); /* with rota_chain_note_building */
    progress->builders |= builders;
    for (uint64_t left = builders; left; left &= left - 1)
        watch_builder(progress, (uint32_t)__builtin_ctzll(left));
}

/* A builder that is at an instance gets on by its steps, each of which may take what it took the first time,
 * and more. */
static void look_at_builders(rota_progress *progress) {
    for (uint64_t left = progress->builders; left; left &= left - 1) {
        const uint32_t d = (uint32_t)__builtin_ctzll(left);
        const rota_device *builder = progress->runtime->devices[d];
        if (ra_load_acquire(&builder->building.done_count) >= progress->made[d]) {
            progress->builders &= ~((uint64_t)1 << d);
            continue;
        }
        const uint64_t began = ra_load_acquire(&builder->building.began_ns); /* with begin_step */
        const uint64_t until = ra_load_relaxed(&builder->building.until_ns), now = rota_clock_ns();
        const uint64_t when = until < now ? until : now;
        if (began > progress->since_ns) progress->since_ns = began;
        if (when > progress->since_ns) progress->since_ns = when;
    }
}

static void watch(rota_progress *progress, uint64_t point) {
    if (rota_point_passed(progress->runtime, point)) return;
    const rota_timeline *timeline = rota_runtime_timeline(progress->runtime, point);
    if (may_be_made(timeline, point)) watch_builders(progress, timeline);
    for (uint32_t i = 0; i < progress->count; i++) {
        rota_watched *watched = &progress->watched[i];
        if (rota_point_timeline(watched->point) != rota_point_timeline(point)) continue;
        if (watched->point < point) watched->point = point;
        return;
    }
    progress->watched[progress->count++] = (rota_watched){point, ra_load_acquire(&timeline->completed)};
}

/* Watches what the entry says; false: it was overwritten meanwhile. */
static bool take_entry(rota_progress *progress, const rota_chain_entry *entry, uint64_t from) {
    const uint32_t begin = progress->count;
    const uint64_t count = ra_load_acquire(&entry->count);
    for (uint64_t i = 0; i < count; i++) watch(progress, ra_load_acquire(&entry->points[i]));
    /* Each acquire pairs with the release that stored the field: having read a later entry's field, this load
     * can't miss that the entry was taken for it. */
    if (ra_load_relaxed(&entry->from_value) == from) return true;
    progress->count = begin;
    return false;
}

/* One look for the entry that stands for the value; false: the sequencer is changing what was found. */
static bool watch_noted(rota_progress *progress, rota_chain *chain, uint64_t value) {
    const rota_chain_entry *before = NULL, *after = NULL; /* newest up to the value, oldest beyond it */
    uint64_t from_before = 0, from_after = UINT64_MAX;
    for (uint32_t i = 0; i < ROTA_CHAIN_ENTRIES; i++) {
        const rota_chain_entry *entry = rota_chain_entry_of(chain, i);
        const uint64_t from = ra_load_acquire(&entry->from_value); /* with rota_chain_note */
        if (from > from_before && from <= value) {
            before = entry;
            from_before = from;
        } else if (from > value && from < from_after) {
            after = entry;
            from_after = from;
        }
    }
    if (before) return take_entry(progress, before, from_before);
    if (ra_load_relaxed(&chain->begun) <= ROTA_CHAIN_ENTRIES) return true; /* nothing is forgotten */
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
    if (progress->builders && is_made) look_at_builders(progress);
    return progress->since_ns;
}
