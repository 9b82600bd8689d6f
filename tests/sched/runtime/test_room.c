/* Room for the host's reads and writes: what waits for kernels or other devices takes none that others need,
 * is bounded by itself, and who waits for room has it in turn (sched/runtime/caller/room.c). */
#include "tests/kit/nap.h"
#include "tests/kit/runtime_support.h"
#include "tests/kit/sequenced.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/memory/residency.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/mailboxes.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/testing.h"
#include "tests/adversary/adversary.h"

enum { SLOTS = 4, SLOT_BYTES = 4096, LIMIT = 32 << 10 };
#define SOON_NS 8000000000u /* for what nothing keeps: the runtime's deadline is later */
#define LATE_NS 20000000000u

/* ---- What is kept ---- */

typedef enum keeper { BY_ANOTHER_DEVICE, BY_A_KERNEL } keeper;

typedef struct stage {
    adversary_options options;
    rota_runtime *runtime;
    rota_device *device;
    rota_buffer *x, *y, *z; /* y: whatever touches it is kept while the gate is shut */
    rota_plan *gate, *copy;
    uint8_t bytes[LIMIT];
} stage;

static stage *open_stage(keeper by, uint64_t timeout_ns) {
    stage *s = calloc(1, sizeof *s);
    rota_device *cpu, *device;
    assert_non_null(s);
    s->options.seed = 3;
    test_gate_open(false);
    assert_ok(adversary_runtime_open(&s->options,
                                     &ROTA_RUNTIME_OPTIONS(.timeout_ns = timeout_ns, .staging_slots = SLOTS,
                                                           .staging_slot_bytes = SLOT_BYTES,
                                                           .staging_limit_bytes = LIMIT),
                                     &s->runtime));
    assert_ok(rota_device_open(s->runtime, "cpu", &cpu));
    assert_ok(rota_device_open(s->runtime, "adversary", &device));
    s->device = by == BY_A_KERNEL ? cpu : device;
    s->y = test_buffer(s->runtime, "y", sizeof s->bytes);
    s->z = test_buffer(s->runtime, "z", sizeof s->bytes);
    rota_ticket ticket;
    assert_ok(rota_buffer_write(s->y, s->device, 0, s->bytes, sizeof s->bytes, &ticket));
    assert_ok(rota_wait(ticket, SOON_NS));
    if (by == BY_A_KERNEL) {
        s->gate = test_plan_1(cpu, "gate", &test_gate, s->y, ROTA_READWRITE);
        assert_ok(rota_submit_wait(s->gate, NULL, 0, NULL));
        test_gates_running(1);
        return s;
    }
    s->x = test_words(cpu, "x", 64, 5);
    s->gate = test_plan_1(cpu, "gate", &test_gate, s->x, ROTA_READWRITE);
    test_node node = {&test_copy, "copy", {{s->x, 0, 256, ROTA_READ}, {s->y, 0, 256, ROTA_WRITE}}, 2};
    s->copy = test_plan(device, "copy", &node, 1);
    assert_ok(rota_submit_wait(s->gate, NULL, 0, NULL));
    assert_ok(rota_submit_wait(s->copy, NULL, 0, NULL));
    return s;
}

static void close_stage(stage *s) {
    rota_plan_release(s->gate);
    rota_plan_release(s->copy);
    rota_buffer_release(s->x);
    rota_buffer_release(s->y);
    rota_buffer_release(s->z);
    assert_ok(rota_runtime_close(s->runtime, 5000000000u));
    if (s->options.violations) fail_msg("%s", s->options.violation);
    free(s);
}

static rota_ticket write_to(stage *s, rota_buffer *buffer, uint64_t size) {
    rota_ticket ticket;
    assert_ok(rota_buffer_write(buffer, s->device, 0, s->bytes, size, &ticket));
    return ticket;
}

/* Small and large ones of another buffer, far more than there is room for at a time. */
static void others_pass(stage *s) {
    uint8_t *back = malloc(2 * SLOT_BYTES);
    assert_non_null(back);
    for (uint32_t i = 0; i < 3 * SLOTS; i++) {
        const uint64_t size = i % 3 ? 64 : 2 * SLOT_BYTES;
        memset(s->bytes, (int)i + 1, sizeof s->bytes);
        assert_ok(rota_wait(write_to(s, s->z, size), SOON_NS));
        assert_ok(rota_buffer_read(s->z, 0, back, 64));
        assert_memory_equal(back, s->bytes, 64);
    }
    free(back);
}

/* Writes that are kept have taken every slot, and then all the staging memory that their buffer may have. */
static void kept_writes_take_nobodys_room(void **state) {
    (void)state;
    for (keeper by = BY_ANOTHER_DEVICE; by <= BY_A_KERNEL; by++) {
        stage *s = open_stage(by, LATE_NS);
        rota_ticket kept[SLOTS + LIMIT / SLOT_BYTES];
        for (uint32_t i = 0; i < SLOTS; i++) kept[i] = write_to(s, s->y, 64);
        others_pass(s);
        for (uint32_t i = SLOTS; i < SLOTS + LIMIT / SLOT_BYTES; i++) kept[i] = write_to(s, s->y, 64);
        others_pass(s);
        for (uint32_t i = 0; i < SLOTS + LIMIT / SLOT_BYTES; i++)
            assert_int_equal(rota_poll(kept[i]), ROTA_BUSY);
        test_gate_open(true);
        for (uint32_t i = 0; i < SLOTS + LIMIT / SLOT_BYTES; i++) assert_ok(rota_wait(kept[i], SOON_NS));
        close_stage(s);
    }
}

