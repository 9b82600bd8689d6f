/* Host reads and writes: one call is one submission whatever its size, reads don't pay for the history of
 * writes, staging memory is bounded and given back, and reads that nobody waits for in the call. */
#include "tests/kit/nap.h"
#include "tests/kit/runtime_support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/memory/residency.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/adversary/adversary.h"

#define MIB ((uint64_t)1 << 20)
#define PATIENCE_NS 20000000000u

/* Sanitizers take what a tenth of it shows. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { SCALE = 10 };
#else
enum { SCALE = 1 };
#endif

static uint64_t submissions(rota_runtime *runtime) {
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    rota_runtime_get_stats(runtime, &stats);
    return stats.submissions;
}

static uint64_t memory_bytes(rota_runtime *runtime) {
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    rota_runtime_get_stats(runtime, &stats);
    return stats.memory_bytes;
}

static uint8_t *bytes_of(uint64_t size, uint8_t value) {
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    memset(bytes, value, size);
    return bytes;
}

static bool all_are(const uint8_t *bytes, uint64_t size, uint8_t value) {
    for (uint64_t i = 0; i < size; i++)
        if (bytes[i] != value) return false;
    return true;
}

/* ---- The devices that the cases run on ---- */

typedef enum device_kind { ON_CPU, ON_ADVERSARY, ON_UNIFIED_ADVERSARY, ON_VULKAN, DEVICE_KINDS } device_kind;

typedef struct rig {
    adversary_options options;
    rota_runtime *runtime;
    rota_device *device;
} rig;

/* False: there is no such device. */
static bool open_rig(rig *p, device_kind kind, const rota_runtime_options *wanted) {
    rota_runtime_options options = *wanted;
    if (options.timeout_ns == 0) options.timeout_ns = PATIENCE_NS;
    memset(p, 0, sizeof *p);
    p->options.unified_host = kind == ON_UNIFIED_ADVERSARY;
    p->options.submit_never_blocks = kind == ON_UNIFIED_ADVERSARY;
    p->options.seed = 77;
    p->options.quiet_ns = 1;
    assert_ok(adversary_runtime_open(&p->options, &options, &p->runtime));
    static const char *const ids[] = {"cpu", "adversary", "adversary", "vk:0"};
    rota_status status = rota_device_open(p->runtime, ids[kind], &p->device);
    if (kind == ON_VULKAN && status != ROTA_OK) {
        print_message("no Vulkan device: %s\n", rota_last_error());
        assert_ok(rota_runtime_close(p->runtime, 0));
        return false;
    }
    assert_int_equal(status, ROTA_OK);
    return true;
}

static void close_rig(rig *p) {
    assert_ok(rota_runtime_close(p->runtime, 0));
    if (p->options.violations) fail_msg("%s", p->options.violation);
    assert_int_equal(p->options.live_memories, 0);
}

/* ---- One call, one submission ---- */

typedef struct writing {
    rota_buffer *buffer;
    const uint8_t *data;
    uint64_t size;
    rota_ticket ticket;
    rota_status status;
    _Atomic bool is_done;
} writing;

static void *write_main(void *user) {
    writing *w = user;
    w->status = rota_buffer_write(w->buffer, NULL, 0, w->data, w->size, &w->ticket);
    atomic_store(&w->is_done, true);
    return NULL;
}

typedef struct reading {
    rota_buffer *buffer;
    uint8_t *data;
    uint64_t size;
    rota_status status;
} reading;

static void *read_main(void *user) {
    reading *r = user;
    r->status = rota_buffer_read(r->buffer, 0, r->data, r->size);
    return NULL;
}

/* The submission's number in the order, which is also how many there were up to it. */
static uint64_t number_of(rota_ticket ticket) {
    uint64_t number = 0, deadline = rota_deadline_after(PATIENCE_NS);
    while (rota_ticket_number(ticket, &number) == ROTA_BUSY && rota_clock_ns() < deadline) test_nap_us(50);
    assert_ok(rota_ticket_number(ticket, &number));
    return number;
}

/* Waits until so many are sequenced, or `done`. */
static void wait_for_submissions(rota_runtime *runtime, uint64_t count, const _Atomic bool *done) {
    uint64_t deadline = rota_deadline_after(PATIENCE_NS);
    while (submissions(runtime) < count && !(done && atomic_load(done)) && rota_clock_ns() < deadline)
        test_nap_us(50);
    assert_true(submissions(runtime) >= count || (done && atomic_load(done)));
}

enum { TORN_BYTES = 5 << 20 };

/* Whatever a ring of two slots of 1 MiB lets a write of 5 MiB do while the buffer is in use, a read that
 * comes then sees all of it or nothing; and the ticket is that of the whole. */
static void read_beside_a_large_write(device_kind kind) {
    rig p;
    if (!open_rig(&p, kind, &ROTA_RUNTIME_OPTIONS(.staging_slots = 2))) return;
    uint8_t *old = bytes_of(TORN_BYTES, 1), *new = bytes_of(TORN_BYTES, 2), *got = bytes_of(TORN_BYTES, 3);
    rota_buffer *buffer = test_buffer(p.runtime, "large", TORN_BYTES);
    assert_ok(rota_buffer_write(buffer, p.device, 0, old, TORN_BYTES, NULL));
    rota_plan *gate = test_plan_1(p.device, "gate", &test_gate, buffer, ROTA_READWRITE);
    test_gate_open(false);
    rota_ticket first;
    assert_ok(rota_submit_wait(gate, NULL, 0, &first));
    test_gates_running(1);
    uint64_t before = number_of(first);
    writing w = {.buffer = buffer, .data = new, .size = TORN_BYTES};
    reading r = {.buffer = buffer, .data = got, .size = TORN_BYTES};
    pthread_t threads[2];
    assert_int_equal(pthread_create(&threads[0], NULL, write_main, &w), 0);
    wait_for_submissions(p.runtime, before + 2, &w.is_done);
    uint64_t written = before + (atomic_load(&w.is_done) ? 1 : 2);
    assert_int_equal(pthread_create(&threads[1], NULL, read_main, &r), 0);
    wait_for_submissions(p.runtime, written + 1, NULL);
    test_gate_open(true);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    assert_int_equal(w.status, ROTA_OK);
    assert_int_equal(r.status, ROTA_OK);
    assert_true(got[0] == 1 || got[0] == 2);
    if (!all_are(got, TORN_BYTES, got[0])) fail_msg("the read saw a part of the write");
    assert_int_equal(number_of(w.ticket), before + 1);
    assert_ok(rota_wait(w.ticket, 0));
    assert_ok(rota_buffer_read(buffer, 0, got, TORN_BYTES));
    assert_true(all_are(got, TORN_BYTES, 2));
    rota_plan_release(gate);
    rota_buffer_release(buffer);
    free(old);
    free(new);
    free(got);
    close_rig(&p);
}

