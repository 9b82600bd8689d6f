/* Tickets: what their cells say while they end, fail and go on to later tickets, and who waits for them
 * (sched/runtime/caller/tickets.c, ticket_state.c, failures.c, lanes.c, sequencer.c, loss.c, timeline.c, base/sleep.c,
 * chain.c, progress.c, pins.c), and who cancels them (cancel.c, cancels.c). Chunks are of two cells, so that the fifth
 * ticket of a lane has the first one's (tickets.plants). The sequencer takes records as it does; what a record becomes,
 * its device and the completer are the short ones of tickets_world.h, which write to cells as record.c, judge.c and
 * complete.c do. */
#include "tickets_world.h"

/* ---- Executions ---- */

static void prepare(unsigned producer) {
    memset((void *)&lane, 0, sizeof lane);
    memset((void *)&store, 0, sizeof store);
    memset((void *)&device, 0, sizeof device);
    memset((void *)submissions, 0, sizeof submissions);
    memset((void *)cells, 0, sizeof cells);
    memset((void *)by_value, 0, sizeof by_value);
    memset(fates, 0, sizeof fates);
    memset(results, 0, sizeof results);
    runtime.sequencer->cancels = (rota_cancels){0, NULL};
    ra_store_relaxed(&runtime.lanes.cancels_asked, 0);
    ra_store_relaxed(&runtime.failed.active, 0);
    ra_store_relaxed(&runtime.handle.submitters[0].asleep, 0);
    ra_store_relaxed(&noted, 0);
    for (unsigned q = 0; q < QUEUES; q++) {
        rota_chain *chain = timelines[q].chain;
        memset((void *)&timelines[q], 0, sizeof timelines[q]);
        timelines[q].chain = chain;
    }
    memset((void *)&runtime.completing.delivery_waiters, 0, sizeof runtime.completing.delivery_waiters);
    memset((void *)&runtime.failed.mutex, 0, sizeof runtime.failed.mutex);
    lanes_forget_threads();
    preparing = producer;
    may_stop = has_stopped = false;
    made = recycled = 0;
    device.runtime = &runtime;
    device.timelines = timelines;
    device.id[0] = 'd';
    runtime.devices[0] = &device;
    ra_store_relaxed(&device.queues_used, QUEUES);
    device.outbox = &outbox;
    runtime.queue_count = runtime.plan_queue_count = QUEUES;
    ra_store_relaxed(&runtime.device_count, 1);
    static rota_lane_block block;
    block = (rota_lane_block){&lane, &store};
    runtime.lanes.blocks[0] = block;
    runtime.handle.sequence_first = runtime.handle.sequence_base = FIRST - 1;
    runtime.options.staging_idle_ns = UINT64_MAX / 2;
    runtime.options.timeout_ns = TIMEOUT_NS;
    runtime.sequencer->idle_looked_ns = 0;
    runtime.sequencer->rounds = 0;
    runtime.sequencer->next_number = 0;
    runtime.lanes.chunks.free_chunks = NULL;
    runtime.lanes.chunks.slabs = NULL;
    runtime.sequencer->pool->pinned = NULL;
    static _Atomic uint32_t next[2];
    ra_store_relaxed(&runtime.handle.lane_next[0], next);
    ra_store_relaxed(&runtime.handle.generation, 1);
    ra_store_relaxed(&runtime.lanes.ready, 1);
    ra_store_relaxed(&runtime.handle.lanes_free, 0);
    ra_store_relaxed(&runtime.lanes.high, 0);
    ra_store_relaxed(&runtime.lanes.order_number, 0);
    ra_store_relaxed(&runtime.stats.spin_ns, 0);
    ra_store_relaxed(&runtime.completing.delivered, 0);
    ra_store_relaxed(&runtime.stats.submissions, 0);
    ra_store_relaxed(&runtime.stats.failed, 0);
    ra_store_relaxed(&runtime.sequencing.interest, 0);
    ra_store_relaxed(&runtime.completing.interest, 0);
    ra_store_relaxed(&runtime.sequencing.sleeper.asleep, 0);
    ra_store_relaxed(&runtime.completing.sleeper.asleep, 0);
    ra_store_relaxed(&given, 0);
    uint32_t index;
    (void)rota_lane_of_thread(&runtime, &index);
    ra_store_relaxed(&runtime.lanes.provision_wanted, 0);
    explore_name(&lane, sizeof lane, "lane");
    explore_name(&store, sizeof store, "store");
    explore_name(timelines, sizeof timelines, "timelines");
    explore_name(submissions, sizeof submissions, "submissions");
    explore_name(results, sizeof results, "results");
    explore_name(&runtime, sizeof runtime, "runtime");
    explore_name(&given, 4, "given");
}