static void kept_large_writes_take_nobodys_room(void **state) {
    (void)state;
    for (keeper by = BY_ANOTHER_DEVICE; by <= BY_A_KERNEL; by++) {
        stage *s = open_stage(by, LATE_NS);
        rota_ticket kept[2];
        for (uint32_t i = 0; i < 2; i++) kept[i] = write_to(s, s->y, LIMIT / 2);
        others_pass(s);
        for (uint32_t i = 0; i < 2; i++) assert_int_equal(rota_poll(kept[i]), ROTA_BUSY);
        test_gate_open(true);
        for (uint32_t i = 0; i < 2; i++) assert_ok(rota_wait(kept[i], SOON_NS));
        close_stage(s);
    }
}

typedef struct writer {
    stage *s;
    rota_buffer *buffer;
    uint64_t size, number;
    rota_status status;
    pthread_t thread;
    _Atomic uint32_t is_in;
} writer;

static void *write_once(void *user) {
    writer *w = user;
    rota_ticket ticket;
    uint8_t bytes[LIMIT] = {0};
    w->status = rota_buffer_write(w->buffer, w->s->device, 0, bytes, w->size, &ticket);
    ra_store_seq_cst(&w->is_in, 1);
    if (w->status == ROTA_OK) w->status = rota_wait(ticket, 0);
    if (w->status == ROTA_OK) w->status = rota_ticket_number(ticket, &w->number);
    return NULL;
}

static void start(writer *w, stage *s, rota_buffer *buffer, uint64_t size) {
    *w = (writer){.s = s, .buffer = buffer, .size = size};
    assert_int_equal(pthread_create(&w->thread, NULL, write_once, w), 0);
}

/* The `count`th to wait in these turns. */
static void until_waiting(rota_turns *turns, uint64_t count) {
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    while (ra_load_seq_cst(&turns->next) < count && rota_clock_ns() < deadline) test_nap_us(50);
    assert_int_equal(ra_load_seq_cst(&turns->next), count);
}

/* More of one buffer than may be kept waits in its call, in no way of others, and in its order. False: one
 * did not run for so long that its turn lapsed. */
static bool more_than_may_be_kept(keeper by) {
    stage *s = open_stage(by, LATE_NS);
    for (uint32_t i = 0; i < 2; i++) (void)write_to(s, s->y, LIMIT / 2);
    enum { MORE = 6 };
    writer more[MORE];
    const rota_residency *residency = s->y->residency;
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    for (uint32_t i = 0; i < MORE; i++) {
        start(&more[i], s, s->y, LIMIT / 2);
        while (!ra_load_acquire(&residency->turns) && rota_clock_ns() < deadline) test_nap_us(50);
        assert_non_null(ra_load_acquire(&residency->turns));
        until_waiting(ra_load_acquire(&residency->turns), i + 1);
    }
    assert_int_equal(ra_load_relaxed(&residency->kept), 2);
    assert_int_equal(ra_load_relaxed(&residency->kept_bytes), LIMIT);
    others_pass(s);
    for (uint32_t i = 0; i < MORE; i++) assert_int_equal(ra_load_seq_cst(&more[i].is_in), 0);
    test_gate_open(true);
    for (uint32_t i = 0; i < MORE; i++) {
        assert_int_equal(pthread_join(more[i].thread, NULL), 0);
        assert_int_equal(more[i].status, ROTA_OK);
    }
    const bool is_fair = ra_load_seq_cst(&ra_load_acquire(&residency->turns)->next) == MORE;
    for (uint32_t i = 1; is_fair && i < MORE; i++)
        if (more[i].number <= more[i - 1].number)
            fail_msg("waiter %u is number %llu, the one before %llu", i, (unsigned long long)more[i].number,
                     (unsigned long long)more[i - 1].number);
    rota_sequencer_reap_now(s->runtime);
    assert_int_equal(ra_load_relaxed(&residency->kept), 0);
    assert_int_equal(ra_load_relaxed(&residency->kept_bytes), 0);
    close_stage(s);
    return is_fair;
}

static void what_is_kept_is_bounded(void **state) {
    (void)state;
    for (keeper by = BY_ANOTHER_DEVICE; by <= BY_A_KERNEL; by++) {
        uint32_t rounds = 0;
        while (!more_than_may_be_kept(by))
            if (++rounds == 20) fail_msg("in each of 20 rounds a turn lapsed");
    }
}