static void no_read_sees_a_part_of_a_write(void **state) {
    (void)state;
    for (device_kind kind = ON_CPU; kind <= ON_UNIFIED_ADVERSARY; kind++) read_beside_a_large_write(kind);
}

/* A write that does not get through in time has written nothing. */
static void a_write_is_all_or_nothing(void **state) {
    (void)state;
    rig p;
    assert_true(open_rig(&p, ON_CPU, &ROTA_RUNTIME_OPTIONS(.staging_slots = 2, .timeout_ns = 200000000u)));
    uint8_t *old = bytes_of(TORN_BYTES, 1), *new = bytes_of(TORN_BYTES, 2), *got = bytes_of(TORN_BYTES, 3);
    rota_buffer *buffer = test_buffer(p.runtime, "large", TORN_BYTES);
    assert_ok(rota_buffer_write(buffer, p.device, 0, old, TORN_BYTES, NULL));
    rota_plan *gate = test_plan_1(p.device, "gate", &test_gate, buffer, ROTA_READWRITE);
    test_gate_open(false);
    rota_ticket ticket;
    assert_ok(rota_submit_wait(gate, NULL, 0, &ticket));
    test_gates_running(1);
    rota_status status = rota_buffer_write(buffer, NULL, 0, new, TORN_BYTES, NULL);
    test_gate_open(true);
    assert_ok(rota_wait(ticket, PATIENCE_NS));
    assert_ok(rota_buffer_read_async(buffer, 0, got, TORN_BYTES, &ticket));
    assert_ok(rota_wait(ticket, PATIENCE_NS));
    assert_true(all_are(got, TORN_BYTES, status == ROTA_OK ? 2 : 1));
    assert_int_equal(status, ROTA_OK);
    rota_plan_release(gate);
    rota_buffer_release(buffer);
    free(old);
    free(new);
    free(got);
    close_rig(&p);
}

enum { ROUNDS_BYTES = 5 << 20, ROUNDS_WORDS = ROUNDS_BYTES / 4 };

typedef struct rounds {
    rota_buffer *buffer;
    _Atomic bool stop;
    rota_status status;
} rounds;

static void *write_rounds(void *user) {
    rounds *r = user;
    uint32_t *words = malloc(ROUNDS_BYTES);
    if (!words) abort();
    for (uint32_t value = 1; !atomic_load(&r->stop) && r->status == ROTA_OK; value++) {
        for (uint32_t i = 0; i < ROUNDS_WORDS; i++) words[i] = value;
        r->status = rota_buffer_write(r->buffer, NULL, 0, words, ROUNDS_BYTES, NULL);
    }
    free(words);
    return NULL;
}

/* The same with nothing held back, also where the copies are a driver's. */
static void no_read_of_many_is_torn(void **state) {
    (void)state;
    for (device_kind kind = ON_CPU; kind < DEVICE_KINDS; kind++) {
        rig p;
        if (!open_rig(&p, kind, &ROTA_RUNTIME_OPTIONS(.staging_limit_bytes = 16 * MIB))) continue;
        rounds r = {.buffer = test_buffer(p.runtime, "large", ROUNDS_BYTES)};
        uint32_t *words = calloc(ROUNDS_WORDS, 4);
        assert_non_null(words);
        assert_ok(rota_buffer_write(r.buffer, p.device, 0, words, ROUNDS_BYTES, NULL));
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, write_rounds, &r), 0);
        uint32_t torn = 0, last = 0;
        for (uint32_t i = 0; i < 30 / SCALE; i++) {
            assert_ok(rota_buffer_read(r.buffer, 0, words, ROUNDS_BYTES));
            bool mixed = false;
            for (uint32_t w = 1; w < ROUNDS_WORDS; w++) mixed |= words[w] != words[0];
            torn += mixed;
            assert_true(words[0] >= last);
            last = words[0];
        }
        atomic_store(&r.stop, true);
        pthread_join(thread, NULL);
        assert_int_equal(r.status, ROTA_OK);
        assert_int_equal(torn, 0);
        free(words);
        rota_buffer_release(r.buffer);
        close_rig(&p);
    }
}

/* A read of 300 MiB is one submission with one ticket, and when a part at its end fails it, nothing was
 * brought. */
static void a_read_of_300_mib_is_one_submission(void **state) {
    (void)state;
    enum { MIBS = 300 / SCALE, FIRST = MIBS - 10 };
    rig p;
    assert_true(open_rig(&p, ON_CPU, &ROTA_RUNTIME_OPTIONS(.staging_idle_ns = 10000000u)));
    rota_buffer *buffer = test_buffer(p.runtime, "huge", MIBS * MIB);
    uint8_t *data = bytes_of(MIBS * MIB, 9), *part = bytes_of(10 * MIB, 5);
    for (uint32_t mib = 0; mib < FIRST; mib += 10)
        assert_ok(rota_buffer_write(buffer, p.device, mib * MIB, part, 10 * MIB, NULL));
    assert_status(rota_buffer_read(buffer, 0, data, MIBS * MIB), ROTA_UNDEFINED_DATA);
    assert_true(all_are(data, MIBS * MIB, 9));
    assert_ok(rota_buffer_write(buffer, p.device, FIRST * MIB, part, 10 * MIB, NULL));
    rota_ticket before, ticket;
    assert_ok(rota_buffer_read_async(buffer, 0, part, 1, &before));
    assert_ok(rota_buffer_read_async(buffer, 0, data, MIBS * MIB, &ticket));
    assert_ok(rota_wait(ticket, 0));
    assert_int_equal(number_of(ticket), number_of(before) + 1);
    assert_true(all_are(data, MIBS * MIB, 5));
    rota_buffer_release(buffer);
    free(data);
    free(part);
    close_rig(&p);
}

