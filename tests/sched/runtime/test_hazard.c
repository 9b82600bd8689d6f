/* What the sequencer decides, asked of a runtime with neither threads nor drivers, whose points pass when the
 * test says so: who waits for whom, which waits are dropped, what is held for a lost device, when a ticket has ended,
 * and when the memory of tickets is there for others. Linked with --wrap for mmap. */
#include "tests/kit/support.h"

#include <string.h>
#include <sys/mman.h>
#include "base/atomic.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/memory/ranges.h"
#include "sched/runtime/memory/residency.h"
#include "sched/runtime/order/clocks.h"
#include "sched/runtime/order/hazard.h"
#include "sched/runtime/order/wanted.h"
#include "sched/runtime/sequencer/last_use.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/shared/device_life.h"
#include "sched/runtime/shared/lanes.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/released.h"
#include "sched/runtime/shared/ticket_state.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/submitter/ring.h"

enum { DEVICES = 3, QUEUES = 8, TIMELINES = DEVICES * QUEUES, BYTES = 4096 };

typedef struct desk {
    rota_runtime runtime;
    rota_sequencer sequencer;
    rota_last_uses last_uses;
    rota_device devices[DEVICES];
    rota_outbox outboxes[DEVICES];
    rota_exec_device execs[DEVICES];
    rota_timeline timelines[TIMELINES];
    uint64_t clocks[TIMELINES][TIMELINES], history[TIMELINES][ROTA_CLOCK_HISTORY][TIMELINES];
    uint64_t wanted[TIMELINES];
    uint32_t touched[TIMELINES];
    rota_submission submission;
    rota_exec_wait waits[TIMELINES];
    uint64_t holds[TIMELINES];
    rota_buffer buffer;
    rota_residency residency;
    rota_lane lane;
    rota_lane_store store;
    rota_cause cause;
} desk;

static desk *desk_new(void) {
    static desk d;
    memset(&d, 0, sizeof d);
    rota_runtime *r = &d.runtime;
    r->queue_count = r->plan_queue_count = QUEUES;
    r->sequencer = &d.sequencer;
    d.sequencer.runtime = r;
    d.sequencer.last_uses = &d.last_uses;
    d.sequencer.wanted = (rota_wanted){.value = d.wanted, .touched = d.touched};
    ra_store_relaxed(&r->device_count, DEVICES);
    for (uint32_t i = 0; i < DEVICES; i++) {
        rota_device *device = r->devices[i] = &d.devices[i];
        *device = (rota_device){
            .runtime = r, .index = i, .domain = i, .exec = &d.execs[i], .outbox = &d.outboxes[i]};
        device->timelines = &d.timelines[i * QUEUES];
        ra_store_relaxed(&device->lost_cause, &d.cause);
    }
    for (uint32_t t = 0; t < TIMELINES; t++) {
        d.timelines[t].order.clock = d.clocks[t];
        for (uint32_t h = 0; h < ROTA_CLOCK_HISTORY; h++)
            d.timelines[t].order.history[h].clock = d.history[t][h];
    }
    d.cause = (rota_cause){.status = ROTA_DEVICE_LOST, .number_at = UINT32_MAX, .message = "lost"};
    d.submission = (rota_submission){.made = {.waits = d.waits, .foreign_waits = d.holds}};
    d.buffer.size_bytes = BYTES;
    d.residency.runtime = r;
    d.residency.buffer = &d.buffer;
    d.residency.released.kind = ROTA_RELEASED_BUFFER;
    rota_ranges_start(&d.residency);
    return &d;
}

static rota_timeline *timeline(desk *d, uint32_t device, uint32_t queue) {
    return &d->timelines[device * QUEUES + queue];
}

/* ---- Ranges ---- */

/* The access is the point's, which waits for what `hazard` wants; nothing is wanted any more afterwards. */
static uint64_t take_wanted(desk *d, uint32_t device, uint32_t queue) {
    const uint64_t value = d->wanted[device * QUEUES + queue];
    memset(d->wanted, 0, sizeof d->wanted);
    d->sequencer.wanted.count = 0;
    return value;
}

static void read_by(desk *d, uint64_t begin, uint64_t end, uint64_t point) {
    rota_hazard_read(&d->sequencer, &d->sequencer.wanted, &d->residency, begin, end, point);
}

/* As many readers as a range can name, the first of them of the device that the bytes move to. One more waits
 * for that one and stands for both from then on: the move, which overwrites what that one reads, waits for it
 * though it is another device's. Of readers that stand for nobody else, a move waits for its own device's
 * alone. */