/* So do reads that nobody waits for: as many of a buffer as of a plan's submissions. */
static void kept_reads_are_bounded(void **state) {
    (void)state;
    for (keeper by = BY_ANOTHER_DEVICE; by <= BY_A_KERNEL; by++) {
        stage *s = open_stage(by, LATE_NS);
        static uint32_t words[ROTA_KEPT_MAX + ROTA_LANE_RECORDS];
        uint32_t count = 0;
        rota_status status = ROTA_OK;
        rota_ticket last = {NULL, 0}, ticket;
        const uint64_t deadline = rota_deadline_after(SOON_NS);
        while (count < ROTA_KEPT_MAX + ROTA_LANE_RECORDS && rota_clock_ns() < deadline) {
            status = rota_buffer_read_async(s->y, 0, &words[count], 4, &ticket);
            if (status == ROTA_OK) {
                count++;
                last = ticket;
            } else if (strstr(rota_last_error(), "wait for kernels or other devices")) {
                break;
            } else { /* the thread's own lane is full until the sequencer has taken some */
                assert_int_equal(status, ROTA_BUSY);
                test_nap_us(20);
            }
        }
        assert_int_equal(status, ROTA_BUSY);
        assert_in_range(count, ROTA_KEPT_MAX, ROTA_KEPT_MAX + ROTA_LANE_RECORDS);
        others_pass(s);
        assert_int_equal(rota_poll(last), ROTA_BUSY);
        test_gate_open(true);
        assert_ok(rota_wait(last, 0));
        /* All have ended: soon the sequencer knows. */
        const uint64_t end = rota_deadline_after(SOON_NS);
        while (rota_buffer_read_async(s->y, 0, words, 4, &ticket) == ROTA_BUSY && rota_clock_ns() < end)
            test_nap_us(20);
        assert_ok(rota_wait(ticket, SOON_NS));
        close_stage(s);
    }
}

static void *open_later(void *unused) {
    (void)unused;
    test_nap_us(50000);
    test_gate_open(true);
    return NULL;
}

/* The host loses a device while writes and reads of it are kept: all of them end, and count no more. */
static void kept_by_a_device_that_is_lost(void **state) {
    (void)state;
    stage *s = open_stage(BY_ANOTHER_DEVICE, LATE_NS);
    const rota_residency *residency = s->y->residency;
    rota_ticket kept[SLOTS + 3];
    uint32_t word;
    for (uint32_t i = 0; i < SLOTS + 2; i++) kept[i] = write_to(s, s->y, i < SLOTS ? 64 : LIMIT / 2);
    assert_ok(rota_buffer_read_async(s->y, 0, &word, 4, &kept[SLOTS + 2]));
    writer more;
    start(&more, s, s->y, LIMIT / 2);
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    while ((!ra_load_acquire(&residency->turns) || ra_load_relaxed(&residency->kept) < SLOTS + 3) &&
           rota_clock_ns() < deadline)
        test_nap_us(50);
    assert_int_equal(ra_load_relaxed(&residency->kept), SLOTS + 3);
    rota_device_set_lost(s->device, "as the test says");
    for (uint32_t i = 0; i < SLOTS + 3; i++) assert_status(rota_wait(kept[i], SOON_NS), ROTA_DEVICE_LOST);
    assert_int_equal(pthread_join(more.thread, NULL), 0);
    assert_int_equal(more.status, ROTA_DEVICE_LOST);
    rota_sequencer_reap_now(s->runtime);
    assert_int_equal(ra_load_relaxed(&residency->kept), 0);
    assert_int_equal(ra_load_relaxed(&residency->kept_bytes), 0);
    test_gate_open(true);
    rota_plan_release(s->gate);
    rota_plan_release(s->copy);
    rota_buffer_release(s->x);
    rota_buffer_release(s->y);
    rota_buffer_release(s->z);
    assert_ok(rota_runtime_close(s->runtime, 5000000000u));
    free(s);
}

/* Close drops what is kept, and all that was to be given back with it. */
static void closed_while_writes_are_kept(void **state) {
    (void)state;
    for (keeper by = BY_ANOTHER_DEVICE; by <= BY_A_KERNEL; by++) {
        stage *s = open_stage(by, LATE_NS);
        static uint32_t word;
        rota_ticket ticket;
        for (uint32_t i = 0; i < SLOTS + 2; i++) (void)write_to(s, s->y, i < SLOTS ? 64 : LIMIT / 2);
        assert_ok(rota_buffer_read_async(s->y, 0, &word, 4, &ticket));
        rota_buffer_release(s->y);
        s->y = NULL;
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, open_later, NULL), 0);
        close_stage(s);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

static void write_pieces(rota_buffer *x, rota_device *device, const uint8_t *bytes, uint32_t size,
                         uint32_t piece) {
    rota_ticket ticket;
    for (uint32_t offset = 0; offset < size; offset += piece)
        assert_ok(rota_buffer_write(x, device, offset, bytes, piece, &ticket));
    assert_ok(rota_wait(ticket, SOON_NS));
}

