/* Lanes and the sequencer (sched/runtime/shared/lanes.c, sched/runtime/sequencer/sequencer.c): threads publish records,
 * each in a lane of its own, and the sequencer takes them. Rings, chunks and their number are small (lanes.plants), and
 * what becomes of a record is not here: it is judged when it is taken, and its ticket has ended then. */
#include <string.h>

#include "base/atomic.h"
#include "base/futex.h"
#include "explore.h"
#include "sched/runtime/sequencer/reap.h"
#include "sched/runtime/sequencer/record.h"
#include "sched/runtime/sequencer/sequencer.h"
#include "sched/runtime/shared/lanes.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/timeline.h"
#include "sched/runtime/shared/runtime.h"

enum { LANES = 4, PRODUCERS = 3, WORDS_MAX = 5 };

void *rota_sequencer_main(void *user);
rota_status rota_sequencer_create(rota_runtime *runtime);
void lanes_thread_ends(void *unused); /* lanes.c's, called by another name: lanes.plants */

static rota_runtime runtime;
static rota_lane lanes[LANES];
static rota_lane_store stores[LANES];
static unsigned expected[PRODUCERS]; /* records of each producer, at the end */
static unsigned producers;           /* how many there are */
static unsigned words_each;          /* of a record */
static uint32_t works_each;          /* likewise */
static bool goes_at_once;            /* they do, and may be over before the next record is taken */
static unsigned preparing;           /* whose calls those of `begin` are */
static uint64_t owners[LANES];       /* plain: a lane is one thread's */
/* What a thread may know of the others: how many of their calls have returned. */
static _Atomic uint32_t returned[PRODUCERS];
/* The sequencer's, plain. */
static uint32_t taken[PRODUCERS];
static bool may_be_over; /* what it took last */

/* ---- In place of what is called ---- */

#include "sequencer_rest.h"

void rota_sequence_reap(rota_sequencer *of, bool all) {
    (void)of, (void)all;
}
bool rota_point_passed(rota_runtime *of, uint64_t point) {
    (void)of, (void)point;
    return true;
}

/* Of what a record says: who published it, which of its records it is, and how many calls of each of the
 * others it knew to have returned. */
static uint64_t told(unsigned producer, unsigned index) {
    return ((uint64_t)producer << 8) + index + 1;
}

/* Nothing that may be over is untold of while another record is taken, and no works wait for more than a flush. */
static void check_told(const rota_lane *lane, const rota_record *record) {
    for (unsigned i = 0; may_be_over && i < LANES; i++)
        explore_check(lanes[i].untold == (lane == &lanes[i] ? record->sequence : 0),
                      "a ticket may be over, and who waits for it is not told before others are taken");
    explore_check(waiting_works < ROTA_HANDOVER_BATCH, "%u works are kept while another record is taken",
                  waiting_works);
}

rota_sequenced rota_sequence_record(rota_sequencer *of, rota_lane *lane, uint32_t index,
                                    const rota_record *record) {
    check_told(lane, record);
    rota_cell_chunk *chunk = rota_lane_take(of->runtime, lane, record->sequence);
    const uint64_t said = (uint64_t)(uintptr_t)record->object;
    const unsigned producer = (unsigned)(said >> 8), number = (unsigned)(said & 255) - 1;
    explore_check(producer < PRODUCERS && index < LANES, "a record was taken that nobody published");
    explore_check(number == taken[producer], "thread %u's record %u is taken as its number %u", producer,
                  number, taken[producer]);
    taken[producer]++;
    const uint64_t *words = &lane->store->words[record->payload_begin % ROTA_LANE_WORDS];
    explore_check(record->payload_words == words_each && words[0] == said,
                  "a record has another one's words");
    for (unsigned p = 0; p < PRODUCERS; p++) {
        const unsigned seen = (unsigned)(words[1] >> p * 8) & 255;
        explore_check(taken[p] >= seen,
                      "thread %u's record %u is taken before thread %u's record %u, whose submission had "
                      "returned before",
                      producer, number, p, seen - 1);
    }
    rota_cell *cell = &chunk->cells[record->sequence % ROTA_CHUNK_CELLS];
    explore_check(ra_load_relaxed(&cell->id) == rota_ticket_id(record->sequence, index),
                  "the record's cell is another ticket's");
    ra_store_release(&cell->point, ROTA_POINT_PASSED);
    rota_chunk_ended(chunk);
    may_be_over = goes_at_once;
    waiting_works += works_each;
    return (rota_sequenced){works_each, goes_at_once};
}

/* ---- Producers ---- */

/* Until there is room, as a wait of sched/runtime/caller/tickets.c sleeps until a record was taken. */
static void wait_for_room(rota_lane *lane) {
    const uint32_t word = ra_load_seq_cst(&lane->taken_word);
    (void)ra_fetch_add_seq_cst(&lane->sleepers, 1);
    const unsigned room = words_each > ROTA_LANE_WORDS / 2 ? 1 : ROTA_LANE_RECORDS;
    if (ra_load_relaxed(&lane->tail) - ra_load_seq_cst(&lane->head) >= room)
        (void)rota_futex_wait(&lane->taken_word, word, UINT64_MAX);
    (void)ra_fetch_add_seq_cst(&lane->sleepers, (uint32_t)-1);
}