static void a_move_waits_for_whom_others_stand_for(void **state) {
    (void)state;
    for (uint32_t more = 0; more < 2; more++) {
        desk *d = desk_new();
        read_by(d, 0, BYTES, rota_point(0, 0, 1));
        for (uint32_t q = 0; q < ROTA_READERS_MAX - 1 + more; q++) {
            (void)take_wanted(d, 0, 0);
            read_by(d, 0, BYTES, rota_point(1, q, 3));
        }
        assert_int_equal(take_wanted(d, 0, 0), more); /* the last's */
        rota_hazard_migration(&d->sequencer, &d->sequencer.wanted, &d->residency, 0, BYTES,
                              rota_point(0, 7, 1), &d->devices[0], (rota_unwritten[2]){{0}});
        assert_int_equal(d->wanted[more ? QUEUES + ROTA_READERS_MAX - 1 : 0], more ? 3 : 1);
        assert_int_equal(d->wanted[QUEUES], more ? 3 : 0);
        rota_ranges_end(&d->residency);
    }
}

/* Two ranges that name the same readers are one only if these stand for the same: in the second half one
 * stands for a reader of the device that the bytes move to. */
static void readers_that_stand_for_others_are_not_forgotten(void **state) {
    (void)state;
    desk *d = desk_new();
    read_by(d, 0, BYTES / 2, rota_point(1, 0, 1));
    read_by(d, BYTES / 2, BYTES, rota_point(0, 0, 5));
    for (uint32_t q = 1; q < ROTA_READERS_MAX; q++) read_by(d, 0, BYTES, rota_point(1, q, 1));
    (void)take_wanted(d, 0, 0);
    read_by(d, 0, BYTES, rota_point(1, 0, 2));
    assert_int_equal(take_wanted(d, 0, 0), 5);
    rota_hazard_migration(&d->sequencer, &d->sequencer.wanted, &d->residency, BYTES / 2, BYTES,
                          rota_point(0, 7, 1), &d->devices[0], (rota_unwritten[2]){{0}});
    assert_int_equal(take_wanted(d, 1, 0), 2);
    rota_ranges_end(&d->residency);
}

/* Ranges whose mixed addresses agree have the same priority: each is found all the same, and it is that one
 * which is taken out where two are joined. */
static void ranges_of_one_priority(void **state) {
    (void)state;
    enum { PARTS = 16, PART = BYTES / PARTS };
    desk *d = desk_new();
    uint64_t writers[PARTS];
    for (uint32_t i = 0; i < PARTS; i++)
        rota_hazard_write(&d->sequencer, &d->sequencer.wanted, &d->residency, i * PART, (i + 1) * PART,
                          writers[i] = rota_point(0, 0, i + 1), 1);
    assert_int_equal(d->residency.range_count, PARTS);
    for (rota_range *range = &d->residency.first; range; range = range->next) range->priority = 1;
    for (uint32_t i = 0; i < PARTS; i += 2) {
        (void)take_wanted(d, 0, 0);
        writers[i] = writers[i + 1] = rota_point(0, 0, PARTS + 1 + i);
        rota_hazard_write(&d->sequencer, &d->sequencer.wanted, &d->residency, i * PART, (i + 2) * PART,
                          writers[i], 1);
        assert_int_equal(take_wanted(d, 0, 0), i + 2);
        for (uint32_t part = 0; part < PARTS; part++) {
            const rota_range *range = rota_ranges_find(&d->residency, part * PART);
            assert_non_null(range);
            assert_in_range(part * PART, range->begin, range->end - 1);
            assert_int_equal(range->writer, writers[part]);
        }
    }
    assert_int_equal(d->residency.range_count, PARTS / 2);
    rota_ranges_end(&d->residency);
}

/* ---- Clocks ---- */

/* From the queue's `value` on its works come after that of another timeline. */
static void comes_after(desk *d, uint32_t device, uint32_t queue, uint64_t value, uint64_t point) {
    rota_timeline *t = timeline(d, device, queue);
    rota_clock_entry *entry = &t->order.history[t->order.history_next++];
    const uint32_t other = rota_point_device(point) * QUEUES + rota_point_queue(point);
    entry->from_value = value;
    entry->clock[other] = t->order.clock[other] = rota_point_value(point);
}

