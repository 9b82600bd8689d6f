/* Who waits for room has it in turn (base/turns.h), and any number of threads may wait for a timeline's
 * values (base/sleep.h). */
#include "tests/kit/nap.h"
#include "tests/kit/runtime_support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "base/turns.h"
#include "graph/buffer_internal.h"
#include "sched/plan.h"
#include "sched/runtime/shared/runtime.h"

#define MS 1000000ull

/* ---- The turns themselves ---- */

static rota_turns *new_turns(void) {
    rota_turns *turns = aligned_alloc(64, (sizeof *turns + 63) / 64 * 64);
    assert_non_null(turns);
    memset(turns, 0, sizeof *turns);
    return turns;
}

/* Two hundred waiters have their turn one after the other, however often later ones look. */
static void turns_are_in_order(void **state) {
    (void)state;
    enum { COUNT = 200 };
    rota_turns *turns = new_turns();
    uint64_t numbers[COUNT], now = 1000 * MS;
    assert_true(rota_turns_are_none(turns));
    for (uint32_t i = 0; i < COUNT; i++) numbers[i] = rota_turns_take(turns);
    for (uint32_t turn = 0; turn < COUNT; turn++) {
        for (uint32_t i = COUNT; i-- > turn + 1;)
            assert_int_equal(rota_turns_look(turns, numbers[i], true, now), ROTA_TURN_LATER);
        assert_false(rota_turns_lapse(turns, now));
        assert_int_equal(rota_turns_look(turns, numbers[turn], true, now), ROTA_TURN_NOW);
        rota_turns_leave(turns, numbers[turn]);
    }
    assert_true(rota_turns_are_none(turns));
    free(turns);
}

/* Those that give up are passed by at once, at the head, in the middle and at the end. */
static void who_leaves_is_passed_by(void **state) {
    (void)state;
    rota_turns *turns = new_turns();
    uint64_t n[6], now = 1000 * MS;
    for (uint32_t i = 0; i < 6; i++) n[i] = rota_turns_take(turns);
    rota_turns_leave(turns, n[2]);
    rota_turns_leave(turns, n[1]);
    rota_turns_leave(turns, n[5]);
    assert_int_equal(rota_turns_look(turns, n[3], true, now), ROTA_TURN_LATER);
    rota_turns_leave(turns, n[0]);
    assert_int_equal(rota_turns_look(turns, n[3], true, now), ROTA_TURN_NOW);
    rota_turns_leave(turns, n[3]);
    assert_int_equal(rota_turns_look(turns, n[4], true, now), ROTA_TURN_NOW);
    assert_false(rota_turns_are_none(turns));
    rota_turns_leave(turns, n[4]);
    assert_true(rota_turns_are_none(turns));
    free(turns);
}

/* A turn lapses when there was room for it for so long, and only then; its waiter then knows. */
static void a_stopped_waiters_turn_lapses(void **state) {
    (void)state;
    rota_turns *turns = new_turns();
    uint64_t now = 1000 * MS;
    uint64_t stopped = rota_turns_take(turns), waiting = rota_turns_take(turns);
    /* Without room: never. */
    for (uint32_t i = 0; i < 100; i++, now += 10 * MS)
        assert_int_equal(rota_turns_look(turns, waiting, false, now), ROTA_TURN_LATER);
    /* Room that goes away again begins anew. */
    assert_int_equal(rota_turns_look(turns, waiting, true, now), ROTA_TURN_LATER);
    now += ROTA_TURN_LAPSE_NS / 2;
    assert_int_equal(rota_turns_look(turns, waiting, false, now), ROTA_TURN_LATER);
    now += ROTA_TURN_LAPSE_NS;
    assert_int_equal(rota_turns_look(turns, waiting, true, now), ROTA_TURN_LATER);
    now += ROTA_TURN_LAPSE_NS / 2;
    assert_int_equal(rota_turns_look(turns, waiting, true, now), ROTA_TURN_LATER);
    now += ROTA_TURN_LAPSE_NS;
    assert_int_equal(rota_turns_look(turns, waiting, true, now), ROTA_TURN_NOW);
    assert_int_equal(rota_turns_look(turns, stopped, true, now), ROTA_TURN_LAPSED);
    rota_turns_leave(turns, stopped);
    assert_int_equal(rota_turns_look(turns, waiting, true, now), ROTA_TURN_NOW);
    rota_turns_leave(turns, waiting);
    assert_true(rota_turns_are_none(turns));
    /* Calls that don't wait see to it, too, where nobody else does. */
    stopped = rota_turns_take(turns);
    assert_false(rota_turns_lapse(turns, now));
    now += ROTA_TURN_LAPSE_NS / 2;
    assert_false(rota_turns_lapse(turns, now));
    now += ROTA_TURN_LAPSE_NS;
    assert_true(rota_turns_lapse(turns, now));
    assert_int_equal(rota_turns_look(turns, stopped, true, now), ROTA_TURN_LAPSED);
    free(turns);
}