static void take_one(void) {
    const uint64_t head = ra_load_relaxed(&lane.head);
    rota_sequence_record(runtime.sequencer, &lane, 0, &store.records[head % ROTA_LANE_RECORDS]);
    ra_store_relaxed(&lane.head, head + 1);
}

/* One that was published, and one that was taken, too. */
static void begin_published(void) {
    prepare(3);
    (void)publish();
}
static void begin_taken(void) {
    begin_published();
    take_one();
}
static void begin_taken_fails(void) {
    begin_taken();
    fates[0].fails = true;
}
static void begin_published_fails(void) {
    begin_published();
    fates[0].fails = true;
}
static void begin_published_early(void) {
    begin_published();
    fates[0].early = true;
}
static void begin_hosted(void) {
    prepare(3);
    fates[0].by_delivery = true;
    (void)publish();
    take_one();
}
static void begin_hosted_fails(void) {
    begin_hosted();
    fates[0].fails = true;
}
/* A second one that fails, and the first one doesn't. */
static void begin_two_fail(void) {
    prepare(3);
    fates[1].fails = true;
    for (unsigned i = 0; i < 2; i++) {
        (void)publish();
        take_one();
    }
}

/* Two tickets have ended, the third was published; with the fifth the first one's cell is used again. */
static void begin_old(bool first_fails, bool last_fails) {
    prepare(2);
    fates[0].fails = first_fails;
    fates[4].early = last_fails;
    for (unsigned i = 0; i < 2; i++) {
        (void)publish();
        take_one();
        end_value(i + 1);
    }
    (void)publish();
    ra_store_relaxed(&runtime.lanes.provision_wanted, 0);
}
static void begin_old_fails(void) {
    begin_old(true, false);
}
static void begin_old_is_good(void) {
    begin_old(false, true);
}
static void begin_both_fail(void) {
    begin_old(true, true);
}

/* The first one has not ended: where its chunk is used again, it has by then. */
static void begin_ending(void) {
    prepare(3);
    fates[0].fails = true;
    fates[1].early = true;
    for (unsigned i = 0; i < 2; i++) {
        (void)publish();
        take_one();
    }
    (void)publish();
    ra_store_relaxed(&runtime.lanes.provision_wanted, 0);
}

static void begin_runs(void) {
    prepare(3);
    rota_ticket_set_failed(&runtime, &cells[0], ticket_of(0).id, causes[0].status, reason_of(0, 1));
}

static void begin_hung(void) {
    begin_published();
    ra_store_relaxed(&timelines[0].issued, TICKETS - 1);
    take_one();
    ra_store_relaxed(&timelines[1].issued, 9);
    ra_store_relaxed(&timelines[1].handed_over, 9);
}

static void begin_message(void) {
    begin_two_fail();
    fates[1].fails = false;
    may_stop = true;
}

/* All is recycled but what a stopped thread reads. */
static void end_message(void) {
    rota_sequence_reap(runtime.sequencer, true);
    explore_check(recycled + has_stopped == made, "of %u submissions %u were recycled", made, recycled);
}

static void begin_published_stops(void) {
    begin_published();
    may_stop = true;
}

/* Who is cancelled is, and nobody else; executors are made to ask while it has not ended, and no longer. */
static void expect_cancelled(unsigned i, bool is, bool has_ended) {
    explore_check(has_ended ||
                      (rota_submission_cancelled_by(&submissions[i]) != ROTA_CANCELLED_BY_NOBODY) == is,
                  "ticket %u was%s cancelled, and is%s", i, is ? "" : " not", is ? " not" : "");
    const uint32_t active = ra_load_relaxed(&runtime.failed.active);
    const bool asks = active & ROTA_FAILED_CANCELS;
    explore_check(!(active & ROTA_FAILED_CANCELS_NEW), "the sequencer has not seen that one was cancelled");
    explore_check(asks == (is && !has_ended), "executors are%s made to ask", asks ? "" : " not");
}
static void end_first_cancelled(void) {
    expect_cancelled(0, true, false);
}
static void end_second_cancelled(void) {
    expect_cancelled(1, true, false);
}
static void end_first_ended(void) {
    expect_cancelled(0, true, true);
}
/* Another one, which has ended, may be told all the same: then executors ask until all that came by then have. */
static void end_last_cancelled(void) {
    const bool is = ra_load_relaxed(&noted) >> 4 & 1u;
    explore_check((rota_submission_cancelled_by(&submissions[4]) != ROTA_CANCELLED_BY_NOBODY) == is,
                  "the last ticket was%s cancelled, and is%s", is ? "" : " not", is ? " not" : "");
    explore_check(!is || ra_load_relaxed(&runtime.failed.active) & ROTA_FAILED_CANCELS,
                  "executors are not made to ask");
}

