/* What is around a ticket that is cancelled by a call: who calls, other devices, the host's reads and writes, objects
 * that were released, losses and closing, and what is left behind. On each device that there is. */
#include "tests/sched/runtime/cancel_kit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/testing.h"
#include "tests/kit/nap.h"
#include "tests/kit/sequenced.h"

/* ---- From where it is called ---- */

typedef struct called {
    rota_ticket ticket;
    _Atomic uint32_t status, calls;
} called;

static void cancel_it(void *user, rota_status status, const char *message) {
    called *c = user;
    (void)status, (void)message;
    ra_store_release(&c->status, (uint32_t)rota_ticket_cancel(c->ticket));
    (void)ra_fetch_add_acq_rel(&c->calls, 1);
}

static void from_callback_case(house *h, rota_device *device, const char *on) {
    rota_buffer *x = filled(device, "x", 1), *y = filled(device, "y", 2), *z = filled(device, "z", 3);
    rota_plan *map = map_plan(h, device, x, y), *other = map_plan(h, device, x, z);
    rota_external_timeline *timeline = timeline_of(h), *first = timeline_of(h);
    called c = {.ticket = submit_after(map, NULL, timeline)};
    const rota_ticket trigger = submit_after(other, NULL, first);
    assert_ok(rota_ticket_on_complete(trigger, cancel_it, &c));
    called itself = {.ticket = c.ticket};
    assert_ok(rota_ticket_on_complete(c.ticket, cancel_it, &itself)); /* its own, which has ended then */
    assert_ok(rota_external_timeline_signal(first, 1));
    expect_cancelled(c.ticket, "plan 'map'", on);
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    while (!ra_load_acquire(&itself.calls) && rota_clock_ns() < deadline) test_nap();
    assert_int_equal(ra_load_acquire(&c.status), ROTA_OK);
    assert_int_equal(ra_load_acquire(&itself.calls), 1);
    assert_int_equal(ra_load_acquire(&itself.status), ROTA_OK);
    rota_external_timeline_release(first);
    release_all(timeline, PLANS(map, other), BUFFERS(x, y, z));
}
static void from_callback(void **state) {
    (void)state;
    on_each(from_callback_case);
}

/* Several at once, and one that is told of all. */
static void *cancel_call(void *user) {
    const rota_ticket *tickets = user;
    for (uint32_t i = 0; tickets[i].id; i++)
        if (rota_ticket_cancel(tickets[i]) != ROTA_OK) return "failed";
    return NULL;
}

static void by_many_case(house *h, rota_device *device, const char *on) {
    enum { THREADS = 4, TICKETS = 40 };
    rota_buffer *x = filled(device, "x", 1), *y = filled(device, "y", 2), *z = filled(device, "z", 3);
    rota_plan *map = map_plan(h, device, x, y), *other = map_plan(h, device, x, z);
    rota_external_timeline *timeline = timeline_of(h);
    rota_ticket tickets[TICKETS + 1] = {{NULL, 0}}, kept[TICKETS];
    for (uint32_t i = 0; i < TICKETS; i++) {
        tickets[i] = submit_after(map, NULL, timeline);
        kept[i] = submit(other);
    }
    pthread_t threads[THREADS];
    for (uint32_t t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, cancel_call, tickets), 0);
    for (uint32_t t = 0; t < THREADS; t++) {
        void *said;
        assert_int_equal(pthread_join(threads[t], &said), 0);
        assert_null(said);
    }
    for (uint32_t i = 0; i < TICKETS; i++) {
        expect_cancelled(tickets[i], "plan 'map'", on);
        assert_ok(rota_wait(kept[i], 0));
    }
    expect_bad(y, "plan 'map'", on);
    expect_mapped(z, 1, 1, on);
    release_all(timeline, PLANS(map, other), BUFFERS(x, y, z));
}
static void by_many(void **state) {
    (void)state;
    on_each(by_many_case);
}

/* ---- Over several devices ---- */