/* The staging memory of a write of all of y is all that lies idle. */
static void leave_idle(rota_runtime *runtime, rota_device *device, rota_buffer *y, const uint8_t *bytes,
                       uint32_t size) {
    rota_ticket ticket;
    rota_sequencer_reap_now(runtime);
    (void)rota_staging_trim(runtime, UINT64_MAX);
    assert_ok(rota_buffer_write(y, device, 0, bytes, size, &ticket));
    assert_ok(rota_wait(ticket, SOON_NS));
    rota_sequencer_reap_now(runtime);
}

/* Under a memory limit a read's staging memory comes of another device's, whose driver does not come back
 * from freeing something before it: then there is none. Nothing waits for that but the read, for a while. */
static void a_free_keeps_no_others(void **state) {
    (void)state;
    enum { LARGE = 4 << 20, PIECE = 64 << 10 };
    adversary_options options = {.seed = 3};
    rota_runtime *runtime;
    rota_device *cpu, *device;
    assert_ok(adversary_runtime_open(
        &options,
        &ROTA_RUNTIME_OPTIONS(.timeout_ns = LATE_NS, .memory_limit_bytes = 14 << 20, .staging_slots = 2,
                              .staging_idle_ns = 1000000000000u, .staging_slot_bytes = PIECE),
        &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &cpu));
    assert_ok(rota_device_open(runtime, "adversary", &device));
    rota_buffer *x = test_buffer(runtime, "x", LARGE), *y = test_buffer(runtime, "y", LARGE),
                *w = test_words(device, "w", 64, 0), *spare = test_words(device, "spare", 64, 0);
    uint8_t *bytes = calloc(1, LARGE);
    rota_ticket ticket, alone;
    assert_non_null(bytes);
    write_pieces(x, cpu, bytes, LARGE, PIECE);
    test_expect_words(w, 64, 0);
    test_expect_words(spare, 64, 0);
    leave_idle(runtime, device, y, bytes, LARGE);
    rota_plan *plan = test_plan_1(device, "inc", &test_increment, w, ROTA_READWRITE);
    ra_store_seq_cst(&options.faults.frees, ADVERSARY_FREES_NEVER);
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    rota_buffer_release(spare);
    while (!options.frees_waiting && rota_clock_ns() < deadline) test_nap_us(50);
    const uint64_t begin = rota_clock_ns();
    assert_ok(rota_buffer_read_async(x, 0, bytes, LARGE, &ticket));
    for (uint32_t i = 0; i < 4; i++) {
        assert_ok(rota_submit_wait(plan, NULL, 0, &alone));
        assert_ok(rota_wait(alone, SOON_NS));
    }
    const rota_status meanwhile = rota_poll(ticket);
    /* A free that gets nowhere is waited for for a second: on a busy machine the four may take as long. */
    if (rota_clock_ns() - begin < 1000000000u) assert_int_equal(meanwhile, ROTA_BUSY);
    assert_status(rota_wait(ticket, SOON_NS), ROTA_OUT_OF_MEMORY);
    assert_int_equal(options.frees_waiting, 1);
    ra_store_seq_cst(&options.faults.frees, ADVERSARY_FREES_AT_ONCE);
    assert_ok(rota_buffer_read(x, 0, bytes, LARGE));
    free(bytes);
    rota_plan_release(plan);
    rota_buffer_release(x);
    rota_buffer_release(y);
    rota_buffer_release(w);
    assert_ok(rota_runtime_close(runtime, 5000000000u));
    if (options.violations) fail_msg("%s", options.violation);
}

typedef enum starved { READ, MOVE_OUT, MOVE_IN, STARVED } starved;

static rota_status look(const rota_kernel_call *call) {
    (void)call;
    return ROTA_OK;
}
static const rota_kernel look_kernel = {.name = "look", .operand_count = 2, .cpu = {.fn = look}};

/* What a read before it was promised may not be returned yet. */
static void read_when_there_is_room(rota_buffer *x, void *bytes, uint64_t size, rota_ticket *out_ticket) {
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    rota_status status;
    while ((status = rota_buffer_read_async(x, 0, bytes, size, out_ticket)) == ROTA_BUSY &&
           rota_clock_ns() < deadline)
        test_nap_us(50);
    assert_ok(status);
}

/* The staging memory that a read or a move needs is another device's, whose driver does not come back from
 * freeing something before it. What else there is for the work's own device passes, of its logical queue too;
 * the work itself fails after a while, and works once it can have its memory. */