/* ---- Reads and the history of writes ---- */

enum { ROWS = 20000 / SCALE, ROW = 256 };

static void expect_rows(rota_buffer *table, uint8_t *all, uint8_t salt) {
    memset(all, 0xee, (size_t)ROWS * ROW);
    assert_ok(rota_buffer_read(table, 0, all, (uint64_t)ROWS * ROW));
    for (uint32_t row = 0; row < ROWS; row++)
        if (!all_are(all + (size_t)row * ROW, ROW, (uint8_t)(row * 7 + salt)))
            fail_msg("row %u is wrong", row);
}

/* Rows written one by one in a scattered order: ranges stay few while they are written, and a read takes its
 * own size of staging memory, whatever came before. */
static void reads_do_not_pay_for_past_writes(void **state) {
    (void)state;
    static const device_kind kinds[] = {ON_CPU, ON_UNIFIED_ADVERSARY};
    for (uint32_t k = 0; k < 2; k++) {
        rig p;
        assert_true(open_rig(&p, kinds[k], &ROTA_RUNTIME_OPTIONS()));
        rota_buffer *table = test_buffer(p.runtime, "table", (uint64_t)ROWS * ROW);
        const rota_residency *residency = table->residency;
        uint8_t *all = bytes_of((uint64_t)ROWS * ROW, 0), row[ROW];
        assert_ok(rota_buffer_write(table, p.device, 0, all, (uint64_t)ROWS * ROW, NULL));
        assert_ok(rota_buffer_read(table, 0, all, 1));
        for (uint8_t salt = 1; salt <= 2; salt++) {
            uint64_t begin = rota_clock_ns();
            for (uint32_t i = 0; i < ROWS; i++) {
                uint32_t number = (uint32_t)((uint64_t)i * 7919 % ROWS);
                memset(row, (uint8_t)(number * 7 + salt), ROW);
                assert_ok(rota_buffer_write(table, p.device, (uint64_t)number * ROW, row, ROW, NULL));
            }
            uint64_t before = memory_bytes(p.runtime);
            for (uint32_t i = 0; i < 5; i++) {
                expect_rows(table, all, salt);
                rota_sequencer_reap_now(p.runtime); /* the read's staging memory is the next one's */
            }
            assert_true(rota_clock_ns() - begin < PATIENCE_NS); /* it was 10 s for each read */
            assert_true(memory_bytes(p.runtime) - before <= 8 * MIB);
        }
        assert_true(residency->range_count <= 2);
        /* The most there were at once: twice what a ring of 16 slots leaves unfinished, and that again. */
        assert_true(residency->fold_at <= 128);
        rota_buffer_release(table);
        free(all);
        close_rig(&p);
    }
}

/* Ranges of writes that are unfinished stand by themselves, and are joined by whoever comes when they have
 * passed.
 */
static void unfinished_writes_are_joined_later(void **state) {
    (void)state;
    enum { SLOTS = 64 };
    rig p;
    assert_true(
        open_rig(&p, ON_CPU, &ROTA_RUNTIME_OPTIONS(.staging_slots = SLOTS, .staging_slot_bytes = 256)));
    rota_buffer *table = test_buffer(p.runtime, "table", 2 * SLOTS * ROW);
    const rota_residency *residency = table->residency;
    uint8_t *all = bytes_of(2 * SLOTS * ROW, 1);
    rota_buffer *other = test_words(p.device, "other", 1, 0);
    rota_ticket ticket;
    for (uint32_t i = 0; i < 2 * SLOTS; i++)
        assert_ok(rota_buffer_write(table, p.device, i * ROW, all + i * ROW, ROW, &ticket));
    assert_ok(rota_wait(ticket, 0));
    rota_plan *gate = test_plan_1(p.device, "gate", &test_gate, table, ROTA_READWRITE);
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
    test_gates_running(1);
    memset(all, 2, SLOTS * ROW);
    for (uint32_t i = 0; i < SLOTS; i++)
        assert_ok(rota_buffer_write(table, p.device, 2 * i * ROW, all, ROW, &ticket));
    rota_ticket after;
    uint32_t word;
    assert_ok(rota_buffer_read_async(other, 0, &word, 4, &after));
    (void)number_of(after); /* so all before it are sequenced */
    assert_int_equal(residency->range_count, 2 * SLOTS);
    test_gate_open(true);
    assert_ok(rota_wait(ticket, 0));
    assert_ok(rota_wait(after, 0));
    assert_ok(rota_buffer_read(table, 0, all, 2 * SLOTS * ROW));
    for (uint32_t i = 0; i < 2 * SLOTS; i++) assert_true(all_are(all + i * ROW, ROW, i % 2 ? 1 : 2));
    assert_int_equal(residency->range_count, 1);
    rota_plan_release(gate);
    rota_buffer_release(table);
    rota_buffer_release(other);
    free(all);
    close_rig(&p);
}

