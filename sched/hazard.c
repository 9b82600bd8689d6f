/* Hazards between submissions: who last wrote and since read each range of a persistent buffer, and which
 * waits follow. The sequencer's alone, so nothing here is shared.
 *
 * Waits are cumulative along a queue, and a value reached on one queue proves what its works waited for: a
 * clock per queue keeps, for every timeline, the value that all later works of the queue are known to come
 * after. A wait that the clock proves is dropped. */
#include <stdlib.h>
#include <string.h>

#include "sched/runtime_internal.h"

static uint32_t timeline_index(const rota_runtime *runtime, uint64_t point) {
    return rota_point_device(point) * runtime->queue_count + rota_point_queue(point);
}

void rota_hazard_want(rota_runtime *runtime, uint64_t point) {
    if (point == ROTA_POINT_NONE) return;
    uint32_t t = timeline_index(runtime, point);
    uint64_t value = rota_point_value(point);
    if (runtime->wanted[t] == 0) runtime->touched[runtime->touched_count++] = t;
    if (runtime->wanted[t] < value) runtime->wanted[t] = value;
}

/* ---- Ranges ---- */

uint32_t rota_hazard_find(const rota_residency *residency, uint64_t offset) {
    uint32_t low = 0, high = residency->range_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (residency->ranges[middle].begin <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static bool grow(rota_residency *residency) {
    if (residency->range_count < residency->range_capacity) return true;
    uint32_t capacity = residency->range_capacity * 2 < 8 ? 8 : residency->range_capacity * 2;
    rota_range *ranges = malloc(capacity * sizeof *ranges);
    if (!ranges) return false;
    memcpy(ranges, residency->ranges, residency->range_count * sizeof *ranges);
    if (residency->ranges != &residency->first) free(residency->ranges);
    residency->ranges = ranges;
    residency->range_capacity = capacity;
    return true;
}

/* Makes a range begin at `offset`. Without memory it stays as it is: the caller then treats more bytes as
 * touched than were, which orders too much and never too little; which devices hold them is in set_valid. */
static void split(rota_residency *residency, uint64_t offset) {
    if (offset >= residency->buffer->size_bytes) return;
    uint32_t i = rota_hazard_find(residency, offset);
    if (residency->ranges[i].begin == offset || !grow(residency)) return;
    rota_range *range = &residency->ranges[i];
    memmove(range + 1, range, (residency->range_count - i) * sizeof *range);
    residency->range_count++;
    range[0].end = offset;
    range[1].begin = offset;
}

static bool same_history(const rota_range *a, const rota_range *b) {
    return a->writer == b->writer && a->valid == b->valid && a->reader_count == b->reader_count &&
           memcmp(a->readers, b->readers, a->reader_count * sizeof a->readers[0]) == 0;
}

/* Joins what has the same history around [begin, end), so that the list stays as long as the history is
 * varied. */
static void join(rota_residency *residency, uint64_t begin, uint64_t end) {
    if (residency->range_count == 1) return;
    uint32_t i = rota_hazard_find(residency, begin > 0 ? begin - 1 : 0);
    uint32_t last = rota_hazard_find(residency, end < residency->buffer->size_bytes ? end : end - 1);
    uint32_t to = i;
    for (uint32_t from = i + 1; from <= last; from++) {
        if (same_history(&residency->ranges[to], &residency->ranges[from]))
            residency->ranges[to].end = residency->ranges[from].end;
        else
            residency->ranges[++to] = residency->ranges[from];
    }
    uint32_t dropped = last - to;
    if (dropped == 0) return;
    memmove(&residency->ranges[to + 1], &residency->ranges[last + 1],
            (residency->range_count - last - 1) * sizeof *residency->ranges);
    residency->range_count -= dropped;
}

static void add_reader(rota_runtime *runtime, rota_range *range, uint64_t point) {
    for (uint32_t r = 0; r < range->reader_count; r++)
        if (rota_point_timeline(range->readers[r]) ==
            rota_point_timeline(point)) { /* the later value covers both */
            range->readers[r] = point;
            return;
        }
    if (range->reader_count < ROTA_READERS_MAX) {
        range->readers[range->reader_count++] = point;
        return;
    }
    /* No room: this reader waits for another one and then stands for both. */
    rota_hazard_want(runtime, range->readers[0]);
    range->readers[0] = point;
}

/* Where [begin, end) of the range is. Of a range that could not be cut the other bytes are where
 * they were: what not all of them have counts as nobody's, so that a reader is told and gets no stale bytes.
 */
static void set_valid(rota_range *range, uint64_t begin, uint64_t end, rota_places valid) {
    bool whole = range->begin >= begin && range->end <= end;
    range->valid = whole ? valid : range->valid & valid;
}

void rota_hazard_read(rota_runtime *runtime, rota_residency *residency, uint64_t begin, uint64_t end,
                      uint64_t point) {
    if (residency->owner) rota_replay_disown(residency);
    split(residency, begin);
    split(residency, end);
    for (uint32_t i = rota_hazard_find(residency, begin);
         i < residency->range_count && residency->ranges[i].begin < end; i++) {
        rota_hazard_want(runtime, residency->ranges[i].writer);
        add_reader(runtime, &residency->ranges[i], point);
    }
    join(residency, begin, end);
}

void rota_hazard_write(rota_runtime *runtime, rota_residency *residency, uint64_t begin, uint64_t end,
                       uint64_t point, rota_places valid) {
    if (residency->owner) rota_replay_disown(residency);
    split(residency, begin);
    split(residency, end);
    for (uint32_t i = rota_hazard_find(residency, begin);
         i < residency->range_count && residency->ranges[i].begin < end; i++) {
        rota_range *range = &residency->ranges[i];
        rota_hazard_want(runtime, range->writer);
        for (uint32_t r = 0; r < range->reader_count; r++) rota_hazard_want(runtime, range->readers[r]);
        range->writer = point;
        range->reader_count = 0;
        set_valid(range, begin, end, valid);
    }
    join(residency, begin, end);
}

void rota_hazard_move(rota_runtime *runtime, rota_residency *residency, uint64_t begin, uint64_t end,
                      uint64_t point, const rota_device *to) {
    rota_places bit = rota_residency_bit(residency, to);
    if (residency->owner) rota_replay_disown(residency);
    split(residency, begin);
    split(residency, end);
    for (uint32_t i = rota_hazard_find(residency, begin);
         i < residency->range_count && residency->ranges[i].begin < end; i++) {
        rota_range *range = &residency->ranges[i];
        /* The move waits for the writer and then stands for it. Readers of other devices' copies go on; a
         * later writer waits for them and for the move. Readers of this memory may still look at the bytes
         * that the move replaces: a plan's segment may read there what its segment on another device
         * overwrites. */
        rota_hazard_want(runtime, range->writer);
        for (uint32_t r = 0; r < range->reader_count; r++) {
            const rota_device *reader = runtime->devices[rota_point_device(range->readers[r])];
            /* A full list has readers that stand for others. */
            if (rota_residency_bit(residency, reader) == bit || range->reader_count == ROTA_READERS_MAX)
                rota_hazard_want(runtime, range->readers[r]);
        }
        range->writer = point;
        set_valid(range, begin, end, range->valid | bit);
    }
    join(residency, begin, end);
}

void rota_hazard_place(rota_residency *residency, uint64_t begin, uint64_t end, rota_places valid) {
    split(residency, begin);
    split(residency, end);
    for (uint32_t i = rota_hazard_find(residency, begin);
         i < residency->range_count && residency->ranges[i].begin < end; i++)
        set_valid(&residency->ranges[i], begin, end, valid);
    join(residency, begin, end);
}

/* ---- Clocks ---- */

/* What a work knows that waited for `value` of the timeline; NULL: nothing beyond the value. */
static const uint64_t *clock_at(const rota_timeline *timeline, uint64_t value) {
    for (uint32_t back = 1; back <= ROTA_CLOCK_HISTORY; back++) {
        const rota_clock_entry *entry =
            &timeline->history[(timeline->history_next + ROTA_CLOCK_HISTORY - back) % ROTA_CLOCK_HISTORY];
        if (entry->from_value == 0) return NULL;
        if (entry->from_value <= value) return entry->clock;
    }
    return NULL;
}

static rota_timeline *timeline_at(rota_runtime *runtime, uint32_t index) {
    return &runtime->devices[index / runtime->queue_count]->timelines[index % runtime->queue_count];
}

/* Whether waiting for another of the wanted values proves this one. Only values of the work's own device do,
 * and only of values of its own: a wait for another device ends without having been kept when that one is
 * lost, and then nothing that it had waited for is known. */
static bool implied_by_other(rota_runtime *runtime, uint32_t which, uint32_t device) {
    uint32_t t = runtime->touched[which];
    if (t / runtime->queue_count != device) return false;
    for (uint32_t i = 0; i < runtime->touched_count; i++) {
        uint32_t other = runtime->touched[i];
        if (i == which || runtime->wanted[other] == 0 || other / runtime->queue_count != device) continue;
        const uint64_t *clock = clock_at(timeline_at(runtime, other), runtime->wanted[other]);
        if (clock && clock[t] >= runtime->wanted[t]) return true;
    }
    return false;
}

/* Whether what the timeline's works wrote, or came after, may lie in memory that this device has too. Its own
 * points aside, any may stand for those of the device that it shares memory with: a move's stands for the
 * writer's. */
static bool brings_shared(const rota_runtime *runtime, const rota_device *device, uint32_t timeline) {
    return ra_load_relaxed(&device->is_shared) && timeline / runtime->queue_count != device->index;
}

void rota_hazard_settle(rota_runtime *runtime, rota_work *work) {
    rota_submission *submission = work->submission;
    rota_device *device = work->device;
    rota_timeline *own = &device->timelines[work->queue];
    uint32_t own_index = device->index * runtime->queue_count + work->queue;
    uint32_t dropped = 0, on_device = 0;
    work->first_wait = submission->wait_count;
    work->first_hold = submission->hold_count;
    for (uint32_t i = 0; i < runtime->touched_count; i++) {
        uint32_t t = runtime->touched[i];
        uint64_t value = runtime->wanted[t];
        if (t == own_index && value >= work->value) {
            runtime->wanted[t] = 0; /* the work's own accesses */
        } else if (t / runtime->queue_count == device->index && own->clock[t] >= value) {
            runtime->wanted[t] = 0;
            dropped++;
        } else if (t / runtime->queue_count != device->index || device->exec->caps.unified_host) {
            /* Seen complete by the host: on host memory, and for holds, that is all there is to wait for. A
             * GPU's queues need the wait all the same: it makes the writes visible. */
            if (ra_load_acquire(&timeline_at(runtime, t)->completed) >= value) { /* with advanced */
                runtime->wanted[t] = 0;
                dropped++;
                if (own->clock[t] >= value) continue; /* acquired by a work before */
                own->clock[t] = value;
                if (brings_shared(runtime, device, t)) work->acquires = true;
            }
        }
    }
    if (runtime->touched_count > 1)
        for (uint32_t i = 0; i < runtime->touched_count; i++)
            if (runtime->wanted[runtime->touched[i]] != 0 && implied_by_other(runtime, i, device->index)) {
                runtime->wanted[runtime->touched[i]] = 0;
                dropped++;
            }
    bool learned = false;
    uint32_t timelines = ra_load_acquire(&runtime->device_count) * runtime->queue_count;
    for (uint32_t i = 0; i < runtime->touched_count; i++) {
        uint32_t t = runtime->touched[i];
        uint64_t value = runtime->wanted[t];
        runtime->wanted[t] = 0;
        if (value == 0) continue;
        uint32_t queue = t % runtime->queue_count;
        if (t / runtime->queue_count == device->index) {
            submission->waits[submission->wait_count++] = (rota_exec_wait){queue, value};
        } else {
            uint64_t point = rota_point(t / runtime->queue_count, queue, value);
            submission->holds[submission->hold_count++] = rota_across_hold(work, point, &on_device);
            if (brings_shared(runtime, device, t)) work->acquires = true;
        }
        if (own->clock[t] < value) own->clock[t] = value;
        if (t == own_index) continue;
        learned = true;
        if (t / runtime->queue_count != device->index) continue; /* as in implied_by_other */
        const uint64_t *clock = clock_at(timeline_at(runtime, t), value);
        for (uint32_t k = 0; clock && k < timelines; k++)
            if (own->clock[k] < clock[k]) own->clock[k] = clock[k];
    }
    runtime->touched_count = 0;
    if (learned) {
        rota_clock_entry *entry = &own->history[own->history_next];
        own->history_next = (own->history_next + 1) % ROTA_CLOCK_HISTORY;
        entry->from_value = work->value;
        memcpy(entry->clock, own->clock, timelines * sizeof *entry->clock);
    }
    work->wait_count = submission->wait_count - work->first_wait;
    work->hold_count = submission->hold_count - work->first_hold;
    if (dropped) (void)ra_fetch_add_relaxed(&runtime->stat_waits_dropped, dropped);
}
