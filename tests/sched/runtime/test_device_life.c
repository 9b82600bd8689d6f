/* A device's life is one word, which goes by the table alone: what may follow what, as it is drawn in docs, that
 * nothing goes back, and that a loss that comes at any time stays known. */
#include "tests/kit/support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/assert.h"
#include "base/atomic.h"
#include "base/clock.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/shared/device_life.h"
#include "sched/runtime/shared/devices.h"
#include "sched/runtime/shared/loss.h"
#include "tests/kit/assertion.h"

/* docs/drawings/device_life.txt, its arrows and its note. */
static bool is_drawn(rota_life from, rota_life to) {
    switch (from) {
    case ROTA_LIFE_OPENING:
        return to != ROTA_LIFE_OPENING;
    case ROTA_LIFE_OPEN:
        return to == ROTA_LIFE_CLOSING || to == ROTA_LIFE_LOST || to == ROTA_LIFE_QUIET;
    case ROTA_LIFE_CLOSING:
        return to > ROTA_LIFE_CLOSING;
    case ROTA_LIFE_LOST:
        return to > ROTA_LIFE_LOST;
    case ROTA_LIFE_QUIET:
        return to > ROTA_LIFE_QUIET;
    case ROTA_LIFE_CLOSED:
        return to == ROTA_LIFE_ABANDONED;
    default:
        return false;
    }
}

/* Where a device is, and is to be moved to; whether that is a fault of the library's own: nothing that may have
 * come between explains it. */
static bool is_fault(rota_life from, rota_life to) {
    return !is_drawn(from, to) && from < ROTA_LIFE_LOST && to > from;
}

static rota_device *new_device(rota_life life) {
    rota_device *device = aligned_alloc(64, (sizeof *device + 63) / 64 * 64);
    assert_non_null(device);
    memset(device, 0, sizeof *device);
    ra_store_relaxed(&device->life, life);
    return device;
}

static void the_table_is_as_drawn(void **state) {
    (void)state;
    for (rota_life from = 0; from < ROTA_LIVES; from++)
        for (rota_life to = 0; to < ROTA_LIVES; to++) {
            assert_int_equal(rota_life_may_follow(from, to), is_drawn(from, to));
            if (is_fault(from, to)) continue; /* ends the program where assertions are on: below */
            rota_device *device = new_device(from);
            assert_int_equal(rota_device_move(device, to), is_drawn(from, to));
            assert_int_equal(rota_device_life(device), is_drawn(from, to) ? to : from);
            free(device);
        }
}

typedef struct change {
    rota_life from, to;
} change;

static void move(void *user) {
    const change *c = user;
    if (rota_device_move(new_device(c->from), c->to)) _exit(1);
}

static void what_is_not_in_the_table_is_an_assertion(void **state) {
    (void)state;
    uint32_t faults = 0;
    for (rota_life from = 0; from < ROTA_LIVES; from++)
        for (rota_life to = 0; to < ROTA_LIVES; to++) {
            if (!is_fault(from, to)) continue;
            faults++;
            assert_int_equal(test_is_an_assertion(move, &(change){from, to}), ROTA_ASSERTIONS);
        }
    assert_int_equal(faults, 2); /* a device that is open is neither closed nor left but by CLOSING */
}

/* What it was before it was closed or left is known from its cause. */
static void a_lost_device_stays_lost(void **state) {
    (void)state;
    const rota_cause cause = {.status = ROTA_DEVICE_LOST, .number_at = UINT32_MAX, .message = "lost"};
    for (rota_life end = ROTA_LIFE_CLOSED; end <= ROTA_LIFE_ABANDONED; end++)
        for (rota_life life = ROTA_LIFE_CLOSING; life <= ROTA_LIFE_QUIET; life++) {
            const bool is_lost = life != ROTA_LIFE_CLOSING;
            rota_device *device = new_device(life);
            if (is_lost) ra_store_relaxed(&device->lost_cause, &cause);
            assert_int_equal(rota_device_is_lost(device), is_lost);
            assert_true(rota_device_move(device, end));
            assert_int_equal(rota_device_is_lost(device), is_lost);
            free(device);
        }
}

enum { ROUNDS = 2000 };

typedef struct race {
    rota_device *device;
    _Atomic uint32_t round;
    rota_life to;
} race;

static void *moves(void *user) {
    race *r = user;
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        while (ra_load_acquire(&r->round) < i) ra_pause();
        (void)rota_device_move(r->device, r->to);
    }
    return NULL;
}

/* A loss that comes while the device is opened or closed is never covered by that. */
static void a_loss_wins(void **state) {
    (void)state;
    race r = {.device = new_device(ROTA_LIFE_OPENING), .to = ROTA_LIFE_LOST};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, moves, &r), 0);
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        ra_store_relaxed(&r.device->life, ROTA_LIFE_OPENING);
        ra_store_release(&r.round, i);
        (void)rota_device_move(r.device, ROTA_LIFE_OPEN);
        (void)rota_device_move(r.device, ROTA_LIFE_CLOSING);
        const uint64_t deadline = rota_deadline_after(10000000000u);
        while (rota_device_life(r.device) != ROTA_LIFE_LOST && rota_clock_ns() < deadline) ra_pause();
        assert_int_equal(rota_device_life(r.device), ROTA_LIFE_LOST);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    free(r.device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_as_drawn),
        cmocka_unit_test(what_is_not_in_the_table_is_an_assertion),
        cmocka_unit_test(a_lost_device_stays_lost),
        cmocka_unit_test(a_loss_wins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