static void spread(void **state) {
    (void)state;
    house *h = open_house(false);
    for (uint32_t k = 1; k < KINDS; k++) {
        rota_device *cpu = h->devices[CPU], *other = h->devices[k];
        if (!other) continue;
        rota_buffer *x = filled(cpu, "x", 1), *y = filled(other, "y", 2), *z = filled(cpu, "z", 3);
        sketch s;
        sketch_open(&s);
        add_map(&s, cpu, x, y);
        add_map(&s, other, y, z);
        rota_plan *plan = sketch_compile(&s, h, "both");
        rota_external_timeline *timeline = timeline_of(h);
        const rota_ticket held = submit_after(plan, NULL, timeline);
        test_sequenced(held);
        assert_ok(rota_ticket_cancel(held));
        expect_cancelled(held, "plan 'both'", ids[k]);
        expect_bad(y, "plan 'both'", ids[k]);
        expect_bad(z, "plan 'both'", ids[k]);
        test_expect_words(x, WORDS, 1);
        /* The first part runs; the other one's does not begin. */
        sketch_open(&s);
        add_stay(&s, cpu, false, x);
        add_map(&s, other, x, y);
        add_map(&s, cpu, y, z);
        rota_plan *behind = sketch_compile(&s, h, "behind");
        hold_nodes();
        const rota_ticket ticket = submit(behind);
        until_begun();
        assert_ok(rota_ticket_cancel(ticket));
        let_nodes_go();
        expect_cancelled(ticket, "plan 'behind'", ids[k]);
        test_expect_words(x, WORDS, 7);
        expect_bad(y, "plan 'behind'", ids[k]);
        expect_bad(z, "plan 'behind'", ids[k]);
        assert_ok(rota_wait(submit(behind), 0));
        expect_mapped(z, 7, 2, ids[k]);
        release_all(timeline, PLANS(plan, behind), BUFFERS(x, y, z));
    }
    close_house(h);
}

/* Bytes that moved for a cancelled submission, and that it did not write, are good where they came to. */
static void moved(void **state) {
    (void)state;
    house *h = open_house(false);
    for (uint32_t k = 1; k < KINDS; k++) {
        rota_device *cpu = h->devices[CPU], *other = h->devices[k];
        if (!other) continue;
        rota_buffer *x = filled(cpu, "x", 5), *y = filled(other, "y", 2), *z = filled(other, "z", 3);
        rota_plan *map = map_plan(h, other, x, y), *again = map_plan(h, other, x, z);
        rota_external_timeline *timeline = timeline_of(h);
        const rota_ticket held = submit_after(map, NULL, timeline);
        assert_ok(rota_ticket_cancel(held));
        expect_cancelled(held, "plan 'map'", ids[k]);
        assert_ok(rota_wait(submit(again), 0));
        expect_mapped(z, 5, 1, ids[k]);
        test_expect_words(x, WORDS, 5);
        expect_bad(y, "plan 'map'", ids[k]);
        release_all(timeline, PLANS(map, again), BUFFERS(x, y, z));
    }
    close_house(h);
}

/* ---- The host's reads and writes ---- */

static void host_case(house *h, rota_device *device, const char *on) {
    rota_buffer *x = filled(device, "x", 1), *y = filled(device, "y", 2);
    rota_plan *map = map_plan(h, device, x, y);
    rota_external_timeline *timeline = timeline_of(h);
    uint32_t words[WORDS];
    memset(words, 0xee, sizeof words);
    /* Both wait for a replay that is held: a write of what it reads, a read of what it writes. */
    const rota_ticket held = submit_after(map, NULL, timeline);
    uint32_t nine[WORDS];
    for (uint32_t i = 0; i < WORDS; i++) nine[i] = 9;
    rota_ticket written, taken;
    assert_ok(rota_buffer_write(x, device, 0, nine, BYTES / 2, &written));
    assert_ok(rota_buffer_read_async(y, 0, words, BYTES, &taken));
    test_sequenced(taken);
    assert_ok(rota_ticket_cancel(written));
    assert_ok(rota_ticket_cancel(taken));
    assert_status(rota_poll(written), ROTA_BUSY);
    assert_status(rota_poll(taken), ROTA_BUSY);
    assert_ok(rota_external_timeline_signal(timeline, 1));
    assert_ok(rota_wait(held, 0));
    expect_cancelled(written, "write to buffer 'x'", on);
    expect_cancelled(taken, "read of buffer 'y'", on);
    expect_untouched(words, WORDS, on);
    expect_mapped(y, 1, 1, on); /* a read that was cancelled has done nothing to it */
    expect_inherited(rota_buffer_read(x, 0, words, 4), "write to buffer 'x'", on);
    assert_ok(rota_buffer_read(x, BYTES / 2, words, BYTES / 2)); /* beside it */
    for (uint32_t i = 0; i < WORDS / 2; i++) assert_int_equal(words[i], 1);
    assert_ok(rota_buffer_write(x, device, 0, nine, BYTES / 2, NULL));
    assert_ok(rota_buffer_read(x, 0, words, BYTES / 2));
    for (uint32_t i = 0; i < WORDS / 2; i++) assert_int_equal(words[i], 9);
    release_all(timeline, PLANS(map), BUFFERS(x, y));
}
static void host(void **state) {
    (void)state;
    on_each(host_case);
}

