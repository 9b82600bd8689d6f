/* Hazards between submissions: who last wrote and since read each range of a persistent buffer, and which
 * waits follow (clocks.c). The sequencer's alone, so nothing here is shared. */
#include "sched/runtime/memory/ranges.h"
#include "sched/runtime/order/hazard.h"
#include "sched/runtime/order/order.h"
#include "sched/runtime/order/replay.h"
#include "sched/runtime/order/wanted.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/timeline.h"

/* When the list has become twice as long it is gone over as a whole: that costs O(1) a cut. */
void rota_hazard_fold(rota_residency *residency, uint64_t begin, uint64_t end) {
    if (residency->owner) rota_replay_disown(residency);
    if (residency->range_count < residency->fold_at) {
        rota_ranges_join(residency, begin, end, true);
        return;
    }
    rota_ranges_join(residency, 0, residency->buffer->size_bytes, true);
    residency->fold_at = 2 * residency->range_count;
    if (residency->fold_at < ROTA_RANGES_FOLD_AT_LEAST) residency->fold_at = ROTA_RANGES_FOLD_AT_LEAST;
}

static void want_settled(rota_runtime *runtime, rota_wanted *wanted, const rota_residency *residency) {
    for (uint32_t i = 0; i < residency->settled_count; i++)
        rota_wanted_add(wanted, runtime->queue_count, residency->settled[i]);
}

/* The first range from `begin` on, cut there and at `end`, of a residency that no replay owns any more; what all of its
 * uses wait for is wanted. */
static rota_range *cut(rota_sequencer *sequencer, rota_wanted *wanted, rota_residency *residency,
                       uint64_t begin, uint64_t end) {
    rota_assert_sequencer(sequencer);
    if (residency->owner) rota_replay_disown(residency);
    rota_range *first = rota_ranges_cut(residency, begin, end);
    want_settled(sequencer->runtime, wanted, residency);
    return first;
}

static void add_reader(rota_runtime *runtime, rota_wanted *wanted, rota_range *range, uint64_t point) {
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
    rota_wanted_add(wanted, runtime->queue_count, range->readers[0]);
    range->readers[0] = point;
    range->is_joint = true;
}

void rota_hazard_read(rota_sequencer *sequencer, rota_wanted *wanted, rota_residency *residency,
                      uint64_t begin, uint64_t end, uint64_t point) {
    rota_runtime *runtime = sequencer->runtime;
    rota_range *first = cut(sequencer, wanted, residency, begin, end);
    for (rota_range *range = first; range && range->begin < end; range = range->next) {
        rota_wanted_add(wanted, runtime->queue_count, range->writer);
        add_reader(runtime, wanted, range, point);
    }
    rota_ranges_join(residency, begin, end, false);
}

void rota_hazard_write(rota_sequencer *sequencer, rota_wanted *wanted, rota_residency *residency,
                       uint64_t begin, uint64_t end, uint64_t point, rota_copies valid) {
    rota_runtime *runtime = sequencer->runtime;
    rota_range *first = cut(sequencer, wanted, residency, begin, end);
    for (rota_range *range = first; range && range->begin < end; range = range->next) {
        rota_wanted_add(wanted, runtime->queue_count, range->writer);
        for (uint32_t r = 0; r < range->reader_count; r++)
            rota_wanted_add(wanted, runtime->queue_count, range->readers[r]);
        range->writer = point;
        range->reader_count = 0;
        range->is_joint = false;
        rota_range_set_valid(range, begin, end, valid);
    }
    rota_ranges_join(residency, begin, end, false);
}

uint32_t rota_hazard_migration(rota_sequencer *sequencer, rota_wanted *wanted, rota_residency *residency,
                               uint64_t begin, uint64_t end, uint64_t point, const rota_device *to,
                               rota_unwritten *out_unwritten) {
    rota_runtime *runtime = sequencer->runtime;
    uint32_t count = 0;
    rota_copies bit = rota_residency_bit(residency, to);
    rota_range *first = cut(sequencer, wanted, residency, begin, end);
    for (rota_range *range = first; range && range->begin < end; range = range->next) {
        /* The move waits for the writer and then stands for it. Readers of other devices' copies go on; a
         * later writer waits for them and for the move. Readers of this memory may still look at the bytes
         * that the move replaces: a plan's segment may read there what its segment on another device
         * overwrites. */
        rota_wanted_add(wanted, runtime->queue_count, range->writer);
        for (uint32_t r = 0; r < range->reader_count; r++) {
            const rota_device *reader = runtime->devices[rota_point_device(range->readers[r])];
            if (rota_residency_bit(residency, reader) == bit || range->is_joint)
                rota_wanted_add(wanted, runtime->queue_count, range->readers[r]);
        }
        const bool has_passed = range->writer == ROTA_POINT_NONE || rota_point_passed(runtime, range->writer);
        if (!has_passed)
            out_unwritten[count++] = (rota_unwritten){range->begin > begin ? range->begin : begin,
                                                      range->end < end ? range->end : end, range->writer};
        range->writer = point;
        rota_range_set_valid(range, begin, end, range->valid | bit);
    }
    rota_ranges_join(residency, begin, end, false);
    return count;
}

/* ---- Clocks ---- */
