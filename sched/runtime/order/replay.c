/* Replays of one plan in a row, with nothing else in between: their hazards are the same each time but for
 * the values, so they are resolved once and then counted on. The sequencer's alone.
 *
 * A plan *owns* the residencies that it touches from its last resolved replay until any other submission
 * looks at one of them. While it owns all of them, and the replay before was its own too, each segment's
 * waits on that replay are the ones noted when it was last resolved, at values moved by what replays have
 * added since. The points stored in the ranges are then out of date by that much; whoever else comes first
 * has them brought up to date (rota_replay_disown), one residency at a time. A replay so costs the sequencer
 * nothing per buffer.
 *
 * Buffers in slots are no different while each replay has the same bound to them; where one has others it is
 * resolved. What it does not touch any more is disowned then, before the values that its points are counted from
 * are forgotten. A buffer is disowned, too, before anybody judges whether its last use has passed, so none goes
 * while it is owned, and no other comes in its place unseen. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "sched/runtime/memory/ranges.h"
#include "sched/runtime/order/order.h"
#include "sched/runtime/order/replay.h"
#include "sched/runtime/order/wanted.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/timeline.h"

/* With fewer external accesses than FEW resolving costs little more than this bookkeeping. Once IN_VAIN replays in a
 * row were resolved all the same, since something else touches the buffers between any two, it is done only for two
 * in TRY_AGAIN: the first owns, the second notes, and the next is known if nothing came between. */
enum { FEW = 8, IN_VAIN = 8, TRY_AGAIN = 64 };

typedef enum replay_state {
    REPLAY_NONE,  /* something else touched a residency since */
    REPLAY_OWNED, /* all residencies are as this plan's last replay left them */
    REPLAY_KNOWN  /* and the waits of a replay on the one before are noted */
} replay_state;

/* A wait on the replay before, or on an earlier segment of the same one, as two that only add up have it
 * whose order the plan leaves open: the timeline, and the value counted from that replay's first. */
typedef struct noted_wait {
    uint32_t timeline;
    uint32_t offset : 31, own : 1;
} noted_wait;

struct rota_replay {
    uint32_t state;
    uint32_t timelines;      /* entries of the three arrays */
    uint64_t *resolved_base; /* issued values before the replay whose points the ranges hold */
    uint64_t *last_base;     /* and before the plan's last replay */
    uint32_t *count;         /* values that a replay adds */
    uint32_t *first_wait;    /* by segment, one more than there are segments */
    noted_wait *waits;
    uint32_t wait_count, wait_capacity;
    rota_residency *owned; /* a list */
    uint64_t *bound;       /* to the plan's slots, by its last replay */
    uint32_t in_vain;      /* replays in a row that were resolved */
};

static void destroy(rota_replay *replay) {
    if (!replay) return;
    free(replay->resolved_base);
    free(replay->last_base);
    free(replay->count);
    free(replay->first_wait);
    free(replay->waits);
    free(replay->bound);
    free(replay);
}

static size_t bound_bytes(const rota_executable *executable) {
    return 2 * sizeof(uint64_t) * executable->arguments.slot_buffer_count;
}

/* Without memory there is no replay object, and every replay is resolved. */
static rota_replay *create(rota_runtime *runtime, const rota_executable *executable) {
    const rota_plan *plan = executable->plan;
    rota_replay *replay = calloc(1, sizeof *replay);
    if (!replay) return NULL;
    replay->timelines = ROTA_DEVICES_MAX * runtime->queue_count;
    replay->resolved_base = calloc(replay->timelines, sizeof *replay->resolved_base);
    replay->last_base = calloc(replay->timelines, sizeof *replay->last_base);
    replay->count = calloc(replay->timelines, sizeof *replay->count);
    replay->first_wait = calloc((size_t)plan->segment_count + 1, sizeof *replay->first_wait);
    replay->bound = calloc(1, bound_bytes(executable) + 1);
    if (!replay->resolved_base || !replay->last_base || !replay->count || !replay->first_wait ||
        !replay->bound) {
        destroy(replay);
        return NULL;
    }
    for (uint32_t s = 0; s < plan->segment_count; s++)
        replay->count[plan->partitions[plan->segments[s].part].device->index * runtime->queue_count +
                      plan->segments[s].queue]++;
    return replay;
}