static void starved_beside(starved what) {
    enum { LARGE = 4 << 20, PIECE = 64 << 10 };
    const bool moves = what != READ;
    adversary_options options = {.seed = 3};
    rota_runtime *runtime;
    rota_device *cpu, *device, *other;
    assert_ok(adversary_runtime_open(
        &options,
        &ROTA_RUNTIME_OPTIONS(.timeout_ns = LATE_NS, .queues_per_device = 1,
                              .memory_limit_bytes = (moves ? 18 : 14) << 20, .staging_slots = 2,
                              .staging_idle_ns = 1000000000000u, .staging_slot_bytes = PIECE),
        &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &cpu));
    assert_ok(rota_device_open(runtime, "adversary", &device));
    assert_ok(rota_device_open(runtime, "adversary:1", &other));
    rota_device *home = what == READ ? cpu : other; /* the work is its */
    rota_buffer *x = test_buffer(runtime, "x", LARGE), *y = test_buffer(runtime, "y", LARGE),
                *w = test_words(home, "w", 64, 0), *spare = test_words(device, "spare", 64, 0);
    rota_plan *alone = test_plan_1(home, "inc", &test_increment, w, ROTA_READWRITE), *looking = NULL;
    rota_buffer *seen = NULL;
    uint8_t *bytes = calloc(1, LARGE);
    rota_ticket ticket;
    assert_non_null(bytes);
    for (uint32_t offset = 0; offset < LARGE; offset += PIECE)
        assert_ok(rota_buffer_write(x, what == MOVE_OUT ? other : cpu, offset, bytes, PIECE, &ticket));
    assert_ok(rota_wait(ticket, SOON_NS));
    if (moves) {
        rota_device *to = what == MOVE_OUT ? cpu : other;
        seen = test_words(to, "seen", 64, 0);
        test_node node = {
            &look_kernel, "look", {{x, 0, ROTA_WHOLE, ROTA_READ}, {seen, 0, ROTA_WHOLE, ROTA_WRITE}}, 2};
        looking = test_plan(to, "looking", &node, 1);
    }
    test_expect_words(w, 64, 0);
    test_expect_words(spare, 64, 0);
    leave_idle(runtime, device, y, bytes, LARGE);
    ra_store_seq_cst(&options.faults.frees, ADVERSARY_FREES_NEVER);
    rota_buffer_release(spare);
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    while (!options.frees_waiting && rota_clock_ns() < deadline) test_nap_us(50);
    assert_int_equal(options.frees_waiting, 1);
    bool has_passed = false; /* at once where this thread runs as often as it wants to */
    for (uint32_t i = 0; i < 4 && !has_passed; i++) {
        rota_ticket passing;
        if (moves)
            assert_ok(rota_submit_wait(looking, NULL, 0, &ticket));
        else
            read_when_there_is_room(x, bytes, LARGE, &ticket);
        assert_ok(rota_submit_wait(alone, NULL, 0, &passing));
        assert_ok(rota_wait(passing, SOON_NS));
        has_passed = rota_poll(ticket) == ROTA_BUSY;
        assert_status(rota_wait(ticket, SOON_NS), ROTA_OUT_OF_MEMORY);
        assert_non_null(strstr(rota_last_error(), "of the memory limit of"));
    }
    assert_true(has_passed);
    ra_store_seq_cst(&options.faults.frees, ADVERSARY_FREES_AT_ONCE);
    if (moves) {
        assert_ok(rota_submit_wait(looking, NULL, 0, &ticket));
        assert_ok(rota_wait(ticket, SOON_NS));
        rota_sequencer_reap_now(runtime); /* which gives back what the move had */
    }
    assert_ok(rota_buffer_read(x, 0, bytes, LARGE));
    free(bytes);
    rota_plan_release(alone);
    rota_plan_release(looking);
    rota_buffer *buffers[] = {x, y, w, seen};
    for (uint32_t i = 0; i < 4; i++) rota_buffer_release(buffers[i]);
    assert_ok(rota_runtime_close(runtime, 5000000000u));
    if (options.violations) fail_msg("%s", options.violation);
    assert_int_equal(options.live_memories, 0);
}

static void what_starves_keeps_no_others(void **state) {
    (void)state;
    for (starved what = READ; what < STARVED; what++) starved_beside(what);
}

/* While the plans' queue is busy with a kernel copies of other buffers go beside it; not behind a read that
 * is held for its staging memory. */