static void submit(unsigned producer, unsigned index) {
    uint64_t words[WORDS_MAX] = {told(producer, index)};
    for (unsigned p = 0; p < producers; p++) words[1] |= (uint64_t)ra_load_acquire(&returned[p]) << p * 8;
    rota_ticket ticket;
    while (rota_lane_publish(&runtime, ROTA_RECORD_PLAN, (void *)(uintptr_t)words[0], NULL, words, words_each,
                             &ticket) == ROTA_BUSY) {
        uint32_t entry;
        rota_lane *lane = rota_lane_of_thread(&runtime, &entry);
        explore_check(ra_load_relaxed(&lane->tail) - lane->head_seen >= ROTA_LANE_RECORDS ||
                          lane->words_tail - lane->words_head_seen > ROTA_LANE_WORDS - words_each,
                      "there is no chunk for a ticket, though all before it have ended");
        wait_for_room(lane);
    }
    ra_store_release(&returned[producer], index + 1); /* for whoever looks */
}

static void submit_many(unsigned count) {
    for (unsigned i = 0; i < count; i++) submit(explore_self(), i);
}

static void submit_once(void) {
    submit_many(1);
}
static void submit_twice(void) {
    submit_many(2);
}
static void submit_second(void) {
    submit(explore_self(), 1);
}
static void submit_thrice(void) {
    submit_many(3);
}
static void submit_four(void) {
    submit_many(4);
}
/* From one before the end of a chunk: see begin_at_end. */
static void submit_on(void) {
    for (unsigned i = 6; i < 9; i++) submit(explore_self(), i);
}
static void submit_and_end(void) {
    submit_many(1);
    lanes_thread_ends(NULL);
}

static void sequence(void) {
    (void)rota_sequencer_main(&runtime);
}

/* ---- Lanes that change hands ---- */

static void own_lane(bool ends) {
    uint32_t index;
    explore_check(rota_lane_of_thread(&runtime, &index) != NULL, "there is no lane");
    owners[index] = explore_self() + 1;
    explore_check(lanes[index].store == &stores[index], "a lane has no store");
    if (ends) lanes_thread_ends(NULL);
}

static void own_and_end(void) {
    own_lane(true);
}
static void own_twice(void) {
    own_lane(true);
    own_lane(true);
}
static void own_for_good(void) {
    own_lane(false);
}

/* ---- Executions ---- */

extern void lanes_forget_threads(void);

static void begin_with(unsigned count, unsigned records) {
    memset((void *)lanes, 0, sizeof lanes);
    memset((void *)stores, 0, sizeof stores);
    memset((void *)returned, 0, sizeof returned);
    memset(taken, 0, sizeof taken);
    memset(owners, 0, sizeof owners);
    lanes_forget_threads();
    producers = count;
    words_each = 2;
    works_each = 1;
    waiting_works = 0;
    goes_at_once = may_be_over = false;
    for (unsigned p = 0; p < PRODUCERS; p++) expected[p] = records;
    runtime.lanes.blocks[0] = (rota_lane_block){lanes, stores};
    runtime.handle.sequence_first = runtime.handle.sequence_base = ROTA_CHUNK_CELLS - 1;
    runtime.options.staging_idle_ns = UINT64_MAX / 2;
    runtime.sequencer->idle_looked_ns = 0;
    runtime.sequencer->rounds = 0;
    runtime.lanes.chunks.free_chunks = NULL;
    runtime.lanes.chunks.slabs = NULL;
    ra_store_relaxed(&runtime.handle.generation, 1);
    ra_store_relaxed(&runtime.lanes.ready, LANES);
    ra_store_relaxed(&runtime.handle.lanes_free, 0);
    ra_store_relaxed(&runtime.lanes.high, 0);
    ra_store_relaxed(&runtime.lanes.order_number, 0);
    ra_store_relaxed(&runtime.lanes.provision_wanted, 0);
    ra_store_relaxed(&runtime.stats.spin_ns, 0);
    ra_store_relaxed(&runtime.sequencing.interest, 0);
    ra_store_relaxed(&runtime.sequencing.sleeper.asleep, 0);
    static _Atomic uint32_t next[LANES];
    memset((void *)next, 0, sizeof next);
    ra_store_relaxed(&runtime.handle.lane_next[0], next);
    explore_name(lanes, sizeof lanes, "lanes");
    explore_name(stores, sizeof stores, "stores");
    explore_name(returned, sizeof returned, "returned");
    explore_name(next, sizeof next, "lane_next");
    explore_name(&runtime.lanes.order_number, 8, "order number");
    explore_name(&runtime.handle.lanes_free, 8, "lanes_free");
    explore_name(&runtime.lanes.high, 4, "lane_high");
    explore_name(&runtime.lanes.provision_wanted, 4, "provision_wanted");
    explore_name(&runtime.sequencing.sleeper, 4, "asleep");
}