/* Moves a point of the owner's resolved replay to where its last one put it. */
static uint64_t moved(const rota_runtime *runtime, const rota_replay *replay, uint64_t point) {
    if (point == ROTA_POINT_NONE) return point;
    uint32_t t = rota_point_device(point) * runtime->queue_count + rota_point_queue(point);
    uint64_t value = rota_point_value(point), base = replay->resolved_base[t];
    if (value <= base || value > base + replay->count[t]) return point;
    return rota_point(rota_point_device(point), rota_point_queue(point), value - base + replay->last_base[t]);
}

void rota_replay_disown(rota_residency *residency) {
    rota_replay *replay = residency->owner;
    if (!replay) return;
    residency->owner = NULL;
    if (residency->next_owned) residency->next_owned->previous_owned = residency->previous_owned;
    if (residency->previous_owned)
        residency->previous_owned->next_owned = residency->next_owned;
    else
        replay->owned = residency->next_owned;
    replay->state = REPLAY_NONE;
    for (rota_range *range = &residency->first; range; range = range->next) {
        range->writer = moved(residency->runtime, replay, range->writer);
        for (uint32_t r = 0; r < range->reader_count; r++)
            range->readers[r] = moved(residency->runtime, replay, range->readers[r]);
    }
}

static void disown_all(rota_replay *replay) {
    while (replay->owned) rota_replay_disown(replay->owned);
}

void rota_replay_own(rota_executable *executable, rota_residency *residency) {
    rota_replay *replay = executable->order.replay;
    if (residency->owner == replay) return; /* another of the plan's externals lies in it */
    /* This replay looked at it, and so it was disowned; or it would stay in the other's list. */
    rota_assert(!residency->owner && replay->state != REPLAY_NONE);
    residency->owner = replay;
    residency->next_owned = replay->owned;
    residency->previous_owned = NULL;
    if (replay->owned) replay->owned->previous_owned = residency;
    replay->owned = residency;
}

void rota_replay_release(rota_executable *executable) {
    if (!executable->order.replay) return;
    disown_all(executable->order.replay);
    destroy(executable->order.replay);
    executable->order.replay = NULL;
}

static bool is_worth_it(const rota_executable *executable) {
    const uint32_t count = executable->plan->external_count;
    const rota_replay *replay = executable->order.replay;
    if (count == 0 || count >= FEW || !replay) return count != 0;
    return replay->state == REPLAY_KNOWN || replay->in_vain < IN_VAIN || replay->in_vain % TRY_AGAIN < 2;
}

bool rota_replay_is_known(const rota_executable *executable) {
    return executable->order.replay && executable->order.replay->state == REPLAY_KNOWN;
}

void rota_replay_forget(rota_executable *executable) {
    /* Residencies keep their owner until they are looked at, which brings them up to date. */
    if (executable->order.replay) executable->order.replay->state = REPLAY_NONE;
}

void rota_replay_bind(rota_executable *executable, const uint64_t *bound) {
    rota_replay *replay = executable->order.replay;
    const size_t bytes = bound_bytes(executable);
    if (!replay || bytes == 0 || memcmp(replay->bound, bound, bytes) == 0) return;
    memcpy(replay->bound, bound, bytes);
    rota_replay_forget(executable);
}

uint32_t rota_replay_begin(rota_sequencer *sequencer, rota_executable *executable, uint64_t *out_base) {
    rota_runtime *runtime = sequencer->runtime;
    rota_assert_sequencer(sequencer);
    if (!is_worth_it(executable)) return 0;
    uint32_t devices = ra_load_acquire(&runtime->device_count); /* with the open of the newest */
    for (uint32_t d = 0; d < devices; d++) {
        const rota_device *device = runtime->devices[d];
        uint64_t *base = out_base + (size_t)d * runtime->queue_count;
        const uint32_t used = ra_load_relaxed(&device->queues_used);
        for (uint32_t q = 0; q < used; q++) base[q] = ra_load_relaxed(&device->timelines[q].issued);
        for (uint32_t q = used; q < runtime->queue_count; q++) base[q] = 0;
    }
    if (executable->order.replay && executable->order.replay->state != REPLAY_KNOWN)
        executable->order.replay->wait_count = 0;
    return devices * runtime->queue_count;
}