/* Room seen for a number says nothing of those that come long after it, at whatever time. */
static void a_turn_is_not_taken_for_another(void **state) {
    (void)state;
    for (uint64_t later = 1 << 16; later <= 1 << 18; later <<= 1) {
        rota_turns *turns = new_turns();
        uint64_t now = 1000 * MS, number = rota_turns_take(turns), waiting = rota_turns_take(turns);
        assert_int_equal(rota_turns_look(turns, waiting, true, now), ROTA_TURN_LATER);
        for (; number < later; number++) {
            rota_turns_leave(turns, number);
            (void)rota_turns_take(turns);
        }
        now += 2 * ROTA_TURN_LAPSE_NS;
        assert_int_equal(rota_turns_look(turns, number + 1, true, now), ROTA_TURN_LATER);
        assert_int_equal(rota_turns_look(turns, number, true, now), ROTA_TURN_NOW);
        free(turns);
    }
    /* A stopped one's turn lapses whenever somebody comes, however long after room was first seen; and not
     * early where another thread has asked the clock just before. */
    for (uint32_t bits = 20; bits < 63; bits++) {
        rota_turns *turns = new_turns();
        uint64_t now = 1000 * MS, stopped = rota_turns_take(turns), waiting = rota_turns_take(turns);
        assert_int_equal(rota_turns_look(turns, waiting, true, now), ROTA_TURN_LATER);
        assert_int_equal(rota_turns_look(turns, waiting, true, now - 3 * MS), ROTA_TURN_LATER);
        now += (uint64_t)1 << bits;
        (void)rota_turns_look(turns, waiting, true, now);
        (void)rota_turns_look(turns, waiting, true, now + ROTA_TURN_LAPSE_NS / 2);
        now += 2 * ROTA_TURN_LAPSE_NS;
        assert_int_equal(rota_turns_look(turns, waiting, true, now), ROTA_TURN_NOW);
        assert_int_equal(rota_turns_look(turns, stopped, true, now), ROTA_TURN_LAPSED);
        free(turns);
    }
}

/* ---- Room for submissions ---- */

typedef struct queued {
    rota_plan *plan;
    rota_ticket ticket;
    rota_status status;
    uint64_t timeout_ns;
    _Atomic uint32_t is_in;
} queued;

static void *wait_for_room(void *user) {
    queued *q = user;
    q->status = rota_submit_wait(q->plan, NULL, q->timeout_ns, &q->ticket);
    ra_store_seq_cst(&q->is_in, 1);
    return NULL;
}

static void until_next(rota_turns *turns, uint64_t next) {
    const uint64_t deadline = rota_deadline_after(20000 * MS);
    while (ra_load_seq_cst(&turns->next) < next && rota_clock_ns() < deadline) test_nap_us(50);
    assert_true(ra_load_seq_cst(&turns->next) == next);
}

/* More unfinished than a device may have, behind a gate. */
static void fill(rota_plan *gate, rota_plan *plan) {
    test_gate_open(false);
    assert_ok(rota_submit(gate, NULL, NULL));
    rota_status status = ROTA_OK;
    const uint64_t deadline = rota_deadline_after(20000 * MS);
    while (rota_clock_ns() < deadline) {
        status = rota_submit(plan, NULL, NULL);
        if (status == ROTA_BUSY && strstr(rota_last_error(), "works unfinished")) return;
        if (status == ROTA_BUSY) test_nap_us(50);
    }
    fail_msg("the device is never full: %s", rota_status_name(status));
}

enum { WAITERS = 40 };

/* The waiters, and one that takes what it can get without waiting, as fast as it can. False: a waiter did not
 * run for so long that its turn lapsed. */
static bool crowd_waits(runtime_fixture *f, rota_plan *gate, rota_plan *plan) {
    static queued waiters[WAITERS];
    pthread_t threads[WAITERS];
    const uint64_t begin = ra_load_seq_cst(&f->device->turns.next);
    fill(gate, plan);
    for (uint32_t i = 0; i < WAITERS; i++) {
        waiters[i] = (queued){.plan = plan, .timeout_ns = 20000 * MS};
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_room, &waiters[i]), 0);
        until_next(&f->device->turns, begin + i + 1);
    }
    test_gate_open(true);
    rota_ticket greedy = {NULL, 0};
    const uint64_t deadline = rota_deadline_after(20000 * MS);
    while (rota_submit(plan, NULL, &greedy) != ROTA_OK && rota_clock_ns() < deadline) {
    }
    for (uint32_t i = 0; i < WAITERS; i++) (void)pthread_join(threads[i], NULL);
    assert_true(greedy.id != 0);
    uint64_t before = 0, number, greedy_number;
    assert_ok(rota_wait(greedy, 0));
    if (ra_load_seq_cst(&f->device->turns.next) != begin + WAITERS) return false;
    assert_ok(rota_ticket_number(greedy, &greedy_number));
    for (uint32_t i = 0; i < WAITERS; i++) {
        assert_int_equal(waiters[i].status, ROTA_OK);
        assert_ok(rota_wait(waiters[i].ticket, 0));
        assert_ok(rota_ticket_number(waiters[i].ticket, &number));
        if (number <= before || number >= greedy_number)
            fail_msg("waiter %u is number %llu, the one before %llu, and who did not wait %llu", i,
                     (unsigned long long)number, (unsigned long long)before,
                     (unsigned long long)greedy_number);
        before = number;
    }
    return true;
}

