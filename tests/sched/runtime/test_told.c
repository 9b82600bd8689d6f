/* Who waits for a ticket that has no point yet, or has a callback for it, is told when it has one and its device is
 * through with it, although the sequencer goes on to another record, which may take it long. */
#include "tests/adversary/adversary.h"
#include "tests/kit/nap.h"
#include "tests/kit/runtime_support.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "sched/runtime/shared/lanes.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/timeline.h"

#define WORDS 64u
#define PATIENCE_NS 20000000000u
/* A sleeper looks again by itself after twice as long. */
#define LATE_NS 50000000u
enum { ROUNDS = 7 };

/* The sequencer halts three times: until all records of a round are published; when the works of the first are handed
 * on and its ticket has no point yet; and before the second. */
static _Atomic uint32_t hooks, halts, published, is_over, goes_on;

static void await(const _Atomic uint32_t *word) {
    const uint64_t deadline = rota_deadline_after(PATIENCE_NS);
    while (!ra_load_seq_cst(word) && rota_clock_ns() < deadline) test_nap_us(100);
}

static void before_second(void *user, const rota_stop_site *site) {
    (void)user;
    if (strcmp(site->function, "rota_submission_publish") == 0) {
        ra_store_seq_cst(&halts, 2);
        await(&is_over);
    } else if (strcmp(site->function, "rota_lane_take") == 0 && ra_load_seq_cst(&halts) == 2) {
        rota_stop_hook = NULL;
        ra_store_seq_cst(&halts, 3);
        await(&goes_on);
    }
}

/* Of the second device, whose driver the sequencer itself calls. */
static void on_submit(void *user, uint32_t device) {
    (void)user;
    if (device != 1 || !ra_exchange_acq_rel(&hooks, 0)) return;
    ra_store_seq_cst(&halts, 1);
    await(&published);
    rota_stop_hook = before_second;
}

static void await_halt(uint32_t count) {
    const uint64_t deadline = rota_deadline_after(PATIENCE_NS);
    while (ra_load_seq_cst(&halts) < count && rota_clock_ns() < deadline) test_nap_us(100);
    assert_int_equal(ra_load_seq_cst(&halts), count);
}

typedef struct waiter {
    rota_ticket ticket;
    rota_status status;
    _Atomic uint32_t told;
} waiter;

static void *wait_for_ticket(void *user) {
    waiter *w = user;
    w->status = rota_wait(w->ticket, PATIENCE_NS);
    ra_store_seq_cst(&w->told, 1);
    return NULL;
}

static void called(void *user, rota_status status, const char *message) {
    waiter *w = user;
    (void)message;
    w->status = status;
    ra_store_seq_cst(&w->told, 1);
}

typedef struct world {
    adversary_options options;
    rota_runtime *runtime;
    rota_plan *first, *second; /* the first device's, and the one's that is called by the sequencer */
} world;

static bool is_asleep(const world *w, const waiter *of, bool by_callback) {
    if (by_callback)
        return ra_load_seq_cst(&w->runtime->completing.awaits) &&
               ra_load_seq_cst(&w->runtime->completing.sleeper.asleep);
    return ra_load_seq_cst(&rota_lane_at(&w->runtime->lanes, rota_ticket_lane(of->ticket.id))->sleepers) != 0;
}

static void await_sleep(const world *w, const waiter *of, bool by_callback) {
    const uint64_t deadline = rota_deadline_after(PATIENCE_NS);
    while (!is_asleep(w, of, by_callback) && rota_clock_ns() < deadline) (void)sched_yield();
}

/* How long after it has its point, which its device was through with before, a ticket's waiter is told, or its callback
 * called. */