static void what_starves_keeps_no_copies(void **state) {
    (void)state;
    enum { LARGE = 4 << 20, PIECE = 64 << 10 };
    adversary_options options = {.seed = 3};
    rota_runtime *runtime;
    rota_device *cpu, *device, *other;
    assert_ok(adversary_runtime_open(&options,
                                     &ROTA_RUNTIME_OPTIONS(.timeout_ns = LATE_NS, .queues_per_device = 1,
                                                           .memory_limit_bytes = 14 << 20, .staging_slots = 2,
                                                           .staging_idle_ns = 1000000000000u,
                                                           .staging_slot_bytes = PIECE),
                                     &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &cpu));
    assert_ok(rota_device_open(runtime, "adversary", &device));
    assert_ok(rota_device_open(runtime, "adversary:1", &other));
    rota_buffer *x = test_buffer(runtime, "x", LARGE), *y = test_buffer(runtime, "y", LARGE),
                *w = test_words(cpu, "w", 64, 0), *v = test_words(cpu, "v", 64, 0),
                *spare = test_words(device, "spare", 64, 0);
    rota_plan *gate = test_plan_1(cpu, "gate", &test_gate, w, ROTA_READWRITE);
    uint8_t *bytes = calloc(1, LARGE);
    static const uint32_t words[64];
    rota_ticket ticket, passing, gated;
    assert_non_null(bytes);
    write_pieces(x, cpu, bytes, LARGE, PIECE);
    test_expect_words(w, 64, 0);
    test_expect_words(v, 64, 0);
    test_expect_words(spare, 64, 0);
    leave_idle(runtime, device, y, bytes, LARGE);
    ra_store_seq_cst(&options.faults.frees, ADVERSARY_FREES_NEVER);
    rota_buffer_release(spare);
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    while (!options.frees_waiting && rota_clock_ns() < deadline) test_nap_us(50);
    assert_int_equal(options.frees_waiting, 1);
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, &gated));
    test_gates_running(1);
    assert_ok(rota_buffer_write(v, cpu, 0, words, sizeof words, &passing));
    assert_ok(rota_wait(passing, SOON_NS)); /* it goes beside the kernel */
    bool has_passed = false;
    for (uint32_t i = 0; i < 4 && !has_passed; i++) {
        read_when_there_is_room(x, bytes, LARGE, &ticket);
        const uint64_t begin = rota_clock_ns();
        assert_ok(rota_buffer_write(v, cpu, 0, words, sizeof words, &passing));
        assert_ok(rota_wait(passing, SOON_NS));
        /* The read is held for a second, in which nothing is freed. */
        has_passed = rota_clock_ns() - begin < 500000000u && rota_poll(ticket) == ROTA_BUSY;
        assert_status(rota_wait(ticket, SOON_NS), ROTA_OUT_OF_MEMORY);
    }
    test_gate_open(true);
    assert_ok(rota_wait(gated, SOON_NS));
    ra_store_seq_cst(&options.faults.frees, ADVERSARY_FREES_AT_ONCE);
    assert_true(has_passed);
    free(bytes);
    rota_plan_release(gate);
    rota_buffer *buffers[] = {x, y, w, v};
    for (uint32_t i = 0; i < 4; i++) rota_buffer_release(buffers[i]);
    assert_ok(rota_runtime_close(runtime, 5000000000u));
    if (options.violations) fail_msg("%s", options.violation);
}

/* As the sequencer does, which waits meanwhile. */
static void sweep_idle(rota_runtime *runtime) {
    assert_ok(rota_runtime_lock_submission(runtime, true));
    rota_staging_sweep_idle(runtime);
    assert_ok(rota_runtime_lock_submission(runtime, false));
}

/* Blocks that a look for more found too few are not thereby needed: the next sweep gives them back. */
static void what_is_too_little_is_not_needed(void **state) {
    (void)state;
    enum { LARGE = 16 << 20 };
    adversary_options options = {.seed = 3};
    rota_runtime *runtime;
    rota_device *device;
    rota_staging *span;
    assert_ok(adversary_runtime_open(
        &options, &ROTA_RUNTIME_OPTIONS(.memory_limit_bytes = 256u << 20, .staging_idle_ns = 1000000000000u),
        &runtime));
    assert_ok(rota_device_open(runtime, "adversary", &device));
    assert_ok(rota_staging_acquire(device, LARGE, ROTA_EXEC_MEMORY_HOST_READ, &span));
    rota_staging_release(span);
    sweep_idle(runtime); /* from here on it is looked whether that is needed */
    assert_true(rota_runtime_staging_bytes(runtime) >= LARGE);
    assert_null(rota_staging_take(device, 2 * LARGE, ROTA_EXEC_MEMORY_HOST_READ));
    sweep_idle(runtime);
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    while (rota_runtime_staging_bytes(runtime) >= LARGE && rota_clock_ns() < deadline) test_nap_us(50);
    assert_true(rota_runtime_staging_bytes(runtime) < LARGE);
    assert_ok(rota_runtime_close(runtime, 5000000000u));
    if (options.violations) fail_msg("%s", options.violation);
}

static _Atomic uint32_t submits;

static void note_submit(void *user, uint32_t device) {
    (void)user, (void)device;
    (void)ra_fetch_add_seq_cst(&submits, 1);
}