/* A work of the queue that is to come after these points, settled: its waits and holds. */
static rota_work settle(desk *d, uint32_t device, uint32_t queue, uint64_t value, const uint64_t *points,
                        uint32_t count) {
    rota_work work = {
        .submission = &d->submission, .device = &d->devices[device], .queue = (uint8_t)queue, .value = value};
    d->submission.made.wait_count = d->submission.made.foreign_wait_count = 0;
    for (uint32_t i = 0; i < count; i++) rota_wanted_add(&d->sequencer.wanted, QUEUES, points[i]);
    rota_hazard_settle(&d->sequencer, &d->sequencer.wanted, &work);
    for (uint32_t t = 0; t < TIMELINES; t++) assert_int_equal(d->wanted[t], 0);
    assert_int_equal(d->sequencer.wanted.count, 0);
    return work;
}

static void expect_wait(const desk *d, uint32_t index, uint32_t queue, uint64_t value) {
    assert_int_equal(d->waits[index].queue, queue);
    assert_int_equal(d->waits[index].value, value);
}

/* A wait for a value of the own device proves what that came after, at once and later; the order in which
 * they are wanted is all the same. */
static void waits_of_the_own_device_prove(void **state) {
    (void)state;
    const uint64_t both[][2] = {{rota_point(0, 1, 4), rota_point(0, 2, 9)},
                                {rota_point(0, 2, 9), rota_point(0, 1, 4)}};
    for (uint32_t order = 0; order < 2; order++) {
        desk *d = desk_new();
        comes_after(d, 0, 1, 3, rota_point(0, 2, 9));
        rota_work work = settle(d, 0, 0, 1, both[order], 2);
        assert_int_equal(work.wait_count, 1);
        expect_wait(d, 0, 1, 4);
        work = settle(d, 0, 0, 2, both[order], 2);
        assert_int_equal(work.wait_count + work.foreign_wait_count, 0);
        work = settle(d, 0, 0, 3, (uint64_t[]){rota_point(0, 2, 10)}, 1);
        assert_int_equal(work.wait_count, 1);
        expect_wait(d, 0, 2, 10);
        /* And whoever waits for that work comes after all of it. */
        work = settle(d, 0, 5, 1,
                      (uint64_t[]){rota_point(0, 0, 3), rota_point(0, 1, 4), rota_point(0, 2, 10)}, 3);
        assert_int_equal(work.wait_count, 1);
        expect_wait(d, 0, 0, 3);
    }
}

/* The other queue came after it only from a later value on. */
static void earlier_values_prove_nothing(void **state) {
    (void)state;
    desk *d = desk_new();
    comes_after(d, 0, 1, 3, rota_point(0, 2, 9));
    const rota_work work = settle(d, 0, 0, 1, (uint64_t[]){rota_point(0, 1, 2), rota_point(0, 2, 9)}, 2);
    assert_int_equal(work.wait_count, 2);
}

/* The own queue's earlier works are waited for, once, unless another wait proves them; the work's own value
 * never is.
 */
static void the_own_queue_is_waited_for(void **state) {
    (void)state;
    desk *d = desk_new();
    rota_work work = settle(d, 0, 0, 5, (uint64_t[]){rota_point(0, 0, 5)}, 1);
    assert_int_equal(work.wait_count, 0);
    work = settle(d, 0, 0, 6, (uint64_t[]){rota_point(0, 0, 5)}, 1);
    assert_int_equal(work.wait_count, 1);
    expect_wait(d, 0, 0, 5);
    work = settle(d, 0, 0, 7, (uint64_t[]){rota_point(0, 0, 5)}, 1);
    assert_int_equal(work.wait_count, 0);
    comes_after(d, 0, 1, 1, rota_point(0, 0, 7));
    work = settle(d, 0, 0, 8, (uint64_t[]){rota_point(0, 0, 7), rota_point(0, 1, 1)}, 2);
    assert_int_equal(work.wait_count, 1);
    expect_wait(d, 0, 1, 1);
    work = settle(d, 0, 0, 9, (uint64_t[]){rota_point(0, 0, 7)}, 1);
    assert_int_equal(work.wait_count, 0);
}

/* Waits for the own queue tell its clock nothing, so they push nothing out of its history: as many as that is long
 * later, its first work still proves what it came after. */
static void waits_for_the_own_queue_take_no_history(void **state) {
    (void)state;
    desk *d = desk_new();
    (void)settle(d, 0, 0, 1, (uint64_t[]){rota_point(0, 2, 9)}, 1);
    for (uint64_t value = 2; value < 2 + ROTA_CLOCK_HISTORY; value++) {
        const rota_work step = settle(d, 0, 0, value, (uint64_t[]){rota_point(0, 0, value - 1)}, 1);
        assert_int_equal(step.wait_count, 1);
    }
    const rota_work work = settle(d, 0, 1, 1, (uint64_t[]){rota_point(0, 0, 1), rota_point(0, 2, 9)}, 2);
    assert_int_equal(work.wait_count, 1);
    expect_wait(d, 0, 0, 1);
}