/* ---- Released at once, and its inputs and outputs ---- */

static rota_plan *in_out(const house *h, rota_device *device, rota_buffer **out_in, rota_buffer **out_out,
                         rota_buffer *y) {
    sketch s;
    sketch_open(&s);
    assert_ok(rota_graph_buffer(s.graph, ROTA_BUFFER_INPUT, "in", BYTES, out_in));
    assert_ok(rota_graph_buffer(s.graph, ROTA_BUFFER_OUTPUT, "out", BYTES, out_out));
    add_map(&s, device, *out_in, y);
    add_map(&s, device, y, *out_out);
    return sketch_compile(&s, h, "in and out");
}

static void released_case(house *h, rota_device *device, const char *on) {
    rota_buffer *in, *out, *y = filled(device, "y", 2);
    rota_plan *plan = in_out(h, device, &in, &out, y);
    rota_external_timeline *timeline = timeline_of(h);
    uint32_t *given = malloc(BYTES), *brought = malloc(BYTES);
    assert_true(given && brought);
    for (uint32_t i = 0; i < WORDS; i++) given[i] = 3;
    memset(brought, 0xee, BYTES);
    rota_args *args;
    assert_ok(rota_args_create(plan, &args));
    assert_ok(rota_args_set_input(args, in, given, BYTES, false));
    assert_ok(rota_args_set_output(args, out, brought, BYTES));
    /* A later one that writes the same memory has its turn. */
    const rota_ticket held = submit_after(plan, args, timeline);
    rota_ticket later;
    assert_ok(rota_submit_wait(plan, args, 0, &later));
    assert_ok(rota_ticket_cancel(held));
    expect_cancelled(held, "plan 'in and out'", on);
    assert_ok(rota_wait_inputs_taken(held, 0));
    assert_ok(rota_wait(later, 0));
    for (uint32_t i = 0; i < WORDS; i++) assert_int_equal(brought[i], mapped(mapped(3, i), i));
    /* And by itself: nothing is written, and all of it may go as soon as the ticket has ended. */
    memset(brought, 0xee, BYTES);
    const rota_ticket last = submit_after(plan, args, timeline);
    rota_args_release(args);
    rota_plan_release(plan);
    rota_buffer_release(y);
    rota_external_timeline_release(timeline);
    test_nap_ms(2);
    assert_ok(rota_ticket_cancel(last));
    expect_cancelled(last, "plan 'in and out'", on);
    expect_untouched(brought, WORDS, on);
    free(given);
    free(brought);
}
static void released(void **state) {
    (void)state;
    on_each(released_case);
}

/* ---- Lost devices, and closing ---- */

