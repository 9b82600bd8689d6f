/* Reads that nobody waits for in the call. */
#include "tests/sched/runtime/hostio_kit.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"

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
        cmocka_unit_test(async_reads_bring_the_bytes_before_their_ticket),
        cmocka_unit_test(async_reads_are_delivered_in_order),
        cmocka_unit_test(async_reads_that_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