/* What was cancelled before has ended, and is about to be forgotten. */
static void begin_forgetting(void) {
    begin_two_fail();
    fates[1].fails = false;
    end_value(1);
    ra_store_relaxed(&runtime.lanes.cancels_asked, 1);
    ra_store_relaxed(&runtime.failed.active, ROTA_FAILED_CANCELS);
    runtime.sequencer->cancels = (rota_cancels){1, NULL};
}

int main(int argc, char **argv) {
    static const explore_scenario scenarios[] = {
        {"a poll of one that fails", 4, 3, {poll_ending, end_one}, begin_taken_fails, NULL, false, 0},
        {"a wait from submission on",
         2,
         2,
         {wait_first, end_one, sequence},
         begin_published,
         NULL,
         false,
         1 << 2},
        {"a wait for one that fails",
         2,
         2,
         {wait_first, end_one, sequence},
         begin_published_fails,
         NULL,
         false,
         1 << 2,
         1},
        {"a wait for one that fails early",
         4,
         3,
         {wait_first, sequence},
         begin_published_early,
         NULL,
         false,
         1 << 1},
        {"a wait for a delivery", 3, 2, {wait_first, end_one, deliver_first}, begin_hosted, NULL, false, 0},
        {"a wait for no delivery",
         3,
         2,
         {wait_first, end_one, deliver_first},
         begin_hosted_fails,
         NULL,
         false,
         0},
        {"two waits", 3, 2, {wait_first, wait_second, end_two}, begin_two_fail, NULL, false, 0},
        {"a cell of one that failed goes on",
         2,
         1,
         {poll_first, sequence, submit_two},
         begin_old_fails,
         NULL,
         false,
         1 << 1},
        {"a cell goes on to one that fails",
         2,
         1,
         {poll_first, sequence, submit_two},
         begin_old_is_good,
         NULL,
         false,
         1 << 1},
        {"a cell of one that two ask about goes on",
         1,
         1,
         {poll_first, sequence, submit_two, wait_first},
         begin_old_fails,
         NULL,
         false,
         1 << 1},
        {"a cell of two that fail",
         1,
         1,
         {poll_first, sequence, submit_two, poll_last},
         begin_both_fail,
         NULL,
         false,
         1 << 1},
        {"a cell that may go on under a wait",
         1,
         1,
         {wait_first, end_one, sequence, submit_two},
         begin_ending,
         NULL,
         false,
         1 << 2},
        {"runs of failures", 3, 2, {find_first, fail_every_other, find_others}, begin_runs, NULL, false, 0},
        {"others get on", 2, 2, {wait_in_vain, others_get_on}, begin_hung, NULL, true, 0},
        {"it gets on slowly", 2, 2, {wait_for_slow, own_gets_on}, begin_hung, NULL, true, 0},
        {"a message about one that ends",
         3,
         2,
         {wait_shortly, end_two, sequence},
         begin_message,
         end_message,
         false,
         1 << 2},
        {"a cancel while the record is taken",
         4,
         3,
         {cancel_first, sequence},
         begin_published,
         end_first_cancelled,
         false,
         1 << 1},
        {"two cancel, and one stops",
         2,
         2,
         {cancel_first, cancel_first, sequence},
         begin_published_stops,
         end_first_cancelled,
         false,
         1 << 2},
        {"a cancel of one that ends",
         2,
         2,
         {cancel_first, end_one, sequence},
         begin_published,
         end_first_ended,
         false,
         1 << 2},
        {"nodes of one that is cancelled",
         3,
         2,
         {cancel_first, begin_nodes_of_first, sequence},
         begin_taken,
         end_first_cancelled,
         false,
         1 << 2},
        {"a cancel while others are forgotten",
         3,
         2,
         {cancel_second, begin_nodes_of_second, sequence},
         begin_forgetting,
         end_second_cancelled,
         false,
         1 << 2},
        {"a cell goes on under a cancel",
         1,
         1,
         {cancel_first, sequence, submit_two, cancel_last},
         begin_old_fails,
         end_last_cancelled,
         false,
         1 << 1},
    };
    for (unsigned q = 0; q < QUEUES; q++) timelines[q].chain = rota_chain_create(1);
    runtime.queue_count = QUEUES;
    if (rota_sequencer_create(&runtime) != ROTA_OK) return 1;
    return explore_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