/* Rows that lie on two devices in turn are gathered by one work on each, into its size of staging memory. */
static void a_read_gathers_from_several_devices(void **state) {
    (void)state;
    enum { PIECES = 200 };
    rig p;
    assert_true(open_rig(&p, ON_ADVERSARY, &ROTA_RUNTIME_OPTIONS()));
    rota_device *cpu;
    assert_ok(rota_device_open(p.runtime, "cpu", &cpu));
    rota_buffer *table = test_buffer(p.runtime, "table", PIECES * ROW);
    uint8_t *all = bytes_of(PIECES * ROW, 0);
    for (uint32_t i = 0; i < PIECES; i++) {
        memset(all, (int)i, ROW);
        assert_ok(rota_buffer_write(table, i % 2 ? p.device : cpu, i * ROW, all, ROW, NULL));
    }
    uint64_t before = memory_bytes(p.runtime), works = p.options.works;
    for (uint32_t round = 0; round < 4; round++) {
        uint64_t from = round ? 100 * round : 0, size = PIECES * ROW - 2 * from;
        memset(all, 0xee, PIECES * ROW);
        rota_ticket ticket;
        if (round % 2) {
            assert_ok(rota_buffer_read_async(table, from, all, size, &ticket));
            assert_ok(rota_wait(ticket, 0));
        } else {
            assert_ok(rota_buffer_read(table, from, all, size));
        }
        for (uint64_t i = 0; i < size; i++) assert_int_equal(all[i], (uint8_t)((from + i) / ROW));
    }
    assert_true(p.options.works - works <= PIECES / 2 + 4); /* the writes' and one a read */
    assert_true(memory_bytes(p.runtime) - before <= 4 * 32768);
    /* Where one of the devices finds no memory for its part, the call fails, and brings nothing. */
    rota_buffer *wide = test_buffer(p.runtime, "wide", 3 * MIB);
    uint8_t *data = bytes_of(3 * MIB, 4);
    for (uint32_t i = 0; i < 3; i++)
        assert_ok(rota_buffer_write(wide, i == 1 ? p.device : cpu, i * MIB, data, MIB, NULL));
    for (uint32_t async = 0; async < 2; async++) {
        rota_ticket ticket;
        memset(data, 0xee, 3 * MIB);
        test_expect_words(wide, 1, 0x04040404); /* the writes have memory and are through */
        p.options.faults.memory_fails_in = 1;
        rota_status status = async ? rota_buffer_read_async(wide, 0, data, 3 * MIB, &ticket)
                                   : rota_buffer_read(wide, 0, data, 3 * MIB);
        if (async) {
            assert_int_equal(status, ROTA_OK);
            status = rota_wait(ticket, 0);
        }
        assert_int_equal(status, ROTA_OUT_OF_MEMORY);
        assert_non_null(strstr(rota_last_error(), "read of buffer 'wide'"));
        assert_non_null(strstr(rota_last_error(), "1048576 bytes of staging memory on device 'adversary'"));
        assert_true(all_are(data, 3 * MIB, 0xee));
    }
    assert_ok(rota_buffer_read(wide, 0, data, 3 * MIB));
    assert_true(all_are(data, 3 * MIB, 4));
    rota_buffer_release(table);
    rota_buffer_release(wide);
    free(all);
    free(data);
    close_rig(&p);
}

/* ---- Staging memory ---- */

/* Large writes wait for each other where they would pass the limit, and one that is larger by itself goes
 * alone. */
static void large_writes_stay_within_the_limit(void **state) {
    (void)state;
    rig p;
    assert_true(open_rig(&p, ON_CPU,
                         &ROTA_RUNTIME_OPTIONS(.staging_limit_bytes = 8 * MIB, .timeout_ns = 300000000u)));
    rota_buffer *buffer = test_buffer(p.runtime, "large", 32 * MIB);
    uint8_t *data = bytes_of(32 * MIB, 1);
    rota_ticket ticket;
    assert_ok(rota_buffer_write(buffer, p.device, 0, data, 32 * MIB, &ticket));
    assert_ok(rota_wait(ticket, PATIENCE_NS));
    rota_plan *gate = test_plan_1(p.device, "gate", &test_gate, buffer, ROTA_READWRITE);
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, &ticket));
    test_gates_running(1);
    uint64_t before = number_of(ticket);
    for (uint32_t i = 0; i < 2; i++) assert_ok(rota_buffer_write(buffer, NULL, 0, data, 4 * MIB, &ticket));
    uint64_t begin = rota_clock_ns();
    assert_status(rota_buffer_write(buffer, NULL, 0, data, 4 * MIB, NULL), ROTA_TIMEOUT);
    assert_non_null(strstr(rota_last_error(), "no room for staging memory"));
    assert_true(rota_clock_ns() - begin >= 300000000u);
    assert_status(rota_buffer_write(buffer, NULL, 0, data, 32 * MIB, NULL), ROTA_TIMEOUT);
    assert_ok(rota_buffer_write(buffer, NULL, 0, data, 4096, NULL)); /* the ring's */
    wait_for_submissions(p.runtime, before + 3, NULL);
    assert_int_equal(number_of(ticket), before + 2);
    test_gate_open(true);
    assert_ok(rota_wait(ticket, PATIENCE_NS));
    assert_ok(rota_buffer_write(buffer, NULL, 0, data, 32 * MIB, &ticket));
    assert_ok(rota_wait(ticket, PATIENCE_NS));
    rota_plan_release(gate);
    rota_buffer_release(buffer);
    free(data);
    close_rig(&p);
}

/* Staging memory counts in the runtime's limit: what does not fit is refused with its name before anything is
 * submitted, and what is only idle makes room for others. */