static uint64_t lateness(world *w, bool by_callback) {
    waiter of = {.status = ROTA_BUSY};
    rota_ticket before, after;
    pthread_t thread;
    ra_store_seq_cst(&halts, 0);
    ra_store_seq_cst(&published, 0);
    ra_store_seq_cst(&is_over, 0);
    ra_store_seq_cst(&goes_on, 0);
    /* The submit thread is in the driver, and awake. */
    atomic_store(&w->options.faults.submits_stay, 1);
    assert_ok(rota_submit_wait(w->first, NULL, 0, NULL));
    ra_store_seq_cst(&hooks, 1);
    assert_ok(rota_submit_wait(w->second, NULL, 0, &before));
    await_halt(1);
    assert_ok(rota_submit_wait(w->first, NULL, 0, &of.ticket));
    assert_ok(rota_submit_wait(w->second, NULL, 0, &after));
    if (by_callback)
        assert_ok(rota_ticket_on_complete(of.ticket, called, &of));
    else
        assert_int_equal(pthread_create(&thread, NULL, wait_for_ticket, &of), 0);
    await_sleep(w, &of, by_callback);
    ra_store_seq_cst(&published, 1);
    await_halt(2);
    atomic_store(&w->options.faults.submits_stay, 0);
    const uint64_t deadline = rota_deadline_after(PATIENCE_NS);
    const rota_timeline *timelines = w->runtime->devices[0]->timelines;
    for (uint32_t q = 0; q < w->runtime->queue_count; q++)
        while (ra_load_seq_cst(&timelines[q].completed) < ra_load_seq_cst(&timelines[q].issued) &&
               rota_clock_ns() < deadline)
            test_nap_us(100);
    test_nap_us(2000); /* the completer has looked again, in vain, and sleeps */
    await_sleep(w, &of, by_callback);
    const uint64_t begin = rota_clock_ns();
    ra_store_seq_cst(&is_over, 1);
    await(&of.told);
    const uint64_t took = rota_clock_ns() - begin;
    ra_store_seq_cst(&goes_on, 1);
    if (!by_callback) assert_int_equal(pthread_join(thread, NULL), 0);
    assert_status(of.status, ROTA_OK);
    assert_ok(rota_wait(before, 0));
    assert_ok(rota_wait(after, 0));
    return took;
}

static void told_while_others_are_sequenced(bool by_callback) {
    world w = {.options = {.seed = 3, .quiet_ns = 1}};
    rota_device *first, *second;
    assert_ok(adversary_runtime_open(
        &w.options, &ROTA_RUNTIME_OPTIONS(.timeout_ns = 4 * (uint64_t)PATIENCE_NS), &w.runtime));
    assert_ok(rota_device_open(w.runtime, "adversary", &first));
    w.options.submit_never_blocks = true;
    assert_ok(rota_device_open(w.runtime, "adversary:1", &second));
    rota_buffer *x = test_words(first, "x", WORDS, 1), *y = test_words(second, "y", WORDS, 1);
    test_expect_words(x, WORDS, 1);
    test_expect_words(y, WORDS, 1);
    w.first = test_plan_1(first, "first", &test_increment, x, ROTA_READWRITE);
    w.second = test_plan_1(second, "second", &test_increment, y, ROTA_READWRITE);
    atomic_store(&w.options.on_submit, on_submit);
    uint32_t late = 0;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        const uint64_t took = lateness(&w, by_callback);
        print_message("%.3f ms\n", (double)took * 1e-6);
        late += took > LATE_NS;
    }
    if (late > ROUNDS / 2) fail_msg("%u of %d were told more than 50 ms late", late, ROUNDS);
    test_expect_words(x, WORDS, 1 + 2 * ROUNDS);
    atomic_store(&w.options.on_submit, NULL);
    rota_plan_release(w.first);
    rota_plan_release(w.second);
    rota_buffer_release(x);
    rota_buffer_release(y);
    assert_ok(rota_runtime_close(w.runtime, PATIENCE_NS));
    if (w.options.violations) fail_msg("%s", w.options.violation);
}

static void a_waiter_is_told(void **state) {
    (void)state;
    told_while_others_are_sequenced(false);
}
static void a_callback_is_called(void **state) {
    (void)state;
    told_while_others_are_sequenced(true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_waiter_is_told),
        cmocka_unit_test(a_callback_is_called),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