/* Whatever the loss of its device does to it, it ends, and as one or the other. */
static void lost(void **state) {
    (void)state;
    for (uint32_t round = 0; round < 6; round++) {
        house *h = open_house(false);
        rota_device *device = h->devices[ADVERSARY], *cpu = h->devices[CPU];
        rota_buffer *x = filled(device, "x", 1), *y = filled(device, "y", 2), *z = filled(cpu, "z", 3);
        rota_buffer *a = filled(device, "a", 4);
        sketch s;
        sketch_open(&s);
        add_map(&s, device, x, y);
        add_map(&s, cpu, y, z);
        rota_plan *plan = sketch_compile(&s, h, "both"), *other = map_plan(h, device, x, a);
        rota_external_timeline *timeline = timeline_of(h);
        const rota_ticket held = submit_after(plan, NULL, timeline);
        const rota_ticket twice = submit_after(plan, NULL, timeline);
        if (round & 1) assert_ok(rota_ticket_cancel(held));
        atomic_store(&h->options.faults.lost_in_works, 1);
        (void)rota_wait(submit(other), 0);
        if (!(round & 1)) assert_ok(rota_ticket_cancel(held));
        if (round & 2) assert_ok(rota_ticket_cancel(twice));
        const rota_status status = rota_wait(held, 0);
        assert_true(status == ROTA_CANCELLED || status == ROTA_DEVICE_LOST);
        /* One that is held ends no earlier than what it is held for, also of a lost device. */
        if (!(round & 2)) assert_ok(rota_external_timeline_signal(timeline, 1));
        const rota_status second = rota_wait(twice, 0);
        assert_true(second == ROTA_DEVICE_LOST || (round & 2 && second == ROTA_CANCELLED));
        assert_int_not_equal(rota_buffer_read(z, 0, &(uint32_t){0}, 4), ROTA_OK);
        release_all(timeline, PLANS(plan, other), BUFFERS(x, y, z, a));
        close_house(h);
    }
}

static void note_status(void *user, rota_status status, const char *message) {
    (void)message;
    ra_store_release((_Atomic uint32_t *)user, (uint32_t)status);
}

/* Closed over what was cancelled just now, on every device. */
static void closed(void **state) {
    (void)state;
    for (uint32_t round = 0; round < 8; round++) {
        house *h = open_house(false);
        _Atomic uint32_t said[KINDS];
        rota_external_timeline *timeline = timeline_of(h);
        for (uint32_t k = 0; k < KINDS; k++) {
            ra_store_relaxed(&said[k], ROTA_CANCELLED);
            if (!h->devices[k]) continue;
            rota_buffer *x = filled(h->devices[k], "x", 1), *y = filled(h->devices[k], "y", 2);
            rota_plan *map = map_plan(h, h->devices[k], x, y);
            const rota_ticket ticket = submit_after(map, NULL, timeline);
            assert_ok(rota_ticket_on_complete(ticket, note_status, &said[k]));
            assert_ok(rota_ticket_cancel(ticket));
            release_all(NULL, PLANS(map), BUFFERS(x, y));
        }
        test_nap_us((uint64_t)round * 300);
        rota_external_timeline_release(timeline);
        close_house(h);
        for (uint32_t k = 0; k < KINDS; k++) assert_int_equal(ra_load_acquire(&said[k]), ROTA_CANCELLED);
    }
}

/* ---- What it leaves behind ---- */

/* Nobody is asked any more once what was cancelled has ended and nothing counts as failed. */
static void forgotten(void **state) {
    (void)state;
    house *h = open_house(false);
    for (uint32_t k = 0; k < KINDS; k++) {
        rota_device *device = h->devices[k];
        if (!device) continue;
        rota_buffer *x = filled(device, "x", 1), *y = filled(device, "y", 2);
        rota_plan *map = map_plan(h, device, x, y);
        rota_external_timeline *timeline = timeline_of(h);
        const rota_ticket held = submit_after(map, NULL, timeline);
        test_sequenced(held);
        assert_ok(rota_ticket_cancel(held));
        expect_cancelled(held, "plan 'map'", ids[k]);
        assert_ok(rota_wait(submit(map), 0));
        expect_mapped(y, 1, 1, ids[k]);
        const uint64_t deadline = rota_deadline_after(SOON_NS);
        while (ra_load_seq_cst(&h->runtime->failed.active) != 0 && rota_clock_ns() < deadline) test_nap();
        assert_int_equal(ra_load_seq_cst(&h->runtime->failed.active), 0);
        release_all(timeline, PLANS(map), BUFFERS(x, y));
    }
    close_house(h);
}