static void staging_memory_makes_room(void **state) {
    (void)state;
    for (device_kind kind = ON_CPU; kind <= ON_UNIFIED_ADVERSARY; kind++) {
        rig p;
        rota_runtime_options options =
            ROTA_RUNTIME_OPTIONS(.memory_limit_bytes = 40 * MIB, .staging_slots = 1);
        assert_true(open_rig(&p, kind, &options));
        rota_buffer *x = test_buffer(p.runtime, "x", 13 * MIB), *y = test_buffer(p.runtime, "y", 15 * MIB),
                    *z = test_buffer(p.runtime, "z", 13 * MIB);
        uint8_t *data = bytes_of(13 * MIB, 1), *got = bytes_of(13 * MIB, 0);
        /* 13 MiB, and as much as a block of 16 of staging memory, in both directions one after the other. */
        for (uint8_t round = 1; round < 5; round++) {
            memset(data, round, 13 * MIB);
            assert_ok(rota_buffer_write(x, p.device, 0, data, 13 * MIB, NULL));
            assert_ok(rota_buffer_read(x, 0, got, 13 * MIB));
            assert_true(all_are(got, 13 * MIB, round));
        }
        assert_ok(rota_buffer_prepare(y, p.device)); /* 28 of 40: the staging memory is gone */
        rota_ticket ticket;
        assert_ok(rota_buffer_read_async(x, 0, got, 1, &ticket));
        uint64_t before = number_of(ticket);
        assert_ok(rota_wait(ticket, 0));
        assert_status(rota_buffer_write(x, p.device, 0, data, 13 * MIB, NULL), ROTA_OUT_OF_MEMORY);
        assert_non_null(strstr(rota_last_error(), "write of 13631488 bytes to buffer 'x'"));
        assert_non_null(strstr(rota_last_error(), "of the memory limit of 41943040 are free"));
        assert_ok(rota_buffer_read_async(x, 0, got, 1, &ticket));
        assert_int_equal(number_of(ticket), before + 1);
        assert_status(rota_buffer_read(x, 0, got, 13 * MIB), ROTA_OUT_OF_MEMORY);
        assert_non_null(strstr(rota_last_error(), "of the memory limit of 41943040 are free"));
        assert_status(rota_buffer_prepare(z, p.device), ROTA_OUT_OF_MEMORY);
        assert_ok(rota_buffer_read(x, 0, got, 4 * MIB));
        assert_true(all_are(got, 4 * MIB, 4)); /* the write that was refused left it alone */
        rota_buffer_release(x);
        rota_buffer_release(y);
        rota_buffer_release(z);
        free(data);
        free(got);
        close_rig(&p);
    }
}

typedef struct limited {
    rota_buffer *buffer;
    rota_status status;
    char message[256];
} limited;

static void *read_under_limit(void *user) {
    limited *l = user;
    uint8_t *got = malloc(6 * MIB);
    if (!got) abort();
    for (uint32_t i = 0; i < 20 && l->status == ROTA_OK; i++)
        l->status = rota_buffer_read(l->buffer, 0, got, 6 * MIB);
    if (l->status != ROTA_OK) strncpy(l->message, rota_last_error(), sizeof l->message - 1);
    free(got);
    return NULL;
}

/* Threads that want more at once than the limit allows wait for each other: none of them is told that there
 * is no memory, since one alone would find it. */