/* A wait for another device may end without having been kept, where that one is lost. So it proves nothing of
 * what that device's work came after: not of the own device, at once or later, and not of a third. Nor does a
 * value of the own device prove one of another. */
static void waits_for_other_devices_prove_nothing(void **state) {
    (void)state;
    const uint64_t other = rota_point(1, 1, 4);
    for (uint32_t third = 0; third < 3; third++) {
        const uint64_t before = rota_point(third, 2, 9);
        for (uint32_t at_once = 0; at_once < 2; at_once++) {
            desk *d = desk_new();
            comes_after(d, 1, 1, 3, before);
            rota_work work = settle(d, 0, 0, 1, (uint64_t[]){other, before}, 1 + at_once);
            assert_int_equal(work.foreign_wait_count, 1 + (at_once && third));
            assert_int_equal(work.wait_count, at_once && !third);
            assert_int_equal(rota_foreign_wait_point(d->holds[0]), other);
            if (at_once) continue;
            work = settle(d, 0, 0, 2, &before, 1);
            assert_int_equal(work.wait_count, !third);
            assert_int_equal(work.foreign_wait_count, third != 0);
            if (!third) expect_wait(d, 0, 2, 9);
        }
    }
    desk *d = desk_new();
    comes_after(d, 0, 2, 9, other);
    const rota_work work = settle(d, 0, 0, 1, (uint64_t[]){rota_point(0, 2, 9), other}, 2);
    assert_int_equal(work.wait_count, 1);
    assert_int_equal(work.foreign_wait_count, 1);
    assert_int_equal(rota_foreign_wait_point(d->holds[0]), other);
}

/* ---- What is held for lost devices ---- */

typedef enum undrained {
    IN_RING,
    IN_OVERFLOW,
    IN_DIRECT,
    BEHIND_GATE,
    WITH_EXECUTOR,
    UNDRAINED_COUNT
} undrained;

static void put_work(desk *d, undrained where, bool there) {
    rota_device *device = &d->devices[1];
    static rota_work work;
    switch (where) {
    case IN_RING:
        ra_store_relaxed(&device->handover.published, there);
        break;
    case IN_OVERFLOW:
        device->outbox->overflow_first = there ? &work : NULL;
        break;
    case IN_DIRECT:
        device->outbox->direct_count = there;
        break;
    case BEHIND_GATE:
        ra_store_relaxed(&device->gate.pending, there);
        break;
    case WITH_EXECUTOR:
        ra_store_relaxed(&timeline(d, 1, 7)->handed_over, there);
        break;
    case UNDRAINED_COUNT:
        break;
    }
}

/* A released buffer with memory on a lost device stays while that may have a work that touches it, wherever
 * that work is; and goes when it is through. One whose uses have passed goes at once from a device that is
 * well, however much that has to do. */
static void a_lost_devices_works_hold_buffers(void **state) {
    (void)state;
    for (undrained where = 0; where < UNDRAINED_COUNT; where++)
        for (uint32_t has_memory = 0; has_memory < 2; has_memory++)
            for (uint32_t lost = 0; lost < 2; lost++) {
                desk *d = desk_new();
                rota_exec_memory memory = {0};
                rota_released *dead = &d->residency.released;
                const bool stays = has_memory && lost;
                ra_store_relaxed(&d->devices[1].life, lost ? ROTA_LIFE_LOST : ROTA_LIFE_OPEN);
                ra_store_relaxed(&d->residency.memory[has_memory ? 1 : 0], &memory);
                put_work(d, where, true);
                rota_reclaim_sweep(&d->sequencer, dead);
                assert_ptr_equal(d->last_uses.retained, stays ? dead : NULL);
                assert_ptr_equal(ra_load_relaxed(&d->runtime.reclaiming.unused.head),
                                 stays ? NULL : &dead->entry);
                rota_reclaim_sweep(&d->sequencer, NULL);
                assert_ptr_equal(d->last_uses.retained, stays ? dead : NULL);
                put_work(d, where, false);
                rota_reclaim_sweep(&d->sequencer, NULL);
                assert_null(d->last_uses.retained);
                assert_ptr_equal(ra_load_relaxed(&d->runtime.reclaiming.unused.head), &dead->entry);
            }
}

/* ---- Tickets ---- */

enum { NUMBER = 7 };