/* Of many blocks, each of which a driver takes its time to free, as many are waited for as are needed. */
static void many_small_frees(void **state) {
    (void)state;
    enum { LARGE = 4 << 20, PIECE = 64 << 10, PIECES = 48 };
    adversary_options options = {.seed = 3};
    rota_runtime *runtime;
    rota_device *cpu, *device;
    assert_ok(adversary_runtime_open(
        &options,
        &ROTA_RUNTIME_OPTIONS(.timeout_ns = LATE_NS, .memory_limit_bytes = (8 << 20) + 12 * PIECE,
                              .staging_slots = 2, .staging_idle_ns = 1000000000000u,
                              .staging_slot_bytes = PIECE),
        &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &cpu));
    assert_ok(rota_device_open(runtime, "adversary", &device));
    rota_buffer *x = test_buffer(runtime, "x", LARGE), *y = test_buffer(runtime, "y", PIECE);
    uint8_t *bytes = calloc(1, LARGE);
    rota_ticket ticket, reads[PIECES];
    assert_non_null(bytes);
    write_pieces(x, cpu, bytes, LARGE, PIECE);
    assert_ok(rota_buffer_write(y, device, 0, bytes, PIECE, &ticket));
    assert_ok(rota_wait(ticket, SOON_NS));
    /* The first keeps the submit thread in the driver, so that the rest is handed over together, each with a block. */
    ra_store_seq_cst(&submits, 0);
    ra_store_seq_cst(&options.faults.submits_stay, 1);
    ra_store_seq_cst(&options.on_submit, note_submit);
    for (uint32_t i = 0; i < PIECES; i++) {
        assert_ok(rota_buffer_read_async(y, 0, bytes + i * PIECE, PIECE, &reads[i]));
        const uint64_t deadline = rota_deadline_after(SOON_NS);
        while (i == 0 && !ra_load_seq_cst(&submits) && rota_clock_ns() < deadline) test_nap_us(50);
    }
    assert_int_equal(ra_load_seq_cst(&submits), 1);
    test_sequenced(reads[PIECES - 1]);
    ra_store_seq_cst(&options.on_submit, NULL);
    ra_store_seq_cst(&options.faults.submits_stay, 0);
    for (uint32_t i = 0; i < PIECES; i++) assert_ok(rota_wait(reads[i], SOON_NS));
    rota_sequencer_reap_now(runtime);
    const uint64_t idle = rota_runtime_staging_bytes(runtime);
    assert_true(idle > 40 * PIECE);
    options.faults.free_ns = 2000000;
    assert_ok(rota_buffer_read(x, 0, bytes, LARGE));
    options.faults.free_ns = 0;
    free(bytes);
    rota_buffer_release(x);
    rota_buffer_release(y);
    assert_ok(rota_runtime_close(runtime, 5000000000u));
    if (options.violations) fail_msg("%s", options.violation);
}

/* ---- Turns ---- */

enum { WAITERS = 24 };

/* The device takes nothing: what has been written fills the room, and the rest waits. Those that wait come in
 * their order, and before one that comes later and writes on and on. False: a waiter did not run for so long
 * that its turn lapsed. */
static bool crowd_waits(uint64_t size) {
    stage *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->options.seed = 3;
    assert_ok(adversary_runtime_open(&s->options,
                                     &ROTA_RUNTIME_OPTIONS(.timeout_ns = LATE_NS, .staging_slots = SLOTS,
                                                           .staging_slot_bytes = SLOT_BYTES,
                                                           .staging_limit_bytes = LIMIT),
                                     &s->runtime));
    assert_ok(rota_device_open(s->runtime, "adversary", &s->device));
    s->z = test_buffer(s->runtime, "z", sizeof s->bytes);
    rota_turns *turns = size > SLOT_BYTES ? &s->device->staging->turns : &s->device->staging->slot_turns;
    const uint64_t begin = ra_load_seq_cst(&turns->next);
    ra_store_seq_cst(&s->options.faults.submits_stay, 1);
    for (uint32_t i = 0; i < SLOTS; i++) (void)write_to(s, s->z, size);
    static writer waiters[WAITERS];
    for (uint32_t i = 0; i < WAITERS; i++) {
        start(&waiters[i], s, s->z, size);
        until_waiting(turns, begin + i + 1);
    }
    ra_store_seq_cst(&s->options.faults.submits_stay, 0);
    uint64_t first, last, before = 0;
    rota_ticket ticket = write_to(s, s->z, size);
    assert_ok(rota_wait(ticket, SOON_NS));
    assert_ok(rota_ticket_number(ticket, &first));
    for (uint32_t i = 0; i < WAITERS; i++) {
        assert_int_equal(pthread_join(waiters[i].thread, NULL), 0);
        assert_int_equal(waiters[i].status, ROTA_OK);
    }
    last = waiters[WAITERS - 1].number;
    const bool is_fair =
        ra_load_seq_cst(&turns->next) <= begin + WAITERS + 1; /* nobody took another number */
    for (uint32_t i = 0; is_fair && i < WAITERS; i++) {
        if (waiters[i].number <= before)
            fail_msg("waiter %u is number %llu, the one before %llu", i,
                     (unsigned long long)waiters[i].number, (unsigned long long)before);
        before = waiters[i].number;
    }
    if (is_fair) assert_true(first > last);
    close_stage(s);
    return is_fair;
}

static void nobody_overtakes_who_waits(void **state) {
    (void)state;
    for (uint64_t size = 64; size <= LIMIT / SLOTS; size += LIMIT / SLOTS - 64) {
        uint32_t rounds = 0;
        while (!crowd_waits(size))
            if (++rounds == 20) fail_msg("in each of 20 rounds a turn lapsed");
    }
}