static void reads_under_a_limit_take_turns(void **state) {
    (void)state;
    enum { THREADS = 6 };
    rig p;
    rota_runtime_options options = ROTA_RUNTIME_OPTIONS(.memory_limit_bytes = 24 * MIB, .staging_slots = 1);
    assert_true(open_rig(&p, ON_CPU, &options));
    uint8_t *data = bytes_of(6 * MIB, 1);
    rota_buffer *buffer = test_buffer(p.runtime, "buffer", 6 * MIB);
    assert_ok(rota_buffer_write(buffer, p.device, 0, data, 6 * MIB, NULL));
    pthread_t threads[THREADS];
    limited readers[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        readers[i] = (limited){.buffer = buffer};
        assert_int_equal(pthread_create(&threads[i], NULL, read_under_limit, &readers[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < THREADS; i++)
        if (readers[i].status != ROTA_OK) fail_msg("thread %u: %s", i, readers[i].message);
    /* Where nobody waits, whoever does not fit is told so. */
    rota_plan *gate = test_plan_1(p.device, "gate", &test_gate, buffer, ROTA_READWRITE);
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
    test_gates_running(1);
    rota_ticket first, second, third;
    uint8_t *other = bytes_of(6 * MIB, 0);
    assert_ok(rota_buffer_read_async(buffer, 0, data, 6 * MIB, &first));
    assert_ok(rota_buffer_read_async(buffer, 0, other, 6 * MIB, &second));
    assert_status(rota_buffer_read_async(buffer, 0, other, 6 * MIB, &third), ROTA_BUSY);
    test_gate_open(true);
    assert_ok(rota_wait(first, 0));
    assert_ok(rota_wait(second, 0));
    assert_true(all_are(other, 6 * MIB, 1));
    assert_ok(rota_buffer_read_async(buffer, 0, other, 6 * MIB, &third));
    assert_ok(rota_wait(third, 0));
    rota_plan_release(gate);
    rota_buffer_release(buffer);
    free(data);
    free(other);
    close_rig(&p);
}

/* What no transfer needs for the idle time goes, without any further call, but for a small block of each
 * kind. */
static void idle_staging_memory_is_given_back(void **state) {
    (void)state;
    for (device_kind kind = ON_CPU; kind < DEVICE_KINDS; kind++) {
        rig p;
        if (!open_rig(&p, kind, &ROTA_RUNTIME_OPTIONS(.staging_idle_ns = 10000000u))) continue;
        rota_buffer *buffer = test_buffer(p.runtime, "large", 24 * MIB);
        uint8_t *data = bytes_of(24 * MIB, 1);
        assert_ok(rota_buffer_prepare(buffer, p.device));
        uint64_t before = memory_bytes(p.runtime);
        for (uint32_t round = 0; round < 2; round++) {
            assert_ok(rota_buffer_write(buffer, p.device, 0, data, 24 * MIB, NULL));
            assert_ok(rota_buffer_read(buffer, 0, data, 24 * MIB));
            uint64_t deadline = rota_deadline_after(PATIENCE_NS);
            while (memory_bytes(p.runtime) > before + MIB / 4 && rota_clock_ns() < deadline)
                test_nap_us(1000);
            assert_true(memory_bytes(p.runtime) <= before + MIB / 4);
        }
        rota_buffer_release(buffer);
        free(data);
        close_rig(&p);
    }
}

/* Who needs the memory gets what is idle, and hears where there was none: then trying again is in vain. */
static void trimming_says_whether_it_helped(void **state) {
    (void)state;
    for (device_kind kind = ON_CPU; kind < DEVICE_KINDS; kind++) {
        rig p;
        if (!open_rig(&p, kind, &ROTA_RUNTIME_OPTIONS(.staging_idle_ns = PATIENCE_NS))) continue;
        rota_buffer *buffer = test_buffer(p.runtime, "x", MIB);
        uint8_t *data = bytes_of(MIB, 1);
        assert_ok(rota_buffer_write(buffer, p.device, 0, data, MIB, NULL));
        assert_ok(rota_buffer_read(buffer, 0, data, MIB));
        const uint64_t deadline = rota_deadline_after(PATIENCE_NS);
        while (rota_staging_is_busy(p.device) && rota_clock_ns() < deadline) test_nap_us(1000);
        assert_true(rota_staging_trim(p.runtime, UINT64_MAX));
        while (ra_load_acquire(&p.runtime->budget.staging_dying) && rota_clock_ns() < deadline)
            test_nap_us(1000);
        assert_false(rota_staging_trim(p.runtime, UINT64_MAX));
        rota_buffer_release(buffer);
        free(data);
        close_rig(&p);
    }
}

/* ---- P1: staging memory is frozen while a copy may be under way ---- */

/* How many of the reads that follow rounds of writes, all by way of the same blocks, are wrong. */
static uint32_t wrong_after_reuse(bool early_signals) {
    enum { BUFFERS = 4, SIZE = 12 << 10, ROUNDS = 12 };
    rig p;
    uint32_t wrong = 0;
    rota_runtime_options options = ROTA_RUNTIME_OPTIONS(.staging_slots = 2, .staging_slot_bytes = 4096);
    assert_true(open_rig(&p, ON_ADVERSARY, &options));
    rota_buffer *buffers[BUFFERS];
    uint8_t *data = bytes_of(SIZE, 0);
    for (uint32_t b = 0; b < BUFFERS; b++) buffers[b] = test_buffer(p.runtime, "b", SIZE);
    p.options.breaks.early_signal = early_signals;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t b = 0; b < BUFFERS; b++) {
            memset(data, (int)(1 + round * BUFFERS + b), SIZE);
            assert_ok(rota_buffer_write(buffers[b], p.device, 0, data, SIZE, NULL));
        }
        for (uint32_t b = 0; b < BUFFERS; b++) {
            assert_ok(rota_buffer_read(buffers[b], 0, data, SIZE));
            wrong += !all_are(data, SIZE, (uint8_t)(1 + round * BUFFERS + b));
        }
    }
    p.options.breaks.early_signal = false;
    for (uint32_t b = 0; b < BUFFERS; b++) rota_buffer_release(buffers[b]);
    free(data);
    if (early_signals)
        (void)rota_runtime_close(p.runtime, 0);
    else
        close_rig(&p);
    return wrong;
}

static void blocks_are_not_used_again_too_soon(void **state) {
    (void)state;
    assert_int_equal(wrong_after_reuse(false), 0);
#ifndef __SANITIZE_THREAD__                   /* which sees the race before */
    assert_true(wrong_after_reuse(true) > 0); /* it would be seen */
#endif
}

/* ---- P4: a stopped thread keeps its own staging memory, and nobody's turn ---- */

enum { SITES_MAX = 256, OTHER_BYTES = 96 << 10, OTHERS = 3 };

typedef struct halting {
    const rota_mark_site *site; /* NULL: the sites are collected */
    const rota_mark_site *sites[SITES_MAX];
    uint32_t site_count;
    bool was_halted;
    _Atomic bool halted, go_on, done;
    rota_status (*call)(struct halting *h);
    rota_buffer *buffer;
    uint8_t *data;
    rota_ticket ticket;
    rota_status status;
} halting;

static void on_mark(void *user, const rota_mark_site *site) {
    halting *h = user;
    if (!strstr(site->file, "sched/")) return; /* executors may make memory under a lock */
    if (!h->site) {
        for (uint32_t i = 0; i < h->site_count; i++)
            if (h->sites[i] == site) return;
        if (h->site_count < SITES_MAX) h->sites[h->site_count++] = site;
        return;
    }
    if (h->was_halted || site != h->site) return;
    h->was_halted = true;
    atomic_store(&h->halted, true);
    while (!atomic_load(&h->go_on)) test_nap_us(50);
}

static void *halting_main(void *user) {
    halting *h = user;
    rota_mark_user = h;
    rota_mark_hook = on_mark;
    h->status = h->call(h);
    rota_mark_hook = NULL;
    atomic_store(&h->done, true);
    return NULL;
}

static rota_status write_large(halting *h) {
    return rota_buffer_write(h->buffer, NULL, 0, h->data, OTHER_BYTES, &h->ticket);
}
static rota_status write_small(halting *h) {
    return rota_buffer_write(h->buffer, NULL, 0, h->data, 4096, &h->ticket);
}
static rota_status read_async(halting *h) {
    return rota_buffer_read_async(h->buffer, 0, h->data, OTHER_BYTES, &h->ticket);
}
static rota_status read_waiting(halting *h) {
    return rota_buffer_read(h->buffer, 0, h->data, OTHER_BYTES);
}

static void *others_main(void *user) {
    rota_device *device = user;
    rota_buffer *own = NULL;
    uint8_t *data = malloc(OTHER_BYTES);
    static rota_status statuses[OTHERS];
    static _Atomic uint32_t next;
    rota_status *status = &statuses[atomic_fetch_add(&next, 1) % OTHERS];
    if (!data) abort();
    memset(data, 7, OTHER_BYTES);
    *status = rota_runtime_buffer(rota_device_runtime(device), "own", OTHER_BYTES, &own);
    for (uint32_t i = 0; i < 2 && *status == ROTA_OK; i++) {
        *status = rota_buffer_write(own, device, 0, data, OTHER_BYTES, NULL);
        if (*status == ROTA_OK) *status = rota_buffer_write(own, device, 0, data, 64, NULL);
        if (*status == ROTA_OK) *status = rota_buffer_read(own, 0, data, OTHER_BYTES);
    }
    if (own) rota_buffer_release(own);
    free(data);
    return status;
}

static void others_finish(rota_device *device, const halting *h) {
    pthread_t threads[OTHERS];
    for (uint32_t i = 0; i < OTHERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, others_main, device), 0);
    for (uint32_t i = 0; i < OTHERS; i++) {
        void *status;
        pthread_join(threads[i], &status);
        if (*(rota_status *)status != ROTA_OK)
            fail_msg("another thread, with one halted at %s:%d: %s", h->site->file, h->site->line,
                     rota_status_name(*(rota_status *)status));
    }
}