static rota_ticket give_ticket(desk *d, uint64_t point, uint32_t cell_state) {
    const rota_ticket ticket = {&d->runtime, rota_ticket_id(1, 0)};
    rota_cell *cell = &d->store.first.cells[1];
    d->runtime.lanes.blocks[0].lanes = &d->lane;
    ra_store_relaxed(&d->runtime.lanes.ready, 1);
    d->lane.store = &d->store;
    ra_store_relaxed(&d->lane.sequence, 1);
    ra_store_relaxed(&d->store.chunks[0], &d->store.first);
    ra_store_relaxed(&cell->id, ticket.id);
    ra_store_relaxed(&cell->number, NUMBER);
    ra_store_relaxed(&cell->point, point);
    ra_store_relaxed(&cell->state, cell_state);
    return ticket;
}

/* While a lost device's thread takes the inputs, the caller's memory is in use: the ticket has not ended,
 * whether its last work was that device's, which will not pass, or another's, which has. */
static void a_ticket_ends_after_its_inputs_were_taken(void **state) {
    (void)state;
    for (uint32_t passed = 0; passed < 2; passed++)
        for (uint32_t number = NUMBER; number <= NUMBER + 1; number++) {
            desk *d = desk_new();
            const rota_ticket ticket = give_ticket(d, rota_point(passed ? 0 : 1, 2, 5), 0);
            rota_device *lost = &d->devices[1];
            assert_int_equal(rota_ticket_status(ticket), ROTA_BUSY);
            ra_store_relaxed(&lost->filling, number);
            ra_store_relaxed(&lost->life, ROTA_LIFE_LOST);
            if (passed) ra_store_relaxed(&timeline(d, 0, 2)->completed, 5);
            const rota_status end = passed ? ROTA_OK : ROTA_DEVICE_LOST;
            assert_int_equal(rota_ticket_status(ticket), number == NUMBER ? ROTA_BUSY : end);
            ra_store_relaxed(&lost->filling, 0);
            assert_int_equal(rota_ticket_status(ticket), end);
        }
}

static bool no_pages;
void *__real_mmap(void *where, size_t bytes, int protection, int flags, int file, off_t offset);
void *__wrap_mmap(void *where, size_t bytes, int protection, int flags, int file, off_t offset);
void *__wrap_mmap(void *where, size_t bytes, int protection, int flags, int file, off_t offset) {
    return no_pages ? MAP_FAILED : __real_mmap(where, bytes, protection, flags, file, offset);
}

/* Where there is no memory but for those chunks that ROTA_TICKET_HISTORY tickets and the newest ones are in, a lane
 * goes on for ever, each chunk being taken again as soon as its last ticket is old enough. */
static void a_lane_gets_on_with_the_chunks_it_has(void **state) {
    (void)state;
    enum { MORE = ROTA_TICKET_HISTORY / ROTA_CHUNK_CELLS, FIRST = 1 };
    static rota_cell_chunk more[MORE];
    desk *d = desk_new();
    rota_lane *lane = &d->lane;
    memset(more, 0, sizeof more);
    for (uint32_t i = 0; i < MORE; i++) {
        more[i].next_free = d->runtime.lanes.chunks.free_chunks;
        d->runtime.lanes.chunks.free_chunks = &more[i];
    }
    lane->store = &d->store;
    lane->first_chunk = FIRST;
    d->store.first.unsequenced = ROTA_CHUNK_CELLS;
    ra_store_relaxed(&d->store.chunks[FIRST], &d->store.first);
    ra_store_relaxed(&lane->chunk_end, FIRST + 1);
    no_pages = true;
    for (uint64_t sequence = FIRST * ROTA_CHUNK_CELLS; sequence < 40 * ROTA_CHUNK_CELLS; sequence++) {
        const bool is_there = sequence / ROTA_CHUNK_CELLS < ra_load_relaxed(&lane->chunk_end);
        if (!is_there) no_pages = false;
        assert_true(is_there);
        rota_lane_take(&d->runtime, lane, sequence)->unfinished--; /* it ends at once */
    }
    no_pages = false;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_move_waits_for_whom_others_stand_for),
        cmocka_unit_test(readers_that_stand_for_others_are_not_forgotten),
        cmocka_unit_test(ranges_of_one_priority),
        cmocka_unit_test(waits_of_the_own_device_prove),
        cmocka_unit_test(earlier_values_prove_nothing),
        cmocka_unit_test(the_own_queue_is_waited_for),
        cmocka_unit_test(waits_for_the_own_queue_take_no_history),
        cmocka_unit_test(waits_for_other_devices_prove_nothing),
        cmocka_unit_test(a_lost_devices_works_hold_buffers),
        cmocka_unit_test(a_ticket_ends_after_its_inputs_were_taken),
        cmocka_unit_test(a_lane_gets_on_with_the_chunks_it_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
