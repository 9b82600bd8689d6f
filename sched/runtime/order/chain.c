/* What points come after, noted by the sequencer. */
#include "sched/runtime/order/chain.h"

#include "base/atomic.h"
#include "sched/runtime/order/order.h"
#include "sched/runtime/order/wanted.h"
#include "sched/runtime/shared/chain_entries.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/timeline.h"

/* The newest entry for the value, else the oldest there is; NULL: no work up to the value waits for others.
 */
static const rota_chain_entry *entry_at(rota_chain *chain, uint64_t value) {
    const uint64_t begun = ra_load_relaxed(&chain->begun);
    const rota_chain_entry *found = NULL;
    for (uint32_t back = 1; back <= ROTA_CHAIN_ENTRIES; back++) {
        if (back > begun) return NULL; /* nothing is forgotten */
        found = rota_chain_entry_of(chain, begun - back);
        if (ra_load_relaxed(&found->from_value) <= value) break;
    }
    return found;
}

/* Adds what has not passed of the entry for the value to the wanted values. */
static void want_entry(rota_runtime *runtime, rota_wanted *wanted, rota_chain *chain, uint64_t value) {
    const rota_chain_entry *entry = entry_at(chain, value);
    const uint64_t count = entry ? ra_load_relaxed(&entry->count) : 0;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t point = ra_load_relaxed(&entry->points[i]);
        if (!rota_point_passed(runtime, point)) rota_wanted_add(wanted, runtime->queue_count, point);
    }
}

static void want_chain(rota_runtime *runtime, rota_wanted *wanted, uint64_t point) {
    rota_wanted_add(wanted, runtime->queue_count, point);
    want_entry(runtime, wanted, rota_runtime_timeline(runtime, point)->chain, rota_point_value(point));
}

void rota_chain_want(rota_sequencer *sequencer, rota_wanted *wanted, uint64_t point) {
    rota_runtime *runtime = sequencer->runtime;
    rota_assert_sequencer(sequencer);
    if (!rota_point_passed(runtime, point)) want_chain(runtime, wanted, point);
}

static bool waits_for_others(const rota_work *work) {
    const rota_exec_wait *waits = &work->submission->made.waits[work->first_wait];
    for (uint32_t i = 0; i < work->wait_count; i++)
        if (waits[i].queue != work->queue) return true;
    return work->foreign_wait_count != 0;
}

void rota_chain_note(rota_sequencer *sequencer, rota_wanted *wanted, const rota_work *work) {
    rota_runtime *runtime = sequencer->runtime;
    rota_assert_sequencer(sequencer);
    if (!waits_for_others(work)) return;
    const rota_submission *submission = work->submission;
    rota_chain *chain = work->device->timelines[work->queue].chain;
    want_entry(runtime, wanted, chain, UINT64_MAX);
    for (uint32_t i = 0; i < work->wait_count; i++) {
        const rota_exec_wait *wait = &submission->made.waits[work->first_wait + i];
        if (wait->queue != work->queue)
            want_chain(runtime, wanted, rota_point(work->device->index, wait->queue, wait->value));
    }
    for (uint32_t i = 0; i < work->foreign_wait_count; i++)
        want_chain(runtime, wanted,
                   rota_foreign_wait_point(submission->made.foreign_waits[work->first_foreign_wait + i]));

    const uint64_t begun = ra_load_relaxed(&chain->begun);
    rota_chain_entry *newest = rota_chain_entry_of(chain, begun);
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

void rota_chain_note_building(const rota_work *work, const rota_device *builder) {
    rota_timeline *timeline = &work->device->timelines[work->queue];
    const bool is_over = timeline->order.made_for <= ra_load_relaxed(&timeline->completed);
    const uint64_t others = is_over ? 0 : ra_load_relaxed(&timeline->builders);
    timeline->order.made_for = work->value;
    /* Release: with watch, which then sees that the instance was asked for. */
    ra_store_release(&timeline->builders, others | (uint64_t)1 << builder->index);
}

/* ---- Watching: whoever waits ---- */
