/* Host reads and writes: one call is one submission whatever its size, and reads don't pay for the history of
 * writes. */
#include "tests/sched/runtime/hostio_kit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/thread_time.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/memory/residency.h"
#include "sched/runtime/shared/mailboxes.h"

/* Sanitizers take what a tenth of it shows. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { SCALE = 10 };
#else
enum { SCALE = 1 };
#endif

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
            const uint64_t begin = rota_thread_cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
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
            /* All threads' processor time, which others' work is no part of: it was 10 s for each read. */
            assert_true(rota_thread_cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - begin < PATIENCE_NS);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