void rota_replay_want(rota_sequencer *sequencer, rota_wanted *wanted, const rota_executable *executable,
                      const uint64_t *base, uint32_t segment) {
    rota_runtime *runtime = sequencer->runtime;
    rota_assert_sequencer(sequencer);
    const rota_replay *replay = executable->order.replay;
    for (uint32_t i = replay->first_wait[segment]; i < replay->first_wait[segment + 1]; i++) {
        const noted_wait *wait = &replay->waits[i];
        const uint32_t t = wait->timeline;
        const uint64_t value = (wait->own ? base[t] : replay->last_base[t]) + wait->offset;
        rota_wanted_add(wanted, runtime->queue_count,
                        rota_point(t / runtime->queue_count, t % runtime->queue_count, value));
    }
}

uint64_t rota_replay_next_single(rota_sequencer *sequencer, rota_executable *executable,
                                 const rota_work *work) {
    rota_runtime *runtime = sequencer->runtime;
    rota_assert_sequencer(sequencer);
    rota_replay *replay = executable->order.replay;
    const uint32_t t = work->device->index * runtime->queue_count + work->queue;
    rota_assert(replay->state == REPLAY_KNOWN && replay->count[t] == 1 && replay->wait_count <= 1);
    uint64_t *last_base = &replay->last_base[t]; /* of the other timelines it has no works */
    const uint64_t value = replay->wait_count ? *last_base + replay->waits[0].offset : 0;
    *last_base = work->value - 1;
    replay->in_vain = 0;
    return value;
}

bool rota_replay_notes(const rota_executable *executable) {
    return executable->order.replay && executable->order.replay->state == REPLAY_OWNED;
}

void rota_replay_note(rota_sequencer *sequencer, rota_wanted *wanted, rota_executable *executable,
                      const uint64_t *own_base, uint32_t segment, bool *notes) {
    rota_runtime *runtime = sequencer->runtime;
    rota_assert_sequencer(sequencer);
    rota_replay *replay = executable->order.replay;
    replay->first_wait[segment] = replay->wait_count;
    for (uint32_t i = 0; i < wanted->count; i++) {
        uint32_t t = wanted->touched[i];
        const uint64_t value = wanted->value[t];
        const bool own = value > own_base[t];
        const uint64_t base = own ? own_base[t] : replay->last_base[t];
        if (value <= base || value > base + replay->count[t]) {
            /* Earlier values were waited for by the replay before, and waits hold along a queue; but those
             * for another device only where it got there. */
            const rota_plan *plan = executable->plan;
            const rota_device *device = plan->partitions[plan->segments[segment].part].device;
            if (t / runtime->queue_count == device->index ||
                rota_point_passed(runtime,
                                  rota_point(t / runtime->queue_count, t % runtime->queue_count, value)))
                continue;
            *notes = false;
            return;
        }
        if (replay->wait_count == replay->wait_capacity) {
            uint32_t capacity = replay->wait_capacity ? replay->wait_capacity * 2 : 16;
            noted_wait *grown = realloc(replay->waits, capacity * sizeof *grown);
            if (!grown) {
                *notes = false;
                return;
            }
            replay->waits = grown;
            replay->wait_capacity = capacity;
        }
        replay->waits[replay->wait_count++] = (noted_wait){t, (uint32_t)(value - base) & INT32_MAX, own};
    }
    replay->first_wait[segment + 1] = replay->wait_count;
}

bool rota_replay_end(rota_sequencer *sequencer, rota_executable *executable, const uint64_t *base,
                     uint32_t timelines, bool known, bool noted, bool moves) {
    rota_runtime *runtime = sequencer->runtime;
    rota_assert_sequencer(sequencer);
    if (known) {
        memcpy(executable->order.replay->last_base, base, timelines * sizeof *base);
        executable->order.replay->in_vain = 0;
        return false;
    }
    const bool owns = is_worth_it(executable) && !moves; /* as in begin: nothing of it changed since */
    if (executable->order.replay) {
        executable->order.replay->in_vain++;
        if (!owns) executable->order.replay->state = REPLAY_NONE;
    }
    if (!owns) return false;
    if (!executable->order.replay) executable->order.replay = create(runtime, executable);
    rota_replay *replay = executable->order.replay;
    if (!replay) return false;
    /* What this replay looked at is disowned already. */
    disown_all(replay);
    memcpy(replay->resolved_base, base, timelines * sizeof *base);
    memcpy(replay->last_base, base, timelines * sizeof *base);
    replay->state = noted ? REPLAY_KNOWN : REPLAY_OWNED;
    return true;
}