/* Forty threads wait: all of them come before who does not, in the order in which they came. */
static void nobody_overtakes_who_waits(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *buffer = test_words(f->device, "x", 4, 0);
    rota_plan *gate = test_plan_1(f->device, "gate", &test_gate, buffer, ROTA_READWRITE);
    rota_plan *plan = test_plan_1(f->device, "inc", &test_increment, buffer, ROTA_READWRITE);
    uint32_t rounds = 0;
    while (!crowd_waits(f, gate, plan))
        if (++rounds == 20) fail_msg("in each of 20 rounds a turn lapsed");
    rota_plan_release(gate);
    rota_plan_release(plan);
    rota_buffer_release(buffer);
}

/* One that took a number and never looks again, and one whose deadline passes: who comes after gets in. */
static void a_waiter_that_stays_away_holds_up_nobody(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *buffer = test_words(f->device, "x", 4, 0);
    rota_plan *gate = test_plan_1(f->device, "gate", &test_gate, buffer, ROTA_READWRITE);
    rota_plan *plan = test_plan_1(f->device, "inc", &test_increment, buffer, ROTA_READWRITE);
    fill(gate, plan);
    (void)rota_turns_take(&f->device->turns);
    queued gives_up = {.plan = plan, .timeout_ns = 5 * MS}, stays = {.plan = plan, .timeout_ns = 20000 * MS};
    (void)wait_for_room(&gives_up);
    assert_int_equal(gives_up.status, ROTA_TIMEOUT);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_room, &stays), 0);
    until_next(&f->device->turns, 3);
    test_gate_open(true);
    (void)pthread_join(thread, NULL);
    assert_int_equal(stays.status, ROTA_OK);
    assert_ok(rota_wait(stays.ticket, 0));
    assert_true(rota_turns_are_none(&f->device->turns));
    assert_ok(rota_submit(plan, NULL, NULL));
    rota_plan_release(gate);
    rota_plan_release(plan);
    rota_buffer_release(buffer);
}

/* ---- Sleepers ---- */

enum { SLEEPERS = 150 };

typedef struct sleepers {
    rota_wait_table table;
    _Atomic uint64_t reached;
    _Atomic uint32_t about_to, returned;
} sleepers;

typedef struct sleeper {
    sleepers *of;
    uint64_t value;
    bool has_asked;
} sleeper;

static bool is_reached(void *user) {
    sleeper *s = user;
    if (!s->has_asked) (void)ra_fetch_add_seq_cst(&s->of->about_to, 1);
    s->has_asked = true;
    return ra_load_seq_cst(&s->of->reached) >= s->value;
}

static void *sleep_for_value(void *user) {
    sleeper *s = user;
    const uint64_t deadline = rota_deadline_after(20000 * MS);
    do rota_wait_table_sleep(&s->of->table, s->value, is_reached, s, deadline);
    while (!is_reached(s) && rota_clock_ns() < deadline);
    (void)ra_fetch_add_seq_cst(&s->of->returned, 1);
    return NULL;
}

static void until(_Atomic uint32_t *count, uint32_t expected) {
    const uint64_t deadline = rota_deadline_after(20000 * MS);
    while (ra_load_seq_cst(count) < expected && rota_clock_ns() < deadline) test_nap_us(50);
    assert_int_equal(ra_load_seq_cst(count), expected);
}

/* A hundred and fifty threads sleep for ten values, and all return with their own. */
static void sleepers_have_no_limit(void **state) {
    (void)state;
    sleepers *all = aligned_alloc(64, (sizeof *all + 63) / 64 * 64);
    assert_non_null(all);
    memset(all, 0, sizeof *all);
    static sleeper each[SLEEPERS];
    static pthread_t threads[SLEEPERS];
    for (uint32_t i = 0; i < SLEEPERS; i++) {
        each[i] = (sleeper){.of = all, .value = 1 + i % 10};
        assert_int_equal(pthread_create(&threads[i], NULL, sleep_for_value, &each[i]), 0);
    }
    until(&all->about_to, SLEEPERS);
    test_nap_us(20000); /* by then they sleep */
    for (uint64_t value = 1; value <= 10; value++) {
        ra_store_seq_cst(&all->reached, value);
        rota_wait_table_wake(&all->table, value);
        until(&all->returned, (uint32_t)value * SLEEPERS / 10);
    }
    for (uint32_t i = 0; i < SLEEPERS; i++) (void)pthread_join(threads[i], NULL);
    free(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_are_in_order),
        cmocka_unit_test(who_leaves_is_passed_by),
        cmocka_unit_test(a_stopped_waiters_turn_lapses),
        cmocka_unit_test(a_turn_is_not_taken_for_another),
        cmocka_unit_test_setup_teardown(nobody_overtakes_who_waits, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(a_waiter_that_stays_away_holds_up_nobody, runtime_setup,
                                        runtime_teardown),
        cmocka_unit_test(sleepers_have_no_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