/* `gate`: large writes have no room until it is opened, with the thread in its call or halted there. */
static void halt_one(const rig *p, halting *h, rota_plan *gate, const rota_mark_site *site) {
    h->site = site;
    h->was_halted = false;
    atomic_store(&h->halted, false);
    atomic_store(&h->go_on, false);
    atomic_store(&h->done, false);
    if (gate) {
        test_gate_open(false);
        assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
        test_gates_running(1);
        assert_ok(rota_buffer_write(h->buffer, NULL, 0, h->data, OTHER_BYTES, NULL));
    }
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, halting_main, h), 0);
    uint64_t release_at = rota_deadline_after(gate ? 5000000u : PATIENCE_NS);
    while (!atomic_load(&h->halted) && !atomic_load(&h->done) && rota_clock_ns() < release_at)
        test_nap_us(20);
    if (gate) test_gate_open(true);
    while (!atomic_load(&h->halted) && !atomic_load(&h->done)) test_nap_us(20);
    if (atomic_load(&h->halted)) others_finish(p->device, h);
    atomic_store(&h->go_on, true);
    pthread_join(thread, NULL);
    assert_int_equal(h->status, ROTA_OK);
    if (h->ticket.id) assert_ok(rota_wait(h->ticket, 0));
}

static void stopped_threads_keep_their_own(void **state) {
    (void)state;
    static const struct {
        const char *name;
        rota_status (*call)(halting *h);
        bool waits;
    } calls[] = {{"large write", write_large, false},
                 {"large write that waits", write_large, true},
                 {"small write", write_small, false},
                 {"read", read_waiting, false},
                 {"asynchronous read", read_async, false}};
    for (uint32_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        rig p;
        rota_runtime_options options =
            ROTA_RUNTIME_OPTIONS(.staging_limit_bytes = 128 << 10, .memory_limit_bytes = 64 * MIB,
                                 .staging_slots = 2, .staging_slot_bytes = 16 << 10);
        assert_true(open_rig(&p, ON_CPU, &options));
        static halting h;
        h = (halting){.call = calls[c].call, .data = bytes_of(OTHER_BYTES, 3)};
        h.buffer = test_buffer(p.runtime, "victim's", OTHER_BYTES);
        assert_ok(rota_buffer_write(h.buffer, p.device, 0, h.data, OTHER_BYTES, NULL));
        rota_plan *gate = test_plan_1(p.device, "gate", &test_gate, h.buffer, ROTA_READWRITE);
        rota_plan *waits = calls[c].waits ? gate : NULL;
        halt_one(&p, &h, waits, NULL);
        assert_true(h.site_count > 10);
        uint32_t count = h.site_count, halted = 0;
        for (uint32_t i = 0; i < count; i++) {
            halt_one(&p, &h, waits, h.sites[i]);
            halted += h.was_halted;
        }
        print_message("%s: halted at %u of %u marked points\n", calls[c].name, halted, count);
        assert_true(halted > 10); /* some are passed only where it has to wait */
        rota_plan_release(gate);
        rota_buffer_release(h.buffer);
        free(h.data);
        close_rig(&p);
    }
}

/* ---- Reads that nobody waits for in the call ---- */

static void seen(void *user, rota_status status, const char *message) {
    (void)message;
    uint8_t *data = user;
    if (status == ROTA_OK && data[0] == 1 && data[4095] == 1) data[4095] = 0xaa;
}

/* A lane takes 256 submissions at a time. */
static rota_status read_when_there_is_room(rota_buffer *buffer, uint8_t *data, uint64_t size,
                                           rota_ticket *out_ticket) {
    rota_status status = ROTA_BUSY;
    for (uint64_t end = rota_deadline_after(PATIENCE_NS); status == ROTA_BUSY && rota_clock_ns() < end;)
        status = rota_buffer_read_async(buffer, 0, data, size, out_ticket);
    return status;
}

static void async_reads_bring_the_bytes_before_their_ticket(void **state) {
    (void)state;
    enum { SIZE = 4096, READS = 500 };
    for (device_kind kind = ON_CPU; kind <= ON_UNIFIED_ADVERSARY; kind++) {
        rig p;
        assert_true(open_rig(&p, kind, &ROTA_RUNTIME_OPTIONS()));
        rota_buffer *buffer = test_buffer(p.runtime, "b", SIZE);
        uint8_t *one = bytes_of(SIZE, 1), *two = bytes_of(SIZE, 2),
                *got = bytes_of((uint64_t)SIZE * READS, 0xee), *late = bytes_of(SIZE, 0xee);
        assert_ok(rota_buffer_write(buffer, p.device, 0, one, SIZE, NULL));
        rota_plan *gate = test_plan_1(p.device, "gate", &test_gate, buffer, ROTA_READWRITE);
        test_gate_open(false);
        assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
        test_gates_running(1);
        rota_ticket tickets[READS], last, none;
        assert_ok(rota_buffer_read_async(buffer, 0, got, 0, &none));
        assert_int_equal(none.id, 0);
        assert_status(rota_buffer_read_async(buffer, 1, got, SIZE, &none), ROTA_OUT_OF_RANGE);
        for (uint32_t i = 0; i < READS; i++)
            assert_ok(read_when_there_is_room(buffer, got + (size_t)i * SIZE, SIZE, &tickets[i]));
        assert_ok(rota_ticket_on_complete(tickets[READS - 1], seen, got + (size_t)(READS - 1) * SIZE));
        /* Written after them all: they return what was there before. */
        assert_ok(rota_buffer_write(buffer, NULL, 0, two, SIZE, NULL));
        assert_ok(read_when_there_is_room(buffer, late, SIZE, &last));
        rota_buffer_release(buffer);
        for (uint32_t i = 0; i < READS; i += 50) assert_status(rota_poll(tickets[i]), ROTA_BUSY);
        assert_true(all_are(got, (uint64_t)SIZE * READS, 0xee));
        test_gate_open(true);
        for (uint32_t i = 0; i + 1 < READS; i++) {
            assert_ok(rota_wait(tickets[i], 0));
            assert_true(all_are(got + (size_t)i * SIZE, SIZE, 1));
        }
        assert_ok(rota_wait(last, 0));
        assert_true(all_are(late, SIZE, 2));
        rota_plan_release(gate);
        close_rig(&p); /* the callback has run */
        assert_int_equal(got[(size_t)READS * SIZE - 1], 0xaa);
        free(one);
        free(two);
        free(got);
        free(late);
    }
}