/* A ticket's end is told where it is exported, and through an eventfd, as that of one that failed. */
static void told(void **state) {
    (void)state;
    house *h = open_house(false);
    rota_device *device = h->devices[CPU];
    rota_buffer *x = filled(device, "x", 1), *y = filled(device, "y", 2);
    rota_plan *map = map_plan(h, device, x, y);
    rota_external_timeline *timeline = timeline_of(h), *out = timeline_of(h);
    const rota_ticket held = submit_after(map, NULL, timeline);
    assert_ok(rota_ticket_export(held, out, 4));
    _Atomic uint32_t said;
    ra_store_relaxed(&said, ROTA_BUSY);
    assert_ok(rota_ticket_on_complete(held, note_status, &said));
    assert_ok(rota_ticket_cancel(held));
    expect_cancelled(held, "plan 'map'", "told");
    uint64_t value = 0, deadline = rota_deadline_after(SOON_NS);
    while ((value < 4 || ra_load_acquire(&said) == ROTA_BUSY) && rota_clock_ns() < deadline) {
        test_nap();
        assert_ok(rota_external_timeline_value(out, &value));
    }
    assert_int_equal(value, 4);
    assert_int_equal(ra_load_acquire(&said), ROTA_CANCELLED);
    rota_external_timeline_release(out);
    release_all(timeline, PLANS(map), BUFFERS(x, y));
    close_house(h);
}

/* With diagnostics the trace says so, and a wait that times out over what is held to its turn. */
static void traced(void **state) {
    (void)state;
    rota_runtime *runtime;
    rota_device *cpu;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.diagnostics = true), &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &cpu));
    rota_buffer *x = filled(cpu, "x", 1);
    const test_node nodes[] = {{&test_increment, "first", {{x, 0, ROTA_WHOLE, ROTA_READWRITE}}, 1},
                               {&test_increment, "second", {{x, 0, ROTA_WHOLE, ROTA_READWRITE}}, 1}};
    rota_plan *plan = test_plan(cpu, "traced", nodes, 2);
    rota_external_timeline *timeline;
    assert_ok(rota_external_timeline_create(runtime, "frames", &timeline));
    const char *said[] = {"\"ph\":\"i\",\"s\":\"p\",\"name\":\"CANCELLED\"", "\"name\":\"first\""};
    for (uint32_t cancelled = 0; cancelled < 2; cancelled++) {
        const rota_ticket ticket = submit_after(plan, NULL, timeline);
        if (cancelled)
            assert_ok(rota_ticket_cancel(ticket));
        else
            assert_ok(rota_external_timeline_signal(timeline, 1));
        assert_status(rota_wait(ticket, 0), cancelled ? ROTA_CANCELLED : ROTA_OK);
        rota_sequencer_reap_now(runtime);
        char path[] = "/tmp/rota_trace_XXXXXX", text[8192] = {0};
        const int file = mkstemp(path);
        assert_true(file >= 0);
        (void)close(file);
        assert_ok(rota_plan_write_trace(plan, path));
        FILE *written = fopen(path, "r");
        assert_non_null(written);
        assert_true(fread(text, 1, sizeof text - 1, written) > 0);
        (void)fclose(written);
        (void)unlink(path);
        assert_int_equal(strstr(text, said[0]) != NULL, cancelled);
        assert_int_equal(strstr(text, said[1]) != NULL, !cancelled);
        rota_external_timeline_release(timeline);
        assert_ok(rota_external_timeline_create(runtime, "frames", &timeline));
    }
    release_all(timeline, PLANS(plan), BUFFERS(x));
    assert_ok(rota_runtime_close(runtime, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(from_callback), cmocka_unit_test(by_many), cmocka_unit_test(spread),
        cmocka_unit_test(moved),         cmocka_unit_test(host),    cmocka_unit_test(released),
        cmocka_unit_test(lost),          cmocka_unit_test(closed),  cmocka_unit_test(forgotten),
        cmocka_unit_test(told),          cmocka_unit_test(traced)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