static void begin_once(void) {
    begin_with(2, 1);
}
static void begin_twice(void) {
    begin_with(2, 2);
}
static void begin_thrice(void) {
    begin_with(1, 3);
}
static void begin_four(void) {
    begin_with(1, 4);
}
static void begin_at_once(void) {
    begin_with(2, 2);
    goes_at_once = true;
}
/* As many as go over at once. */
static void begin_many_works(void) {
    begin_with(2, 2);
    works_each = ROTA_HANDOVER_BATCH;
}
/* Two records' words do not fit. */
static void begin_words(void) {
    begin_with(1, 3);
    words_each = WORDS_MAX;
}
static void begin_three(void) {
    begin_with(3, 1);
}

/* A round of the sequencer's for the one lane. */
static void take_one(void) {
    rota_lane *lane = &lanes[0];
    const uint64_t head = ra_load_relaxed(&lane->head);
    const rota_record *record = &stores[0].records[head % ROTA_LANE_RECORDS];
    rota_sequence_record(runtime.sequencer, lane, 0, record);
    ra_store_relaxed(&lane->words_head, record->words_end);
    ra_store_relaxed(&lane->head, head + 1);
}

/* Of the tickets before the one whose chunk is the first one again. */
static void begin_at_end(void) {
    begin_with(1, 9);
    preparing = 0;
    for (unsigned i = 0; i < 6; i++) {
        submit(0, i);
        if (i < 5) take_one();
    }
    ra_store_relaxed(&runtime.lanes.provision_wanted, 0);
}

/* One has submitted before. */
static void begin_ahead(void) {
    begin_with(2, 1);
    expected[1] = 2;
    uint32_t index;
    for (preparing = 0; preparing < 2; preparing++) (void)rota_lane_of_thread(&runtime, &index);
    preparing = 1;
    submit(1, 0);
    ra_store_relaxed(&runtime.lanes.provision_wanted, 0);
}

/* Two lanes were given back. */
static void begin_given_back(void) {
    begin_with(3, 0);
    for (preparing = 0; preparing < 2; preparing++) {
        uint32_t index;
        (void)rota_lane_of_thread(&runtime, &index);
    }
    for (preparing = 0; preparing < 2; preparing++) lanes_thread_ends(NULL);
}

static void end(void) {
    for (unsigned p = 0; p < producers; p++)
        explore_check(taken[p] == expected[p], "of thread %u's %u records %u were taken", p, expected[p],
                      taken[p]);
}

int main(int argc, char **argv) {
    static const explore_scenario scenarios[] = {
        {"lanes that change hands",
         4,
         1,
         {own_for_good, own_twice, own_for_good},
         begin_given_back,
         NULL,
         false,
         0},
        {"one producer, a full ring", 3, 2, {submit_thrice, sequence}, begin_thrice, end, false, 1 << 1},
        {"two producers, once each",
         2,
         2,
         {submit_once, submit_once, sequence},
         begin_once,
         end,
         false,
         1 << 2},
        {"two producers, one ahead",
         2,
         1,
         {submit_once, submit_second, sequence},
         begin_ahead,
         end,
         false,
         1 << 2},
        {"two producers, twice each",
         2,
         1,
         {submit_twice, submit_twice, sequence},
         begin_twice,
         end,
         false,
         1 << 2,
         -1},
        {"works that go over at once",
         2,
         0,
         {submit_twice, submit_twice, sequence},
         begin_at_once,
         end,
         false,
         1 << 2,
         -1},
        {"records of many works",
         2,
         0,
         {submit_twice, submit_twice, sequence},
         begin_many_works,
         end,
         false,
         1 << 2,
         -1},
        {"words that fill the ring", 3, 2, {submit_thrice, sequence}, begin_words, end, false, 1 << 1, 1},
        {"a chunk in time", 2, 1, {submit_four, sequence}, begin_four, end, false, 1 << 1},
        {"a chunk that is used again", 3, 2, {submit_on, sequence}, begin_at_end, end, false, 1 << 1, 1},
        {"two producers that end",
         2,
         2,
         {submit_and_end, submit_and_end, sequence},
         begin_once,
         end,
         false,
         1 << 2},
        {"three producers",
         1,
         1,
         {submit_once, submit_once, submit_once, sequence},
         begin_three,
         end,
         false,
         1 << 3},
        {"new lanes", 3, 2, {own_for_good, own_and_end, own_for_good}, begin_three, NULL, false, 0},
    };
    static rota_outbox outbox;
    static rota_device device = {.outbox = &outbox};
    runtime.queue_count = 1;
    runtime.devices[0] = &device;
    ra_store_relaxed(&runtime.device_count, 1);
    if (rota_sequencer_create(&runtime) != ROTA_OK) return 1;
    return explore_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