/* A thread that took a number, for each kind of room, and is stopped there. */
static void a_stopped_waiter_holds_up_nobody(void **state) {
    (void)state;
    stage *s = calloc(1, sizeof *s);
    assert_non_null(s);
    assert_ok(rota_runtime_open(
        &ROTA_RUNTIME_OPTIONS(.timeout_ns = LATE_NS, .memory_limit_bytes = 64 << 20, .staging_slots = SLOTS,
                              .staging_slot_bytes = SLOT_BYTES, .staging_limit_bytes = LIMIT),
        &s->runtime));
    assert_ok(rota_device_open(s->runtime, "cpu", &s->device));
    s->z = test_buffer(s->runtime, "z", sizeof s->bytes);
    rota_turns *all[] = {&s->device->staging->slot_turns, &s->device->staging->turns,
                         &s->runtime->budget.promise_turns};
    for (uint32_t i = 0; i < 3; i++) (void)rota_turns_take(all[i]);
    assert_ok(rota_wait(write_to(s, s->z, 64), SOON_NS));
    assert_ok(rota_wait(write_to(s, s->z, LIMIT), SOON_NS));
    assert_ok(rota_buffer_read(s->z, 0, s->bytes, LIMIT));
    (void)rota_turns_take(&s->runtime->budget.promise_turns);
    rota_ticket ticket = {NULL, 0};
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    while (rota_buffer_read_async(s->z, 0, s->bytes, LIMIT, &ticket) == ROTA_BUSY &&
           rota_clock_ns() < deadline)
        test_nap_us(1000);
    assert_ok(rota_wait(ticket, SOON_NS));
    for (uint32_t i = 0; i < 3; i++) assert_true(rota_turns_are_none(all[i]));
    close_stage(s);
}

/* The same of one buffer's own room, while something else of the buffer is kept that takes none of it. */
static void a_stopped_waiter_for_kept_room_holds_up_nobody(void **state) {
    (void)state;
    stage *s = open_stage(BY_A_KERNEL, 2000000000u);
    static uint32_t word;
    rota_ticket kept, ticket;
    assert_ok(rota_buffer_read_async(s->y, 0, &word, 4, &kept));
    rota_residency *residency = s->y->residency;
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    while (ra_load_relaxed(&residency->kept) != 1 && rota_clock_ns() < deadline) test_nap_us(50);
    assert_int_equal(ra_load_relaxed(&residency->kept), 1);
    assert_int_equal(ra_load_relaxed(&residency->kept_bytes), 0);
    rota_turns *turns = aligned_alloc(_Alignof(rota_turns), sizeof *turns); /* as the first waiter's */
    assert_non_null(turns);
    memset(turns, 0, sizeof *turns);
    (void)rota_turns_take(turns);
    ra_store_release(&residency->turns, turns);
    ticket = write_to(s, s->y, LIMIT);
    assert_int_equal(rota_poll(kept), ROTA_BUSY);
    test_gate_open(true);
    assert_ok(rota_wait(ticket, SOON_NS));
    assert_true(rota_turns_are_none(turns));
    close_stage(s);
}

/* The same of what is promised under a memory limit, while a read that is kept has some of it. */
static void a_stopped_waiter_beside_a_promise_holds_up_nobody(void **state) {
    (void)state;
    stage *s = calloc(1, sizeof *s);
    assert_non_null(s);
    test_gate_open(false);
    assert_ok(rota_runtime_open(
        &ROTA_RUNTIME_OPTIONS(.timeout_ns = 2000000000u, .memory_limit_bytes = 64 << 20), &s->runtime));
    assert_ok(rota_device_open(s->runtime, "cpu", &s->device));
    s->y = test_words(s->device, "y", 64, 0);
    s->z = test_words(s->device, "z", 64, 7);
    s->gate = test_plan_1(s->device, "gate", &test_gate, s->y, ROTA_READWRITE);
    assert_ok(rota_submit_wait(s->gate, NULL, 0, NULL));
    test_gates_running(1);
    static uint32_t word, other;
    rota_ticket kept;
    assert_ok(rota_buffer_read_async(s->y, 0, &word, 4, &kept));
    assert_true(ra_load_relaxed(&s->runtime->budget.staging_promised) > 0);
    (void)rota_turns_take(&s->runtime->budget.promise_turns);
    assert_ok(rota_buffer_read(s->z, 0, &other, 4));
    assert_int_equal(other, 7);
    assert_int_equal(rota_poll(kept), ROTA_BUSY);
    test_gate_open(true);
    assert_ok(rota_wait(kept, SOON_NS));
    close_stage(s);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_writes_take_nobodys_room),
        cmocka_unit_test(kept_large_writes_take_nobodys_room),
        cmocka_unit_test(what_is_kept_is_bounded),
        cmocka_unit_test(kept_reads_are_bounded),
        cmocka_unit_test(kept_by_a_device_that_is_lost),
        cmocka_unit_test(closed_while_writes_are_kept),
        cmocka_unit_test(a_free_keeps_no_others),
        cmocka_unit_test(what_starves_keeps_no_others),
        cmocka_unit_test(what_starves_keeps_no_copies),
        cmocka_unit_test(what_is_too_little_is_not_needed),
        cmocka_unit_test(many_small_frees),
        cmocka_unit_test(nobody_overtakes_who_waits),
        cmocka_unit_test(a_stopped_waiter_holds_up_nobody),
        cmocka_unit_test(a_stopped_waiter_for_kept_room_holds_up_nobody),
        cmocka_unit_test(a_stopped_waiter_beside_a_promise_holds_up_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