/* Into the same memory in the order of their submission, whichever is through first; and one that fails ends
 * only when what comes before it has been brought, since its caller may then free the memory. */
static void async_reads_are_delivered_in_order(void **state) {
    (void)state;
    rig p;
    assert_true(open_rig(&p, ON_ADVERSARY, &ROTA_RUNTIME_OPTIONS()));
    rota_device *cpu;
    assert_ok(rota_device_open(p.runtime, "cpu", &cpu));
    rota_buffer *slow = test_words(cpu, "slow", 64, 1), *quick = test_words(p.device, "quick", 64, 2),
                *never = test_buffer(p.runtime, "never", 256);
    rota_plan *gate = test_plan_1(cpu, "gate", &test_gate, slow, ROTA_READWRITE);
    uint32_t words[64] = {0}, other[64] = {0};
    rota_ticket first, second, failed, alone;
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
    test_gates_running(1);
    assert_ok(rota_buffer_read_async(slow, 0, words, sizeof words, &first));
    assert_ok(rota_buffer_read_async(quick, 0, words, 128, &second));
    assert_ok(rota_buffer_read_async(never, 0, words + 32, 128, &failed));
    assert_ok(rota_buffer_read_async(quick, 0, other, sizeof other, &alone));
    assert_ok(rota_wait(alone, 0));
    assert_int_equal(other[63], 2);
    assert_status(rota_poll(second), ROTA_BUSY);
    assert_status(rota_poll(failed), ROTA_BUSY);
    assert_int_equal(words[0], 0);
    test_gate_open(true);
    assert_ok(rota_wait(second, 0));
    assert_int_equal(words[0], 2);
    assert_int_equal(words[31], 2);
    assert_status(rota_wait(failed, 0), ROTA_UNDEFINED_DATA);
    assert_int_equal(words[32], 1);
    assert_ok(rota_wait(first, 0));
    rota_plan_release(gate);
    rota_buffer_release(slow);
    rota_buffer_release(quick);
    rota_buffer_release(never);
    close_rig(&p);
}

/* What they cannot bring they leave alone, with the cause. */
static void async_reads_that_fail(void **state) {
    (void)state;
    enum { WORDS = 1024 };
    rig p;
    assert_true(open_rig(&p, ON_ADVERSARY, &ROTA_RUNTIME_OPTIONS(.timeout_ns = 5000000000u)));
    rota_device *cpu;
    assert_ok(rota_device_open(p.runtime, "cpu", &cpu));
    rota_buffer *failed = test_words(cpu, "failed", WORDS, 1), *never = test_buffer(p.runtime, "never", 64),
                *lost = test_words(p.device, "lost", WORDS, 3);
    rota_plan *fails = test_plan_1(cpu, "fails", &test_failing, failed, ROTA_WRITE),
              *gate = test_plan_1(p.device, "gate", &test_gate, lost, ROTA_READWRITE);
    uint32_t word = 0xeeeeeeee, words[WORDS];
    rota_ticket tickets[3];
    test_fail = 1;
    assert_ok(rota_submit_wait(fails, NULL, 0, NULL));
    assert_ok(rota_buffer_read_async(failed, 8, &word, 4, &tickets[0]));
    assert_ok(rota_buffer_read_async(never, 8, &word, 4, &tickets[1]));
    assert_status(rota_wait(tickets[0], 0), ROTA_NODE_FAILED);
    assert_non_null(strstr(rota_last_error(), "node 'failing'"));
    assert_status(rota_wait(tickets[1], 0), ROTA_UNDEFINED_DATA);
    assert_int_equal(word, 0xeeeeeeee);
    test_fail = 0;
    memset(words, 0xee, sizeof words);
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
    test_gates_running(1);
    assert_ok(rota_buffer_read_async(lost, 0, words, sizeof words, &tickets[2]));
    p.options.faults.lost_in_works = 1;
    test_gate_open(true);
    assert_status(rota_wait(tickets[2], 0), ROTA_DEVICE_LOST);
    assert_int_equal(words[0], 0xeeeeeeee);
    rota_plan_release(fails);
    rota_plan_release(gate);
    rota_buffer_release(failed);
    rota_buffer_release(never);
    rota_buffer_release(lost);
    (void)rota_runtime_close(p.runtime, 0);
    assert_int_equal(words[0], 0xeeeeeeee);
    assert_int_equal(p.options.violations, 0);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_read_sees_a_part_of_a_write),
        cmocka_unit_test(a_write_is_all_or_nothing),
        cmocka_unit_test(no_read_of_many_is_torn),
        cmocka_unit_test(a_read_of_300_mib_is_one_submission),
        cmocka_unit_test(reads_do_not_pay_for_past_writes),
        cmocka_unit_test(unfinished_writes_are_joined_later),
        cmocka_unit_test(a_read_gathers_from_several_devices),
        cmocka_unit_test(large_writes_stay_within_the_limit),
        cmocka_unit_test(staging_memory_makes_room),
        cmocka_unit_test(reads_under_a_limit_take_turns),
        cmocka_unit_test(idle_staging_memory_is_given_back),
        cmocka_unit_test(trimming_says_whether_it_helped),
        cmocka_unit_test(blocks_are_not_used_again_too_soon),
        cmocka_unit_test(stopped_threads_keep_their_own),
        cmocka_unit_test(async_reads_bring_the_bytes_before_their_ticket),
        cmocka_unit_test(async_reads_are_delivered_in_order),
        cmocka_unit_test(async_reads_that_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
